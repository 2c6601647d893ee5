"""Assignment 4 as students answer it: right in several ways, and wrong in the ways that people are."""

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from answering import HIDDEN, passes, told, variants

from attnlib.homework import assignment
from attnlib.homework.a_model_whole import (
    attended,
    cache_test,
    embedded,
    generated,
    smoothed_loss,
    sublayer,
    whole,
)
from attnlib.homework.local import judged, points


def fails(module, choice, answer, name, part=True):
    """A wrong answer is told by its name; alone, a named mistake earns its part."""
    made, verdict = told(module, choice, answer)
    assert verdict.passed is False and verdict.misconception == name, (choice, name, str(verdict))
    assert points(made, verdict) == (made.part if part else 0), (choice, str(verdict))


# ------------------------------------------------------------------------------------ embedded


def each_once(module, mistakes, choices=None):
    """Every mistake under one of the variants, all variants in turn."""
    choices = choices or variants(module)
    return [pytest.param(name, choices[i % len(choices)], id=name) for i, name in enumerate(mistakes)]


def alternating(module, *ways):
    """Every variant with one of the ways of answering it, each way in as many."""
    every = variants(module)
    ways = [ways[(i + i // len(ways)) % len(ways)] for i in range(len(every))]
    return [*zip(ways, every, strict=True)]


def waves(choice, width, places, exponent=None, base=1e4, dtype=torch.float64):
    """Sinusoids number by number."""
    i = torch.arange(width // 2)
    by = exponent(i) if exponent else 2 * i / width if choice["speeds"] == "short" else i / (width / 2 - 1)
    out = torch.zeros(*places.shape, width, dtype=dtype)
    for at in range(width // 2):
        angle = places.to(dtype) * math.exp(-math.log(base) * by[at])
        one, two = (2 * at, 2 * at + 1) if choice["sines"] == "turns" else (at, width // 2 + at)
        out[..., one], out[..., two] = torch.sin(angle), torch.cos(angle)
    return out


def embedded_by(choice, rows=None, places=None, both=1.0, **how):
    def embedded(ids, table, start):
        root = table.shape[1] ** 0.5 if choice["scale"] == "root" else 1
        at = start + torch.arange(ids.shape[1]) if places is None else places(ids, start)
        x = F.embedding(ids, table)
        x = x * root if rows is None else rows(x, table.shape[1] ** 0.5)
        return (x + waves(choice, table.shape[1], at, **how)) * both
    return embedded


@pytest.mark.parametrize(("dtype", "choice"), alternating(embedded, torch.float64, torch.float32))
def test_words_and_places(dtype, choice):
    passes(embedded, choice, embedded_by(choice, dtype=dtype))


WRONG_PLACES = {
    "start_ignored": {"places": lambda ids, start: torch.arange(ids.shape[1])},
    "one_place_too_far": {"places": lambda ids, start: torch.arange(ids.shape[1]) + start + 1},
    "ids_taken_for_places": {"places": lambda ids, start: ids},
    "divided_by_the_root": {"rows": lambda x, root: x / root},
    "no_words": {"rows": lambda x, root: 0 * x},
    "other_base": {"base": 1e3},
}


@pytest.mark.parametrize(("name", "choice"), each_once(embedded, WRONG_PLACES))
def test_wrong_words_and_places_are_named(name, choice):
    fails(embedded, choice, embedded_by(choice, **WRONG_PLACES[name]), name)


@pytest.mark.parametrize("choice", variants(embedded)[::3])
def test_wrong_angles_and_sums_are_named(choice):
    if choice["speeds"] == "short":
        fails(embedded, choice, embedded_by(choice, exponent=lambda i: i / (2 * len(i))), "exponent_halved")
        fails(embedded, choice, embedded_by(choice, exponent=lambda i: 2 * i / len(i)), "exponent_doubled")

    def scaled_late(ids, table, start):
        at = start + torch.arange(ids.shape[1])
        return (table[ids] + waves(choice, table.shape[1], at)) * table.shape[1] ** 0.5

    fails(embedded, choice, scaled_late, "places_scaled_too")
    fails(embedded, choice, lambda ids, table, start: table[ids] * (
        table.shape[1] ** 0.5 if choice["scale"] == "root" else 1), "no_places")


def test_the_paper_and_the_package_agree():
    from attnlib import sinusoidal_positions

    def by_the_package(ids, table, start):
        places = sinusoidal_positions(start + ids.shape[1], table.shape[1], like=table)[start:]
        return table[ids] * table.shape[1] ** 0.5 + places

    made = embedded.question(embedded.LESSON)
    verdict = judged(made, by_the_package, HIDDEN)
    assert verdict.misconception == "package"
    table = torch.rand(5, 8, dtype=torch.float64)
    ids = torch.tensor([[1, 4, 0]])
    assert torch.allclose(by_the_package(ids, table, 2), embedded.compute(ids, table, 2))


# ------------------------------------------------------------------------------------ attended


def parts(choice, x, key_mask, matrices):
    """Matrices to be used as x @ w, and what is real."""
    matrices = [w.T for w in matrices] if choice["matrices"] == "out_in" else matrices
    return matrices, key_mask if choice["true_key"] == "real" else torch.logical_not(key_mask)


def by_torch(choice):
    """torch's own function, with keys and values laid out for each head."""
    def attended(x, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
        (w_q, w_k, w_v, w_o), real = parts(choice, x, key_mask, (w_q, w_k, w_v, w_o))
        b, n, width = x.shape
        d = width // n_heads
        q, k, v = ((x @ w).unflatten(-1, (-1, d)).transpose(1, 2) for w in (w_q, w_k, w_v))
        if choice["shared"] == "neighbours":
            index = [h // (n_heads // n_kv_heads) for h in range(n_heads)]
        else:
            index = [h % n_kv_heads for h in range(n_heads)]
        mask = torch.ones(n, n).tril().bool()[None, None] & real.view(b, 1, 1, n)
        out = F.scaled_dot_product_attention(q, k[:, index], v[:, index], attn_mask=mask)
        return out.transpose(1, 2).flatten(2) @ w_o
    return attended


def by_heads(choice, *, see=None, scale=None, future=True, merge=None, first=False, own=True, over=-1,
             low=-1e30, blank=False, divide=None):  # fmt: skip
    """Head by head, with slices, and a part of it done otherwise."""
    def attended(x, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
        (w_q, w_k, w_v, w_o), real = parts(choice, x, key_mask, (w_q, w_k, w_v, w_o))
        n, width = x.shape[1:]
        d, out = width // n_heads, []
        for h in range(n_heads):
            g = h // (n_heads // n_kv_heads) if choice["shared"] == "neighbours" else h % n_kv_heads
            g = 0 if first else h // n_kv_heads if divide else g
            q = torch.einsum("bld,de->ble", x, w_q[:, h * d : (h + 1) * d])
            k, v = (torch.einsum("bld,de->ble", x, w[:, g * d : (g + 1) * d]) for w in (w_k, w_v))
            s = torch.einsum("bie,bje->bij", q, k) * (d**-0.5 if scale is None else scale(d, width, n_heads))
            bias = torch.zeros_like(s)
            for i, j in product(range(n), repeat=2):
                if future and j > i - (not own):
                    bias[:, i, j] = low
            if see != "all":
                shown = real[:, :, None] if see == "rows" else real[:, None, :]
                bias = torch.where(shown, bias, low)
            out.append(torch.softmax(torch.where(bias < 0, bias, s), over) @ v)
        out = torch.stack(out, 1)                       # (B, H, L, d)
        out = out.transpose(1, 2) if merge is None else out
        return out.reshape(x.shape) @ w_o * (real[..., None] if blank else 1)
    return attended


@pytest.mark.parametrize(("way", "choice"), alternating(attended, by_torch, by_heads))
def test_attention_of_many_heads(way, choice):
    passes(attended, choice, way(choice))


WRONG_ATTENTION = {
    "future_seen": {"future": False}, "padding_seen": {"see": "all"},
    "no_scale": {"scale": lambda d, width, heads: 1},
    "scale_of_the_model": {"scale": lambda d, width, heads: width**-0.5},
    "divided_by_d": {"scale": lambda d, width, heads: 1 / d},
    "merged_from_memory": {"merge": "none"}, "first_key_head_for_all": {"first": True},
    "softmax_over_the_queries": {"over": 1}, "queries_hidden": {"see": "rows"},
    "own_word_hidden": {"own": False}, "padding_blank": {"blank": True},
}  # fmt: skip


@pytest.mark.parametrize(("name", "choice"), each_once(attended, WRONG_ATTENTION))
def test_wrong_attention_is_named(name, choice):
    fails(attended, choice, by_heads(choice, **WRONG_ATTENTION[name]), name)


@pytest.mark.parametrize("low", [-math.inf, -1e9])
def test_the_other_polarity_is_told_whatever_is_written_over_scores(low):
    for choice in variants(attended)[::3]:
        other = {"real": "padding", "padding": "real"}[choice["true_key"]]
        name = f"true_taken_for_{other}"
        fails(attended, choice, by_heads({**choice, "true_key": other}, low=low), name, part=False)


def test_a_key_head_is_not_found_by_the_number_of_key_heads():
    choice = {"matrices": "in_out", "true_key": "real", "shared": "neighbours"}
    made, verdict = told(attended, choice, by_heads(choice, divide="g"))
    assert verdict.misconception == "divided_by_the_key_heads", str(verdict)


@pytest.mark.parametrize("choice", [variants(attended)[i] for i in (1, 6)])
def test_wrong_heads_are_named(choice):
    good = by_torch(choice)
    fails(attended, choice, lambda x, m, q, k, v, o, h, g: good(x, m, q, v, k, o, h, g),
          "keys_and_values_exchanged")
    fails(attended, choice, lambda x, m, q, k, v, o, h, g: good(x, m, q, k, v, torch.eye(
        len(o), dtype=o.dtype), h, g), "not_mixed")

    def cut_by_view(x, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
        (w_q, w_k, w_v, w_o), real = parts(choice, x, key_mask, (w_q, w_k, w_v, w_o))
        b, n, width = x.shape
        times = n_heads // n_kv_heads
        q, k, v = ((x @ w).view(b, number, n, -1) for w, number in
                   ((w_q, n_heads), (w_k, n_kv_heads), (w_v, n_kv_heads)))  # fmt: skip
        k, v = (a.repeat_interleave(times, 1) if choice["shared"] == "neighbours" else a.tile(1, times, 1, 1)
                for a in (k, v))  # fmt: skip
        mask = torch.ones(n, n).tril().bool() & real[:, None, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(x.shape) @ w_o

    fails(attended, choice, cut_by_view, "cut_from_memory")

    def late(x, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
        x *= 2
        return good(x / 2, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads)

    fails(attended, choice, late, "changes_input", part=False)


# ------------------------------------------------------------------------------------ sublayer


def normed(choice, y, gain, eps):
    """With torch's own functions where it has them."""
    shape = y.shape[-1:]
    if choice["norm"] == "mean_square":
        return F.rms_norm(y, shape, gain, eps)
    if choice["norm"] == "over_d":
        return F.layer_norm(y, shape, gain, None, eps)
    return (y - y.mean(-1, True)) / (y.std(-1, keepdim=True) + eps) * gain


def counted_otherwise(choice, y, gain, eps):
    by = (y.std(-1, correction=0, keepdim=True) + eps if choice["norm"] == "over_less"
          else (y.var(-1, keepdim=True) + eps).sqrt())  # fmt: skip
    return (y - y.mean(-1, True)) / by * gain


def normed_over_all(choice, y, eps):
    if choice["norm"] == "mean_square":
        return y / (y.square().mean() + eps).sqrt()
    y = y - y.mean()
    return y / (y.std() + eps if choice["norm"] == "over_less" else (y.var(correction=0) + eps).sqrt())


def sublayer_by(choice, act=None, norm=None, join=None, cut=None, hidden=None):
    acts = {"silu": F.silu, "gelu": F.gelu}

    def sublayer(x, gain, w_in, w_out, eps):
        def n(y):
            return (norm or normed)(choice, y, gain, eps)

        def feed(y):
            g, u = (cut or torch.tensor_split)(y @ w_in, 2, -1)
            f = act or acts[choice["act"]]
            return (hidden(f, g, u) if hidden else f(g) * u) @ w_out

        if join:
            return join(x, n, feed)
        return x + feed(n(x)) if choice["placed"] == "pre" else n(x + feed(x))
    return sublayer


def sublayer_by_words(choice):
    def by_words(x, gain, w_in, w_out, eps):
        good = sublayer_by(choice)
        return torch.stack([torch.stack([good(word, gain, w_in, w_out, eps) for word in row]) for row in x])
    return by_words


@pytest.mark.parametrize(("way", "choice"), alternating(sublayer, sublayer_by, sublayer_by_words))
def test_a_feed_forward_layer(way, choice):
    passes(sublayer, choice, way(choice))


@pytest.mark.parametrize("number", [0, 3, 5, 8, 10])
def test_wrong_sublayers_are_named(number):
    """A third of the mistakes in each of these variants; those of one convention alone wherever it is."""
    choice = variants(sublayer)[number]
    pre = choice["placed"] == "pre"
    wrong = {
        "no_residual": {"join": lambda x, n, f: f(n(x)) if pre else n(f(x))},
        "residual_of_the_norm": {"join": lambda x, n, f: n(x) + f(n(x)) if pre else x + n(f(x))},
        "normed_twice": {"join": lambda x, n, f: n(x + f(n(x)))},
        "gate_and_up_exchanged": {"cut": lambda y, *_: y.chunk(2, -1)[::-1]},
        "columns_take_turns": {"cut": lambda y, *_: (y[..., ::2], y[..., 1::2])},
        "act_missing": {"act": lambda z: z},
        "sigmoid_alone": {"act": torch.sigmoid},
        "gate_of_relu": {"act": torch.relu},
        "gate_alone": {"hidden": lambda f, g, u: f(g)},
        "gate_added": {"hidden": lambda f, g, u: f(g) + u},
        "act_of_the_product": {"hidden": lambda f, g, u: f(g * u)},
        "norm_over_all": {"norm": lambda c, y, gain, eps: normed_over_all(c, y, eps) * gain},
        "gain_missing": {"norm": lambda c, y, gain, eps: normed(c, y, torch.ones_like(gain), eps)},
        "one_and_gain": {"norm": lambda c, y, gain, eps: normed(c, y, gain + 1, eps)},
        "eps_missing": {"norm": lambda c, y, gain, eps: normed(c, y, gain, 0.0)},
    }
    wrong = {name: how for i, (name, how) in enumerate(wrong.items()) if (i + number) % 3 < 1}
    if choice["norm"] != "mean_square":
        wrong["variance_counted_otherwise"] = {"norm": counted_otherwise}
        wrong["eps_elsewhere"] = {"norm": lambda c, y, gain, eps: gain * (y - y.mean(-1, True)) / (
            (y.var(-1, keepdim=True) + eps).sqrt() if c["norm"] == "over_less"
            else y.std(-1, correction=0, keepdim=True) + eps)}  # fmt: skip
    if choice["act"] == "gelu":
        wrong["gelu_approximated"] = {"act": lambda z: F.gelu(z, approximate="tanh")}
        wrong["erf_without_root"] = {"act": lambda z: z * (1 + torch.erf(z)) / 2}
    for name, how in wrong.items():
        if choice["placed"] == "pre" or name != "normed_twice":
            fails(sublayer, choice, sublayer_by(choice, **how), name)


# ------------------------------------------------------------------------------------ whole


def whole_by(choice, *, layers=range, swap=(), last=True, residuals=True, out=None, gains=(0, 1),
             begun=False, rows=False):  # fmt: skip
    """With the weights laid out first, and a part of it done otherwise."""
    names = whole.NAMES[choice["names"]][1]

    def whole_(ids, weights, n_layers, embed, attend, norm, feed):
        def of(i, *keys):
            found = []
            for key in keys:
                w = weights[names[key].format(i=i)]
                found += torch.tensor_split(w, len(key.removeprefix("gate_up")) or 2) if key in (
                    "qkv", "gate_up") else [w]
            return found

        x = weights[names["table"]][ids] if rows else embed(ids, weights[names["table"]])
        packed = "qkv" in names
        for i in layers(n_layers):
            a = of(i, "qkv", "o") if packed else of(i, "q", "k", "v", "o")
            f = of(i, "gate_up", "down") if packed else of(i, "gate", "up", "down")
            g = of(i, "first", "second")
            g = [g[j] for j in gains]
            if swap:
                a = [a[j] for j in swap] + a[3:]
            first = x
            for piece, own, gain in ((attend, a, g[0]), (feed, f, g[1])):
                kept = (first if begun else x) if residuals else 0
                if choice["placed"] == "pre":
                    x = piece(norm(x, gain), *own) + kept
                else:
                    x = norm(piece(x, *own) + kept, gain)
        x = norm(x, weights[names["last"]]) if last else x
        logits = torch.einsum("bld,vd->blv", x, weights[names["table"]])
        logits = logits / math.sqrt(x.shape[-1]) if choice["logits"] == "divided" else logits
        return out(logits) if out else logits
    return whole_


@pytest.mark.parametrize("choice", variants(whole)[1::3])        # the solution is tried in each
def test_a_model_whole(choice):
    passes(whole, choice, whole_by(choice))


WRONG_MODELS = {
        "first_layer_for_all": {"layers": lambda n: [0] * n},
        "layers_backwards": {"layers": lambda n: reversed(range(n))},
        "last_layer_left_out": {"layers": lambda n: range(n - 1)},
        "queries_and_keys_exchanged": {"swap": (1, 0, 2)},
        "keys_and_values_exchanged": {"swap": (0, 2, 1)},
        "last_norm_missing": {"last": False},
        "no_residual": {"residuals": False},
        "gains_exchanged": {"gains": (1, 0)},
        "one_gain": {"gains": (0, 0)},
        "softmax_at_the_end": {"out": lambda logits: torch.softmax(logits, -1)},
        "last_word_alone": {"out": lambda logits: logits[:, -1]},
        "first_layer_left_out": {"layers": lambda n: range(1, n)},
        "residual_of_the_beginning": {"begun": True},
        "embed_not_used": {"rows": True},
    }  # fmt: skip


@pytest.mark.parametrize(("name", "choice"), each_once(whole, WRONG_MODELS))
def test_wrong_models_are_named(name, choice):
    fails(whole, choice, whole_by(choice, **WRONG_MODELS[name]), name)


def test_names_of_another_checkpoint_are_a_convention_and_other_misses_are_none():
    choice = whole.SAMPLE
    for names in ("meta", "hugging_face"):
        elsewhere = whole_by({**choice, "names": names})
        made, verdict = told(whole, choice, elsewhere)
        assert verdict.misconception == f"names_{names}" and points(made, verdict) == 0
        assert verdict.message.startswith("Right under another convention. You read the weights by the names")
        made, verdict = told(whole, choice, whole_by({**choice, "names": names}, swap=(1, 0, 2)))
        assert "w_q and w_k have changed places" in verdict.message and points(made, verdict) == 0
        assert "Right under another convention" not in verdict.message

    def misnamed(ids, weights, *rest):
        return weights["table_of_words.weight"]

    made, verdict = told(whole, choice, misnamed)
    assert "raised KeyError: 'table_of_words.weight'" in verdict.message and verdict.misconception is None

    def popped(ids, weights, *rest):
        weights.pop("norm.weight")
        return whole_by(choice, last=False)(ids, weights, *rest)

    fails(whole, choice, popped, "changes_input", part=False)


def test_the_example_of_the_notebook_runs():
    for choice in variants(whole):
        names = {"torch": torch}
        exec(whole.question(choice).given, names)
        pieces = [names[name] for name in ("embed", "attend", "norm", "feed")]
        logits = whole_by(choice)(names["IDS"], names["WEIGHTS"], 2, *pieces)
        assert logits.shape == (2, 3, 5) and logits.isfinite().all() and logits.std() > 0


# ------------------------------------------------------------------------------------ smoothed_loss


def loss_by(choice, *, shift=1, wanted=None, count=None, inputs=False, mean=None, apart=False, emptied=False,
            same=False):  # fmt: skip
    """By distributions written out, and a part of it done otherwise."""
    def smoothed_loss(logits, ids, pad, e):
        words = logits.shape[-1]
        scores, targets = (logits[:, :-shift], ids[:, shift:]) if shift else (logits, ids)
        scores, targets = (logits[:, :-1], ids[:, :-1]) if same else (scores, targets)
        q = F.one_hot(targets, words).to(logits.dtype)
        if wanted:
            q = wanted(q, e, words)
        elif choice["smoothed"] == "all":
            q = q * (1 - e) + e / words
        else:
            rest = 1 - q
            if choice["smoothed"] == "others" or emptied:
                rest[..., pad] = 0
            q = q * (1 - e) + rest * (e / (words - 1 - (choice["smoothed"] == "others")))
        each = -(q * torch.log_softmax(scores, -1)).sum(-1)
        each = each + torch.xlogy(q, q).sum(-1) if apart else each
        counts = ids[:, :-1] != pad if inputs else targets != pad
        counts = torch.ones_like(counts) if count == "all" else counts
        each = each * counts
        if mean == "places":
            return each.mean()
        if mean == "rows":
            return (each.sum(1) / counts.sum(1).clamp(min=1)).mean()
        return each.sum() / {"mean": counts.sum(), "sentences": logits.shape[0], "sum": 1}[choice["total"]]
    return smoothed_loss


def by_cross_entropy(choice):
    def smoothed_loss(logits, ids, pad, e):
        each = F.cross_entropy(logits[:, :-1].mT, ids[:, 1:], ignore_index=pad, label_smoothing=e,
                               reduction="mean" if choice["total"] == "mean" else "sum")  # fmt: skip
        return each / (len(ids) if choice["total"] == "sentences" else 1)
    return smoothed_loss


@pytest.mark.parametrize("choice", variants(smoothed_loss))
def test_losses(choice):
    passes(smoothed_loss, choice, loss_by(choice))
    if choice["smoothed"] == "all":
        passes(smoothed_loss, choice, by_cross_entropy(choice))


@pytest.mark.parametrize("choice", variants(smoothed_loss)[::4])
def test_wrong_losses_are_named(choice):
    wrong = {
        "no_shift": {"shift": 0}, "shift_by_two": {"shift": 2}, "entropy_subtracted": {"apart": True},
        "padding_by_inputs": {"inputs": True}, "not_smoothed": {"wanted": lambda q, e, words: q},
    }  # fmt: skip
    if choice["total"] != "mean":
        wrong["padding_counted"] = {"count": "all"}
    if choice["total"] == "mean":
        wrong |= {"divided_by_places": {"mean": "places"}, "mean_of_means": {"mean": "rows"}}
    for name, how in wrong.items():
        fails(smoothed_loss, choice, loss_by(choice, **how), name)
    fails(smoothed_loss, choice, loss_by(choice, same=True), "no_shift")
    by_all = None if choice["smoothed"] == "others" else lambda q, e, n: q * (1 - e) + (1 - q) * e / n
    if choice["smoothed"] == "not_target":
        fails(smoothed_loss, choice, loss_by(choice, emptied=True), "shares_do_not_sum")
    if by_all:
        fails(smoothed_loss, choice, loss_by(choice, wanted=by_all), "shares_do_not_sum")
    good = loss_by(choice)
    fails(smoothed_loss, choice, lambda *args: -good(*args), "negative_loss")
    made, verdict = told(smoothed_loss, choice, lambda *args: good(*args).item())
    assert verdict.passed is False and "must be a torch tensor" in verdict.message
    made, verdict = told(smoothed_loss, choice, lambda *args: good(*args).detach())
    assert verdict.passed is False and "no gradient" in verdict.message


def test_a_logarithm_of_zero_is_named():
    choice = smoothed_loss.SAMPLE

    def late(logits, ids, pad, e):
        logs = logits[:, :-1].softmax(-1).log()
        own = logs.gather(-1, ids[:, 1:, None]).squeeze(-1)
        each = -(1 - e) * own - e * (logs.sum(-1) - own) / (logs.shape[-1] - 1)
        return torch.where(ids[:, 1:] != pad, each, 0.0).sum() / len(ids)

    fails(smoothed_loss, choice, late, "logarithm_of_zero")


# ------------------------------------------------------------------------------------ generated


def generated_by(choice, *, more=0, row=-1, read=None, stops=True, late=False, look=False,
                 pick=None):  # fmt: skip
    """With a list, and a part of it done otherwise."""
    def generated(model, ids, stop, most):
        words = ids.tolist()
        room = (most if choice["most_counts"] == "new" else most - len(words)) + more
        new, over = [], look and stop in words
        while len(new) < room and not over:
            given = read(words, new) if read else words + new
            logits = model(torch.tensor(given))
            following = int(pick(logits) if pick else logits[row].topk(1).indices)
            new.append(following)
            over = stops and (len(new) > 1 and new[-2] == stop if late else following == stop)
        if stops and choice["stop_is"] == "dropped" and stop in new:
            new = new[: new.index(stop)] + (new[new.index(stop) + 1 :] if late else [])
        return torch.tensor(new if choice["gives"] == "new" else words + new, dtype=torch.long)
    return generated


def all_first(choice):
    """All that is allowed, cut at the stop when it is there."""
    def generated(model, ids, stop, most):
        words, n = ids, len(ids)
        while len(words) < (most + n if choice["most_counts"] == "new" else most):
            words = torch.hstack([words, model(words).argmax(-1)[-1:]])
        at = (words[n:] == stop).nonzero().flatten()
        if len(at):
            words = words[: n + at[0] + (choice["stop_is"] == "kept")]
        return words if choice["gives"] == "whole" else words[n:]
    return generated


@pytest.mark.parametrize(("way", "choice"), alternating(generated, generated_by, all_first))
def test_generation(way, choice):
    passes(generated, choice, way(choice))


WRONG_GENERATION = {
    "one_id_too_few": {"more": -1}, "one_id_too_many": {"more": 1}, "first_row_read": {"row": 0},
    "last_id_alone": {"read": lambda words, new: (words + new)[-1:]}, "never_stops": {"stops": False},
    "stopped_by_the_prompt": {"look": True},
    "what_was_generated_is_lost": {"read": lambda words, new: words + new[-1:]},
    "all_rows_read": {"pick": lambda logits: logits.argmax()},
    "column_read": {"pick": lambda logits: logits[:, -1].argmax()},
}  # fmt: skip


@pytest.mark.parametrize(("name", "choice"), each_once(generated, WRONG_GENERATION))
def test_wrong_generation_is_named(name, choice):
    fails(generated, choice, generated_by(choice, **WRONG_GENERATION[name]), name)


def test_the_likeliest_is_taken_and_not_drawn():
    for choice in variants(generated)[::5]:
        drawn = generated_by(choice, pick=lambda logits: logits[-1].softmax(-1).multinomial(1))
        fails(generated, choice, drawn, "random", part=False)


@pytest.mark.parametrize("choice", variants(generated)[::3])
def test_other_results_of_generation_are_told(choice):
    made, verdict = told(generated, choice, lambda *args: generated_by(choice)(*args).tolist())
    assert verdict.passed is False and "must be a torch tensor" in verdict.message
    made, verdict = told(generated, choice, lambda model, ids, stop, most: model(ids[None]))
    assert "model takes a tensor of ids of shape (L,)" in verdict.message
    if choice["stop_is"] == "kept":
        fails(generated, choice, generated_by(choice, late=True), "stopped_late")


# ------------------------------------------------------------------------------------ cache_test


def tried(choice, *, chunks=((5, 1, 3, 1, 4),), sentences=3, length=14, room=1e-4, again=True,
           calls=99, likeliest=False):  # fmt: skip
    """A test as a student might write it, with a part of it left out."""
    def test(full, step, n_words):
        rng = np.random.RandomState(2)
        axis = 1 if choice["ids_lie"] == "batch" else 0
        shape = (sentences, length) if axis else (length, sentences)
        ids = torch.tensor(rng.randint(0, n_words, shape))

        def stepped(begin, end, cache):
            found = step(ids.narrow(axis, begin, end - begin), cache)
            logits, cache = found if choice["step_returns"] == "logits" else found[::-1]
            right = wanted.narrow(axis, begin, end - begin)
            if likeliest:
                return bool((logits.argmax(-1) == right.argmax(-1)).all()), cache
            off = (logits - right).abs().max()
            return float(off) <= room, cache

        wanted, sound = full(ids), True
        for cut in chunks:
            cache, at = None, 0
            for n in cut[:calls]:
                if at + n <= length:
                    fine, cache = stepped(at, at + n, cache)
                    sound, at = sound and fine, at + n
        if again:
            _, cache = stepped(0, 3, None)
            for _ in range(2):
                sound = stepped(3, 4, cache)[0] and sound
        return sound if choice["says_true_of"] == "sound" else not sound
    return test


@pytest.mark.parametrize("choice", variants(cache_test))
def test_tests_of_caches(choice):
    passes(cache_test, choice, lambda *args: np.bool_(tried(choice, room=1e-3, sentences=4)(*args)))


@pytest.mark.parametrize("choice", [variants(cache_test)[i] for i in (0, 7)])
def test_tests_of_caches_that_are_fooled(choice):
    for name, how in {
        "length_missed": {"length": 9}, "sentences_missed": {"sentences": 1},
        "exact_comparison": {"room": 1e-9}, "second_use_missed": {"again": False},
    }.items():  # fmt: skip
        fails(cache_test, choice, tried(choice, **how), name)
    assert told(cache_test, choice, tried(choice, likeliest=True))[1].misconception == "likeliest_alone"
    ones = tried(choice, chunks=((1,) * 14,), again=False)
    fails(cache_test, choice, ones, "chunks_missed", part=False)
    other = "faulty" if choice["says_true_of"] == "sound" else "sound"
    fails(cache_test, choice, tried({**choice, "says_true_of": other}), f"true_of_{other}", part=False)
    fails(cache_test, choice, tried(choice, room=-1.0), "all_faulty", part=False)
    fails(cache_test, choice, tried(choice, room=9e9), "all_sound", part=False)
    made, verdict = told(cache_test, choice, lambda full, step, n: bool(full(np.zeros(3, int)).any()))
    assert "ids are whole numbers of shape (" in verdict.message
    made, verdict = told(cache_test, choice, lambda full, step, n: bool(full(np.full((2, 2), n)).any()))
    assert "ids go from 0 to 7" in verdict.message


def test_caches_are_as_the_task_says():
    ids = np.random.default_rng(1).integers(0, cache_test.WORDS, (4, 14))
    for name, fault, sound, *_ in cache_test.CACHES:
        full, step, _ = cache_test._given(fault, True, True)
        wanted, off = full(ids), 0.0
        for begins in ([1] * 14, [3, 5, 1, 5]):
            cache, at = None, 0
            for n in begins:
                logits, after = step(ids[:, at : at + n], cache)
                again, _ = step(ids[:, at : at + n], cache)
                for found in (logits, again):
                    off = max(off, float((found - wanted[:, at : at + n]).abs().max()))
                cache, at = after, at + n
        assert off < 1e-5 if sound else off > 0.01, (name, off)


# ------------------------------------------------------------------------------------ the whole


def test_hidden_tensors_are_looked_for_in_what_is_released():
    from attnlib.homework.release import hidden_numbers

    made = assignment.load("hw4", 7)
    for id, least in (("attended", 300), ("whole", 1000), ("smoothed_loss", 300)):
        assert len(hidden_numbers(made.question(id), assignment.secret(7, "hw4", id))) > least


def test_points_and_minutes():
    for seed in range(6):
        made = assignment.load("hw4", seed)
        assert 28 <= made.points <= 32 and 100 <= made.minutes <= 130


def test_the_sublayer_and_the_whole_model_put_their_norms_alike():
    for seed in range(40):
        made = assignment.load("hw4", seed)
        first = "The norm comes **first**" in made.question("sublayer").text
        assert first == ("The norms come **first**" in made.question("whole").text)
