"""Location of the cache: accepted URLs, redaction of passwords, and errors of an unusable store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from darrm_opt.errors import DarrmError
from darrm_opt.optional_packages import needed_by

if TYPE_CHECKING:
    from sqlalchemy import URL

VARIABLE = "DARRM_CACHE_URL"
OFF, MEMORY = "off", "memory"  # stores without a URL: nothing is stored; or it is stored until the process ends

SUPPORTED = ("sqlite", "postgresql")

ACCEPTED = (
    "Set DARRM_CACHE_URL to sqlite:///FILE (four slashes for an absolute path), postgresql+psycopg://USER@HOST/NAME, "
    "'memory' or 'off'; append ?mode=ro to a database's URL to read only."
)

ELSEWHERE = "Set DARRM_CACHE_URL to another location, or to 'off' to store nothing."
DAMAGED = "The file is damaged: move it away. Answers are solved again; its jobs, webhooks and tags are lost."


class CacheError(DarrmError):
    """The store cannot be used. Every change is a transaction, so nothing is half-written.

    Attributes:
        url: location of the store, without its password.
        trouble: what is wrong.
        advice: what to do.
    """

    def __init__(self, url: str, trouble: str, advice: str) -> None:
        self.url = url
        self.trouble = trouble
        self.advice = advice
        super().__init__(f"The cache at {url} cannot be used: {trouble}. {advice}")


class ReadOnlyCache(CacheError):
    """Attempt to write to a store that is open for reading only."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "it is open for reading only", "Remove ?mode=ro from its URL to write to it.")


def cache_url(environment: Mapping[str, str]) -> str:
    """Return the URL that ``environment`` sets; by default a SQLite file in the user's cache directory.

    Args:
        environment: such as ``os.environ``.

    Raises:
        BackendUnavailable: the default is needed, and the extra ``store`` is not installed.

    >>> cache_url({"DARRM_CACHE_URL": "off"})
    'off'
    """
    url = environment.get(VARIABLE, "").strip()
    if url:
        return url
    with needed_by("The store of answers"):
        from platformdirs import user_cache_path

    return f"sqlite:///{user_cache_path('darrm-opt', appauthor=False) / 'cache.sqlite'}"


@dataclass(frozen=True)
class Location:
    """Parsed URL of a database."""

    shown: str  # URL without its password
    dialect: str  # "sqlite" or "postgresql"
    read_only: bool
    path: Path | None = None  # absolute path of a SQLite file
    engine_url: URL | None = None  # for PostgreSQL


_FILE_URL = re.compile(r"sqlite:///([^?]+)(?:\?mode=(rw|ro))?")
"""The usual URL of a SQLite file; SQLAlchemy parses all others."""


def parse_url(url: str) -> Location:
    """Return the location that a database URL names."""
    file_url = _FILE_URL.fullmatch(url)
    if file_url and url.isprintable() and not file_url[1].startswith(("file:", ":memory:")):
        return _file_location(file_url[1], read_only=file_url[2] == "ro")
    with needed_by("The store of answers"):
        from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url.encode()  # surrogates: invalid bytes from the command line or the environment
        location = make_url(url)
    except (ArgumentError, ValueError):  # `from None`: their text may quote the password
        raise CacheError(repr(_redact_text(url)), "it is not a database URL", ACCEPTED) from None
    dialect = location.get_backend_name()
    if dialect not in SUPPORTED:
        raise CacheError(redacted(location), f"{dialect} is not supported", ACCEPTED)
    mode = location.query.get("mode", "rw")
    if mode not in {"rw", "ro"}:
        raise CacheError(
            redacted(location),
            "its mode is neither rw nor ro",
            "Use ?mode=ro to read only.",
        )
    location, read_only = location.difference_update_query(["mode"]), mode == "ro"
    shown = redacted(location.update_query_dict({"mode": "ro"}) if read_only else location)
    if dialect != "sqlite":
        return Location(shown, dialect, read_only, engine_url=location)
    if location.database in {None, "", ":memory:"}:
        raise CacheError(shown, "it does not name a file", "For a cache in memory set DARRM_CACHE_URL to 'memory'.")
    if str(location.database).startswith("file:"):
        raise CacheError(shown, "the file: notation of SQLite is not supported", ACCEPTED)
    if location.query:
        raise CacheError(shown, "a SQLite URL accepts only the option mode", ACCEPTED)
    return _file_location(str(location.database), read_only=read_only)


def _file_location(name: str, *, read_only: bool) -> Location:
    path = Path(name).expanduser().absolute()
    return Location(f"sqlite:///{path}{'?mode=ro' if read_only else ''}", "sqlite", read_only, path)


def redacted(location: URL) -> str:
    """Return the URL for display: without the password before the host and in the options.

    >>> from sqlalchemy import make_url
    >>> redacted(make_url("postgresql+psycopg://me:secret@host/name?sslpassword=secret&sslmode=require"))
    'postgresql+psycopg://me:***@host/name?sslmode=require&sslpassword=%2A%2A%2A'
    """
    secret = {name: "***" for name in location.query if "password" in name.lower()}
    return location.update_query_dict(secret).render_as_string(hide_password=True)


def _redact_text(url: str) -> str:
    """Return a text that is not a valid URL, without anything that could be a password."""
    text = re.sub(r"^.*@", "***@", url, flags=re.DOTALL)
    return re.sub(r"(password\s*=).*", r"\1***", text, flags=re.DOTALL | re.IGNORECASE)
