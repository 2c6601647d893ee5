"""The exercises of lesson 07: each judge takes an answer and returns a verdict."""

JUDGES = {}
