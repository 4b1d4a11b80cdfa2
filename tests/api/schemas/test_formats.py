"""Media types of an answer: the choice by the Accept header, and the same numbers in each."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from api.errors.problem_details import NotAcceptable
from api.middleware.response_bodies import ENTRY_OVERHEAD, EncodedAnswer, ResponseCache
from api.responses import CSV, JSON, NPZ, TABLES, encode, negotiate


class Record(BaseModel):
    values: list[float]


CHOSEN = {
    JSON: (
        "",
        "*/*",
        "application/*",
        "text/csv, application/json",
        "text/csv;q=0.1, */*;q=0.2",
        "text/html, */*;q=0.8",
    ),
    CSV: (
        *("text/*", "text/csv", "TEXT/CSV", "text/csv, application/json;q=0.9", "application/json;q=0, */*"),
        *("text/csv;header=present", "text/csv;q=1.7"),
    ),
    NPZ: ("application/x-npz",),
}


@pytest.mark.parametrize("form", CHOSEN)
def test_accept_chooses_a_media_type(form: str) -> None:
    assert {accept: negotiate(accept) for accept in CHOSEN[form]} == dict.fromkeys(CHOSEN[form], form)


@pytest.mark.parametrize(
    "accept", ["image/png", "text/html", "application/json;q=0", "*/*;q=0", "text/csv;q=high", "x"]
)
def test_accept_may_exclude_all_media_types(accept: str) -> None:
    with pytest.raises(
        NotAcceptable, match=r"The media types of this answer are application/json and text/csv and application/x-npz"
    ):
        negotiate(accept)


@given(st.text(max_size=60))
def test_any_accept_header_chooses_or_is_refused(accept: str) -> None:
    with contextlib.suppress(NotAcceptable):
        assert negotiate(accept) in TABLES


@given(st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.none() | st.floats(-1, 1)), min_size=1))
def test_every_media_type_holds_all_digits(rows: list[tuple[float, float | None]]) -> None:
    x, y = map(list, zip(*rows, strict=True))
    record, columns = Record(values=x), {"l": range(len(x)), "x": x, "y": y}

    def body(form: str) -> bytes:
        return encode(record, form, columns)

    assert json.loads(body(JSON))["values"] == x
    head, *lines = csv.reader(io.StringIO(body(CSV).decode(), newline=""))
    assert head == ["l", "x", "y"]
    assert [float(line[1]) for line in lines] == x
    assert [float(line[2]) if line[2] else None for line in lines] == y
    with np.load(io.BytesIO(body(NPZ)), allow_pickle=False) as arrays:
        assert arrays["x"].tolist() == x
        assert arrays["l"].dtype == np.int64
        assert [None if np.isnan(value) else float(value) for value in arrays["y"]] == y
        assert json.loads(str(arrays["record"])) == {"values": x}


def test_text_columns_and_empty_tables_are_exported() -> None:
    columns: dict[str, Any] = {"id": ["a,b", None, 'say "γ"'], "n": [1, 2, 3]}
    body = encode(Record(values=[]), CSV, columns).decode()
    assert list(csv.reader(io.StringIO(body, newline="")))[1:] == [["a,b", "1"], ["", "2"], ['say "γ"', "3"]]
    with np.load(io.BytesIO(encode(Record(values=[]), NPZ, columns))) as arrays:
        assert arrays["id"].tolist() == ["a,b", "", 'say "γ"']
    assert encode(Record(values=[]), CSV, {"x": []}) == b"x\r\n"


def test_the_same_answer_has_the_same_bytes() -> None:
    columns = {"x": [0.1, 0.2]}
    assert encode(Record(values=[1]), NPZ, columns) == encode(Record(values=[1]), NPZ, columns)


def test_the_response_cache_is_bounded() -> None:
    served = ResponseCache(max_bytes=3 * (ENTRY_OVERHEAD + 100))
    for i in range(5):
        served.put(EncodedAnswer.of(b"x" * 99, JSON), str(i))
    assert len(served) == 3
    assert served.get("1") is None
    assert served.get("2") is not None
    served.put(EncodedAnswer.of(b"x" * 99, JSON), "5")  # "3" was not read, "2" was
    assert (served.get("3"), served.get("2") is None) == (None, False)
    served.put(EncodedAnswer.of(b"x", JSON), "n" * 2000)  # the name is too long
    served.put(EncodedAnswer.of(b"x" * 10**4, JSON), "large")  # evicts everything, including itself
    assert len(served) == 0
    served.put(EncodedAnswer.of(b"y", JSON), "5")
    assert len(served) == 1
