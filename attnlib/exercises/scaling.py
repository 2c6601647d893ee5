"""The exercises of lesson 06: each judge takes an answer and returns a verdict."""

JUDGES = {}
