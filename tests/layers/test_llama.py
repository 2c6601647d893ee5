import copy
import json

import numpy as np
import pytest
import torch

from attnlib import Llama, generate, llama_from_meta


@pytest.fixture(autouse=True)
def a_random_state_of_its_own():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def a_model(**settings):
    model = Llama(**{"vocab_size": 29, "dim": 16, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "hidden": 24}
                  | settings)  # fmt: skip
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0 if parameter.ndim > 1 else 1, 0.3)
    return model


def from_golden(golden):
    g = golden("llama3_transformer")
    state = {name.removeprefix("p."): g[name] for name in g.files if name.startswith("p.")}
    return llama_from_meta(state, json.loads(str(g["meta"]))["cfg"]), g, torch.from_numpy(g["in_tokens"])


@torch.no_grad()
def in_pieces(model, tokens, pieces, mask=None):
    cache, outs, start = model.new_cache(*tokens.shape), [], 0
    for length in pieces:
        at = slice(start, start + length)
        outs.append(model(tokens[:, at], None if mask is None else mask[:, at], cache=cache))
        start += length
    return torch.cat(outs, 1)


def test_agrees_with_the_golden_model(golden):
    model, g, tokens = from_golden(golden)
    close = {"rtol": 2e-4, "atol": 2e-5}
    with torch.no_grad():
        np.testing.assert_allclose(model(tokens), g["out_full"], **close)
        cache = model.new_cache(2, 8)
        np.testing.assert_allclose(model(tokens[:, :5], cache=cache), g["out_prefill5"], **close)
        keys = cache.layers[0].keys[:, :, :5].transpose(1, 2)
        np.testing.assert_allclose(keys, g["out_cache_k0"], **close)
        decoded = torch.cat([model(tokens[:, i : i + 1], cache=cache) for i in range(5, 8)], 1)
    np.testing.assert_allclose(decoded, g["out_decode"], **close)
    np.testing.assert_allclose(in_pieces(model, tokens, (3, 5))[:, 3:], g["out_chunk2"], **close)


@pytest.mark.parametrize("pieces", [(1,) * 12, (12,), (5, 1, 1, 5), (1, 11), (11, 1), (4, 4, 4)])
def test_pieces_of_any_length_give_what_the_whole_gives(pieces):
    model, tokens = a_model().double(), torch.randint(29, (3, 12))
    with torch.no_grad():
        whole = model(tokens)
    assert (in_pieces(model, tokens, pieces) - whole).abs().max() < 1e-13 * max(1, whole.abs().max())
    mask = torch.rand(3, 12) < 0.7
    mask[0], mask[:, 6] = True, True
    with torch.no_grad():
        whole = model(tokens, mask)
    error = (in_pieces(model, tokens, pieces, mask) - whole)[mask].abs().max()
    assert error < 1e-13 * max(1, whole.abs().max())


@pytest.mark.parametrize("kind", ["left", "right", "scattered"])
@pytest.mark.parametrize("pieces", [None, (1,) * 9, (2, 4, 3)])
def test_each_sequence_of_a_padded_batch_gets_what_it_gets_alone(kind, pieces):
    model, lengths = a_model().double(), [4, 9, 1]
    rows = [torch.randint(29, (n,)) for n in lengths]
    tokens, mask = torch.full((3, 9), 7), torch.zeros(3, 9, dtype=torch.bool)
    for i, row in enumerate(rows):
        at = {"left": range(9 - len(row), 9), "right": range(len(row)),
              "scattered": sorted(torch.randperm(9)[: len(row)].tolist())}[kind]  # fmt: skip
        tokens[i, list(at)], mask[i, list(at)] = row, True
    with torch.no_grad():
        together = model(tokens, mask) if pieces is None else in_pieces(model, tokens, pieces, mask)
        for i, row in enumerate(rows):
            np.testing.assert_allclose(together[i, mask[i]], model(row[None])[0], atol=1e-11)
    assert together.isfinite().all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_going_on_after_padding(side):
    """Padding may come first, and tokens of all sequences after it."""
    model, rows, after = a_model().double(), [[3, 1, 4], [2]], torch.tensor([[5, 9], [11, 12]])
    tokens = torch.tensor([[3, 1, 4], [0, 0, 2] if side == "left" else [2, 0, 0]])
    mask = torch.tensor([[True] * 3, [False, False, True] if side == "left" else [True, False, False]])
    with torch.no_grad():
        cache = model.new_cache(2, 5)
        model(tokens, mask, cache=cache)
        out = torch.cat([model(after[:, i : i + 1], cache=cache) for i in range(2)], 1)
        for i, row in enumerate(rows):
            alone = model(torch.tensor([row + after[i].tolist()]))[0, -2:]
            np.testing.assert_allclose(out[i], alone, atol=1e-11)
        # and the other way round: padding after a piece that had none
        late = model.new_cache(2, 4)
        model(after, cache=late)
        out = model(torch.tensor([[1, 2], [8, 3]]), torch.tensor([[True, True], [False, True]]), cache=late)
        np.testing.assert_allclose(out[1, 1], model(torch.tensor([[11, 12, 3]]))[0, -1], atol=1e-11)
        np.testing.assert_allclose(out[0], model(torch.tensor([[5, 9, 1, 2]]))[0, -2:], atol=1e-11)


def test_no_token_sees_a_later_one():
    model, tokens = a_model(), torch.randint(29, (1, 8))
    other = tokens.clone()
    other[0, 5] = (other[0, 5] + 1) % 29
    with torch.no_grad():
        changed = (model(tokens) - model(other)).abs().amax(-1)[0] > 1e-6
    assert changed.tolist() == [False] * 5 + [True] * 3


def test_weights_of_all_layers():
    model, tokens = a_model(), torch.randint(29, (2, 6))
    with torch.no_grad():
        logits, weights = model(tokens, return_weights=True)
        torch.testing.assert_close(logits, model(tokens), atol=1e-5, rtol=1e-5)
        cache = model.new_cache(2, 6)
        model(tokens[:, :5], cache=cache)
        _, last = model(tokens[:, 5:], cache=cache, return_weights=True)
    assert len(weights) == 3 and weights[0].shape == (2, 4, 6, 6) and last[0].shape == (2, 4, 1, 6)
    for whole, one in zip(weights, last, strict=True):
        torch.testing.assert_close(whole.sum(-1), torch.ones(2, 4, 6))
        assert not whole.triu(1).any()
        torch.testing.assert_close(whole[:, :, 5:], one, atol=1e-5, rtol=1e-5)


def test_scaled_rotation_and_base_act():
    tokens, models = torch.randint(29, (1, 40)), [a_model()]
    for settings in ({}, {"factor": 32.0, "original_max_position_embeddings": 16}, None):
        models.append(a_model(rope_scaling=settings, rope_base=500.0 if settings is None else 5e5))
        models[-1].load_state_dict(models[0].state_dict())
    with torch.no_grad():
        plain, llama31, short, other_base = (model(tokens) for model in models)
    assert (plain - short).abs().max() > 1e-3 and (plain - other_base).abs().max() > 1e-3
    assert (plain - llama31)[:, 0].abs().max() < 1e-6 < (plain - llama31).abs().max()


def test_tied_weights_are_one_parameter():
    tied, untied = a_model(tied=True), a_model()
    assert "output.weight" not in tied.state_dict() and "output.weight" in untied.state_dict()
    untied.load_state_dict(tied.state_dict() | {"output.weight": tied.tok_embeddings.weight})
    tokens = torch.randint(29, (1, 5))
    torch.testing.assert_close(tied(tokens), untied(tokens))
    copied = copy.deepcopy(tied)
    copied(tokens).sum().backward()
    assert copied.tok_embeddings.weight.grad.abs().sum() > 0


def test_first_values_and_learning():
    torch.manual_seed(3)
    model = Llama(30, 32, 2, 4, 2, hidden=64)
    assert abs(float(model.layers[1].feed_forward.w1.weight.detach().std()) - 0.02) < 0.002
    assert (model.norm.weight == 1).all()
    tokens = torch.tensor([[1, 2, 3, 4, 5, 1, 2, 3, 4, 5]])
    model.generate(tokens, 1)  # what generation leaves behind must not hinder training
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1])[0], tokens[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1
    assert model.generate([[3], [1, 2]], 6) == [[4, 5, 1, 2, 3, 4], [3, 4, 5, 1, 2, 3]]
    for stop in (1, np.int64(1), torch.tensor(1), [1], {np.int64(1), 0}):
        assert model.generate([[3], [1, 2]], 6, stop=stop) == [[4, 5], [3, 4, 5]]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.9, "top_k": 9, "seed": [3, 1, 4]}])
def test_generation_is_that_without_a_cache_and_each_prompt_gets_what_it_gets_alone(settings):
    model, prompts = a_model().double(), [[4, 8, 15, 16], [23], [4, 2]]
    batch = model.generate(prompts, 7, **settings)
    for i, prompt in enumerate(prompts):
        read = []

        @torch.no_grad()
        def step(tokens, mask, read=read):
            read.append(tokens)
            return model(torch.cat(read, 1))[:, -1]

        alone = settings | ({"seed": settings["seed"][i]} if settings else {})
        assert generate(step, torch.tensor([prompt]), 7, **alone)[0].tolist() == batch[i]
        assert model.generate([prompt], 7, **alone) == [batch[i]]
        assert model.generate(torch.tensor([prompt]), 7, **alone) == [batch[i]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_close_to_single(dtype):
    model, tokens = a_model(), torch.randint(29, (2, 9))
    with torch.no_grad():
        wanted = model(tokens)
        model = model.to(dtype)
        got = in_pieces(model, tokens, (4, 1, 4))
    assert got.dtype == dtype
    assert (got - wanted).abs().max() < 0.1 * wanted.abs().max()


def test_errors_name_what_is_wrong():
    model = a_model()
    tokens = torch.tensor([[1, 2, 3]])
    for call, error, says in (
        (lambda: Llama(0, 8, 1, 2), ValueError, "vocab_size must be at least 1"),
        (lambda: Llama(9, 8, 0, 2), ValueError, "n_layers must be at least 1"),
        (lambda: Llama(9, 8, 1, 3), ValueError, "dim 8 does not divide into 3 heads"),
        (lambda: Llama(9, 8, 1, 2, rope_base=-1), ValueError, "base must be positive"),
        (lambda: Llama(9, 8, 1, 2, rope_scaling=8), TypeError, "rope_scaling must be a dict"),
        (lambda: Llama(9, 8, 1, 2, rope_scaling={"factor": 0}), ValueError, "factor must be positive"),
        (lambda: model([[1]]), TypeError, "tokens must be a torch tensor of int32 or int64; got list"),
        (lambda: model(tokens * 1.0), TypeError, "int32 or int64; got torch.float32"),
        (lambda: model(tokens[0]), ValueError, r"tokens must have shape \(B, T\), not empty; got \(3,\)"),
        (lambda: model(tokens + 27), ValueError, r"tokens must lie in 0 .. 28; got 30"),
        (lambda: model(tokens - 2), ValueError, r"tokens must lie in 0 .. 28; got -1"),
        (lambda: model(tokens, tokens), ValueError, "mask must be boolean, True for real tokens"),
        (lambda: model(tokens, tokens[:, :2] > 0), ValueError, r"shape of tokens, \(1, 3\)"),
        (lambda: model(tokens, [[True] * 3]), TypeError, "mask must be a torch tensor; got list"),
        (lambda: model(tokens, cache=model.new_cache(1, 2)), ValueError, "room for 2 tokens and holds 0"),
        (lambda: model(tokens, cache=model.new_cache(2, 5)), ValueError, "is for 2 sequences; got 1"),
        (lambda: model(tokens, cache=a_model(n_layers=1).new_cache(1, 5)), ValueError, "for 1 layers"),
        (lambda: model.generate([[1], []], 2), ValueError, "prompts must be .* none of them empty"),
        (lambda: model.generate([], 2), ValueError, "prompts must be one or more"),
        (lambda: model.generate([[0.5]], 2), ValueError, "prompts must be .* token ids"),
        (lambda: model.generate("abc", 2), TypeError, "prompts must be sequences of token ids; got 'abc'"),
        (lambda: model.generate(5, 2), TypeError, "got 5"),
        (lambda: model.generate([[1]], 0), ValueError, "n_new must be at least 1"),
        (lambda: model.generate([[1]], 2, temperature=-1), ValueError, "temperature must be at least 0"),
    ):
        with pytest.raises(error, match=says):
            call()


def test_a_refused_call_leaves_the_cache_as_it_was():
    model, cache = a_model(), a_model().new_cache(1, 4)
    with torch.no_grad():
        for wrong in (torch.tensor([[99]]), torch.ones(1, 5).long(), torch.ones(2, 1).long()):
            with pytest.raises(ValueError):
                model(wrong, cache=cache)
        assert cache.length == 0 and cache.real is None
