"""Small seeded IDX files of ten classes, in the format of MNIST."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIDE = 6  # pixels per side


def idx(values: NDArray[np.uint8]) -> bytes:
    """Return an IDX file, by definition of the format."""
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def pictures(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return pictures in which each class sets different pixels, and their labels: all ten classes in turn."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(count) % 10).astype(np.uint8)
    images = generator.integers(0, 100, size=(count, SIDE, SIDE), dtype=np.uint8)
    images.reshape(count, -1)[np.arange(count)[:, None], 3 * labels[:, None] + np.arange(3)] += 150
    return images, labels


def dataset(folder: Path, *, packed: bool = False, dotted: bool = False, train: int = 1200, test: int = 400) -> Path:
    """Write the four files of a dataset."""
    folder.mkdir(parents=True)
    for part, count, seed in (("train", train, 1), ("t10k", test, 2)):
        for kind, values in zip(("images", "labels"), pictures(count, seed), strict=True):
            name = f"{part}-{kind}{'.' if dotted else '-'}idx{values.ndim}-ubyte"
            content = idx(values)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
    return folder
