"""Certificate: the proof from γ alone that it is private, and the repair that makes a solver's answer provable.

f is linear in γ and γ = 0 is strictly private, so scaling repairs: if φ ≤ V everywhere for γ, then s·γ with
s ≤ limit/V is private. The scaled γ is then verified from its stored bits, by a search independent of any solver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from darrm_opt._version import __version__
from darrm_opt.design.constraint import UNDERFLOW_SLACK, PrivacyConstraint
from darrm_opt.design.profile_vertices import ProfileVertices
from darrm_opt.design.schedule import LARGE_K
from darrm_opt.design.separation.oracle import ERRORS_BELOW_LIMIT, worst_case
from darrm_opt.design.separation.result import WorstCase, search_error
from darrm_opt.errors import InvalidInput, NotPrivate, NotProven
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Problem, check_binary
from darrm_opt.rounding import UNIT_ROUNDOFF, check_arithmetic

Arithmetic = Literal["float", "ball"]


@dataclass(frozen=True)
class Certificate:
    """Proof that a γ is private: a bound on the privacy constraint over every admissible corner multiset.

    All numbers are of the constraint divided by e^(mε) (`PrivacyConstraint`), computed for the strictest reading of
    the problem.

    Attributes:
        method: how the constraint set was covered: "complete", "first-order", "monotone" or "ball" (complete, in
            ball arithmetic).
        bound: proven upper bound V on φ, rounding included. If γ is far from the limit, a search stops at bounds below
            R, and V is the largest of those: φ itself lies between ``worst_value`` and V.
        limit: right-hand side R.
        margin: (R − V)/2 ≥ 0 [probability]: the proven slack of e^(−mε)·Pr[b|D] ≤ Pr[b|D′] + e^(−mε)·δ. The true slack
            lies between it and (R − ``worst_value`` + ``error_bound``)/2.
        error_bound: the part of V that is charged for rounding.
        worst_value: largest φ found, as computed.
        worst_corners: its multiset, ``{corner: voters}``.
        version: version of darrm-opt that made the certificate.
    """

    method: str
    bound: float
    limit: float
    margin: float
    error_bound: float
    worst_value: float
    worst_corners: dict[str, int] = field(hash=False)
    version: str = __version__


def verify(problem: Problem, gamma: ArrayLike | NoiseFunction, *, arithmetic: Arithmetic = "float") -> Certificate:
    """Prove that DaRRM with ``gamma`` is private, from ``gamma`` alone.

    Args:
        problem: privacy to prove.
        gamma: γ(0..K), shape (K+1,), each in [0, 1], exactly symmetric; from any source.
        arithmetic: "float" (doubles with a proven error bound) or "ball" (python-flint, slower, the independent
            check; the extra ``exact``).

    Returns:
        The certificate, margin ≥ 0; with several targets each is proved, and the one with the least margin returned.

    Guarantees:
        If it returns, the release is (mε, δ)-DP for the doubles in ``gamma`` exactly as stored.

    Raises:
        InvalidInput: wrong length, asymmetric, or out of [0, 1].
        NotPrivate: a corner multiset violates the constraint; the error carries it.
        NotProven: the slack is smaller than the rounding error, so neither is proved.
        UnsafeArithmetic: the bounds on rounding do not hold in this thread: its floating-point mode was changed.

    Source: Lemma 3.4 of the paper; Section "Certificate" of the documentation.
    """
    asked = check_binary(problem)
    noise = NoiseFunction(gamma, asked.K)
    proofs = [_verified(one, noise, arithmetic) for one in asked.each_target]
    return min(proofs, key=lambda one: one.margin)


def _verified(problem: Problem, noise: NoiseFunction, arithmetic: str) -> Certificate:
    constraint = PrivacyConstraint.of(problem)
    if arithmetic == "float":
        worst = worst_case(noise, constraint)
    elif arithmetic == "ball":
        from darrm_opt.design.separation.ball_arithmetic import ball_worst_case

        worst = ball_worst_case(noise, problem)
    else:
        raise InvalidInput("arithmetic", arithmetic, "'float' or 'ball'")
    # Written so that a NaN is rejected too.
    if not worst.bound <= constraint.limit:
        raise _refusal(worst, constraint, noise, problem)
    return certificate_of(worst, constraint)


def certificate_of(worst: WorstCase, constraint: PrivacyConstraint) -> Certificate:
    """Return the certificate of a search whose bound is within the limit."""
    check_arithmetic()
    margin, corners = (constraint.limit - worst.bound) / 2, constraint.corners.named(worst.counts)
    return Certificate(worst.method, worst.bound, constraint.limit, margin, worst.error, worst.value, corners)


def _refusal(worst: WorstCase, constraint: PrivacyConstraint, noise: NoiseFunction, problem: Problem) -> NotPrivate:
    """Return the error for a γ not proved private: refuted if the stated numbers are violated beyond rounding."""
    # A violation of the strictest reading (`Problem.strictest`) alone, by input noise, is neither refuted nor proved.
    corners = constraint.corners.named(worst.counts)
    places = ", ".join(f"{count} at {label}" for label, count in corners.items())
    if isinstance(constraint.corners, ProfileVertices):
        places = constraint.corners.text(corners)
    excess = (worst.value - constraint.limit) / 2
    nominal = PrivacyConstraint.of(problem, nominal=True)
    value = float(nominal.values(noise.signed, worst.counts[None, :])[0])
    if value - 2 * nominal.error(float(noise.values.max())) > nominal.limit:
        return NotPrivate(
            f"gamma is not private. Counterexample: {_voters_text(constraint, corners)}; δ would have to be "
            f"{excess / constraint.q:.3g} larger. Design a private γ with `darrm solve` (`solve` in Python).",
            corners,
            excess,
        )
    return NotProven(
        f"gamma cannot be shown to be private in floating point: the constraint is met up to {excess:.3g} at voters "
        f"{places}, within the noise of the stated numbers. Use certify() to scale it down by that much.",
        corners,
        excess,
    )


def _voters_text(constraint: PrivacyConstraint, counts: Mapping[str, int]) -> str:
    """Return a multiset of corners as what voters do on two neighbouring data sets."""
    corners = constraint.corners
    pairs = dict(zip(corners.labels, zip(corners.p.tolist(), corners.p_prime.tolist(), strict=True), strict=True))
    alone = len(counts) == 1
    return ", ".join(
        f"{'all ' if alone and count > 1 else ''}{count:,} {'voter answers' if count == 1 else 'voters answer'} 1 with "
        f"probability {pairs[label][0]:.6g} on the data and {pairs[label][1]:.6g} on its neighbour"
        for label, count in counts.items()
    )


def certify(problem: Problem, noise: NoiseFunction) -> tuple[NoiseFunction, Certificate]:
    """Scale γ down just enough to be provably private, and prove it.

    Args:
        problem: privacy to prove.
        noise: any symmetric γ, such as an LP solver's answer.

    Returns:
        The repaired γ (equal to ``noise`` if that is provable as it is) and its certificate.

    Source: ours; linearity of f in γ.
    """
    asked = check_binary(problem)
    noise = NoiseFunction(noise, asked.K)
    constraints = [PrivacyConstraint.of(one) for one in asked.each_target]
    if len(constraints) == 1:
        (constraint,) = constraints
        return repair(noise, worst_case(noise, constraint), constraint)
    return repair_for_all(noise, constraints)


def repair_for_all(
    noise: NoiseFunction, constraints: list[PrivacyConstraint], deadline: float = math.inf
) -> tuple[NoiseFunction, Certificate]:
    """Scale γ until every target is proved; return the certificate with the least margin."""
    step, scaled = 2.0**-44, noise
    while step < 1:
        pairs = [(worst_case(scaled, constraint, deadline=deadline), constraint) for constraint in constraints]
        if all(worst.bound <= constraint.limit for worst, constraint in pairs):
            return scaled, _tightest(pairs)
        room = min(
            (constraint.limit - 3 * search_error(constraint, 1.0)) / worst.bound
            for worst, constraint in pairs
            if worst.bound > constraint.limit
        )
        scaled, step = NoiseFunction(scaled.values * (max(0.0, room) * (1 - step))), 8 * step
    zero = NoiseFunction(noise.values * 0.0)
    return zero, _tightest([(worst_case(zero, constraint), constraint) for constraint in constraints])


def _tightest(pairs: list[tuple[WorstCase, PrivacyConstraint]]) -> Certificate:
    return min((certificate_of(*pair) for pair in pairs), key=lambda one: one.margin)


def repair(
    noise: NoiseFunction,
    worst: WorstCase,
    constraint: PrivacyConstraint,
    deadline: float = math.inf,
    *,
    search_again: bool = True,
) -> tuple[NoiseFunction, Certificate]:
    """Certify γ from the result of its search; ``search_again``: also if `scaled_worst_case` proves the scaled γ."""
    if worst.bound <= constraint.limit:
        return noise, certificate_of(worst, constraint)
    # The scaled γ is searched again, with an error of up to ``error`` in both: leave room for both, so once is enough.
    room = constraint.limit - 3 * search_error(constraint, float(noise.values.max()))
    # A second attempt is smaller by 2^−44, some hundreds of roundings; each further one by eight times as much.
    scale, step = max(0.0, room / worst.bound) * (1 - 4 * UNIT_ROUNDOFF), 2.0**-44
    while scale > 0 and step < 1:
        scaled_noise = NoiseFunction(noise.values * scale)
        scaled_worst = None if search_again else scaled_worst_case(noise, worst, scaled_noise, scale, constraint)
        if scaled_worst is None:
            scaled_worst = worst_case(scaled_noise, constraint, deadline=deadline)
        if scaled_worst.bound <= constraint.limit:
            return scaled_noise, certificate_of(scaled_worst, constraint)
        scale, step = scale * (1 - step), 8 * step  # never observed; no proof rests on that
    zero = NoiseFunction(noise.values * 0.0)
    return zero, certificate_of(worst_case(zero, constraint), constraint)


MAX_LOOSENESS = 1e-11
"""Largest distance beyond rounding between value and bound of a search that may prove the scaled γ."""


def scaled_worst_case(
    noise: NoiseFunction, worst: WorstCase, scaled_noise: NoiseFunction, scale: float, constraint: PrivacyConstraint
) -> WorstCase | None:
    """Return the worst case of a scaled γ implied by the search of γ itself; None if a new search is needed.

    Source: ours; "The repair, and rounding" of the documentation's proofs.
    """
    # With γ′ = ``scale``·γ rounded to doubles, φ(γ′) = scale·φ(γ) + φ(e), |e| ≤ u·scale·γ + 2^−1075, and |φ(e)| ≤
    # (1+q)·max|e|, since H is a mean of ±e. So the bound is scale·V plus that, each rounded up: a proof for the doubles
    # of γ′ as stored.
    # The result must agree with that of `verify` for γ′, so a new search is made where it could be finer: if the bound
    # is loose; if γ′ is so far below the limit that a search may skip the worst multiset; and if its method could
    # differ (for K from `LARGE_K` on, and for a γ that is monotone only once it is rounded).
    is_exact = worst.method == "monotone" or (worst.method == "complete" and constraint.K < LARGE_K)
    is_tight = 0 <= worst.bound - worst.value <= min(worst.error + MAX_LOOSENESS, 1e-3 * constraint.limit)
    if not (is_exact and is_tight and noise.is_monotone == scaled_noise.is_monotone):
        return None
    error = search_error if constraint.corners.Delta > 0 else PrivacyConstraint.error
    search_floor = constraint.limit - (ERRORS_BELOW_LIMIT - 5) * error(constraint, float(scaled_noise.values.max()))
    if not scale * worst.value > max(search_floor, 0.0):
        return None
    rounding = 4 * UNIT_ROUNDOFF * scale * float(noise.values.max()) + UNDERFLOW_SLACK
    bound = scale * worst.bound * (1 + 4 * UNIT_ROUNDOFF) + rounding
    if bound > constraint.limit:
        return None
    return replace(
        worst, bound=bound, value=scale * worst.value, error=scale * worst.error + rounding, cuts=worst.cuts[:0]
    )
