"""Interactive views: a figure that its reader moves, with its words, and still where no kernel runs.

Each function gives a `View`; as the last line of a notebook cell it shows itself.
"""

from attnlib.views.flash_tiles import tiles_view
from attnlib.views.painted_mask import mask_view
from attnlib.views.saturation import saturation_view
from attnlib.views.translator_heads import translator_view
from attnlib.views.view import View

__all__ = ["View", "mask_view", "saturation_view", "tiles_view", "translator_view"]
