"""Curves over p, over the allowance and over ε, and the inverse question, as requests and answers."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from api.schemas.design import DesignRequest, NearestAnswer, ProblemAnswer, design_of, objective_of
from api.schemas.fields import (
    ALL_BASELINES,
    STOP_AT_FIRST,
    Affected,
    Allowance,
    AnswerModel,
    Backend,
    InQueryNumbers,
    InQueryWords,
    ObjectiveText,
    OptionalGamma,
    OptionalVoterEpsilon,
    ReleaseDelta,
    RequestModel,
    Shape,
    StatedProfile,
    VoterDelta,
    Voters,
    about,
    number_of,
    one_of,
)
from darrm_opt.answers.curves import allowance_grid
from darrm_opt.design.sweep import DIGITS, Parameter, problem_at
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.fields import FIELDS
from darrm_opt.planning.baselines import BASELINES
from darrm_opt.privacy_curves import remote_curve, stated_profile
from darrm_opt.problem import Privacy
from darrm_opt.questions.voters import nats
from darrm_opt.record import DesignSpec
from darrm_opt.voters import PrivacyProfile

DEFAULT_ALLOWANCES = 25
"""Number of allowances of a trade-off, by default."""

Baseline = Annotated[str, one_of(ALL_BASELINES), Field(json_schema_extra={"enum": [*ALL_BASELINES]})]

Baselines = Annotated[
    Annotated[list[Baseline], STOP_AT_FIRST, InQueryWords] | None,
    about(
        "baselines",
        words="What γ_opt is compared with, each in the form that is proved private for the problem",
        otherwise=f"by default {', '.join(BASELINES)}",
    ),
]


class CurveRequest(DesignRequest):
    """An error curve to draw: γ_opt beside the baselines."""

    points: Annotated[int, about("points", words="Number of p from 0.5 to 1, evenly spaced [points]")] = 101
    baselines: Baselines = None


class CurveAnswer(AnswerModel):
    """One noise function and its errors."""

    gamma: list[FiniteFloat] = Field(description="γ(0..K) [probability], proved private for the problem.")
    tv_error: list[FiniteFloat] = Field(description="|Pr[release = 1] − Pr[majority = 1]| at each p [probability].")
    disagreement: list[FiniteFloat] = Field(
        description="Pr[release ≠ majority that was voted] at each p [probability]."
    )


class ErrorCurveAnswer(AnswerModel):
    """Errors over the probability p of a one, shared by all voters: γ_opt beside the baselines."""

    id: str = Field(description="Content key of the γ called optimal.")
    cached: bool = Field(description="Whether that γ was stored before.")
    over: Literal["p"]
    problem: ProblemAnswer
    objective: str = Field(description="What the γ called optimal maximises.")
    shape: str = Field(description="free or monotone.")
    status: str = Field(description="How its solve ended.")
    p: list[FiniteFloat] = Field(description="Probability of a one [probability]; below 0.5 the errors are the same.")
    curves: dict[str, CurveAnswer] = Field(
        description="By name: optimal, and those of the baselines that have a meaning for the problem and are private "
        "for it."
    )
    left_out: dict[str, str] = Field(description="Baselines that were asked for and are not shown, and why.")
    nearest: NearestAnswer | None = Field(
        description="Where the γ called optimal was designed for another, stronger problem; else null."
    )
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")


class TradeoffRequest(RequestModel):
    """Utility against the privacy allowance: γ_opt for many m of the same voters.

    The allowances are `ms`, or `m_points` of them from `m_from` to `m_to`; unless told, whole numbers up to (K+1)/2.
    For epsilon = 0 and epsilon = 'inf', where m has no meaning, give `target_epsilons`.
    """

    K: Voters
    epsilon: OptionalVoterEpsilon = None
    Delta: VoterDelta = 0.0
    profile: StatedProfile = None
    delta: ReleaseDelta = None
    affected: Affected = None
    ms: Annotated[
        Annotated[list[Annotated[FiniteFloat, number_of("ms")]], STOP_AT_FIRST, InQueryNumbers] | None, about("ms")
    ] = None
    m_from: Annotated[FiniteFloat | None, about("m_from")] = None
    m_to: Annotated[FiniteFloat | None, about("m_to")] = None
    m_points: Annotated[int, about("m_points")] = DEFAULT_ALLOWANCES
    target_epsilons: Annotated[
        Annotated[list[Annotated[FiniteFloat, number_of("target_epsilons")]], STOP_AT_FIRST, InQueryNumbers] | None,
        about("target_epsilons"),
    ] = None
    objective: ObjectiveText = "rectangular"
    shape: Shape = "free"
    backend: Backend = "highs"
    baselines: Baselines = None

    def specs(self) -> list[DesignSpec]:
        """Return what is asked, one question for each allowance or target ε, in order."""
        if self.target_epsilons is not None:
            self._excludes("target_epsilons", "ms", "m_from", "m_to")
            return [design_of(self, m=None, target_epsilon=target).spec() for target in self.target_epsilons]
        return [design_of(self, m=m, target_epsilon=None).spec() for m in self._allowances()]

    def _allowances(self) -> list[float]:
        if self.profile is not None:
            raise InvalidInput("profile", self.profile, Rule("needs target_epsilons, as m has no meaning with it"))
        if self.ms is None and self.m_from is None and self.m_to is None:
            return [float(m) for m in allowance_grid(self.K, DEFAULT_ALLOWANCES)]
        if self.ms is not None:
            self._excludes("ms", "m_from", "m_to")
            return self.ms
        return self._range()

    def _excludes(self, given: str, *names: str) -> None:
        for name in names:
            if (value := getattr(self, name)) is not None:
                raise InvalidInput(name, value, Rule(f"cannot be combined with {given}"))

    def _range(self) -> list[float]:
        for name in ("m_from", "m_to"):
            if getattr(self, name) is None:
                raise InvalidInput(name, None, FIELDS[name].accepted)
        start, end, count = float(self.m_from or 0), float(self.m_to or 0), self.m_points
        if end < start:
            raise InvalidInput("m_to", end, FIELDS["m_to"].accepted)
        return [start + (end - start) * i / max(count - 1, 1) for i in range(count)]


class TradeoffPoint(AnswerModel):
    """γ_opt at one allowance."""

    id: str = Field(description="Content key of the γ.")
    cached: bool = Field(description="Whether it was stored before.")
    problem: ProblemAnswer
    gamma: list[FiniteFloat] = Field(description="γ(0..K) [probability], proved private for the problem.")
    utility: FiniteFloat = Field(description="Share of the noiseless utility kept.")
    upper_bound: FiniteFloat = Field(description="Proven bound on the utility of any private γ of that shape.")
    gap: FiniteFloat = Field(description="upper_bound − utility, at least 0.", ge=0)
    status: str = Field(description="How its solve ended.")
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")


class AverageAnswer(AnswerModel):
    """Errors of one way of releasing, averaged over the objective's prior, at each allowance."""

    tv_error: list[FiniteFloat | None] = Field(
        description="|Pr[release = 1] − Pr[majority = 1]| [probability]; null where it has no closed form or the way "
        "has no meaning."
    )
    disagreement: list[FiniteFloat | None] = Field(
        description="Pr[release ≠ majority that was voted] [probability]; null where the way has no meaning."
    )


class TradeoffAnswer(AnswerModel):
    """Utility over the allowance, each point certified."""

    over: Literal["m", "target_epsilon"]
    objective: str = Field(description="What was maximised.")
    shape: str = Field(description="free or monotone.")
    m: list[FiniteFloat | None] = Field(description="Privacy allowances, in the order asked; null where m has none.")
    target_epsilon: list[FiniteFloat] = Field(description="ε of the release [nats].")
    delta: list[FiniteFloat] = Field(description="δ of the release [probability].")
    utility: list[FiniteFloat] = Field(description="Share of the noiseless utility kept.")
    points: list[TradeoffPoint] = Field(description="The certified γ of each.")
    curves: dict[str, AverageAnswer] | None = Field(
        description="Average errors by name: optimal and the baselines; null for an objective without a prior."
    )


class ProfileRequest(DesignRequest):
    """Privacy profile of one release: the least δ at each ε′, of γ_opt or of a γ that is given."""

    gamma: OptionalGamma = None
    epsilons: Annotated[
        Annotated[list[Annotated[FiniteFloat, number_of("epsilons")]], STOP_AT_FIRST, InQueryNumbers] | None,
        about("epsilons"),
    ] = None
    points: Annotated[
        int, about("points", words="Number of ε′, evenly spaced from 0 to one and a half times the target ε [points]")
    ] = 16


class ProfileAnswer(AnswerModel):
    """The exact privacy profile of one release."""

    id: str | None = Field(description="Content key of the γ; null for one that was given.")
    problem: ProblemAnswer
    gamma: list[FiniteFloat] = Field(description="γ(0..K) [probability].")
    epsilon: list[FiniteFloat] = Field(description="ε′ [nats].")
    delta: list[FiniteFloat] = Field(description="Proven upper bound on the least δ at ε′ [probability].")
    attained: list[FiniteFloat] = Field(
        description="δ that some pair of neighbouring datasets attains, as computed: no proof [probability]."
    )
    nearest: NearestAnswer | None = Field(
        description="Where γ_opt was designed for another, stronger problem; else null."
    )
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")


class LeastRequest(RequestModel):
    """The inverse question: the least m, target ε or voter's ε whose certified γ reaches a utility or an agreement.

    Give `epsilon` and search for `m` or, where m has no meaning, for `target_epsilon`; or give `m` and search for
    `epsilon`.
    """

    K: Voters
    parameter: Annotated[Parameter, about("parameter", words="What is searched for")] = "m"
    utility: Annotated[FiniteFloat | None, about("utility")] = None
    agreement: Annotated[FiniteFloat | None, about("agreement")] = None
    m: Allowance = None
    epsilon: Annotated[OptionalVoterEpsilon, about("epsilon", otherwise="left out where it is searched for")] = None
    Delta: VoterDelta = 0.0
    profile: StatedProfile = None
    delta: ReleaseDelta = None
    affected: Affected = None
    objective: ObjectiveText = "rectangular"
    shape: Shape = "free"
    digits: Annotated[int, about("digits")] = DIGITS
    backend: Backend = "highs"

    def stated_voter(self) -> PrivacyProfile | None:
        """Return what a voter states; of a curve, points down to δ of the release."""
        if self.profile is None:
            return None
        target = None if self.delta is None else Privacy(0.0, self.delta)
        return stated_profile(remote_curve(self.profile), target)

    def spec(self) -> DesignSpec:
        """Return one of the designs that the search makes: what it is expected to cost tells what they all will."""
        epsilon, profile = None if self.epsilon is None else nats(self.epsilon), self.stated_voter()
        voters = (self.K, self.m, epsilon, self.Delta, self.delta, self.affected, profile)
        problem = problem_at(self.parameter, 1.0, *voters)
        if profile is not None:
            return DesignSpec(problem, objective_of(self.objective), self.shape)
        epsilon = problem.voter.epsilon
        stated = "inf" if epsilon == math.inf else epsilon
        return design_of(self, m=None, epsilon=stated, target_epsilon=problem.target.epsilon).spec()


class NeighbourAnswer(AnswerModel):
    """The number next below, which does not reach what was wanted."""

    value: FiniteFloat = Field(description="The number.")
    reached: FiniteFloat = Field(description="Utility or agreement of its γ_opt.")
    bound: FiniteFloat = Field(description="Proven bound on that of any γ that is private there.")
    design: TradeoffPoint = Field(description="Its certified γ.")


class LeastAnswer(AnswerModel):
    """The least m, target ε or voter's ε whose certified γ reaches what was wanted."""

    parameter: Parameter = Field(description="What was searched for.")
    value: FiniteFloat = Field(description="The least number found; ε in nats.")
    measure: Literal["utility", "agreement"] = Field(description="What must be reached.")
    wanted: FiniteFloat = Field(description="How much of it was wanted.")
    reached: FiniteFloat = Field(description="How much the γ has.")
    is_least: bool = Field(
        description="Whether it is proved that no smaller number of so many digits would do; never for epsilon, for "
        "which the utility need not grow, nor where the smallest that is tried reaches it, unless that is 0."
    )
    objective: str = Field(description="What was maximised.")
    shape: str = Field(description="free or monotone.")
    design: TradeoffPoint = Field(description="The certified γ at exactly that number.")
    below: NeighbourAnswer | None = Field(
        description="The number next below, and what it reaches; null if the smallest that is tried reaches it."
    )
