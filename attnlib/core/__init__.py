"""Scores, softmaxes, masks, scaled dot-product attention and their statistics.

Everything here is written once, on the array API, and runs on NumPy arrays and torch tensors alike.
"""
