"""Solution of a design: γ, its utility and bound, its certificate, and the effort it took."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from darrm_opt.design.certificate import Certificate
from darrm_opt.design.objective import AnyObjective
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


@dataclass(frozen=True)
class Progress:
    """Progress of a solve after one round, for its watcher.

    Attributes:
        round: rounds done, from 1.
        rows: rows in the program.
        utility: best utility whose privacy can be proved so far.
        upper_bound: proven bound on the best possible utility.
        violation: how far the program's present answer breaks the constraint; ≤ 0 when it does not.
        seconds: time since the start [s].
        noise: the γ of that utility, not proved yet (`darrm_opt.certify` proves it); None where there is none to show.
    """

    round: int
    rows: int
    utility: float
    upper_bound: float
    violation: float
    seconds: float
    noise: NoiseFunction | None = field(default=None, repr=False, compare=False)


Watcher = Callable[[Progress], None]


@dataclass(frozen=True)
class Statistics:
    """Effort of a solve.

    Attributes:
        rows: rows of the final program.
        rounds: programs solved with rows still missing.
        iterations: simplex iterations in all.
        seconds: time by phase [s]: "program" (the LP solver), "search" (worst cases), "certify", "total".
    """

    rows: int
    rounds: int
    iterations: int
    seconds: dict[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Solution:
    """A certified noise function.

    Attributes:
        problem: what was asked.
        objective: what was maximised.
        shape: "free" or "monotone".
        noise: γ as a noun; `gamma` is its array.
        utility: the share of the noiseless utility kept (w·γ, or the share of the error of γ = 0 saved); at most 1.
        upper_bound: proven bound on the utility of any private γ of that shape.
        status: how the solve ended.
        certificate: why γ is private.
        method: "enumerate" or "cuts".
        backend: the LP solver.
        statistics: the effort it took.
    """

    problem: Problem
    objective: AnyObjective
    shape: str
    noise: NoiseFunction
    utility: float
    upper_bound: float
    status: Status
    certificate: Certificate
    method: str
    backend: str
    statistics: Statistics

    @property
    def gamma(self) -> Array:
        """γ(0..K): read-only float64 array of shape (K+1,) [probability]."""
        return self.noise.values

    @property
    def gap(self) -> float:
        """How much utility the best private γ could have beyond this one, at most; ≥ 0."""
        return max(0.0, self.upper_bound - self.utility)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what the user should reconsider; usually empty."""
        return self.problem.warnings(self.gamma)

    def __str__(self) -> str:
        from darrm_opt.design.report import solution_text

        return solution_text(self)

    def _repr_html_(self) -> str:
        from darrm_opt.design.report import solution_html

        return solution_html(self)

    def plot(self) -> Figure:
        """Return γ and its error beside the baselines at the same privacy, as a figure that a notebook shows.

        Raises:
            BackendUnavailable: matplotlib is not installed.
        """
        figure: Figure = CONVENIENCES["plot"](self)
        return figure

    def save(self, path: str | PathLike[str]) -> None:
        """Write the solution to a file, whole or not at all, as the JSON that `load` and ``darrm verify`` read.

        Args:
            path: the file; one that is there is replaced.

        Raises:
            OSError: it cannot be written.
        """
        CONVENIENCES["save"](self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Solution:
        """Return the solution in a file of `save` or ``darrm solve``, proved private again.

        The proof of privacy and the utility are computed anew. Two claims do not follow from γ and are taken from the
        file: `upper_bound`, of which only utility ≤ upper bound ≤ 1 is checked, and `status`. Solve again for those.

        Args:
            path: the file.

        Guarantees:
            γ is that of the file, bit for bit, under a certificate of this process.

        Raises:
            OSError: the file cannot be read.
            InvalidSolution: it holds no solution, or one that does not keep what it claims.
            NotPrivate: its γ is not private for its problem.
        """
        solution: Solution = CONVENIENCES["load"](path)
        return solution


CONVENIENCES: dict[str, Callable[..., Any]] = {}
"""What `Solution.plot`, `Solution.save` and `Solution.load` do, as the package provides it: records and figures are
made of solutions, and a design knows nothing of them."""
