"""Problem 1.1 in general: groups of voters, each with its own (ε_g, Δ_g), choose among C classes; one is released.

The release sees the vote counts of every group, n^g(c). Averaging a rule over all permutations of the classes changes
neither its privacy nor its utility, so a rule is a table over *orbits* of counts, with one cell for each row
(n^1(c), …, n^G(c)) that a class has there (and one for ⊥). As for γ, a cell holds what exceeds the uniform release:

    Pr[o | n] = x[o, n] + (1 − Σ_o′ x[o′, n])/outputs,      x ≥ 0,  Σ_o x ≤ 1

so x = 0 is private whatever the target, and scaling x down repairs a table. With two classes and one group x is γ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, Problem, whole_number
from darrm_opt.tables.problem import Cells, Index, PluralityProblem
from darrm_opt.voters import profile_text

MAX_GROUP_CLASSES = 6
"""Most classes with private voters: beyond, the maps of one voter alone are thousands."""

MAX_COUNTS = 200_000
"""Most vote counts (of all groups together) for which a table is made."""

MAX_TARGETS = 16
"""Most (ε, δ) that a table satisfies at once: each takes a sweep of its own."""

_COIN = Privacy(0.0)
"""A target where none matters."""

MAX_CELLS = 4000
"""Most cells of a table that is designed: rows are dense."""


@dataclass(frozen=True)
class VoterGroup:
    """Voters that are alike."""

    K: int
    voter: Privacy  # privacy of each one's answer, or its profile; ε = ``inf`` for voters that are not private

    def __str__(self) -> str:
        if len(self.voter.points) > 1:
            return f"K={self.K},profile={profile_text(self.voter)}"
        delta = f",Delta={self.voter.delta!r}" if self.voter.delta else ""
        return f"K={self.K},epsilon={self.voter.epsilon!r}{delta}"


@dataclass(frozen=True, init=False)
class TargetProfile(Privacy):
    """Several (ε, δ) that a release satisfies at once; as a `Privacy` it is the first, of the least ε.

    Args:
        targets: pairs (ε, δ), ε ≥ 0 [nats], δ in [0, 1).

    Guarantees:
        Frozen; canonical numbers, each moved to the stronger guarantee; those that others imply are dropped.

    Raises:
        InvalidInput: a number outside its range, or more than `MAX_TARGETS` that others do not imply.

    >>> TargetProfile([(0.4, 1e-5), (0.1, 0.01), (0.5, 1e-5)]).points
    ((0.1, 0.01), (0.4, 1e-05))
    """

    points: tuple[tuple[float, float], ...] = ()  # by increasing ε

    def __init__(self, targets: Iterable[Sequence[float]]) -> None:
        try:
            pairs = [(epsilon, delta) for epsilon, delta in targets]
        except (TypeError, ValueError) as err:
            raise InvalidInput("target", targets, "pairs (epsilon, delta)") from err
        canonical = [Problem(1, Privacy(math.inf), Privacy(*pair)).target for pair in pairs]
        needed: list[tuple[float, float]] = []
        for one in sorted(canonical, key=lambda one: (one.epsilon, one.delta)):
            if not needed or one.delta < needed[-1][1]:
                needed.append((one.epsilon, one.delta))
        if not 1 <= len(needed) <= MAX_TARGETS:
            raise InvalidInput("target", len(needed), f"1 to {MAX_TARGETS} pairs (epsilon, delta)")
        object.__setattr__(self, "points", tuple(needed))
        object.__setattr__(self, "epsilon", needed[0][0])
        object.__setattr__(self, "delta", needed[0][1])


def target_of(target: Privacy) -> Privacy:
    """Return a target in canonical numbers; of several points those that others do not imply."""
    if not isinstance(target, Privacy):
        raise InvalidInput("target", target, "a Privacy(epsilon, delta) or a TargetProfile")
    points = TargetProfile(target.points).points
    return Privacy(*points[0]) if len(points) == 1 else TargetProfile(points)


@dataclass(frozen=True, init=False)
class GroupProblem:
    """Release one of C classes from the votes of groups of voters.

    Guarantees: Frozen; equal and equally hashed when the same up to floating noise (`darrm_opt.problem`).
    Source: Problem 1.1 of the paper, for any number of classes and voters that are not alike (ours).

    >>> GroupProblem(3, [VoterGroup(5, Privacy(0.5))], Privacy(1.0)).affected
    5
    """

    classes: int
    # the voters, at least one group, kept in order; the votes are fresh and, given the data, independent
    groups: tuple[VoterGroup, ...]
    target: Privacy  # privacy of the released class; finite ε ≥ 0 [nats], δ in [0, 1); several: a `TargetProfile`
    affected: int
    abstention: bool  # whether ⊥ (no class) may be released

    def __init__(
        self,
        classes: int,
        groups: Iterable[VoterGroup | Sequence[Any]],
        target: Privacy,
        affected: int | None = None,
        *,
        abstention: bool = False,
    ) -> None:
        accepted = f"a whole number of classes, 2 to {MAX_GROUP_CLASSES}, where voters are private or not alike"
        classes = whole_number(classes, "classes", accepted, least=2, most=MAX_GROUP_CLASSES)
        voters = tuple(_as_group(group) for group in groups)
        if not voters:
            raise InvalidInput("groups", voters, _GROUPS)
        if not isinstance(abstention, bool):
            raise InvalidInput("abstention", abstention, "True or False")
        # Two-class problems with these voters: the one place where numbers become canonical.
        goal = target_of(target)
        alone = [Problem(group.K, group.voter, Privacy(*goal.points[0])) for group in voters]
        total = Problem(sum(one.K for one in alone), Privacy(math.inf), alone[0].target, affected)
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "groups", tuple(VoterGroup(one.K, one.voter) for one in alone))
        object.__setattr__(self, "target", goal)
        object.__setattr__(self, "affected", int(total.affected))
        object.__setattr__(self, "abstention", abstention)

    @property
    def K(self) -> int:
        """Number of voters in all groups."""
        return sum(group.K for group in self.groups)

    @property
    def outputs(self) -> int:
        """Number of outputs: the classes, and ⊥ if it may be released."""
        return self.classes + self.abstention

    @property
    def strictest(self) -> tuple[tuple[Privacy, ...], tuple[Privacy, ...]]:
        """Voters and targets of the hardest problem that rounds to this one: what is proved."""
        voters = tuple(Problem(group.K, group.voter, _COIN).strictest.voter for group in self.groups)
        return voters, tuple(one.strictest.target for one in self._targets)

    @property
    def loosest(self) -> tuple[tuple[Privacy, ...], tuple[Privacy, ...]]:
        """Voters and targets of a problem easier than all that round to this one: what an upper bound must cover."""
        voters = tuple(Problem(group.K, group.voter, _COIN).loosest.voter for group in self.groups)
        return voters, tuple(one.loosest.target for one in self._targets)

    @property
    def _targets(self) -> list[Problem]:
        return [Problem(1, Privacy(math.inf), Privacy(*point)) for point in self.target.points]

    @property
    def simplest(self) -> Problem | TableProblem:
        """The problem of these voters as the special case that it is (`simplest_problem`)."""
        given: dict[str, Any] = {"classes": self.classes, "affected": self.affected, "abstention": self.abstention}
        return simplest_problem(self.groups, self.target, **given)

    @cached_property
    def cells(self) -> GroupCells:
        """The counts of all groups and the cells of a table."""
        return GroupCells(tuple(group.K for group in self.groups), self.classes, abstention=self.abstention)


TableProblem = PluralityProblem | GroupProblem
"""A problem whose answer is a table."""


def simplest_problem(
    groups: Iterable[VoterGroup | Sequence[Any]],
    target: Privacy,
    *,
    classes: int = 2,
    affected: int | None = None,
    abstention: bool = False,
) -> Problem | TableProblem:
    """Return the problem of these voters, as the special case that it is where it is one; `solve` takes each.

    Args:
        groups: the voters, at least one group: (K, ε), (K, ε, Δ) or (K, voter) of each, or `VoterGroup`.
        target: privacy of the release, (ε [nats], δ [probability]); several at once: a `TargetProfile`.
        classes: C ≥ 2; up to `MAX_GROUP_CLASSES` where voters are private.
        affected: how many voters one record can influence, 1 to all; None means all.
        abstention: whether no class may be released.

    Where all voters are alike and one (ε, δ) is asked for, `Problem` (a γ) for two classes, and `PluralityProblem` for
    voters that are not private; otherwise `GroupProblem`, with the groups in their order: columns of votes and chances
    of a truth follow it.

    Raises:
        InvalidInput: naming the argument, its value and what is accepted.

    >>> simplest_problem([(6, 0.1), (5, 0.1)], Privacy(0.3)) == Problem(11, Privacy(0.1), Privacy(0.3))
    True
    >>> simplest_problem([(6, 0.1), (5, 0.5, 1e-4)], Privacy(0.6, 1e-4), classes=3).affected
    11
    """
    voters = [_as_group(group) for group in groups]
    if not voters:
        raise InvalidInput("groups", voters, _GROUPS)
    # As the problem has their numbers, on its decimal grid: 0.1 and 0.1 + 1e-17 are alike.
    goal = target_of(target)
    alone = [Problem(group.K, group.voter, Privacy(*goal.points[0])) for group in voters]
    if len({one.voter for one in alone}) == 1:
        one = Problem(sum(group.K for group in alone), alone[0].voter, alone[0].target, affected)
        has_one_target = len(goal.points) == 1
        if classes == 2 and not abstention and has_one_target:
            return one
        if one.voter.epsilon == math.inf and has_one_target:
            return PluralityProblem(one.K, classes, goal, int(one.affected), abstention=abstention)
        # Alike, but a table all the same: one group, so that one question has one key.
        voters = [VoterGroup(one.K, one.voter)]
    return GroupProblem(classes, voters, goal, affected, abstention=abstention)


def compositions(K: int, classes: int) -> Index:
    """Return the ways to share K votes among the classes, in lexicographic order, shape (ways, classes)."""
    if classes == 1:
        return np.array([[K]], dtype=np.intp)
    parts = []
    for first in range(K + 1):
        rest = compositions(K - first, classes - 1)
        parts.append(np.column_stack([np.full(len(rest), first, dtype=np.intp), rest]))
    return np.concatenate(parts)


def _ranks(votes: Index, K: int) -> Index:
    """Return the places of rows of votes among `compositions`, shape (rows,)."""
    classes = votes.shape[1]
    ranks, left = np.zeros(len(votes), dtype=np.intp), np.full(len(votes), K)
    # Rows before one that begins alike: those whose next count is less, the rest shared by the classes that remain.
    ways = np.array([[math.comb(n + c, c) for n in range(K + 1)] for c in range(classes)], dtype=np.intp)
    for c in range(classes - 1):
        rest = classes - 1 - c
        ranks += ways[rest][left] - ways[rest][left - votes[:, c]]
        left = left - votes[:, c]
    return ranks


class GroupCells(Cells):
    """Counts of all groups, and the cells of a table over them."""

    def __init__(self, sizes: tuple[int, ...], classes: int, *, abstention: bool) -> None:
        number = math.prod(math.comb(K + classes - 1, classes - 1) for K in sizes)
        if number > MAX_COUNTS:
            raise InvalidInput(
                "groups",
                "K = " + ", ".join(map(str, sizes)),
                f"at most {MAX_COUNTS:,} vote counts; here there are {number:,}",
                "Take fewer voters, groups or classes.",
            )
        self.sizes, self.classes, self.abstention = sizes, classes, abstention
        ways = [compositions(K, classes) for K in sizes]
        self.widths = tuple(len(way) for way in ways)
        places = np.indices(self.widths).reshape(len(sizes), -1)
        # every combination of the groups' counts, the last group fastest, shape (counts, groups, classes)
        self.counts: Index = np.stack([way[place] for way, place in zip(ways, places, strict=True)], axis=1)
        # A class's row of counts as one whole number; sorting the rows forgets the names of the classes.
        base = math.prod(K + 1 for K in sizes) + 1
        factors = np.cumprod([1, *(K + 1 for K in sizes[:-1])]).astype(np.intp)
        codes = np.einsum("ngc,g->nc", self.counts, factors)
        _, first, orbit = np.unique(np.sort(codes, axis=1), axis=0, return_index=True, return_inverse=True)
        self.first: Index = first  # place of the first of each orbit, shape (orbits,)
        self.orbit: Index = orbit.reshape(-1)  # number of the orbit of each, shape (counts,)
        if abstention:
            codes = np.column_stack([codes, np.full(number, base - 1)])
        keys = self.orbit[:, None] * base + codes
        distinct, cell = np.unique(keys, return_inverse=True)
        self._layout: Index = cell.reshape(keys.shape)
        self.owners = distinct // base
        self.starts = np.searchsorted(self.owners, np.arange(len(first)))
        self.multiplicities = np.bincount(self._layout[first].ravel(), minlength=len(distinct))

    @property
    def shape(self) -> tuple[object, ...]:
        """Voters of each group, classes, and whether ⊥ may be released."""
        return self.sizes, self.classes, self.abstention

    @property
    def layout(self) -> Index:
        """As for all cells, shape (counts, outputs)."""
        return self._layout

    def find(self, counts: Any) -> Index:
        """As for all cells, of counts of shape (N, groups, C), flat or not."""
        return np.asarray(self._layout[self.places(counts)])

    def shrink(self, sums: Array) -> Array:
        """As for all cells; a vote count whose sum is surely below 1 is left as it is."""
        full = (1.0 - 2.0**-52 * (self.outputs + 4)) / np.maximum(sums, 0.5)
        return np.where(sums > 1 - 1e-12, full, 1.0)

    def places(self, counts: Any) -> Index:
        """Return the places of the groups' counts, shape (N, groups, classes); they are checked, and never shown."""
        accepted = f"{self.classes} counts for each group, that sum to {', '.join(map(str, self.sizes))}"
        try:
            votes = np.asarray(counts, dtype=np.intp).reshape(-1, len(self.sizes), self.classes)
        except (TypeError, ValueError):
            raise InvalidInput("counts", "counts that are not shown here", accepted) from None
        if votes.min(initial=0) < 0 or np.any(votes.sum(axis=2) != self.sizes):
            raise InvalidInput("counts", "counts that are not shown here", accepted)
        ranks = [_ranks(votes[:, g], K) for g, K in enumerate(self.sizes)]
        return np.asarray(np.ravel_multi_index(ranks, self.widths), dtype=np.intp)

    def log_ways(self) -> Array:
        """Return the logarithm of the number of ways in which the voters give each of the counts, shape (counts,)."""
        factorials = np.array([math.lgamma(n + 1) for n in range(max(self.sizes) + 1)])
        total = sum(factorials[K] for K in self.sizes)
        return np.asarray(total - factorials[self.counts].sum(axis=(1, 2)))


_GROUPS = "at least one group: (K, voter), (K, epsilon) or (K, epsilon, Delta)"


def group_of(K: Any, epsilon: float, Delta: float = 0.0) -> VoterGroup:
    """Return a group."""
    return VoterGroup(whole_number(K, "K", "a whole number of voters, at least 1"), Privacy(epsilon, Delta))


def _as_group(group: Any) -> VoterGroup:
    if isinstance(group, VoterGroup):
        return group
    if not isinstance(group, tuple | list) or not 2 <= len(group) <= 3:
        raise InvalidInput("groups", group, _GROUPS)
    if len(group) == 2 and isinstance(group[1], Privacy):
        return VoterGroup(*group)
    return group_of(*group)
