"""Stochastic gradient Langevin dynamics: how private a whole run is.

θ_t = θ_{t−1} − η_t [∇r/τ + (1/τ) Σ_{z in batch} ∇l(z|θ_{t−1}) + g_t],  g_t ~ N(0, σ²I),  ‖∇l‖ ≤ L, batch of τ of N records.

Replacing one record moves the mean by at most 2L/τ, so μ = 2L/(τσ); learning rates and the regulariser do not matter.
The source's own theorem for this loses a factor 2 and more; it is under `reproduction`, with a counterexample.
For real runs dp_accounting's RDP or PLD of the subsampled Gaussian is tighter still (by a factor of 2 to 4 in the tests).
"""

from __future__ import annotations

from darrm_opt.accounting.training import NoisyTraining, StepBound, noisy_training, positive


def sgld(
    records: int, batch: int, lipschitz: float, sigma: float, steps: int, delta: float, *, bound: StepBound = "exact"
) -> NoisyTraining:
    """Return the privacy of an SGLD run under replace-one.

    Args:
        records: N ≥ 1.
        batch: τ, 1..N, drawn uniformly without replacement at each step.
        lipschitz: L > 0, bound on the norm of one record's gradient.
        sigma: σ > 0, standard deviation of the noise on the averaged gradient.
        steps: T ≥ 1.
        delta: δ of one step for the batch it sees [probability], in (0, 1).
        bound: "exact" or "tail", see `noisy_training`.

    Returns:
        The steps' privacy; compose with ``.optimal(total_delta)`` or ``.general(slack)``.

    Guarantees:
        Sound for every parameter, rounded up.

    Raises:
        InvalidInput: a number is outside its range.

    Source: He, Wang, Tao, Theorem 7, corrected (docs/accounting.md, "Bounds that are false as published").

    >>> round(sgld(10_000, 100, 1.0, 0.2, 500, 1e-6).general(1e-6).epsilon, 4)
    0.5292
    """
    lipschitz = positive(lipschitz, "lipschitz", "a bound on a gradient's norm, a finite number above 0")
    sigma = positive(sigma, "sigma", "a standard deviation, a finite number above 0")
    return noisy_training(2 * lipschitz, sigma, batch, records, steps, delta, bound)
