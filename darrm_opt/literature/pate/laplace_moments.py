"""PATE's data-dependent moments for Laplace votes, and the DPBag paper's conjecture about them.

**A bound computed from the votes is itself sensitive**: it must not be published, nor decide anything
that is, without smooth sensitivity. And it bounds one direction only, this dataset against any
neighbour. At DPBag's noise (λ = 2/n_chunks) it is worse than the data-independent bound anyway.

Source: Papernot et al. 2017, Theorem 3 and Lemma 4; Jordon et al., supplement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.moments_accountant import checked_lam, checked_orders, moment_increment
from darrm_opt.problem import real_number


@dataclass(frozen=True)
class DataDependentMoment:
    """A moment bound computed from private votes: sensitive itself.

    Attributes:
        value: the bound to use: the least of the two below that applies.
        formula: the data-dependent formula, whether or not it applies.
        applies: whether its precondition q < 1/(1 + e^{2λ}) holds.
        data_independent: 2λ²l(l+1).
        wrong_winner: q, the bound on the chance that another class wins.
        proven: False for the conjecture.
    """

    value: float
    formula: float
    applies: bool
    data_independent: float
    wrong_winner: float
    proven: bool


def wrong_winner_bound(margins: Sequence[float], lam: float) -> float:
    """Return q ≥ Pr[the leading class does not win], noise of scale 1/λ on each count.

    Args:
        margins: lead over each other class [votes], ≥ 0; for DPBag divide counts by n_partitions.
        lam: λ > 0 [1/votes].

    Raises:
        InvalidInput: a number is outside its range.

    Source: Papernot et al. 2017, Lemma 4; exact for two classes.

    >>> round(wrong_winner_bound([100], 0.02), 12)
    0.135335283237
    """
    lam = checked_lam(lam)
    if not len(margins):
        raise InvalidInput("margins", margins, "the lead over at least one other class")
    leads = [real_number(margin, "margins", "leads in votes, at least 0") * lam for margin in margins]
    if not all(0 <= x < math.inf for x in leads):
        raise InvalidInput("margins", margins, "leads in votes, at least 0", "Count from the leading class.")
    return math.fsum((2 + x) / 4 * math.exp(-x) for x in leads)


def data_dependent_moment(margins: Sequence[float], lam: float, order: float) -> DataDependentMoment:
    """Return the moment of one SAA vote given the vote, or the data-independent 2λ²l(l+1) if that is less.

    The moment is ln((1−q)·((1−q)/(1−e^{2λ}q))^l + q·e^{2λl}).

    Args:
        margins: lead of the winning class over each other class [votes].
        lam: λ > 0 [1/votes].
        order: l ≥ 1.
    """
    return _moment(margins, lam, order, 1.0, proven=True)


def conjectured_moment(margins: Sequence[float], lam: float, order: float, m: float) -> DataDependentMoment:
    """Return the same with λ·m in place of λ in the bound but not in q: **a conjecture, not proved**.

    For two classes it held in every random trial; experimental, and used by nothing here.

    Args:
        margins: lead of the winning class over each other class, counts divided by n_partitions [votes].
        lam: λ > 0 [1/votes].
        order: l ≥ 1.
        m: spread of one record's teachers' votes, in (0, 1].
    """
    return _moment(margins, lam, order, m, proven=False)


def _moment(margins: Sequence[float], lam: float, order: float, m: float, *, proven: bool) -> DataDependentMoment:
    l = float(checked_orders([order])[0])
    q = wrong_winner_bound(margins, lam)
    data_independent = moment_increment(lam, l, m)
    step = 2 * lam * m
    # 1/(1 + e^step) is the precondition (e^step − 1)/(e^{2·step} − 1), cancelled.
    applies = q < 1 / (1 + math.exp(step))
    formula = math.inf
    if q * math.exp(step) < 1:
        stays = (1 + l) * math.log1p(-q) - l * math.log1p(-q * math.exp(step))
        formula = _log_add(stays, math.log(q) + step * l) if q > 0 else stays
    return DataDependentMoment(
        min(formula, data_independent) if applies else data_independent, formula, applies, data_independent, q, proven
    )


def _log_add(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))
