"""Attention that costs less: by what is left out, by what is kept, and by the order of the work."""
