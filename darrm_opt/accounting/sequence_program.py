"""The linear program with the rows of several privacy constraints at once: γ inside a region of pairs.

Every line (ε, δ) around the region is a privacy constraint, linear in γ; its rows are found by cuts, as for one target. No
proof is made here: the account of what comes out is the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from darrm_opt.accounting.allowance import estimated_cost
from darrm_opt.accounting.sequence_region import LINES
from darrm_opt.accounting.turning import never
from darrm_opt.design.backends import open_backend
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import Counts
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.program import Status
from darrm_opt.design.run import CUT_TOLERANCE, KAPPA
from darrm_opt.design.stages import binding_family
from darrm_opt.design.worst_case import worst_case
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem

FEW_LINES, MANY_VOTERS = 10, 21
"""Lines where Δ > 0 and there are more voters than that, because every line is searched in every round."""

ROUNDS = 40
"""Most rounds of cuts in one program; a γ that still breaks a line after them is scaled down."""

CUTS = 30
"""Most rows that one line adds in a round."""


class SequenceProgram:
    """The linear program with the rows of several privacy constraints, which remembers the multisets that mattered."""

    def __init__(self, problem: Problem, objective: AnyObjective) -> None:
        self._problem, self._aim = problem, objective.aim(problem.K)
        self._entries = (problem.K + 1) // 2
        self.lines = FEW_LINES if problem.voter.delta > 0 and problem.K > MANY_VOTERS else LINES
        self._known: Counts = binding_family(PrivacyConstraint.of(problem))

    def utility(self, noise: NoiseFunction) -> float:
        """Return the utility of a γ."""
        return self._aim.utility(noise.values[self._problem.K // 2 + 1 :])

    def estimated_cost(self, noise: NoiseFunction, queries: int, total_delta: float) -> float | None:
        """Return about what releases cost, by the multisets that mattered; None where that would take long."""
        return estimated_cost(noise, PrivacyConstraint.of(self._problem), self._known, queries, total_delta)

    def best_within(self, lines: Sequence[Privacy], stop: Callable[[], bool] = never) -> NoiseFunction:
        """Return the γ of largest utility whose pairs stay inside all lines, up to the search's tolerance; scaled where it is stopped."""
        problem, aim = self._problem, self._aim
        constraints = [
            PrivacyConstraint.of(Problem(problem.K, problem.voter, line, problem.affected)) for line in lines
        ]
        backend = open_backend("highs", aim.weights.size)
        if aim.limits.size:
            backend.add(aim.rows, aim.limits)
        weights = (1 - KAPPA) * aim.weights
        weights[: self._entries] += KAPPA / self._entries

        def add(constraint: PrivacyConstraint, multisets: Counts) -> None:
            rows = np.pad(constraint.rows(multisets), ((0, 0), (0, weights.size - self._entries)))
            backend.add(rows, np.full(len(rows), constraint.limit))

        for constraint in constraints:
            add(constraint, self._known)
        noise, scale = NoiseFunction(np.zeros(problem.K + 1)), 1.0
        for _ in range(ROUNDS):
            outcome = backend.solve(weights, None)
            if outcome.status is not Status.OPTIMAL:
                break
            upper = np.clip(np.nan_to_num(outcome.upper_half[: self._entries], nan=0.0), 0.0, 1.0)
            noise, scale, broken = NoiseFunction.from_upper_half(upper, problem.K), 1.0, False
            for constraint in constraints:
                above = constraint.limit + 100 * CUT_TOLERANCE
                found = worst_case(noise, constraint, above=above, most=CUTS, settle="never")
                if found.value > constraint.limit:
                    scale = min(scale, max(0.0, constraint.limit / found.value))
                if len(found.cuts):
                    broken = True
                    add(constraint, found.cuts)
                    self._known = np.unique(np.concatenate([self._known, found.cuts]), axis=0)
            if not broken or stop():
                break
        return NoiseFunction(noise.values * scale)
