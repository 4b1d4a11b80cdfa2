"""Fields of questions about voters, and about what all their releases may cost together; their parts of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from darrm_opt.bagging import Bags
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.privacy_curves import (
    GROUP_POINTS,
    remote_curve,
    stated_profile,
)
from darrm_opt.problem import MAX_CLASSES, Privacy, VoterGroup
from darrm_opt.questions.design import (
    PROFILE_WORDS,
    AffectedQuestion,
    Epsilon,
    nats,
)
from darrm_opt.questions.question import Answer, Fields, Question, answer_field, question_field
from darrm_opt.tables.priors import PluralityPrior, Ties, parse_prior


def prior_refused(text: Any, err: InvalidInput, name: str = "prior") -> InvalidInput:
    """Return the refusal of a prior, or of another field of that name, given that of a number in its text."""
    named = "" if err.argument in ("objective", "prior", name) else f" for {err.argument}"
    return InvalidInput(name, text, f"{err.accepted}{named}", err.advice)


def class_prior(text: PluralityPrior | str) -> PluralityPrior:
    """Return the prior of votes among classes that a text names, or one itself."""
    try:
        return parse_prior(text) if isinstance(text, str) else text
    except InvalidInput as err:
        raise prior_refused(text, err) from err


def prior_of(text: str, K: int | None = None) -> Objective:
    """Return the objective of a text that has a prior; with K, one that is valid for so many voters."""
    try:
        objective = as_objective(text)
        if isinstance(objective, Objective) and K is not None:
            objective.check_voters(K)
    except InvalidInput as err:
        raise prior_refused(text, err) from err
    if not isinstance(objective, Objective):
        raise InvalidInput("prior", text, FIELDS["prior"].accepted)
    return objective


class GroupFields(Fields):
    """Voters that are alike."""

    K: int = question_field()
    epsilon: Epsilon = question_field(None)
    Delta: float = question_field(0.0)
    profile: Any = question_field(None)
    weight: float = question_field(1.0)

    @property
    def voter(self) -> Privacy:
        """The privacy of one of them: (ε, Δ), or what they state."""
        if self.profile is None:
            return Privacy(nats(self.epsilon), self.Delta)
        self.refuse(("epsilon", "Delta"), "cannot be combined with profile")
        return stated_profile(remote_curve(self.profile), points=GROUP_POINTS)


def voter_groups(fields: Sequence[GroupFields]) -> list[VoterGroup]:
    """Return the groups of a question."""
    groups = []
    for place, group in enumerate(fields):
        try:
            groups.append(VoterGroup(group.K, group.voter))
        except InvalidInput as err:
            raise InvalidInput(f"groups[{place}].{err.argument}", err.value, err.accepted, err.advice) from err
    return groups


class QueriesQuestion(Question):
    """Question about any number of releases."""

    queries: int = question_field(1)


class WithinTotalQuestion(QueriesQuestion):
    """Question about releases and the privacy of all of them together."""

    total_epsilon: float = question_field()
    total_delta: float = question_field(0.0)


class PluralityQuestion(AffectedQuestion):
    """Question about the class with the most votes, and what an answer is worth."""

    classes: int = question_field(2, most=MAX_CLASSES)
    ties: Ties = question_field("excluded")
    price: float = question_field(0.0)


class PublicQuestion(AffectedQuestion):
    """Question about voters that are not private."""

    K: int = question_field()
    affected: int = question_field(1)

    _reaches_all: ClassVar[bool] = False  # None says nothing of them


class PublicVotersQuestion(PublicQuestion, PluralityQuestion):
    """Question about voters that are not private, among any number of classes."""

    classes: int = question_field(most=MAX_CLASSES)
    prior: str = question_field(
        "dirichlet(1)",
        words="Prior, the assumed distribution of the votes: favoured(a,…), beta(a,b), dirichlet(a), or histogram(…) "
        "of counts that were seen",
        example="favoured(0.4,0.6,0.8)",
    )


class EachAnswer(Answer):
    """Privacy of a release, or of several together."""

    epsilon: float = answer_field("ε of the release [nats].")
    delta: float = answer_field("δ of the release [probability].")


class VotersAnswer(Answer):
    """The voters, as they were understood."""

    K: int = answer_field("Number of voters [voters].")
    epsilon: float | Literal["inf"] = answer_field("ε of one voter [nats].")
    Delta: float = answer_field("Δ of one voter [probability].")
    profile: list[list[float]] | None = answer_field(PROFILE_WORDS, None, omitted=True)
    affected: int = answer_field("Number of voters that one record can influence [voters].")


class DrawAnswer(Answer):
    """How the voters' subsamples are drawn, and whom one record reaches."""

    n: int = answer_field("Records in the dataset [records].")
    subsample_size: int = answer_field("Records drawn for one model [records].")
    replacement: bool = answer_field("Whether a subsample may contain a record twice.")
    sampling: str = answer_field("independent or disjoint.")
    chance: float = answer_field("That one record is in one subsample [probability].")
    reached: float = answer_field("Voters that one record reaches on average [voters].")


def draw_record(bags: Bags | None, K: int) -> dict[str, Any] | None:
    """Return how subsamples are drawn, and whom one record reaches; None where they are not."""
    if bags is None:
        return None
    return asdict(bags) | {"chance": bags.chance, "reached": bags.affected_distribution(K).mean}


class GroupAnswer(Answer):
    """A group, in canonical numbers."""

    K: int = answer_field("Number of voters [voters].")
    epsilon: float | Literal["inf"] | None = answer_field(
        "ε of one voter's answer [nats]; left out where a profile is stated.", None, omitted=True
    )
    Delta: float | None = answer_field(
        "Δ of one voter's answer [probability]; left out where a profile is stated.", None, omitted=True
    )
    profile: list[list[float]] | None = answer_field(
        "Points (ε, δ) of the privacy profile of one voter's answer; left out where ε and Δ are all.",
        None,
        omitted=True,
    )
