"""Certified tables: each output has exactly the probability that a `PluralityRule` states.

A table comes from the linear program (`darrm_opt.tables`), or from the law of a mechanism at the largest rate at which
the label alone, over all edges, is private (`calibrate_table`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from darrm_opt.accounting.cost import Parts, ReleaseBounds
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.design.report import guarantee
from darrm_opt.mechanisms.base import CountTable, VoteMechanism
from darrm_opt.noise import Array
from darrm_opt.randomness import RandomSource
from darrm_opt.tables.certificate import PluralityCertificate, verify_rule
from darrm_opt.tables.problem import ABSTENTION, PluralityProblem
from darrm_opt.tables.record import KIND, rule_from_record, rule_record
from darrm_opt.tables.rule import PluralityRule, rule_laws


class RuleMechanism(VoteMechanism):
    """A certified rule, sampled exactly.

    Args:
        problem: what must hold of one release.
        rule: proved private here, again, from its doubles.

    Raises:
        NotPrivate: the rule is not private for the problem.
        InvalidInput: the rule is for other voters, classes or outputs.
    """

    name = "table"
    kind = KIND

    def __init__(self, problem: PluralityProblem, rule: PluralityRule) -> None:
        self.certificate: PluralityCertificate = verify_rule(problem, rule)
        self.problem, self.rule = problem, rule
        self.K, self.classes, self.affected = problem.K, problem.classes, problem.affected

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        return f"a table, each released class {guarantee(self.problem.target)}"

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, or `ABSTENTION`, each with exactly its probability.

        Args:
            counts: votes for each class.
            source: random bits.
        """
        cells = self.rule.cell_of(counts)
        position = source.below(self.rule.denominator)  # uniform; the output is where it falls among the numerators
        output = 0
        for cell in cells[:-1]:  # all of them, whichever it is
            position -= self.rule.numerators[cell]
            output += position >= 0
        return ABSTENTION if output == self.classes else int(output)

    def bounds(self, releases: int) -> Parts:
        """Return what is proved of so many releases: the target, and the laws of all edges.

        Args:
            releases: how many.
        """
        # With δ > 0 the linear program uses it up on every edge: the target is then the better account among classes.
        exact = self.classes == 2 or self.problem.target.delta == 0 or releases == 1
        return [(ReleaseBounds(self.problem.target, (lambda: self._laws) if exact else None), releases)]

    def moved(self, votes: int) -> ReleaseBounds:
        """Return what is proved of one release where a record moves so many votes.

        Args:
            votes: 1..K.
        """
        return ReleaseBounds(
            self.problem.target if votes <= self.affected else None, lambda: rule_laws(self.rule, votes)
        )

    def class_chances(self, counts: CountTable) -> Array:
        """Return Pr[each class is released], and of ⊥ last if it can be.

        Args:
            counts: decreasing vote counts, shape (N, C).
        """
        places = [self.rule.cell_of(partition) for partition in counts.tolist()]
        return np.asarray(self.rule.nearest[np.array(places)])

    @cached_property
    def _laws(self) -> LawPairs:
        return rule_laws(self.rule, self.affected)

    def leader_chances(self, counts: CountTable) -> Array:
        """Return Pr[one of the leaders is released], shape (N,)."""
        cells = self.rule.cells
        places = [cells.starts[cells.numbers[tuple(partition)]] for partition in counts.tolist()]
        return np.asarray(self.rule.nearest[places] * cells.multiplicities[places])

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data."""
        return rule_record(self.problem, self.rule)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> RuleMechanism:
        """Return the mechanism of a record, proved here."""
        problem, rule, _ = rule_from_record(record)
        return cls(problem, rule)
