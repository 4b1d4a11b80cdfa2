"""Fields that several requests share.

Types are checked here, strictly: in JSON, ``false`` and "11" are not numbers; NaN and infinities are rejected.
The ranges are only *described* here; the core checks them, with the same text for every way in.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from importlib.resources import files
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationInfo

from api.errors.accepted import MAX_GAMMA_LENGTH
from darrm_opt.accounting.sampling import Sampling, Scheme
from darrm_opt.answers import SAMPLING, sampling_of
from darrm_opt.design import solver as design
from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.objective import forms
from darrm_opt.problem import FRESH
from solver_cache.database.designs import MAX_LISTED
from solver_cache.database.jobs import PAGE_SIZE

EXAMPLES: dict[str, Any] = json.loads(files("api.schemas").joinpath("examples.json").read_text(encoding="utf-8"))
"""Examples of requests and answers in the description of the API; a test gets these answers from the application."""


def described(text: str, **range_: Any) -> Any:
    """Return a field with its description and the range that the core will check."""
    return Field(description=text, json_schema_extra=range_)


def one_of(names: Collection[str]) -> AfterValidator:
    """Return a validator that accepts the names of a registry."""

    def check(value: str) -> str:
        if value not in names:
            raise ValueError  # without the value, which may have lone surrogates
        return value

    return AfterValidator(check)


Voters = Annotated[int, described("Number of voters [voters].", minimum=1)]

Allowance = Annotated[
    FiniteFloat | None,
    described(
        "Privacy allowance: the release may cost m times one voter's ε. Left out where target_epsilon is given.",
        exclusiveMinimum=0,
    ),
]

VoterEpsilon = Annotated[
    FiniteFloat | Literal["inf"], described("ε of one voter [nats]; 'inf': the voter is not private.", minimum=0)
]

VoterDelta = Annotated[
    FiniteFloat, described("Δ, failure probability of one voter [probability].", minimum=0, exclusiveMaximum=1)
]

ReleaseDelta = Annotated[
    FiniteFloat | None,
    described(
        "δ, failure probability of the release [probability]; by default 1 − (1−Δ)^m, or Δ where there is no m.",
        minimum=0,
        exclusiveMaximum=1,
    ),
]

Affected = Annotated[
    int | None, described("How many voters one record can influence [voters]; by default K.", minimum=1)
]

Fresh = Annotated[bool, Field(description=FRESH)]

TargetEpsilon = Annotated[
    FiniteFloat | None,
    described(
        "ε of the release [nats]; the only way for epsilon = 0 and epsilon = 'inf', where m has no meaning.",
        minimum=0,
        maximum=500,
    ),
]

ObjectiveText = Annotated[
    str,
    Field(
        max_length=20_000,
        description=f"What is maximised: {forms()}, followed by tv or agreement if not the usual measure; or "
        "expected_error(lower=0, upper=1, scenarios=200, seed=0), minimax(lower=0.5, upper=1, points=101).",
        examples=["rectangular", "shared(2,5)", "uniform(lower=0.7) agreement"],
    ),
]

Shape = Annotated[design.Shape, described("monotone: γ does not decrease with the majority; costs a little.")]

Method = Annotated[design.Method, described("How to solve, if it is not solved already: same answer.")]

Backend = Annotated[
    str,
    one_of(BACKENDS),
    described("Which solver, if it is not solved already: same answer.", enum=[*BACKENDS]),
]


def _split_numbers(value: Any, info: ValidationInfo) -> Any:
    """Read a list from a query, where it is text with commas."""
    mode: str = info.mode  # "string" too, which pydantic's own types leave out
    return [_number(part) for part in value.split(",")] if mode == "string" else value


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text  # which is refused, by its own name


def _split_names(value: Any, info: ValidationInfo) -> Any:
    """Read a list of names from a query, where it is text with commas."""
    mode: str = info.mode
    return value.split(",") if mode == "string" else value


STOP_AT_FIRST = Field(fail_fast=True)
"""Refusal of a list at its first wrong item: a text about each of thousands takes seconds."""

InQueryNumbers = BeforeValidator(_split_numbers)
"""Validator of a list of numbers, which a query writes with commas."""

InQueryWords = BeforeValidator(_split_names)
"""Validator of a list of names, likewise."""

_GAMMA = "γ(0..K) [probability], exactly symmetric: γ(l) = γ(K−l)."

_Entries = Annotated[
    list[Annotated[FiniteFloat, Field(json_schema_extra={"minimum": 0, "maximum": 1})]],
    STOP_AT_FIRST,
    InQueryNumbers,
    Field(max_length=MAX_GAMMA_LENGTH, json_schema_extra={"minItems": 2}),
]

PostedGamma = Annotated[_Entries, Field(description=_GAMMA)]

OptionalGamma = Annotated[_Entries | None, Field(description=_GAMMA)]


class RequestModel(BaseModel):
    """Base of requests: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class SampledRequest(RequestModel):
    """Base of requests about queries that may have a fresh sample of the records each."""

    records: Annotated[
        int | None, described("Records of which every query has a fresh, secret sample [records].", minimum=1)
    ] = None
    sample: Annotated[
        int | None, described("Records drawn for one query (by each voter, with each-voter) [records].", minimum=1)
    ] = None
    sampling: Annotated[
        str | None,
        Field(
            max_length=100,
            description="How: poisson (the default), without-replacement, random-allocation, each-voter or "
            "each-voter-with-replacement.",
        ),
    ] = None
    neighbours: Annotated[
        str | None,
        Field(
            max_length=100,
            description="add-remove (the default with poisson, and possible there only) or replace-one.",
        ),
    ] = None
    labels: Annotated[int | None, described("Labels that one sample serves: tokens of a text [labels].", minimum=1)] = (
        None
    )

    among: Annotated[
        int | None,
        described("Queries in a row among which each record is spread, with random-allocation [releases].", minimum=1),
    ] = None
    times: Annotated[
        int | None, described("In how many of those it is, with random-allocation; by default 1 [releases].", minimum=1)
    ] = None

    def as_sampling(self) -> Sampling | None:
        """Return how records are drawn anew for every query."""
        return sampling_of(self.sampling_fields())

    def sampling_fields(self) -> dict[str, Any]:
        """Return the fields of it that are given."""
        return {name: value for name in SAMPLING if (value := getattr(self, name)) is not None}


class PageRequest(RequestModel):
    """Base of requests for a list, page by page."""

    limit: Annotated[
        int, described("At most so many on the page.", minimum=1, maximum=MAX_LISTED), Field(ge=1, le=MAX_LISTED)
    ] = PAGE_SIZE
    after: Annotated[
        str | None, Field(description="Continue behind this id: the `next` of the page before.", max_length=64)
    ] = None


class AnswerModel(BaseModel):
    """Base of answers: plain data; a number that is not finite is a bug, and must not leave as null."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class SamplingAnswer(AnswerModel):
    """How records are drawn anew for every query."""

    records: int = Field(description="Records of which every query has a sample.")
    sample: int | None = Field(description="Records drawn for one query, or by each voter; null where a rate is given.")
    rate: FiniteFloat | None = Field(description="Chance of each record, with poisson; null where a number is given.")
    scheme: str = Field(description=f"One of {', '.join(get_args(Scheme))}.")
    neighbours: str = Field(description="add-remove or replace-one.")
    labels: int = Field(description="Labels that one sample serves.")


class AllocationAnswer(SamplingAnswer):
    """How records are drawn anew for every round of queries, each by coins of its own."""

    among: int = Field(description="Queries in a row among which each record is spread.")
    times: int = Field(description="In how many of those it is.")
