"""The nearest valid answer: a kept γ whose guarantee implies the one that is asked.

For when nothing can be solved, or not in time. A γ that is private for voters who are *less* private than those asked
about, of whom a record reaches *more*, and whose release is *more* private than asked, answers the question: it is
private, and only its utility may be below the best. So among all such kept answers the one with the best utility for
the asked objective is taken, and proved for the asked problem before it leaves.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from darrm_opt.design.certificate import certify
from darrm_opt.design.program import Status
from darrm_opt.design.solution import Solution
from darrm_opt.problem import Problem
from darrm_opt.record import problem_record, solution_record
from solver_cache.asked import asked_in
from solver_cache.examine import SAME, WrongRow, read_row
from solver_cache.key import Request
from solver_cache.row import Row
from solver_cache.store import Store

_LOG = logging.getLogger("solver_cache")

TRIES = 16
"""Kept answers looked at before giving up: the first is taken unless it is damaged, so this many mean a bad store."""


@dataclass(frozen=True)
class Nearest:
    """A kept answer to the question that was asked, or to a stricter one.

    Attributes:
        solution: γ certified, by this process, for the problem that was *asked*; its utility is the asked objective's.
            Unless `exact`, nothing is known of the optimum: its upper bound is 1, its status says that it is not
            optimal.
        designed_for: the problem for which it is optimal.
        designed_shape: the shape for which it is optimal.
        key: the row that holds it.
    """

    solution: Solution
    designed_for: Problem
    designed_shape: str
    key: str

    @property
    def exact(self) -> bool:
        """Whether it is the very answer that was asked for."""
        return (self.designed_for, self.designed_shape) == (self.solution.problem, self.solution.shape)

    @property
    def label(self) -> str:
        """What it is, in a sentence."""
        if self.exact:
            return "This is the answer to this very question."
        asked, designed = problem_record(self.solution.problem), problem_record(self.designed_for)
        differ = [f"{name} = {_shown(designed[name])}" for name in _NUMBERS if asked[name] != designed[name]]
        if self.designed_shape != self.solution.shape:
            differ.append(f"shape = {self.designed_shape}")
        return (
            f"Not solved for this question: it was designed for a stricter one ({', '.join(differ)}). It is private as "
            "asked; its utility may be below the best."
        )

    @property
    def record(self) -> dict[str, Any]:
        """The solution's record with the label: what leaves as JSON."""
        return {
            **solution_record(self.solution),
            "nearest": {
                "exact": self.exact,
                "designed_for": problem_record(self.designed_for),
                "designed_shape": self.designed_shape,
                "id": self.key,
                "label": self.label,
            },
        }


_NUMBERS = ("epsilon", "Delta", "affected", "target_epsilon", "delta")


def nearest(request: Request, store: Store) -> Nearest | None:
    """Return the best answer in ``store`` that is valid for ``request``, or None where there is none; nothing is solved.

    Guarantees:
        The γ is private for the asked problem, exactly as stored, proved by this process; whatever the store holds.
        That none better is kept rests on the rows having been written by this program.

    Raises:
        CacheError: the store cannot be read.
    """
    for tried, row in enumerate(store.stricter(request)):
        if tried == TRIES:
            _LOG.warning("%s: the first %d answers nearest to %s are no answers", store.url, TRIES, request.key)
            return None
        try:
            return _proved(row, request)
        except WrongRow as wrong:
            _LOG.warning("%s: row %s is passed over: %s", store.url, row.key, wrong)
    return None


def _proved(row: Row, request: Request) -> Nearest:
    """Return what the row holds, certified for the question that was asked, or raise `WrongRow`."""
    kept = read_row(row)
    asked = asked_in(row.record)
    if asked is None or not asked.answers(request):
        raise WrongRow("its columns say that it answers another question than its record does")
    problem, shape = kept.problem, kept.shape
    if Request(problem, kept.objective, "monotone" if shape == "monotone" else "free").key != row.key:
        raise WrongRow("it is kept under the key of another question")
    if not kept.status.settled:
        raise WrongRow(
            f"its status is '{kept.status.value}', which solving again may better: such answers are not kept"
        )
    noise, certificate = certify(request.problem, kept.noise)
    upper = noise.values[request.problem.K // 2 + 1 :]
    utility = request.objective.aim(request.problem.K).utility(upper)
    if not math.isclose(utility, kept.utility, rel_tol=SAME, abs_tol=SAME):
        raise WrongRow(f"its utility is {utility!r} where it is private as asked, not {kept.utility!r}")
    if request.shape == "monotone" and np.any(np.diff(upper) < 0):
        raise WrongRow("its gamma is not monotone")
    mine = replace(
        kept, problem=request.problem, shape=request.shape, noise=noise, certificate=certificate, utility=utility
    )
    if (problem, shape) != (request.problem, request.shape):
        mine = replace(mine, upper_bound=1.0, status=Status.NEAREST)
    return Nearest(mine, problem, shape, row.key)


def _shown(number: Any) -> str:
    return f"{number:.6g}" if isinstance(number, float) else str(number)
