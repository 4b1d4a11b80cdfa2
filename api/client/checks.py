"""What is believed of an answer: every γ in it is proved again, for the problem it should be for, and refused otherwise.

Each function takes an answer as plain data and returns it, or raises `Distrusted`, or `NotPrivate` with the
counterexample. What the other side adds up from such γ (a total, an accuracy) is its own word.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from api.client.errors import Distrusted
from api.client.received import noise_of, private, problem_told
from darrm_opt.design.certificate import verify
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem


def member(told: Any, name: str) -> Any:
    """Return a member of an answer.

    Raises:
        Distrusted: it has none of that name.
    """
    if not isinstance(told, dict) or name not in told:
        raise Distrusted(f"The answer lacks {name}: is this a darrm-opt service of this version?")
    return told[name]


def members(told: Any, kind: type[dict[str, Any] | list[Any]]) -> Collection[Any]:
    """Return the values of an object, or the items of a list, in an answer.

    Raises:
        Distrusted: it is none.
    """
    if not isinstance(told, kind):
        raise Distrusted(f"The answer has {type(told).__name__} where {kind.__name__} should be.")
    return list(told.values()) if isinstance(told, dict) else told


def curves_checked(told: Any, problem: Problem) -> dict[str, Any]:
    """Return error curves, each of a γ that is private for the problem."""
    for curve in members(member(told, "curves"), dict):
        private(member(curve, "gamma"), problem)
    return dict(told)


def tradeoff_checked(told: Any, wanted: Sequence[Problem]) -> dict[str, Any]:
    """Return a trade-off, one point for each problem, in order, with a γ that is private for it.

    Raises:
        Distrusted: there are others.
        NotPrivate: a γ is not.
    """
    points = members(member(told, "points"), list)
    if len(points) != len(wanted):
        raise Distrusted("The answer does not have one point for each allowance.")
    for problem, point in zip(wanted, points, strict=True):
        if problem_told(member(point, "problem")) != problem:
            raise Distrusted(f"The point for target_epsilon = {problem.target.epsilon:g} is for another problem.")
        private(member(point, "gamma"), problem)
    return dict(told)


def profile_checked(
    told: Any, problem: Problem, given: NoiseFunction | None, epsilons: Sequence[float] | None
) -> dict[str, Any]:
    """Return a profile with its δ computed here.

    Args:
        told: the answer.
        problem: what was asked.
        given: the γ that was sent, private or not; None where γ_opt was asked for.
        epsilons: where it was asked [nats]; None where that was left to the other side.

    Raises:
        Distrusted: it is for another γ, or at other ε.
        NotPrivate: γ_opt is not.
    """
    from darrm_opt.design.profile import privacy_profile

    noise = noise_of(member(told, "gamma"), problem.K)
    if given is None:
        verify(problem, noise)
    elif noise != given:
        raise Distrusted("The profile is that of another γ than the one that was sent.")
    at = member(told, "epsilon")
    if not isinstance(at, list) or (epsilons is not None and at != epsilons):
        raise Distrusted("The profile is at other ε than those that were asked.")
    own = privacy_profile(noise, problem, at)
    return {**told, "delta": own.deltas.tolist(), "attained": own.attained.tolist()}


def certificate_checked(told: Any, problem: Problem) -> None:
    """Refuse an answer that is no certificate for the problem.

    Raises:
        Distrusted: it is none.
    """
    if member(told, "private") is not True or problem_told(member(told, "problem")) != problem:
        raise Distrusted("The answer is no proof of what was asked.")


def comparison_checked(told: Any, problem: Problem) -> dict[str, Any]:
    """Return a comparison whose γ are noise functions for as many voters; the totals are the other side's."""
    for row in members(member(told, "rows"), list):
        if member(row, "gamma") is not None:
            noise_of(row["gamma"], problem.K)
    return dict(told)


def plan_checked(told: Any, problem: Problem, *, trained_once: bool) -> dict[str, Any]:
    """Return a plan, each γ in it private for the target that its option names.

    Args:
        told: the answer.
        problem: the voters that were asked about.
        trained_once: whether they answer many queries with the same randomness: then their own privacy does not count.

    Raises:
        Distrusted: a γ in it is for other voters.
        NotPrivate: a γ in it is not.
    """
    voter = Privacy(math.inf) if trained_once else problem.voter
    for option in members(member(told, "options"), list):
        if member(option, "gamma") is not None:
            wanted = problem_told(member(option, "problem"))
            if (wanted.K, wanted.voter, wanted.affected) != (problem.K, voter, problem.affected):
                raise Distrusted("The plan has a γ for other voters than those that were asked.")
            private(option["gamma"], wanted)
    member(told, "advice")
    return dict(told)
