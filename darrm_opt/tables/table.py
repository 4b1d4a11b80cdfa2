"""Table: the probability of each output at every vote count, exactly.

A table holds doubles over the cells of its voters (`Cells`). The remainder to 1 at a vote count is shared equally by
all outputs, so that

    Pr[o | n] = x[o, n] + rest(n)/outputs,      rest(n) = 1 − Σ_o′ x[o′, n]

is a probability exactly, although thirds are not doubles. x = 0 is the uniform release, which is private for any
target, and x·s for s < 1 mixes x with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.tables.groups import AnyCells

Integers = NDArray[np.object_]


class Table:
    """Release probabilities over cells.

    Args:
        cells: those of a problem's voters.
        values: one double in [0, 1] per cell, in order; at every vote count Σ multiplicity·x ≤ 1, exactly. For voters
            that are not private: partitions in lexicographic order, the counts of each decreasing, then ⊥ if any.

    Guarantees:
        Frozen; equal when equal bit for bit.

    Raises:
        InvalidInput: another number of cells, a value outside [0, 1], or a vote count whose values sum to more than 1.

    >>> from darrm_opt.tables.problem import histograms
    >>> uniform = Table(histograms(2, 2, 1, abstention=False), [0.0, 0.0, 0.0])
    >>> tuple(float(p) for p in uniform.probabilities((2, 0)))
    (0.5, 0.5)
    """

    def __init__(self, cells: AnyCells, values: Any) -> None:
        self.cells = cells
        accepted = f"{cells.owners.size} numbers in [0, 1], one per cell"
        try:
            table = np.array(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as err:
            raise InvalidInput("values", type(values).__name__, accepted) from err
        if table.shape != cells.owners.shape:
            raise InvalidInput("values", f"an array of shape {table.shape}", accepted)
        if not bool(np.all((table >= 0) & (table <= 1))):
            raise InvalidInput("values", "a number outside [0, 1]", accepted)
        table += 0.0  # −0.0 becomes 0.0
        table.flags.writeable = False
        self.values: Array = table
        # In exact arithmetic, as a sum that rounds to 1 may be above it.
        if min(self._rests) < 0:
            raise InvalidInput(
                "values",
                "a sum above 1",
                "values whose sum over the outputs is at most 1, exactly as stored",
                "Scale them down by a few units in the last place.",
            )

    @classmethod
    def normalised(cls, cells: AnyCells, values: Any) -> Table:
        """Return the table nearest to numbers that satisfy the sums up to rounding, or a solver's tolerance.

        Args:
            cells: those of a problem's voters.
            values: one number per cell.
        """
        table = np.clip(np.nan_to_num(np.array(values, dtype=np.float64), nan=0.0), 0.0, 1.0)
        shrink = cells.shrink(np.add.reduceat(table * cells.multiplicities, cells.starts))
        return cls(cells, np.minimum(table * shrink[cells.owners], 1.0))

    @classmethod
    def constants(cls, cells: AnyCells) -> list[Table]:
        """Return the releases other than x = 0 that ignore the votes, private for any target.

        These are any class but never ⊥, and ⊥ alone. Without ⊥ none of them treats the classes alike.
        """
        if not cells.abstention:
            return []
        none = np.zeros(cells.owners.size, dtype=bool)
        none[cells.layout[:, -1]] = True
        share = 1 / cells.classes
        if Fraction(share) * cells.classes > 1:
            share = math.nextafter(share, 0.0)
        return [cls(cells, np.where(none, 0.0, share)), cls(cells, np.where(none, 1.0, 0.0))]

    @cached_property
    def exponent(self) -> int:
        """The smallest s such that every value is a multiple of 2^−s."""
        denominators: list[int] = [value.as_integer_ratio()[1] for value in self.values.tolist()]
        return max(denominators).bit_length() - 1

    @cached_property
    def units(self) -> Integers:
        """The values in units of 2^−exponent, integers of any size, shape (cells,)."""
        one = 1 << self.exponent
        scaled = []
        for value in self.values.tolist():
            numerator, denominator = value.as_integer_ratio()
            scaled.append(numerator * (one // denominator))
        return np.array(scaled, dtype=object)

    @cached_property
    def _rests(self) -> Integers:
        sums = np.add.reduceat(self.units * self.cells.multiplicities.astype(object), self.cells.starts)
        rests: Integers = (1 << self.exponent) - sums
        return rests

    @property
    def denominator(self) -> int:
        """Denominator of `numerators`."""
        return self.cells.outputs << self.exponent

    @cached_property
    def numerators(self) -> Integers:
        """Probability of one given output, exactly: numerators over `denominator`, shape (cells,)."""
        exact: Integers = self.units * self.cells.outputs + self._rests[self.cells.owners]
        return exact

    @cached_property
    def nearest(self) -> Array:
        """The probabilities as the nearest doubles, shape (cells,)."""
        denominator = self.denominator
        return np.array([numerator / denominator for numerator in self.numerators], dtype=np.float64)

    @property
    def chances(self) -> Array:
        """The probabilities of each output at every vote count as the nearest doubles, shape (counts, outputs)."""
        return np.asarray(self.nearest[self.cells.layout])

    @property
    def is_constant(self) -> bool:
        """Whether the release is independent of the votes: each output has one probability, exactly."""
        return all(len(set(self.numerators[np.unique(cells)].tolist())) == 1 for cells in self.cells.layout.T)

    def probabilities(self, counts: Sequence[Any]) -> list[Fraction]:
        """Return the probability of each output at vote counts, as fractions: the classes in order, then ⊥.

        Args:
            counts: votes by class; for groups, one such row per group.

        Raises:
            InvalidInput: invalid counts for these voters.
        """
        return [Fraction(self.numerators[cell], self.denominator) for cell in self.cells.find([counts])[0].tolist()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[object, bytes]:
        return self.cells.shape, self.values.tobytes()
