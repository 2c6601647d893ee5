"""Make data/digits.npz and data/photographs.npz from what scikit-learn carries (cards beside them).

    python tools/images.py

scikit-learn is no dependency of the course: install it first. Another release of Pillow may decode or
scale the photographs to values that differ by one.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn import datasets

DATA = Path(__file__).resolve().parent.parent / "data"
SIZE = 192, 128  # width and height; the photographs are 640 x 427


def digits():
    read = datasets.load_digits()
    return {"images": read.images.astype(np.uint8), "labels": read.target.astype(np.uint8)}


def photographs():
    read = datasets.load_sample_images()
    scaled = [Image.fromarray(image).resize(SIZE, Image.Resampling.LANCZOS) for image in read.images]
    names = [Path(name).stem for name in read.filenames]
    return {"names": np.array(names), "images": np.stack([np.asarray(image) for image in scaled])}


def main():
    np.savez_compressed(DATA / "digits.npz", **digits())
    np.savez_compressed(DATA / "photographs.npz", **photographs())


if __name__ == "__main__":
    main()
