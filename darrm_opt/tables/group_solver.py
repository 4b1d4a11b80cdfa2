"""The best private release of the votes of groups: objective, cutting planes, dual bound, certificate.

Rows say, for a corner with laws P, P′ and a set S of outputs, with D = e^−ε·P − P′,

    Σ_n D(n)·Σ_o ([o ∈ S] − |S|/outputs)·x[o, n] ≤ e^−ε·δ + (1 − e^−ε)·|S|/outputs,

the limit being what x = 0 leaves. With two classes and one group these are the rows of γ, which has a faster search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from darrm_opt.design.backends import Outcome, open_backend
from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import real_number
from darrm_opt.rounding import UNIT_ROUNDOFF
from darrm_opt.tables.corners import Corners, laws_at, voter_maps
from darrm_opt.tables.group_table import GroupCertificate, GroupTable, certify_groups, corners_of
from darrm_opt.tables.groups import GroupCells, GroupProblem, Index
from darrm_opt.tables.priors import Dirichlet, FavouredBeta, PluralityPrior, Ties, parse_prior
from darrm_opt.tables.problem import histograms

CANONICAL_WEIGHT = 1e-9
"""Share of the objective that asks for the leading class everywhere, also where the prior gives little weight."""

VIOLATION = 2e-12
"""Excess below which a constraint counts as met; what is left is repaired."""

STEP_INWARD = 0.8
"""Cuts are sought at this share of the way from the program's answer to a private table: such cuts are deeper."""

NEAR = 1e-3
"""Utility below the program's from which on cuts are sought at its own answer."""

MAX_NEW_ROWS = 400
"""Most rows of one round."""

ROWS_PER_VARIABLE, IDLE_ROUNDS = 4, 3
"""Above so many rows for each variable, those that have not bound for so many rounds are dropped."""

MAX_ROUNDS = 400
"""Rounds after which a solve stops short."""

MAX_PRICE = 1e6
"""Largest price of a wrong label: beyond, right ones no longer count in doubles."""

MAX_CELLS = 4000
"""Most cells of a table that is designed: rows are dense."""


@dataclass(frozen=True)
class GroupObjective:
    """Utility of a release: Pr[right] − price·Pr[wrong], expected over how votes fall.

    Right means that the plurality of the votes cast is released; ⊥ is neither right nor wrong. For two classes γ's
    utility is 2·Pr[right] − 1, scaled to 1 where nothing is lost.
    """

    prior: PluralityPrior  # how the votes of all groups together fall; voters of every group have the same chances
    # "excluded": expected given that one class alone leads; "any": any of the leading classes is right
    ties: Ties = "excluded"
    price: float = 0.0  # what a wrong label costs, in right ones, ≥ 0
    weights: tuple[float, ...] | None = None  # worth of one vote of each group, > 0, for which the plurality is taken

    def __post_init__(self) -> None:
        if not isinstance(self.prior, PluralityPrior):
            raise InvalidInput("prior", self.prior, "a prior of votes among classes")
        if self.ties not in ("excluded", "any"):
            raise InvalidInput("ties", self.ties, "'excluded' or 'any'")
        object.__setattr__(self, "price", _price(self.price))
        if self.weights is not None:
            weights = tuple(real_number(w, "weights", "numbers above 0, one for each group") for w in self.weights)
            if not all(0 < w < math.inf for w in weights):
                raise InvalidInput("weights", self.weights, "numbers above 0, one for each group")
            object.__setattr__(self, "weights", weights)

    def worth(self, cells: GroupCells) -> Array:
        """Return the utility of each output by its counts, times their probability, shape (counts, outputs)."""
        masses = self._masses(cells)
        leads = _leaders(cells, self.weights)
        if self.ties == "excluded":
            masses = np.where(leads.sum(axis=1) == 1, masses, 0.0)
            if not masses.sum() > 0:
                raise InvalidInput("prior", str(self.prior), "a prior under which one class can lead alone")
            masses = masses / masses.sum()
        table = np.where(leads, masses[:, None], -self.price * masses[:, None])
        return np.column_stack([table, np.zeros(len(table))]) if cells.abstention else table

    def _masses(self, cells: GroupCells) -> Array:
        """Return the probability of the groups' counts: voters are exchangeable, so that of a sequence times ways."""
        K = sum(cells.sizes)
        whole = histograms(K, cells.classes, 1, abstention=False)
        logs = []
        for partition, mass in zip(whole.partitions, self.prior.masses(whole).tolist(), strict=True):
            orders = math.factorial(len(partition))
            for count in set(partition):
                orders //= math.factorial(partition.count(count))
            ways = math.lgamma(K + 1) - math.fsum(math.lgamma(n + 1) for n in partition) + math.log(orders)
            logs.append(math.log(mass) - ways if mass > 0 else -math.inf)
        totals = -np.sort(-cells.counts.sum(axis=1), axis=1)
        places = [whole.numbers[tuple(total)] for total in totals.tolist()]
        masses = np.exp(np.array(logs)[places] + cells.log_ways())
        return np.asarray(masses / math.fsum(masses.tolist()))

    def __str__(self) -> str:
        return str(self.prior)


@dataclass(frozen=True)
class GroupTruth:
    """Utility of a release: Pr[right] − price·Pr[wrong], right being a true class that voters know more or less well.

    Every class is true equally often; a voter of group g answers it with its group's chance, else another at random.
    So votes weigh what they tell: log-odds, by themselves.
    """

    chances: tuple[float, ...]  # of each group [probability], in (0, 1)
    price: float = 0.0  # what a wrong label costs, in right ones, ≥ 0

    def __post_init__(self) -> None:
        accepted = "chances of a right answer, one for each group, in (0, 1)"
        chances = tuple(real_number(a, "chances", accepted) for a in self.chances)
        if not chances or not all(0 < a < 1 for a in chances):
            raise InvalidInput("chances", self.chances, accepted)
        object.__setattr__(self, "chances", chances)
        object.__setattr__(self, "price", _price(self.price))

    def worth(self, cells: GroupCells) -> Array:
        """Return the utility of each output by its counts, times their probability, shape (counts, outputs)."""
        if len(self.chances) != len(cells.sizes):
            raise InvalidInput("chances", self.chances, f"{len(cells.sizes)} chances, one for each group")
        right = np.log(np.array(self.chances))[:, None]
        wrong = np.log((1 - np.array(self.chances)) / (cells.classes - 1))[:, None]
        sizes = np.array(cells.sizes)[:, None]
        logs = cells.log_ways()[:, None] + (cells.counts * right + (sizes - cells.counts) * wrong).sum(axis=1)
        joint = np.exp(logs) / cells.classes  # Pr[counts, truth], shape (counts, classes)
        table = (1 + self.price) * joint - self.price * joint.sum(axis=1, keepdims=True)
        return np.column_stack([table, np.zeros(len(table))]) if cells.abstention else table

    def __str__(self) -> str:
        return f"truth({','.join(repr(a) for a in self.chances)})"


@dataclass(frozen=True, eq=False)
class GroupWorth:
    """Utility of each output by its counts, times their probability, as numbers."""

    values: Array  # shape (counts, outputs)
    price: float = 0.0

    def worth(self, cells: GroupCells) -> Array:
        """Return the numbers."""
        if self.values.shape != (len(cells.counts), cells.outputs):
            raise InvalidInput("values", self.values.shape, f"shape {(len(cells.counts), cells.outputs)}")
        return self.values

    def __str__(self) -> str:
        return "worth(…)"


def as_group_objective(
    text: str | AnyGroupObjective | PluralityPrior,
    price: float = 0.0,
    ties: Ties = "excluded",
    weights: Sequence[float] | None = None,
) -> AnyGroupObjective:
    """Return an objective, given one, a prior, or a text: truth(a_1,…,a_G), shared(a,b), or a prior's.

    shared(a,a) is dirichlet(a), as for γ; shared(a,b) is beta(a,b). ``weights`` are what one vote of each group is
    worth; equal ones are none. A truth has neither ties nor weights: its votes weigh what they tell.
    """
    if isinstance(text, GroupObjective | GroupTruth | GroupWorth):
        return text
    weigh = None if weights is None else tuple(weights)
    # Equal weights are none, whatever they are: one question has one key.
    if weigh is not None and len(set(weigh)) == 1 and 0 < weigh[0] < math.inf:
        weigh = None
    if not isinstance(text, str):
        return GroupObjective(text, ties, price, weigh)
    name, _, inside = text.strip().removesuffix(")").partition("(")
    if name in ("truth", "shared"):
        accepted = "truth(a_1,…,a_G) or shared(a,b)"
        try:
            numbers = tuple(float(part) for part in inside.split(","))
        except ValueError as err:
            raise InvalidInput("objective", text, accepted) from err
        # A truth is Bayes' rule for the voters' accuracies: weights of votes or a rule for ties would contradict it.
        if name == "truth":
            for argument, value, default in (("ties", ties, "excluded"), ("weights", weigh, None)):
                if value != default:
                    raise InvalidInput(argument, value, "nothing beside truth(…): its votes weigh what they tell")
            return GroupTruth(numbers, price)
        if len(numbers) != 2:
            raise InvalidInput("objective", text, accepted)
        a, b = numbers
        # The name that the two-class objective has, so that a question can be asked of γ and of groups in the same
        # words.
        return GroupObjective(Dirichlet(a) if a == b else FavouredBeta(a, b), ties, price, weigh)
    return GroupObjective(parse_prior(text), ties, price, weigh)


AnyGroupObjective = GroupObjective | GroupTruth | GroupWorth
"""What can be maximised."""


@dataclass(frozen=True)
class GroupStatistics:
    """What a solve took."""

    corners: int  # of a sweep
    cuts: int  # privacy rows in the final program
    rounds: int  # programs solved
    iterations: int  # simplex iterations in all
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class GroupSolution:
    """A certified table."""

    problem: GroupProblem
    objective: AnyGroupObjective
    table: GroupTable  # the release
    utility: float  # of the table
    upper_bound: float  # proven bound on the utility of any private release that sees the counts of the groups alone
    status: Status
    certificate: GroupCertificate
    statistics: GroupStatistics  # what it took

    @property
    def gap(self) -> float:
        """How much larger the utility of the best private release could be, at most; ≥ 0."""
        return max(0.0, self.upper_bound - self.utility)


class _Program:
    """The rows, as the backend and the dual bound see them."""

    def __init__(self, problem: GroupProblem, corners: Corners, backend: str) -> None:
        from scipy import sparse  # reading and proving a table takes none

        cells = problem.cells
        count = len(cells.owners)
        self.problem, self.cells, self.corners = problem, cells, corners
        self.to_cells = [
            sparse.csr_array(
                (np.ones(len(cells.cell)), (np.arange(len(cells.cell)), cells.cell[:, o])),
                shape=(len(cells.cell), count),
            )
            for o in range(cells.outputs)
        ]
        # Between two classes a table is d = x[0] − x[1] in [−1, 1], one number an orbit (none where both have the same
        # counts): the backend sees (1 + d)/2, half as many variables, and needs no sums.
        self.pairs = cells.starts[np.bincount(cells.owners) == 2] if cells.outputs == 2 else None
        self.variables = count if self.pairs is None else len(self.pairs)
        self.backend = open_backend(backend, self.variables)
        self.sums = 0
        if self.pairs is None:
            sums = np.zeros((len(cells.first), count))
            sums[cells.owners, np.arange(count)] = cells.multiplicities
            self.backend.add(sums, np.ones(len(sums)))
            self.sums = len(sums)
        self._rows_of: dict[bytes, tuple[Index, Array]] = {}
        self._idle = np.zeros(0, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._rows_of)

    def add(self, found: Index, sets: Any) -> int:
        """Add the rows that are new; return how many."""
        before_adding = len(self)
        new = []
        for i, (corner, chosen) in enumerate(zip(found, sets.astype(np.float64), strict=True)):
            key = corner.tobytes() + sets[i].tobytes()
            if key not in self._rows_of:
                self._rows_of[key] = (corner, chosen)
                new.append(i)
        if new:
            before, after = laws_at(self.problem, self.corners.maps, self.corners.multisets(found[new]))
            chosen = sets[new].astype(np.float64)
            rows, limits = self._rows(before, after, chosen, self.corners.inverse, self.corners.limit)
            if self.pairs is not None:  # entries of the two classes differ in sign alone
                rows = rows[:, self.pairs]
                rows, limits = 2 * rows, limits + rows.sum(axis=1)
            self.backend.add(rows, limits)
        return len(self) - before_adding

    def solve(self, weights: Array, seconds: float | None) -> Outcome:
        """Return the backend's outcome, with x in place of its variables."""
        if self.pairs is None:
            outcome = self.backend.solve(weights, seconds)
            return outcome._replace(upper_half=np.clip(outcome.upper_half, 0.0, 1.0))
        outcome = self.backend.solve(2 * weights[self.pairs], seconds)
        d = np.clip(2 * outcome.upper_half - 1, -1.0, 1.0)
        x = np.zeros(weights.size)
        x[self.pairs], x[self.pairs + 1] = np.maximum(d, 0.0), np.maximum(-d, 0.0)
        return outcome._replace(upper_half=x)

    def drop_idle(self, multipliers: Array) -> Array:
        """Drop rows that no longer bind, where there are many; return the multipliers of those that stay."""
        # Rows are dense, one number a cell, and most bind for a few rounds only. Should the corner of a dropped row be
        # violated, a sweep finds it again.
        y = multipliers[self.sums :]
        idle = np.zeros(len(y), dtype=np.intp)
        idle[: len(self._idle)] = self._idle
        self._idle = np.where(y > 0, 0, idle + 1)
        if len(y) <= ROWS_PER_VARIABLE * self.variables:
            return y
        stay = self._idle < IDLE_ROUNDS
        if not stay.all():
            self.backend.drop(np.flatnonzero(~stay) + self.sums)
            self._rows_of = {k: v for (k, v), keep in zip(self._rows_of.items(), stay.tolist(), strict=True) if keep}
            self._idle = self._idle[stay]
        return np.asarray(y[stay])

    def _rows(self, before: Array, after: Array, sets: Array, inverse: float, limit: float) -> tuple[Array, Array]:
        # What is left of 1 is shared by all outputs: a set's chance is Σ x over it and its share of the rest, so the
        # mean is taken off every coefficient, and the constant part goes into the limit.
        share = sets.mean(axis=1, keepdims=True)
        loss = inverse * before - after
        rows = np.zeros((len(sets), len(self.cells.owners)))
        for o, to_cells in enumerate(self.to_cells):
            rows += (loss * (sets[:, o, None] - share)) @ to_cells
        return rows, limit + (1 - inverse) * share[:, 0]

    def bound(self, weights: Array, multipliers: Array) -> float:
        """Return a proven bound on weights·x over every private table, for the loosest reading of the problem.

        Guarantees: Never below the optimum, whatever the rows' multipliers (negative ones become 0): rounding is added.
        """
        y = np.where((multipliers > 0) & (multipliers < np.inf), multipliers, 0.0)
        rows, limits = np.zeros((0, weights.size)), np.zeros(0)
        voters, target = self.problem.loosest
        inverse = math.exp(-target.epsilon)
        # The rows that bind are made again for the loosest reading: the program's are those of the strictest.
        used = np.flatnonzero(y)
        y = y[used]
        if len(y):
            known = list(self._rows_of.values())
            corners = np.array([known[i][0] for i in used.tolist()])
            sets = np.array([known[i][1] for i in used.tolist()])
            maps = [voter_maps(voter, self.cells.classes) for voter in voters]
            before, after = laws_at(self.problem, maps, self.corners.multisets(corners))
            rows, limits = self._rows(before, after, sets, inverse, target.delta * inverse)
        charged = rows.T @ y
        # A row as computed differs from the true one by ``relative`` of its parts, which x ≤ 1 in sum charges at most
        # (1 + e^−ε) of; then the roundings of the sums above, each entry's terms in ulps.
        terms = (len(y) + 8) * 2 * UNIT_ROUNDOFF * (np.abs(weights) + np.abs(rows).T @ y)
        slack = 2 * self.corners.relative * (1 + inverse) * float(y.sum())
        # What an orbit's x, with Σ multiplicity·x ≤ 1, can gain beyond the charge: its best cell's, for the whole of 1.
        gains = np.maximum.reduceat((weights - charged + terms) / self.cells.multiplicities, self.cells.starts)
        parts = [*np.maximum(gains, 0.0).tolist(), *(limits * y).tolist()]
        return math.fsum(parts) * (1 + 8 * UNIT_ROUNDOFF) + slack * (1 + len(parts) * UNIT_ROUNDOFF)


def solve_groups(
    problem: GroupProblem,
    objective: AnyGroupObjective | PluralityPrior | str = "dirichlet(1)",
    *,
    backend: str = "highs",
    time_limit: float | None = None,
) -> GroupSolution:
    """Return the best private release of the votes of groups among classes, with its certificate.

    After ``time_limit`` seconds the best table so far is returned with a gap.

    Guarantees: The table is (ε, δ)-DP for its doubles exactly as stored; no private release that sees the groups'
    counts alone has a utility above ``upper_bound``.
    Source: ours; Problem 1.1 of the paper for any number of classes and voters that are not alike.

    >>> from darrm_opt import Privacy
    >>> from darrm_opt.tables.groups import group_of
    >>> round(solve_groups(GroupProblem(3, [group_of(5, 0.5)], Privacy(1.0))).utility, 4)
    0.9488
    """
    start = time.perf_counter()
    if not isinstance(problem, GroupProblem):
        raise InvalidInput("problem", problem, "a GroupProblem")
    deadline = start + _seconds(time_limit)
    goal, cells = as_group_objective(objective), problem.cells
    if len(cells.owners) > MAX_CELLS:
        raise InvalidInput("groups", f"{len(cells.owners):,} cells", f"at most {MAX_CELLS:,} cells of a table")
    worth = goal.worth(cells)
    weights, constant = _cell_weights(worth, cells)
    asked = (1 - CANONICAL_WEIGHT) * weights + CANONICAL_WEIGHT * _everywhere(cells)
    corners = corners_of(problem)
    program = _Program(problem, corners, backend)
    x = inside = np.zeros(weights.size)
    multipliers = np.zeros(0)
    status, rounds, iterations = Status.ITERATION_LIMIT, 0, 0
    while rounds < MAX_ROUNDS:
        left = deadline - time.perf_counter()
        if left <= 0:
            status = Status.TIME_LIMIT
            break
        outcome = program.solve(asked, None if left == math.inf else left)
        rounds, iterations = rounds + 1, iterations + outcome.iterations
        if outcome.status is not Status.OPTIMAL:
            status = outcome.status
            break
        x = outcome.upper_half
        multipliers = program.drop_idle(outcome.multipliers)
        # While the best private table is far below, cuts are sought on the way to it: they are deeper.
        share = STEP_INWARD if float(asked @ (x - inside)) > NEAR else 0.0
        while True:
            point = share * inside + (1 - share) * x
            found = corners.violations(_chances(point, cells), VIOLATION, MAX_NEW_ROWS)
            private = point * corners.private_share(found.largest)
            if asked @ private > asked @ inside:
                inside = private
            added = program.add(found.corners, found.sets)
            if added or share == 0.0 or time.perf_counter() > deadline:
                break
            share = 0.0 if share < 0.3 else share / 2
        if not added:  # nothing is violated, or nothing that is not known already
            status = Status.OPTIMAL if share == 0.0 else Status.TIME_LIMIT
            break
    # The bound is on the utility alone, without the canonical part: any multipliers prove one, these nearly the best.
    bound = program.bound(weights, multipliers)
    program.backend.close()
    candidates = [x] if status is Status.OPTIMAL else [x, inside]
    table, certificate, utility = _best(problem, worth, candidates)
    upper = bound + constant
    upper += 8 * UNIT_ROUNDOFF * worth.size * float(np.abs(worth).sum())  # of the weights' own sums
    statistics = GroupStatistics(len(corners), len(program), rounds, iterations, time.perf_counter() - start)
    return GroupSolution(problem, goal, table, utility, max(upper, utility), status, certificate, statistics)


def _best(problem: GroupProblem, worth: Array, candidates: list[Array]) -> tuple[GroupTable, GroupCertificate, float]:
    """Return the best of the candidates once repaired, its certificate and its utility."""
    if problem.cells.abstention:  # silence is private whatever the target is
        silent = np.zeros(len(problem.cells.owners))
        silent[problem.cells.cell[:, -1]] = 1.0
        candidates = [*candidates, silent]
    proved = [certify_groups(problem, GroupTable.normalised(problem, candidate)) for candidate in candidates]
    scored = [(*pair, math.fsum((worth * pair[0].chances).ravel().tolist())) for pair in proved]
    return max(scored, key=lambda one: one[2])


def _seconds(time_limit: float | None) -> float:
    return math.inf if time_limit is None else real_number(time_limit, "time_limit", "seconds, above 0", above=0)


def _price(value: Any) -> float:
    return real_number(value, "price", f"a number from 0 to {MAX_PRICE:g}", least=0, most=MAX_PRICE) + 0.0


def _leaders(cells: GroupCells, weights: tuple[float, ...] | None) -> Any:
    """Return which classes lead, shape (counts, classes)."""
    if weights is not None and len(weights) != len(cells.sizes):
        raise InvalidInput("weights", weights, f"{len(cells.sizes)} numbers, one for each group")
    scores = np.einsum("ngc,g->nc", cells.counts, np.ones(len(cells.sizes)) if weights is None else np.array(weights))
    return scores >= scores.max(axis=1, keepdims=True) * (1 - 1e-12)


def _chances(x: Array, cells: GroupCells) -> Array:
    """Return Pr[o | n] of x, shape (counts, outputs)."""
    rest = 1 - np.add.reduceat(x * cells.multiplicities, cells.starts)
    return np.asarray((x + rest[cells.owners] / cells.outputs)[cells.cell])


def _cell_weights(worth: Array, cells: GroupCells) -> tuple[Array, float]:
    """Return (w, constant): the utility of x is w·x + constant."""
    mean = worth.mean(axis=1)
    weights = np.bincount(cells.cell.ravel(), (worth - mean[:, None]).ravel(), minlength=len(cells.owners))
    return np.asarray(weights, dtype=np.float64), math.fsum(mean.tolist())


def _everywhere(cells: GroupCells) -> Array:
    """Return weights that leave no entry to chance: the leading class is worth something at every count."""
    scores = cells.counts.sum(axis=1) / sum(cells.sizes)
    if cells.abstention:
        scores = np.column_stack([scores, np.zeros(len(scores))])
    return _cell_weights(scores / len(scores), cells)[0]
