"""What goes in and what comes out, as types: names, units, ranges and examples. One file for each matter."""

from __future__ import annotations

from api.schemas.accounts import ComposeAnswer, ComposeRequest
from api.schemas.batch import BatchAnswer, BatchItem, BatchRequest
from api.schemas.comparison import CompareAnswer, CompareRequest
from api.schemas.curves import (
    CurveRequest,
    ErrorCurveAnswer,
    ProfileAnswer,
    ProfileRequest,
    TradeoffAnswer,
    TradeoffRequest,
)
from api.schemas.design import CertificateAnswer, DesignRequest, GammaAnswer, InField, ProblemAnswer, ProblemRequest
from api.schemas.estimates import EstimateAnswer
from api.schemas.fields import ACCEPTED, MAX_POINTS, field_of
from api.schemas.jobs import PendingAnswer
from api.schemas.operating import HealthAnswer, ReadyAnswer
from api.schemas.plans import PlanAnswer, PlanRequest
from api.schemas.proofs import VerifyAnswer, VerifyRequest
from api.schemas.query import from_query, query_parameters

__all__ = [
    "ACCEPTED",
    "MAX_POINTS",
    "BatchAnswer",
    "BatchItem",
    "BatchRequest",
    "CertificateAnswer",
    "CompareAnswer",
    "CompareRequest",
    "ComposeAnswer",
    "ComposeRequest",
    "CurveRequest",
    "DesignRequest",
    "ErrorCurveAnswer",
    "EstimateAnswer",
    "GammaAnswer",
    "HealthAnswer",
    "InField",
    "PendingAnswer",
    "PlanAnswer",
    "PlanRequest",
    "ProblemAnswer",
    "ProblemRequest",
    "ProfileAnswer",
    "ProfileRequest",
    "ReadyAnswer",
    "TradeoffAnswer",
    "TradeoffRequest",
    "VerifyAnswer",
    "VerifyRequest",
    "field_of",
    "from_query",
    "query_parameters",
]
