"""Agnostic federated learning: how private the clients are over all rounds.

Each round samples τ of N clients: θ ← θ + (1/τ) Σ h_i/max(1, ‖h_i‖/L) + b, b ~ N(0, L²σ²I). Adjacency is on clients, and L
cancels: replacing one client moves the mean by at most 2L/τ (μ = 2/(τσ)), silencing one by L/τ (μ = 1/(τσ)).
The source's per-round ε is valid for silencing only; it is under `reproduction`.
"""

from __future__ import annotations

import math
from typing import Literal

from darrm_opt.accounting.training import NoisyTraining, StepBound, noisy_training, positive
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import up

Adjacency = Literal["replace", "zero_out"]


def federated(
    clients: int,
    cohort: int,
    sigma: float,
    rounds: int,
    delta: float,
    *,
    adjacency: Adjacency = "replace",
    bound: StepBound = "exact",
) -> NoisyTraining:
    """Return the clients' privacy over a federated run.

    Args:
        clients: N ≥ 1.
        cohort: τ, 1..N, drawn uniformly without replacement in each round.
        sigma: σ > 0, noise multiplier: the noise's standard deviation over the clipping norm L.
        rounds: T ≥ 1.
        delta: δ of one round for the cohort it sees [probability], in (0, 1).
        adjacency: "replace" one client by another (what `generalisation` needs), or "zero_out": its update by 0.
        bound: "exact" or "tail", see `noisy_training`.

    Returns:
        The rounds' privacy under that adjacency; compose with ``.optimal(total_delta)`` or ``.general(slack)``.

    Guarantees:
        Sound for every parameter, rounded up.

    Raises:
        InvalidInput: a number is outside its range.

    Source: He, Wang, Tao, Theorem 8, corrected (docs/accounting.md, "Bounds that are false as published").
    """
    sigma = positive(sigma, "sigma", "a noise multiplier, a finite number above 0")
    if adjacency not in ("replace", "zero_out"):
        raise InvalidInput("adjacency", adjacency, "'replace' or 'zero_out'")
    moved = 2.0 if adjacency == "replace" else 1.0
    return noisy_training(moved, sigma, cohort, clients, rounds, delta, bound)


def as_replace_one(total: Privacy) -> Privacy:
    """Return what add/remove-one or zero-out privacy (ε, δ) means for replacing one: (2ε, (1+e^ε)δ), rounded up.

    Returns:
        (inf, 0), "nothing is promised", where the new δ reaches 1.

    Source: group privacy for two steps.
    """
    delta = up((1 + math.exp(total.epsilon)) * total.delta, 8) if total.delta and total.epsilon < 700 else total.delta
    if total.delta and (total.epsilon >= 700 or delta >= 1):
        return Privacy(math.inf)
    return Privacy(2 * total.epsilon, delta)
