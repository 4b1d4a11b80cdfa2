"""Fields that several requests share, and what each accepts.

Types are checked at the edge, strictly: ``false`` is no number and "11" is none in JSON, NaN and infinities are refused.
The ranges are only *described* here; the core checks them, with the same text for every way in.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationInfo

from darrm_opt.design.objective import FORMS
from darrm_opt.problem import FRESH

LARGEST_POINTS = 1001
"""Most points of a curve: finer than any screen."""

MOST_ALLOWANCES = 101
"""Most allowances of one trade-off."""

LONGEST_GAMMA = 100_001
"""Most entries of a posted γ that are read at all; the server's most_voters is far below."""

ACCEPTED = {
    "K": "a whole number of voters, at least 1",
    "m": "a privacy allowance, a real number above 0",
    "epsilon": "a number of nats, at least 0 (inf: not private)",
    "Delta": "a probability in [0, 1)",
    "delta": "a probability in [0, 1)",
    "affected": "None (all voters) or a whole number",
    "target_epsilon": "a number of nats, at least 0",
    "objective": "the text of an objective, such as rectangular or shared(2,5)",
    "shape": "'free' or 'monotone'",
    "method": "'auto', 'enumerate' or 'cuts'",
    "backend": "one of highs, gurobi, cvxpy",
    "points": f"a whole number of points, from 2 to {LARGEST_POINTS}",
    "baselines": "a list of names among subsampling, double_subsampling, randomized_response, gnmax, majority",
    "ms": f"a list of 1 to {MOST_ALLOWANCES} allowances, real numbers above 0",
    "target_epsilons": f"a list of 1 to {MOST_ALLOWANCES} numbers of nats, at least 0",
    "m_from": "a privacy allowance, a real number above 0",
    "m_to": "a privacy allowance, a real number above m_from",
    "m_points": f"a whole number of allowances, from 1 to {MOST_ALLOWANCES}",
    "epsilons": f"a list of 1 to {LARGEST_POINTS} numbers of nats",
    "gamma": "a list of K + 1 probabilities, symmetric",
    "arithmetic": "'float' or 'ball'",
    "fresh": "true (fresh randomness in every answer) or false (trained once)",
    "least_accuracy": "a probability in [0.5, 1)",
    "time_limit": "null, or seconds above 0",
    "problems": "a list of problems",
    "queries": "a whole number of releases, at least 1",
    "slack": "a probability in [0, 1)",
    "total_epsilon": "a number of nats above 0",
    "total_delta": "a probability in [0, 1)",
    "n": "a number of records, at least 2",
    "subsample_size": "a number of records, at least 1",
    "replacement": "True or False",
    "sampling": "'independent' or 'disjoint'",
    "id": "64 hexadecimal digits",
    "state": "one of queued, running, done, failed, cancelled",
    "limit": "a whole number of jobs, from 1 to 1000",
    "after": "the id of a job that is kept",
    "prior": "the text of an objective that has a prior, such as shared(2,5) or histogram(9,1,0,2)",
}
"""What each field accepts, in the words of the core's own errors."""

_OF_THE_OBJECTIVE = {"lower", "upper", "tau", "a", "b", "counts", "measure", "parameters", "scenarios", "seed"}


def field_of(argument: str) -> str:
    """Return the field of a request through which the core's ``argument`` came.

    >>> field_of("tau"), field_of("gamma[3]"), field_of("K")
    ('objective', 'gamma', 'K')
    """
    name = argument.partition("[")[0]
    return "objective" if name in _OF_THE_OBJECTIVE else name


def described(text: str, **range_: Any) -> Any:
    """Return a field with its description and the range that the core will check."""
    return Field(description=text, json_schema_extra=range_)


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
        description=f"What is maximised: {FORMS}, followed by tv or agreement if not the usual measure; or "
        "expected_error(lower=0, upper=1, scenarios=200, seed=0), minimax(lower=0.5, upper=1, points=101).",
        examples=["rectangular", "shared(2,5)", "uniform(lower=0.7) agreement"],
    ),
]

Shape = Annotated[
    Literal["free", "monotone"], described("monotone: γ does not decrease with the majority; costs a little.")
]

Method = Annotated[
    Literal["auto", "enumerate", "cuts"], described("How to solve, if it is not solved already: same answer.")
]

Backend = Annotated[
    Literal["highs", "gurobi", "cvxpy"], described("Which solver, if it is not solved already: same answer.")
]


def _numbers(value: Any, info: ValidationInfo) -> Any:
    """Read a list from a query, where it is text with commas."""
    mode: str = info.mode  # "string" too, which pydantic's own types leave out
    return [_number(part) for part in value.split(",")] if mode == "string" else value


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text  # which is refused, by its own name


def _words(value: Any, info: ValidationInfo) -> Any:
    """Read a list of names from a query, where it is text with commas."""
    mode: str = info.mode
    return value.split(",") if mode == "string" else value


InQueryNumbers = BeforeValidator(_numbers)
"""Of a list of numbers, which a query writes with commas."""

InQueryWords = BeforeValidator(_words)
"""Of a list of names, likewise."""

_GAMMA = "γ(0..K) [probability], exactly symmetric: γ(l) = γ(K−l)."

_Entries = Annotated[
    list[Annotated[FiniteFloat, Field(json_schema_extra={"minimum": 0, "maximum": 1})]],
    InQueryNumbers,
    Field(max_length=LONGEST_GAMMA, json_schema_extra={"minItems": 2}),
]

PostedGamma = Annotated[_Entries, Field(description=_GAMMA)]

OptionalGamma = Annotated[_Entries | None, Field(description=_GAMMA)]


class Asked(BaseModel):
    """What comes in: strict, nothing unknown."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Answer(BaseModel):
    """Plain data that leaves; a number that is not finite is a bug, and must not leave as null."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
