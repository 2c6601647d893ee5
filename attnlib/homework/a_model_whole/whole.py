"""The whole model's forward pass: a checkpoint's names, the order of the pieces, and the way out."""

import re
from functools import cache

import numpy as np

from attnlib.exercises.calls import call
from attnlib.exercises.function import Case, Mistake
from attnlib.exercises.verdict import wrong
from attnlib.homework.assignment import (
    Convention,
    Option,
    Question,
    filled,
    judge_of_variant,
    said,
    values_of,
)

CONVENTIONS = (
    Convention("placed", {          # drawn once, for the sublayer too
        "pre": Option("The norms come **first** (pre-norm): `x` becomes `x + attend(norm(x))`, then "
                      "`x + feed(norm(x))`, each piece with its weights.",
                      "You put each norm before its layer, inside the residual.", name="norm_first"),
        "post": Option("The norms come **last** (post-norm): `x` becomes `norm(x + attend(x))`, then "
                       "`norm(x + feed(x))`, each piece with its weights.",
                       "You put each norm last, around the residual.", name="norm_last"),
    }),
    Convention("logits", {
        "plain": Option("The logits are the dot products of the words' vectors with the rows of the table.",
                        "You take the dot products with the rows of the table for logits.", "",
                        "logits_as_they_are"),
        "divided": Option("The logits are the dot products of the words' vectors with the rows of the table, "
                          "**divided by the root of D**.",
                          "You divide the logits by the root of D.", " / x.shape[-1] ** 0.5",
                          "logits_divided"),
    }),
)  # fmt: skip
NAMES = {       # by the convention: what is told of it, and the names; {i} is the number of a layer
    "meta": ("by the names of another class's checkpoint, with tok_embeddings in it", {
        "table": "tok_embeddings.weight",
        "q": "layers.{i}.attention.wq.weight", "k": "layers.{i}.attention.wk.weight",
        "v": "layers.{i}.attention.wv.weight", "o": "layers.{i}.attention.wo.weight",
        "gate": "layers.{i}.feed_forward.w1.weight", "down": "layers.{i}.feed_forward.w2.weight",
        "up": "layers.{i}.feed_forward.w3.weight",
        "first": "layers.{i}.attention_norm.weight", "second": "layers.{i}.ffn_norm.weight",
        "last": "norm.weight",
    }),
    "hugging_face": ("by the names of another class's checkpoint, with embed_tokens in it", {
        "table": "model.embed_tokens.weight",
        "q": "model.layers.{i}.self_attn.q_proj.weight", "k": "model.layers.{i}.self_attn.k_proj.weight",
        "v": "model.layers.{i}.self_attn.v_proj.weight", "o": "model.layers.{i}.self_attn.o_proj.weight",
        "gate": "model.layers.{i}.mlp.gate_proj.weight", "up": "model.layers.{i}.mlp.up_proj.weight",
        "down": "model.layers.{i}.mlp.down_proj.weight",
        "first": "model.layers.{i}.input_layernorm.weight",
        "second": "model.layers.{i}.post_attention_layernorm.weight",
        "last": "model.norm.weight",
    }),
    "packed": ("by the names of another class's checkpoint, with in_proj_weight in it", {
        "table": "embedding.weight",
        "qkv": "layers.{i}.self_attn.in_proj_weight", "o": "layers.{i}.self_attn.out_proj.weight",
        "gate_up": "layers.{i}.linear1.weight", "down": "layers.{i}.linear2.weight",
        "first": "layers.{i}.norm1.weight", "second": "layers.{i}.norm2.weight",
        "last": "norm.weight",
    }),
}  # fmt: skip
CHOICES = {**values_of(*CONVENTIONS), "names": tuple(NAMES)}
LESSON = {"placed": "pre", "logits": "plain", "names": "meta"}
SAMPLE = {"placed": "post", "logits": "divided", "names": "packed"}

ROWS = {        # what a weight is, in the order in which the pieces take them
    "table": ("(V, D)", "the table of words, for the way in **and** the way out"),
    "qkv": ("(3D, D)", "`w_q`, `w_k` and `w_v`, one **below** the other"),
    "q": ("(D, D)", "`w_q`"), "k": ("(D, D)", "`w_k`"), "v": ("(D, D)", "`w_v`"), "o": ("(D, D)", "`w_o`"),
    "gate_up": ("(2F, D)", "`w_gate`, and `w_up` **below** it"),
    "gate": ("(F, D)", "`w_gate`"), "up": ("(F, D)", "`w_up`"), "down": ("(D, F)", "`w_down`"),
    "first": ("(D,)", "the gain of the norm that goes with attention"),
    "second": ("(D,)", "the gain of the norm that goes with the feed-forward layer"),
    "last": ("(D,)", "the gain of the norm at the end"),
}  # fmt: skip

TEXT = """\
Write `whole(ids, weights, n_layers, embed, attend, norm, feed)`: all of a model, from ids to logits.

`ids` has shape `(B, L)`, and the result `(B, L, V)`: for each word the logits of the next, its scores before
the softmax. The pieces are
functions, written by somebody else, who may have other conventions than you had above:

- `embed(ids, table)` gives the vectors of the words, with their places;
- `attend(x, w_q, w_k, w_v, w_o)`, `norm(x, gain)` and `feed(x, w_gate, w_up, w_down)` take vectors
  `(B, L, D)` and give such; they add no residual, and they take each matrix as it lies in the checkpoint.

`weights` is a dictionary, the checkpoint; i counts the layers from 0 to `n_layers` - 1:

| name | shape | what it is |
|---|---|---|
{rows}

- {placed}
- When all layers are through, one more norm follows, the one at the end.
- {logits}

The cell below holds pieces to try with, simpler than the grader's."""

GIVEN = """\
def embed(ids, table):
    return table[ids]


def attend(x, w_q, w_k, w_v, w_o):
    queries, keys = x @ w_q.T, x @ w_k.T
    return (queries * keys).tanh().cumsum(1) * (x @ w_v.T) @ w_o.T


def norm(x, gain):
    return x / (1 + x.abs().amax(-1, keepdim=True)) * gain


def feed(x, w_gate, w_up, w_down):
    return ((x @ w_gate.T).sin() * (x @ w_up.T)) @ w_down.T


IDS = torch.tensor([[2, 0, 1], [3, 3, 4]])
SHAPES = {shapes}
numbers = torch.Generator().manual_seed(0)
WEIGHTS = {{name: torch.rand(shape, generator=numbers, dtype=torch.float64)
           for name, shape in SHAPES.items()}}     # of two layers, with D = 4 and F = 6"""

STUB = """\
def whole(ids, weights, n_layers, embed, attend, norm, feed):
    \"\"\"The logits (B, L, V) of the model that these weights make.\"\"\""""

SOLUTION = """\
    x = embed(ids, weights["{table}"])
    for i in range(n_layers):
        {matrices}
        gain_1 = weights[f"{first}"]
        gain_2 = weights[f"{second}"]
        {layer}
    x = norm(x, weights["{last}"])
    return x @ weights["{table}"].T<logits>"""

LAYER = {
    "pre": ("x = x + attend(norm(x, gain_1), *attention)", "x = x + feed(norm(x, gain_2), *feeding)"),
    "post": ("x = norm(x + attend(x, *attention), gain_1)", "x = norm(x + feed(x, *feeding), gain_2)"),
}  # fmt: skip


def _matrices(names):
    if "qkv" in names:
        return (f'w_q, w_k, w_v = weights[f"{names["qkv"]}"].chunk(3)',
                f'attention = w_q, w_k, w_v, weights[f"{names["o"]}"]',
                f'w_gate, w_up = weights[f"{names["gate_up"]}"].chunk(2)',
                f'feeding = w_gate, w_up, weights[f"{names["down"]}"]')  # fmt: skip
    parts = {}
    for key in ("q", "k", "v", "o", "gate", "up", "down"):
        parts[key] = names[key].replace("layers.{i}.", "").replace("model.", "").removesuffix(".weight")
    start = "model." if names["q"].startswith("model.") else ""

    def read(keys):
        listed = ", ".join(f'"{parts[key]}"' for key in keys)
        return f'[weights[f"{start}layers.{{i}}.{{part}}.weight"] for part in names]', f"names = {listed}"

    attention, of_attention = read(("q", "k", "v", "o"))
    feeding, of_feeding = read(("gate", "up", "down"))
    return of_attention, f"attention = {attention}", of_feeding, f"feeding = {feeding}"


def compute(ids, weights, n_layers, *pieces, names="packed", placed="pre", logits="plain", order="right",
            gains="right", last="right", residual="both", layers="all", roles="right", gate="right",
            out="right", blocks="in_turn", both=False, embedded=True):  # fmt: skip
    """In NumPy, with the pieces as they are below: it is asked some hundred times for a verdict."""
    import torch

    def of(key, i=0):
        return weights[NAMES[names][1][key].format(i=i)].numpy()

    def matrices(i):
        if names == "packed":
            q, k, v = np.split(of("qkv", i), 3)
            g, u = np.split(of("gate_up", i), 2)
        else:
            q, k, v, g, u = (of(key, i) for key in ("q", "k", "v", "gate", "up"))
        q, k, v = {"right": (q, k, v), "kqv": (k, q, v), "qvk": (q, v, k), "vkq": (v, k, q)}[roles]
        g, u = (u, g) if gate == "exchanged" else (g, u)
        return (q, k, v, of("o", i)), (g, u, of("down", i))

    table = of("table")
    x = _embed(ids.numpy(), table) if embedded else table[ids.numpy()]
    which = {"all": range(n_layers), "first": [0] * n_layers, "backwards": range(n_layers)[::-1],
             "one_less": range(n_layers - 1), "one_more": range(1, n_layers),
             "last": [n_layers - 1] * n_layers,
             "one": [0]}[layers]  # fmt: skip
    for i in which:
        of_attention, of_feeding = matrices(i)
        one, two = of("first", i), of("second", i)
        one, two = {"right": (one, two), "exchanged": (two, one), "first": (one, one),
                    "second": (two, two)}[gains]  # fmt: skip
        steps = [(_attend, of_attention, one, "attend"), (_feed, of_feeding, two, "feed")]
        steps = steps[::-1] if order == "exchanged" else steps
        begun = x
        for piece, own, gain, name in steps:
            kept = 0 if residual in (name, "none") else 1
            old = begun if residual == "begun" else x
            if placed == "pre":
                y = _norm(begun if blocks == "side_by_side" else x, gain)
                x = kept * (y if residual == "normed" else old) + piece(y, *own)
                x = _norm(x, gain) if both else x
            else:
                y = begun if blocks == "side_by_side" else x
                read = piece(_norm(y, gain) if both else y, *own)
                x = x + _norm(read, gain) if residual == "normed" else _norm(kept * old + read, gain)
    for _ in range({"right": 1, "missing": 0, "twice": 2}[last]):
        x = _norm(x, of("last"))
    if out == "hidden":
        return torch.from_numpy(x)
    found = torch.from_numpy(x @ table.T / (x.shape[-1] ** 0.5 if logits == "divided" else 1))
    return {"right": found, "softmax": found.softmax(-1), "log_softmax": found.log_softmax(-1),
            "last": found[:, -1]}[out]  # fmt: skip


# ----------------------------------------------------------------------------- the grader's own pieces


def _embed(ids, table):
    places = np.arange(ids.shape[1])[:, None]
    return table[ids] * 2 + np.sin(places / np.arange(1, table.shape[1] + 1))


def _attend(x, w_q, w_k, w_v, w_o):
    q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T
    scores = q @ k.swapaxes(-1, -2) / x.shape[-1] ** 0.5
    e = np.exp(scores - scores.max(-1, keepdims=True)) * np.tri(x.shape[1])
    return e / e.sum(-1, keepdims=True) @ v @ w_o.T


def _norm(x, gain):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain


def _feed(x, w_gate, w_up, w_down):
    return (np.maximum(x @ w_gate.T, 0) * (x @ w_up.T)) @ w_down.T


def _pieces():
    """As the student's function gets them: of tensors."""
    import torch

    def embed(ids, table):
        return torch.from_numpy(_embed(*map(np.asarray, (ids, table))))

    def attend(x, w_q, w_k, w_v, w_o):
        return torch.from_numpy(_attend(*map(np.asarray, (x, w_q, w_k, w_v, w_o))))

    def norm(x, gain):
        return torch.from_numpy(_norm(*map(np.asarray, (x, gain))))

    def feed(x, w_gate, w_up, w_down):
        return torch.from_numpy(_feed(*map(np.asarray, (x, w_gate, w_up, w_down))))

    return embed, attend, norm, feed


def cases(rng, choice, names):
    import torch

    pieces = _pieces()

    def made(b, length, n_layers, width, wide, words=7):
        def drawn(*shape):
            return torch.from_numpy(rng.normal(size=shape) / 1.5)

        weights = {"table": drawn(words, width)}
        for i in range(n_layers):
            weights |= {f"{key}{i}": drawn(width, width) for key in "qkvo"}
            weights |= {f"gate{i}": drawn(wide, width), f"up{i}": drawn(wide, width),
                        f"down{i}": drawn(width, wide)}  # fmt: skip
            weights |= {f"{key}{i}": 1 + drawn(width) for key in ("first", "second")}
        weights["last"] = 1 + drawn(width)
        ids = torch.from_numpy(rng.integers(0, words, (b, length)))
        return ids, _named(weights, n_layers, names), n_layers, *pieces

    return [
        Case("2 layers", made(2, 4, 2, 6, 5),
             hint="Write the steps of one layer as a list, each with the weights that it reads, and hold it "
                  "against your code."),
        Case("1 layer", made(2, 3, 1, 4, 4)),
        Case("4 layers and one sentence", made(1, 5, 4, 4, 7)),
        Case("a single word", made(2, 1, 2, 5, 3)),
        Case("as many features inside as outside", made(2, 3, 2, 6, 6)),
        Case("as many words as features and as sentences", made(4, 4, 2, 4, 8)),
    ]  # fmt: skip


def _named(weights, n_layers, names):
    """The weights as a checkpoint with these names."""
    import torch

    def of(key, i):
        if key == "qkv":
            return torch.cat([weights[f"{each}{i}"] for each in "qkv"])
        return torch.cat([weights[f"{each}{i}"] for each in key.split("_")])

    found = {}
    for key, name in NAMES[names][1].items():
        if "{i}" in name:
            found |= {name.format(i=i): of(key, i) for i in range(n_layers)}
        else:
            found[name] = weights[key]
    return found


MISTAKES = (
    Mistake("first_layer_for_all", "Every layer of yours has the weights of layer 0.", {"layers": "first"}),
    Mistake("last_layer_for_all", "Every layer of yours has the weights of the last.", {"layers": "last"}),
    Mistake("layers_backwards", "You go through the layers from the last to the first.",
            {"layers": "backwards"}),
    Mistake("last_layer_left_out", "Your last layer is left out.", {"layers": "one_less"}),
    Mistake("first_layer_left_out", "Your first layer, that with the number 0, is left out.",
            {"layers": "one_more"}),
    Mistake("one_layer", "You go through one layer, however many there are.", {"layers": "one"}),
    Mistake("feeding_first", "You put the feed-forward layer before attention.", {"order": "exchanged"}),
    Mistake("side_by_side", "Attention and the feed-forward layer read the same x. The second reads what the "
            "first has left.", {"blocks": "side_by_side"}),
    Mistake("gains_exchanged", "The gains of the two norms in a layer have changed places.",
            {"gains": "exchanged"}),
    Mistake("one_gain", "Both norms of a layer have the gain of the first.", {"gains": "first"}),
    Mistake("one_gain", "Both norms of a layer have the gain of the second.", {"gains": "second"}),
    Mistake("no_residual", "Nothing is added to what attention gives: its residual is missing.",
            {"residual": "attend"}),
    Mistake("no_residual", "Nothing is added to what the feed-forward layer gives: its residual is missing.",
            {"residual": "feed"}),
    Mistake("no_residual", "Both residuals of a layer are missing.", {"residual": "none"}),
    Mistake("residual_of_the_beginning", "You add what the feed-forward layer gives to the x that came into "
            "the layer. What attention has added is lost.", {"residual": "begun"}),
    Mistake("embed_not_used", "You take the rows of the table yourself. `embed` adds the places.",
            {"embedded": False}),
    Mistake("residual_of_the_norm", "Your residuals lie at the wrong side of the norm. What is added to "
            "what, and what is normed?", {"residual": "normed"}),
    Mistake("normed_twice", "You norm before and after each layer. One of the two is asked for.",
            {"both": True}),
    Mistake("last_norm_missing", "The norm at the end is missing.", {"last": "missing"}),
    Mistake("last_norm_twice", "The norm at the end comes twice.", {"last": "twice"}),
    Mistake("queries_and_keys_exchanged", "w_q and w_k have changed places.", {"roles": "kqv"}),
    Mistake("keys_and_values_exchanged", "w_k and w_v have changed places.", {"roles": "qvk"}),
    Mistake("queries_and_values_exchanged", "w_q and w_v have changed places.", {"roles": "vkq"}),
    Mistake("gate_and_up_exchanged", "w_gate and w_up have changed places.", {"gate": "exchanged"}),
    Mistake("softmax_at_the_end", "You return probabilities. The logits are asked for.", {"out": "softmax"}),
    Mistake("softmax_at_the_end", "You return logarithms of probabilities. The logits are asked for.",
            {"out": "log_softmax"}),
    Mistake("last_word_alone", "You return the logits of the last word alone. Each word has some.",
            {"out": "last"}),
    Mistake("no_logits", "You return the words' vectors. The way out, through the table, is missing.",
            {"out": "hidden"}),
)  # fmt: skip


def _judge_for(choice):
    judges = {
        names: judge_of_variant(
            lambda *args, names=names, **choices: compute(*args, names=names, **choices),
            CONVENTIONS, choice, MISTAKES,
            lambda rng, ours, names=names: cases(rng, ours, names),
            "Each piece reads its own weights, in the right order, in a model of any depth.", visible=3,
            atol=1e-5,
        )
        for names in NAMES
    }  # fmt: skip
    own = choice["names"]

    def judge(function, seed=None):
        read = _names_read(function, own) if callable(function) else own
        verdict = judges[read](function, seed)
        if read == own or verdict.passed is None:
            return verdict
        told = f"You read the weights {NAMES[read][0]}. Here: the names in the task's table."
        elsewhere = "Right under another convention."
        _, other, rest = verdict.message.partition(f"{elsewhere} ")
        if verdict.passed or other:
            name = f"names_{read}" + f"_and_{verdict.misconception}" * bool(other)
            return wrong(f"{elsewhere} {told} {rest}".rstrip(), name, convention=True)
        return wrong(f"{told} And with those names: {verdict.message}", f"names_{read}", convention=True)

    return judge


def _names_read(function, own):
    """Whose names a function reads: those of another class's checkpoint where it misses one of them here."""
    raised = call(function, _first_case(own).args).raised
    if raised and raised[0] == "KeyError":
        ours = {_plain(name) for name in NAMES[own][1].values()}
        for names, (_, theirs) in NAMES.items():
            if any(_plain(name) in raised[1] for name in theirs.values() if _plain(name) not in ours):
                return names
    return own


@cache
def _first_case(names):
    """Any case: which names a function reads does not depend on numbers."""
    return cases(np.random.default_rng(0), None, names)[0]


def _plain(name):
    """As the words of an exception are compared: without its numbers, in quotes."""
    return repr(re.sub(r"\d+", "#", name.replace("{i}", "0")))


def question(choice):
    names = NAMES[choice["names"]][1]
    rows = "\n".join(f"| `{names[key]}` | {ROWS[key][0]} | {ROWS[key][1]} |" for key in ROWS if key in names)
    solution = SOLUTION.format(
        table=names["table"], first=names["first"], second=names["second"], last=names["last"],
        matrices="\n        ".join(_matrices(names)), layer="\n        ".join(LAYER[choice["placed"]]),
    )  # fmt: skip
    return Question(
        id="whole", title="From ids to logits",
        kind="function", name="whole", points=5, part=2, minutes=18,
        text=TEXT.format(rows=rows, **said(CONVENTIONS, choice)),
        given=GIVEN.format(shapes=_shapes(names)),
        stub=STUB,
        solution=filled(solution, CONVENTIONS, choice),
        judge=_judge_for(choice),
    )  # fmt: skip


def _shapes(names):
    """The locked cell's dictionary of shapes, of two layers."""
    sizes = {"V": 5, "D": 4, "3D": 12, "F": 6, "2F": 12}
    parts = []
    for key, name in names.items():
        shape = tuple(sizes[each] for each in ROWS[key][0].strip("()").replace(" ", "").split(",") if each)
        for i in range(2) if "{i}" in name else (0,):
            parts.append(f'    "{name.format(i=i)}": {shape},')
    return "{\n" + "\n".join(parts) + "\n}"
