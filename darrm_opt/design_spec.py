"""Design specification: what an optimal answer depends on, and the content key under which it is stored.

    key = SHA-256 of the canonical JSON of {problem's numbers, objective, shape, record format, core}

A `Problem` is canonical already, so 3·0.1 and 0.3 have one key, and an objective has one text. `m` is left out: it is
the quotient of two numbers that are in. So are the method and the backend: what is stored is optimal and canonical
(design, "one canonical answer"), the same whichever solver found it. So is the package's version: an upgrade that
changes no answer keeps the cache.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from darrm_opt.design.objective import AnyObjective, Objective, as_objective
from darrm_opt.design.solution import Solution
from darrm_opt.design.solver import Shape
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem, a_problem
from darrm_opt.record import FORMAT, problem_record

CORE = 2
"""Version of the answers. Raise it with any change by which the same question gets another γ or another promise: the
canonical objective, an objective's weights, the rounding of a problem's numbers, the search behind a certificate. A
test holds three answers against this number."""


@dataclass(frozen=True)
class DesignSpec:
    """Design specification: everything an optimal answer depends on, and nothing else.

    Args:
        problem: what must be private.
        objective: what is maximised; an `Objective` or its text.
        shape: "free" or "monotone".

    Guarantees:
        Equal when the answer is the same by definition; equal specifications have equal keys.

    Raises:
        InvalidInput: not a problem, not an objective for its K, or not a shape.
    """

    problem: Problem
    objective: AnyObjective
    shape: Shape

    def __init__(self, problem: Problem, objective: AnyObjective | str = "rectangular", shape: Shape = "free") -> None:
        a_problem(problem)
        goal = as_objective(objective)
        if shape not in ("free", "monotone"):
            raise InvalidInput("shape", shape, "'free' or 'monotone'")
        if isinstance(goal, Objective):
            _check_fit(goal, problem.K)
        elif goal.digest:  # scenarios that will be drawn fit any K, and take long
            goal.linear_goal(problem.K)  # refuses scenarios at hand for another K
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "objective", goal)
        object.__setattr__(self, "shape", shape)

    @classmethod
    def of(cls, solution: Solution) -> DesignSpec:
        """Return the specification that ``solution`` says it answers.

        Raises:
            InvalidInput: it fits no specification, such as an objective for another K.
        """
        return cls(solution.problem, solution.objective, "monotone" if solution.shape == "monotone" else "free")

    @cached_property
    def key(self) -> str:
        """The content key: 64 hexadecimal digits.

        >>> from darrm_opt import Privacy
        >>> keys = {DesignSpec(Problem(11, Privacy(0.1), Privacy(target))).key for target in (3 * 0.1, 0.3)}
        >>> len(keys)
        1
        """
        numbers = problem_record(self.problem)
        del numbers["m"]
        content = {
            "problem": numbers,
            "objective": str(self.objective),
            "shape": self.shape,
            "format": FORMAT,
            "core": CORE,
        }
        return digest(canonical_json(content))


@lru_cache(maxsize=1024)
def _check_fit(goal: Objective, K: int) -> None:
    """Refuse a histogram for another K. Remembered: of many problems most differ in other things."""
    goal.linear_goal(K)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(content: Any) -> str:
    """Return ``content`` as JSON with one spelling: sorted names, no spaces, plain ASCII; floats survive exactly."""
    return _CANONICAL.encode(content)


def digest(text: str) -> str:
    """Return the SHA-256 of ``text``, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
