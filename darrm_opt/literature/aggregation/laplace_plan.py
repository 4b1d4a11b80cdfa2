"""Laplace plan: number of labels, noise and privacy cost, all fixed before the data are used.

A plan depends on public numbers only, so it, and the number of labels, may be published. It never
overspends. `LaplacePlan` is SAA (one partition) and DPBag- (several); DPBag proper is the same
release with a per-record account beside it (`per_instance`), which is for the data's owner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from darrm_opt.bagging.guarantee import Guarantee
from darrm_opt.bagging.teachers import check_teachers
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.moments_accountant import (
    MIN_PROBABILITY,
    ORDERS,
    Costs,
    checked_epsilon,
    checked_lam,
    epsilon_floor,
    moments_epsilon,
    noisy_vote_laws,
    pure_composition,
    pure_epsilon,
    vote_costs,
)
from darrm_opt.mechanisms.vote_noise import LaplaceNoise, positive_fraction
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.search import largest_count, least_fitting

Accountant = Literal["best", "moments", "two_class", "bits"]

MAX_LABELS = 10**9
"""Search limit for a number of labels."""

PRECISION = 1e-6
"""Relative precision to which a plan finds its noise, from the private side."""


@dataclass(frozen=True)
class LaplacePlan:
    """Release ``n_labels`` labels, each the winner of a vote with Laplace noise of scale n_partitions/λ.

    Source: Jordon, Yoon, van der Schaar, "Differentially private bagging": SAA and DPBag-.

    >>> plan = LaplacePlan(263, 2 / 250, n_chunks=250, delta=1e-3, accountant="moments")
    >>> plan.guarantee.epsilon <= 1
    True
    """

    n_labels: int  # labels to release, ≥ 0, fixed in advance
    lam: float  # λ > 0 [1/votes]; the source's default is 2/n_chunks
    n_chunks: int  # teachers per partition, ≥ 1
    n_partitions: int = 1  # partitions, ≥ 1: votes that one record can move
    n_classes: int = 2
    delta: float = 0.0
    # ``moments`` is the papers', or 2λ per query where that is less. ``best`` is the least of these, of the optimal
    # composition of 2λ-private queries and, for two classes, of ``two_class``: the exact account of one released bit,
    # composed by its moments. ``bits`` composes the bits exactly: the tightest for two classes, seconds for a thousand
    # labels
    accountant: Accountant = "best"
    # the neighbours for which one record moves at most ``n_partitions`` votes; decided by the partition
    # (`slot_partition` replace, `hashed_partition` add_remove)
    adjacency: Literal["replace", "add_remove"] = "replace"

    def __post_init__(self) -> None:
        whole_number(self.n_labels, "n_labels", "a number of labels, at least 0", least=0)
        check_teachers(self)
        object.__setattr__(self, "lam", checked_lam(self.lam))
        real_number(self.delta, "delta", "a probability in [0, 1)", least=0, below=1)
        if self.accountant not in ("best", "moments", "two_class", "bits"):
            raise InvalidInput("accountant", self.accountant, "'best', 'moments', 'two_class' or 'bits'")
        if self.accountant in ("two_class", "bits") and self.n_classes != 2:
            raise InvalidInput("accountant", self.accountant, "'best' or 'moments' unless n_classes = 2")

    @property
    def noise(self) -> LaplaceNoise:
        """The noise on each count: scale n_partitions/λ [votes], exactly."""
        return LaplaceNoise(self.n_partitions / positive_fraction(self.lam, "lam"))

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ) of all labels together, ε rounded up."""
        epsilon, basis = label_cost(self)(self.n_labels)
        return Guarantee(epsilon, self.delta, self.adjacency, basis)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the person who asked should reconsider, in sentences; usually empty."""
        if self.n_labels == 0:
            floor = f" The moments accountant needs more than {epsilon_floor(self.delta):.4g}." if self.delta else ""
            return (f"Nothing can be released at this epsilon: use a smaller lam (more noise).{floor}",)
        return ()

    @classmethod
    def for_target(
        cls,
        target: Privacy,
        *,
        n_chunks: int,
        n_partitions: int = 1,
        n_classes: int = 2,
        lam: float | None = None,
        n_labels: int | None = None,
        accountant: Accountant = "best",
        adjacency: Literal["replace", "add_remove"] = "replace",
    ) -> LaplacePlan:
        """Return the plan that makes the most of a target (ε, δ).

        Guarantees: ``plan.guarantee.epsilon <= target.epsilon`` and ``plan.guarantee.delta == target.delta``.

        >>> LaplacePlan.for_target(Privacy(1.0, 1e-3), n_chunks=250, accountant="moments").n_labels
        263
        """
        epsilon = checked_epsilon(target.epsilon)
        if lam is not None and n_labels is not None:
            raise InvalidInput("n_labels", n_labels, "lam or n_labels, not both", "Each decides the other.")

        def plan(T: int, lam: float) -> LaplacePlan:
            return cls(T, lam, n_chunks, n_partitions, n_classes, target.delta, accountant, adjacency)

        if n_labels is None:
            empty_plan = plan(0, 2.0 / whole_number(n_chunks, "n_chunks", "at least 1") if lam is None else lam)
            cost = label_cost(empty_plan)
            return plan(largest_count(lambda T: cost(T)[0] <= epsilon, MAX_LABELS), empty_plan.lam)
        whole_number(n_labels, "n_labels", "a number of labels, at least 1")
        inverse = least_noise(lambda noise: plan(n_labels, 1 / noise).guarantee.epsilon <= epsilon, n_labels / epsilon)
        return plan(n_labels, 1 / inverse)


def label_cost(plan: LaplacePlan) -> Callable[[int], tuple[float, str]]:
    """Return the function from a number of labels at the plan's noise to (ε, basis), by its accountant."""
    bit_costs = _bit_costs(plan)
    compose_pure = pure_composition(pure_epsilon(plan.lam), plan.delta)

    def cost(T: int) -> tuple[float, str]:
        options = bit_costs(T) if bit_costs else []
        if plan.accountant in ("best", "moments") or not options:
            options.append((pure_epsilon(plan.lam, T), "Laplace noise, pure composition"))
            if plan.delta > 0:
                options.append((moments_epsilon(T, plan.lam, plan.delta), "SAA/DPBag- moments accountant, m = 1"))
        if plan.accountant == "best":
            options.append((compose_pure(T), "Laplace noise, optimal composition"))
        return min(options)

    return cost


def _bit_costs(plan: LaplacePlan) -> Costs | None:
    """Return the account of one released bit where the accountant wants it and noise leaves it a meaning."""
    teachers = plan.n_chunks * plan.n_partitions
    if plan.accountant == "moments" or plan.n_classes != 2 or plan.noise.loses(teachers) < MIN_PROBABILITY:
        return None
    laws = noisy_vote_laws(teachers, plan.noise, plan.n_partitions)
    return vote_costs(laws, plan.delta, ORDERS, exact=plan.accountant == "bits")


def least_noise(fits: Callable[[float], bool], guess: float) -> float:
    """Return an affordable amount of noise within `PRECISION` of the least; cost falls with noise."""
    upper = guess
    while not fits(upper):
        upper *= 2
    lower = upper / 2
    while fits(lower):
        lower, upper = lower / 2, lower
    return least_fitting(fits, lower, upper, PRECISION)
