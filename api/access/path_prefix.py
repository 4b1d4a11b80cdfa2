"""Path prefix: the path below which a proxy publishes the service, so that links lead back through the proxy."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from contextvars import ContextVar
from functools import lru_cache

PREFIX_PATTERN = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
"""Form of a prefix: no slash at its end, nothing that a browser reads otherwise."""

MAX_PREFIX_LENGTH = 200
"""Longest prefix that is taken from a proxy [characters]."""

_CURRENT_PREFIX: ContextVar[str] = ContextVar("path_prefix", default="")


def set_current_prefix(prefix: str) -> None:
    """Set the prefix of the links that are made in this context."""
    _CURRENT_PREFIX.set(prefix)


def current_prefix() -> str:
    """Return what stands before the path of every link; "" where the service is at the root."""
    return _CURRENT_PREFIX.get()


def forwarded_prefix(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the prefix that a proxy says in X-Forwarded-Prefix; None where it says none that can be used.

    >>> [forwarded_prefix([(b"x-forwarded-prefix", text)]) for text in (b"/darrm/", b"//evil.example", b"/")]
    ['/darrm', None, '']
    """
    values = [value for name, value in headers if name == b"x-forwarded-prefix"]
    if len(values) != 1:
        return None
    text = values[0].decode("latin-1").strip().removesuffix("/")
    valid = len(text) <= MAX_PREFIX_LENGTH and (not text or PREFIX_PATTERN.fullmatch(text))
    return text if valid else None


@lru_cache(maxsize=1024)
def is_trusted(address: str | None, networks: tuple[str, ...]) -> bool:
    """Tell whether an address is one of the trusted proxies'."""
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return any(ip in ipaddress.ip_network(network) for network in networks)
