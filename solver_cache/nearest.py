"""Nearest valid answer: a stored γ whose guarantee implies the one asked for.

For when nothing can be solved, or not in time. A γ that is private for voters who are *less* private than those asked
about, of whom a record reaches *more*, and whose release is *more* private than asked, answers the question: it is
private, and only its utility may be below the best. So among all such stored answers the one with the best utility for
the asked objective is taken, and proved for the asked problem before it leaves.
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
"""Stored answers tried before giving up: the first is taken unless it is damaged, so this many mean a bad store."""


@dataclass(frozen=True)
class Nearest:
    """Nearest answer: a stored answer to the question, or to a stricter one.

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


def nearest(spec: DesignSpec, store: Store, client: str | None = None) -> Nearest | None:
    """Return the best answer in ``store`` that is valid for ``spec``, or None where there is none; nothing is solved.

    Of those that ``client`` may see (`solver_cache.database.designs`); None: of all.

    Guarantees:
        The γ is private for the asked problem, exactly as stored, proved by this process; whatever the store holds.
        That none better is stored rests on the rows having been written by this program.

    Raises:
        CacheError: the store cannot be read.
    """
    for count, row in enumerate(store.candidates(spec, client)):
        if count == MAX_CANDIDATES:
            _LOG.warning("%s: the first %d answers nearest to %s are no answers", store.url, MAX_CANDIDATES, spec.key)
            return None
        try:
            match = _verified_row(row, spec)
        except (InvalidRow, InvalidSolution, NotPrivate) as err:
            _LOG.warning("%s: row %s is passed over: %s", store.url, row.key, err)
        else:
            store.reads.add(row.key)
            return match
    return None


def _verified_row(row: Row, spec: DesignSpec) -> Nearest:
    """Return the row's answer, certified for ``spec``; raises what `nearest` passes over."""
    stored = read_row(row)
    if not isinstance(stored, Solution):
        raise InvalidRow("it is not a gamma")
    columns = search_columns(row.record)
    if columns is None or not columns.answers(spec):
        raise InvalidRow("its columns say that it answers another question than its record does")
    stored_spec = stated_spec(stored, row)
    check_final(stored)
    solution = verify_solution(stored, stored_spec) if stored_spec == spec else verify_implied(stored, spec)
    return Nearest(solution, stored.problem, stored.shape, row.key)


def _number_text(number: Any) -> str:
    return f"{number:.6g}" if isinstance(number, float) else str(number)
