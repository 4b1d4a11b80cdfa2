"""Objectives: the value of a release of votes among classes.

PluralityObjective    right is the plurality of the votes cast, under a prior of the votes
Truth                 right is a true class, which the voters of each group know with some probability
Worth                 any numbers, by vote count and output
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.arguments import real_number
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.noise import Array
from darrm_opt.problem import Problem
from darrm_opt.tables.groups import AnyCells, GroupCells, cells_of, group_cells
from darrm_opt.tables.priors import FORMS, Dirichlet, FavouredBeta, PluralityPrior, Ties, parse_prior
from darrm_opt.tables.problem import Histograms, histograms
from darrm_opt.tables.table import Table

MAX_PRICE = 1e6  # largest price of a wrong label in a named objective: beyond it, right ones do not count in doubles


@dataclass(frozen=True)
class PluralityObjective:
    """Utility of a release: Pr[right] − price·Pr[wrong], expected over a prior.

    Right means that the plurality of the votes cast is released; wrong, that another class is; ⊥ is neither. For two
    classes γ's utility is 2·Pr[right] − 1, scaled to 1 without noise.

    Args:
        prior: prior of the votes; for groups, of all votes together, as voters of every group have equal probabilities.
        ties: "excluded": expected given that one class alone leads; "any": any of the leading classes is right.
        price: cost of a wrong label relative to a right one, ≥ 0; it changes the answer only if ⊥ may be released.
        weights: weight of one vote of each group in the plurality, > 0; equal weights become None: votes count alike.

    Raises:
        InvalidInput: a parameter out of range.
    """

    prior: PluralityPrior
    ties: Ties = "excluded"
    price: float = 0.0
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prior, PluralityPrior):
            raise InvalidInput("prior", self.prior, f"a prior: {FORMS}")
        if self.ties not in ("excluded", "any"):
            raise InvalidInput("ties", self.ties, "'excluded' or 'any'")
        price = real_number(self.price, "price", "a number at least 0", least=0, below=math.inf)
        object.__setattr__(self, "price", price + 0.0)
        object.__setattr__(self, "weights", _weights(self.weights))

    def judged(self, masses: Array, alone: NDArray[np.bool_]) -> Array:
        """Return the probabilities of the vote counts, given that one class leads alone if ties are excluded.

        Args:
            masses: probability of each vote count.
            alone: whether one class leads alone at each.

        Raises:
            InvalidInput: one class never leads alone.
        """
        if self.ties == "any":
            return masses
        judged = np.where(alone, masses, 0.0)
        if not judged.sum() > 0:
            raise InvalidInput("prior", str(self.prior), "a prior under which one class can lead alone")
        return np.asarray(judged / judged.sum())

    def cell_weights(self, cells: Histograms) -> tuple[Array, float]:
        """Return (w, constant): the utility of a table is Σ w·x + constant, x the probability in each cell.

        Raises:
            InvalidInput: the prior does not fit the voters and classes, or one class never leads alone.
        """
        masses = self.judged(self.prior.masses(cells), cells.strict)
        table = np.zeros(cells.values.size)
        table[cells.starts] = masses * (1 + self.price) * cells.multiplicities[cells.starts]
        if cells.abstention:
            silent = np.append(cells.starts[1:], cells.values.size) - 1
            table[silent] = masses * self.price
        return table, -self.price * float(masses.sum())

    def worth(self, cells: GroupCells) -> Array:
        """Return the utility of each output by its counts, times their probability, shape (counts, outputs).

        Raises:
            InvalidInput: as `cell_weights`, or the number of weights is not that of groups.
        """
        leads = self._leaders(cells)
        masses = self.judged(self._masses(cells), leads.sum(axis=1) == 1)
        table = np.where(leads, masses[:, None], -self.price * masses[:, None])
        return np.column_stack([table, np.zeros(len(table))]) if cells.abstention else table

    def _masses(self, cells: GroupCells) -> Array:
        """Return the probability of the groups' counts: that of a sequence of exchangeable voters, times the ways."""
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

    def _leaders(self, cells: GroupCells) -> NDArray[np.bool_]:
        """Return a mask of the leading classes, shape (counts, classes)."""
        weights = np.ones(len(cells.sizes)) if self.weights is None else np.array(self.weights)
        if len(weights) != len(cells.sizes):
            raise InvalidInput("weights", self.weights, f"{len(cells.sizes)} numbers, one per group")
        scores = np.einsum("ngc,g->nc", cells.counts, weights)
        leads: NDArray[np.bool_] = scores >= scores.max(axis=1, keepdims=True) * (1 - 1e-12)
        return leads

    def __str__(self) -> str:
        return str(self.prior)


@dataclass(frozen=True)
class Truth:
    """Utility of a release: Pr[right] − price·Pr[wrong], where right is a true class that voters know to some degree.

    All classes are true equally often; a voter of group g answers the true class with its group's probability, else
    another at random. So votes are weighted by their log-odds, implicitly.
    """

    chances: tuple[float, ...]  # of each group [probability], in (0, 1)
    price: float = 0.0  # cost of a wrong label relative to a right one, ≥ 0

    def __post_init__(self) -> None:
        accepted = "probabilities of a right answer, one per group, in (0, 1)"
        chances = tuple(real_number(a, "chances", accepted) for a in self.chances)
        if not chances or not all(0 < a < 1 for a in chances):
            raise InvalidInput("chances", self.chances, accepted)
        object.__setattr__(self, "chances", chances)
        object.__setattr__(self, "price", _price(self.price))

    def worth(self, cells: GroupCells) -> Array:
        """Return the utility of each output by its counts, times their probability, shape (counts, outputs)."""
        if len(self.chances) != len(cells.sizes):
            raise InvalidInput("chances", self.chances, f"{len(cells.sizes)} probabilities, one per group")
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
class Worth:
    """Utility of each output by its counts, times their probability, as given numbers."""

    values: Array  # shape (counts, outputs)
    price: float = 0.0

    def worth(self, cells: GroupCells) -> Array:
        """Return the given numbers."""
        if self.values.shape != (len(cells.counts), cells.outputs):
            raise InvalidInput("values", self.values.shape, f"shape {(len(cells.counts), cells.outputs)}")
        return self.values

    def __str__(self) -> str:
        return "worth(…)"


TableObjective = PluralityObjective | Truth | Worth


def as_table_objective(
    text: str | TableObjective | PluralityPrior,
    price: float = 0.0,
    ties: Ties = "excluded",
    weights: Sequence[float] | None = None,
) -> TableObjective:
    """Return an objective from itself, a prior, or a text: truth(a_1,…,a_G), shared(a,b), or a prior's.

    shared(a,a) is dirichlet(a), as for γ; shared(a,b) is beta(a,b). ``weights`` are those of one vote of each group;
    equal ones become None. A truth has neither ties nor weights: its votes are weighted by their log-odds.
    """
    if isinstance(text, TableObjective):
        return text
    weigh = _weights(weights)
    if not isinstance(text, str):
        return PluralityObjective(text, ties, _price(price), weigh)
    named = re.fullmatch(r"\s*(truth|shared)\b\s*(?:\((.*)\)\s*|.*)", text, re.DOTALL)
    if named is not None:
        name, inside = named[1], named[2] or ""
        accepted = "truth(a_1,…,a_G) or shared(a,b)"
        try:
            numbers = tuple(float(part) for part in inside.split(","))
        except ValueError as err:
            raise InvalidInput("objective", text, accepted) from err
        # a truth implies Bayes' rule for the voters' accuracies, which weights of votes or a tie rule would contradict.
        if name == "truth":
            for argument, value, default in (("ties", ties, "excluded"), ("weights", weigh, None)):
                if value != default:
                    raise InvalidInput(
                        argument, value, Rule("cannot be combined with truth(…), whose votes have implicit weights")
                    )
            return Truth(numbers, price)
        if len(numbers) != 2:
            raise InvalidInput("objective", text, accepted)
        a, b = numbers
        # The same name as for two classes, so that a question has the same words for γ and for groups.
        return PluralityObjective(Dirichlet(a) if a == b else FavouredBeta(a, b), ties, _price(price), weigh)
    return PluralityObjective(parse_prior(text), ties, _price(price), weigh)


def is_plurality(problem: Problem, objective: TableObjective) -> bool:
    """Return whether a question is the plurality's: all voters alike and not private, and all votes count the same.

    Its tables are over partitions; those of other questions over the counts of each group.
    """
    return problem.is_public and counts_alike(objective)


def counts_alike(objective: TableObjective) -> bool:
    """Return whether an objective is the plurality of votes that all count the same."""
    return isinstance(objective, PluralityObjective) and objective.weights is None


def question_cells(problem: Problem, objective: TableObjective) -> AnyCells:
    """Return the cells of the tables that answer a question."""
    return cells_of(problem) if is_plurality(problem, objective) else group_cells(problem)


def objective_for(problem: Problem, objective: str | TableObjective | PluralityPrior) -> TableObjective:
    """Return an objective, as `as_table_objective`, checked for a problem."""
    goal = as_table_objective(objective)
    if is_plurality(problem, goal):
        return plurality_of(goal)
    _price(goal.price)
    return goal


def plurality_of(objective: TableObjective) -> PluralityObjective:
    """Return an objective of votes that all count the same; reject another."""
    if isinstance(objective, PluralityObjective) and counts_alike(objective):
        return objective
    raise InvalidInput("objective", str(objective), "a prior for voters that are alike, with equal weights of votes")


def utility(table: Table, objective: TableObjective) -> float:
    """Return the utility of a table under an objective; `InvalidInput` for another number of voters or classes."""
    if isinstance(table.cells, GroupCells):
        return expected(table, objective.worth(table.cells))
    weights, constant = plurality_of(objective).cell_weights(table.cells)
    return weighted_sum(table, weights) + constant


def check_objective(problem: Problem, objective: TableObjective) -> None:
    """Reject an objective for other voters or classes than a problem's, before any work."""
    cells = question_cells(problem, objective)
    if isinstance(cells, Histograms):
        plurality_of(objective).cell_weights(cells)
    else:
        objective.worth(cells)


def weighted_sum(table: Table, weights: Array) -> float:
    """Return Σ w·x over the cells of a table, where x are its probabilities."""
    return math.fsum((weights * table.nearest).tolist())


def expected(table: Table, worth: Array) -> float:
    """Return Σ worth·Pr[o | n] over every vote count and output; ``worth`` has shape (counts, outputs)."""
    return math.fsum((worth * table.chances).ravel().tolist())


def _price(value: Any) -> float:
    return real_number(value, "price", f"a number from 0 to {MAX_PRICE:g}", least=0, most=MAX_PRICE) + 0.0


def _weights(given: Sequence[float] | None) -> tuple[float, ...] | None:
    if given is None:
        return None
    accepted = "numbers above 0, one per group"
    weights = tuple(real_number(w, "weights", accepted, above=0, below=math.inf) for w in given)
    # Equal weights become None, so that one question has one key.
    return None if len(set(weights)) == 1 else weights
