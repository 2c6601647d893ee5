"""Draw the README's picture, ``docs/first_map.png``: the first attention map of lesson 00."""

from pathlib import Path

from attnlib.datasets import first_map
from attnlib.plots import attention_heatmap


def main():
    zh, en, weights = first_map()
    fig = attention_heatmap(weights, en, zh, title="Where did it look before it wrote each word?")
    target = Path(__file__).resolve().parent.parent / "docs" / "first_map.png"
    target.parent.mkdir(exist_ok=True)
    fig.savefig(target, dpi=100, metadata={"Software": None})
    print(f"wrote {target.name}")


if __name__ == "__main__":
    main()
