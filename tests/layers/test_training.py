import pytest
import torch

from attnlib import Transformer, cosine_rate, train


def reversal(seed=0):
    """Sentences of six words, and the same from the last to the first."""
    draw = torch.Generator().manual_seed(seed)
    while True:
        src = torch.randint(3, 11, (32, 6), generator=draw)
        ends = torch.ones(32, 1, dtype=torch.int64)
        yield src, torch.cat([ends, src.flip(1), 2 * ends], 1)


def small(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Transformer(11, d_model=32, num_heads=4, num_layers=1, d_ff=64, dropout=0.0, norm_first=True)


def test_it_learns_and_gives_a_loss_a_step():
    losses = list(train(small(), reversal(), steps=120, rate=1e-2, warm_up=20))
    assert len(losses) == 120 and losses[0] > 3 > 1.2 > sum(losses[-10:]) / 10


def test_a_step_is_taken_when_its_loss_is_asked_for():
    model = small()
    before = [x.clone() for x in model.parameters()]
    steps = train(model, reversal(), steps=5, warm_up=1)
    assert all(torch.equal(x, y) for x, y in zip(before, model.parameters(), strict=True))
    next(steps)
    assert not all(torch.equal(x, y) for x, y in zip(before, model.parameters(), strict=True))
    assert model.training
    list(steps)
    assert not model.training


def test_the_same_batches_give_the_same_model():
    first, second = small(), small()
    assert list(train(first, reversal(), steps=4)) == list(train(second, reversal(), steps=4))
    assert all(map(torch.equal, first.parameters(), second.parameters()))


def test_padding_counts_for_nothing():
    rows = next(reversal())
    wider = [torch.cat([x, torch.zeros_like(x[:, :3])], 1) for x in rows]
    first, second = (next(train(small(), [batch], steps=1)) for batch in (rows, wider))
    assert first == pytest.approx(second, abs=1e-6)


def test_numpy_batches_do_as_well():
    rows = next(reversal())
    first, second = (next(train(small(), [b], steps=1)) for b in (rows, [x.numpy() for x in rows]))
    assert first == second


def test_the_rate_is_that_of_the_schedule(monkeypatch):
    seen, step = [], torch.optim.AdamW.step

    def watched(self, *args):
        seen.append(self.param_groups[0]["lr"])
        return step(self, *args)

    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    list(train(small(), reversal(), steps=6, rate=0.5, warm_up=2))
    assert seen == pytest.approx([cosine_rate(n, 7, 2, 0.5) for n in range(1, 7)])
    assert seen[1] == 0.5 and seen[-1] > 0


def test_betas_and_decay_are_those_of_the_docstring(monkeypatch):
    made, adamw = [], torch.optim.AdamW

    def watched(*args, **settings):
        made.append(settings)
        return adamw(*args, **settings)

    monkeypatch.setattr(torch.optim, "AdamW", watched)
    for decay in (0.01, 0.3):
        list(train(small(), reversal(), steps=1, **({} if decay == 0.01 else {"weight_decay": decay})))
        assert made[-1]["betas"] == (0.9, 0.98) and made[-1]["weight_decay"] == decay


def test_steps_are_a_number():
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        next(train(small(), reversal(), steps=0))
