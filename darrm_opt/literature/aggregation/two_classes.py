"""The exact privacy of one released bit: a noisy vote of K teachers between two classes.

Teachers need not be private; one record moves at most ``affected`` of the K votes, and Pr[1 | v ones] is known in
closed form and grows with v, so the pairs (Pr[1|D], Pr[1|D′]) that neighbours can show are finitely many. Every
account below is a maximum over all of them: nothing depends on the data.

One bit of noisy counts says less than the counts, so these accounts afford about four times the labels of the
sources', and more where the noise is as large as the vote. All of it is ours, except what composes bits
(`darrm_opt.accounting.bits.recursion`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.moments_accountant import (
    checked_orders,
    law_moments,
    pure_composition,
    tight_epsilon,
)
from darrm_opt.mechanisms.vote_noise import Kind, VoteNoise
from darrm_opt.problem import whole_number

Costs = Callable[[int], list[tuple[float, str]]]
"""A number of releases → (ε [nats], which account proves it), one or more."""

MIN_PROBABILITY = 1e-300
"""Below this an answer is as good as excluded and its logarithm means nothing."""

POINTS = 4001
"""Grid points of the exact composition."""


def noisy_vote_laws(K: int, noise: VoteNoise, affected: int = 1, kind: Kind = "discrete") -> BitPairs:
    """Return the pairs of one bit: the winner of K votes plus noise on each of two counts.

    >>> from darrm_opt.mechanisms.vote_noise import GaussianNoise
    >>> noisy_vote_laws(11, GaussianNoise.of_sigma(21.46)).epsilon(3e-4) < 0.1
    True
    """
    K = whole_number(K, "K", "a number of teachers, at least 1")
    affected = whole_number(affected, "affected", "a number of votes, at least 1")
    if noise.loses(K, kind) < MIN_PROBABILITY:
        raise InvalidInput("noise", noise, "noise that leaves each answer a chance above 1e-300", "Add more noise.")
    return BitPairs.of_noise([noise.loses(d, kind) for d in range(K % 2, K + 1, 2)], K, affected)


def composed_epsilon(laws: BitPairs, queries: int, delta: float, *, points: int = POINTS) -> float:
    """Return ε of ``queries`` adaptive releases at ``delta`` by the exact composition of bits: tightest, slowest."""
    queries = whole_number(queries, "queries", "a number of releases, at least 0", least=0)
    if queries == 0:
        return 0.0
    return compose_bits([(laws.region, queries)], points=points).epsilon(delta)


def vote_costs(laws: BitPairs, delta: float, orders: Iterable[float], *, exact: bool) -> Costs:
    """Return the function from a number of releases to what they cost at ``delta``, by each account that applies."""
    one_release = laws.epsilon(delta)
    compose_pure = pure_composition(laws.epsilon(0.0), delta)
    orders = tuple(checked_orders(orders).tolist())
    moments = law_moments(laws, orders)

    def cost(T: int) -> list[tuple[float, str]]:
        options = [(compose_pure(T), "two-class vote, optimal composition of its pure epsilon")]
        if T == 1:
            options.append((one_release, "two-class vote, exact"))
        if delta > 0:
            options.append((tight_epsilon(T * moments, delta, orders), "two-class vote, exact moments"))
        if exact and delta > 0:  # at δ = 0 the optimal composition of the pure ε is exact
            options.append((composed_epsilon(laws, T, delta), "two-class vote, exact composition of bits"))
        return options

    return cost
