"""Assignment 1, for lessons 01 to 04: what a query is compared with, and how."""

from attnlib.homework.lookup_and_scores import (
    blind_scores,
    copies,
    drawn_weights,
    lookup,
    same_key_twice,
    three_shares,
    word_scores,
)

TITLE = "Lookup and scores"
LESSONS = "lessons 01 to 04"
QUESTIONS = (copies, lookup, three_shares, word_scores, blind_scores, drawn_weights, same_key_twice)
