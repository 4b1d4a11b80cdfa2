"""A problem, and the certified noise function that answers it."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import ConfigDict, Field, FiniteFloat

from api.estimating import MAX_K
from api.examples import GAMMA_EXAMPLE, REQUEST_EXAMPLES
from api.refusals import TooMuchAsked
from api.schemas.fields import (
    Affected,
    Allowance,
    Answer,
    Asked,
    Backend,
    Method,
    ObjectiveText,
    ReleaseDelta,
    Shape,
    TargetEpsilon,
    VoterDelta,
    VoterEpsilon,
    Voters,
)
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.problem import Problem
from solver_cache.key import Request


class InField(DarrmError):
    """What is wrong with a text that has parameters of its own: the field that holds it, and the complaint.

    Attributes:
        field: name of the field.
    """

    def __init__(self, field: str, complaint: InvalidInput) -> None:
        self.field = field
        super().__init__(str(complaint))


MAX_DRAWN = 100_000
"""Most scenarios times voters of an objective over scenarios: what drawing them may take before anything is queued, a
tenth of a second."""


class ProblemRequest(Asked):
    """A problem: K voters, how private each is, and how private their majority must be."""

    K: Voters
    m: Allowance = None
    epsilon: VoterEpsilon
    Delta: VoterDelta = 0.0
    delta: ReleaseDelta = None
    affected: Affected = None
    target_epsilon: TargetEpsilon = None

    def problem(self) -> Problem:
        """Return the problem that is asked.

        Raises:
            InvalidInput: a number is out of its range.
        """
        return Problem.from_allowance(
            self.K,
            self.m,
            nats(self.epsilon),
            self.Delta,
            self.delta,
            self.affected,
            target_epsilon=self.target_epsilon,
        )


class DesignRequest(ProblemRequest):
    """A noise function to design: K voters, how private each is, and how private their majority must be."""

    model_config = ConfigDict(json_schema_extra={"examples": REQUEST_EXAMPLES})

    objective: ObjectiveText = "rectangular"
    shape: Shape = "free"
    method: Method = "auto"
    backend: Backend = "highs"

    def request(self) -> Request:
        """Return what the answer depends on, with its content key.

        Raises:
            InvalidInput: a number is out of its range.
            InField: the text of the objective is none, or none for this K.
            TooMuchAsked: more scenarios than can be looked at while others wait.
        """
        problem, chosen = self.problem(), goal(self.objective)
        _check_scenarios(chosen, problem.K)
        try:
            return Request(problem, chosen, self.shape)
        except InvalidInput as err:
            raise InField("objective", err) from err

    def check_estimable(self) -> None:
        """Refuse more voters than an estimate can be made for.

        Raises:
            InvalidInput: naming K.
        """
        if self.K > MAX_K:
            raise InvalidInput("K", self.K, f"at most {MAX_K} voters")


def _check_scenarios(chosen: AnyObjective, K: int) -> None:
    if isinstance(chosen, ScenarioObjective):
        asked = dict(chosen.parameters)
        many = int(asked.get("points", asked.get("scenarios", 0)))
        if many * K > MAX_DRAWN:
            told = f"objective = '{chosen}' is not valid: expected at most {MAX_DRAWN // K} scenarios or points for {K} voters."
            raise TooMuchAsked(told, field="objective")


def nats(epsilon: float | Literal["inf"]) -> float:
    """Return an ε [nats] as it is asked for as a number."""
    return math.inf if epsilon == "inf" else epsilon


def goal(text: str, field: str = "objective") -> AnyObjective:
    """Return the objective that a field's text names.

    Raises:
        InField: it names none.
    """
    try:
        return as_objective(text)
    except InvalidInput as err:
        raise InField(field, err) from err


class ProblemAnswer(Answer):
    """The problem as it was understood: every number canonical."""

    K: int = Field(description="Number of voters [voters].")
    m: FiniteFloat | None = Field(description="Privacy allowance; null for epsilon = 0 and 'inf'.")
    epsilon: FiniteFloat | Literal["inf"] = Field(description="ε of one voter [nats].")
    Delta: FiniteFloat = Field(description="Δ of one voter [probability].")
    target_epsilon: FiniteFloat = Field(description="ε of the release [nats].")
    delta: FiniteFloat = Field(description="δ of the release [probability].")
    affected: int = Field(description="How many voters one record can influence [voters].")


class CertificateAnswer(Answer):
    """Why γ is private: a bound on the privacy constraint, divided by e^(mε), over every admissible case."""

    method: str = Field(description="How the cases were covered: complete, first-order, monotone or ball.")
    bound: FiniteFloat = Field(description="Proven upper bound on the constraint's left-hand side.")
    limit: FiniteFloat = Field(description="Its right-hand side.")
    margin: FiniteFloat = Field(description="(limit − bound)/2, the proven slack [probability].", ge=0)
    error_bound: FiniteFloat = Field(description="The part of the bound that is charged for rounding.")
    worst_value: FiniteFloat = Field(description="Largest left-hand side found.")
    worst_corners: dict[str, int] = Field(description="Where it was found: voters at each corner [voters].")
    version: str = Field(description="Version of darrm-opt that proved it.")


class StatisticsAnswer(Answer):
    """What the solve took, when it was solved."""

    rows: int = Field(description="Rows of the final program.")
    rounds: int = Field(description="Programs solved with rows still missing.")
    iterations: int = Field(description="Simplex iterations in all.")
    seconds: dict[str, FiniteFloat] = Field(description="Time by phase [s].")


class NearestAnswer(Answer):
    """This γ was designed for another problem, whose guarantee implies the one that was asked."""

    exact: bool = Field(description="Whether it is the very answer that was asked for after all.")
    designed_for: ProblemAnswer = Field(description="The problem for which it is optimal.")
    designed_shape: str = Field(description="The shape for which it is optimal.")
    id: str = Field(description="Content key of the answer to that problem.")
    label: str = Field(description="What that means, in a sentence.")


class GammaAnswer(Answer):
    """A certified noise function: the record of the files and the command line, with its id."""

    model_config = ConfigDict(json_schema_extra={"examples": [GAMMA_EXAMPLE]})

    id: str = Field(description="Content key: the same problem, objective and shape have the same id.")
    cached: bool = Field(description="Whether the answer was kept from before.")
    format: int = Field(description="Version of this record's layout.")
    problem: ProblemAnswer
    objective: str = Field(description="What was maximised.")
    shape: str = Field(description="free or monotone.")
    gamma: list[FiniteFloat] = Field(
        description="γ(0..K) [probability]: with l ones, release the majority with probability γ(l), else a fair coin."
    )
    utility: FiniteFloat = Field(description="Share of the noiseless utility kept.")
    upper_bound: FiniteFloat = Field(description="Proven bound on the utility of any private γ of that shape.")
    gap: FiniteFloat = Field(description="upper_bound − utility, at least 0.", ge=0)
    status: str = Field(description="How the solve ended; 'optimal' unless something came in between.")
    advice: str = Field(description="What the status means for the reader.")
    certificate: CertificateAnswer
    method: str = Field(description="How it was solved.")
    backend: str = Field(description="The solver.")
    statistics: StatisticsAnswer
    nearest: NearestAnswer | None = Field(
        description="Where γ was designed for another, stronger problem, that it was; else null."
    )
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")
