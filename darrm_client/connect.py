"""Connecting: from the URL of a service or table file to its backend."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from darrm_client.jobs import ClientBackend
from darrm_opt.errors import InvalidInput

if TYPE_CHECKING:
    import ssl

_ACCEPTED = "http://HOST:PORT or https://HOST of a service, or file:///PATH of a table"


def connect(
    url: str,
    key: str | None,
    retries: int,
    tls: ssl.SSLContext | None,
    proxy: str | None,
    fallback: str | None = None,
) -> ClientBackend:
    """Return the backend for a URL, without sending anything; ``fallback`` is the file URL of a table."""
    if not url:
        raise InvalidInput("url", url, _ACCEPTED, "Set DARRM_URL, or give the URL.")
    if fallback is not None and (url.startswith("file:") or not fallback.startswith("file:")):
        raise InvalidInput("fallback", _without_password(fallback), "file:///PATH of a table, for the URL of a service")
    key = None if key is None else header_key(key)
    if url.startswith("file:"):
        # a client of a service does not need to read tables
        from darrm_client.table_backend import TableBackend, open_table

        return TableBackend(open_table(table_path(url)))
    from darrm_client.http_backend import HttpBackend, Transport

    if proxy is not None:
        check_proxy(proxy)
    transport = Transport(service_url(url), key, retries, tls, proxy)
    if fallback is None:
        return HttpBackend(transport)
    from darrm_client.table_backend import FallbackBackend, open_table

    return FallbackBackend(transport, open_table(table_path(fallback, "fallback"), "fallback"))


def header_key(key: str) -> str:
    r"""Return an API key for a header, without surrounding white space such as the line end of a file.

    >>> header_key("darrm_1_secret\n")
    'darrm_1_secret'
    """
    text = key.strip()
    if not text or not all("!" <= character <= "~" for character in text):
        raise InvalidInput("key", _HIDDEN, "an API key: visible ASCII characters without white space")
    return text


def check_proxy(proxy: str) -> None:
    """Raise InvalidInput, without the password, for an invalid URL of a proxy."""
    try:
        parts = urlsplit(proxy)
        valid = parts.scheme in {"http", "https", "socks5", "socks5h"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not proxy.isascii() or not proxy.isprintable():
        raise InvalidInput("proxy", _without_password(proxy), "http://HOST:PORT or https://HOST:PORT of an HTTP proxy")


def service_url(url: str) -> str:
    """Return the root URL of a service.

    >>> service_url("http://localhost:8000/"), service_url("https://host/darrm")
    ('http://localhost:8000', 'https://host/darrm')
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or not url.isprintable():
        raise InvalidInput("url", _without_password(url), _ACCEPTED)
    if "@" in parts.netloc:
        raise InvalidInput("url", _without_password(url), _ACCEPTED, "Pass the key as key=, not in the URL.")
    if parts.path.rstrip("/") == "/v1":
        raise InvalidInput("url", url, "the base URL of a service, without /v1")
    return url.rstrip("/")


def table_path(url: str, argument: str = "url") -> Path:
    """Return the path in a file URL.

    >>> str(table_path("file:///data/a%20table.jsonl")), str(table_path("file:table.sqlite"))
    ('/data/a table.jsonl', 'table.sqlite')
    """
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path:
        raise InvalidInput(
            argument, _without_password(url), "file:///PATH", "Write three slashes: the URL has no host."
        )
    return Path(unquote(parts.path))


_HIDDEN = "…"  # placeholder for a possible secret


def _without_password(url: str) -> str:
    """Return the part of an invalid URL that may be shown: without user information and query.

    >>> _without_password("me:secret@host/?key=secret"), _without_password("htp://host/darrm")
    ('…@host/', 'htp://host/darrm')
    """
    scheme, separator, address = url.partition("://")
    if not separator:
        scheme, address = "", url
    visible = f"{_HIDDEN}@{address.rpartition('@')[2]}" if "@" in address else address
    return f"{scheme}{separator}{re.split('[?#]', visible, maxsplit=1)[0]}"
