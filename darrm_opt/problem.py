"""Problem of a design: K voters, how private each is, and how private their majority must be.

Notation: ``K`` voters, each (ε, Δ)-DP (``voter``); the release must be (mε, δ)-DP (``target``); one record influences
at most ``affected`` voters.

Numbers are canonical (`darrm_opt.decimals`): 3·0.1 and 0.3 are one problem, and a number between two grid points moves
to the side of the stronger guarantee: voters less private, release more private. Privacy is proved for
`Problem.strictest`, the far end of the tolerated noise, so no input that rounds to a problem gets a stronger promise
than was proved. Upper bounds are proved for `Problem.loosest`, so no input that rounds to a problem has a better
answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

from darrm_opt.arguments import field_number, real_number, whole_number
from darrm_opt.decimals import (
    DELTA_GRID,
    DOWN,
    EPSILON_NOISE,
    MAX_DELTA,
    UP,
    delta_noise,
    delta_step,
    grid_delta,
    grid_point,
    grid_step,
)
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.fields import FIELDS

MAX_TARGET_EPSILON = float(FIELDS["target_epsilon"].limits["most"])  # largest target ε [nats]

NEARLY_A_COIN = 0.2
"""Largest γ(l) at which a release is nearly a fair coin: even the clearest vote is then released wrongly in 40 % of the
cases. The planner calls such an answer useless as well (`planning.MIN_ACCURACY`)."""

FRESH = FIELDS["fresh"].description

MAX_VOTERS = 10**6  # maximum number of voters: far more than can be solved, and few enough for arrays of that size
MAX_CLASSES = 1000  # maximum number of classes if voters are not private
MAX_GROUP_CLASSES = 6  # maximum number of classes with private voters: beyond it, one voter alone has thousands of maps
MAX_TARGETS = 16  # maximum number of simultaneous (ε, δ): each takes its own search

MANY_CLASSES = (
    "Tables and rankings list the chance of each class, in time that grows with their number. Noise on the votes and "
    "selection mechanisms take up to 1,048,576 classes: `darrm cost NAME --classes COUNT --total-epsilon NATS` finds "
    "the parameter that fits in a total."
)


@dataclass(frozen=True)
class Privacy:
    """(ε, δ)-differential privacy of one mechanism.

    Args:
        epsilon: [nats], ≥ 0; ``inf`` means no privacy at all.
        delta: [probability], in [0, 1).

    Raises:
        InvalidInput: a number is outside its range, NaN, or not a number.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _epsilon(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", _probability(self.delta, "delta"))

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """The points (ε, δ) that hold: this one, or those of a profile."""
        return ((self.epsilon, self.delta),)

    def with_points(self, points: Iterable[tuple[float, float]]) -> Privacy:
        """Return the same kind of guarantee with other points, taken as they are (off the grid)."""
        ((epsilon, delta),) = points
        return Privacy(epsilon, delta)


@dataclass(frozen=True)
class VoterGroup:
    """Voters with equal privacy."""

    K: int
    voter: Privacy  # privacy of one answer, or its profile; ε = ``inf`` for voters that are not private

    def __str__(self) -> str:
        if len(self.voter.points) > 1:
            return f"K={self.K},profile={profile_text(self.voter)}"
        delta = f",Delta={self.voter.delta!r}" if self.voter.delta else ""
        return f"K={self.K},epsilon={self.voter.epsilon!r}{delta}"


@dataclass(frozen=True, init=False)
class TargetProfile(Privacy):
    """Several (ε, δ) that a release satisfies at once; as a `Privacy` it is the first, with the smallest ε.

    Args:
        points: pairs (ε, δ), ε ≥ 0 [nats], δ in [0, 1).

    Guarantees:
        Frozen; canonical numbers, each moved to the stronger guarantee; implied points are dropped.

    Raises:
        InvalidInput: a number outside its range, or more than `MAX_TARGETS` points of which none implies another.

    >>> TargetProfile([(0.4, 1e-5), (0.1, 0.01), (0.5, 1e-5)]).points
    ((0.1, 0.01), (0.4, 1e-05))
    """

    points: tuple[tuple[float, float], ...] = ()  # by increasing ε

    def __init__(self, points: Iterable[Sequence[float]]) -> None:
        try:
            pairs = [(epsilon, delta) for epsilon, delta in points]
        except (TypeError, ValueError) as err:
            raise InvalidInput("target", points, "pairs (epsilon, delta)") from err
        canonical = [_one_target(Privacy(*pair)) for pair in pairs]
        needed: list[tuple[float, float]] = []
        for one in sorted(canonical, key=lambda one: (one.epsilon, one.delta)):
            if not needed or one.delta < needed[-1][1]:
                needed.append((one.epsilon, one.delta))
        if not 1 <= len(needed) <= MAX_TARGETS:
            raise InvalidInput("target", len(needed), f"1 to {MAX_TARGETS} pairs (epsilon, delta)")
        self._set(tuple(needed))

    def with_points(self, points: Iterable[tuple[float, float]]) -> TargetProfile:
        """Return the profile of these points, taken as they are (off the grid)."""
        copy: TargetProfile = object.__new__(TargetProfile)
        copy._set(tuple(points))
        return copy

    def _set(self, points: tuple[tuple[float, float], ...]) -> None:
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "epsilon", points[0][0])
        object.__setattr__(self, "delta", points[0][1])


class AllVoters(int):
    """The number of affected voters if it is K, which remembers that it stands for "all".

    So ``dataclasses.replace(problem, K=13)`` affects all 13, not the previous 11: a weaker promise must be explicit
    (``replace(problem, K=13, affected=11)``).
    """

    __slots__ = ()


@dataclass(frozen=True, init=False, repr=False)
class Problem:
    """Design the private release of the voters' answers: of a majority, or of one class among several.

    Args:
        K: number of voters with equal privacy, ≥ 1; if K is even a tie of two classes releases a fair coin.
        voter: privacy of one voter; ε = ``inf`` for voters that are not private (δ is then irrelevant and set to 0),
            ε = 0 only with δ > 0. Several points (ε, δ): a `voters.PrivacyProfile`.
        target: privacy of the release; finite ε ≥ 0. Several (ε, δ) at once: a `TargetProfile`.
        affected: how many voters one record can influence, 1..K; None means all.
        classes: C ≥ 2; at most `MAX_GROUP_CLASSES` if voters are private or differ, else `MAX_CLASSES`.
        abstention: whether the release may abstain (⊥).
        groups: instead of K and voter, voters of different privacy: (K, ε), (K, ε, Δ), (K, voter) or `VoterGroup` for
            each group. Columns of votes and probabilities of a truth follow their order.

    Guarantees:
        Frozen; equal and equally hashed when the same up to floating-point noise; every number canonical. If all voters
        are affected, ``dataclasses.replace`` with another K affects all of those.

    Raises:
        InvalidInput: with the argument, its value and what is accepted.

    Source: Problem 1.1 of the paper; ``affected``, classes and groups are ours (docs, "Affected voters").

    >>> Problem(K=11, voter=Privacy(0.1), target=Privacy(3 * 0.1)).target.epsilon
    0.3
    >>> Problem(groups=[(6, 0.1), (5, 0.5, 1e-4)], target=Privacy(0.6, 1e-4), classes=3).affected
    11
    """

    groups: tuple[VoterGroup, ...]
    target: Privacy
    affected: int
    classes: int
    abstention: bool

    @overload
    def __init__(
        self,
        K: int,
        voter: Privacy,
        target: Privacy,
        affected: int | None = None,
        *,
        classes: int = 2,
        abstention: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self,
        *,
        groups: Iterable[VoterGroup | Sequence[Any]],
        target: Privacy,
        affected: int | None = None,
        classes: int = 2,
        abstention: bool = False,
    ) -> None: ...

    def __init__(
        self,
        K: Any = None,
        voter: Any = None,
        target: Any = None,
        affected: Any = None,
        *,
        classes: int = 2,
        abstention: bool = False,
        groups: Any = None,
    ) -> None:
        if groups is None:
            stated = [VoterGroup(number_of_voters(K), _canonical_voter(voter))]
        else:
            stated = [_canonical_group(group) for group in _listed(groups)]
            if K is not None or voter is not None:  # of `dataclasses.replace`
                one = _alike(stated, "groups")
                K, voter = one.K if K is None else K, one.voter if voter is None else voter
                stated = [VoterGroup(number_of_voters(K), _canonical_voter(voter))]
        K = number_of_voters(sum(group.K for group in stated))
        target = canonical_target(target)
        if affected is None or isinstance(affected, AllVoters):
            affected = K
        affected = whole_number(affected, "affected", FIELDS["affected"].accepted)
        if affected > K:
            raise InvalidInput(
                "affected", affected, f"at most K = {K} voters", "A record cannot influence more voters than there are."
            )
        object.__setattr__(self, "groups", tuple(stated))
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "affected", _all_voters(K) if affected == K else affected)
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "abstention", abstention)
        self._check_classes()

    def _check_classes(self) -> None:
        if self.classes == 2 and type(self.classes) is int and self.abstention is False:
            return
        if self.is_public:
            accepted = f"a whole number of classes, 2 to {MAX_CLASSES}"
            most, advice = MAX_CLASSES, MANY_CLASSES
        else:
            accepted = f"a whole number of classes, 2 to {MAX_GROUP_CLASSES}, if voters are private or differ"
            most, advice = MAX_GROUP_CLASSES, ""
        classes = whole_number(self.classes, "classes", accepted, least=2)
        object.__setattr__(self, "classes", whole_number(classes, "classes", accepted, most=most, advice=advice))
        if not isinstance(self.abstention, bool):
            raise InvalidInput("abstention", self.abstention, "True or False")

    def __repr__(self) -> str:
        voters = f"K={self.K!r}, voter={self.voter!r}" if len(self.groups) == 1 else f"groups={list(self.groups)!r}"
        several = f", classes={self.classes}" if self.classes != 2 else ""
        several += ", abstention=True" if self.abstention else ""
        return f"Problem({voters}, target={self.target!r}, affected={self.affected!r}{several})"

    if TYPE_CHECKING:  # as fields, which `dataclasses.replace` takes
        K: int
        voter: Privacy
    else:

        @property
        def K(self) -> int:
            """Total number of voters."""
            return sum(group.K for group in self.groups)

        @property
        def voter(self) -> Privacy:
            """Privacy of one voter; `InvalidInput` if voters differ."""
            return _alike(self.groups, "voter").voter

    @property
    def voters(self) -> tuple[Privacy, ...]:
        """Privacy of one voter of each group."""
        return tuple(group.voter for group in self.groups)

    @property
    def targets(self) -> tuple[Privacy, ...]:
        """The (ε, δ) of the target, one by one."""
        return tuple(Privacy(*point) for point in self.target.points)

    @property
    def is_alike(self) -> bool:
        """Whether all voters have the same privacy."""
        return all(group.voter == self.groups[0].voter for group in self.groups)

    @property
    def is_binary(self) -> bool:
        """Whether the answer is a γ: voters are alike, classes two, and one of them is always released."""
        return self.classes == 2 and not self.abstention and self.is_alike

    @property
    def is_public(self) -> bool:
        """Whether all voters are one group that is not private, and the target is one (ε, δ).

        The vote counts of neighbours then decide the privacy of a release, not the possible behaviour of voters.
        """
        return len(self.groups) == 1 and self.groups[0].voter.epsilon == math.inf and len(self.target.points) == 1

    @property
    def outputs(self) -> int:
        """Number of outputs: the classes, and ⊥ if the release may abstain."""
        return self.classes + self.abstention

    @property
    def merged(self) -> Problem:
        """The problem with voters that are alike in one group; it is equivalent if all votes count the same.

        >>> Problem(groups=[(6, 0.1), (5, 0.1)], target=Privacy(0.3)).merged == Problem(11, Privacy(0.1), Privacy(0.3))
        True
        """
        if len(self.groups) == 1 or not self.is_alike:
            return self
        return replace(self, groups=(_alike(self.groups, "groups"),))

    @property
    def each_target(self) -> tuple[Problem, ...]:
        """The problem with each (ε, δ) of the target alone."""
        if len(self.target.points) == 1:
            return (self,)
        return tuple(replace(self, target=target) for target in self.targets)

    @classmethod
    def from_allowance(
        cls,
        K: int,
        m: float | None,
        epsilon: float,
        Delta: float = 0.0,
        delta: float | None = None,
        affected: int | None = None,
        *,
        target_epsilon: float | None = None,
    ) -> Problem:
        """Return the problem whose target is (mε, δ).

        Args:
            K: number of voters, ≥ 1.
            m: privacy allowance, real > 0: the release may cost m times one voter's ε. None with ``target_epsilon``.
            epsilon: ε of one voter [nats], ≥ 0 or ``inf``.
            Delta: Δ of one voter [probability], in [0, 1).
            delta: δ of the release [probability], in [0, 1); default 1 − (1−Δ)^m, or Δ without m.
            affected: voters that one record can influence, 1..K; default K.
            target_epsilon: target ε [nats], ≥ 0; required for ε = 0 and ε = inf, for which m is undefined.

        Raises:
            InvalidInput: with the argument, its value and what is accepted.

        >>> Problem.from_allowance(K=11, m=3, epsilon=0.1).target
        Privacy(epsilon=0.3, delta=0.0)
        """
        K = number_of_voters(K)
        epsilon = _epsilon(epsilon, "epsilon")
        Delta = _probability(Delta, "Delta")
        target_epsilon = _target_epsilon(m, epsilon, target_epsilon)
        if delta is None:
            allowance = _allowance(target_epsilon, epsilon)
            power = (1.0 if allowance is None else allowance) * math.log1p(-Delta)
            delta = min(-math.expm1(power), MAX_DELTA)  # 1 − (1−Δ)^m without cancellation
        else:
            delta = _probability(delta, "delta")
        return cls(K, Privacy(epsilon, Delta), Privacy(target_epsilon, delta), affected)

    @property
    def m(self) -> float | None:
        """Privacy allowance, target ε over voter ε; None if infinite or undefined (ε = 0 or inf, several points)."""
        if not self.is_alike or len(self.voter.points) > 1 or len(self.target.points) > 1:
            return None
        allowance = _allowance(self.target.epsilon, self.voter.epsilon)
        return None if allowance is None else float(f"{allowance:.10g}")

    @property
    def strictest(self) -> Problem:
        """The hardest problem among those whose numbers round to this one: the design must satisfy it.

        Its voters are less private and its target more private than any input that became this problem, so a proof for
        it is a proof for each of them. A number that is exactly 0 stays 0.
        """
        # Each number moves by twice the noise that the grid tolerates: twice covers the rounding of this very step.
        return _off_grid_problem(self, _strictest_voter, _strictest_target)

    @property
    def loosest(self) -> Problem:
        """The easiest problem, beyond those whose numbers round to this one: an upper bound must cover it.

        Its voters are more private and its target less private than any input that became this problem, so no γ that is
        private for one of them beats a bound for it. A number that is exactly 0 stays 0.
        """
        # Each number moves the other way, by twice the noise and by the grid's step that rounding may have taken.
        return _off_grid_problem(self, _loosest_voter, _loosest_target)

    def with_allowance(self, m: float, delta: float | None = None) -> Problem:
        """Return the problem at another target; voters must be alike.

        Args:
            m: privacy allowance, > 0; the target ε itself [nats] if m is undefined.
            delta: δ of the release [probability]; default as in `from_allowance`.

        Raises:
            InvalidInput: with the argument, its value and what is accepted.

        >>> Problem.from_allowance(K=11, m=3, epsilon=0.1).with_allowance(2).target
        Privacy(epsilon=0.2, delta=0.0)
        """
        epsilon, Delta = self.voter.epsilon, self.voter.delta
        if len(self.voter.points) > 1:
            target = Privacy(_epsilon(m, "target_epsilon"), Delta if delta is None else _probability(delta, "delta"))
        elif self.m is None:
            target = Problem.from_allowance(self.K, None, epsilon, Delta, delta, target_epsilon=m).target
        else:
            target = Problem.from_allowance(self.K, m, epsilon, Delta, delta).target
        return replace(self, target=target)

    def warnings(self, gamma: Iterable[float]) -> tuple[str, ...]:
        """Return sentences about what to reconsider, given the γ that was found; usually none.

        Args:
            gamma: γ(0..K) [probability].
        """
        looks_swapped = self.target.delta < self.voter.delta - 2 * float(DELTA_GRID)
        if not looks_swapped or math.isinf(self.voter.epsilon) or max(gamma) >= NEARLY_A_COIN:
            return ()
        message = (
            f"delta = {self.target.delta:g} is below Delta = {self.voter.delta:g}, and the release is hardly more "
            f"than a fair coin: it is the majority with probability {(1 + max(gamma)) / 2:.3g} at most. Were the two "
            "swapped?"
        )
        return (message,)


def check_binary(value: Any) -> Problem:
    """Return ``value`` with its voters in one group, if it is a problem whose answer is a γ."""
    if not isinstance(value, Problem):
        raise InvalidInput("problem", value, "a Problem")
    if not value.is_binary:
        advice = "Its answer is a table: use solve() or tables.certificate.verify_table."
        raise InvalidInput("problem", value, "a Problem of two classes and voters that are alike, without ⊥", advice)
    return value.merged


def number_of_voters(value: Any) -> int:
    """Return ``value`` as a number of voters, 1 to `MAX_VOTERS`."""
    K = whole_number(value, "K", FIELDS["K"].accepted)
    if K > MAX_VOTERS:
        raise InvalidInput("K", K, f"at most {MAX_VOTERS} voters")
    return K


def _epsilon(value: Any, argument: str) -> float:
    return real_number(value, argument, FIELDS["epsilon"].accepted, least=0) + 0.0  # no -0.0


def _probability(value: Any, argument: str) -> float:
    return real_number(value, argument, FIELDS["delta"].accepted, least=0, below=1) + 0.0


def _allowance(target_epsilon: float, epsilon: float) -> float | None:
    """Return target ε over voter ε; None if it is infinite or undefined."""
    if epsilon in (0.0, math.inf):
        return None
    allowance = target_epsilon / epsilon
    return allowance if allowance < math.inf else None


def _target_epsilon(m: float | None, epsilon: float, target_epsilon: float | None) -> float:
    """Return the target ε from exactly one of ``m`` and ``target_epsilon``."""
    # m·0 and m·∞ do not determine a target.
    if epsilon in (0.0, math.inf):
        if m is not None:
            advice = "The allowance m is undefined for such voters: give target_epsilon instead."
            raise InvalidInput("m", m, f"no m with epsilon = {epsilon:g}", advice)
        if target_epsilon is None:
            advice = f"With epsilon = {epsilon:g}, m is undefined."
            raise InvalidInput("target_epsilon", None, "a number of nats, at least 0", advice)
    elif m is not None and target_epsilon is not None:
        advice = "The target ε is m·epsilon: give one of them."
        raise InvalidInput("m", m, Rule("cannot be combined with target_epsilon"), advice)
    elif m is None and target_epsilon is None:
        raise InvalidInput("m", m, "exactly one of m and target_epsilon", "The target ε is m·epsilon.")
    if target_epsilon is not None:
        return _protects(_epsilon(target_epsilon, "target_epsilon"))
    allowance = field_number(m, "m", below=math.inf, says=FIELDS["m"].accepted)
    # The decimal grid of `Problem` takes 3·0.1 for 0.3: m = 3 and a target of 0.3 are one problem.
    return _protects(allowance * epsilon)


_all_voters = lru_cache(maxsize=256)(AllVoters)


def _canonical_voter(voter: Any) -> Privacy:
    # Target points were moved to the stronger guarantee, which voters may not have.
    if not isinstance(voter, Privacy) or isinstance(voter, TargetProfile):
        raise InvalidInput("voter", voter, "a Privacy(epsilon, delta), or a PrivacyProfile of several points")
    return _rounded_voter(voter)


@lru_cache(maxsize=256)
def _rounded_voter(voter: Privacy) -> Privacy:
    """Return a voter on the grid; cached, as the problems of a table share their voters."""
    if len(voter.points) > 1:
        return voter  # a profile is canonical
    if voter.epsilon == math.inf:
        return Privacy(math.inf, 0.0)
    canonical = Privacy(grid_point(voter.epsilon, UP), min(grid_delta(voter.delta, UP), MAX_DELTA))
    if canonical.epsilon == 0 and canonical.delta == 0:
        advice = "A voter with epsilon = 0 and Delta = 0 does not depend on the data: release the plain majority."
        raise InvalidInput("epsilon", voter.epsilon, "epsilon above 0, or epsilon = 0 with Delta above 0", advice)
    return canonical


def canonical_target(target: Privacy) -> Privacy:
    """Return a target in canonical numbers, without implied points."""
    if not isinstance(target, Privacy):
        raise InvalidInput("target", target, "a Privacy(epsilon, delta), or a TargetProfile of several")
    if len(target.points) == 1:
        return _one_target(target)
    points = TargetProfile(target.points).points
    return Privacy(*points[0]) if len(points) == 1 else TargetProfile(points)


def _one_target(target: Privacy) -> Privacy:
    _protects(target.epsilon)
    delta = min(grid_delta(target.delta, DOWN), float(1 - DELTA_GRID))
    return Privacy(grid_point(target.epsilon, DOWN), delta)


def _protects(target_epsilon: float) -> float:
    if target_epsilon > MAX_TARGET_EPSILON:
        advice = "Such a target protects nobody: lower m or epsilon."
        raise InvalidInput("target_epsilon", target_epsilon, f"at most {MAX_TARGET_EPSILON:g} nats", advice)
    return target_epsilon


def _strictest_voter(epsilon: float, Delta: float) -> tuple[float, float]:
    return epsilon * (1 + 2 * EPSILON_NOISE), min(Delta + 2 * delta_noise(Delta), MAX_DELTA)


def _strictest_target(epsilon: float, delta: float) -> tuple[float, float]:
    return epsilon * (1 - 2 * EPSILON_NOISE), max(delta - 2 * delta_noise(delta), 0.0)


def _loosest_voter(epsilon: float, Delta: float) -> tuple[float, float]:
    """Return an (ε, Δ) below all that round to this one."""
    least = max(Delta - 2 * delta_noise(Delta) - delta_step(Delta), 0.0) if Delta else 0.0
    return max(epsilon * (1 - 2 * EPSILON_NOISE) - grid_step(epsilon), 0.0), least


def _loosest_target(epsilon: float, delta: float) -> tuple[float, float]:
    most = delta + 2 * delta_noise(delta) + delta_step(delta) if delta else 0.0
    return epsilon * (1 + 2 * EPSILON_NOISE) + grid_step(epsilon), min(most, MAX_DELTA)


def _off_grid_problem(problem: Problem, of_voter: _Point, of_target: _Point) -> Problem:
    """Return the problem with points moved off the grid, without canonicalising them again."""
    groups = tuple(VoterGroup(group.K, _moved(group.voter, of_voter)) for group in problem.groups)
    copy = object.__new__(Problem)
    for name, value in (
        ("groups", groups),
        ("target", _moved(problem.target, of_target)),
        ("affected", problem.affected),
        ("classes", problem.classes),
        ("abstention", problem.abstention),
    ):
        object.__setattr__(copy, name, value)
    return copy


def _moved(privacy: Privacy, move: _Point) -> Privacy:
    if privacy.epsilon == math.inf:
        return privacy
    return privacy.with_points(move(*point) for point in privacy.points)


_Point = Callable[[float, float], tuple[float, float]]


def profile_text(voter: Privacy) -> str:
    """Return a voter's points in the form that `voters.parse_points` reads."""
    return ",".join(f"{epsilon!r}:{delta!r}" for epsilon, delta in voter.points)


_GROUPS = "at least one group: (K, voter), (K, epsilon) or (K, epsilon, Delta)"


def _canonical_group(group: Any) -> VoterGroup:
    """Return a group from itself, (K, voter), (K, ε) or (K, ε, Δ)."""
    if not isinstance(group, VoterGroup):
        if not isinstance(group, tuple | list) or not 2 <= len(group) <= 3:
            raise InvalidInput("groups", group, _GROUPS)
        K, *voter = group
        K = number_of_voters(K)
        group = VoterGroup(K, voter[0] if isinstance(voter[0], Privacy) else Privacy(*voter))
    return VoterGroup(number_of_voters(group.K), _canonical_voter(group.voter))


def _listed(groups: Any) -> list[Any]:
    listed = list(groups) if isinstance(groups, Iterable) and not isinstance(groups, str) else []
    if not listed:
        raise InvalidInput("groups", groups, _GROUPS)
    return listed


def _alike(groups: Sequence[VoterGroup], argument: str) -> VoterGroup:
    """Return the one group of voters that are alike; else raise an error."""
    if any(group.voter != groups[0].voter for group in groups):
        stated = "; ".join(map(str, groups))
        raise InvalidInput(argument, stated, "voters with equal privacy", "For voters that differ, read `groups`.")
    return VoterGroup(sum(group.K for group in groups), groups[0].voter)


NOT_PRIVATE = Privacy(math.inf)  # a voter without privacy: its answer may reveal all of its data
