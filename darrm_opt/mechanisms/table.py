"""Certified tables: each output has exactly the probability that a `Table` states.

A table comes from the linear program (`darrm_opt.tables`), or from the law of a mechanism at the largest rate at which
the label alone, over all edges, is private (`calibrate_table`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Self

import numpy as np

from darrm_opt.accounting.cost import Parts, ReleaseBounds
from darrm_opt.accounting.law_pairs import BitPairs, LawPairs
from darrm_opt.design.report import guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import CONFIDENT, CountTable, VoteMechanism, mechanism_classes
from darrm_opt.mechanisms.vote_noise import checked_table
from darrm_opt.noise import Array
from darrm_opt.randomness import RandomSource
from darrm_opt.search import largest_fitting_from
from darrm_opt.tables.certificate import TableCertificate, certify_table, verify_table
from darrm_opt.tables.groups import TableProblem
from darrm_opt.tables.problem import ABSTENTION, Histograms, PluralityProblem, histograms
from darrm_opt.tables.record import KIND, kind_of_problem, table_from_record, table_record
from darrm_opt.tables.table import Table
from darrm_opt.tables.votes import Labels, VoteTable, label_type


class TableMechanism(VoteMechanism):
    """A certified table, sampled exactly; what its releases cost depends on the voters.

    Args:
        problem: what must hold of one release.
        table: proved private here, again, from its doubles.

    Raises:
        NotPrivate: the table is not private for the problem.
        InvalidInput: the table is for other voters, classes or outputs.
    """

    def __init__(self, problem: TableProblem, table: Table) -> None:
        # The accounts of one kind of voters prove nothing of the other.
        if kind_of_problem(problem) != self.kind:
            raise InvalidInput("problem", problem, f"the problem of a {self.kind}")
        self.certificate: TableCertificate = verify_table(problem, table)
        self.problem, self.table = problem, table
        self.K, self.classes, self.affected = problem.K, problem.classes, problem.affected

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, or `ABSTENTION`, each with exactly its probability; ``counts`` as of `count`."""
        return int(self.draw_many(np.array([counts], dtype=np.int64), source)[0])

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        labels = np.empty(len(counts), dtype=label_type(self.classes))
        for row, cells in enumerate(self.table.cells.find(counts)[:, :-1]):
            position = source.below(self.table.denominator)  # uniform; the output is where it falls
            output = 0
            for numerator in self.table.numerators[cells]:  # all of them, whichever it is
                position -= numerator
                output += position >= 0
            labels[row] = ABSTENTION if output == self.classes else output
        return labels

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data."""
        return table_record(self.problem, self.table)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the mechanism of a record, proved here."""
        problem, table, _ = table_from_record(record)
        return cls(problem, table)


class RuleMechanism(TableMechanism):
    """A certified table of voters that are not private."""

    name = "table"
    kind = KIND

    problem: PluralityProblem

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        return f"a table, each released class {guarantee(self.problem.target)}"

    def bounds(self, releases: int) -> Parts:
        """Return what is proved of so many releases: the target, and the laws of all edges."""
        # With δ > 0 the linear program uses it up on every edge: the target is then the better account among classes.
        exact = self.classes == 2 or self.problem.target.delta == 0 or releases == 1
        return [(ReleaseBounds(self.problem.target, (lambda: self._laws) if exact else None), releases)]

    def moved(self, votes: int) -> ReleaseBounds:
        """Return what is proved of one release where a record moves so many votes."""
        return ReleaseBounds(
            self.problem.target if votes <= self.affected else None, lambda: table_laws(self.table, votes)
        )

    def class_chances(self, counts: CountTable) -> Array:
        """Return Pr[each class is released], and of ⊥ last if it can be."""
        return np.asarray(self.table.nearest[self.table.cells.find(counts)])

    @cached_property
    def _laws(self) -> LawPairs:
        return table_laws(self.table, self.affected)

    def leader_chances(self, counts: CountTable) -> Array:
        """Return Pr[one of the leaders is released], shape (N,)."""
        leaders, several = self.table.cells.find(counts)[:, 0], (counts == counts[:, :1]).sum(axis=1)
        return np.asarray(self.table.nearest[leaders] * several)


def table_laws(table: Table, affected: int) -> LawPairs:
    """Return the laws of a table's answers on both sides of every edge, voters being not private.

    Between two classes they are those of a bit, exactly. Classes with the same counts on both sides have the same
    ratio, so that they count as one answer.
    """
    assert isinstance(table.cells, Histograms)  # noqa: S101 - for the type checker
    K, classes, abstention = table.cells.K, table.cells.classes, table.cells.abstention
    if classes == 2 and not abstention:
        return BitPairs([table.probabilities((v, K - v))[0] for v in range(K + 1)], affected)
    cells = histograms(K, classes, affected, abstention)
    p, q = (np.minimum(table.nearest[side] * cells.sizes, 1.0) for side in (cells.left, cells.right))
    return LawPairs(p, q)


MAX_RATE = 2000.0
"""Largest rate tried: beyond it the plurality is released as it is."""

ROUNDING = 1e-15
"""Excess that is left to the repair."""

THRESHOLDS, CHECK_SHARES = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8), (0.25, 0.5, 1.0, 2.0)
"""Thresholds of the check that are tried, as shares of K, and deviations σ₂/σ₁ of its two noises."""

TableLaw = Callable[[Histograms, float], Array]
"""Probabilities of the cells at a rate."""


@cache
def tables() -> dict[str, TableLaw]:
    """Return the laws of the mechanisms that have one as a table, by name."""
    laws = ((name, getattr(mechanism, "table", None)) for name, mechanism in mechanism_classes().items())
    return {name: law for name, law in laws if law is not None}


@dataclass(frozen=True)
class CalibratedMechanism:
    """A mechanism at the largest rate that is private, as a certified table.

    Attributes:
        name: one of `tables`.
        rate: t [nats a vote]; of Gaussian noise 1/σ [1/votes].
        problem: for which it is private.
        table: its probabilities as doubles, repaired.
        certificate: why that table is private.
    """

    name: str
    rate: float
    problem: PluralityProblem
    table: Table
    certificate: TableCertificate


def calibrate_mechanism(problem: PluralityProblem, name: str, *, precision: float = 1e-10) -> CalibratedMechanism:
    """Return a mechanism at the largest rate at which its label, and nothing more, is private for the problem.

    Args:
        problem: without abstention; every edge of it is looked at.
        name: one of `tables`.
        precision: relative distance of the rate from the largest one.

    Guarantees:
        The table is certified as it is stored, whatever the bisection found.

    Raises:
        InvalidInput: another name, abstention, or too many partitions.
    """
    law = tables().get(name)
    if law is None:
        raise InvalidInput("mechanism", name, "one of " + ", ".join(tables()))
    if problem.abstention:
        raise InvalidInput(
            "abstention", problem.abstention, "a problem without abstention", "These mechanisms always release a class."
        )
    cells = problem.cells
    rate = _largest_rate(problem, lambda rate: law(cells, rate), precision)
    return _certified_mechanism(problem, name, rate, law(cells, rate))


def calibrate_confident(problem: PluralityProblem, utility: Callable[[Table], float]) -> CalibratedMechanism:
    """Return a checked noisy maximum at the most useful threshold and split of noise, of `THRESHOLDS` × `CHECK_SHARES`.

    Guarantees: The table is certified as it is stored: its output (a class, or ⊥) and nothing more is private.
    """
    if not problem.abstention:
        raise InvalidInput("abstention", problem.abstention, "a problem with abstention")
    cells, mechanisms = problem.cells, []
    for threshold in sorted({problem.K * share for share in THRESHOLDS}):
        for check_share in CHECK_SHARES:
            table = partial(checked_table, cells, threshold=threshold, check_share=check_share)
            rate = _largest_rate(problem, table, 1e-4)
            mechanisms.append(_certified_mechanism(problem, CONFIDENT, rate, table(rate)))
    return max(mechanisms, key=lambda mechanism: utility(mechanism.table))


def _certified_mechanism(problem: PluralityProblem, name: str, rate: float, table: Array) -> CalibratedMechanism:
    proved, certificate = certify_table(problem, Table.normalised(problem.cells, table))
    return CalibratedMechanism(name, rate, problem, proved, certificate)


def _largest_rate(problem: PluralityProblem, table: Callable[[float], Array], precision: float = 1e-10) -> float:
    """Return the rate, to a relative precision from below, up to which a mechanism is private, in floating point."""
    cells, target = problem.cells, problem.strictest_target
    c = math.exp(target.epsilon)

    def fits(rate: float) -> bool:
        x = table(rate)
        outputs = cells.sizes * np.maximum(x[cells.left] - c * x[cells.right], 0.0)
        return float(outputs.sum(axis=1).max(initial=0.0)) <= target.delta + ROUNDING

    return largest_fitting_from(fits, 1e-3, MAX_RATE, precision)
