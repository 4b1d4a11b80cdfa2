"""Fields of requests: those that several share, and what each field accepts, in the words of the core's own errors.

Types are checked here, strictly: in JSON, ``false`` and "11" are not numbers; NaN and infinities are rejected.
The ranges are only *described* here; the core checks them, with the same text for every way in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from importlib.resources import files
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationInfo

from darrm_opt.accounting.sampling import Sampling, Scheme
from darrm_opt.answers import SAMPLING, sampling_of
from darrm_opt.design import solver as design
from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.certificate import Arithmetic
from darrm_opt.design.objective import forms
from darrm_opt.design.sweep import MAX_DIGITS, MIN_DIGITS, Parameter
from darrm_opt.planning.baselines import BASELINES, OTHER_BASELINES
from darrm_opt.problem import FRESH, MAX_TARGET_EPSILON
from solver_cache.database.designs import MAX_LISTED
from solver_cache.database.jobs import PAGE_SIZE, State

EXAMPLES: dict[str, Any] = json.loads(files("api.schemas").joinpath("examples.json").read_text(encoding="utf-8"))
"""Examples in the description of the API, by model; a test gets the answers from the application."""

MAX_POINTS = 1001
"""Most points of a curve: more than any screen shows."""

MAX_ALLOWANCES = 101
"""Most allowances of one trade-off."""

MAX_GAMMA_LENGTH = 100_001
"""Most entries of a posted γ that are read at all; the server's max_voters is far below."""

ALL_BASELINES = (*BASELINES, *OTHER_BASELINES)
"""Names of the baselines, the default ones first."""


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

OptionalVoterEpsilon = Annotated[
    FiniteFloat | Literal["inf"] | None,
    described("ε of one voter [nats]; 'inf': the voter is not private. Needed unless a profile is given.", minimum=0),
]

StatedProfile = Annotated[
    list[Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)]]
    | dict[str, dict[str, FiniteFloat] | list[list[FiniteFloat]]]
    | str
    | None,
    Field(
        max_length=1000,
        description="What one voter states of its privacy, instead of epsilon and Delta: points [ε [nats], "
        'δ [probability]] that hold at once, or a curve: {"gaussian": {"mu": μ}}, {"laplace": {"scale": b}}, '
        '{"zcdp": {"rho": ρ}}, '
        '{"rdp": [[α, ε], …]} or {"dp_sgd": {"noise_multiplier": σ, "sampling_probability": q, "steps": T}}; as text '
        "0:0.013,0.1:1e-5 or gaussian(0.0325). m has no meaning with it.",
        examples=[[[0, 0.013], [0.1, 1e-5]], {"gaussian": {"mu": 0.0325}}],
    ),
]

ProfileAnswer = Annotated[
    list[list[FiniteFloat]] | None,
    Field(
        description="Points (ε, δ) of one voter's privacy profile, the last of which is epsilon and Delta; left out "
        "where that is all.",
        exclude_if=lambda profile: profile is None,
    ),
]
"""Profile of a voter in an answer."""

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

MovedVotes = Annotated[int | None, described("How many votes one record can move [votes]; null: all.", minimum=1)]

Ties = Annotated[
    Literal["excluded", "any"],
    Field(description="Votes without a single leader: left out, or any leader is right."),
]

LabelPrice = Annotated[FiniteFloat, described("Cost of a wrong label, in right ones [labels].", minimum=0)]

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


def _in_query(read: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that reads the parts of a list in a query, where it is text with commas."""

    def split(value: Any, info: ValidationInfo) -> Any:
        mode: str = info.mode  # "string" too, which pydantic's own types leave out
        return [*map(read, value.split(","))] if mode == "string" else value

    return BeforeValidator(split)


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text  # which is refused, by its own name


STOP_AT_FIRST = Field(fail_fast=True)
"""Refusal of a list at its first wrong item: a text about each of thousands takes seconds."""

InQueryNumbers = _in_query(_number)
"""Validator of a list of numbers, which a query writes with commas."""

InQueryWords = _in_query(str)
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


def _choice(names: tuple[str, ...]) -> str:
    *first, final = (f"'{name}'" for name in names)
    return f"{', '.join(first)} or {final}"


ACCEPTED = {
    "K": "a whole number of voters, at least 1",
    "m": "a privacy allowance, a real number above 0",
    "epsilon": "a number of nats, at least 0 (inf: not private)",
    "profile": "points [epsilon, delta], or a curve such as {'gaussian': {'mu': 0.0325}}",
    "Delta": "a probability in [0, 1)",
    "delta": "a probability in [0, 1)",
    "affected": "a whole number of voters, at least 1",
    "target_epsilon": "a number of nats, at least 0",
    "objective": "the text of an objective, such as rectangular or shared(2,5)",
    "shape": _choice(get_args(design.Shape)),
    "method": _choice(get_args(design.Method)),
    "backend": f"one of {', '.join(BACKENDS)}",
    "points": f"a whole number of points, from 2 to {MAX_POINTS}",
    "baselines": f"a list of names among {', '.join(ALL_BASELINES)}",
    "ms": f"a list of 1 to {MAX_ALLOWANCES} allowances, real numbers above 0",
    "target_epsilons": f"a list of 1 to {MAX_ALLOWANCES} numbers of nats, at least 0",
    "m_from": "a privacy allowance, a real number above 0",
    "m_to": "a privacy allowance, a real number above m_from",
    "m_points": f"a whole number of allowances, from 1 to {MAX_ALLOWANCES}",
    "parameter": f"{_choice(get_args(Parameter))}; of a cost, a number",
    "mechanism": "the name of a mechanism, such as laplace",
    "threshold": "a number of votes",
    "check_sigma": "a number of votes, at least 0",
    "cap": "a whole number of labels, at least 1",
    "records": "a whole number of records, at least 1",
    "sample": "a whole number of records, at least 1, at most all",
    "neighbours": "'add-remove' with poisson, or 'replace-one'",
    "among": "a whole number of queries, at least 1, with random-allocation",
    "times": "a whole number of queries, at least 1, at most among",
    "labels": "a whole number of labels of one sample, at least 1",
    "utility": "a share in (0, 1], or an agreement in (0.5, 1], and not both",
    "agreement": "a probability in (0.5, 1]",
    "digits": f"a whole number of digits, {MIN_DIGITS} to {MAX_DIGITS}",
    "epsilons": f"a list of 1 to {MAX_POINTS} numbers of nats",
    "gamma": "a list of K + 1 probabilities, symmetric",
    "arithmetic": _choice(get_args(Arithmetic)),
    "fresh": "true (fresh randomness in every answer) or false (trained once)",
    "curve": "true or false",
    "least_accuracy": "a probability in [0.5, 1)",
    "time_limit": "null, or seconds above 0",
    "gap": "null, or a number from 0 to below 1",
    "problems": "a list of problems",
    "queries": "a whole number of releases, at least 1",
    "slack": "a probability in [0, 1)",
    "total_epsilon": f"a number of nats above 0, at most {MAX_TARGET_EPSILON:g}",
    "total_delta": "a probability in [0, 1)",
    "n": "a number of records, at least 2",
    "subsample_size": "a number of records, at least 1",
    "replacement": "True or False",
    "sampling": f"'independent' or 'disjoint'; with records a scheme: {', '.join(get_args(Scheme))}",
    "id": "64 hexadecimal digits",
    "state": f"one of {', '.join(get_args(State))}",
    "limit": f"a whole number, from 1 to {MAX_LISTED}",
    "after": "the id of one that is stored",
    "url": "https://HOST[:PORT][/PATH][?QUERY], the host public and found by DNS, without user name, password and "
    "fragment",
    "webhook": "msg_ and 32 hexadecimal digits",
    "tag": "1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit",
    "other": "64 hexadecimal digits",
    "classes": "a whole number of classes, at least 2",
    "ties": "'excluded' or 'any'",
    "price": "a number at least 0",
    "abstention": "True or False",
    "groups": "a list of 1 to 8 groups, each an object with K, epsilon and perhaps Delta",
    "prior": "the text of an objective that has a prior, such as shared(2,5) or histogram(9,1,0,2)",
}
"""Accepted values by field."""

_OBJECTIVE_PARAMETERS = {"lower", "upper", "tau", "a", "b", "counts", "measure", "parameters", "scenarios", "seed"}


def field_of(argument: str) -> str:
    """Return the field of a request that holds the core's ``argument``.

    >>> field_of("tau"), field_of("gamma[3]"), field_of("K")
    ('objective', 'gamma', 'K')
    """
    name = argument.partition("[")[0]
    return "objective" if name in _OBJECTIVE_PARAMETERS else name


SAMPLES_ARE_TAKEN = (
    "Samples of the records are taken by /v1/plan without groups, /v1/plurality/options, /v1/cost and /v1/calibrate."
)
"""Advice where a field of a sample is not one of the request."""

OF_VOTERS, OF_GROUPS = "of voters", "of groups"
"""Which of two bodies a plan has: errors of its fields are located behind that."""
