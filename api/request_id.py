"""The id of the request that is being answered: in its log lines, in its answer, and in the problem details of one."""

from __future__ import annotations

import contextvars
import re
import secrets

REQUEST_ID: contextvars.ContextVar[str | None] = contextvars.ContextVar("request_id", default=None)
"""Id of the request that is being answered."""

_SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,64}")


def request_id(offered: bytes | None) -> str:
    """Return the id that the client offers, if it is a short word that can do no harm in a log, else a new one.

    >>> request_id(b"train-7.epoch-3"), len(request_id(b"forged line")), len(request_id(None))
    ('train-7.epoch-3', 16, 16)
    """
    if offered is not None and _SANE.fullmatch(offered):
        return offered.decode()
    return secrets.token_hex(8)


def current() -> str | None:
    """Return the id of the request that is being answered; None where there is none."""
    return REQUEST_ID.get()
