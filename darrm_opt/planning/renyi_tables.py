"""Tables for many sampled releases: the most useful one whose pairs of laws have a bounded Rényi divergence.

The table of the linear program is the best at one ε of one release. Many releases cost by sums of Rényi divergences,
which ask for another shape: a rare answer may have a large loss. At one order λ and rate q this is a convex program,

    maximise    w · x
    subject to  Σ_c P_c^λ·Q_c^(1−λ) ≤ e^((λ−1)·r)        for each sampled pair (P, Q) of the table x

with P and Q linear in x, and the left side convex in them. Every mechanism that treats the classes alike is a table, so
at its order none has a larger utility for the same bound. It is solved by supporting hyperplanes (Veinott 1967): from a
table inside, the line to the optimum of the linear program meets each violated constraint once, and there is a cut.

Nothing that is proved rests on it: what a table costs is computed from its own laws by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.mechanisms.sampled_votes import vote_triples
from darrm_opt.mechanisms.table import RuleMechanism
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.problem import Privacy
from darrm_opt.tables.linear_program import PluralityProgram
from darrm_opt.tables.problem import Index, PluralityProblem
from darrm_opt.tables.rule import PluralityRule, rule_laws

with needed_by("The linear program of several classes"):
    from scipy import sparse

GAP, MAX_ROUNDS = 2e-6, 60
"""Utility by which a table may be below the optimum, and most linear programs for one."""

CUTS = 100
"""Most cuts that are added at once: those that leave least of the way."""

UNIFORM = 1e-7
"""Share of the uniform table that is mixed in, so that each loss is finite."""

BISECTIONS, COARSE_BISECTIONS = 32, 6
"""Steps of a search for where constraints are met, and those after which most of them are left out."""


class RenyiTables:
    """The program for one problem, whose target does not count, one sampling and the utility of each cell."""

    def __init__(self, problem: PluralityProblem, weights: Array, sampling: Sampling) -> None:
        self._problem, self._weights, self._rate = problem, weights, sampling.chance
        self._three = sampling.neighbours == "replace-one"
        self._size = weights.size

    @cached_property
    def _places(self) -> tuple[Index, Index, Index] | None:
        """Cells of each answer without a record, with it, and with its other value, shape (triples, outputs)."""
        problem = self._problem
        found = vote_triples(problem.K, problem.classes, problem.affected, three=self._three)
        if found is None:
            return None
        counts, triples = found
        uniform = PluralityRule.of(problem, np.zeros(self._size))
        cells = np.array([uniform.cell_of(row) for row in counts.tolist()], dtype=np.intp)
        off, on, other = (cells[triples[:, side]] for side in range(3))
        return off, on, other

    @property
    def is_possible(self) -> bool:
        """Whether the triples can be listed."""
        return self._places is not None

    @cached_property
    def _sides(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Matrices from a table to P and to Q, an answer of a pair a row."""
        assert self._places is not None  # noqa: S101 - the caller asked
        off, on, other = self._places
        without, first, second = (
            self._mixed(off, side, rate) for side, rate in ((off, 0.0), (on, self._rate), (other, self._rate))
        )
        if self._three:
            return first, second
        return sparse.vstack([without, first], format="csr"), sparse.vstack([first, without], format="csr")

    def _mixed(self, off: Index, on: Index, rate: float) -> sparse.csr_array:
        rows = np.arange(off.size)
        values = np.concatenate([np.full(off.size, 1 - rate), np.full(on.size, rate)])
        places = (np.concatenate([rows, rows]), np.concatenate([off.ravel(), on.ravel()]))
        return sparse.coo_array((values, places), shape=(off.size, self._size)).tocsr()

    def best(self, order: float, divergence: float, stop: Callable[[], bool]) -> Array:
        """Return nearly the most useful table whose pairs have at most this Rényi divergence [nats] at order λ > 1."""
        limit, (left, right) = math.expm1((order - 1) * divergence), self._sides
        program = PluralityProgram(self._problem.histograms, self._weights)
        outputs = self._problem.classes + self._problem.abstention
        # The uniform table loses nothing, so it is inside every limit: each line from it leaves the set once, F being
        # convex.
        inside = np.full(self._size, 1 / outputs)
        found, utility = inside, float(self._weights @ inside)
        for _ in range(MAX_ROUNDS):
            _, outside, _, _ = program.solve(math.inf)
            # A chance of 0 on one side alone would make F infinite, and a tangent there means nothing.
            outside = (1 - UNIFORM) * np.maximum(outside, 0.0) + UNIFORM / outputs
            # The program has fewer constraints: its optimum is an upper bound, nearly, and `found` is inside.
            if self._weights @ outside - utility <= GAP or stop():
                break
            ends = [(side @ table).reshape(-1, outputs) for table in (inside, outside) for side in (left, right)]
            violated = np.flatnonzero(_excess(ends[2], ends[3], order).sum(axis=1) > limit)
            if not violated.size:
                return outside
            p, q, p_out, q_out = (end[violated] for end in ends)
            share = _crossing(p, q, p_out - p, q_out - q, order, limit)
            # Short of the first crossing, by more than the bisection errs: every table that is kept is inside.
            least = float(share.min()) * (1 - 1e-9)
            table = inside + least * (outside - inside)
            if self._weights @ table > utility:
                found, utility = table, float(self._weights @ table)
            # The constraints that are met first cut off most; more at once would slow each program down.
            new = np.argsort(share)[:CUTS]
            p, q = (a[new] + share[new, None] * (b[new] - a[new]) for a, b in ((p, p_out), (q, q_out)))
            self._cut(program, violated[new], p, q, order, limit)
            # Halfway to the boundary: from there lines leave nearer to the optimum, and stay well inside at the start.
            inside = (inside + table) / 2
        return found

    def _cut(self, program: PluralityProgram, pairs: Index, p: Array, q: Array, order: float, limit: float) -> None:
        """Add the tangents at pairs of laws where the constraint holds with equality."""
        left, right = self._sides
        ratio = p / q
        by_p = order * (ratio ** (order - 1) - 1)
        by_q = _excess(p, q, order) / q - ratio * by_p
        constant = _excess(p, q, order).sum(axis=1) - (by_p * p + by_q * q).sum(axis=1)
        rows = (pairs[:, None] * p.shape[1] + np.arange(p.shape[1])).ravel()
        owner = np.repeat(np.arange(pairs.size), p.shape[1])
        sums = [
            sparse.csr_array((by.ravel(), (owner, np.arange(owner.size))), shape=(pairs.size, owner.size)) @ side[rows]
            for by, side in ((by_p, left), (by_q, right))
        ]
        gradient = (sums[0] + sums[1]).tocsr()
        scale = 1 / np.maximum(abs(gradient).max(axis=1).toarray().ravel(), 1e-300)
        program.add(sparse.diags_array(scale) @ gradient, (limit - constant) * scale)

    def mechanism(self, table: Array) -> RuleMechanism:
        """Return the mechanism of a table, proved private at the largest loss of an unsampled release."""
        problem = self._problem
        outputs = problem.classes + problem.abstention
        mixed = (1 - UNIFORM) * table + UNIFORM / outputs
        rule = PluralityRule.normalised(problem, mixed)
        largest = rule_laws(rule, problem.affected).max_loss
        target = Privacy(largest * (1 + 1e-6) + 1e-9)
        own = PluralityProblem(problem.K, problem.classes, target, problem.affected, abstention=problem.abstention)
        return RuleMechanism(own, rule)


def _excess(p: Array, q: Array, order: float) -> Array:
    """Return Q·(t^λ − 1 − λ(t − 1)), t = P/Q, of each answer: its share of Σ P^λ Q^(1−λ) − 1, which has no other."""
    with np.errstate(over="ignore"):
        return np.asarray(q * np.expm1(order * np.log(p / q)) - order * (p - q))


def _crossing(p: Array, q: Array, p_step: Array, q_step: Array, order: float, limit: float) -> Array:
    """Return the share of its step at which each pair reaches the limit, from below; about, beyond the first `CUTS`."""
    low, high = np.zeros(len(p)), np.ones(len(p))
    p, q, p_step, q_step = (np.ascontiguousarray(each.T) for each in (p, q, p_step, q_step))  # sums are fast so
    left = np.arange(low.size)
    for number in range(BISECTIONS):
        if number == COARSE_BISECTIONS and low.size > CUTS:  # those that are surely not among the first ones
            left = np.flatnonzero(low <= np.partition(high, CUTS - 1)[CUTS - 1])
            p, q, p_step, q_step = (np.ascontiguousarray(each[:, left]) for each in (p, q, p_step, q_step))
        middle = (low[left] + high[left]) / 2
        inside = _excess(p + middle * p_step, q + middle * q_step, order).sum(axis=0) <= limit
        low[left], high[left] = np.where(inside, middle, low[left]), np.where(inside, high[left], middle)
    return low
