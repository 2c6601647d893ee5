"""Every view passes the check of figures, at its first state and at those that change most of it."""

from itertools import product

import numpy as np
import pytest
from gallery import judge

from attnlib import views
from attnlib.views.painted_mask import PRESETS
from attnlib.views.translator_heads import ATTENTIONS, SENTENCES

# Beside the state that each view starts with, those that change most of it.
STATES = {
    "mask_view": [{"mask": mask.tolist()} for mask in
                  (PRESETS["causal"], PRESETS["nothing"], np.random.default_rng(0).random((8, 8)) < 0.5)],
    "saturation_view": [{"width": 1, "temperature": 0.25}, {"width": 1024, "temperature": 256.0},
                        {"width": 4, "temperature": 4.0}, {"width": 4, "temperature": 8.0},
                        {"width": 16, "temperature": 64.0},
                        {"width": 256, "temperature": 2**-1.5}],
    "tiles_view": [{"queries": 8, "keys": 8, "step": 1}, {"queries": 3, "keys": 2, "causal": True},
                   {"queries": 1, "keys": 1, "step": 36, "causal": True}],
    "translator_view": [{"sentence": sentence, "attention": attention, "asks": 1}
                        for sentence, attention in product(SENTENCES, ATTENTIONS)],
}  # fmt: skip
VIEWS = [name for name in views.__all__ if name != "View"]


@pytest.mark.parametrize("name, state", [(name, state) for name in VIEWS for state in ({}, *STATES[name])])
def test_every_view_passes(name, state):
    view = getattr(views, name)()
    figure, _ = view.draw(**(view.start | state))
    assert judge.findings(figure) == []
