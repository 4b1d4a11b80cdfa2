"""Cutting planes: solve the program, search the worst case of its answer, add violated rows, until none is left.

*One canonical answer.* The goal is the `CanonicalGoal`, whose optimum is unique in practice, at a cost in utility that
`Solution.gap` includes.

*Large K.* Rows of neighbouring multisets are nearly parallel there, and the program's vertices jump in directions that
the objective ignores. So cuts are sought at a point between the best γ known to be private and the program's answer
(in-out separation), and are few and far apart.

The best γ so far is the `Incumbent`. Its privacy is proved once, at the end (`certificate`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from darrm_opt.design.constraint import Counts, PrivacyConstraint
from darrm_opt.design.goal import CanonicalGoal
from darrm_opt.design.master_program import MasterProgram
from darrm_opt.design.profile_vertices import ProfileVertices
from darrm_opt.design.schedule import MAX_ITERATIONS_PER_VOTER, SolveClock, Stage
from darrm_opt.design.separation.oracle import worst_case, worst_case_near_faces
from darrm_opt.design.separation.result import Settle, TimeLimitReached, WorstCase, search_error
from darrm_opt.design.solution import Status
from darrm_opt.noise import Array, NoiseFunction

MIN_DIVISOR = 1e-300  # guards a division against 0/0

CUT_TOLERANCE = 1e-12
"""A multiset becomes a row if it is violated by more than this: above rounding, below every promised gap."""

CUT_SHARE = 1e-6  # the same tolerance as a share of the limit, if that is smaller

CANDIDATES_PER_CUT = 100
"""Number of violated multisets that a search keeps per cut, if cuts must keep a distance from each other."""

MIN_SPACED_CUTS = 8  # fewest new rows at which searching some columns of the faces is enough
KNOTS_SHARE = 0.25  # share of the gap that knots may lose before they are refined
INTERIOR_SHARE = 0.1  # share of the gap to which an interior-point program is solved
MAX_ROUNDS = 500  # ten times as many rounds as any stage was seen to need


@dataclass(frozen=True, eq=False, repr=False)
class Incumbent:
    """A γ that was searched, with the result of that search."""

    searched: NoiseFunction  # γ before any scaling
    worst: WorstCase  # its worst case
    limit: float  # right-hand side of the privacy constraint
    complete: bool  # whether the search covered every multiset
    partial: bool = False  # whether it may have missed worse multisets that its stage's searches see

    @cached_property
    def noise(self) -> NoiseFunction:
        """γ scaled until the search finds no violation, by linearity of the constraint; proved at the end."""
        return NoiseFunction(self.searched.values * (self.limit / max(self.worst.value, self.limit, MIN_DIVISOR)))

    def with_rows(self, rows: Array) -> Incumbent:
        """Return the incumbent held to the program's rows, shape (rows, entries), which its search may have missed."""
        # It then satisfies every row, like the program's answer, and so does every point between the two.
        if self.complete:
            return self
        value = float((rows @ self.searched.upper_half).max(initial=self.worst.value))
        return replace(self, worst=replace(self.worst, value=value, bound=max(self.worst.bound, value)))


@lru_cache(maxsize=32)
def no_release(K: int) -> NoiseFunction:
    """Return γ = 0, which is always private: the stand-in before there is an incumbent."""
    return NoiseFunction(np.zeros(K + 1))


class CuttingPlanes:
    """The loop over programs and worst cases, between an incumbent and a proven bound."""

    def __init__(
        self,
        constraint: PrivacyConstraint,
        goal: CanonicalGoal,
        program: MasterProgram,
        clock: SolveClock,
        on_round: Callable[[], None] | None,
    ) -> None:
        self._constraint, self._goal, self.program = constraint, goal, program
        self._clock, self._on_round = clock, on_round
        self.incumbent: Incumbent | None = None  # best γ so far; None before any
        self.bound = 1.0  # proven upper bound on the canonical value of every private γ
        self.violation = 0.0  # excess of the last searched γ over the limit; ≤ 0 if it satisfies the constraint
        self.multipliers: Array = np.empty(0)  # those that prove the bound, shape (≤ rows,)
        self.rounds = 0  # programs solved with rows still missing
        # smallest violation of a new row
        smallest = max(CUT_SHARE * constraint.limit, 2 * search_error(constraint, 1.0))
        self._cut_tolerance = min(CUT_TOLERANCE, smallest)

    @property
    def noise(self) -> NoiseFunction:
        """The incumbent's γ, or γ = 0 before there is one."""
        return no_release(self._constraint.K) if self.incumbent is None else self.incumbent.noise

    @property
    def gap(self) -> float:
        """Distance between the bound and the incumbent's canonical value."""
        return self.bound - self._goal.value(self.noise)

    def run(self, stage: Stage) -> Status:
        """Run one stage: solve, separate, add, until its gap is reached, no cut is left, or the time is up."""
        try:
            return self._run(stage)
        except TimeLimitReached:
            return Status.TIME_LIMIT

    def _run(self, stage: Stage) -> Status:
        if self.incumbent is not None and not stage.bounding:
            # an earlier stage may have searched the incumbent less closely than this one does.
            self._search_incumbent(self.incumbent, stage)
        for _ in range(MAX_ROUNDS):
            status, answer, bound = self._maximise(stage)
            if status is not Status.OPTIMAL:
                return status
            self._keep_bound(bound)
            if self._reaches_gap(stage):
                return Status.OPTIMAL
            cuts = self._search(answer, stage)[0] if stage.bounding else self._separate(answer, stage)
            self.rounds += 1
            if self._on_round is not None:
                self._on_round()
            if self._reaches_gap(stage):
                return Status.OPTIMAL
            if not len(cuts):
                # The answer is optimal among functions on knots: only more knots close the gap.
                if stage.gap > 0 and self.program.refine(self._goal.weights, KNOTS_SHARE * stage.gap):
                    continue
                return Status.SEARCH_LIMIT if stage.bounding else Status.OPTIMAL
            # a dropped row that matters after all is found again by the search.
            self.program.drop_slack_rows()
            self._add(cuts)
            if stage.later is not None and self.program.iterations > MAX_ITERATIONS_PER_VOTER * self._constraint.K:
                return self._run(stage.later)
        return Status.SEARCH_LIMIT if stage.bounding else Status.ITERATION_LIMIT

    def _reaches_gap(self, stage: Stage) -> bool:
        """Whether the stage's gap is reached; a stage without one goes on until no cut is left."""
        if stage.gap > 0 and self.gap <= stage.gap and self.incumbent is not None and self.incumbent.partial:
            self._search_incumbent(self.incumbent, stage, settle="always")  # only a whole search counts
        return stage.gap > 0 and self.gap <= stage.gap

    def _keep_bound(self, bound: float | None) -> None:
        """Keep the bound if it is the lowest, with its multipliers; without a bound, the last program's multipliers."""
        if bound is None or bound < self.bound:
            self.multipliers = self.program.multipliers
            self.bound = self.bound if bound is None else bound

    def _maximise(self, stage: Stage) -> tuple[Status, NoiseFunction, float | None]:
        """Return the program's status and answer, and a proven bound on the canonical value if one is needed."""
        # If the solver sees γ at knots only, they are refined until they lose a small part of the gap.
        while True:
            remaining = self._clock.remaining
            if remaining is not None and remaining <= 0:
                return Status.TIME_LIMIT, self.noise, 1.0
            with self._clock.measure("program"):
                wanted = INTERIOR_SHARE * max(stage.gap, self.gap)
                status, answer = self.program.maximise(self._goal.weights, remaining, wanted)
                if stage.gap == 0 and self._on_round is None:
                    return status, answer, None
                bound = self.program.bound(self._goal.weights) + self._goal.offset
                if self.program.knots is None or status is not Status.OPTIMAL:
                    return status, answer, bound
                gap = max(stage.gap, min(bound, self.bound) - self._goal.value(self.noise))
                loss = bound - self._goal.value(answer)
                if loss <= KNOTS_SHARE * gap or not self.program.refine(self._goal.weights, KNOTS_SHARE * gap / 2):
                    return status, answer, bound

    def _separate(self, answer: NoiseFunction, stage: Stage) -> Counts:
        """Return cuts that remove the program's answer, improving the incumbent on the way."""
        # The searched point lies between the incumbent and the answer. If it is private it becomes the incumbent, and
        # the next point lies closer to the answer: each time the gap shrinks by the stage's step. If that fails, the
        # answer itself is searched.
        has_improved = self.incumbent is not None
        while True:
            point = self._point_between(answer, stage) if has_improved and stage.step < 1.0 else answer
            cuts, worst = self._search_cheaply_first(point, stage)
            complete = stage.complete and not len(cuts)
            partial = len(cuts) > 0 and (stage.faces_first or stage.spacing > 1 or worst.method == "first-order")
            has_improved = self._improve(Incumbent(point, worst, self._constraint.limit, complete, partial))
            at_answer = point is answer or self._goal.value(answer) - self._goal.value(point) < CUT_TOLERANCE
            if len(cuts) or at_answer or self._reaches_gap(stage):
                return cuts

    def _point_between(self, answer: NoiseFunction, stage: Stage) -> NoiseFunction:
        """Return the point at the stage's step from the incumbent to the answer."""
        start = self.noise.values
        values = np.clip(start + stage.step * (answer.values - start), 0.0, 1.0)
        # exactly symmetric, since both ends are and both halves undergo the same operations
        return NoiseFunction(values * (1.0 - stage.slack))

    def _search_cheaply_first(self, point: NoiseFunction, stage: Stage) -> tuple[Counts, WorstCase]:
        """Search as the stage demands; optionally some columns of the faces first, then the faces."""
        if stage.spacing > 1:
            cuts, worst = self._search(point, stage._replace(complete=False), spacing=stage.spacing)
            if len(cuts) >= MIN_SPACED_CUTS:
                return cuts, worst
        if stage.faces_first:
            cuts, worst = self._search(point, stage._replace(complete=False))
            if len(cuts):
                return cuts, worst
        return self._search(point, stage)

    def _search(
        self, point: NoiseFunction, stage: Stage, *, settle: Settle = "until a cut", spacing: int = 1
    ) -> tuple[Counts, WorstCase]:
        """Return new rows that cut the point off, and its worst case."""
        above = self._constraint.limit + self._cut_tolerance
        if stage.slack:  # so that a point without cuts is proved private at once
            above = self._constraint.limit - 2 * search_error(self._constraint, 1.0)
        most = stage.max_cuts if stage.min_distance == 0 else CANDIDATES_PER_CUT * stage.max_cuts
        with self._clock.measure("search"):
            worst = self._worst_case(point, stage, above, most, settle=settle, spacing=spacing)
            cuts = select_cuts(self.program.new_multisets(worst.cuts), stage)
            is_open = settle != "always" and stage.complete and worst.method == "first-order"
            if is_open and not len(cuts):  # all cuts found are rows already
                worst = self._worst_case(point, stage, above, most, settle="always")
                cuts = select_cuts(self.program.new_multisets(worst.cuts), stage)
        self.violation = worst.value - self._constraint.limit
        return cuts, worst

    def _worst_case(
        self, point: NoiseFunction, stage: Stage, above: float, most: int, *, settle: Settle, spacing: int = 1
    ) -> WorstCase:
        """Return the result of the stage's search; ``settle``: when the complete one goes beyond first order."""
        deadline = self._clock.deadline
        known = self.program.multisets if isinstance(self._constraint.corners, ProfileVertices) else None
        if stage.complete:
            return worst_case(
                point, self._constraint, above=above, most=most, settle=settle, known=known, deadline=deadline
            )
        return worst_case_near_faces(
            point, self._constraint, above=above, most=most, spacing=spacing, known=known, deadline=deadline
        )

    def _improve(self, candidate: Incumbent) -> bool:
        """Make the candidate the incumbent if it is no worse; return whether it is better (or the first)."""
        if self.incumbent is None:
            self.incumbent = candidate
            return True
        value, incumbent_value = self._goal.value(candidate.noise), self._goal.value(self.noise)
        if value >= incumbent_value:
            self.incumbent = candidate
        return value > incumbent_value

    def _search_incumbent(self, incumbent: Incumbent, stage: Stage, *, settle: Settle = "until a cut") -> None:
        """Search the incumbent again with this stage's finer search; violations become rows."""
        point = NoiseFunction(incumbent.noise.values * (1.0 - stage.slack))
        cuts, worst = self._search(point, stage, settle=settle)
        complete = stage.complete and (settle == "always" or not len(cuts))
        self.incumbent = Incumbent(point, worst, self._constraint.limit, complete)
        self._add(cuts)

    def _add(self, cuts: Counts) -> None:
        """Add rows and hold the incumbent to them, as a search near the faces may have missed them."""
        rows = self.program.add(cuts)
        if self.incumbent is not None:
            self.incumbent = self.incumbent.with_rows(rows)


def select_cuts(cuts: Counts, stage: Stage) -> Counts:
    """Return the worst cuts at the stage's distance from each other: neighbours are nearly the same row."""
    if stage.min_distance == 0:
        return cuts[: stage.max_cuts]
    remaining = np.arange(len(cuts))
    columns = np.ascontiguousarray(cuts.T, dtype=np.int32)
    indices: list[int] = []
    while remaining.size and len(indices) < stage.max_cuts:
        # take the worst remaining cut, and drop all that are too close to it
        indices.append(int(remaining[0]))
        distance = np.zeros(remaining.size, dtype=np.int32)
        for counts in columns:
            distance += np.abs(counts - counts[0])
        is_far = distance > stage.min_distance
        remaining, columns = remaining[is_far], columns.compress(is_far, axis=1)
    return cuts[indices]
