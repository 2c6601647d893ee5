"""Figures of the course: one figure a function, each returning a Matplotlib figure."""

from attnlib.plots.heatmap import attention_heatmap
