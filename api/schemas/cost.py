"""Cost of releases of one mechanism, and its calibration, as request and answer."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, FiniteFloat

from api.errors.problem_details import FieldError
from api.schemas.accounts import Queries, check_queries
from api.schemas.fields import AllocationAnswer, AnswerModel, SampledRequest, SamplingAnswer, Voters, described
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import calibrated_names, mechanism_class
from darrm_opt.mechanisms.base import MAX_CLASSES

MAX_TOTAL = 500.0
"""Largest ε of all releases together [nats]."""


class MechanismRequest(SampledRequest):
    """Releases of a mechanism, and whether their curve is wanted."""

    mechanism: Annotated[
        str,
        Field(
            max_length=100,
            description=f"Its name: {', '.join(calibrated_names())}, or that of a package on the server.",
        ),
    ]
    K: Voters
    classes: Annotated[int, described("Number of classes [classes].", minimum=2, maximum=MAX_CLASSES)] = 2
    affected: Annotated[int, described("How many votes one record can move [votes].", minimum=1)] = 1
    queries: Queries = 1
    total_epsilon: Annotated[
        FiniteFloat | None,
        described("ε of all releases together: find the parameter [nats].", exclusiveMinimum=0, maximum=500),
    ] = None
    total_delta: Annotated[
        FiniteFloat | None,
        described(
            "δ of all releases together, with total_epsilon; by default 0 [probability].", minimum=0, exclusiveMaximum=1
        ),
    ] = None
    curve: Annotated[
        bool, Field(description="Whether ε over δ and over the number of releases is wanted too: some 20 accounts.")
    ] = False

    def argument(self) -> dict[str, Any]:
        """Return the argument of the computation (`darrm_opt.answers.accounting.find_cost`)."""
        check_queries(self.queries)
        try:
            mechanism_class(self.mechanism)
        except InvalidInput as err:
            raise FieldError("mechanism", err) from err
        total = self.total_epsilon
        if total is not None and not 0 < total <= MAX_TOTAL:
            raise InvalidInput("total_epsilon", total, f"a number of nats above 0, at most {MAX_TOTAL:g}")
        for name in ("delta", "total_delta"):
            value = getattr(self, name, None)
            if value is not None and not 0 <= value < 1:
                raise InvalidInput(name, value, "a probability in [0, 1)")
        self.as_sampling()
        return {name: getattr(self, name, None) for name in CostRequest.model_fields}


class CostRequest(MechanismRequest):
    """What do releases of a mechanism cost together, or which parameter fits in a total?

    Give `parameter` and `delta`, or `total_epsilon` and `total_delta`. Voters are not private.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"mechanism": "laplace", "K": 11, "queries": 20, "parameter": 20.0, "delta": 1e-5},
                {
                    "mechanism": "laplace",
                    "K": 25,
                    "classes": 10,
                    "queries": 100,
                    "total_epsilon": 1,
                    "total_delta": 1e-5,
                },
                {
                    "mechanism": "laplace",
                    "K": 10,
                    "classes": 4,
                    "queries": 500,
                    "total_epsilon": 3,
                    "total_delta": 1e-5,
                    "records": 5452,
                    "sample": 40,
                },
            ]
        }
    )

    parameter: Annotated[
        FiniteFloat | None,
        Field(
            description="Its parameter: σ or scale of noise in votes, rate of selection in nats a vote, or its like."
        ),
    ] = None
    delta: Annotated[
        FiniteFloat | None,
        described("δ of all releases together, with parameter [probability].", minimum=0, exclusiveMaximum=1),
    ] = None
    threshold: Annotated[
        FiniteFloat | None, described("Least noisy count for which a class is released, with parameter [votes].")
    ] = None
    check_sigma: Annotated[
        FiniteFloat | None, described("σ of the noise on the count that is checked [votes].", minimum=0)
    ] = None
    cap: Annotated[int | None, described("Most classes that are released [labels].", minimum=1)] = None


class CalibrateRequest(MechanismRequest):
    """Which parameter of a mechanism fits in a total? The most useful one; voters are not private."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"mechanism": "laplace", "K": 11, "queries": 20, "total_epsilon": 1, "total_delta": 1e-5},
            ]
        }
    )

    total_epsilon: Annotated[
        FiniteFloat, described("ε of all releases together [nats].", exclusiveMinimum=0, maximum=500)
    ]


class CostPoint(AnswerModel):
    """Point of a curve."""

    queries: int = Field(description="Releases.")
    delta: FiniteFloat = Field(description="δ of all of them together [probability].")
    epsilon: FiniteFloat | None = Field(description="Their least ε that is proved [nats]; null where none is.")
    account: str = Field(description="The account that proves it.")


class CostAnswer(AnswerModel):
    """What releases of a mechanism cost together, as `darrm cost --json` says it."""

    mechanism: str = Field(description="Its name.")
    parameter: FiniteFloat = Field(description="Its parameter, as given or as found.")
    epsilon: FiniteFloat | None = Field(
        description="The least ε of all releases together that an account proves [nats]; null where none does."
    )
    delta: FiniteFloat = Field(description="δ at which it is proved [probability].")
    account: str = Field(description="The account that proves it; none where none does.")
    sampling: SamplingAnswer | AllocationAnswer | None = Field(
        default=None, description="How records are drawn anew for every query; null where all are in every query."
    )
    curve: list[CostPoint] | None = Field(
        default=None, description="ε over δ, and over the number of releases; null where it was not asked."
    )
