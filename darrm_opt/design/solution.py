"""Solution of a design: γ, its utility and bound, its certificate, and the effort it took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from darrm_opt.design.certificate import Certificate
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.program import Status
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Problem


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
