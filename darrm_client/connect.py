"""Connecting: the URL of a service or of a table file, and the backend that answers for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from darrm_client.requests import Backend
from darrm_opt.errors import InvalidInput

if TYPE_CHECKING:
    import ssl

_ACCEPTED = "http://HOST:PORT or https://HOST of a service, or file:///PATH of a table"


def connect(
    url: str, key: str | None, timeout: float | None, retries: int, tls: ssl.SSLContext | None, proxy: str | None
) -> Backend:
    """Return the backend for a URL; nothing is sent yet.

    Raises:
        InvalidInput: not a URL of a service or of a table that can be read.
        BackendUnavailable: httpx is not installed, and it is a service's.
    """
    if not url:
        raise InvalidInput("url", url, _ACCEPTED, "Set DARRM_URL, or give the URL.")
    if url.startswith("file:"):
        from darrm_client.table_backend import TableBackend, open_table

        return TableBackend(open_table(table_path(url)))
    from darrm_client.http_backend import HttpBackend
    from darrm_client.transport import Transport

    return HttpBackend(Transport(service_url(url), key, timeout, retries, tls, proxy))


def service_url(url: str) -> str:
    """Return the root of a service.

    Raises:
        InvalidInput: it is no URL of one.

    >>> service_url("http://localhost:8000/"), service_url("https://host/darrm")
    ('http://localhost:8000', 'https://host/darrm')
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or parts.query or parts.fragment:
        raise InvalidInput("url", _without_password(url), _ACCEPTED)
    if "@" in parts.netloc:
        raise InvalidInput("url", _without_password(url), _ACCEPTED, "A key is given as key=, not in the URL.")
    return url.rstrip("/")


def table_path(url: str) -> Path:
    """Return the path that a file URL names.

    Raises:
        InvalidInput: it names none, or a host.

    >>> str(table_path("file:///data/a%20table.jsonl")), str(table_path("file:table.sqlite"))
    ('/data/a table.jsonl', 'table.sqlite')
    """
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"} or not parts.path:
        raise InvalidInput("url", url, "file:///PATH", "Three slashes: no host stands in it.")
    return Path(unquote(parts.path))


def _without_password(url: str) -> str:
    scheme, found, rest = url.partition("://")
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if found and "@" in rest else url
