"""Certified noise functions from a service or from a table file; each γ is proved again before it is returned.

>>> from api.client import DarrmClient
>>> DarrmClient("ftp://host")
Traceback (most recent call last):
darrm_opt.errors.InvalidInput: url = 'ftp://host' is not valid: expected http://HOST:PORT or ... of a table.
"""

from api.client.client import DarrmClient
from api.client.errors import (
    AccessRefused,
    Busy,
    ClientError,
    Distrusted,
    InvalidRequest,
    JobOver,
    NotKept,
    ServiceFailed,
    TimedOut,
    TooMuchAsked,
    Unreachable,
)
from api.client.jobs import JobSeen
from api.client.received import Received

__all__ = [
    "AccessRefused",
    "Busy",
    "ClientError",
    "DarrmClient",
    "Distrusted",
    "InvalidRequest",
    "JobOver",
    "JobSeen",
    "NotKept",
    "Received",
    "ServiceFailed",
    "TimedOut",
    "TooMuchAsked",
    "Unreachable",
]
