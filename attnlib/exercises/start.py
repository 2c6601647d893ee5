"""The exercises of lesson 00: each judge takes an answer and returns a verdict."""

JUDGES = {}
