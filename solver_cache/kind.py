"""Kinds of stored answers: the operations that the cache needs on a γ or on a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """Operations on one kind of stored answer."""

    format: int  # version of its record format
    spec_of: Callable[[Any], Any]  # the question that an answer states; raises InvalidInput if it is invalid
    record: Callable[..., dict[str, Any]]  # an answer as plain data; ``timed=False`` omits running times
    read: Callable[[Any], Any]  # the answer in a record, unproved; raises InvalidSolution
    # the answer, proved by this process for a question; raises InvalidSolution or NotPrivate
    verify: Callable[[Any, Any], Any]
    # the question and utility of an untrusted record, named as the columns of a row
    asked: Callable[[dict[str, Any]], dict[str, Any]]
    # the question, answer and certificate of a record, named as the columns of table files
    columns: Callable[[dict[str, Any]], dict[str, Any]]
