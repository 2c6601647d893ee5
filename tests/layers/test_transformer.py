import copy
import json

import numpy as np
import pytest
import torch

from attnlib import (
    AnnotatedLayerNorm,
    DecoderCache,
    Transformer,
    causal_mask,
    from_annotated_transformer,
    greedy_decode,
    label_smoothing_loss,
    sinusoidal_positions,
    teacher_forcing,
)


@pytest.fixture(autouse=True)
def a_random_state_of_its_own():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def model(src_vocab=11, tgt_vocab=13, *, spread=0.3, **settings):
    """A small model whose parameters, biases and norms too, are none of them at rest."""
    sizes = {"d_model": 16, "num_heads": 4, "num_layers": 2, "d_ff": 32, "dropout": 0.0}
    made = Transformer(src_vocab, tgt_vocab, **sizes | settings)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return made


# the golden file


@pytest.fixture
def annotated(golden):
    """The arrays, and the model with their parameters."""
    file = golden("transformer_annotated")
    g = {name: torch.from_numpy(file[name]) for name in file.files if name != "meta"}
    cfg = json.loads(str(file["meta"]))["cfg"]
    ours = Transformer(
        cfg["src_vocab"], cfg["tgt_vocab"], d_model=cfg["d_model"], num_heads=cfg["h"], num_layers=cfg["N"],
        d_ff=cfg["d_ff"], norm_first=True, norm=AnnotatedLayerNorm, tied=False, pad_id=cfg["pad"],
        dtype=torch.float64,
    ).eval()  # fmt: skip
    state = {name[2:]: x for name, x in g.items() if name.startswith("p.")}
    ours.load_state_dict(from_annotated_transformer(state | {"src_embed.1.pe": g["in_pe"]}))
    return g, ours


def test_agrees_with_the_golden_annotated_transformer(annotated):
    g, ours = annotated
    torch.testing.assert_close(ours(g["in_src"], g["in_tgt"][:, :-1]).log_softmax(-1), g["out_logprob"],
                               rtol=1e-5, atol=1e-6)  # their table of positions is rounded to float32
    ours.positions = g["in_pe"][0]
    inputs, targets = teacher_forcing(g["in_tgt"], 2)
    memory, mask = ours.encode(g["in_src"])
    assert torch.equal(mask[:, 0], g["out_src_mask"])
    torch.testing.assert_close(memory, g["out_memory"], rtol=1e-9, atol=1e-11)
    real = (inputs != 2)[:, None, None]
    assert torch.equal((real & causal_mask(5, like=memory))[:, 0], g["out_tgt_mask"])
    x = ours.tgt_embedding(inputs) + g["in_pe"][:, :5]
    decoded = ours.decoder(x, memory, real, mask)
    torch.testing.assert_close(decoded, g["out_decoder"], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(sinusoidal_positions(12, 16, like=memory), g["in_pe"][0], rtol=0, atol=1e-6)
    logits = ours(g["in_src"], inputs)
    torch.testing.assert_close(logits.log_softmax(-1), g["out_logprob"], rtol=1e-9, atol=1e-11)
    assert (targets != 2).sum() == g["out_ntokens"]
    loss = label_smoothing_loss(logits, targets, 0.1, pad_id=2, over="others", minus_entropy=True)
    torch.testing.assert_close(loss, g["out_loss"], rtol=1e-9, atol=1e-11)
    loss.backward()
    queries, values = slice(0, 16), slice(32, 48)
    for theirs, name, rows in (
        ("encoder.layers.0.self_attn.linears.0.weight", "encoder.layers.0.self_attn.in_proj_weight", queries),
        ("encoder.norm.a_2", "encoder.norm.weight", slice(None)),
        ("decoder.layers.1.src_attn.linears.2.bias", "decoder.layers.1.cross_attn.in_proj_bias", values),
        ("src_embed.0.lut.weight", "src_embedding.weight", slice(None)),
        ("tgt_embed.0.lut.weight", "tgt_embedding.weight", slice(None)),
        ("generator.proj.weight", "output.weight", slice(None)),
    ):
        got = ours.get_parameter(name).grad[rows]
        torch.testing.assert_close(got, g[f"g.{theirs}"], rtol=1e-8, atol=1e-11)


def test_writes_what_the_golden_annotated_transformer_writes(annotated):
    g, ours = annotated
    assert greedy_decode(ours, g["in_src"][:1], bos_id=1, max_len=8).tolist() == g["out_greedy"].tolist()


# padding and pieces


def padded(sentences, width, side, pad_id=0):
    rows = [[pad_id] * (width - len(s)) + s if side == "left" else s + [pad_id] * (width - len(s))
            for s in sentences]  # fmt: skip
    return torch.tensor(rows)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("src_side", ["left", "right"])
@pytest.mark.parametrize("tgt_side", ["left", "right"])
@pytest.mark.parametrize("pad_id", [0, 5])
def test_a_batch_gives_each_sentence_what_it_gets_alone(src_side, tgt_side, norm_first, pad_id):
    ours = model(norm_first=norm_first, pad_id=pad_id, dtype=torch.float64)
    sources, targets = [[3, 1, 4], [1], [9, 2, 6, 8, 3, 10]], [[1, 7, 8, 9], [1, 7], [1, 12, 11, 3, 2]]
    src, tgt = padded(sources, 8, src_side, pad_id), padded(targets, 7, tgt_side, pad_id)
    inputs, wanted = teacher_forcing(tgt, pad_id)
    loss = label_smoothing_loss(ours(src, inputs), wanted, pad_id=pad_id)
    slopes = torch.autograd.grad(loss, list(ours.parameters()))
    together, alone, count = ours(src, tgt), 0, 0
    assert together.isfinite().all() and all(s.isfinite().all() for s in slopes)
    for n, (source, target) in enumerate(zip(sources, targets, strict=True)):
        one = ours(torch.tensor([source]), torch.tensor([target]))
        torch.testing.assert_close(together[n][tgt[n] != pad_id], one[0], rtol=1e-10, atol=1e-12)
        mine = label_smoothing_loss(one[:, :-1], torch.tensor([target[1:]]), pad_id=pad_id)
        alone, count = alone + (len(target) - 1) * mine, count + len(target) - 1
    torch.testing.assert_close(loss, alone / count)
    for got, slope in zip(slopes, torch.autograd.grad(alone / count, list(ours.parameters())), strict=True):
        torch.testing.assert_close(got, slope)


@pytest.mark.parametrize("cuts", [[1] * 9, [9], [4, 1, 4], [2, 7], [1, 3, 5], [8, 1]])
@pytest.mark.parametrize("side", ["left", "right"])
def test_in_pieces_it_gives_what_it_gives_in_one_pass(cuts, side):
    ours = model(norm_first=side == "left", dtype=torch.float64)
    src = padded([[3, 1, 4], [9, 2, 6, 8, 3, 10]], 7, side)
    tgt = padded([[1, 7, 8, 9, 3, 2], [1, 12, 11, 3, 9, 9, 4, 4, 2]], 9, side)
    memory, mask = ours.encode(src)
    cache = DecoderCache()
    pieces = [ours.decode(piece, memory, mask, cache=cache) for piece in tgt.split(cuts, 1)]
    assert (torch.cat(pieces, 1) - ours(src, tgt))[tgt != 0].abs().max() < 1e-13
    assert cache.length == 9


def test_padding_between_the_pieces_changes_nothing():
    # Beginnings of different length, padded on the right; each sentence goes on behind its padding.
    ours = model(dtype=torch.float64)
    src, more = torch.tensor([[3, 1, 4], [5, 2, 6]]), torch.tensor([[4, 4], [9, 2]])
    memory, mask = ours.encode(src)
    cache = DecoderCache()
    ours.decode(padded([[1, 7], [1, 8, 9, 3]], 4, "right"), memory, mask, cache=cache)
    got = ours.decode(more, memory, mask, cache=cache)
    for n, start in enumerate(([1, 7], [1, 8, 9, 3])):
        alone = ours(src[n : n + 1], torch.tensor([start + more[n].tolist()]))
        torch.testing.assert_close(got[n], alone[0, -2:])


def test_no_padding_at_all_where_there_is_no_id_for_it():
    ours = model(pad_id=None, dtype=torch.float64)
    src, tgt = torch.tensor([[0, 3, 0]]), torch.tensor([[1, 0, 0]])
    assert (ours(src, tgt) - model(dtype=torch.float64)(src, tgt)).abs().max() > 1e-3
    twin = copy.deepcopy(ours)
    twin.pad_id = 7
    torch.testing.assert_close(ours(src, tgt), twin(src, tgt))


def test_a_source_of_padding_only_is_no_nan():
    ours = model()
    out = ours(torch.tensor([[0, 0], [3, 4]]), torch.tensor([[1, 7], [1, 7]]))
    slopes = torch.autograd.grad(out.sum(), list(ours.parameters()))
    assert out.isfinite().all() and all(s.isfinite().all() for s in slopes)


# the parts


def test_the_base_model_has_as_many_parameters_as_counted():
    # 63.1 million with one table of 37,000 words.
    base = Transformer(37_000, device="meta")
    assert sum(p.numel() for p in base.parameters()) == 63_082_496


def test_which_tables_are_shared():
    one, two, free = model(11, None), model(11, 11), model(11, 11, tied=False)
    assert one.src_embedding is one.tgt_embedding and two.src_embedding is not two.tgt_embedding
    assert one.output is two.output is None and free.output.bias is not None
    x, memory = torch.tensor([[1, 7]]), one.encode(torch.tensor([[3]]))[0]
    hidden = one.decoder(4 * one.src_embedding.weight[x] + sinusoidal_positions(2, 16, like=memory), memory)
    torch.testing.assert_close(one.decode(x, memory), hidden @ one.src_embedding.weight.T)


def test_positions_grow_and_stay_out_of_the_state():
    ours = model(dtype=torch.float64)
    assert "positions" not in ours.state_dict()
    for length in (3, 40, 7):
        ours.encode(torch.ones(1, length, dtype=torch.long))
        table = sinusoidal_positions(len(ours.positions), 16)
        assert length <= len(ours.positions)
        np.testing.assert_allclose(ours.positions, table, rtol=1e-12, atol=1e-15)


def test_dropout_is_on_the_sums_of_embeddings_and_positions_in_training():
    ours = model(dropout=0.5)
    seen = []
    ours.encoder.register_forward_pre_hook(lambda layer, args: seen.append(args[0]))
    src = torch.tensor([[3, 4, 5, 6]])
    ours.encode(src)
    ours.eval().encode(src)
    dropped = seen[0] == 0
    assert 0.2 < dropped.float().mean() < 0.8
    torch.testing.assert_close(seen[0][~dropped], 2 * seen[1][~dropped])


def test_learns_to_copy():
    torch.manual_seed(1)
    ours = Transformer(12, d_model=32, num_heads=4, num_layers=1, d_ff=64, dropout=0.0, norm_first=True)
    optimizer = torch.optim.Adam(ours.parameters(), lr=5e-3, betas=(0.9, 0.98))
    ids = torch.randint(3, 12, (64, 4))
    tokens = torch.cat([torch.ones(64, 1, dtype=torch.long), ids, torch.full((64, 1), 2)], 1)
    inputs, targets = teacher_forcing(tokens, 0)
    for _ in range(60):
        loss = label_smoothing_loss(ours(ids, inputs), targets, pad_id=0, minus_entropy=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    written = greedy_decode(ours, ids, bos_id=1, eos_id=2, max_len=6)
    assert (written == tokens).all(1).float().mean() > 0.9


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda m: Transformer(0), ValueError, "vocab_size must be at least 1"),
        (lambda m: Transformer(4, pad_id="0"), TypeError, "pad_id must be one integer or None; got '0'"),
        (lambda m: m(torch.tensor([3]), torch.tensor([[1]])), ValueError, r"src must be .* shape \(B, L\)"),
        (lambda m: m([[3]], torch.tensor([[1]])), ValueError, "src must be a tensor of ids .* got list"),
        (lambda m: m(torch.tensor([[3]]), torch.tensor([[13]])), ValueError, "ids must lie in 0 .. 12"),
        (lambda m: m(torch.ones(1, 2), torch.tensor([[1]])), TypeError, "ids must be .* got torch.float32"),
        (lambda m: m(torch.tensor([[3], [4]]), torch.tensor([[1]])), ValueError, "2 sentences of memory"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call(model())
