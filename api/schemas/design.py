"""Design, estimate and verification of one noise function, as requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from api.errors.problem_details import FieldError, WorkLimitExceeded
from api.schemas.fields import (
    Affected,
    Allowance,
    AnswerModel,
    Backend,
    Method,
    ObjectiveText,
    OptionalVoterEpsilon,
    PostedGamma,
    ProfileAnswer,
    ReleaseDelta,
    RequestModel,
    Shape,
    StatedProfile,
    StatedTargets,
    TargetEpsilon,
    TargetsAnswer,
    TimeLimit,
    VoterDelta,
    Voters,
    about,
)
from api.tasks.design import DesignTask
from darrm_opt.design.certificate import Arithmetic
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem
from darrm_opt.questions.voters import stated_problem
from darrm_opt.record import DesignSpec

MAX_SCENARIO_VOTERS = 100_000
"""Most scenarios times voters of an objective over scenarios.

Drawing them, before anything is queued, takes at most a tenth of a second.
"""


class ProblemRequest(RequestModel):
    """A problem: K voters, how private each is, and how private their majority must be."""

    K: Voters
    m: Allowance = None
    epsilon: OptionalVoterEpsilon = None
    Delta: VoterDelta = 0.0
    profile: StatedProfile = None
    delta: ReleaseDelta = None
    affected: Affected = None
    target_epsilon: TargetEpsilon = None
    targets: StatedTargets = None

    def problem(self) -> Problem:
        """Return the problem that is asked."""
        numbers = self.K, self.m, self.epsilon, self.Delta, self.delta, self.affected
        stated: dict[str, Any] = {
            "profile": self.profile,
            "target_epsilon": self.target_epsilon,
            "targets": self.targets,
        }
        return stated_problem(*numbers, **stated)


class DesignRequest(ProblemRequest):
    """A noise function to design: K voters, how private each is, and how private their majority must be."""

    objective: ObjectiveText = "rectangular"
    shape: Shape = "free"
    method: Method = "auto"
    backend: Backend = "highs"
    time_limit: TimeLimit = None
    gap: Annotated[FiniteFloat | None, about("gap")] = None

    def spec(self) -> DesignSpec:
        """Return what the answer depends on; its content key is the id."""
        problem, objective = self.problem(), objective_of(self.objective)
        check_scenarios(objective, problem.K)
        try:
            return DesignSpec(problem, objective, self.shape)
        except InvalidInput as err:
            raise FieldError("objective", err) from err

    def task(self) -> DesignTask:
        """Return the task of designing it."""
        return DesignTask(self.spec(), self.method, self.backend, self.time_limit, self.gap)


def check_scenarios(objective: AnyObjective, K: int) -> None:
    """Refuse an objective over more scenarios than are drawn for one request."""
    if isinstance(objective, ScenarioObjective):
        parameters = dict(objective.parameters)
        count = int(parameters.get("points", parameters.get("scenarios", 0)))
        if count * K > MAX_SCENARIO_VOTERS:
            accepted = f"at most {MAX_SCENARIO_VOTERS // K} scenarios or points for {K} voters"
            raise WorkLimitExceeded(f"objective = '{objective}' is not valid: expected {accepted}.", field="objective")


def design_of(params: RequestModel, **given: Any) -> DesignRequest:
    """Return the design with the fields that another request shares with one, but for those that are ``given``."""
    names = DesignRequest.model_fields.keys() & type(params).model_fields.keys()
    return DesignRequest(**{name: getattr(params, name) for name in names} | given)


def objective_of(text: str, field: str = "objective") -> AnyObjective:
    """Return the objective that a field's text names."""
    try:
        return as_objective(text)
    except InvalidInput as err:
        raise FieldError(field, err) from err


class ProblemAnswer(AnswerModel):
    """The problem as it was understood: every number canonical."""

    K: int = Field(description="Number of voters [voters].")
    m: FiniteFloat | None = Field(description="Privacy allowance; null for epsilon = 0 and 'inf'.")
    epsilon: FiniteFloat | Literal["inf"] = Field(description="ε of one voter [nats].")
    Delta: FiniteFloat = Field(description="Δ of one voter [probability].")
    profile: ProfileAnswer = None
    target_epsilon: FiniteFloat = Field(description="ε of the release [nats].")
    delta: FiniteFloat = Field(description="δ of the release [probability].")
    targets: TargetsAnswer = None
    affected: int = Field(description="How many voters one record can influence [voters].")


class CertificateAnswer(AnswerModel):
    """Why γ is private: a bound on the privacy constraint, divided by e^(mε), over every admissible case."""

    method: str = Field(description="How the cases were covered: complete, first-order, monotone or ball.")
    bound: FiniteFloat = Field(description="Proven upper bound on the constraint's left-hand side.")
    limit: FiniteFloat = Field(description="Its right-hand side.")
    margin: FiniteFloat = Field(description="(limit − bound)/2, the proven slack [probability].", ge=0)
    error_bound: FiniteFloat = Field(description="The part of the bound that is charged for rounding.")
    worst_value: FiniteFloat = Field(description="Largest left-hand side found.")
    worst_corners: dict[str, int] = Field(description="Where it was found: voters at each corner [voters].")
    version: str = Field(description="Version of darrm-opt that proved it.")


class StatisticsAnswer(AnswerModel):
    """Statistics of the solve."""

    rows: int = Field(description="Rows of the final program.")
    rounds: int = Field(description="Programs solved with rows still missing.")
    iterations: int = Field(description="Simplex iterations in all.")
    seconds: dict[str, FiniteFloat] = Field(description="Time by phase [s].")


class NearestAnswer(AnswerModel):
    """This γ was designed for another problem, whose guarantee implies the one that was asked."""

    exact: bool = Field(description="Whether it is the very answer that was asked for after all.")
    designed_for: ProblemAnswer = Field(description="The problem for which it is optimal.")
    designed_shape: str = Field(description="The shape for which it is optimal.")
    id: str = Field(description="Content key of the answer to that problem.")
    label: str = Field(description="What that means, in a sentence.")


class GammaAnswer(AnswerModel):
    """A certified noise function: the record of the files and the command line, with its id."""

    id: str = Field(description="Content key: the same problem, objective and shape have the same id.")
    cached: bool = Field(description="Whether the answer was stored before.")
    format: int = Field(description="Version of this record's layout.")
    problem: ProblemAnswer
    objective: str = Field(description="What was maximised.")
    shape: str = Field(description="free or monotone.")
    gamma: list[FiniteFloat] = Field(
        description="γ(0..K) [probability]: with l ones, keep the majority with probability γ(l), else toss a fair "
        "coin; the released bit is the majority with probability (1 + γ(l))/2."
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


class EstimateAnswer(AnswerModel):
    """Expected cost of a request; nothing was solved."""

    id: str = Field(description="Content key that the γ has or would have.")
    problem: ProblemAnswer
    objective: str = Field(description="What would be maximised.")
    shape: str = Field(description="free or monotone.")
    constraints: int = Field(description="Size of the permutation-reduced constraint set [rows].")
    method: Literal["cuts", "enumerate"] = Field(description="How it would be solved.")
    seconds: FiniteFloat = Field(
        description="Expected time of the solve on one processor [s]; 0 if the answer is stored.", ge=0
    )
    stored: bool = Field(description="Whether the answer is stored already.")
    allowed: bool = Field(description="Whether this server would solve it, within its limits.")
    basis: str = Field(description="Basis of the estimate.")


class VerifyRequest(ProblemRequest):
    """A γ, and the problem for which it should be private."""

    gamma: PostedGamma
    arithmetic: Annotated[Arithmetic, about("arithmetic")] = "float"


class VerifyAnswer(AnswerModel):
    """The γ is private for the problem, exactly as posted."""

    private: Literal[True]
    problem: ProblemAnswer
    certificate: CertificateAnswer
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")
