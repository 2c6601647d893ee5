"""Train the translator that ships with the course: data/translator.npz, data/first_map.json (cards there).

    python tools/train_translator.py

About half a minute of one thread. Another processor or another torch may give other last digits, and so
another model in the end; tests/translation/test_translator.py says what any of them must do.
"""

import json
from pathlib import Path

import torch

from attnlib import IBMModel1, alignment_error_rate, diagonal_alignment
from attnlib.datasets import running_example, translation_pairs
from attnlib.translation.checkpoint import save_translator
from attnlib.translation.recipe import MODEL, PAIRS, quality, train_translator

DATA = Path(__file__).resolve().parent.parent / "data"
SEED, TEST_SEED = 0, 1_000_000


def main():
    torch.set_num_threads(1)
    translator, losses = train_translator(SEED)
    save_translator(DATA / "translator.npz", translator, MODEL)
    write_first_map(translator)
    test = translation_pairs(1000, TEST_SEED, unseen=True)
    sure, possible = [pair.sure for pair in test], [pair.possible for pair in test]
    counts = IBMModel1(translation_pairs(PAIRS, SEED))
    print("loss at the end", round(sum(losses[-10:]) / 10, 4))
    print("on 1,000 unseen sentences:", quality(translator, test))
    for name, found in (
        ("diagonal", [diagonal_alignment(len(pair.zh), len(pair.en)) for pair in test]),
        ("IBM Model 1", [counts.align(pair.zh, pair.en) for pair in test]),
    ):
        print(f"alignment error rate of {name}: {alignment_error_rate(found, sure, possible):.3f}")
    print("the running example:", " ".join(translator([running_example().zh])[0]))


def write_first_map(translator):
    """The running example's map with three digits of each weight; none becomes 0, which would mean hidden."""
    zh, en, *_ = running_example()
    weights = translator.cross_attention([(zh, en)])[0][0]
    rows = ",\n  ".join(json.dumps([float(f"{x:.3g}") for x in row]) for row in weights)
    words = f'"zh": {json.dumps(zh, ensure_ascii=False)},\n "en": {json.dumps(en)}'
    (DATA / "first_map.json").write_text(f'{{{words},\n "weights": [\n  {rows}\n ]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
