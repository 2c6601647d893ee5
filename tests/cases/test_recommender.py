from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from attnlib import NextItemModel, RefinedAttention, future_leaks, next_item_accuracy, train_next_item
from attnlib.datasets import generated_sessions, shop_sessions

SHOP = shop_sessions()


def a_model(seed=0, **settings):
    torch.manual_seed(seed)
    return NextItemModel(32, 16, 8, **settings)


def test_a_model_trained_for_seconds_knows_what_sessions_written_by_hand_call_for():
    model = a_model()
    before = next_item_accuracy(model, SHOP.items, SHOP.decided)
    losses = train_next_item(model, generated_sessions(1000).items, steps=200)
    assert before < 0.3 and next_item_accuracy(model, SHOP.items, SHOP.decided) > 0.9
    assert len(losses) == 200 and losses[-1] < losses[0] / 2
    # What nothing calls for stays a guess.
    assert next_item_accuracy(model, SHOP.items, ~SHOP.decided) < 0.5


def test_training_is_the_same_again_and_draws_from_no_global_state():
    items, runs = generated_sessions(50).items, []
    for _ in range(2):
        model = a_model()
        state = torch.get_rng_state()
        runs.append(train_next_item(model, items, steps=5, seed=3))
        assert torch.equal(state, torch.get_rng_state())
    assert runs[0] == runs[1]
    assert runs[0] != train_next_item(a_model(), items, steps=5, seed=4)


def test_the_loss_is_that_of_items_and_padding_counts_nothing():
    model, items = a_model(dtype=torch.float64), torch.tensor([[3, 1, 4, 0, 0]])
    (loss,) = train_next_item(model, items, steps=1, batch_size=1, rate=0.0)
    scores = model(items).detach()[0]
    wanted = -np.mean([scores[i].log_softmax(-1)[items[0, i + 1]] for i in range(2)])
    assert loss == pytest.approx(wanted)


def test_the_rate_falls_in_a_straight_line():
    items, (model, by_hand) = generated_sessions(20).items, (a_model(), a_model())
    train_next_item(model, items, steps=4, batch_size=5, rate=0.02, seed=1)
    optimizer, rng = torch.optim.AdamW(by_hand.parameters()), np.random.default_rng(1)
    for rate in (0.02, 0.015, 0.01, 0.005):
        optimizer.param_groups[0]["lr"] = rate
        batch = torch.from_numpy(items[rng.integers(20, size=5)])
        losses = -by_hand(batch[:, :-1]).log_softmax(-1).gather(-1, batch[:, 1:, None])[..., 0]
        optimizer.zero_grad()
        losses[batch[:, 1:] > 0].mean().backward()
        optimizer.step()
    for got, want in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_scores_are_those_of_the_blocks_one_after_the_other():
    model, ids = a_model(dtype=torch.float64, n_layers=2), torch.tensor([[3, 1, 3, 4, 0], [9, 8, 7, 6, 5]])
    x = model.items.weight[ids] + model.positions.weight[:5]
    for block in model.blocks:
        x = x + block.attention(block.norm1(x))
        x = x + block.feed_forward(block.norm2(x))
    scores = model(ids)
    torch.testing.assert_close(scores[..., 1:], model.norm(x) @ model.items.weight[1:].T)
    scores[..., 1:].square().sum().backward()
    assert (model.items.weight.grad[20] != 0).any()  # one that nobody bought learns as an answer


def test_scores_depend_on_earlier_items_alone():
    model = a_model(dtype=torch.float64, n_layers=2)
    ids = torch.tensor([5, 1, 30, 7, 7, 2])

    def scores(ids):
        return model(ids[None])[0, :, 1:]

    assert future_leaks(scores, ids, replacements=torch.arange(1, 33)) == []
    assert scores(ids)[3].ne(scores(ids)[4]).any()  # the same item, at another place


def test_an_items_vector_is_what_it_is_recognised_by():
    model = a_model()
    with torch.no_grad():
        model.items.weight[9] = 2 * model.items.weight[8]
        scores = model(torch.tensor([[1, 2]]))[0, -1]
    torch.testing.assert_close(scores[9], 2 * scores[8])
    assert scores[0] == -torch.inf and torch.isfinite(scores[1:]).all()
    assert (model.items.weight[0] == 0).all()


def test_the_attention_is_called_for_once_a_block():
    made = []

    class Last(nn.Module):
        def forward(self, x):
            return x.cumsum(1)

    def attention():
        made.append(Last())
        return made[-1]

    model = a_model(attention=attention, n_layers=3)
    assert len(made) == 3 and [block.attention for block in model.blocks] == made
    refined = partial(RefinedAttention, 16, 2, 8, "additive")
    model = a_model(attention=refined)
    train_next_item(model, generated_sessions(50).items, steps=2)
    assert torch.isfinite(model(torch.from_numpy(SHOP.items))[..., 1:]).all()


def test_accuracy_counts_what_is_asked():
    class Always(nn.Module):
        def forward(self, ids):
            return nn.functional.one_hot(torch.full_like(ids, 7), 33).float()

    items = np.array([[7, 7, 1, 7], [2, 7, 0, 0]])
    assert next_item_accuracy(Always(), items) == pytest.approx(3 / 4)
    asked = np.array([[True, False, True, False], [True, True, True, True]])
    assert next_item_accuracy(Always(), items, asked) == pytest.approx(1 / 2)


MODEL = a_model()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: NextItemModel(0, 16, 8), ValueError, ["n_items must be at least 1"]),
        (lambda: NextItemModel(3, 16, 8, lambda: "none"), TypeError, ["attention must make a torch", "str"]),
        (lambda: NextItemModel(3, 16, 8, n_layers=0), ValueError, ["n_layers must be at least 1"]),
        (lambda: MODEL(SHOP.items), TypeError, ["ids must be a torch tensor", "ndarray"]),
        (lambda: MODEL(torch.ones(2, 9, dtype=torch.int64)), ValueError, ["L up to 8", "(2, 9)"]),
        (lambda: MODEL(torch.tensor([[1, 33]])), ValueError, ["ids must lie in 0 .. 32", "1 .. 33"]),
        (lambda: MODEL(torch.tensor([[-1, 3]])), ValueError, ["ids must lie in 0 .. 32", "-1 .. 3"]),
        (lambda: train_next_item(MODEL, SHOP.items, steps=0), ValueError, ["steps must be at least 1"]),
        (lambda: train_next_item(MODEL, SHOP.items, batch_size=0), ValueError, ["batch_size must be at"]),
        (lambda: train_next_item(MODEL, [[1, 2]]), TypeError, ["items must be an array", "list"]),
        (lambda: train_next_item(MODEL, SHOP.items / 2), TypeError, ["items must hold ids", "float64"]),
        (lambda: train_next_item(MODEL, SHOP.items[:0]), ValueError, ["items must have shape", "(0, 8)"]),
        (lambda: next_item_accuracy(MODEL, SHOP.items[:, :1]), ValueError, ["two places", "(72, 1)"]),
        (lambda: next_item_accuracy(MODEL, SHOP.items, [True]), ValueError, ["asked must have", "list"]),
        (
            lambda: next_item_accuracy(MODEL, SHOP.items, SHOP.decided[:3]),
            ValueError,
            ["asked must have the shape of items", "(3, 8)"],
        ),
        (
            lambda: next_item_accuracy(MODEL, SHOP.items, SHOP.decided & False),
            ValueError,
            ["asked must name at least one"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
