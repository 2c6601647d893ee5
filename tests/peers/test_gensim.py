"""Huffman codes against gensim, as its hierarchical softmax uses them."""

import numpy as np

from attnlib import huffman_tree


def lengths(word2vec, counts):
    model = word2vec.Word2Vec(hs=1, negative=0, min_count=1, vector_size=1)
    model.build_vocab_from_freq({f"word{i}": int(count) for i, count in enumerate(counts)})
    theirs = [len(model.wv.get_vecattr(f"word{i}", "code")) for i in range(len(counts))]
    return (huffman_tree(counts).codes >= 0).sum(1), np.array(theirs)


def test_lengths_of_codes(peer):
    rng = np.random.default_rng(0)
    ours, theirs = lengths(peer("gensim.models.word2vec"), rng.integers(1, 10**9, 300))
    assert (ours == theirs).all()


def test_among_equals_the_mean_length(peer):
    counts = np.random.default_rng(0).zipf(1.5, 300).clip(1, 10**6)
    ours, theirs = lengths(peer("gensim.models.word2vec"), counts)
    assert counts @ ours == counts @ theirs, "whichever came first"
