"""The exercises of lesson 09: each judge takes an answer and returns a verdict."""

JUDGES = {}
