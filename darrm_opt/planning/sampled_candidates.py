"""Tables for queries that each have a fresh and secret sample of the records (`darrm_opt.accounting.sampling`).

The table with the most right answers among those of one Rényi divergence (`RenyiTables`), at the best order; for few
queries, at δ = 0, or if one sample or record reaches more, the table of the linear program at the largest ε of one
release of which all queries fit. Both are accounted for by every account of sampled releases.

*Tables for many releases.* The linear program's table is the best at one ε of one release. The cost of many releases is
a sum of Rényi divergences, for which another shape is better: a rare answer may have a large loss. At one order λ and
rate q the best table solves a convex program,

    maximise    w · x
    subject to  Σ_c P_c^λ·Q_c^(1−λ) ≤ e^((λ−1)·r)        for each sampled pair (P, Q) of the table x

with P and Q linear in x, and the left side convex in them. Every mechanism that treats the classes alike is a table, so
at its order none has a larger utility within the same bound. The solver uses supporting hyperplanes (Veinott 1967): the
line from an interior table to the optimum of the linear program crosses each violated constraint once, where a cut is
added. No proof depends on it: the cost of a table is computed from its own laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from darrm_opt.accounting.calibrate import Calibration, calibrate, epsilon_each
from darrm_opt.accounting.sampling import EACH_VOTER, Sampling
from darrm_opt.mechanisms.sampled_votes import vote_triples
from darrm_opt.mechanisms.table import TableMechanism, table_laws
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.planning.option import TOO_MANY_COUNTS, Option
from darrm_opt.planning.question import Question
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy, Problem
from darrm_opt.tables.problem import Index, has_table, partition_cells
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

if TYPE_CHECKING:
    from scipy import sparse

    from darrm_opt.tables.edge_program import EdgeProgram

MAX_PARTITIONS = 600  # number of vote counts up to which a table is designed: seconds
MIN_COMPOSED_QUERIES = 10  # number of queries below which a table of a single release may be better by a few 1e-4
PRECISION = 2e-3  # relative distance of the cost, or of the ε of one release, from the largest that fits


def _table_problem(question: Question, epsilon: float) -> Problem:
    """Return the problem of one table for an ε of one release."""
    return replace(question.problem, target=Privacy(epsilon), abstention=question.price > 0)


def sampled_table(question: Question, sampling: Sampling) -> Option:
    """Return the better of a composed table and, for few queries or if that does not fit, one of a single release."""
    composes = question.total.delta > 0 and sampling.labels == 1 and sampling.scheme not in EACH_VOTER
    tables = [_composed_table(question, sampling)] if composes else []
    if question.queries < MIN_COMPOSED_QUERIES or not any(option.fits for option in tables):
        tables.append(_table(question, sampling))
    return max(tables, key=lambda option: (option.fits, option.utility or 0.0))


def _table(question: Question, sampling: Sampling) -> Option:
    """Return the best table of one release whose Q sampled releases fit."""
    # The ε of one release only proposes a table. Its proved cost, from its own laws, is far below that of an arbitrary
    # mechanism of that ε, so the search for ε uses the proved cost.
    if not has_table(question.K, question.classes, MAX_PARTITIONS):
        return Option.unfit("optimal", question, TOO_MANY_COUNTS, "not computed")
    queries, total = question.queries, question.total

    def make(epsilon: float) -> tuple[tuple[TableMechanism, float], float]:
        problem = _table_problem(question, epsilon)
        solution = solve_table(problem, question.vote_law.objective)
        mechanism = TableMechanism(problem, solution.table)
        return (mechanism, solution.gap), mechanism.epsilon(queries, total.delta, sampling)

    # This ε fits by the generic bound if a record reaches one voter.
    each = epsilon_each(total, 0.0, queries)
    draws_voters = sampling.scheme in EACH_VOTER
    guess = each if draws_voters else math.log1p(math.expm1(min(each, 700.0)) / sampling.chance)
    found: Calibration[tuple[TableMechanism, float]] | None = calibrate(
        make,
        total.epsilon,
        MAX_TARGET_EPSILON,
        guess=min(guess, MAX_TARGET_EPSILON),
        precision=PRECISION,
        stop=question.stop,
    )
    return Option.nothing_fits("optimal", question) if found is None else _option(question, sampling, *found.result)


def _option(question: Question, sampling: Sampling, mechanism: TableMechanism, gap: float | None = None) -> Option:
    target, spent = mechanism.problem.target, mechanism.cost(question.queries, question.total.delta, sampling)
    parameters = {"epsilon": target.epsilon, "delta": target.delta}
    shares = question.vote_law.table_shares(mechanism.table)
    return Option.of_mechanism("optimal", question, mechanism, shares, spent, parameters, gap=gap)


GAP, MAX_ROUNDS = 2e-6, 60
"""Largest loss of utility below the optimum, and maximum number of linear programs for one table."""

CUTS = 100  # maximum number of cuts added at once: those crossed first
UNIFORM = 1e-7  # share of the uniform table that is mixed in, so that each loss is finite

BISECTIONS, COARSE_BISECTIONS = 32, 6
"""Bisection steps for a crossing, and those after which most constraints are dropped."""


class RenyiTables:
    """The program for one problem (its target is not used), one sampling and the utility of each cell."""

    def __init__(self, problem: Problem, weights: Array, sampling: Sampling) -> None:
        with needed_by("The linear program of several classes"):
            from scipy import sparse

        self._sparse = sparse
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
        cells = partition_cells(problem).find(counts)
        off, on, other = (cells[triples[:, side]] for side in range(3))
        return off, on, other

    @property
    def is_possible(self) -> bool:
        """Whether the triples can be listed."""
        return self._places is not None

    @cached_property
    def _sides(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Matrices from a table to P and to Q, with a row for each answer of a pair."""
        assert self._places is not None  # noqa: S101 - the caller asked
        off, on, other = self._places
        without, first, second = (
            self._mixed(off, side, rate) for side, rate in ((off, 0.0), (on, self._rate), (other, self._rate))
        )
        if self._three:
            return first, second
        left, right = (self._sparse.vstack(pair, format="csr") for pair in ((without, first), (first, without)))
        return left, right

    def _mixed(self, off: Index, on: Index, rate: float) -> sparse.csr_array:
        rows = np.arange(off.size)
        values = np.concatenate([np.full(off.size, 1 - rate), np.full(on.size, rate)])
        places = (np.concatenate([rows, rows]), np.concatenate([off.ravel(), on.ravel()]))
        return self._sparse.coo_array((values, places), shape=(off.size, self._size)).tocsr()

    def best(self, order: float, divergence: float, stop: Callable[[], bool]) -> Array:
        """Return nearly the most useful table whose pairs have at most this Rényi divergence [nats] at order λ > 1."""
        from darrm_opt.tables.edge_program import EdgeProgram

        limit, (left, right) = math.expm1(min((order - 1) * divergence, MAX_EXPONENT)), self._sides
        program = EdgeProgram(partition_cells(self._problem), self._weights)
        outputs = self._problem.classes + self._problem.abstention
        # The uniform table has no loss, so it is interior; by convexity each ray from it leaves the feasible set once.
        inside = np.full(self._size, 1 / outputs)
        found, utility = inside, float(self._weights @ inside)
        for _ in range(MAX_ROUNDS):
            _, outside, _, _ = program.solve(math.inf)
            # a probability of 0 on one side alone would make F infinite and have no tangent.
            outside = (1 - UNIFORM) * np.maximum(outside, 0.0) + UNIFORM / outputs
            # This relaxation has fewer constraints: its optimum is nearly an upper bound, and `found` is feasible.
            if self._weights @ outside - utility <= GAP or stop():
                break
            ends = [(side @ table).reshape(-1, outputs) for table in (inside, outside) for side in (left, right)]
            violated = np.flatnonzero(_excess(ends[2], ends[3], order).sum(axis=1) > limit)
            if not violated.size:
                return outside
            p, q, p_out, q_out = (end[violated] for end in ends)
            share = _crossing(p, q, p_out - p, q_out - q, order, limit)
            # Short of the first crossing by more than the bisection error: every table kept is feasible.
            least = float(share.min()) * (1 - 1e-9)
            table = inside + least * (outside - inside)
            if self._weights @ table > utility:
                found, utility = table, float(self._weights @ table)
            # The constraints crossed first cut off most; more cuts at once would slow each program down.
            new = np.argsort(share)[:CUTS]
            p, q = (a[new] + share[new, None] * (b[new] - a[new]) for a, b in ((p, p_out), (q, q_out)))
            self._cut(program, violated[new], p, q, order, limit)
            # Halfway to the boundary: rays from there end nearer to the optimum, and it stays interior.
            inside = (inside + table) / 2
        return found

    def _cut(self, program: EdgeProgram, pairs: Index, p: Array, q: Array, order: float, limit: float) -> None:
        """Add the tangents at pairs of laws where the constraint holds with equality."""
        left, right = self._sides
        ratio = p / q
        by_p = order * (ratio ** (order - 1) - 1)
        by_q = _excess(p, q, order) / q - ratio * by_p
        constant = _excess(p, q, order).sum(axis=1) - (by_p * p + by_q * q).sum(axis=1)
        rows = (pairs[:, None] * p.shape[1] + np.arange(p.shape[1])).ravel()
        owner = np.repeat(np.arange(pairs.size), p.shape[1])
        places, shape = (owner, np.arange(owner.size)), (pairs.size, owner.size)
        of_p, of_q = (self._sparse.csr_array((by.ravel(), places), shape=shape) for by in (by_p, by_q))
        gradient = (of_p @ left[rows] + of_q @ right[rows]).tocsr()
        scale = 1 / np.maximum(abs(gradient).max(axis=1).toarray().ravel(), 1e-300)
        program.add(self._sparse.diags_array(scale) @ gradient, (limit - constant) * scale)

    def mechanism(self, table: Array) -> TableMechanism:
        """Return the mechanism of a table, proved private at the largest loss of an unsampled release."""
        problem = self._problem
        outputs = problem.classes + problem.abstention
        mixed = (1 - UNIFORM) * table + UNIFORM / outputs
        proved = Table.normalised(partition_cells(problem), mixed)
        largest = table_laws(proved, problem.affected).max_loss
        target = Privacy(largest * (1 + 1e-6) + 1e-9)
        return TableMechanism(replace(problem, target=target), proved)


def _excess(p: Array, q: Array, order: float) -> Array:
    """Return Q·(t^λ − 1 − λ(t − 1)), t = P/Q, of each answer: its share of Σ P^λ Q^(1−λ) − 1, without cancellation."""
    with np.errstate(over="ignore"):
        return np.asarray(q * np.expm1(order * np.log(p / q)) - order * (p - q))


def _crossing(p: Array, q: Array, p_step: Array, q_step: Array, order: float, limit: float) -> Array:
    """Return the share of its step at which each pair reaches the limit, from below; rough beyond the first `CUTS`."""
    low, high = np.zeros(len(p)), np.ones(len(p))
    p, q, p_step, q_step = (np.ascontiguousarray(each.T) for each in (p, q, p_step, q_step))  # sums are fast so
    left = np.arange(low.size)
    for number in range(BISECTIONS):
        if number == COARSE_BISECTIONS and low.size > CUTS:  # drop those certainly not among the first
            left = np.flatnonzero(low <= np.partition(high, CUTS - 1)[CUTS - 1])
            p, q, p_step, q_step = (np.ascontiguousarray(each[:, left]) for each in (p, q, p_step, q_step))
        middle = (low[left] + high[left]) / 2
        inside = _excess(p + middle * p_step, q + middle * q_step, order).sum(axis=0) <= limit
        low[left], high[left] = np.where(inside, middle, low[left]), np.where(inside, high[left], middle)
    return low


MAX_EXPONENT = 700.0
"""Largest logarithm of a sum of powers that limits a table: beyond it nearly every table is feasible."""

ORDERS, ORDER_STEP = 4, 1.5
"""Steps of the search for the order of a composed table, and the factor of λ − 1 between the first ones."""


def _composed_table(question: Question, sampling: Sampling) -> Option:
    """Return the best table by the Rényi divergence of all queries together, at the best order."""
    total, queries = question.total, question.queries
    problem = _table_problem(question, 1.0)
    weights, _ = question.vote_law.objective.cell_weights(partition_cells(problem))
    tables = RenyiTables(problem, weights, sampling)
    if not tables.is_possible:
        return Option.unfit("optimal", question, TOO_MANY_COUNTS, "not computed")

    @cache
    def at(order: float) -> float:
        return float(weights @ tables.best(order, divergence(order), question.stop))

    def divergence(order: float) -> float:
        """Return an estimate of the Rényi divergence of one release within the total."""
        slack = math.log1p(-1 / order) - math.log(total.delta * order) / (order - 1)
        return max((total.epsilon - slack) / queries, 1e-9 * total.epsilon)

    # Start from the order of a Gaussian mechanism of the same total, then climb.
    bits = -math.log(total.delta)
    order = 1 + math.sqrt(bits) / (math.sqrt(total.epsilon + bits) - math.sqrt(bits))
    step = ORDER_STEP
    for _ in range(ORDERS):
        around = [1 + (order - 1) / step, order, 1 + (order - 1) * step]
        best = max(around, key=at)
        if best == order:
            step = math.sqrt(step)
        order = best
        if question.stop():
            break

    def make(share: float) -> tuple[TableMechanism, float]:
        mechanism = tables.mechanism(tables.best(order, share * divergence(order), question.stop))
        return mechanism, mechanism.epsilon(queries, total.delta, sampling)

    found: Calibration[TableMechanism] | None = calibrate(
        make, total.epsilon, MAX_SHARE, guess=1.0, precision=PRECISION, guess_error=GUESS_ERROR, stop=question.stop
    )
    return Option.nothing_fits("optimal", question) if found is None else _option(question, sampling, found.result)


MAX_SHARE, GUESS_ERROR = 4.0, 0.01
"""Largest multiple of the estimated divergence that is tried, and the relative error of the estimate."""
