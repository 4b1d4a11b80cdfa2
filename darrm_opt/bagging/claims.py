"""Guarantee of an ensemble, and two results that look like a guarantee and are none.

Only `Guarantee` is differential privacy, so only it is a `Privacy` and may be a voter's privacy,
be published or be composed. The other two are plain values that no other part of the product takes
for a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from darrm_opt.problem import Privacy

Adjacency = Literal["add_remove", "replace", "both"]
"""Which datasets are neighbours: one record more or less, one record's content changed, or either."""


@dataclass(frozen=True)
class Guarantee(Privacy):
    """(ε, δ)-differential privacy, for every dataset and every neighbour of it.

    Args:
        epsilon: [nats], ≥ 0.
        delta: [probability], in [0, 1).
        adjacency: the neighbours it holds for.
        basis: the theorem it rests on.

    Guarantees:
        A `Privacy`, so it serves as ``Problem.voter`` as it is.
    """

    adjacency: Adjacency = "both"
    basis: str = ""


@dataclass(frozen=True)
class PerInstanceLoss:
    """How well this one dataset is hidden among its neighbours; **not differential privacy**.

    The number is computed from the private data and holds at that dataset only; the number itself,
    and anything decided by it, can reveal a record. It is for the eyes of the data's owner.

    Attributes:
        epsilon: [nats]; the dataset and each neighbour are (ε, δ)-indistinguishable, both ways, for
            a number of releases that was fixed in advance.
        delta: [probability].
        adjacency: the neighbours it holds for.
        basis: the theorem it rests on.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    basis: str

    @property
    def warning(self) -> str:
        """Why this must not be published, as one sentence."""
        return (
            "This loss was computed from the private data and holds for this dataset only: it is not differential "
            "privacy, and publishing it, or anything that depends on it, can reveal a record."
        )


@dataclass(frozen=True)
class UnsoundClaim:
    """A privacy claim of the literature that is false as printed, kept to reproduce its tables.

    Attributes:
        epsilon: the ε that the source would report [nats].
        delta: the δ that the source would report [probability].
        basis: where it is claimed.
        why: what is wrong with it.
    """

    epsilon: float
    delta: float
    basis: str
    why: str
