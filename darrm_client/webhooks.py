"""Webhooks: signatures after the Standard Webhooks specification, for the service that sends and for whoever receives.

A message is signed with HMAC-SHA256 over its id, its time and its body, so nobody else can send one, change one, or
send an old one again later. Receivers that have a library of https://www.standardwebhooks.com may use that instead.
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
"""Beginning of a signing secret; the rest is base64."""

SECRET_BYTES = range(24, 65)
"""Lengths that a secret may have [bytes]."""

TOLERANCE_SECONDS = 300.0
"""How far the time of a message may be from now [s]: a recorded one cannot be sent again later."""

_SIGNATURE = "v1,"


@dataclass(frozen=True)
class WebhookEvent:
    """The end of a job, as a service told it.

    Attributes:
        id: of the message: the same when it comes twice, so handle each id once.
        kind: "job.done", "job.failed" or "job.cancelled".
        timestamp: when the job ended (UTC, ISO 8601).
        data: the job: "id", "kind", "state", "reason", and where its "result" is.
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
    """Return a signing secret as text, which `read_webhook_secret` reads.

    >>> webhook_secret_text(bytes(24))
    'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    return _PREFIX + base64.b64encode(secret).decode()


def sign_webhook(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message, as its header ``webhook-signature`` has it."""
    message = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return _SIGNATURE + base64.b64encode(hmac.digest(secret, message, hashlib.sha256)).decode()


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> WebhookEvent:
    """Return the event that a webhook tells, once its signature and its time are verified.

    Args:
        secret: ``whsec_…``, as the service gave it when the webhook was asked for.
        headers: of the request; names in any case.
        body: of the request, exactly as it came: not parsed and written again.
        now: the present time [s since 1970-01-01 UTC]; None for the clock's.

    Raises:
        InvalidInput: ``secret`` is none.
        VerificationFailed: it was not sent by who has the secret, or not within `TOLERANCE_SECONDS`. Answer 400.
    """
    key = read_webhook_secret(secret)
    fields = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, signatures = (fields.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (message_id and signatures and timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise VerificationFailed("The webhook has no id, time or signature.")
    expected = sign_webhook(key, message_id, int(timestamp), body).encode()
    candidates = [signature.encode() for signature in signatures.split() if signature.startswith(_SIGNATURE)]
    matches = [hmac.compare_digest(expected, signature) for signature in candidates]  # all of them, whichever is right
    if not any(matches):
        raise VerificationFailed("The webhook's signature is not the service's.")
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECONDS:
        raise VerificationFailed(f"The webhook was sent more than {TOLERANCE_SECONDS:g} s from now.")
    try:
        content = json.loads(body)
        return WebhookEvent(message_id, str(content["type"]), str(content["timestamp"]), dict(content["data"]))
    except (LookupError, TypeError, ValueError) as err:
        raise VerificationFailed("The webhook's body is not an event.") from err
