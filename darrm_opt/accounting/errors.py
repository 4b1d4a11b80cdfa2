"""Errors of the accountants, named after what the caller can change."""

from __future__ import annotations

from dataclasses import dataclass

from darrm_opt.errors import DarrmError


class DeltaTooSmall(DarrmError):
    """No ε, however large, gives a total δ this small: raise the total δ, or ask fewer queries.

    Attributes:
        delta: the total δ asked for [probability].
        floor: the smallest δ that can be had, rounded up [probability].
    """

    def __init__(self, delta: float, floor: float, reason: str) -> None:
        self.delta = delta
        self.floor = floor
        super().__init__(
            f"no finite epsilon exists at delta = {delta!r}: {reason}, so the total delta is at least {floor!r}. "
            "Raise the total delta, or ask fewer queries."
        )


class TooMuchWork(DarrmError):
    """The computation asked for is exact but too long; the message names a cheaper sound account."""


class BudgetExceeded(DarrmError):
    """A charge was refused because the budget would be overspent; nothing was charged."""


class BudgetUnreadable(DarrmError):
    """A saved budget is missing, damaged or in another format; nothing was loaded."""


@dataclass(frozen=True)
class Counterexample:
    """A mechanism for which a printed claim is wrong.

    Attributes:
        mechanism: what it is, in words.
        epsilon: total ε of the claim [nats].
        claimed: the δ that is claimed at ``epsilon`` [probability].
        truth: a δ that the mechanism has at least [probability].
    """

    mechanism: str
    epsilon: float
    claimed: float
    truth: float

    def __str__(self) -> str:
        return (
            f"{self.mechanism}: at epsilon = {self.epsilon:.6g} the claim is delta = {self.claimed:.6g}, "
            f"the truth at least {self.truth:.6g}."
        )


class UnsoundBound(DarrmError):
    """A printed theorem that is false was asked for without acknowledging it."""

    def __init__(self, name: str, counterexample: Counterexample, instead: str) -> None:
        self.counterexample = counterexample  # a mechanism for which the theorem's claim is wrong
        super().__init__(
            f"{name} is false as printed: {counterexample} Use {instead}, or pass acknowledge_unsound=True to "
            "reproduce the printed number."
        )
