"""Certified tables for groups of voters, sampled exactly; what many releases cost, in all and for each group.

A release's pairs of laws are those of its corners (`darrm_opt.tables.corners`). What a record of one group can change
is the same over the corners at which that group's voters alone move: its own, smaller, cost.
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

from darrm_opt.accounting.cost import MAX_RELEASES, Cost, Parts, Quota, ReleaseBounds, cost_of_parts, most_releases
from darrm_opt.accounting.freshness import check_fresh, compose_models
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.design.report import guarantee
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.mechanisms.base import CountTable
from darrm_opt.mechanisms.table import TableMechanism
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.tables.corners import Corners, count_bound
from darrm_opt.tables.groups import GroupProblem, TableProblem
from darrm_opt.tables.record import GROUP_KIND, table_from_record
from darrm_opt.tables.table import Table
from darrm_opt.tables.votes import VoteTable, count_checked

MAX_PAIRS = 20_000
"""Most pairs of laws that an account goes through; where there are more, the target is what is proved of a release."""


@dataclass(frozen=True)
class VoterReach:
    """Which voters a record moves, and what is proved of the releases that it is in."""

    moving: frozenset[int]  # the groups whose voters it can move, by number
    affected: int  # how many of them at most
    event: Privacy  # of one release, voters being fresh
    laws: LawPairs | None  # all pairs of laws of one release, voters being fresh; None where they are too many
    fixed: LawPairs | None  # the same for votes that are fixed given the data, as those of non-private voters
    models: dict[Privacy, int]  # the voters that it moves, the least private ones


class GroupTableMechanism(TableMechanism):
    """A certified table for groups of voters. The columns of votes are by group."""

    name = "group_table"
    kind = GROUP_KIND

    problem: GroupProblem

    def __init__(self, problem: TableProblem, table: Table, *, fresh: bool = False) -> None:
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
    def is_fixed(self) -> bool:
        """Whether voters that are private were trained once: their earlier answers tell of later ones."""
        return not self.fresh and any(group.voter.epsilon < math.inf for group in self.problem.groups)

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
        laws = self._laws(problem.strictest[0], moving)
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

    def bounds(self, releases: int) -> Parts:
        return _bounds(self.everyone, releases, fixed=self.is_fixed)

    def moved(self, votes: int) -> ReleaseBounds:
        return ReleaseBounds(self.problem.target if votes <= self.affected else None)

    def triples(self, sampling: Sampling) -> None:
        """Return None: no account of samples is known."""

    def cost(self, releases: int, delta: float, sampling: Sampling | None = None) -> Cost:
        return self.reach_cost(self.everyone, releases, delta, sampling)

    def group_cost(self, number: int, releases: int, delta: float) -> Cost:
        """Return what so many releases cost the records of one group, 0..G−1, at δ.

        Guarantees: for neighbours that differ in one record, which moves at most ``affected`` voters of that group and
        no other voter, the releases together are (ε, δ)-indistinguishable.
        """
        return self.reach_cost(self.group(number), releases, delta)

    def reach_cost(self, reach: VoterReach, releases: int, delta: float, sampling: Sampling | None = None) -> Cost:
        """Return what so many releases cost those whom a record reaches, at δ."""
        if sampling is not None:
            raise InvalidInput(
                "sampling", sampling, "None for a table of groups", "Its accounts are those of all voters."
            )
        found = cost_of_parts(_bounds(reach, releases, fixed=self.is_fixed), delta)
        if not (self.is_fixed and releases):
            return found
        with suppress(DeltaTooSmall):  # whatever is computed from the models is as private as they are
            found.epsilons["models"] = compose_models(reach.models, delta).epsilon
        account = min(found.epsilons, key=lambda name: found.epsilons[name], default="none")
        best = found.epsilons.get(account, math.inf)
        return Cost(best, delta, account if best < math.inf else "none", found.epsilons)

    def fits(self, budget: Privacy, releases: int, sampling: Sampling | None = None) -> bool:
        return self.cost(releases, budget.delta, sampling).epsilon <= budget.epsilon

    def most_releases(self, budget: Privacy, sampling: Sampling | None = None) -> Quota:
        if self.is_fixed and self.fits(budget, MAX_RELEASES, sampling):
            return Quota(MAX_RELEASES, "models")
        return most_releases(self, budget, sampling)

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
    def _content(self) -> tuple[GroupProblem, Table]:
        return self.problem, self.table


MAX_LOG = 600.0
"""Most nats by which votes may be unlikely: below e^−600 products of chances lose their relative precision."""


def _least_chance(voter: Privacy) -> float:
    chances = [] if voter.epsilon == math.inf else [(1 - voter.delta) / (1 + math.exp(min(voter.epsilon, MAX_LOG)))]
    return min([1.0, *chances, *([voter.delta] if voter.delta else [])])


def least_private(voters: list[tuple[Privacy, int]], affected: int) -> dict[Privacy, int]:
    """Return voters of whom any ``affected`` are at least as private."""
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


def _bounds(reach: VoterReach, releases: int, *, fixed: bool) -> Parts:
    laws = reach.fixed if fixed and releases > 1 else reach.laws
    event = None if fixed and releases > 1 else reach.event
    return [(ReleaseBounds(event, None if laws is None else (lambda: laws)), releases)]
