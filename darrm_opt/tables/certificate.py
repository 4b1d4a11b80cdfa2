"""Certificates of tables: proofs that a release is (ε, δ)-DP for its doubles as stored, and the repair of tables.

A table is (ε, δ)-DP if and only if for every pair of neighbouring data sets and every set S of outputs

    Pr[S | before] ≤ e^ε·Pr[S | after] + δ.

The worst S holds the outputs with Pr[· | before] > e^ε·Pr[· | after], so one pass over the outputs decides a pair. The
pairs depend on the voters:

    EdgeProof      voters that are not private: every pair of neighbouring vote counts, in whole numbers. Probabilities
                   are fractions with one denominator (`Table.numerators`), δ is a double, and e^ε is replaced by a
                   fraction below it: nothing is rounded
    CornerProof    groups of private voters: every corner of their pairs of laws (`darrm_opt.tables.corners`), a
                   complete sweep in doubles whose rounding is bounded and charged
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Generic, TypeVar

import numpy as np

from darrm_opt._version import __version__
from darrm_opt.errors import InvalidInput, NotPrivate, NotProven
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import EXPONENT_BITS, check_arithmetic, exp_bounds, float_above
from darrm_opt.tables.corners import Corners, corners_of
from darrm_opt.tables.group_laws import VoterMaps, voter_maps
from darrm_opt.tables.groups import GroupCells, cells_of, compositions, group_cells
from darrm_opt.tables.problem import ABSTENTION, Histograms, Partition, partition_cells
from darrm_opt.tables.table import Table

_REPAIR = "Use certify_table() to mix it with the uniform release until it is private."

MAX_REPAIRS = 64  # maximum number of repairs, then the uniform release is used; except for rounding, one suffices


@dataclass(frozen=True)
class Edge:
    """A pair of neighbouring vote counts, and a set of outputs."""

    before: Partition  # vote counts by class
    after: Partition  # those of the neighbour
    released: tuple[int, ...]  # classes in the set (places in ``before``), and `ABSTENTION` for ⊥


@dataclass(frozen=True)
class Corner:
    """A corner of groups of voters, a set of outputs, and its probability on both sides."""

    # for each group and voter, its class by outcome of the extremal pair, by decreasing likelihood ratio
    maps: tuple[tuple[tuple[int, ...], ...], ...]
    released: tuple[int, ...]  # outputs in the set, C for ⊥
    before: float  # Pr[S] on one data set
    after: float  # Pr[S] on its neighbour

    def __str__(self) -> str:
        groups = " | ".join(" ".join("".join(map(str, chosen)) for chosen in group) for group in self.maps)
        return f"voters at {groups}, outputs {set(self.released)}: {self.before:.6g} against {self.after:.6g}"


@dataclass(frozen=True)
class TableCertificate:
    """Proof that a table is private.

    Attributes:
        margin: remaining δ at the worst place, ≥ 0, rounded down [probability].
        worst: the worst pair of neighbours and set of outputs: an `Edge`, or a `Corner` of groups.
        checked: number of edges (both directions counted) or corners (one or more per orbit) examined.
        error: bound on the rounding of a sweep over corners, within the margin; 0 for edges.
        version: version of darrm-opt that made the certificate.
    """

    margin: float
    worst: Edge | Corner
    checked: int
    error: float = 0.0
    version: str = __version__

    def as_dict(self) -> dict[str, Any]:
        """Return the certificate as plain data."""
        worst = asdict(self.worst)
        if isinstance(self.worst, Edge):
            return {"margin": self.margin, **worst, "edges": self.checked, "version": self.version}
        named = {"margin": self.margin, "error": self.error, "worst": worst}
        return {**named, "corners": self.checked, "version": self.version}


Place = TypeVar("Place", Edge, Corner)


@dataclass(frozen=True)
class Excess(Generic[Place]):
    """The largest excess over every pair of neighbours and set of outputs, and its place."""

    bound: float  # ≤ 0 if the table is proved private
    worst: Place


def verify_table(problem: Problem, table: Table) -> TableCertificate:
    """Prove that a table is private, from its values alone.

    Args:
        problem: privacy to prove.
        table: any table, from any source.

    Guarantees:
        If it returns, releasing by the table is (ε, δ)-DP for its doubles exactly as stored; for groups, for any
        behaviour of the voters within their own (ε_g, Δ_g), their votes being fresh and independent given the data.

    Raises:
        InvalidInput: the table is for other voters, classes or outputs.
        NotPrivate: it is not private, or cannot be proved so; the error names a worst place and the outputs.

    >>> from darrm_opt import Privacy
    >>> problem = Problem(3, Privacy(float("inf")), Privacy(1.0, 0.25), affected=1)
    >>> round(verify_table(problem, Table(cells_of(problem), [0.0] * 4)).margin, 6)
    0.25
    """
    proof = _proof_of(problem, table)
    found = _excess(problem, table)
    if not found.bound <= 0:
        raise proof.refusal(table, found)
    return _certificate(proof, found)


def certify_table(problem: Problem, table: Table) -> tuple[Table, TableCertificate]:
    """Mix a table with the uniform release just enough to make it private, and prove it.

    Args:
        problem: privacy to prove.
        table: any table, such as an LP solver's answer.

    Returns:
        The repaired table (``table`` itself if it is private as it is) and its certificate.

    Raises:
        InvalidInput: the table is for other voters, classes or outputs.
    """
    proof = _proof_of(problem, table)
    mixed, kept = table, 1.0
    for _ in range(MAX_REPAIRS):
        found = _excess(problem, mixed)
        if found.bound <= 0:
            return mixed, _certificate(proof, found)
        # Except for rounding, the first step suffices; no proof rests on that.
        kept = min(proof.private_share(found.bound), 2 * kept - 1)
        if kept <= 0:
            break
        mixed = Table(table.cells, table.values * kept)
    uniform = Table(table.cells, table.values * 0.0)
    return uniform, verify_table(problem, uniform)


@lru_cache(maxsize=32)
def _excess(problem: Problem, table: Table) -> Excess[Any]:
    """Return the largest excess of a table, cached, as a solve and its caller prove the same table."""
    check_arithmetic()
    return _proof_of(problem, table).excess(table)


def _proof_of(problem: Problem, table: Table) -> EdgeProof | CornerProof:
    """Return the proof for a problem's voters, after checking that the table is for them."""
    cells = group_cells(problem) if isinstance(table.cells, GroupCells) else cells_of(problem)
    shape = cells.shape
    if table.cells.shape != shape:
        raise InvalidInput(
            "table", f"one of {table.cells.shape}", f"a table for voters, classes and ⊥ {shape}, as requested"
        )
    return EdgeProof(problem) if isinstance(cells, Histograms) else CornerProof(problem)


def _certificate(proof: EdgeProof | CornerProof, found: Excess[Any]) -> TableCertificate:
    return TableCertificate(max(0.0, -found.bound), found.worst, len(proof), proof.error)


class EdgeProof:
    """Proof over every edge, for the strictest reading of a problem: of Pr[S | before] − e^ε·Pr[S | after] − δ."""

    error = 0.0

    def __init__(self, problem: Problem) -> None:
        self._problem, self._target = problem, problem.strictest.target
        self._cells = partition_cells(problem)
        self._low, _ = exp_bounds(self._target.epsilon)

    def __len__(self) -> int:
        return len(self._cells.edges.left)

    def largest(self, table: Table) -> tuple[Fraction, int]:
        """Return the largest excess, exact except that e^ε is bounded from below, and the number of its edge."""
        return self._largest(table, self._low, self._target)

    def _largest(self, table: Table, scale: int, target: Privacy) -> tuple[Fraction, int]:
        """Return the largest excess over δ, with e^ε in units of 2^−`EXPONENT_BITS`, and the number of its edge."""
        (left, right, sizes), delta = self._cells.edges, Fraction(target.delta)
        if not left.size:  # no edges: nothing to compare
            return -delta, 0
        numerators = table.numerators
        differences = (numerators[left] << EXPONENT_BITS) - numerators[right] * scale
        positive = np.maximum(differences, 0) * sizes.astype(object)
        sums = positive.sum(axis=1)
        worst = int(np.argmax(sums))
        return Fraction(int(sums[worst]), table.denominator << EXPONENT_BITS) - delta, worst

    def excess(self, table: Table) -> Excess[Edge]:
        """Return a bound on the excess over all edges and sets of outputs, and the worst of them."""
        value, edge = self.largest(table)
        return Excess(float_above(value), self._edge(table, edge, self._low))

    def _edge(self, table: Table, edge: int, scale: int) -> Edge:
        """Return an edge's counts before and after, by class, and its worst set of outputs."""
        cells = self._cells
        if not len(self):
            return Edge(cells.partitions[0], cells.partitions[0], ())
        numerators = table.numerators
        before: list[int] = []
        after: list[int] = []
        released: list[int] = []
        groups = sorted(zip(*(column[edge].tolist() for column in cells.edges), strict=True))
        for left, right, size in groups:
            # In whole numbers: S has every output that counts against the table.
            worst = (numerators[left] << EXPONENT_BITS) > numerators[right] * scale
            # Classes with equal counts on both sides are one group of the edge, listed one by one here.
            for _ in range(size):
                if cells.values[left] == ABSTENTION:
                    released += [ABSTENTION] if worst else []
                    continue
                released += [len(before)] if worst else []
                before.append(int(cells.values[left]))
                after.append(int(cells.values[right]))
        return Edge(tuple(before), tuple(after), tuple(released))

    def private_share(self, bound: float) -> float:
        """Return the factor of x that makes an excess 0, except for rounding.

        Source: ours. The excess is convex in x, and at x = 0 at most −(e^ε − 1)/outputs − δ for any nonempty set.
        """
        target = self._problem.target
        slack = float(np.expm1(target.epsilon)) / self._cells.outputs + target.delta
        return 1.0 - (1.0 if slack == 0 else min(1.0, bound / (bound + slack) * (1 + 2.0**-20) + 2.0**-50))

    def refusal(self, table: Table, found: Excess[Edge]) -> NotPrivate:
        """Return the error for a table that is not proved private: refuted if an edge violates every reading."""
        target, bound, edge = self._problem.loosest.target, found.bound, found.worst
        _, high = exp_bounds(target.epsilon)
        value, place = self._largest(table, high, target)
        if value > 0:
            bound, edge = float(value), self._edge(table, place, high)
        outputs = ", ".join("no class" if o == ABSTENTION else f"class {o + 1}" for o in edge.released)
        place_text = f"from the counts {edge.before} to {edge.after} the probability of {{{outputs}}}"
        worst = {f"{edge.before} -> {edge.after}": self._problem.affected}
        return _refusal(place_text, worst, bound, found.bound, certain=value > 0)


class CornerProof:
    """Proof over every corner, for the strictest reading: of e^−ε·Pr[S | before] − Pr[S | after] − e^−ε·δ."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._corners = problem, corners_of(problem)  # for each target

    def __len__(self) -> int:
        return len(self._corners[0])

    @property
    def error(self) -> float:
        """Bound on the rounding of the sweep."""
        return max(corners.error for corners in self._corners)

    def excess(self, table: Table) -> Excess[Corner]:
        """Return a bound on the excess over all corners and sets of outputs, never below it, and the worst of them."""
        return max((self._excess(corners, table) for corners in self._corners), key=lambda found: found.bound)

    def _excess(self, corners: Corners, table: Table) -> Excess[Corner]:
        worst = corners.violations(table.chances, -math.inf, 1)
        multisets = [chosen[0].tolist() for chosen in corners.by_group(worst.places)]
        released = tuple(np.flatnonzero(worst.sets[0]).tolist())
        before, after = exact_chances(self._problem, corners.maps, multisets, table, released)
        maps = tuple(
            tuple(side.maps[place] for place in chosen) for side, chosen in zip(corners.maps, multisets, strict=True)
        )
        bound = worst.largest + corners.error
        if table.is_constant:  # exactly private, without the sweep's rounding
            bound = min(bound, -corners.limit)
        return Excess(bound, Corner(maps, released, float(before), float(after)))

    def private_share(self, bound: float) -> float:
        """Return the factor of x that makes an excess 0, except for rounding."""
        return min(corners.private_share(bound) for corners in self._corners)

    def refusal(self, table: Table, found: Excess[Corner]) -> NotPrivate:
        """Return the error for a table that is not proved private: refuted if a corner violates every reading."""
        corner, problem = found.worst, self._problem
        loosest = problem.loosest
        try:
            before, after = place_chances(problem, table, corner, loosest.voters)
            value = max(
                before - Fraction(exp_bounds(target.epsilon)[1], 1 << EXPONENT_BITS) * after - Fraction(target.delta)
                for target in loosest.targets
            )
        except InvalidInput:  # voters in the loosest reading lack an outcome
            value = Fraction(0)
        bound = found.bound / min(corners.inverse for corners in self._corners)
        worst = {" ".join("".join(map(str, chosen)) for chosen in group): len(group) for group in corner.maps}
        return _refusal(str(corner), worst, float(value) if value > 0 else bound, bound, certain=value > 0)


def _refusal(place: str, worst: dict[str, int], shown: float, bound: float, *, certain: bool) -> NotPrivate:
    """Return the error for a table: refuted for all numbers that round to the problem's if ``certain``, or unproved."""
    if certain:
        text = f"the table is not private: {place} needs δ larger by {shown:.3g} than allowed. {_REPAIR}"
        return NotPrivate(text, worst, bound)
    text = (
        f"the table cannot be shown to be private: {place} needs δ larger by at most {shown:.3g} than allowed, within "
        f"the noise of the stated numbers. {_REPAIR}"
    )
    return NotProven(text, worst, bound)


def place_chances(
    problem: Problem, table: Table, place: Edge | Corner, voters: tuple[Privacy, ...] | None = None
) -> tuple[Fraction, Fraction]:
    """Return Pr[S] on both sides of a place in fractions (a voter's e^ε within 1e-60); else raise `InvalidInput`.

    ``voters``: the privacy of the voters of each group; None: that of the strictest reading.
    """
    accepted = "a pair of neighbouring vote counts, or a corner, of the problem"
    if isinstance(place, Edge) != isinstance(table.cells, Histograms):
        raise InvalidInput("worst", place, accepted)
    if isinstance(place, Edge):
        moved = sum(max(0, a - b) for a, b in zip(place.after, place.before, strict=True))
        if moved > problem.affected or not _are_outputs(place, problem):
            raise InvalidInput("worst", place, accepted)
        one, other = (table.probabilities(side) for side in (place.before, place.after))
        return tuple(sum((side[o] for o in place.released), Fraction(0)) for side in (one, other))  # type: ignore[return-value]  # of two
    maps = [voter_maps(voter, problem.classes) for voter in voters or problem.strictest.voters]
    try:
        multisets = [[s.maps.index(chosen) for chosen in group] for s, group in zip(maps, place.maps, strict=True)]
    except ValueError as err:
        raise InvalidInput("worst", place, accepted) from err
    moved = sum(len(set(chosen)) > 1 for group in place.maps for chosen in group)
    sizes = tuple(map(len, multisets)) == tuple(group.K for group in problem.groups)
    if moved > problem.affected or not sizes or not _are_outputs(place, problem):
        raise InvalidInput("worst", place, accepted)
    return exact_chances(problem, maps, multisets, table, place.released)


def _are_outputs(place: Edge | Corner, problem: Problem) -> bool:
    """Return whether a set contains outputs of a problem, each once; ⊥ is `ABSTENTION` in an edge and C in a corner."""
    none, released = ABSTENTION if isinstance(place, Edge) else problem.classes, place.released
    outputs = {*range(problem.classes), *([none] if problem.abstention else [])}
    return set(released) <= outputs and len(set(released)) == len(released)


def exact_chances(
    problem: Problem,
    maps: list[VoterMaps],
    multisets: list[list[int]],
    table: Table,
    released: tuple[int, ...],
) -> tuple[Fraction, Fraction]:
    """Return Pr[S] on both sides of a corner in fractions (e^ε within 1e-60)."""
    # Probability of S at every count, over the table's denominator.
    chances = table.numerators[table.cells.layout[:, list(released)]].sum(axis=1).tolist()
    answers = []
    for side in ("before", "after"):
        # In whole numbers: fractions would be reduced at every step.
        joint, denominator = [1], table.denominator
        for corners, chosen in zip(maps, multisets, strict=True):
            rows = [getattr(corners, side)[place] for place in chosen]
            unit = math.lcm(*(chance.denominator for row in rows for chance in row))
            law = {(0,) * problem.classes: 1}
            for row in rows:
                # Convolved voter by voter, without symmetry and doubles, so that the refutation is independent.
                grown: dict[tuple[int, ...], int] = {}
                for c, chance in enumerate(row):
                    numerator = chance.numerator * (unit // chance.denominator)
                    for votes, mass in law.items() if numerator else ():
                        key = (*votes[:c], votes[c] + 1, *votes[c + 1 :])
                        grown[key] = grown.get(key, 0) + mass * numerator
                law = grown
            # In the order of the table's counts, which is that of the product of the groups.
            ways = compositions(len(chosen), problem.classes).tolist()
            joint = [mass * law.get(tuple(way), 0) for mass in joint for way in ways]
            denominator *= unit ** len(chosen)
        total = sum(mass * chance for mass, chance in zip(joint, chances, strict=True))
        answers.append(Fraction(total, denominator))
    return answers[0], answers[1]
