"""What goes in and what comes out, as types: names, units, ranges and examples.

Types are checked here, strictly: ``false`` is no number and "11" is none in JSON, NaN and infinities are refused. The
ranges are only *described* here; the core checks them, with the same text for every way in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from api.examples import CURVE_EXAMPLE, GAMMA_EXAMPLE, REQUEST_EXAMPLES
from darrm_opt.problem import Problem

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
    "points": "a whole number of points, from 2 to 1001",
}
"""What each field accepts, in the words of the core's own errors."""

_OF_THE_OBJECTIVE = {"lower", "tau", "a", "b", "counts", "measure", "parameters"}

LARGEST_POINTS = 1001
"""Most points of a curve: finer than any screen."""


def field_of(argument: str) -> str:
    """Return the field of a request through which the core's ``argument`` came.

    >>> field_of("tau"), field_of("gamma[3]"), field_of("K")
    ('objective', 'gamma', 'K')
    """
    name = argument.partition("[")[0]
    return "objective" if name in _OF_THE_OBJECTIVE else name


def _described(text: str, **range_: Any) -> Any:
    return Field(description=text, json_schema_extra=range_)


class DesignRequest(BaseModel):
    """A noise function to design: K voters, how private each is, and how private their majority must be."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": REQUEST_EXAMPLES},
    )

    K: Annotated[int, _described("Number of voters [voters].", minimum=1)]
    m: Annotated[
        FiniteFloat | None,
        _described(
            "Privacy allowance: the release may cost m times one voter's ε. Left out where target_epsilon is given.",
            exclusiveMinimum=0,
        ),
    ] = None
    epsilon: Annotated[
        FiniteFloat | Literal["inf"], _described("ε of one voter [nats]; 'inf': the voter is not private.", minimum=0)
    ]
    Delta: Annotated[
        FiniteFloat, _described("Δ, failure probability of one voter [probability].", minimum=0, exclusiveMaximum=1)
    ] = 0.0
    delta: Annotated[
        FiniteFloat | None,
        _described(
            "δ, failure probability of the release [probability]; by default 1 − (1−Δ)^m, or Δ where there is no m.",
            minimum=0,
            exclusiveMaximum=1,
        ),
    ] = None
    affected: Annotated[
        int | None, _described("How many voters one record can influence [voters]; by default K.", minimum=1)
    ] = None
    target_epsilon: Annotated[
        FiniteFloat | None,
        _described(
            "ε of the release [nats]; the only way for epsilon = 0 and epsilon = 'inf', where m has no meaning.",
            minimum=0,
            maximum=500,
        ),
    ] = None
    objective: Annotated[
        str,
        Field(
            max_length=20_000,
            description="What is maximised: rectangular(lower=0.5, tau=50), uniform(lower=0.5), shared(a,b) or "
            "histogram(n_0,…,n_K), followed by tv or agreement if not the usual measure.",
            examples=["rectangular", "shared(2,5)", "uniform(lower=0.7) agreement"],
        ),
    ] = "rectangular"
    shape: Annotated[
        Literal["free", "monotone"], _described("monotone: γ does not decrease with the majority; costs a little.")
    ] = "free"
    method: Annotated[
        Literal["auto", "enumerate", "cuts"], _described("How to solve, if it is not solved already: same answer.")
    ] = "auto"
    backend: Annotated[
        Literal["highs", "gurobi", "cvxpy"], _described("Which solver, if it is not solved already: same answer.")
    ] = "highs"

    def problem(self) -> Problem:
        """Return the problem that is asked.

        Raises:
            InvalidInput: a number is out of its range.
        """
        epsilon = math.inf if self.epsilon == "inf" else self.epsilon
        return Problem.from_allowance(
            self.K,
            self.m,
            epsilon,
            self.Delta,
            self.delta,
            self.affected,
            target_epsilon=self.target_epsilon,
        )


class CurveRequest(DesignRequest):
    """An error curve to draw: γ_opt beside the baselines."""

    points: Annotated[
        int, _described("Number of p from 0.5 to 1, evenly spaced [points].", minimum=2, maximum=LARGEST_POINTS)
    ] = 101


class _Answer(BaseModel):
    """Plain data that leaves; a number that is not finite is a bug, and must not leave as null."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ProblemAnswer(_Answer):
    """The problem as it was understood: every number canonical."""

    K: int = Field(description="Number of voters [voters].")
    m: FiniteFloat | None = Field(description="Privacy allowance; null for epsilon = 0 and 'inf'.")
    epsilon: FiniteFloat | Literal["inf"] = Field(description="ε of one voter [nats].")
    Delta: FiniteFloat = Field(description="Δ of one voter [probability].")
    target_epsilon: FiniteFloat = Field(description="ε of the release [nats].")
    delta: FiniteFloat = Field(description="δ of the release [probability].")
    affected: int = Field(description="How many voters one record can influence [voters].")


class CertificateAnswer(_Answer):
    """Why γ is private: a bound on the privacy constraint, divided by e^(mε), over every admissible case."""

    method: str = Field(description="How the cases were covered: complete, first-order, monotone or ball.")
    bound: FiniteFloat = Field(description="Proven upper bound on the constraint's left-hand side.")
    limit: FiniteFloat = Field(description="Its right-hand side.")
    margin: FiniteFloat = Field(description="(limit − bound)/2, the proven slack [probability].", ge=0)
    error_bound: FiniteFloat = Field(description="The part of the bound that is charged for rounding.")
    worst_value: FiniteFloat = Field(description="Largest left-hand side found.")
    worst_corners: dict[str, int] = Field(description="Where it was found: voters at each corner [voters].")
    version: str = Field(description="Version of darrm-opt that proved it.")


class StatisticsAnswer(_Answer):
    """What the solve took, when it was solved."""

    rows: int = Field(description="Rows of the final program.")
    rounds: int = Field(description="Programs solved with rows still missing.")
    iterations: int = Field(description="Simplex iterations in all.")
    seconds: dict[str, FiniteFloat] = Field(description="Time by phase [s].")


class GammaAnswer(_Answer):
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
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")


class CurveAnswer(_Answer):
    """One noise function and its errors."""

    gamma: list[FiniteFloat] = Field(description="γ(0..K) [probability], proved private for the problem.")
    tv_error: list[FiniteFloat] = Field(description="|Pr[release = 1] − Pr[majority = 1]| at each p [probability].")
    disagreement: list[FiniteFloat] = Field(
        description="Pr[release ≠ majority that was voted] at each p [probability]."
    )


class ErrorCurveAnswer(_Answer):
    """Errors over the probability p of a one, shared by all voters: γ_opt beside the baselines."""

    model_config = ConfigDict(json_schema_extra={"examples": [CURVE_EXAMPLE]})

    id: str = Field(description="Content key of the γ called optimal.")
    cached: bool = Field(description="Whether that γ was kept from before.")
    over: Literal["p"]
    problem: ProblemAnswer
    objective: str = Field(description="What the γ called optimal maximises.")
    shape: str = Field(description="free or monotone.")
    status: str = Field(description="How its solve ended.")
    p: list[FiniteFloat] = Field(description="Probability of a one [probability]; below 0.5 the errors are the same.")
    curves: dict[str, CurveAnswer] = Field(
        description="By name: optimal, and those of subsampling, double_subsampling and randomized_response that have "
        "a meaning for the problem and are private for it."
    )
    warnings: list[str] = Field(description="What the person who asked should reconsider; usually empty.")


class HealthAnswer(_Answer):
    """The process is up."""

    status: Literal["ok"]
    version: str = Field(description="Version of darrm-opt.")


Asked = TypeVar("Asked", bound=BaseModel)


def from_query(model: type[Asked]) -> Callable[[Request], Asked]:
    """Return a dependency that reads ``model`` from the query, as strictly as a body.

    A name given twice is refused: which of two privacy parameters was meant is not for us to guess.
    """

    def read(request: Request) -> Asked:
        pairs = request.query_params.multi_items()
        repeated = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        if repeated:
            raise RequestValidationError([{"type": "repeated", "loc": ("query", name)} for name in repeated])
        try:
            return model.model_validate_strings(dict(pairs))
        except ValidationError as err:
            told = err.errors(include_url=False)
            raise RequestValidationError([{**error, "loc": ("query", *error["loc"])} for error in told]) from err

    return read


def query_parameters(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of ``model`` as query parameters: the same fields, one by one."""
    schema = model.model_json_schema()
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name in schema["required"],
                "description": about["description"],
                "schema": _in_a_query(about),
            }
            for name, about in schema["properties"].items()
        ]
    }


def _in_a_query(about: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema without null, which a query has no way to say but by leaving the name out."""
    kept = {key: value for key, value in about.items() if key not in {"title", "description"}}
    if kept.get("default", 0) is None:
        del kept["default"]
    members = [member for member in kept.pop("anyOf", []) if member != {"type": "null"}]
    return {**kept, **members[0]} if len(members) == 1 else {**kept, "anyOf": members} if members else kept
