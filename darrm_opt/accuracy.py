"""Accuracy of a release: how far the released bit is from the majority, exactly.

With α_l = Pr[L = l] the release of DaRRM_γ errs by

    tv error       |Pr[release = 1] − Pr[majority = 1]| = |½ Σ_{l>K/2} (α_l − α_{K−l})(1 − γ(l))|
    disagreement   Pr[release ≠ majority that was voted] = ½ Σ_{l>K/2} (α_l + α_{K−l})(1 − γ(l))

Disagreement is never below the tv error, as errors for 1 and for 0 do not cancel in it. At even K the majority of a tie
is a fair coin, and so is its release: ties count in neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike, NoiseFunction
from darrm_opt.priors import Histogram, Prior, binomial_masses, poisson_binomial, upper_half

Voters = float | ArrayLike | Prior  # one p shared by all voters, K probabilities p_1..p_K, or their prior


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """Both errors at P vectors p [probability]."""

    p: Array  # as given, shape (P,) or (P, K)
    tv_error: Array  # shape (P,)
    disagreement: Array  # shape (P,)


def tv_error(gamma: NoiseFunction | ArrayLike, p: Voters) -> float:
    """Return |Pr[release = 1] − Pr[majority = 1]| [probability].

    Args:
        gamma: noise function γ(0..K).
        p: probability of a 1, one number for all voters or K numbers; or a prior, over which the error at each p is
            averaged (`SharedBeta`; `IndependentVoters` with lower ≥ 1/2). A `Histogram` is the distribution of L
            itself: the error over all the counted votes.

    Returns:
        Exact up to rounding; no sampling.

    Guarantees:
        0 for γ = 1 and if all voters have p = 1/2; at most the disagreement, up to rounding.

    Raises:
        InvalidInput: p has the wrong shape or is outside [0, 1]; a prior whose tv error has no closed form.

    Source: Definition 2.4 of the paper.

    >>> tv_error([1.0, 0.5, 0.5, 1.0], p=1.0), round(tv_error([0.0, 0.0, 0.0, 0.0], p=0.8), 12)
    (0.0, 0.396)
    """
    noise = _noise(gamma)
    loss = 1.0 - noise.upper_half
    if isinstance(p, Prior) and not isinstance(p, Histogram):
        return float(p.gap(noise.K) @ loss / 2)
    return float(_errors(noise, p)[0])


def disagreement(gamma: NoiseFunction | ArrayLike, p: Voters) -> float:
    """Return the probability that the released bit differs from the majority of the votes.

    Args:
        gamma: noise function γ(0..K).
        p: probability of a 1, one number for all voters or K numbers; or a prior, over which it is averaged.

    Returns:
        Exact up to rounding; no sampling. A tie (even K) has no majority and counts as agreement.

    Raises:
        InvalidInput: p has the wrong shape or is outside [0, 1].

    >>> round(disagreement([0.0, 0.0, 0.0, 0.0], p=0.8), 12)
    0.5
    """
    noise = _noise(gamma)
    if isinstance(p, Prior):
        return float(p.folded(noise.K) @ (1.0 - noise.upper_half) / 2)
    return float(_errors(noise, p)[1])


def error_curve(gamma: NoiseFunction | ArrayLike, ps: ArrayLike) -> ErrorCurve:
    """Return both errors at each of P vectors p.

    Args:
        gamma: noise function γ(0..K).
        ps: shape (P,), each p shared by all voters, or shape (P, K), one vector per row.

    Raises:
        InvalidInput: ps has the wrong shape or is outside [0, 1].

    >>> error_curve([1.0, 0.5, 0.5, 1.0], [0.0, 0.5, 1.0]).disagreement.tolist()
    [0.0, 0.1875, 0.0]
    """
    noise = _noise(gamma)
    p = _probabilities(ps, "ps")
    if p.ndim == 1:
        errors = np.array([_shared_p_errors(noise, float(probability)) for probability in p]).reshape(-1, 2)
    elif p.ndim == 2 and p.shape[1] == noise.K:
        errors = _distribution_errors(noise, poisson_binomial(p))
    else:
        raise InvalidInput("ps", p.tolist(), f"shape (P,) or (P, K) with K = {noise.K}", f"Its shape is {p.shape}.")
    for array in (p, errors):
        array.setflags(write=False)
    return ErrorCurve(p, errors[:, 0], errors[:, 1])


def _errors(noise: NoiseFunction, p: Voters) -> tuple[float, float]:
    """Return (tv error, disagreement) for one p."""
    if isinstance(p, Histogram):
        alpha = p.alpha(noise.K)[None, :]
    else:
        array = _probabilities(p, "p")
        if array.ndim == 0:
            return _shared_p_errors(noise, float(array))
        if array.shape != (noise.K,):
            raise InvalidInput(
                "p", array.tolist(), f"one probability or K = {noise.K} of them", f"Its shape is {array.shape}."
            )
        alpha = poisson_binomial(array[None, :])
    errors = _distribution_errors(noise, alpha)[0]
    return float(errors[0]), float(errors[1])


def _distribution_errors(noise: NoiseFunction, alpha: Array) -> Array:
    """Return tv error and disagreement, shape (P, 2), from the distributions of L, shape (P, K+1)."""
    loss = 1.0 - noise.upper_half
    ahead, behind = upper_half(alpha), upper_half(alpha[:, ::-1])
    # subtracted before the sum: exactly 0 if both sides are equal
    return np.stack((np.abs((ahead - behind) @ loss), (ahead + behind) @ loss), axis=1) / 2


def _shared_p_errors(noise: NoiseFunction, p: float) -> tuple[float, float]:
    """Return (tv error, disagreement) for a shared p: the masses of one binomial, without cancellation."""
    loss = 1.0 - noise.upper_half
    folded, gap = binomial_masses(noise.K, *float(p).as_integer_ratio())
    return float(gap @ loss / 2), float(folded @ loss / 2)


def _noise(gamma: NoiseFunction | ArrayLike) -> NoiseFunction:
    return gamma if isinstance(gamma, NoiseFunction) else NoiseFunction(gamma)


def _probabilities(p: object, argument: str) -> Array:
    accepted = "probabilities in [0, 1]"
    try:
        array = np.array(p, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidInput(argument, p, accepted) from err
    outside = ~((array >= 0) & (array <= 1))
    if outside.any():
        raise InvalidInput(argument, float(array[outside][0]), accepted)
    return array
