"""Values rounded up: never below the exact one, and just above it."""

from fractions import Fraction


def hardly_above(value: float, exact: float | Fraction, room: float = 1e-13) -> bool:
    """Return whether a value is at least the exact one, by at most a share of it or of 1."""
    least = Fraction(exact)
    return least <= Fraction(value) <= least + Fraction(room) * max(Fraction(1), least)
