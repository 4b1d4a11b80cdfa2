"""Nearest stored answer: a γ whose guarantee implies the one asked for, when solving is impossible or too slow.

A γ designed for voters that are *less* private, of whom a record influences *more*, and with a *more* private
release, answers the question too: it is private, and only its utility may be below the optimum. The best such answer
is chosen, and proved for the question before it is returned.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from darrm_opt.design.solution import Solution
from darrm_opt.errors import NotPrivate
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec, problem_record, solution_record
from darrm_opt.verification import InvalidSolution, verify_implied, verify_solution
from solver_cache.model import Row, search_columns
from solver_cache.store import Store
from solver_cache.validate import InvalidRow, check_final, read_row, stated_spec

_LOG = logging.getLogger("solver_cache")

MAX_CANDIDATES = 16
"""Rows tried before giving up. The first is taken unless it is damaged, so this many mean a bad store."""


@dataclass(frozen=True)
class Nearest:
    """Stored answer to the question, or to a stricter one.

    Attributes:
        solution: γ certified by this process for the problem *asked*, with the utility of the objective asked. Unless
            `exact`, the optimum is unknown: its upper bound is 1 and its status is not optimal.
        designed_for: the problem for which it is optimal.
        designed_shape: the shape for which it is optimal.
        key: key of the row.
    """

    solution: Solution
    designed_for: Problem
    designed_shape: str
    key: str

    @property
    def exact(self) -> bool:
        """Whether it answers exactly the question asked."""
        return (self.designed_for, self.designed_shape) == (self.solution.problem, self.solution.shape)

    @property
    def label(self) -> str:
        """Description, in a sentence."""
        if self.exact:
            return "This is the optimal answer to this question."
        problem, stricter = problem_record(self.solution.problem), problem_record(self.designed_for)
        differences = [
            f"{name} = {_number_text(stricter[name])}" for name in _NUMBERS if problem[name] != stricter[name]
        ]
        if self.designed_shape != self.solution.shape:
            differences.append(f"shape = {self.designed_shape}")
        return (
            f"Not solved for this question: it was designed for a stricter one ({', '.join(differences)}). "
            "It is private as asked; its utility may be below the best."
        )

    @property
    def record(self) -> dict[str, Any]:
        """Record of the solution, with the label, as JSON."""
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


def nearest(spec: DesignSpec, store: Store, client: str | None = None) -> Nearest | None:
    """Return the best answer in ``store`` that is valid for ``spec``, or None; never solves.

    Only answers that ``client`` may see (`solver_cache.database.designs`); None: all.

    Guarantees:
        The γ is private for the problem asked, exactly as returned, proved by this process, whatever the store holds.
        That no better one is stored rests on the rows having been written by this program.

    Raises:
        CacheError: the store cannot be read.
    """
    for count, row in enumerate(store.candidates(spec, client)):
        if count == MAX_CANDIDATES:
            _LOG.warning("%s: the %d answers nearest to %s are all invalid", store.url, MAX_CANDIDATES, spec.key)
            return None
        try:
            match = _verified_row(row, spec)
        except (InvalidRow, InvalidSolution, NotPrivate) as err:
            _LOG.warning("%s: row %s is skipped: %s", store.url, row.key, err)
        else:
            store.reads.add(row.key)
            return match
    return None


def _verified_row(row: Row, spec: DesignSpec) -> Nearest:
    """Return the row's answer, certified for ``spec``; raises the errors that `nearest` skips."""
    stored = read_row(row)
    if not isinstance(stored, Solution):
        raise InvalidRow("it is not a γ")
    columns = search_columns(row.record)
    if columns is None or not columns.answers(spec):
        raise InvalidRow("its columns and its record state different questions")
    stored_spec = stated_spec(stored, row)
    check_final(stored)
    solution = verify_solution(stored, stored_spec) if stored_spec == spec else verify_implied(stored, spec)
    return Nearest(solution, stored.problem, stored.shape, row.key)


def _number_text(number: Any) -> str:
    return f"{number:.6g}" if isinstance(number, float) else str(number)
