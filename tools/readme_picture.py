"""Draw the README's picture, ``docs/first_map.png``: the attention map of lesson 01."""

from pathlib import Path

import numpy as np

from attnlib import attention_weights
from attnlib.datasets import running_example
from attnlib.plots import attention_heatmap

ASKS = {"action": "person", "number": "thing", "pointer": "thing", "quality": "pointer"}
OFFERS = ("thing", "person", "pointer", "degree")


def main():
    zh, en, kinds, x = running_example()
    w_q = np.array([[6.0 * (ASKS.get(kind) == offer) for offer in OFFERS] for kind in kinds])
    w_k = np.array([[1.0 * (kind == offer) for offer in OFFERS] for kind in kinds])
    words = [f"{a} {b}" for a, b in zip(zh, en, strict=True)]
    fig = attention_heatmap(
        attention_weights(x @ w_q, x @ w_k), words, en, title="Which word does each word depend on?"
    )
    target = Path(__file__).resolve().parent.parent / "docs" / "first_map.png"
    target.parent.mkdir(exist_ok=True)
    fig.savefig(target, dpi=100, metadata={"Software": None})
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
