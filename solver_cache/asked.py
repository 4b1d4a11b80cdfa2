"""What a record says was asked, as columns that a database can search: hints, proved by nobody.

They only lead to a row. Whatever is then read from the row is examined as always, so a wrong hint costs an answer and
can never make one wrong.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from solver_cache.key import Request


@dataclass(frozen=True)
class Asked:
    """The question that a row answers, and how well.

    Attributes:
        voters: K.
        voter_epsilon: ε of one voter [nats]; may be infinite.
        voter_delta: Δ of one voter [probability].
        affected: how many voters one record can influence.
        target_epsilon: ε of the release [nats].
        target_delta: δ of the release [probability].
        objective: its text.
        shape: "free" or "monotone".
        utility: what the record says that the answer is worth.
    """

    voters: int
    voter_epsilon: float
    voter_delta: float
    affected: int
    target_epsilon: float
    target_delta: float
    objective: str
    shape: str
    utility: float

    def answers(self, request: Request) -> bool:
        """Whether an answer to this question is one to ``request`` as well, though perhaps not the best.

        Voters that are at least as private, of whom a record reaches no more, are voters as they were assumed; and a
        release that is at least as private is as private as it must be.
        """
        problem = request.problem
        return (
            self.voters == problem.K
            and self.objective == str(request.objective)
            and self.shape in SHAPES[request.shape]
            and self.voter_epsilon >= problem.voter.epsilon
            and self.voter_delta >= problem.voter.delta
            and self.affected >= problem.affected
            and self.target_epsilon <= problem.target.epsilon
            and self.target_delta <= problem.target.delta
        )


SHAPES: dict[str, tuple[str, ...]] = {"free": ("free", "monotone"), "monotone": ("monotone",)}
"""Shapes of the answers that have the shape that is asked."""

LARGEST = 2**31 - 1
"""Largest whole number that the columns hold."""


def asked_in(record: str) -> Asked | None:
    """Return what a record says was asked, or None where it does not say.

    >>> asked_in("{}") is None
    True
    """
    try:
        content = json.loads(record)
        problem = content["problem"]
        numbers = [problem[name] for name in ("epsilon", "Delta", "target_epsilon", "delta")]
        epsilon, Delta, target_epsilon, delta, utility = [
            math.inf if number == "inf" else _real(number) for number in [*numbers, content["utility"]]
        ]
        objective, shape = content["objective"], content["shape"]
        if shape not in SHAPES or not (isinstance(objective, str) and objective.isascii() and objective.isprintable()):
            return None
        voters, affected = _whole(problem["K"]), _whole(problem["affected"])
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):  # anything may stand in a row
        return None
    return Asked(voters, epsilon, Delta, affected, target_epsilon, delta, objective, shape, utility)


def columns_of(record: str) -> dict[str, Any]:
    """Return the values of the columns; all NULL where the record does not say."""
    found = asked_in(record)
    names = Asked.__dataclass_fields__
    return {name: None if found is None else getattr(found, name) for name in names}


def _real(number: Any) -> float:
    if type(number) not in {int, float} or math.isnan(number):
        raise TypeError
    return float(number)


def _whole(number: Any) -> int:
    if type(number) is not int or not 0 < number <= LARGEST:
        raise TypeError
    return number
