"""Requests and answers as types: names, units, ranges and examples, one module for each subject."""

from __future__ import annotations

from api.schemas.accounts import ComposeAnswer, ComposeRequest
from api.schemas.comparison import CompareAnswer, CompareRequest, PlanAnswer, ReleasePlanRequest
from api.schemas.curves import (
    CurveRequest,
    ErrorCurveAnswer,
    LeastAnswer,
    LeastRequest,
    ProfileAnswer,
    ProfileRequest,
    TradeoffAnswer,
    TradeoffRequest,
)
from api.schemas.design import (
    CertificateAnswer,
    DesignRequest,
    EstimateAnswer,
    GammaAnswer,
    ProblemAnswer,
    ProblemRequest,
    VerifyAnswer,
    VerifyRequest,
)
from api.schemas.jobs import BatchAnswer, BatchItem, BatchRequest, PendingAnswer
from api.schemas.plurality import PluralityAnswer, PluralityRequest

__all__ = [
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
    "LeastAnswer",
    "LeastRequest",
    "PendingAnswer",
    "PlanAnswer",
    "PluralityAnswer",
    "PluralityRequest",
    "ProblemAnswer",
    "ProblemRequest",
    "ProfileAnswer",
    "ProfileRequest",
    "ReleasePlanRequest",
    "TradeoffAnswer",
    "TradeoffRequest",
    "VerifyAnswer",
    "VerifyRequest",
]
