"""Fields of questions about voters, and about what all their releases may cost together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from darrm_opt.answers import drawn_bags
from darrm_opt.bagging import Bags
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.privacy_curves import profile_in_total, remote_curve
from darrm_opt.problem import Privacy, Problem
from darrm_opt.questions.design import Epsilon, stated_problem
from darrm_opt.questions.question import Question, question_field


def prior_of(text: str, K: int | None = None) -> Objective:
    """Return the objective of a text whose prior says how votes fall; with K, one that is valid for so many voters."""
    try:
        objective = as_objective(text)
        if isinstance(objective, Objective) and K is not None:
            objective.check_voters(K)
    except InvalidInput as err:  # of a number in it
        named = "" if err.argument == "objective" else f", as {err.argument}"
        raise InvalidInput("prior", text, f"{err.accepted}{named}", err.advice) from err
    if not isinstance(objective, Objective):
        raise InvalidInput("prior", text, FIELDS["prior"].accepted)
    return objective


@dataclass(frozen=True, kw_only=True)
class TotalQuestion(Question):
    """Question about mechanisms within a total: voters, releases, and the privacy of all of them together."""

    tag: ClassVar[str] = "accounting"

    queries: int = question_field(1)
    total_epsilon: float = question_field()
    total_delta: float = question_field(0.0)
    K: int = question_field()
    epsilon: Epsilon = question_field(None)
    Delta: float = question_field(0.0)
    profile: Any = question_field(None)
    affected: int | None = question_field(None)
    fresh: bool = question_field(default=False)
    n: int | None = question_field(None)
    subsample_size: int | None = question_field(None)
    replacement: bool = question_field(default=True)

    @property
    def voters(self) -> int:
        """Number of voters."""
        return self.K

    @property
    def total(self) -> Privacy:
        """The (ε, δ) of all releases together."""
        return Privacy(self.total_epsilon, self.total_delta)

    def problem(self) -> Problem:
        """Return the problem of these voters, at some target of no account."""
        profile, delta = self.profile, None
        if profile is not None:
            share = self.K, self.queries, self.total_delta, self.affected
            points = profile_in_total(remote_curve(profile), *share, fresh=self.fresh).points
            profile, delta = [list(point) for point in points], self.total_delta or None
        numbers = self.K, None, self.epsilon, self.Delta, delta, self.affected
        return stated_problem(*numbers, profile=profile, target_epsilon=1.0)

    def bags(self) -> Bags | None:
        """Return how the voters' subsamples are drawn; None where they are not."""
        return drawn_bags(self.record())
