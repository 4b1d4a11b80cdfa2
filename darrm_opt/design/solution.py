"""Solution of a design: γ, its utility and bound, its certificate, and the effort of finding it."""

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
    """Outcome of a solve; `advice` says what to do about it."""

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
        """Whether solving again, with more time or another backend, changes nothing; such answers are stored."""
        return self in {Status.OPTIMAL, Status.SEARCH_LIMIT, Status.ROUNDING_LIMIT}


_ADVICE = {
    Status.OPTIMAL: "The answer is optimal up to its gap.",
    Status.TIME_LIMIT: "The time limit was reached: the answer is private, and its gap bounds the distance to the "
    "optimum.",
    Status.ITERATION_LIMIT: "The solver stopped before the optimum: allow more rounds, or try another backend.",
    Status.INFEASIBLE: "The solver calls the program infeasible, which is impossible (γ = 0 is private): try another "
    "backend.",
    Status.UNBOUNDED: "The solver calls the program unbounded, which is impossible (γ ≤ 1): try another backend.",
    Status.NUMERICAL: "The solver lost its accuracy: try another backend, or less extreme parameters.",
    Status.INTERRUPTED: "Stopped on request, or at the requested gap: the answer is private, and its gap bounds the "
    "distance to the optimum.",
    Status.SEARCH_LIMIT: "The best monotone γ: with so many voters off their ends no other γ is searched for a proof, "
    "and the gap bounds how much better one could be.",
    Status.ROUNDING_LIMIT: "The constraint is so small that rounding hides the optimum: the answer is private, and "
    "its gap bounds the distance to the optimum.",
    Status.PLANNED: "Chosen by a plan for a total over many releases: private for the stated problem, without a claim "
    "about the optimum of that problem.",
    Status.NEAREST: "Designed for a stricter problem and private for this one too; nothing was solved for it.",
}


@dataclass(frozen=True)
class Progress:
    """Progress of a solve after one round, for its watcher.

    Attributes:
        round: rounds done, from 1.
        rows: rows in the program.
        utility: best utility so far whose privacy can be proved.
        upper_bound: proven bound on the best possible utility.
        violation: excess of the program's present answer over the constraint; ≤ 0 if it satisfies it.
        seconds: time since the start [s].
        noise: the γ of that utility, not proved yet (`darrm_opt.certify` proves it); None if there is none yet.
    """

    round: int
    rows: int
    utility: float
    upper_bound: float
    violation: float
    seconds: float
    noise: NoiseFunction | None = field(default=None, repr=False, compare=False)


Watcher = Callable[[Progress], None]

VISIBLE = 1e-6  # smallest fall of γ that is reported; smaller ones are noise of an optimum that is not unique


@dataclass(frozen=True)
class Statistics:
    """Effort of a solve.

    Attributes:
        rows: rows of the final program.
        rounds: programs solved with rows still missing.
        iterations: total number of simplex iterations.
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
        problem: the problem solved.
        objective: the maximised objective.
        shape: "free" or "monotone".
        noise: γ as a `NoiseFunction`; `gamma` is its array.
        utility: the share of the noiseless utility kept (w·γ, or the share of the error of γ = 0 saved); at most 1.
        upper_bound: proven bound on the utility of any private γ of that shape.
        status: outcome of the solve.
        certificate: proof that γ is private.
        method: "enumerate" or "cuts".
        backend: the LP solver.
        statistics: effort of the solve.
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
        """Upper bound on the utility that the best private γ has beyond this one; ≥ 0."""
        return max(0.0, self.upper_bound - self.utility)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what to reconsider; usually empty."""
        return self.problem.warnings(self.gamma)

    def __str__(self) -> str:
        from darrm_opt.design.report import certificate_text, columns, count_text, problem_text

        K, gamma = self.problem.K, self.gamma
        names = [f"{l}" if 2 * l == K else f"{l}, {K - l}" for l in range(K // 2 + 1)]
        statistics = self.statistics
        size = f"{count_text(statistics.rows, 'row')}, {count_text(statistics.rounds, 'round')}"
        kind = "private" if self.shape == "free" else f"private {self.shape}"
        bound = f"{self.upper_bound:.9f} (gap {self.gap:.1e})"
        notes = [
            f"utility    {self.utility:.9f} of the plain majority's, under {self.objective}",
            f"optimal    no {kind} γ has more than {bound}",
            certificate_text(self.certificate, self.problem),
            f"solved     {self.method} with {self.backend}: {size}, {statistics.seconds.get('total', 0.0):.2g} s",
        ]
        if dips := self._dips:
            at = ", ".join(f"{l}" for l in dips[:3]) + (", …" if len(dips) > 3 else "")
            notes.insert(
                2,
                f"shape      γ falls at l = {at} although the majority grows: the best γ need not be monotone;\n"
                "           --shape monotone asks for one that is, at a small loss of utility",
            )
        # First, as it qualifies all following lines.
        if self.status.value != "optimal":
            notes.insert(0, f"status     {self.status.value}. {self.status.advice}")
        rule = f"With l of {K} votes for 1, keep the majority with probability γ(l), else toss a fair coin:"
        # At a tie the bit is a fair coin whatever γ is.
        right = ["a tie" if 2 * l == K else f"{(1 + gamma[l]) / 2:.6f}" for l in range(len(names))]
        table = columns(
            ["l", "γ(l)", "Pr[bit = majority]"], [[name, f"{gamma[l]:.9f}", right[l]] for l, name in enumerate(names)]
        )
        return "\n".join([problem_text(self.problem), rule, "", table, "", *notes])

    @property
    def _dips(self) -> list[int]:
        """The majorities l > K/2 at which γ is visibly smaller than at l − 1."""
        K, gamma = self.problem.K, self.gamma
        return [l for l in range(K // 2 + 2, K + 1) if gamma[l] < gamma[l - 1] - VISIBLE]

    def _repr_html_(self) -> str:
        from html import escape

        from darrm_opt.design.report import problem_text, slack_text

        K, gamma = self.problem.K, self.gamma
        rows = "".join(
            f"<tr><td>{l if 2 * l == K else f'{l}, {K - l}'}</td><td>{gamma[l]:.6f}</td>"
            f"<td>{'a tie' if 2 * l == K else f'{(1 + gamma[l]) / 2:.4f}'}</td></tr>"
            for l in range(K // 2 + 1)
        )
        sentences = [
            problem_text(self.problem),
            (
                f"Utility {self.utility:.6f} of the plain majority's ({self.objective}); "
                f"no private γ has more than {self.upper_bound:.6f}."
            ),
            f"Proved private for these exact numbers; {slack_text(self.certificate.margin)}.",
            *self.warnings,
        ]
        about = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        heads = "<tr><th>votes for 1</th><th>γ</th><th>Pr[bit = majority]</th></tr>"
        return f"<div>{about}<table><thead>{heads}</thead><tbody>{rows}</tbody></table></div>"

    def plot(self) -> Figure:
        """Return a figure, for display in a notebook, of γ and its error with the baselines at the same privacy.

        Raises:
            BackendUnavailable: matplotlib is not installed.
        """
        figure: Figure = CONVENIENCES["plot"](self)
        return figure

    def save(self, path: str | PathLike[str]) -> None:
        """Write the solution to a file, atomically, as the JSON that `load` and ``darrm verify`` read.

        Args:
            path: the file; an existing one is replaced.

        Raises:
            OSError: it cannot be written.
        """
        CONVENIENCES["save"](self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Solution:
        """Return the solution in a file of `save` or ``darrm solve``, with its privacy proved again.

        The proof of privacy and the utility are recomputed. Two claims do not follow from γ and are taken from the
        file: `upper_bound`, of which only utility ≤ upper bound ≤ 1 is checked, and `status`. Solve again for those.

        Args:
            path: the file.

        Guarantees:
            γ is that of the file, bit for bit, under a certificate of this process.

        Raises:
            OSError: the file cannot be read.
            InvalidSolution: it contains no solution, or one with false claims.
            NotPrivate: its γ is not private for its problem.
        """
        solution: Solution = CONVENIENCES["load"](path)
        return solution


CONVENIENCES: dict[str, Callable[..., Any]] = {}
"""Implementations of `Solution.plot`, `Solution.save` and `Solution.load`, set by the package: figures and records
depend on solutions, not the reverse."""
