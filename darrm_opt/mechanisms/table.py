"""Certified tables: each output has exactly the probability that a `Table` states.

A table of voters that are not private has the laws of its edges. Of groups of private voters a release's pairs of laws
are those of its corners (`darrm_opt.tables.corners`); what a record of one group can change is the same over the
corners at which that group's voters alone move: its own, smaller, cost.
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

MAX_PAIRS = 20_000
"""Most pairs of laws that an account goes through; where there are more, the target is what is proved of a release."""


class CertifiedTable(VoteMechanism):
    """A certified table, sampled exactly; what its releases cost depends on the voters.

    Args:
        problem: what must hold of one release.
        table: proved private here, again, from its doubles.

    Raises:
        NotPrivate: the table is not private for the problem.
        InvalidInput: the table is for other voters, classes or outputs.
    """

    claims = ("version", *CLAIMS)  # the version is that of its writer
    defaults = ("fresh",)  # files of `darrm solve` do not say it

    def __init__(self, problem: Problem, table: Table) -> None:
        # The accounts of one kind of voters prove nothing of the other.
        if kind_of(table.cells) != self.kind:
            raise InvalidInput("table", kind_of(table.cells), f"a {self.kind}")
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


class TableMechanism(CertifiedTable):
    """A certified table of voters that are not private."""

    name = "table"
    kind = KIND

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        return f"a table, each released class {guarantee(self.problem.target)}"

    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of the releases: the target, and the laws of all edges."""
        # With δ > 0 the linear program uses it up on every edge: the target is then the better account among classes.
        exact = self.classes == 2 or self.problem.target.delta == 0 or releases == 1
        return [(ReleaseGuarantee(self.problem.target, (lambda: self._laws) if exact else None), releases)]

    def at_sensitivity(self, votes: int) -> ReleaseGuarantee:
        """Return the guarantee of one release if a record moves ``votes`` votes."""
        return ReleaseGuarantee(
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


@dataclass(frozen=True)
class VoterReach:
    """Which voters a record moves, and what is proved of the releases that it is in."""

    moving: frozenset[int]  # the groups whose voters it can move, by number
    affected: int  # how many of them at most
    event: Privacy  # of one release, voters being fresh
    laws: LawPairs | None  # all pairs of laws of one release, voters being fresh; None where they are too many
    fixed: LawPairs | None  # the same for votes that are fixed given the data, as those of non-private voters
    models: dict[Privacy, int]  # the voters that it moves, the least private ones


class GroupTableMechanism(CertifiedTable):
    """A certified table for groups of voters. The columns of votes are by group."""

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

    def count(self, votes: VoteTable) -> VoteTable:
        """Return the votes for each class, one group after the other, shape (N, groups·C)."""
        ends = np.cumsum([group.K for group in self.problem.groups])[:-1]
        return np.hstack([count_checked(part, self.classes) for part in np.split(votes, ends, axis=1)])

    @property
    def private_voters(self) -> tuple[Privacy, ...]:
        return tuple(group.voter for group in self.problem.groups if group.voter.epsilon < math.inf)

    @property
    def is_fixed(self) -> bool:
        """Whether voters that are private were trained once: their earlier answers tell of later ones."""
        return not self.fresh and bool(self.private_voters)

    @property
    def models(self) -> tuple[Privacy, int] | None:
        """A privacy that each model has at least, and how many one record reaches, where all releases cost no more."""
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
        """Return what a record of one group, 0..G−1, can change."""
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
            events.append(compose_models(models, delta))  # the answers of the voters themselves
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
        # Whatever is computed from the models is as private as they are.
        models = (self.K, tuple(reach.models.items())) if self.is_fixed else None
        shown = None if laws is None else (lambda: laws)
        return [(ReleaseGuarantee(None if once else reach.event, shown, models=models), releases)]

    def group_cost(self, number: int, releases: int, delta: float) -> ReleaseTotal:
        """Return what a number of releases cost the records of one group, 0..G−1, at δ.

        Guarantees: for neighbours that differ in one record, which moves at most ``affected`` voters of that group and
        no other voter, the releases together are (ε, δ)-indistinguishable.
        """
        return self.reach_cost(self.group(number), releases, delta)

    def reach_cost(self, reach: VoterReach, releases: int, delta: float) -> ReleaseTotal:
        """Return what a number of releases cost the voters that a record reaches, at δ."""
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
        """Return whether problem and table are the same; that voters are fresh is a claim about them, not compared."""
        return isinstance(other, GroupTableMechanism) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[Problem, Table]:
        return self.problem, self.table


MAX_LOG = 600.0
"""Most nats by which votes may be unlikely: below e^−600 products of chances lose their relative precision."""


def _least_chance(voter: Privacy) -> float:
    if isinstance(voter, PrivacyProfile):
        return min(float(p) for p, _ in voter.outcomes() if p)
    chances = [] if voter.epsilon == math.inf else [(1 - voter.delta) / (1 + math.exp(min(voter.epsilon, MAX_LOG)))]
    return min([1.0, *chances, *([voter.delta] if voter.delta else [])])


def least_private(voters: list[tuple[Privacy, int]], affected: int) -> dict[Privacy, int]:
    """Return voters of whom any ``affected`` are at least as private."""
    if sum(K for _, K in voters) <= affected:
        return dict(sum((Counter({voter: K}) for voter, K in voters), Counter()))
    if len({voter for voter, _ in voters}) > 1:
        # Of two profiles either may be the less private one, by where it is asked: of each its last point counts.
        voters = [(Privacy(voter.epsilon, voter.delta), K) for voter, K in voters]
    highest = max(voter.delta for voter, _ in voters)
    ordered = sorted(voters, key=lambda one: (-one[0].epsilon, -one[0].delta))
    # Where a voter with a smaller ε has a larger Δ, either choice might be the worst: each is given the largest Δ.
    falls = all(a[0].delta >= b[0].delta for a, b in itertools.pairwise(ordered))
    chosen: Counter[Privacy] = Counter()
    for voter, K in ordered:
        take = min(K, affected - chosen.total())
        if take:
            chosen[voter if falls or voter.epsilon == math.inf else Privacy(voter.epsilon, highest)] += take
    return dict(chosen)
