"""Reading MNIST and Fashion-MNIST from a folder: the IDX files as they are published, packed by gzip or not.

An IDX file is two zero bytes, a type (0x08: bytes), the number of dimensions, each dimension as a big-endian 32-bit
number, then the values.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput

Bytes = NDArray[np.uint8]

FILES = {
    "train": ("train-images", "train-labels"),
    "test": ("t10k-images", "t10k-labels"),
}
"""First part of the names of a dataset's four files."""

DATASETS = {"mnist": ("mnist", "MNIST"), "fashion-mnist": ("fashion-mnist", "fashion_mnist", "FashionMNIST", "fashion")}
"""Names of the folder that holds a dataset."""


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled pictures in two parts.

    Attributes:
        name: which dataset.
        train: shape (n, pixels), uint8.
        train_labels: shape (n,), uint8.
        test: shape (n_test, pixels), uint8.
        test_labels: shape (n_test,), uint8.
    """

    name: str
    train: Bytes
    train_labels: Bytes
    test: Bytes
    test_labels: Bytes


def read_idx(path: str | Path) -> Bytes:
    """Return the bytes of an IDX file in their shape.

    Args:
        path: the file; one whose name ends in .gz is unpacked.

    Raises:
        InvalidInput: it cannot be read, is no IDX file of bytes, or is cut short or too long.
    """
    path = Path(path)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as err:
        raise InvalidInput("data", str(path), "a readable IDX file", f"{err}.") from err
    if len(content) < 4 or content[:3] != b"\x00\x00\x08" or len(content) < 4 + 4 * content[3]:
        raise InvalidInput("data", str(path), "an IDX file of bytes", "It begins otherwise.")
    shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3])
    if values.size != math.prod(shape):
        raise InvalidInput(
            "data", str(path), f"{math.prod(shape)} values, as it says itself", f"It holds {values.size}."
        )
    return values.reshape(shape)


def find_images(folder: str | Path) -> list[Images]:
    """Return the datasets in a folder: in folders of their names (and ``raw`` below, as torchvision has it), or itself.

    Files that lie in ``folder`` itself are taken for MNIST, or Fashion-MNIST if the folder's name says so.

    Raises:
        InvalidInput: no dataset is there, or its files do not fit together.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidInput("data", str(folder), "a folder", "There is none.")
    datasets = []
    for name, folders in DATASETS.items():
        places = [folder / folder_name / below for folder_name in folders for below in ("", "raw")]
        if ("fashion" in folder.name.lower()) == (name == "fashion-mnist"):
            places.append(folder)
        place = next((place for place in places if _file(place, FILES["train"][0])), None)
        if place is not None:
            datasets.append(_images(name, place))
    if not datasets:
        raise InvalidInput(
            "data",
            str(folder),
            "a folder with the IDX files of MNIST or Fashion-MNIST",
            "Such as mnist/train-images-idx3-ubyte.gz; there are none.",
        )
    return datasets


def _images(name: str, folder: Path) -> Images:
    parts: list[Bytes] = []
    for images_name, labels_name in FILES.values():
        images, labels = (read_idx(_needed(folder, name_start)) for name_start in (images_name, labels_name))
        if images.ndim != 3 or labels.shape != images.shape[:1] or not images.size:
            raise InvalidInput(
                "data",
                str(folder),
                "pictures of shape (n, rows, columns) and n labels",
                f"Shapes {images.shape} and {labels.shape}.",
            )
        parts += [images.reshape(len(images), -1), labels]
    if parts[0].shape[1] != parts[2].shape[1]:
        raise InvalidInput("data", str(folder), "pictures of one size in both parts")
    return Images(name, *parts)


def _needed(folder: Path, begin: str) -> Path:
    path = _file(folder, begin)
    if path is None:
        raise InvalidInput("data", str(folder), f"a file {begin}-idx…-ubyte, or with .gz behind", "It is missing.")
    return path


def _file(folder: Path, begin: str) -> Path | None:
    """Return the file of that name; both ways of writing it are in use: -idx3-ubyte and .idx3-ubyte."""
    return next(iter(sorted(folder.glob(f"{begin}[-.]idx?-ubyte*"))), None) if folder.is_dir() else None
