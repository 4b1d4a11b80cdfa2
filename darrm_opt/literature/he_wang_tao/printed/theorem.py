"""What a printed theorem returns, to whoever acknowledges that it is false."""

from __future__ import annotations

from dataclasses import dataclass

from darrm_opt.accounting.errors import Counterexample, UnsoundBound


@dataclass(frozen=True)
class PrintedTheorem:
    """The numbers of a theorem as printed. Not a guarantee: there is no way from here to a `Privacy`.

    Attributes:
        name: the theorem.
        epsilon: total ε as printed [nats].
        delta: total δ as printed [probability]; may be too small.
        exact_delta: the exact optimum at the same ε, where it is known [probability].
        counterexample: what refutes the theorem, for these very inputs where they are refuted.
    """

    name: str
    epsilon: float
    delta: float
    exact_delta: float | None
    counterexample: Counterexample

    @property
    def sound(self) -> bool:
        """False: the theorem is refuted, even where a number of it happens to hold."""
        return False

    @property
    def shortfall(self) -> float:
        """By how much the printed δ is below the exact one at these inputs; 0 where it is not known to be."""
        return 0.0 if self.exact_delta is None else max(0.0, self.exact_delta - self.delta)

    @property
    def refuted_here(self) -> bool:
        """Whether the printed δ is below the exact one at these very inputs."""
        return self.exact_delta is not None and self.delta < self.exact_delta * (1 - 1e-9)


def require_acknowledgement(theorem: PrintedTheorem, instead: str, *, acknowledge_unsound: bool) -> PrintedTheorem:
    """Return ``theorem``, or raise `UnsoundBound` if the caller has not acknowledged what it is."""
    if acknowledge_unsound is not True:
        raise UnsoundBound(theorem.name, theorem.counterexample, instead)
    return theorem
