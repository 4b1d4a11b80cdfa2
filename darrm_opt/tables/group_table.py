"""Table of a release by groups' counts: exact probabilities, the proof that it is private, its repair, its record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from darrm_opt._version import __version__
from darrm_opt.errors import InvalidInput, NotPrivate, NotProven
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.tables.corners import Corners, VoterMaps
from darrm_opt.tables.groups import GroupProblem, VoterGroup, compositions

KIND = "darrm group table"
"""What a record says it is."""

FORMAT = 1
"""Version of the record."""


class GroupTable:
    """Release probabilities over the cells of `GroupCells`.

    Guarantees: Frozen. What is left of 1 is shared equally by all outputs, so that the probabilities are exact
    fractions.
    """

    def __init__(self, problem: GroupProblem, values: Any) -> None:
        self.cells = problem.cells
        accepted = f"{len(self.cells.owners)} numbers in [0, 1], one for each cell"
        try:
            table = np.array(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as err:
            raise InvalidInput("values", type(values).__name__, accepted) from err
        if table.shape != self.cells.owners.shape:
            raise InvalidInput("values", f"an array of shape {table.shape}", accepted)
        if not bool(np.all((table >= 0) & (table <= 1))):
            raise InvalidInput("values", "a number outside [0, 1]", accepted)
        table += 0.0  # −0.0 becomes 0.0
        table.flags.writeable = False
        self.values: Array = table  # x, one double in [0, 1] a cell; in every orbit Σ multiplicity·x ≤ 1, exactly
        if min(self._rests) < 0:
            raise InvalidInput(
                "values",
                "a sum above 1",
                "values whose sum over the outputs is at most 1, exactly as stored",
                "Scale them down by a few units in the last place.",
            )

    @classmethod
    def normalised(cls, problem: GroupProblem, values: Any) -> GroupTable:
        """Return the table nearest to real numbers that meet the sums up to rounding, or a solver's tolerance."""
        cells = problem.cells
        table = np.clip(np.nan_to_num(np.array(values, dtype=np.float64), nan=0.0), 0.0, 1.0)
        sums = np.add.reduceat(table * cells.multiplicities, cells.starts)
        shrink = np.where(sums > 1 - 1e-12, (1.0 - 2.0**-52 * (cells.outputs + 4)) / np.maximum(sums, 0.5), 1.0)
        return cls(problem, np.minimum(table * shrink[cells.owners], 1.0))

    @cached_property
    def _rests(self) -> list[Fraction]:
        rests = [Fraction(1)] * len(self.cells.first)
        for value, owner, several in zip(
            self.values.tolist(), self.cells.owners.tolist(), self.cells.multiplicities.tolist(), strict=True
        ):
            rests[owner] -= Fraction(value) * several
        return rests

    @cached_property
    def exact(self) -> list[Fraction]:
        """Probability of one given output, by cell."""
        shares = [rest / self.cells.outputs for rest in self._rests]
        return [
            Fraction(value) + shares[owner]
            for value, owner in zip(self.values.tolist(), self.cells.owners.tolist(), strict=True)
        ]

    @cached_property
    def nearest(self) -> Array:
        """The probabilities as the nearest doubles, by cell."""
        return np.array([float(chance) for chance in self.exact])

    @property
    def is_constant(self) -> bool:
        """Whether the release is independent of the votes: each output has one chance, exactly."""
        exact, cells = self.exact, self.cells.cell
        return all(len({exact[cell] for cell in np.unique(cells[:, o]).tolist()}) == 1 for o in range(cells.shape[1]))

    @property
    def chances(self) -> Array:
        """The probabilities of each output as the nearest doubles, shape (counts, outputs)."""
        return np.asarray(self.nearest[self.cells.cell])

    def probabilities(self, counts: Sequence[Sequence[int]]) -> list[Fraction]:
        """Return the probability of each output, the classes in order, then ⊥ if there is one."""
        return [self.exact[cell] for cell in self.cells.cell[self.cells.place(counts)].tolist()]


@dataclass(frozen=True)
class GroupCorner:
    """A corner, a set of outputs, and how likely that is on both sides."""

    # for each group and voter, its class by outcome of the extremal pair, from most to least likely before
    maps: tuple[tuple[tuple[int, ...], ...], ...]
    released: tuple[int, ...]  # which outputs the set holds, C standing for ⊥
    before: float  # Pr[S] on one data set
    after: float  # Pr[S] on its neighbour

    def __str__(self) -> str:
        groups = " | ".join(" ".join("".join(map(str, chosen)) for chosen in group) for group in self.maps)
        return f"voters at {groups}, outputs {set(self.released)}: {self.before:.6g} against {self.after:.6g}"


@dataclass(frozen=True)
class GroupCertificate:
    """Why a table is private."""

    margin: float  # δ that is left at the worst corner, ≥ 0 [probability]
    error: float  # bound on the rounding of the sweep, within the margin
    worst: GroupCorner  # the worst corner
    corners: int  # how many were looked at, one or more of each orbit
    version: str = __version__  # of darrm-opt that made the certificate


@lru_cache(maxsize=1)
def corners_of(problem: GroupProblem) -> Corners:
    """Return the corners of a problem's strictest reading; the last are kept, for table after table of one problem."""
    return Corners(problem, *problem.strictest)


def group_excess(problem: GroupProblem, table: GroupTable) -> tuple[float, GroupCorner]:
    """Return a bound on e^−ε·Pr[S | before] − Pr[S | after] − e^−ε·δ at every corner and S, and the worst of them.

    Guarantees: Never below the exact value for the strictest reading of the problem.
    """
    ours, theirs = problem.cells, table.cells
    shape = (ours.sizes, ours.classes, ours.abstention)
    if shape != (theirs.sizes, theirs.classes, theirs.abstention):
        raise InvalidInput("table", f"for groups of {theirs.sizes}", f"a table for groups of {ours.sizes}, as asked")
    corners = corners_of(problem)
    worst = corners.violations(table.chances, -math.inf, 1)
    multisets = [chosen[0] for chosen in corners.multisets(worst.corners)]
    released = tuple(np.flatnonzero(worst.sets[0]).tolist())
    before, after = exact_chances(problem, corners.maps, [m.tolist() for m in multisets], table, released)
    maps = tuple(
        tuple(side.maps[place] for place in chosen.tolist())
        for side, chosen in zip(corners.maps, multisets, strict=True)
    )
    corner = GroupCorner(maps, released, float(before), float(after))
    if table.is_constant:  # exactly private, whatever the sweep's rounding says
        return min(worst.largest + corners.error, -corners.limit), corner
    return worst.largest + corners.error, corner


def exact_chances(
    problem: GroupProblem,
    maps: list[VoterMaps],
    multisets: list[list[int]],
    table: GroupTable,
    released: tuple[int, ...],
) -> tuple[Fraction, Fraction]:
    """Return Pr[S] on both sides of a corner in fractions (e^ε within 1e-60)."""
    answers = []
    for side in ("before", "after"):
        laws = []
        for corners, chosen in zip(maps, multisets, strict=True):
            law = {(0,) * problem.classes: Fraction(1)}
            for place in chosen:
                chances = getattr(corners, side)[place]
                # Convolved voter by voter, without symmetry and without doubles: the refutation must stand on its own.
                grown: dict[tuple[int, ...], Fraction] = {}
                for votes, mass in law.items():
                    for c, chance in enumerate(chances):
                        if chance:
                            key = (*votes[:c], votes[c] + 1, *votes[c + 1 :])
                            grown[key] = grown.get(key, Fraction(0)) + mass * chance
                law = grown
            # In the order of the table's counts, as the product of the groups below is.
            ways = compositions(len(chosen), problem.classes).tolist()
            laws.append([law.get(tuple(way), Fraction(0)) for way in ways])
        joint = [Fraction(1)]
        for one in laws:
            joint = [a * b for a in joint for b in one]
        cells = table.cells.cell[:, list(released)].tolist()
        exact = table.exact
        answers.append(
            # Of outputs in S; counts that never occur at this corner are not looked up.
            sum(
                (mass * sum(exact[cell] for cell in row) for mass, row in zip(joint, cells, strict=True) if mass),
                Fraction(0),
            )
        )
    return answers[0], answers[1]


def verify_groups(problem: GroupProblem, table: GroupTable) -> GroupCertificate:
    """Prove that a table is private, from its values alone, by a sweep over every corner.

    Guarantees: If it returns, releasing by the table is (ε, δ)-DP for its doubles exactly as stored, whatever the
    voters do within their own (ε_g, Δ_g), their votes being fresh and independent given the data.
    """
    bound, corner = group_excess(problem, table)
    corners = corners_of(problem)
    scale = 1 / corners.inverse
    if bound > 0:
        excess = corner.before - scale * corner.after - corners.target.delta
        # The exact excess is at least the bound less two errors: above 0, that is a refutation.
        certain = (bound - 2 * corners.error) > 0
        raise (NotPrivate if certain else NotProven)(
            f"the table is not {'' if certain else 'proved '}private: {corner}, which needs δ larger by {excess:.3g} "
            "than allowed. Use certify_groups() to mix it with the uniform release until it is private.",
            {" ".join("".join(map(str, chosen)) for chosen in group): len(group) for group in corner.maps},
            bound * scale,
        )
    return _certificate(problem, bound, corner)


def certify_groups(problem: GroupProblem, table: GroupTable) -> tuple[GroupTable, GroupCertificate]:
    """Mix a table with the uniform release just enough that it is private, and prove it.

    A table that is private as it stands is returned itself.

    Source: ours. The excess is convex in x, and at x = 0 at most −(1 − e^−ε)/outputs − e^−ε·δ for a set that is not
    empty.
    """
    mixed, kept = table, 1.0
    for _ in range(40):
        bound, corner = group_excess(problem, mixed)
        if bound <= 0:
            return mixed, _certificate(problem, bound, corner)
        # The first step is enough but for rounding; no proof rests on that.
        kept = min(corners_of(problem).private_share(bound), 2 * kept - 1)
        if kept <= 0:
            break
        mixed = GroupTable(problem, table.values * kept)
    uniform = GroupTable(problem, table.values * 0.0)
    return uniform, verify_groups(problem, uniform)


def _certificate(problem: GroupProblem, bound: float, corner: GroupCorner) -> GroupCertificate:
    corners = corners_of(problem)
    return GroupCertificate(-bound, corners.error, corner, len(corners))


def problem_record(problem: GroupProblem) -> dict[str, Any]:
    """Return a problem as plain data."""
    return {
        "classes": problem.classes,
        "groups": group_records(problem.groups),
        "target_epsilon": problem.target.epsilon,
        "delta": problem.target.delta,
        "affected": problem.affected,
        "abstention": problem.abstention,
    }


def group_records(groups: Sequence[VoterGroup]) -> list[dict[str, Any]]:
    """Return groups as plain data."""
    return [
        {
            "K": group.K,
            "epsilon": "inf" if group.voter.epsilon == math.inf else group.voter.epsilon,
            "Delta": group.voter.delta,
        }
        for group in groups
    ]


def problem_from_record(record: Any) -> GroupProblem:
    """Return the problem of a record."""
    try:
        groups = [
            VoterGroup(group["K"], Privacy(math.inf if group["epsilon"] == "inf" else group["epsilon"], group["Delta"]))
            for group in record["groups"]
        ]
        return GroupProblem(
            record["classes"],
            groups,
            Privacy(record["target_epsilon"], record["delta"]),
            record["affected"],
            abstention=record["abstention"],
        )
    except (KeyError, TypeError) as err:
        raise InvalidInput("problem", type(record).__name__, "a problem of groups as plain data") from err


def table_record(problem: GroupProblem, table: GroupTable) -> dict[str, Any]:
    """Return a problem and a table as plain data; the doubles read back as they are."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "version": __version__,
        "problem": problem_record(problem),
        "values": table.values.tolist(),
    }


def table_from_record(record: Any) -> tuple[GroupProblem, GroupTable, GroupCertificate]:
    """Return the problem and table of a record, proved here; what the record claims of them is not believed."""
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("format") != FORMAT:
        raise InvalidInput("table", type(record).__name__, f"a record of kind {KIND!r} and format {FORMAT}")
    problem = problem_from_record(record.get("problem"))
    table = GroupTable(problem, record.get("values"))
    return problem, table, verify_groups(problem, table)
