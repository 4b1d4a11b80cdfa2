"""Files of votes and labels in all formats of `darrm label`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


def written(name: str, table: NDArray[Any]) -> str:
    """Write votes in the format of the file name, and return the name."""
    if name.endswith(".npy"):
        np.save(name, table)
    elif name.endswith(".csv"):
        np.savetxt(name, table, fmt="%d", delimiter=",")
    else:
        pa = pytest.importorskip("pyarrow")
        columns = {f"voter {i}": table[:, i] for i in range(table.shape[1])}
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), name, row_group_size=37)
    return name


def labels(name: str, dtype: type[np.generic] = np.uint8) -> list[int]:
    """Read labels, from arrays with their type."""
    if name.endswith(".npy"):
        table = np.load(name)
        assert table.dtype == dtype
        return [int(label) for label in table]
    if name.endswith(".csv"):
        head, *lines = Path(name).read_text(encoding="utf-8").splitlines()
        assert head == "label"
        return [int(line) for line in lines]
    return [int(label) for label in pytest.importorskip("pyarrow.parquet").read_table(name)["label"].to_pylist()]
