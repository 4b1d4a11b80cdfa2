"""Stored designs, their tags, and two of them side by side, as requests and answers."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat

from api.schemas.fields import EXAMPLES, AnswerModel, PageRequest, VoterEpsilon, about
from api.schemas.questions import GammaAnswer, model_of_answer
from darrm_opt.errors import InvalidInput
from darrm_opt.questions import design, table
from darrm_opt.questions.design import nats
from solver_cache.database.designs import TAG_PATTERN, DesignFilter, StoredDesign
from solver_cache.model import LARGEST

TableAnswer, TableDesignAnswer, DesignSummary, PairAnswer = map(
    model_of_answer, (table.TableAnswer, table.TableDesignAnswer, design.DesignSummary, design.PairAnswer)
)

TagName = Annotated[
    str,
    Field(
        description="A tag: 1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit.",
        pattern=f"^{TAG_PATTERN}$",
        examples=["round-2"],
    ),
]

DesignId = Annotated[
    str,
    Field(
        description="Content key of a design: 64 hexadecimal digits.",
        pattern="^[0-9a-f]{64}$",
        examples=[EXAMPLES["GammaAnswer"][0]["id"]],
    ),
]


class DesignsRequest(PageRequest):
    """Which stored designs to list."""

    K: Annotated[int | None, about("K", words="Only designs for this many voters [voters]", most=LARGEST)] = None
    epsilon: Annotated[VoterEpsilon, about("epsilon", words="Only designs for voters with this ε [nats]")] = None
    m: Annotated[FiniteFloat | None, about("m", words="Only designs with this allowance")] = None
    tag: Annotated[TagName | None, about("tag")] = None

    def filter(self) -> DesignFilter:
        """Return the filter; raises InvalidInput for a tag of another form."""
        epsilon = None if self.epsilon is None else nats(self.epsilon)
        return DesignFilter(self.K, epsilon, self.m, self.tag)


class DesignsAnswer(AnswerModel):
    """Stored designs, the newest first."""

    designs: list[DesignSummary] = Field(  # type: ignore[valid-type]  # a model that is made
        description="One page of them."
    )
    next: str | None = Field(description="Give this as `after` for the next page; null if there is none.")


class DesignAnswer(AnswerModel):
    """A stored design, a γ or a table for several classes, proved again, with its tags."""

    id: str = Field(description="Content key.")
    created: str = Field(description="When it was stored (UTC, ISO 8601).")
    tags: list[str] = Field(description="Its tags, in order.")
    design: GammaAnswer | TableAnswer | TableDesignAnswer = Field(  # type: ignore[valid-type]  # a model that is made
        description="The certified γ, or the certified table for several classes or for groups of voters."
    )


class ComparisonAnswer(AnswerModel):
    """Two stored designs side by side, each proved again."""

    first: DesignAnswer = Field(description="One of them.")
    second: DesignAnswer = Field(description="The other.")
    same_objective: bool = Field(
        description="Whether both maximise the same, so that their utilities can be compared; "
        "else each is a share by its own measure."
    )
    numbers: dict[str, PairAnswer] = Field(  # type: ignore[valid-type]
        description="Their numbers by name, with those of a GammaAnswer: the problem's, utility, upper_bound, gap, "
        "margin; and narrowest and unanimous, the chance that a majority of one vote, "
        "or of all, is released as it was [probability]."
    )
    gamma_difference: list[FiniteFloat] | None = Field(
        description="γ(l) of the second − γ(l) of the first [probability]; null if they have other numbers of voters."
    )


def summary(stored: StoredDesign) -> BaseModel | None:
    """Return a design as a list shows it; None if its record does not say what it is."""
    about = stored.about
    # A row may hold anything, and JSON has no infinity: one damaged row must not take the list with it.
    if about is None or not all(
        map(math.isfinite, (about.voter_delta, about.target_epsilon, about.target_delta, about.utility))
    ):
        return None
    private = 0 < about.voter_epsilon < math.inf and not stored.points
    # Of two numbers that were rounded to a decimal grid: more digits of the quotient mean nothing.
    allowance = float(f"{about.target_epsilon / about.voter_epsilon:.10g}") if private else None
    beside = {"id": stored.key, "created": stored.created, "tags": list(stored.tags), "m": allowance}
    record = {**about.fields(), **beside, **stored.points}
    return DesignSummary.model_validate(record)


def comparison(first: DesignAnswer, second: DesignAnswer) -> ComparisonAnswer:
    """Return two designs side by side."""
    one, other = _gamma("id", first), _gamma("other", second)
    others = _numbers(other)
    same_length = len(one.gamma) == len(other.gamma)
    return ComparisonAnswer(
        first=first,
        second=second,
        same_objective=one.objective == other.objective,
        numbers={name: _pair(value, others[name]) for name, value in _numbers(one).items()},
        gamma_difference=[b - a for a, b in zip(one.gamma, other.gamma, strict=True)] if same_length else None,
    )


def _gamma(name: str, answer: DesignAnswer) -> Any:
    if isinstance(answer.design, GammaAnswer):
        return answer.design
    raise InvalidInput(name, answer.id, "the id of a γ", "Rules for several classes are not compared.")


def _numbers(one: Any) -> dict[str, Any]:
    gamma, K = one.gamma, one.problem.K
    return {
        **one.problem.model_dump(),
        **{name: getattr(one, name) for name in ("utility", "upper_bound", "gap")},
        "margin": one.certificate.margin,
        "narrowest": (1 + gamma[K // 2 + 1]) / 2,
        "unanimous": (1 + gamma[K]) / 2,
    }


def _pair(first: Any, second: Any) -> BaseModel:
    numbers = isinstance(first, int | float) and isinstance(second, int | float)
    values = [float(value) if isinstance(value, int) else value for value in (first, second)]
    difference = float(second - first) if numbers else None
    return PairAnswer.model_validate({"first": values[0], "second": values[1], "difference": difference})
