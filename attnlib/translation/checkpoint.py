"""A translator in a file: arrays alone, so that nothing in it can run."""

import json

import numpy as np
import torch

from attnlib.layers.transformer import Transformer
from attnlib.translation.translator import Translator
from attnlib.translation.vocabulary import MARKS, Vocabulary


def save_translator(path, translator, settings):
    """Write weights (float32), words and the `Transformer`'s settings to an ``.npz`` file."""
    zh, en = (list(words)[len(MARKS) :] for words in (translator.zh_words, translator.en_words))
    weights = {f"model.{name}": x.numpy() for name, x in translator.model.state_dict().items()}
    np.savez(path, settings=json.dumps(settings), zh=np.array(zh), en=np.array(en), **weights)


def load_translator(path):
    """The translator of a file that `save_translator` wrote, in evaluation mode."""
    with np.load(path, allow_pickle=False) as file:
        zh_words, en_words = (Vocabulary(file[name].tolist()) for name in ("zh", "en"))
        model = Transformer(len(zh_words), len(en_words), **json.loads(str(file["settings"])))
        weights = {name[6:]: torch.from_numpy(file[name]) for name in file.files if name[:6] == "model."}
    model.load_state_dict(weights)
    return Translator(model.eval(), zh_words, en_words)
