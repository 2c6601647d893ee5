"""What the shipped translator must do, and any other that the script trains in its place."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from attnlib import IBMModel1, alignment_error_rate, attention_alignment, diagonal_alignment
from attnlib.datasets import _DATA, first_map, running_example, translation_pairs, translator
from attnlib.translation.checkpoint import load_translator, save_translator
from attnlib.translation.corpus import kept_for_tests
from attnlib.translation.recipe import MODEL, quality, train_translator, untrained_translator


@pytest.fixture(scope="module")
def model():
    return translator()


@pytest.fixture(scope="module")
def unseen():
    return translation_pairs(300, seed=11, unseen=True)


def test_it_translates_and_aligns_what_it_has_never_seen(model, unseen):
    exact_match, error_rate = quality(model, unseen)
    sure, possible = [pair.sure for pair in unseen], [pair.possible for pair in unseen]
    diagonal = [diagonal_alignment(len(pair.zh), len(pair.en)) for pair in unseen]
    assert exact_match > 0.95
    assert error_rate < 0.25 < 0.4 < alignment_error_rate(diagonal, sure, possible)


def test_an_untrained_one_does_neither(unseen):
    exact_match, error_rate = quality(untrained_translator(translation_pairs(2000)), unseen)
    assert exact_match == 0 and error_rate > 0.5


def test_the_courses_own_sentences(model):
    zh, en, *_ = running_example()
    assert model([zh, ("我", "爱", "你"), ("你", "爱", "我")]) == [
        en,
        ("I", "love", "you"),
        ("you", "love", "me"),
    ]
    assert kept_for_tests(zh)


@pytest.mark.parametrize("zh, en", [
    ("老师 修理了 一台 变压器", "the teacher repaired a transformer"),
    ("老师 训练了 一个 模型", "the teacher trained a transformer"),
    ("老师 在 玩 一个 变形金刚", "the teacher is playing with a transformer"),
])  # fmt: skip
def test_three_words_that_are_all_transformer(model, zh, en):
    assert model([zh.split()]) == [tuple(en.split())]


def test_a_map_has_a_row_for_each_word_and_its_rows_sum_to_one(model):
    pairs = translation_pairs(20, seed=3, unseen=True)
    for pair, weights in zip(pairs, model.cross_attention(pairs), strict=True):
        assert weights.shape == (1, len(pair.en), len(pair.zh))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(
            model.cross_attention([pair])[0], weights, atol=1e-5
        )  # alone or in a batch


def test_the_rows_are_those_of_the_steps_that_write(model):
    zh, en, *_ = running_example()
    inputs = torch.tensor([[1, *model.en_words.ids(en)]])
    memory, mask = model.model.encode(torch.from_numpy(model.zh_words.ids(zh)[None]))
    written = model.model.decode(inputs, memory, mask)[0, :-1].argmax(-1)
    assert model.en_words.words(written) == en
    weights = model.cross_attention([(zh, en)])[0][0]
    shifted = [attention_alignment(np.roll(weights, n, axis=0)) for n in (-1, 1)]
    gold = {(i, i) for i in range(8)}
    assert all(len(gold & attention_alignment(weights)) > len(gold & other) for other in shifted)


def test_the_stored_map_is_the_checkpoints(model):
    zh, en, weights = first_map()
    assert (zh, en) == running_example()[:2]
    np.testing.assert_allclose(model.cross_attention([(zh, en)])[0][0], weights, atol=1e-3)


def test_the_stored_map_and_the_sentences_need_no_torch():
    code = (
        "import sys; from attnlib.datasets import first_map, translation_pairs; import attnlib\n"
        "from attnlib.translation import batches, vocabulary\n"
        "first_map(), translation_pairs(3), attnlib.IBMModel1([('a', 'b')])\n"
        "attnlib.diagonal_alignment(2, 2)\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_the_file_holds_arrays_alone_and_is_small():
    path = _DATA / "translator.npz"
    assert path.stat().st_size < 1e6
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fU" for name in file.files)
        assert json.loads(str(file["settings"])) == MODEL


def test_a_file_gives_back_what_was_saved(tmp_path, model):
    save_translator(tmp_path / "a.npz", model, MODEL)
    again = load_translator(tmp_path / "a.npz")
    assert not again.model.training
    assert all(map(torch.equal, again.model.state_dict().values(), model.model.state_dict().values()))
    assert list(again.zh_words) == list(model.zh_words) and list(again.en_words) == list(model.en_words)


def test_a_seed_decides_everything_and_disturbs_nothing():
    pairs, state = translation_pairs(200), torch.random.get_rng_state()
    (first, a), (second, b), (_, c) = (train_translator(n, pairs=pairs, steps=3) for n in (1, 1, 2))
    assert a == b != c and torch.equal(torch.random.get_rng_state(), state)
    assert all(map(torch.equal, first.model.parameters(), second.model.parameters()))


def test_counting_words_aligns_about_as_well(unseen):
    counts = IBMModel1(translation_pairs(3000))
    sure, possible = [pair.sure for pair in unseen], [pair.possible for pair in unseen]
    assert alignment_error_rate([counts.align(p.zh, p.en) for p in unseen], sure, possible) < 0.12


def test_a_word_that_it_has_not_learned_is_named(model):
    with pytest.raises(ValueError, match="no word '企鹅'"):
        model([("企鹅", "吃了", "一个", "苹果")])
