"""Status of a solve, and the outcome of a backend."""

from __future__ import annotations

import enum
from typing import NamedTuple

from darrm_opt.noise import Array


class Status(enum.Enum):
    """How a solve ended; `advice` says what the reader can do about it."""

    OPTIMAL = "optimal"
    TIME_LIMIT = "time limit"
    ITERATION_LIMIT = "iteration limit"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NUMERICAL = "numerical trouble"
    INTERRUPTED = "interrupted"
    NEAREST = "nearest"
    SEARCH_LIMIT = "search limit"
    ROUNDING_LIMIT = "rounding limit"
    PLANNED = "planned"

    @property
    def advice(self) -> str:
        """One sentence of advice for the user."""
        return _ADVICE[self]

    @property
    def is_final(self) -> bool:
        """Whether solving again, with more time or another backend, would change nothing: such answers are stored."""
        return self in {Status.OPTIMAL, Status.SEARCH_LIMIT, Status.ROUNDING_LIMIT}


_ADVICE = {
    Status.OPTIMAL: "The answer is optimal up to its gap.",
    Status.TIME_LIMIT: "The time limit came first: the answer is private, and its gap says how far from optimal it "
    "may be.",
    Status.ITERATION_LIMIT: "The solver gave up before the optimum: allow more rounds, or try another backend.",
    Status.INFEASIBLE: "The solver calls the program infeasible, which it never is (γ = 0 is private): try another "
    "backend.",
    Status.UNBOUNDED: "The solver calls the program unbounded, which it never is (γ ≤ 1): try another backend.",
    Status.NUMERICAL: "The solver lost its accuracy: try another backend, or move extreme parameters inward.",
    Status.INTERRUPTED: "Stopped on request, or at the gap that was asked for: the answer is private, and its gap "
    "says how far from optimal it may be.",
    Status.SEARCH_LIMIT: "The best monotone γ: with so many voters off their ends no other γ is searched for a proof, "
    "and the gap says how much better one could be at most.",
    Status.ROUNDING_LIMIT: "The constraint is so small that rounding hides the optimum: the answer is private, and "
    "its gap says how far from optimal it may be.",
    Status.PLANNED: "Chosen by a plan for a total over many releases: private for the stated problem, and nothing is "
    "claimed of the optimum of that problem.",
    Status.NEAREST: "Designed for a stricter problem and private for this one too; nothing was solved for it.",
}


class Outcome(NamedTuple):
    """Answer of a backend to a linear program; no guarantee rests on it.

    Attributes:
        status: how it ended.
        upper_half: γ(⌊K/2⌋+1..K) as the solver has it, shape (entries,).
        multipliers: one a row in order of addition, ≥ 0 up to the solver's tolerance, shape (rows,).
        iterations: simplex (or other) iterations of this solve.
    """

    status: Status
    upper_half: Array
    multipliers: Array
    iterations: int
