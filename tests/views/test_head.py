"""The head that two views share: who depends on whom."""

import numpy as np

from attnlib.datasets import running_example
from attnlib.views.head import queries_and_keys

WANTED = {"吃了": "我", "一个": "苹果", "它": "苹果", "甜": "它"}  # as lesson 08 says it


def test_each_word_scores_three_with_what_it_depends_on_and_nothing_else():
    zh = running_example().zh
    q, k = queries_and_keys()
    scores = q @ k.T / 2
    expected = np.array([[3.0 * (WANTED.get(query) == key) for key in zh] for query in zh])
    np.testing.assert_array_equal(scores, expected)
