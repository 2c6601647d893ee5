import numpy as np

from attnlib import attention_weights
from attnlib.datasets import _DATA, library_books, running_example, shop_titles, word_counts


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


def test_words_are_in_order_of_their_counts():
    words, counts = word_counts()
    assert len(words) == len(set(words)) == len(counts) == 8826 and counts.sum() == 226214
    assert (np.diff(counts) <= 0).all() and counts[-1] == 1
    assert all(word.replace("'", "").isalpha() and word == word.lower() for word in words)


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
    assert running_example().vectors.sum() == 8 and shop_titles().prices.all()
