"""Find the least m, target ε or voter's ε whose certified γ reaches a utility or an agreement."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from darrm_opt.answers import Report
from darrm_opt.answers.running_time import estimate_running_time, inverse_seconds
from darrm_opt.answers.verification import VerifiedAnswer, member, reads
from darrm_opt.design.objective import as_objective
from darrm_opt.design.solution import Solution
from darrm_opt.design.sweep import (
    DIGITS,
    FULL_SLACK,
    LeastParameter,
    Neighbour,
    Parameter,
    UtilityMeasure,
    least_parameter,
    problem_at,
    utility_of,
    with_agreement,
)
from darrm_opt.errors import VerificationFailed
from darrm_opt.privacy_curves import remote_curve, stated_profile
from darrm_opt.problem import Privacy
from darrm_opt.questions.design import (
    Epsilon,
    SolvedQuestion,
    TradeoffPoint,
    VotersQuestion,
    nats,
    point_record,
    verified_point,
)
from darrm_opt.questions.question import Answer, answer_field, answer_json, question_field
from darrm_opt.record import DesignSpec, problem_from_record, solution_record
from darrm_opt.untrusted import TOLERANCE


class NeighbourAnswer(Answer):
    """The number next below, which does not reach what was wanted."""

    value: float = answer_field("The number.")
    reached: float = answer_field("Utility or agreement of its γ_opt.")
    bound: float = answer_field("Proven bound on that of any γ that is private there.")
    design: TradeoffPoint = answer_field("Its certified γ.")


class LeastAnswer(Answer):
    """The least m, target ε or voter's ε whose certified γ reaches what was wanted."""

    parameter: Parameter = answer_field("What was searched for.")
    value: float = answer_field("The least number found; ε in nats.")
    measure: Literal["utility", "agreement"] = answer_field("What must be reached.")
    wanted: float = answer_field("How much of it was wanted.")
    reached: float = answer_field("How much the γ has.")
    is_least: bool = answer_field(
        "Whether it is proved that no smaller number of so many digits would do; never for epsilon, for "
        "which the utility need not grow, nor where the smallest that is tried reaches it, unless that is 0."
    )
    objective: str = answer_field("What was maximised.")
    shape: str = answer_field("free or monotone.")
    design: TradeoffPoint = answer_field("The certified γ at exactly that number.")
    below: NeighbourAnswer | None = answer_field(
        "The number next below, and what it reaches; null if the smallest that is tried reaches it."
    )


class Least(VotersQuestion, SolvedQuestion):
    """Find the least m, target ε or voter's ε whose certified γ reaches a utility or an agreement.

    Give `epsilon` to search for `m` or, where m has no meaning, for `target_epsilon`; give `m` to search for `epsilon`.
    """

    path: ClassVar[str] = "least"
    tag: ClassVar[str] = "curves"
    summary: ClassVar[str] = "Least m, target ε or voter's ε that reaches a utility"
    answers: ClassVar[Any] = LeastAnswer
    solves: ClassVar[bool] = True
    limited_by: ClassVar[str] = "time_limit"

    parameter: Parameter = question_field(
        "m", kind="choice", words="Parameter whose least value is found", short="Find the least"
    )
    utility: float | None = question_field(None)
    agreement: float | None = question_field(None)
    m: float | None = question_field(None)
    epsilon: Epsilon = question_field(None, otherwise="omit it to find its least value")
    digits: int = question_field(DIGITS)

    @property
    def seconds(self) -> float:
        return inverse_seconds(estimate_running_time(self.spec_at(1.0)).seconds, self.digits)

    def check(self) -> None:
        self.spec_at(1.0)

    def _voters(self) -> dict[str, Any]:
        """Return the voters, as the search takes them; of a curve, points down to δ of the release."""
        given: dict[str, Any] = {name: getattr(self, name) for name in ("K", "m", "Delta", "delta", "affected")}
        given["epsilon"] = None if self.epsilon is None else nats(self.epsilon)
        if self.profile is not None:
            target = None if self.delta is None else Privacy(0.0, self.delta)
            given["profile"] = stated_profile(remote_curve(self.profile), target)
        return given

    def spec_at(self, value: float) -> DesignSpec:
        """Return the design at a number that is tried."""
        goal = as_objective(self.objective)
        problem = problem_at(self.parameter, value, **self._voters())
        return DesignSpec(problem, goal if self.agreement is None else with_agreement(goal), self.shape)

    def answer(self, report: Report = lambda _: None) -> LeastParameter:
        """Return the number, its γ_opt, and the number next below it with what that reaches."""
        return least_parameter(
            **self._voters(),
            parameter=self.parameter,
            utility=self.utility,
            agreement=self.agreement,
            objective=self.objective,
            shape=self.shape,
            digits=self.digits,
            progress=lambda done, of: report({"done": done, "of": of}),
            backend=self.backend,
            time_limit=self.limit,
        )

    def record_of(self, answer: LeastParameter) -> dict[str, Any]:
        def design(solution: Solution) -> dict[str, Any]:
            return point_record(DesignSpec.of(solution), solution)

        solution, below = answer.solution, answer.below
        stated = {
            "objective": str(solution.objective),
            "shape": solution.shape,
            "design": design(solution),
            "below": below and answer_json(NeighbourAnswer, below, design=design(below.solution)),
        }
        return answer_json(LeastAnswer, answer, **stated)

    def text_of(self, answer: LeastParameter) -> str:
        name, below = _NAMES[self.parameter], answer.below
        found = (
            f"{name} = {answer.value:g} reaches {answer.measure} {answer.reached:.6f} ({answer.wanted:g} was wanted)."
        )
        if below is None:
            return f"{found}\nIt is the smallest number that is tried.\n\n{answer.solution}"
        proof = "; no private γ there reaches it, nor at any smaller one" if answer.is_least else ""
        tried = f"{name} = {below.value:g} reaches {below.reached:.6f}, at most {below.bound:.6f}{proof}."
        return f"{found}\n{tried}\n\n{answer.solution}"

    def file_of(self, answer: LeastParameter) -> dict[str, Any]:
        return solution_record(answer.solution)

    def parts(self, record: dict[str, Any]) -> list[tuple[DesignSpec, dict[str, Any]]]:
        designs = [each["design"] for each in (record, record["below"]) if each is not None]
        asked = record["objective"], record["shape"]
        return [(DesignSpec(problem_from_record(design["problem"]), *asked), design) for design in designs]

    def solutions(self, answer: LeastParameter) -> list[Solution]:
        return [each.solution for each in (answer, answer.below) if each is not None]

    @reads
    def verify(self, given: Any) -> LeastParameter:
        """Return the answer, each γ private for the problem at its number, worth what is said.

        That nothing at the number below reaches more rests on the bound, which is the other side's.
        """
        measure: UtilityMeasure = "utility" if self.agreement is None else "agreement"
        if (member(given, "parameter"), member(given, "measure")) != (self.parameter, measure):
            raise VerificationFailed("The answer is to another question than the one that was asked.")
        solution, reached = self._reached(given, measure, wanted=True)
        below, neighbour = member(given, "below"), None
        if below is not None:
            lesser, level = self._reached(below, measure, wanted=False)
            neighbour = Neighbour(below["value"], level, float(member(below, "bound")), lesser)
        wanted = getattr(self, measure)
        return LeastParameter(self.parameter, given["value"], measure, wanted, reached, solution, neighbour)

    def _reached(self, result: Any, measure: UtilityMeasure, *, wanted: bool) -> tuple[VerifiedAnswer, float]:
        """Return the γ at a number, proved for the problem there, and the level that it is said to reach, held to γ.

        The answer must reach what is ``wanted`` and the number below it must not: two sides of one search.
        """
        value, claim = member(result, "value"), member(result, "reached")
        if not isinstance(value, int | float) or not isinstance(claim, int | float):
            raise VerificationFailed("The answer's number is invalid.")
        found = verified_point(member(result, "design"), self.spec_at(value))
        level = utility_of(found.noise, as_objective(self.objective), measure)
        # Privacy is proved exactly; the level is compared to a tolerance, as another processor sums in another order.
        if not math.isclose(level, claim, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            raise VerificationFailed(f"The γ at {self.parameter} = {value:g} reaches {level!r}, not {claim!r}.")
        # As the search has it: a level of 1 is reached up to what the repair's scaling takes.
        goal = min(getattr(self, measure), 1.0 - FULL_SLACK)
        if (claim >= goal) != wanted:
            raise VerificationFailed(f"{self.parameter} = {value:g} is not the end of a search for {goal:g}.")
        return found, claim


_NAMES = {"m": "m", "target_epsilon": "target ε", "epsilon": "ε of one voter"}  # what is searched for, in words
