import re

import numpy as np

from attnlib import attention_weights
from attnlib.datasets import (
    _DATA,
    digits,
    generated_sessions,
    library_books,
    photographs,
    running_example,
    shop_sessions,
    shop_titles,
    word_counts,
)


def test_running_example_has_the_course_sentence_and_one_kind_a_token():
    example = running_example()
    assert "".join(example.zh) == "我吃了一个苹果，它很甜"
    assert " ".join(example.en) == "I ate an apple , it was sweet"
    assert example.vectors.shape == (8, 8) == (len(example.zh), len(example.axes))
    np.testing.assert_array_equal(example.vectors.sum(1), 1)
    np.testing.assert_array_equal(example.vectors.sum(0), 1)


def test_head_one_finds_what_a_word_depends_on_with_three_quarters_of_the_weight():
    zh, _, axes, x = running_example()
    asks = {"number": "thing", "pointer": "thing", "action": "person", "quality": "pointer"}
    offers = ["thing", "person", "pointer", "degree"]
    w_k = np.array([[axis == offer for offer in offers] for axis in axes], float)
    w_q = 6 * np.array([[asks.get(axis) == offer for offer in offers] for axis in axes], float)
    weights = attention_weights(x @ w_q, x @ w_k)
    for query, key in (("一个", "苹果"), ("它", "苹果"), ("吃了", "我"), ("甜", "它")):
        assert round(weights[zh.index(query), zh.index(key)], 2) == 0.74


def test_shop_and_library_agree_with_their_cards():
    shop, library = shop_titles(), library_books()
    assert shop.keys.shape == (6, 7) and shop.prices.shape == (6,) and (shop.prices > 0).all()
    assert shop.keys[shop.zh.index("李宁球拍")] @ shop.keys[shop.zh.index("李宁跑步鞋")] == 1
    assert library.keys.shape == (6, 6) and library.contents.shape == (6, 5)
    np.testing.assert_allclose(library.contents.sum(1), 1)
    assert all(len(shop.zh) == len(shop.en) == 6 for shop in (shop, library))


# The rules of the card once more, as a pattern over one letter an item: a theme's three things are f, s, t,
# a is an aside, and a present is written out.
PRESENT = "(mw|dwg)?"
SESSION = re.compile(f"({PRESENT}f{PRESENT}s(a{PRESENT}t)?)+")
LETTERS = "fst" * 8 + "dmwg" + "aaaa"


def letters(row):
    return "".join(LETTERS[i - 1] for i in row[row > 0])


def test_sessions_written_by_hand_keep_the_rules_of_their_card():
    shop = shop_sessions()
    assert (
        len(shop.zh) == len(set(shop.zh)) == len(set(shop.en)) == 33 and shop.zh[0] == shop.en[0] == "<pad>"
    )
    assert shop.items.shape == shop.decided.shape == (72, 8) == (len({*map(tuple, shop.items)}), 8)
    for row, decided in zip(shop.items, shop.decided, strict=True):
        length = (row > 0).sum()
        assert 4 <= length <= 8 and (row[length:] == 0).all()
        assert SESSION.fullmatch(letters(row)), [shop.en[i] for i in row]
        for i, letter in enumerate(letters(row)):
            assert decided[i] == (letter in "stwg")
            if letter in "st":  # of the theme that was begun last
                first = max(j for j in range(i) if letters(row)[j] == "f")
                assert row[i] - row[first] == "fst".index(letter)
        assert not decided[length:].any()
    assert {*shop.items.ravel()} == {*range(33)}


def test_generated_sessions_are_of_the_same_kind_and_none_was_written_by_hand():
    shop, more = shop_sessions(), generated_sessions(500, seed=3)
    assert (more.zh, more.en) == (shop.zh, shop.en) and more.items.shape == (500, 8)
    assert all(SESSION.fullmatch(letters(row)) for row in more.items)
    assert all(
        (d == [x in "stwg" for x in letters(row).ljust(8)]).all() for row, d in zip(*more[2:], strict=True)
    )
    assert not {*map(tuple, more.items)} & {*map(tuple, shop.items)}
    assert {*more.items.ravel()} == {*range(33)}
    np.testing.assert_array_equal(generated_sessions(500, seed=3).items, more.items)
    assert (generated_sessions(500, seed=4).items != more.items).any()


def test_words_are_in_order_of_their_counts():
    words, counts = word_counts()
    assert len(words) == len(set(words)) == len(counts) == 8826 and counts.sum() == 226214
    assert (np.diff(counts) <= 0).all() and counts[-1] == 1
    assert all(word.replace("'", "").isalpha() and word == word.lower() for word in words)


def test_digits_are_as_the_card_says_and_look_like_their_labels():
    images, labels = digits()
    assert images.shape == (1797, 8, 8) and images.dtype == np.uint8
    assert (images.min(), images.max()) == (0, 16)
    assert labels.shape == (1797,) and labels.dtype == np.int64
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    middle = np.stack([images[labels == digit].mean(0) for digit in range(10)])
    distance = ((images[:, None] - middle) ** 2).sum((-1, -2))
    assert (distance.argmin(-1) == labels).mean() > 0.9


def test_photographs_lie_upright_in_three_colours():
    names, images = photographs()
    assert names == ("china", "flower") and images.shape == (2, 128, 192, 3) and images.dtype == np.uint8
    china, flower = images.astype(float)
    assert china[:30, ..., 2].mean() > china[:30, ..., 0].mean()  # the sky is above, and blue
    assert china[:30].mean() > china[-30:].mean()
    middle, corner = flower[50:80, 80:110].mean((0, 1)), flower[:20, :20].mean((0, 1))
    assert middle.argmax() == 0 and corner.argmin() == 0  # the flower is orange, the leaves are not


def test_every_data_file_has_a_card_and_a_line_in_the_index():
    index = (_DATA / "README.md").read_text(encoding="utf-8")
    files = [p for p in _DATA.iterdir() if p.suffix not in (".md", "")]
    assert files
    for path in files:
        card = path.with_suffix(".md").read_text(encoding="utf-8")
        assert "**Origin.**" in card and "**Licence.**" in card and "**Rebuild.**" in card
        assert path.name in index and path.with_suffix(".md").name in index


def test_callers_get_arrays_of_their_own():
    running_example().vectors[:] = 0
    shop_titles().prices[:] = 0
    digits().images[:] = 0
    photographs().images[:] = 0
    assert digits().images.any() and photographs().images.any()
    assert running_example().vectors.sum() == 8 and shop_titles().prices.all()
