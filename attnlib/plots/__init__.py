"""Figures of the course: one figure a function, each returning a Matplotlib figure.

In a notebook: ``show(attention_heatmap(weights, words, words), alt="What it shows.")``.
"""

from attnlib.plots.bars import weight_bars
from attnlib.plots.course_map import lesson_map
from attnlib.plots.dials import dials
from attnlib.plots.features import feature_map
from attnlib.plots.heatmap import attention_heatmap
from attnlib.plots.layout import head_layout
from attnlib.plots.lines import curves
from attnlib.plots.masks import mask_maps
from attnlib.plots.notebook import show
from attnlib.plots.pages import block_tables
from attnlib.plots.panels import panels
from attnlib.plots.pictures import pictures
from attnlib.plots.stages import transformer_stages
from attnlib.plots.style import use_style
from attnlib.plots.table import attention_table
from attnlib.plots.tree import word_tree
from attnlib.plots.vectors import plane
from attnlib.plots.verdicts import caught_by
from attnlib.plots.walks import walks
from attnlib.plots.wirings import wirings

__all__ = [
    "attention_heatmap",
    "attention_table",
    "block_tables",
    "caught_by",
    "curves",
    "dials",
    "feature_map",
    "head_layout",
    "lesson_map",
    "mask_maps",
    "panels",
    "pictures",
    "plane",
    "show",
    "transformer_stages",
    "use_style",
    "walks",
    "weight_bars",
    "wirings",
    "word_tree",
]
