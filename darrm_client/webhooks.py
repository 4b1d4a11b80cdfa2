"""Webhooks: signatures of the Standard Webhooks specification, for the service and for receivers.

A message is signed with HMAC-SHA256 over id, time and body, so nobody else can send, change or replay one. Receivers
can also use a library of https://www.standardwebhooks.com.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from darrm_opt.errors import InvalidInput, VerificationFailed

_PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
TOLERANCE_SECONDS = 300.0  # largest difference between a message's time and the clock, which prevents replay

_SIGNATURE = "v1,"


@dataclass(frozen=True)
class WebhookEvent:
    """End of a job, as reported by a service.

    Attributes:
        id: id of the message, the same in repeated deliveries, so handle each id once.
        kind: "job.done", "job.failed" or "job.cancelled".
        timestamp: end of the job (UTC, ISO 8601).
        data: the job: "id", "kind", "state", "reason", and the location of its "result".
    """

    id: str
    kind: str
    timestamp: str
    data: dict[str, Any]


def read_webhook_secret(text: str) -> bytes:
    """Return the bytes of a signing secret, ``whsec_`` and base64.

    >>> len(read_webhook_secret("whsec_" + 32 * "A"))
    24
    """
    try:
        secret = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.strip().startswith(_PREFIX) or len(secret) not in SECRET_BYTES:
        raise InvalidInput("secret", "(hidden)", "whsec_ and 24 to 64 bytes in base64")
    return secret


def webhook_secret_text(secret: bytes) -> str:
    """Return a signing secret as text for `read_webhook_secret`.

    >>> webhook_secret_text(bytes(24))
    'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    return _PREFIX + base64.b64encode(secret).decode()


def sign_webhook(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message for its header ``webhook-signature``."""
    message = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return _SIGNATURE + base64.b64encode(hmac.digest(secret, message, hashlib.sha256)).decode()


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> WebhookEvent:
    """Return the event of a webhook after verifying its signature and time.

    Args:
        secret: ``whsec_…``, as returned when the webhook was added.
        headers: headers of the request, names in any case.
        body: body of the request, byte for byte.
        now: current time [s since 1970-01-01 UTC]; None: the clock's.

    Raises:
        InvalidInput: ``secret`` is malformed.
        VerificationFailed: the signature or time is invalid; respond with status 400.
    """
    key = read_webhook_secret(secret)
    fields = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, signatures = (fields.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (message_id and signatures and timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise VerificationFailed("The webhook has no id, time or signature.")
    expected = sign_webhook(key, message_id, int(timestamp), body).encode()
    candidates = [signature.encode() for signature in signatures.split() if signature.startswith(_SIGNATURE)]
    matches = [hmac.compare_digest(expected, signature) for signature in candidates]  # constant time
    if not any(matches):
        raise VerificationFailed("The webhook's signature is invalid.")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECONDS:
        raise VerificationFailed(f"The webhook's time differs from the clock by more than {TOLERANCE_SECONDS:g} s.")
    try:
        content = json.loads(body)
        return WebhookEvent(message_id, str(content["type"]), str(content["timestamp"]), dict(content["data"]))
    except (LookupError, TypeError, ValueError) as err:
        raise VerificationFailed("The webhook's body is not an event.") from err
