"""Client of a darrm-opt service or of a table file: certified noise functions, each proved again on arrival.

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
)
from darrm_client.jobs import JobStatus, JobWebhook
from darrm_client.webhooks import WebhookEvent, verify_webhook
from darrm_opt.answers.verification import VerifiedAnswer
from darrm_opt.errors import VerificationFailed

__all__ = [
    "AccessDenied",
    "AnswerNotFound",
    "ClientError",
    "DarrmClient",
    "DeadlineExceeded",
    "InvalidRequest",
    "JobFailed",
    "JobStatus",
    "JobWebhook",
    "RequestTooLarge",
    "ServiceBusy",
    "ServiceFailed",
    "ServiceUnreachable",
    "VerificationFailed",
    "VerifiedAnswer",
    "WebhookEvent",
    "verify_webhook",
]
