"""Responses: content negotiation, rendering of answers, and documentation of statuses.

Answers are JSON; tables also CSV and NumPy's npz. CSV (RFC 4180) is the table alone, with one header line and all
digits. npz holds the same columns as arrays, and the whole JSON answer as the text ``record``:
``json.loads(str(numpy.load(file)["record"]))``. No array holds Python objects, so `pickle` is not needed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from api.errors.problem_details import CONTENT, NotAcceptable
from api.schemas.jobs import PendingAnswer, job_location
from api.schemas.questions import GammaAnswer
from api.service.design_service import RETRY_SECONDS, Pending

JSON = "application/json"

CSV = "text/csv"

NPZ = "application/x-npz"

TABLES = (JSON, CSV, NPZ)  # media types of a table, the default first

Columns = Mapping[str, Sequence[Any]]  # columns of a table; None is an empty cell


def negotiate(accept: str, media_types: Sequence[str] = TABLES) -> str:
    """Return the media type that an Accept header prefers; among equals, the first one offered.

    >>> [negotiate(accept) for accept in ("text/csv;q=0.5, application/x-npz", "text/*", "", "*/*")]
    ['application/x-npz', 'text/csv', 'application/json', 'application/json']
    """
    if not accept.strip():
        return media_types[0]
    ranges = [_range(part) for part in accept.split(",")]
    qualities = {form: _quality(form, ranges) for form in media_types}
    best = max(media_types, key=lambda form: qualities[form])
    if qualities[best] <= 0:
        raise NotAcceptable(
            f"The media types of this answer are {' and '.join(media_types)}; Accept lists none of them."
        )
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
    """Return the quality of the most specific range that covers a media type."""
    for pattern in (form, form.partition("/")[0] + "/*", "*/*"):
        qualities = [quality for name, quality in ranges if name == pattern]
        if qualities:
            return max(qualities)
    return 0.0


def encode(answer: BaseModel, form: str, columns: Columns) -> bytes:
    """Return an answer with table ``columns``, encoded as a media type."""
    text = answer.model_dump_json()
    return text.encode() if form == JSON else _csv(columns) if form == CSV else _npz(columns, text)


def encoded_response(body: bytes, form: str, name: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response; unless it is JSON, as a file called ``name``."""
    all_headers = {"Vary": "Accept", **(headers or {})}
    if form != JSON:
        all_headers["Content-Disposition"] = f'attachment; filename="darrm-{name}.{"csv" if form == CSV else "npz"}"'
    return Response(body, headers=all_headers, media_type=form)


def table_content(description: str) -> dict[str, Any]:
    """Return the documentation of a 200 answer in all `TABLES`; FastAPI adds the schema of JSON."""
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
    """Return a column as an array: numbers, with NaN for an empty cell, or text."""
    import numpy as np

    if all(value is None or isinstance(value, int | float) for value in values):
        if any(value is None or isinstance(value, float) for value in values):
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return np.array(values, dtype=np.int64)
    return np.array(["" if value is None else str(value) for value in values], dtype=np.str_)


IMMUTABLE = "max-age=31536000, immutable"  # Cache-Control of an answer by its id


def negotiated_form(request: Request, media_types: tuple[str, ...] = TABLES) -> str:
    """Return the media type that the client prefers."""
    return negotiate(", ".join(request.headers.getlist("accept")), media_types)


def require_json(request: Request) -> None:
    """Raise NotAcceptable unless the client accepts JSON."""
    negotiated_form(request, (JSON,))


def table_response(answer: BaseModel, form: str, name: str, columns: Columns) -> Response:
    """Return the response with a table."""
    return encoded_response(encode(answer, form, columns), form, name)


def json_response(answer: BaseModel) -> Response:
    """Return the response with an answer that is not a table."""
    return Response(answer.model_dump_json(), media_type=JSON)


def pending_answer(pending: Pending) -> PendingAnswer:
    """Return the body of a pending answer."""
    job, location = pending.job, job_location(pending.job.id)
    nearest = None if pending.nearest is None else GammaAnswer.model_validate(pending.nearest)
    known = {name: getattr(job, name) for name in ("id", "kind", "state")}
    return PendingAnswer(**known, location=location, retry_after=RETRY_SECONDS, nearest=nearest)


def pending_response(pending: Pending) -> Response:
    """Return the response of a pending answer: 202, with the location of the job."""
    answer = pending_answer(pending)
    headers = {"Location": answer.location, "Retry-After": str(answer.retry_after), "Cache-Control": "no-store"}
    return Response(answer.model_dump_json(), 202, headers, JSON)


COMMON_STATUSES = (400, 401, 403, 408, 413, 421, 429, 431, 500, 503)
"""Error statuses of every route under /v1, from admission or failures."""

RETRY_AFTER = {
    "Retry-After": {"description": "Time until the next request [s].", "schema": {"type": "integer", "minimum": 0}}
}

_DESCRIPTIONS = {
    400: "The request is not HTTP.",
    401: "The server requires an API key; the request has none, or an invalid one.",
    403: "The key's role does not allow the request, or a page of an origin that is not listed made it.",
    404: "The answer is not stored, and solving is off or no stored answer implies it.",
    406: "The Accept header excludes every media type of the answer.",
    409: "The job failed or was cancelled; submit it again to retry.",
    408: "The request took too long to arrive.",
    413: "The body is too large.",
    422: "The body is not JSON; a field is missing, unknown or out of range; the solver is not installed; the work "
    "exceeds the limit for one request; or a posted γ is not private.",
    421: "The Host header is not a name of this server.",
    429: "Too many requests, or too much new work, from one client.",
    431: "The request line and headers are too large.",
    500: "An unexpected error occurred, or the solver failed.",
    503: "The store is unavailable, or the server is busy or shutting down.",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of these error statuses, and of those common to all routes."""
    return {
        status: {
            "content": CONTENT,
            "description": _DESCRIPTIONS[status],
            **({"headers": RETRY_AFTER} if status in {429, 503} else {}),
        }
        for status in sorted({*statuses, *COMMON_STATUSES})
    }


PENDING_RESPONSE: dict[int | str, dict[str, Any]] = {
    202: {
        "model": PendingAnswer,
        "description": "The answer is pending: a job is running. Poll the job, or repeat the request.",
        "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}, **RETRY_AFTER},
    }
}

DESIGN_RESPONSES = {**PENDING_RESPONSE, **error_responses(404, 406, 409, 422)}
"""Documentation of all statuses but 200, for routes that need a γ."""

JOB_RESPONSES = {**PENDING_RESPONSE, **error_responses(406, 409, 422)}
"""Documentation of all statuses but 200, for routes that may take long."""

NOT_MODIFIED_RESPONSE: dict[int | str, dict[str, Any]] = {
    304: {"description": "If-None-Match lists the entity tag of the answer."},
}

ETAG_HEADER = {"ETag": {"description": "Entity tag of the exact bytes.", "schema": {"type": "string"}}}

IF_NONE_MATCH_PARAMETER = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "Entity tags of cached answers.",
    "schema": {"type": "string"},
}
