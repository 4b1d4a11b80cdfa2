"""Kind of stored answer: what the model of the cache knows of a γ, or of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """Kind of stored answer."""

    format: int  # version of its records
    spec_of: Callable[[Any], Any]  # what an answer says that it answers; raises InvalidInput where that is nothing
    record: Callable[..., dict[str, Any]]  # an answer as plain data; ``timed=False``: without the time that it took
    read: Callable[[Any], Any]  # the answer that a record states, unproved; raises InvalidSolution
    # the answer under a proof of this process, for a question; raises InvalidSolution or NotPrivate
    verify: Callable[[Any, Any], Any]
    # the question and the utility of a record, as the columns of a row name them; anything may be in it
    asked: Callable[[dict[str, Any]], dict[str, Any]]
    # the same, the answer and its certificate, as table files name them
    columns: Callable[[dict[str, Any]], dict[str, Any]]
