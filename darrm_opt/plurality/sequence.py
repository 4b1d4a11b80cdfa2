"""Many releases from one total (ε, δ): the target of each release, and the noise of noisy maxima.

The counts of votes are fixed by the data, so releases compose without any assumption on the voters.
"""

from __future__ import annotations

from darrm_opt.accounting import epsilon_each
from darrm_opt.errors import InvalidInput
from darrm_opt.plurality.samplers import NoisyMaximum
from darrm_opt.problem import Privacy, whole_number

STEP = 1.002
"""Factor by which σ is raised until the account of the discrete noise fits."""

MAX_STEPS = 400
"""Steps after which the search gives up; one or two are usual."""


def release_target(total: Privacy, queries: int) -> Privacy:
    """Return an (ε, δ) of each release with which ``queries`` of them are within a total, by optimal composition.

    Args:
        total: (ε, δ) of all releases.
        queries: Q ≥ 1.

    Returns:
        The total for one release; else half of δ goes to the releases, half to their composition.

    Raises:
        InvalidInput: a number is outside its range.

    >>> each = release_target(Privacy(2.0, 1e-5), 50)
    >>> 0.04 < each.epsilon < 0.1, each.delta
    (True, 1e-07)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries == 1:
        return total
    delta = total.delta / (2 * queries)
    return Privacy(epsilon_each(total, delta, queries), delta)


def noise_for(
    total: Privacy,
    queries: int,
    *,
    K: int,
    classes: int,
    affected: int = 1,
    threshold: float | None = None,
    check_ratio: float = 4.0,
) -> NoisyMaximum:
    """Return GNMax, or Confident-GNMax where there is a threshold, with about the least noise for a total over Q queries.

    Args:
        total: (ε, δ) of all queries, ε > 0 and finite, δ > 0.
        queries: Q ≥ 1; with a threshold each is charged a check and a label.
        K: voters.
        classes: C ≥ 2.
        affected: votes that one record can move.
        threshold: of the check [votes]; None: no check.
        check_ratio: σ₁/σ, noise of the check over that of the label, > 0.

    Guarantees:
        ``noise_for(...).epsilon(queries, total.delta) <= total.epsilon``, for the discrete noise that is drawn.

    Raises:
        InvalidInput: a number is outside its range.

    >>> noise_for(Privacy(2.0, 1e-5), 100, K=250, classes=10).sigma < 26
    True
    """
    from darrm_opt.plurality.accounting.calibration import calibrate_noise

    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    checks = 0 if threshold is None else queries
    found = calibrate_noise(total, queries, checks=checks, check_ratio=check_ratio, classes=classes, affected=affected)
    sigma = max(found.label_sigma, 1.0, 0.0 if threshold is None else 1.0 / check_ratio)
    for _ in range(MAX_STEPS):
        noisy = NoisyMaximum(
            K,
            classes,
            sigma,
            threshold=threshold,
            check_sigma=None if threshold is None else check_ratio * sigma,
            affected=affected,
        )
        if noisy.epsilon(queries, total.delta) <= total.epsilon:
            return noisy
        sigma *= STEP
    raise InvalidInput("total", total, "a total that noise of this kind can meet", "Raise ε or δ.")
