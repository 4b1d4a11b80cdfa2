"""Certified noise functions from a service or from a table file; each γ is proved again before it is returned.

>>> from darrm_client import DarrmClient
>>> DarrmClient("ftp://host")
Traceback (most recent call last):
darrm_opt.errors.InvalidInput: url = 'ftp://host' is not valid: expected http://HOST:PORT or ... of a table.
"""

from darrm_client.client import DarrmClient
from darrm_client.errors import (
    AccessDenied,
    AnswerNotFound,
    ClientError,
    DeadlineExceeded,
    InvalidRequest,
    JobFailed,
    RequestTooLarge,
    ServiceBusy,
    ServiceFailed,
    ServiceUnreachable,
    VerificationFailed,
)
from darrm_client.jobs import JobStatus
from darrm_client.verification import VerifiedAnswer

__all__ = [
    "AccessDenied",
    "AnswerNotFound",
    "ClientError",
    "DarrmClient",
    "DeadlineExceeded",
    "InvalidRequest",
    "JobFailed",
    "JobStatus",
    "RequestTooLarge",
    "ServiceBusy",
    "ServiceFailed",
    "ServiceUnreachable",
    "VerificationFailed",
    "VerifiedAnswer",
]
