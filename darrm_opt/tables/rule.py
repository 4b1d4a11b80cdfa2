"""Release rule: which class is released, and how likely, for every vote count.

A rule is a table of doubles over the cells of `Histograms`. What is left of 1 in a partition is shared equally by all
outputs, so that

    Pr[class with v votes | λ] = x[λ, v] + rest(λ)/outputs,      rest(λ) = 1 − Σ_v mult_λ(v)·x[λ, v] − x[λ, ⊥]

is a probability exactly, although thirds are not doubles. x = 0 is the uniform rule, and x·s for s < 1 mixes x with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.law_pairs import BitPairs, LawPairs
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import whole_number
from darrm_opt.tables.problem import ABSTENTION, Histograms, PluralityProblem, histograms

Integers = NDArray[np.object_]


class PluralityRule:
    """A table of release probabilities over partitions.

    Args:
        K: voters, ≥ 1.
        classes: C ≥ 2.
        values: one double in [0, 1] a cell, in the order of `Histograms`: partitions in lexicographic order, the counts
            of each decreasing, then ⊥ if there is one. In every partition Σ mult·x ≤ 1, exactly.
        abstention: whether there are cells for ⊥.

    Guarantees:
        Frozen; equal when equal bit for bit.

    Raises:
        InvalidInput: another number of cells, a value outside [0, 1], or a partition whose values sum to more than 1.

    >>> uniform = PluralityRule(2, 2, [0.0, 0.0, 0.0])
    >>> tuple(float(p) for p in uniform.probabilities((2, 0)))
    (0.5, 0.5)
    """

    def __init__(self, K: int, classes: int, values: Any, *, abstention: bool = False) -> None:
        self._cells = histograms(
            whole_number(K, "K", "a whole number of voters, at least 1"),
            whole_number(classes, "classes", "a whole number of classes, at least 2", least=2),
            1,
            bool(abstention),
        )
        size = self._cells.values.size
        accepted = f"{size} numbers in [0, 1], one for each cell"
        try:
            table = np.array(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as err:
            raise InvalidInput("values", type(values).__name__, accepted) from err
        if table.shape != (size,):
            raise InvalidInput("values", f"an array of shape {table.shape}", accepted)
        if not bool(np.all((table >= 0) & (table <= 1))):
            raise InvalidInput("values", "a number outside [0, 1]", accepted)
        table += 0.0  # −0.0 becomes 0.0
        table.flags.writeable = False
        self.values: Array = table
        # In exact arithmetic: a sum that rounds to 1 may be above it.
        over = np.flatnonzero(self._rests < 0)
        if over.size:
            raise InvalidInput(
                "values",
                f"a sum above 1 for the counts {self._cells.partitions[over[0]]}",
                "values whose sum over the outputs is at most 1, exactly as stored",
                "Scale them down by a few units in the last place.",
            )

    @classmethod
    def of(cls, problem: PluralityProblem, values: Any) -> PluralityRule:
        """Return the rule with these values for a problem's voters and classes.

        Args:
            problem: how many voters and classes, and whether a rule may abstain.
            values: probability of each output for each partition of the votes, as `PluralityRule` takes them.
        """
        return cls(problem.K, problem.classes, values, abstention=problem.abstention)

    @classmethod
    def normalised(cls, problem: PluralityProblem, values: Any) -> PluralityRule:
        """Return the rule nearest to real numbers whose sums are 1 up to rounding (or a solver's tolerance).

        Args:
            problem: how many voters and classes, and whether a rule may abstain.
            values: as for `of`.
        """
        cells = histograms(problem.K, problem.classes, 1, problem.abstention)
        table = np.clip(np.nan_to_num(np.array(values, dtype=np.float64), nan=0.0), 0.0, 1.0)
        sums = np.add.reduceat(table * cells.multiplicities, cells.starts)
        shrink = (1.0 - 2.0**-52 * (cells.classes + 4)) / np.maximum(sums, 1.0 - 1e-6)
        return cls.of(problem, np.minimum(table * shrink[cells.owners], 1.0))

    @property
    def K(self) -> int:
        """Number of voters."""
        return self._cells.K

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self._cells.classes

    @property
    def abstention(self) -> bool:
        """Whether ⊥ may be released."""
        return self._cells.abstention

    @property
    def outputs(self) -> int:
        """Number of outputs: the classes, and ⊥ if it may be released."""
        return self.classes + self.abstention

    @property
    def cells(self) -> Histograms:
        """The cells; its edges are those of one vote."""
        return self._cells

    @cached_property
    def exponent(self) -> int:
        """The least s such that every value is a whole number of 2^−s."""
        denominators: list[int] = [value.as_integer_ratio()[1] for value in self.values.tolist()]
        return max(denominators).bit_length() - 1

    @cached_property
    def units(self) -> Integers:
        """The values in units of 2^−exponent, whole numbers of any size, shape (cells,)."""
        one = 1 << self.exponent
        scaled = []
        for value in self.values.tolist():
            numerator, denominator = value.as_integer_ratio()
            scaled.append(numerator * (one // denominator))
        return np.array(scaled, dtype=object)

    @cached_property
    def _rests(self) -> Integers:
        sums = np.add.reduceat(self.units * self._cells.multiplicities.astype(object), self._cells.starts)
        rests: Integers = (1 << self.exponent) - sums
        return rests

    @property
    def denominator(self) -> int:
        """What `numerators` are to be divided by."""
        return self.outputs << self.exponent

    @cached_property
    def numerators(self) -> Integers:
        """Probability of one given output, exactly: numerators over `denominator`, shape (cells,)."""
        exact: Integers = self.units * self.outputs + self._rests[self._cells.owners]
        return exact

    @cached_property
    def nearest(self) -> Array:
        """The probabilities as the nearest doubles, shape (cells,)."""
        denominator = self.denominator
        return np.array([numerator / denominator for numerator in self.numerators], dtype=np.float64)

    def cell_of(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Return the cell of each output for vote counts: the classes in order, then ⊥ if there is one.

        Raises:
            InvalidInput: not C counts, or their sum is not K.
        """
        accepted = f"{self.classes} counts that sum to K = {self.K}"
        if len(counts) != self.classes or min(counts) < 0 or sum(counts) != self.K:
            raise InvalidInput("counts", "counts that are not shown here", accepted)
        place = self._cells.numbers[tuple(sorted((int(count) for count in counts), reverse=True))]
        first = int(self._cells.starts[place])
        cells, cell = {}, first
        while cell < self._cells.values.size and self._cells.owners[cell] == place:
            cells[int(self._cells.values[cell])] = cell
            cell += 1
        last = (cells[ABSTENTION],) if self.abstention else ()
        return (*(cells[int(count)] for count in counts), *last)

    def probabilities(self, counts: Sequence[int]) -> list[Any]:
        """Return the probability of each output for vote counts, as fractions: the classes in order, then ⊥.

        Raises:
            InvalidInput: not C counts, or their sum is not K.
        """
        return [Fraction(self.numerators[cell], self.denominator) for cell in self.cell_of(counts)]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PluralityRule)
            and (self.K, self.classes, self.abstention) == (other.K, other.classes, other.abstention)
            and self.values.tobytes() == other.values.tobytes()
        )

    def __hash__(self) -> int:
        return hash((self.K, self.classes, self.abstention, self.values.tobytes()))


def rule_laws(rule: PluralityRule, affected: int) -> LawPairs:
    """Return the laws of a rule's answers on both sides of every edge.

    Between two classes they are those of a bit, exactly. Classes with the same counts on both sides have the same
    ratio, so that they count as one answer.
    """
    if rule.classes == 2 and not rule.abstention:
        return BitPairs([rule.probabilities((v, rule.K - v))[0] for v in range(rule.K + 1)], affected)
    cells = histograms(rule.K, rule.classes, affected, rule.abstention)
    chances = rule.nearest
    p, q = (np.minimum(chances[side] * cells.sizes, 1.0) for side in (cells.left, cells.right))
    return LawPairs(p, q)
