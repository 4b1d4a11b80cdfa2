"""Ranking of release mechanisms within one budget, a comparison and a plan, as requests and answers."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, FiniteFloat, Tag

from api.schemas.accounts import BudgetFields, EachAnswer, SuggestionAnswer, TotalRequest
from api.schemas.design import ProblemAnswer
from api.schemas.fields import (
    OF_GROUPS,
    OF_VOTERS,
    Affected,
    AnswerModel,
    Fresh,
    LabelPrice,
    ProfileAnswer,
    SampledRequest,
    Ties,
    TimeLimit,
    about,
)
from api.schemas.plurality import Groups, LeastAccuracy, PluralityOptionsRequest, check_accuracy, voter_groups
from darrm_opt.accounting.sampling import Scheme
from darrm_opt.answers import drawn_bags
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.planning.option import MECHANISMS
from darrm_opt.planning.question import Question
from darrm_opt.problem import FRESH, MAX_GROUP_CLASSES, Problem
from darrm_opt.questions.voters import prior_of
from darrm_opt.record import DesignSpec

Draw = Literal["independent", "disjoint"]
"""How subsamples are drawn."""

DRAWS: tuple[Draw, ...] = get_args(Draw)
"""The same by name, the default first."""


class VotersAnswer(AnswerModel):
    """The voters, as they were understood."""

    K: int = Field(description="Number of voters [voters].")
    epsilon: FiniteFloat | Literal["inf"] = Field(description="ε of one voter [nats].")
    Delta: FiniteFloat = Field(description="Δ of one voter [probability].")
    profile: ProfileAnswer = None
    affected: int = Field(description="How many voters one record can influence [voters].")


class DrawAnswer(AnswerModel):
    """How the voters' subsamples are drawn, and whom one record reaches."""

    n: int = Field(description="Records in the dataset [records].")
    subsample_size: int = Field(description="Records drawn for one model [records].")
    replacement: bool = Field(description="Whether a record can be drawn twice within a subsample.")
    sampling: str = Field(description="independent or disjoint.")
    chance: FiniteFloat = Field(description="That one record is in one subsample [probability].")
    reached: FiniteFloat = Field(description="Voters that one record reaches on average [voters].")


Drawn = Annotated[
    Draw | Scheme | None,
    about(
        "sampling",
        words="With n and without replacement, how the subsamples are drawn: independent (the default) or disjoint. "
        "With records, how these are drawn: poisson (the default), without-replacement, random-allocation, each-voter "
        "or each-voter-with-replacement",
        longest=None,
    ),
]
"""How subsamples or a sample are drawn, which are never both there."""


class ReleasePlanRequest(TotalRequest, SampledRequest):
    """Voters, queries and a budget: what should be released?

    With `records`, every query has a fresh and secret sample of them. Voters that are not private share it, and the
    answer is that of `/v1/plurality/options` for two classes; private ones that are fresh each draw their own.
    """

    sampling: Drawn = None
    prior: Annotated[
        str,
        about(
            "prior",
            words="How votes fall: the text of an objective with a prior, such as shared(2,5), or histogram(9,1,0,2) "
            "for votes that were counted",
        ),
    ] = "rectangular"
    least_accuracy: Annotated[FiniteFloat, about("least_accuracy", least=0.5)] = 0.6
    time_limit: TimeLimit = None

    def spec(self) -> DesignSpec:
        """Return a design for these voters, with the total as its target."""
        total = self.total()
        # Refused by the request, and not by a job minutes later.
        prior_of(self.prior, self.K)
        sampling, spec = self.as_sampling(), self.voters_spec()
        if sampling is None and self.sampling not in (None, *DRAWS):
            raise InvalidInput("sampling", self.sampling, "independent or disjoint without records")
        if sampling is not None:  # refuses voters that an account of their samples does not cover
            given: dict[str, Any] = {"fresh": self.fresh, "bags": drawn_bags(self.draw()), "sampling": sampling}
            Question.of(self.K, spec.problem.voter, self.queries, total, self.affected, **given)
        return spec

    def draw(self) -> dict[str, Any]:
        """Return how the voters' subsamples are drawn."""
        return super().draw() | {"sampling": DRAWS[0] if self.records is not None else self.sampling or DRAWS[0]}

    def sampling_fields(self) -> dict[str, Any]:
        """Return the fields of a sample of the records that are given."""
        given = super().sampling_fields()
        if self.records is None:
            given.pop("sampling", None)  # of subsamples
        return given

    def options(self) -> PluralityOptionsRequest | None:
        """Return the same request as one about two classes, where voters that are not private share a sample."""
        if self.records is None or self.epsilon != "inf":
            return None
        if self.n is not None:
            raise InvalidInput(
                "n", self.n, Rule("cannot be combined with records"), "Its voters are not trained on subsamples."
            )
        names = ("K", "prior", "queries", "total_epsilon", "total_delta", "least_accuracy", "time_limit")
        fields = {name: getattr(self, name) for name in names} | self.sampling_fields()
        affected = 1 if self.affected is None else self.affected
        return PluralityOptionsRequest(classes=2, affected=affected, **fields)


class GroupPlanRequest(BudgetFields):
    """Voters that need not be alike, queries and a budget: what should be released?

    The answer is that of `/v1/plurality/options`, its `mechanism` a table for the groups; voters that are all alike,
    and count alike, have the answer that names them by K and epsilon.
    """

    groups: Groups
    classes: Annotated[int, about("classes", most=MAX_GROUP_CLASSES)] = 2
    affected: Affected = None
    fresh: Fresh = False
    prior: Annotated[
        str | None,
        about(
            "prior",
            words="How votes fall, as text",
            otherwise="null: dirichlet(1), for voters that are all alike their default",
            example="dirichlet(2)",
        ),
    ] = None
    ties: Ties = "excluded"
    price: LabelPrice = 0.0
    least_accuracy: LeastAccuracy = None
    time_limit: TimeLimit = None

    def alike(self) -> ReleasePlanRequest | PluralityOptionsRequest | None:
        """Return the same request by K and epsilon where the voters are all alike, and count alike; else None."""
        check_accuracy(self.least_accuracy, self.classes)
        if len({group.weight for group in self.groups}) > 1:
            return None
        found = self.problem().merged
        given = self.model_dump(exclude_none=True, exclude={"groups", "classes", "ties", "price", "fresh"})
        if found.is_binary:
            voter: dict[str, Any] = {"profile": [list(point) for point in found.voter.points]}
            if len(found.voter.points) == 1:
                epsilon: Any = "inf" if found.voter.epsilon == math.inf else found.voter.epsilon
                voter = {"epsilon": epsilon, "Delta": found.voter.delta}
            return ReleasePlanRequest(K=found.K, **voter, fresh=self.fresh, **given)
        if found.is_public:
            given |= {"affected": found.affected, "classes": self.classes, "ties": self.ties, "price": self.price}
            return PluralityOptionsRequest(K=found.K, **given)
        return None

    def problem(self) -> Problem:
        """Return the problem of the groups, the total its target."""
        voters, abstention = voter_groups(self.groups), self.price > 0
        return Problem(
            groups=voters, target=self.total(), affected=self.affected, classes=self.classes, abstention=abstention
        )


PlanRequest = Annotated[
    Annotated[ReleasePlanRequest, Tag(OF_VOTERS)] | Annotated[GroupPlanRequest, Tag(OF_GROUPS)],
    Discriminator(lambda given: OF_GROUPS if isinstance(given, dict) and "groups" in given else OF_VOTERS),
]
"""A plan as a body: of voters that are alike, or of groups."""


class OptionAnswer(AnswerModel):
    """One mechanism, calibrated to the total."""

    mechanism: str = Field(
        description=f"The mechanism, one of {', '.join(MECHANISMS)}; optimal: γ_opt of one target; "
        "optimal_sequence: one γ for all queries at once."
    )
    fits: bool = Field(description="Whether any amount of it is within the total.")
    outcome: Literal["fits", "does not fit", "not computed", "does not apply"] = Field(
        description="The same, and where it does not fit, whether that is known."
    )
    accuracy: FiniteFloat | None = Field(
        description="Pr[release = majority that was voted] over the prior [probability]; null where it does not fit."
    )
    queries: int | None = Field(description="Answers allowed [releases]; null: without limit, or it does not fit.")
    spent: EachAnswer | None = Field(description="(ε, δ) of all of them together, proved; null where it does not fit.")
    account: str = Field(
        description="What proves that: post-processing, votes, bits, profile, "
        "optimal or simple; none where it does not fit."
    )
    voters: int = Field(description="Whose majority is released [voters].")
    problem: ProblemAnswer | None = Field(
        description="The voters and the target of one release for which γ is proved; null where no γ is needed."
    )
    gamma: list[FiniteFloat] | None = Field(description="γ(0..K) [probability]; null likewise.")
    why: str = Field(description="In words.")


class PlanAnswer(AnswerModel):
    """Plan: what to do, and every mechanism compared."""

    voters: VotersAnswer
    fresh: bool = Field(description=f"Whether the voters were taken to be fresh. {FRESH}")
    draw: DrawAnswer | None = Field(
        default=None, description="How the voters' subsamples are drawn; null where nothing was said of it."
    )
    queries: int = Field(description="Answers wanted [releases].")
    total: EachAnswer = Field(description="(ε, δ) of all answers together.")
    prior: str = Field(description="How votes fall.")
    least_accuracy: FiniteFloat = Field(description="Below this an answer is of no use [probability].")
    verdict: Literal["plain majority", "noisy majority", "none"] = Field(
        description="plain majority: this mechanism is not needed; none: no option is of use."
    )
    advice: str = Field(description="What to do and why, in words.")
    options: list[OptionAnswer] = Field(
        description="One for each mechanism, the most accurate first; those that do not fit last."
    )
    design_hash: str | None = Field(
        default=None,
        description="Hash of the design, as `darrm statement` has it for this plan; null where no γ is recommended, "
        "and where records are sampled.",
    )
    zcdp: FiniteFloat | None = Field(
        default=None, description="A ρ for which its answers together are ρ-zCDP; null where none is proved."
    )
    suggestions: list[SuggestionAnswer] = Field(description="If no option is useful: changes that make one useful.")
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")
