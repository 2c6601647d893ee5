"""Draw the README's picture, ``docs/first_map.png``: the first attention map of lesson 00."""

from pathlib import Path

import numpy as np

from attnlib import attention_weights
from attnlib.datasets import running_example
from attnlib.plots import attention_heatmap

ASKS = {"action": "person", "number": "thing", "pointer": "thing", "quality": "pointer"}
OFFERS = ("thing", "person", "pointer", "degree")


def main():
    zh, en, axes, x = running_example()
    w_q = np.array([[6.0 * (ASKS.get(kind) == offer) for offer in OFFERS] for kind in axes])
    w_k = np.array([[1.0 * (kind == offer) for offer in OFFERS] for kind in axes])
    weights = attention_weights(x @ w_q, x @ w_k)
    asking = [i for i, row in enumerate(x) if axes[row.argmax()] in ASKS]  # the others wait for lesson 01
    fig = attention_heatmap(
        weights[asking], [f"{zh[i]} {en[i]}" for i in asking], en,
        title="Which word does each of these four depend on?",
    )
    target = Path(__file__).resolve().parent.parent / "docs" / "first_map.png"
    target.parent.mkdir(exist_ok=True)
    fig.savefig(target, dpi=100, metadata={"Software": None})
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
