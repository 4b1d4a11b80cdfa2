"""Formats of answers, chosen by the Accept header: JSON; for tables also CSV and NumPy's npz.

CSV (RFC 4180) is the table itself, one header line, numbers with all their digits. npz holds the same columns as
arrays, and the whole JSON answer as the text ``record``, so that nothing is lost:
``json.loads(str(numpy.load(file)["record"]))``. No array holds Python objects, so it is read without `pickle`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel

from api.errors.exceptions import NotAcceptable

JSON = "application/json"

CSV = "text/csv"

NPZ = "application/x-npz"

TABLES = (JSON, CSV, NPZ)
"""Media types of a table, the default first."""

Columns = Mapping[str, Sequence[Any]]
"""A table by its columns; None is an empty cell."""


def negotiate(accept: str, media_types: Sequence[str] = TABLES) -> str:
    """Return the media type that an Accept header prefers, the earliest offered among equals.

    Args:
        accept: the header (RFC 9110, 12.5.1); "" where there is none, which accepts anything.
        media_types: media types, the usual one first.

    Raises:
        NotAcceptable: none is accepted.

    >>> [negotiate(accept) for accept in ("text/csv;q=0.5, application/x-npz", "text/*", "", "*/*")]
    ['application/x-npz', 'text/csv', 'application/json', 'application/json']
    """
    if not accept.strip():
        return media_types[0]
    ranges = [_range(part) for part in accept.split(",")]
    qualities = {form: _quality(form, ranges) for form in media_types}
    best = max(media_types, key=lambda form: qualities[form])
    if qualities[best] <= 0:
        raise NotAcceptable(f"This answer comes as {' or '.join(media_types)}, and Accept asks for none of them.")
    return best


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (item.strip().lower() for item in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name, min(1.0, max(0.0, float(value)))
            except ValueError:
                return name, 0.0
    return name, 1.0


def _quality(form: str, ranges: Sequence[tuple[str, float]]) -> float:
    """Return the quality of a media type: that of the most specific range that covers it."""
    for pattern in (form, form.partition("/")[0] + "/*", "*/*"):
        qualities = [quality for name, quality in ranges if name == pattern]
        if qualities:
            return max(qualities)
    return 0.0


def encode(answer: BaseModel, form: str, columns: Callable[[], Columns] | None = None) -> bytes:
    """Return an answer encoded as one of its media types.

    Args:
        answer: what leaves, validated.
        form: a media type that `negotiate` returned.
        columns: makes its table; needed for CSV and npz.
    """
    text = answer.model_dump_json()
    if form == JSON or columns is None:
        return text.encode()
    table = columns()
    if form == CSV:
        return _csv(table)
    return _npz(table, text)


def encoded_response(
    body: bytes, form: str, name: str = "answer", headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response with ``body``; unless it is JSON, as a file to save, called ``name``."""
    all_headers = {"Vary": "Accept", **(headers or {})}
    if form != JSON:
        all_headers["Content-Disposition"] = f'attachment; filename="darrm-{name}.{"csv" if form == CSV else "npz"}"'
    return Response(body, headers=all_headers, media_type=form)


def table_content(description: str) -> dict[str, Any]:
    """Return the documentation of a 200 answer that comes in all `TABLES` (JSON's own schema is added by FastAPI)."""
    return {
        "description": description,
        "content": {
            CSV: {"schema": {"type": "string"}},
            NPZ: {"schema": {"type": "string", "format": "binary"}},
        },
    }


def _csv(table: Columns) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue().encode()


def _npz(table: Columns, record: str) -> bytes:
    import numpy as np

    file = io.BytesIO()
    arrays = {name: _array(values) for name, values in table.items()}
    np.savez(file, allow_pickle=False, record=np.array(record), **arrays)
    return file.getvalue()


def _array(values: Sequence[Any]) -> Any:
    """Return a column as an array: numbers with NaN for an empty cell, else text."""
    import numpy as np

    if all(value is None or isinstance(value, int | float) for value in values):
        if any(value is None or isinstance(value, float) for value in values):
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return np.array(values, dtype=np.int64)
    return np.array(["" if value is None else str(value) for value in values], dtype=np.str_)
