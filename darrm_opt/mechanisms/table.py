"""Certified tables: each output has exactly the probability in a `Table`.

The pairs of laws of a release are those of the table's edges if voters are not private, and those of its corners
(`darrm_opt.tables.corners`) for groups of private voters. What a record of one group can change is given by the corners
at which only voters of that group move: the group's own, smaller, cost.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from darrm_opt.accounting.accounts import compose_models
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.accounting.guarantee import ReleaseGuarantee, Releases
from darrm_opt.accounting.law_pairs import BitPairs, LawPairs
from darrm_opt.accounting.total import ReleaseTotal, total_of
from darrm_opt.design.report import guarantee
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.mechanisms.base import CountTable, VoteMechanism
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, Problem
from darrm_opt.randomness import RandomSource
from darrm_opt.tables.certificate import TableCertificate, verify_table
from darrm_opt.tables.corners import Corners, count_bound
from darrm_opt.tables.problem import ABSTENTION, Histograms, histograms
from darrm_opt.tables.record import CLAIMS, GROUP_KIND, KIND, kind_of, table_from_record, table_record
from darrm_opt.tables.table import Table
from darrm_opt.tables.votes import Labels, VoteTable, count_checked, label_type
from darrm_opt.voters import PrivacyProfile

MAX_PAIRS = 20_000  # maximum number of pairs of laws in an account; with more, the account of a release is its target


class CertifiedTable(VoteMechanism):
    """A certified table, sampled exactly.

    Args:
        problem: its target holds for one release.
        table: proved private again here, from its doubles.

    Raises:
        NotPrivate: the table is not private for the problem.
        InvalidInput: the table is for other voters, classes or outputs.
    """

    claims = ("version", *CLAIMS)  # the version is that of its writer
    defaults = ("fresh",)  # missing in files of `darrm solve`

    def __init__(self, problem: Problem, table: Table) -> None:
        # The accounts of one kind of voters prove nothing about the other.
        if kind_of(table.cells) != self.kind:
            raise InvalidInput("table", kind_of(table.cells), f"a {self.kind}")
        self.certificate: TableCertificate = verify_table(problem, table)
        self.problem, self.table = problem, table
        self.K, self.classes, self.affected = problem.K, problem.classes, problem.affected

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        """Return a class, or `ABSTENTION`, each with exactly its probability; ``counts`` as of `count`."""
        labels = np.empty(len(counts), dtype=label_type(self.classes))
        for row, cells in enumerate(self.table.cells.find(counts)[:, :-1]):
            position = source.below(self.table.denominator)  # uniform; the output is the interval it falls in
            output = 0
            for numerator in self.table.numerators[cells]:  # all of them, for constant time
                position -= numerator
                output += position >= 0
            labels[row] = ABSTENTION if output == self.classes else output
        return labels

    def record(self) -> dict[str, Any]:
        return table_record(self.problem, self.table)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the mechanism of a record, proved here."""
        problem, table, _ = table_from_record(record)
        return cls(problem, table)


class TableMechanism(CertifiedTable):
    """A certified table of voters that are not private."""

    name = "table"
    kind = KIND

    @property
    def description(self) -> str:
        """Short description."""
        return f"a table, each released class {guarantee(self.problem.target)}"

    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of the releases: the target, and the laws of all edges."""
        # With δ > 0 the linear program uses δ up on every edge, so among more classes the target is the better account.
        exact = self.classes == 2 or self.problem.target.delta == 0 or releases == 1
        return [(ReleaseGuarantee(self.problem.target, (lambda: self._laws) if exact else None), releases)]

    def at_sensitivity(self, votes: int) -> ReleaseGuarantee:
        return ReleaseGuarantee(
            self.problem.target if votes <= self.affected else None, lambda: table_laws(self.table, votes)
        )

    def class_chances(self, counts: CountTable) -> Array:
        return np.asarray(self.table.nearest[self.table.cells.find(counts)])

    @cached_property
    def _laws(self) -> LawPairs:
        return table_laws(self.table, self.affected)


def table_laws(table: Table, affected: int) -> LawPairs:
    """Return the laws of a table's answers on both sides of every edge, for voters that are not private.

    Between two classes they are exactly those of a bit. Classes with the same counts on both sides have the same ratio
    and count as one answer.
    """
    assert isinstance(table.cells, Histograms)  # noqa: S101 - for the type checker
    K, classes, abstention = table.cells.K, table.cells.classes, table.cells.abstention
    if classes == 2 and not abstention:
        return BitPairs([table.probabilities((v, K - v))[0] for v in range(K + 1)], affected)
    cells = histograms(K, classes, affected, abstention)
    p, q = (np.minimum(table.nearest[side] * cells.edges.sizes, 1.0) for side in cells.edges[:2])
    return LawPairs(p, q)


@dataclass(frozen=True)
class VoterReach:
    """The voters that a record moves, and the guarantees of the releases that it is in."""

    moving: frozenset[int]  # numbers of the groups whose voters it can move
    affected: int  # their maximum number
    event: Privacy  # of one release of fresh voters
    laws: LawPairs | None  # all pairs of laws of one release of fresh voters; None if too many
    fixed: LawPairs | None  # the same for votes fixed by the data
    models: dict[Privacy, int]  # its least private voters, with their numbers


class GroupTableMechanism(CertifiedTable):
    """A certified table for groups of voters; the columns of votes are ordered by group."""

    name = "group_table"
    kind = GROUP_KIND
    takes_samples = False

    def __init__(self, problem: Problem, table: Table, *, fresh: bool = False) -> None:
        super().__init__(problem, table)
        self.fresh = check_fresh(fresh)

    @property
    def description(self) -> str:
        groups = "; ".join(map(str, self.problem.groups))
        return f"a table for the groups {groups}, each released class {guarantee(self.problem.target)}"

    @property
    def _columns(self) -> int:
        return len(self.problem.groups) * self.classes

    def count(self, votes: VoteTable) -> VoteTable:
        """Return the votes for each class, one group after the other, shape (N, groups·C)."""
        ends = np.cumsum([group.K for group in self.problem.groups])[:-1]
        return np.hstack([count_checked(part, self.classes) for part in np.split(votes, ends, axis=1)])

    @property
    def private_voters(self) -> tuple[Privacy, ...]:
        return tuple(group.voter for group in self.problem.groups if group.voter.epsilon < math.inf)

    @property
    def is_fixed(self) -> bool:
        """Whether private voters were trained once, so that their earlier answers are informative about later ones."""
        return not self.fresh and bool(self.private_voters)

    @property
    def models(self) -> tuple[Privacy, int] | None:
        """A privacy that every model has, and the models that one record reaches, if all releases cost no more."""
        if not self.is_fixed:
            return None
        voters = [group.voter for group in self.problem.groups]
        most = Privacy(max(v.epsilon for v in voters), max(v.delta for v in voters))
        return None if most.epsilon == math.inf else (most, self.affected)

    @cached_property
    def everyone(self) -> VoterReach:
        """A record that may move voters of every group."""
        return self._reach(frozenset(range(len(self.problem.groups))))

    def group(self, number: int) -> VoterReach:
        """Return the reach of a record of one group, 0..G−1."""
        return self._reach(frozenset((number,)))

    def _reach(self, moving: frozenset[int]) -> VoterReach:
        problem, groups = self.problem, self.problem.groups
        affected = min(self.affected, sum(groups[g].K for g in moving))
        laws = self._laws(problem.strictest.voters, moving)
        fixed = self._laws(tuple(Privacy(math.inf) for _ in groups), moving) if self.is_fixed else None
        models = least_private([(groups[g].voter, groups[g].K) for g in sorted(moving)], affected)
        delta = problem.target.delta
        events = [problem.target]
        with suppress(DeltaTooSmall):
            events.append(compose_models(models, delta))  # release of the votes themselves
        if laws is not None and len(moving) < len(groups):
            with suppress(DeltaTooSmall):
                events.append(Privacy(laws.epsilon(delta), delta))
        return VoterReach(moving, affected, min(events, key=lambda one: one.epsilon), laws, fixed, models)

    def _laws(self, voters: tuple[Privacy, ...], moving: frozenset[int]) -> LawPairs | None:
        """Return the laws of the released class at every corner at which the moving groups move, in both orders."""
        size = sum(g.K * -math.log(_least_chance(v)) for g, v in zip(self.problem.groups, voters, strict=True))
        if size > MAX_LOG or count_bound(self.problem, voters, moving) > MAX_PAIRS:
            return None
        corners = Corners(self.problem, voters, self.problem.target, moving=moving)
        before, after = corners.output_laws(self.table.chances)
        both = np.unique(np.vstack([np.hstack([before, after]), np.hstack([after, before])]), axis=0)
        outputs = before.shape[1]
        return LawPairs(np.minimum(both[:, :outputs], 1), np.minimum(both[:, outputs:], 1), error=corners.relative)

    def bounds(self, releases: int) -> Releases:
        return self._bounds(self.everyone, releases)

    def _bounds(self, reach: VoterReach, releases: int) -> Releases:
        once = self.is_fixed and releases > 1
        laws = reach.fixed if once else reach.laws
        # Anything computed from the models is as private as they are.
        models = (self.K, tuple(reach.models.items())) if self.is_fixed else None
        shown = None if laws is None else (lambda: laws)
        return [(ReleaseGuarantee(None if once else reach.event, shown, models=models), releases)]

    def group_cost(self, number: int, releases: int, delta: float) -> ReleaseTotal:
        """Return the cost of a number of releases to the records of one group, 0..G−1, at δ.

        Guarantees: for neighbours that differ in one record, which moves at most ``affected`` voters of that group and
        no other voter, the releases together are (ε, δ)-indistinguishable.
        """
        return self.reach_cost(self.group(number), releases, delta)

    def reach_cost(self, reach: VoterReach, releases: int, delta: float) -> ReleaseTotal:
        """Return the cost of a number of releases to the voters that a record reaches, at δ."""
        return total_of(self._bounds(reach, releases), delta)

    def leader_chances(self, counts: CountTable) -> Array:
        """Return Pr[one of the leaders of all votes is released], for rows of `count`, shape (N,)."""
        total = counts.reshape(len(counts), -1, self.classes).sum(axis=1)
        chances = self.table.nearest[self.table.cells.find(counts)][:, : self.classes]
        return np.asarray((chances * (total == total.max(axis=1, keepdims=True))).sum(axis=1))

    def record(self) -> dict[str, Any]:
        return super().record() | {"fresh": self.fresh}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        problem, table, _ = table_from_record(record)
        return cls(problem, table, fresh=record.get("fresh", False))

    def __eq__(self, other: object) -> bool:
        """Return whether problem and table are equal; ``fresh`` is a claim about the voters and is not compared."""
        return isinstance(other, GroupTableMechanism) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Problem, Table]:
        return self.problem, self.table


MAX_LOG = 600.0
"""Largest −log probability of votes [nats]: below e^−600 products of probabilities lose relative precision."""


def _least_chance(voter: Privacy) -> float:
    if isinstance(voter, PrivacyProfile):
        return min(float(p) for p, _ in voter.outcomes() if p)
    chances = [] if voter.epsilon == math.inf else [(1 - voter.delta) / (1 + math.exp(min(voter.epsilon, MAX_LOG)))]
    return min([1.0, *chances, *([voter.delta] if voter.delta else [])])


def least_private(voters: list[tuple[Privacy, int]], affected: int) -> dict[Privacy, int]:
    """Return ``affected`` voters, as numbers of each privacy, at most as private as any ``affected`` of those given."""
    if sum(K for _, K in voters) <= affected:
        return dict(sum((Counter({voter: K}) for voter, K in voters), Counter()))
    if len({voter for voter, _ in voters}) > 1:
        # Neither of two profiles need be the less private one at every ε, so each is replaced by its last point.
        voters = [(Privacy(voter.epsilon, voter.delta), K) for voter, K in voters]
    highest = max(voter.delta for voter, _ in voters)
    ordered = sorted(voters, key=lambda one: (-one[0].epsilon, -one[0].delta))
    # If a voter with a smaller ε has a larger Δ, either could be the worst: all get the largest Δ.
    falls = all(a[0].delta >= b[0].delta for a, b in itertools.pairwise(ordered))
    chosen: Counter[Privacy] = Counter()
    for voter, K in ordered:
        take = min(K, affected - chosen.total())
        if take:
            chosen[voter if falls or voter.epsilon == math.inf else Privacy(voter.epsilon, highest)] += take
    return dict(chosen)
