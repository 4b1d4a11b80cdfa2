"""Certificate of a release rule: a finite sum in whole numbers over every pair of neighbouring vote counts.

A rule is (ε, δ)-DP if and only if for every edge (before, after) and every set S of outputs

    Pr[S | before] ≤ e^ε·Pr[S | after] + δ.

The worst S holds the outputs with Pr[· | before] > e^ε·Pr[· | after], so one pass over the outputs decides an edge. All
probabilities are fractions with one denominator (`PluralityRule.numerators`), δ is a double, and e^ε is replaced by a
fraction below it: nothing is rounded, and what is proved is proved for the doubles as stored.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from darrm_opt._version import __version__
from darrm_opt.errors import InvalidInput, NotPrivate
from darrm_opt.rounding import float_above
from darrm_opt.tables.problem import ABSTENTION, Histograms, Partition, PluralityProblem
from darrm_opt.tables.rule import PluralityRule

EXPONENT_BITS = 80
"""Fractional bits of the bounds on e^ε: far finer than a double."""


@dataclass(frozen=True)
class PluralityCertificate:
    """Why a rule is private.

    Attributes:
        margin: δ that is left at the worst edge and set of outputs, ≥ 0, rounded down [probability].
        before: vote counts of the worst edge.
        after: its neighbour's, class by class.
        released: which classes the worst set holds (places in ``before``), and `ABSTENTION` for ⊥.
        edges: how many edges were checked, both directions counted.
        version: version of darrm-opt that made the certificate.
    """

    margin: float
    before: Partition
    after: Partition
    released: tuple[int, ...]
    edges: int
    version: str = __version__


def exp_bounds(epsilon: float) -> tuple[int, int]:
    """Return whole numbers a ≤ e^ε·2^`EXPONENT_BITS` ≤ b that differ by little, for a double ε ≥ 0.

    Source: `decimal` rounds exp correctly, so the neighbours of its result enclose the true value.
    """
    digits = 40 + math.ceil(epsilon / math.log(10))
    context = decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    nearest = context.exp(decimal.Decimal(epsilon))
    below, above = Fraction(context.next_minus(nearest)), Fraction(context.next_plus(nearest))
    if epsilon == 0:
        return 1 << EXPONENT_BITS, 1 << EXPONENT_BITS
    return math.floor(below * 2**EXPONENT_BITS), math.ceil(above * 2**EXPONENT_BITS)


@dataclass(frozen=True)
class Excess:
    """The largest excess of Pr[S | before] over e^ε·Pr[S | after] + δ, and where; exact up to the bound on e^ε."""

    value: Fraction  # > 0 where the rule is not proved private
    edge: int  # number of the edge in `Histograms`


def excess(problem: PluralityProblem, rule: PluralityRule) -> Excess:
    """Return the largest excess over every edge and every set of outputs, for the strictest reading of the problem.

    Guarantees: Never below the exact value.
    """
    if (rule.K, rule.classes, rule.abstention) != (problem.K, problem.classes, problem.abstention):
        raise InvalidInput(
            "rule",
            f"K = {rule.K}, {rule.classes} classes, abstention = {rule.abstention}",
            f"K = {problem.K}, {problem.classes} classes, abstention = {problem.abstention}",
        )
    target, cells = problem.strictest_target, problem.histograms
    low, _ = exp_bounds(target.epsilon)
    delta = Fraction(target.delta)
    if not cells.left.size:  # one voter fewer than one edge needs: nothing to compare
        return Excess(-delta, 0)
    numerators = rule.numerators
    differences = (numerators[cells.left] << EXPONENT_BITS) - numerators[cells.right] * low
    positive = np.maximum(differences, 0) * cells.sizes.astype(object)
    sums = positive.sum(axis=1)
    worst = int(np.argmax(sums))
    return Excess(Fraction(int(sums[worst]), rule.denominator << EXPONENT_BITS) - delta, worst)


def verify_rule(problem: PluralityProblem, rule: PluralityRule) -> PluralityCertificate:
    """Prove that a rule is private, from its table alone.

    Args:
        problem: what must hold.
        rule: any rule that anyone supplies.

    Guarantees:
        If it returns, releasing by the rule is (ε, δ)-DP for its doubles exactly as stored.

    Raises:
        InvalidInput: the rule is for other voters, classes or outputs.
        NotPrivate: it is not private; the error names the vote counts and the outputs.

    >>> from darrm_opt import Privacy
    >>> problem = PluralityProblem(3, 2, Privacy(1.0, 0.25))
    >>> round(verify_rule(problem, PluralityRule.of(problem, [0.0] * 4)).margin, 6)
    0.25
    """
    worst = excess(problem, rule)
    before, after, released = edge_text(problem, rule, worst.edge)
    if worst.value > 0:
        outputs = ", ".join("no class" if output == ABSTENTION else f"class {output + 1}" for output in released)
        raise NotPrivate(
            f"the rule is not private: from the counts {before} to {after} the chance of {{{outputs}}} needs δ larger "
            f"by {float(worst.value):.3g} than allowed. Use certify_rule() to mix it with the uniform rule until it is "
            "private.",
            {f"{before} -> {after}": problem.affected},
            float(worst.value),
        )
    return PluralityCertificate(
        max(0.0, -float_above(worst.value)), before, after, released, len(problem.histograms.left)
    )


def certify_rule(problem: PluralityProblem, rule: PluralityRule) -> tuple[PluralityRule, PluralityCertificate]:
    """Mix a rule with the uniform rule just enough that it is private, and prove it.

    Args:
        problem: what must hold.
        rule: any rule, such as an LP solver's answer.

    Returns:
        The repaired rule (``rule`` itself where it is private as it stands) and its certificate.

    Raises:
        InvalidInput: the rule is for other voters, classes or outputs.

    Source: ours. The excess is convex in the rule, and that of the uniform rule is at most −(e^ε − 1)/outputs − δ for
    every set that is not empty.
    """
    mixed, step = rule, 0.0
    slack = float(np.expm1(problem.target.epsilon)) / rule.outputs + problem.target.delta
    for _ in range(64):
        violation = float_above(excess(problem, mixed).value)
        if violation <= 0:
            return mixed, verify_rule(problem, mixed)
        share = 1.0 if slack == 0 else min(1.0, violation / (violation + slack) * (1 + 2.0**-20) + 2.0**-50)
        step = min(1.0, max(share, 2 * step))  # the first step is enough but for rounding; no proof rests on that
        mixed = PluralityRule.of(problem, mixed.values * (1.0 - step))
    uniform = PluralityRule.of(problem, rule.values * 0.0)
    return uniform, verify_rule(problem, uniform)


def edge_text(
    problem: PluralityProblem, rule: PluralityRule, edge: int
) -> tuple[Partition, Partition, tuple[int, ...]]:
    """Return an edge's counts before and after, class by class, and its worst set of outputs."""
    cells: Histograms = problem.histograms
    if not cells.left.size:
        return cells.partitions[0], cells.partitions[0], ()
    low, _ = exp_bounds(problem.strictest_target.epsilon)
    numerators = rule.numerators
    before: list[int] = []
    after: list[int] = []
    released: list[int] = []
    groups = sorted(zip(*(column[edge].tolist() for column in (cells.left, cells.right, cells.sizes)), strict=True))
    for left, right, size in groups:
        # In whole numbers, with e^ε rounded down: S then has every output that counts against the rule.
        worst = (numerators[left] << EXPONENT_BITS) > numerators[right] * low
        # Classes with equal counts on both sides are one group of the edge: each of them is shown.
        for _ in range(size):
            if cells.values[left] == ABSTENTION:
                released += [ABSTENTION] if worst else []
                continue
            released += [len(before)] if worst else []
            before.append(int(cells.values[left]))
            after.append(int(cells.values[right]))
    return tuple(before), tuple(after), tuple(released)
