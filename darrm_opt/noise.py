"""Noise function γ: the quantity that is designed.

DaRRM (Algorithm 1 of the paper): with L ones among K votes, keep the majority 1{L ≥ K/2} with probability γ(L),
otherwise toss a fair coin; so the released bit is the majority with probability (1 + γ(L))/2. γ(l) = γ(K−l). For even K
a tie is a fair coin whatever γ(K/2) is, because the signed function below vanishes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from darrm_opt.errors import InvalidInput

Array = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Integers = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
ArrayLike = Sequence[float] | np.ndarray[tuple[Any, ...], np.dtype[Any]]

ABSENT = "Give missing votes to fill_missing first."


@dataclass(frozen=True, eq=False)
class NoiseFunction:
    """γ(0..K): the probability of keeping the majority instead of tossing a fair coin, for each number of ones.

    Args:
        values: shape (K+1,), each a probability in [0, 1], exactly symmetric: γ(l) = γ(K−l).

    Guarantees:
        Read-only float64; equal when equal bit by bit.

    Raises:
        InvalidInput: wrong shape or length, a value out of [0, 1] or NaN, or asymmetry.

    Source: Algorithm 1 and Lemma 3.3 of the paper.

    >>> NoiseFunction([1.0, 0.5, 0.5, 1.0]).K
    3
    """

    values: Array

    def __init__(self, values: ArrayLike | NoiseFunction, K: int | None = None) -> None:
        object.__setattr__(self, "values", _check_values(values, K))

    @property
    def K(self) -> int:
        """Number of voters."""
        return int(self.values.size - 1)

    @property
    def signed(self) -> Array:
        """g(l) = sign(l − K/2)·γ(l), shape (K+1,): antisymmetric, so Pr[release = 1] = (1 + E g(L))/2."""
        K, signed = self.K, self.values.copy()
        signed[: (K + 1) // 2] *= -1.0
        signed[(K + 1) // 2 : K // 2 + 1] = 0.0
        return signed

    @property
    def upper_half(self) -> Array:
        """γ(⌊K/2⌋+1..K), shape (⌈K/2⌉,): the free values, by symmetry."""
        return self.values[self.K // 2 + 1 :]

    @cached_property
    def is_monotone(self) -> bool:
        """Whether γ never decreases away from K/2, so that g never decreases at all."""
        upper = self.upper_half
        return bool((upper[1:] >= upper[:-1]).all())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: FBT001 — NumPy's protocol
        return np.array(self.values, dtype=dtype, copy=copy)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoiseFunction) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def __reduce__(self) -> tuple[type[NoiseFunction], tuple[Array]]:
        return NoiseFunction, (self.values,)  # an unpickled array alone would forget that it is read-only

    @classmethod
    def from_upper_half(cls, upper: Array, K: int) -> NoiseFunction:
        """Return γ from its upper half; a tie (even K) gets 0.

        Args:
            upper: γ(⌊K/2⌋+1..K), shape (⌈K/2⌉,), each a probability in [0, 1].
            K: number of voters, ≥ 1.
        """
        values = np.zeros(K + 1)
        values[K // 2 + 1 :] = upper
        values[: (K + 1) // 2] = upper[::-1]
        return cls(values)


def _check_values(values: ArrayLike | NoiseFunction, K: int | None) -> Array:
    if isinstance(values, NoiseFunction):
        values = values.values
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidInput("gamma", values, "numbers γ(0), …, γ(K)") from err
    if array.ndim != 1 or array.size < 2:
        content = array.tolist() if array.ndim else values
        raise InvalidInput("gamma", content, "a flat list of K+1 numbers γ(0), …, γ(K)")
    if K is not None and array.size != K + 1:
        raise InvalidInput("gamma", array.tolist(), f"K+1 = {K + 1} numbers", f"Received {array.size}.")
    if not (array.min() >= 0 and array.max() <= 1):  # nor NaN
        l = int(np.flatnonzero(~((array >= 0) & (array <= 1)))[0])
        raise InvalidInput(f"gamma[{l}]", float(array[l]), "a probability in [0, 1]")
    if array.tobytes() != array[::-1].tobytes() and (array != array[::-1]).any():
        l = int(np.flatnonzero(array != array[::-1])[0])
        raise InvalidInput(
            f"gamma[{l}]",
            float(array[l]),
            f"gamma[{l}] = gamma[{array.size - 1 - l}] = {float(array[-1 - l])!r} exactly",
            "The noise function must treat both answers alike: γ(l) = γ(K−l).",
        )
    array += 0.0  # −0.0 becomes 0.0: equal values have equal bytes
    array.setflags(write=False)
    return array


def check_unmasked(votes: Any, argument: str) -> None:
    """Reject an array, or a sequence of arrays, with masked entries: NumPy drops the mask."""
    arrays = votes if isinstance(votes, list | tuple) else [votes]
    if any(isinstance(each, np.ma.MaskedArray) and np.ma.is_masked(each) for each in arrays):
        raise InvalidInput(argument, "an array with a mask", "an array without masked entries", ABSENT)
