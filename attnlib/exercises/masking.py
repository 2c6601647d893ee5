"""The exercises of lesson 08: each judge takes an answer and returns a verdict."""

JUDGES = {}
