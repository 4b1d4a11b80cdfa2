"""Location of the cache: the accepted URLs, a URL without its password, the errors of a place that cannot be used."""

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
"""The setting that names the place."""

OFF, MEMORY = "off", "memory"
"""Places without a URL: nothing is kept; or what is kept is gone with the process."""

SUPPORTED = ("sqlite", "postgresql")

ACCEPTED = (
    "Set DARRM_CACHE_URL to sqlite:///FILE (four slashes for an absolute path), postgresql+psycopg://USER@HOST/NAME, "
    "'memory' or 'off'; append ?mode=ro to a database's URL to read only."
)

ELSEWHERE = "Set DARRM_CACHE_URL to another place, or to 'off' to store nothing."
"""Advice that fits wherever the place itself cannot be mended from here."""

DAMAGED = "Its file is damaged: move it away. Answers are solved again; jobs, webhooks and tags in it are lost."
"""Advice for a file that is not what it was."""


class CacheError(DarrmError):
    """The store cannot be used; nothing was half-written there.

    Attributes:
        url: the place, without its password.
        trouble: what is wrong with it.
        advice: what to do about it.
    """

    def __init__(self, url: str, trouble: str, advice: str) -> None:
        self.url = url
        self.trouble = trouble
        self.advice = advice
        super().__init__(f"The cache at {url} cannot be used: {trouble}. {advice}")


class ReadOnlyCache(CacheError):
    """Write to a store that was opened for reading only."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "it is opened for reading only", "Take ?mode=ro off its URL to write to it.")


def cache_url(environment: Mapping[str, str]) -> str:
    """Return the place that ``environment`` asks for, else a SQLite file under the user's cache directory.

    Args:
        environment: such as ``os.environ``; passed in, so that it is read once, at the edge.

    Raises:
        BackendUnavailable: the extra ``store`` is not installed, and the environment does not ask for ``memory`` or
            ``off``.

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
    """Where a database is."""

    shown: str  # its URL without a password
    dialect: str  # "sqlite" or "postgresql"
    read_only: bool
    path: Path | None = None  # the file of a SQLite database, absolute
    engine_url: URL | None = None  # what SQLAlchemy connects to, for PostgreSQL


_FILE_URL = re.compile(r"sqlite:///([^?]+)(?:\?mode=(rw|ro))?")
"""URL of a SQLite file, as nearly all are; SQLAlchemy parses any other."""


def parse_url(url: str) -> Location:
    """Return where a database URL points to, and whether it is opened for reading only (``?mode=ro``)."""
    file_url = _FILE_URL.fullmatch(url)
    if file_url and url.isprintable() and not file_url[1].startswith(("file:", ":memory:")):
        return _file_location(file_url[1], read_only=file_url[2] == "ro")
    with needed_by("The store of answers"):
        from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url.encode()  # bytes that are no text came through the command line or the environment
        location = make_url(url)
    except (ArgumentError, ValueError):  # their text may quote the URL, so it goes no further
        raise CacheError(repr(_redact_text(url)), "this is not a database URL", ACCEPTED) from None
    dialect = location.get_backend_name()
    if dialect not in SUPPORTED:
        raise CacheError(redacted(location), f"{dialect} is not supported", ACCEPTED)
    mode = location.query.get("mode", "rw")
    if mode not in {"rw", "ro"}:
        raise CacheError(
            redacted(location),
            "its mode is neither rw nor ro",
            "The only accepted parameter is ?mode=ro, to read only.",
        )
    location, read_only = location.difference_update_query(["mode"]), mode == "ro"
    shown = redacted(location.update_query_dict({"mode": "ro"}) if read_only else location)
    if dialect != "sqlite":
        return Location(shown, dialect, read_only, engine_url=location)
    if location.database in {None, "", ":memory:"}:
        raise CacheError(shown, "it names no file", "For a cache in memory set DARRM_CACHE_URL to 'memory'.")
    if str(location.database).startswith("file:"):
        raise CacheError(shown, "SQLite's own file: notation is not supported", ACCEPTED)
    if location.query:
        raise CacheError(shown, "SQLite takes no option but mode", ACCEPTED)
    return _file_location(str(location.database), read_only=read_only)


def _file_location(name: str, *, read_only: bool) -> Location:
    path = Path(name).expanduser().absolute()
    return Location(f"sqlite:///{path}{'?mode=ro' if read_only else ''}", "sqlite", read_only, path)


def redacted(location: URL) -> str:
    """Return the URL as people may see it: no password, neither before the host nor among the options.

    >>> from sqlalchemy import make_url
    >>> redacted(make_url("postgresql+psycopg://me:secret@host/name?sslpassword=secret&sslmode=require"))
    'postgresql+psycopg://me:***@host/name?sslmode=require&sslpassword=%2A%2A%2A'
    """
    secret = {name: "***" for name in location.query if "password" in name.lower()}
    return location.update_query_dict(secret).render_as_string(hide_password=True)


def _redact_text(url: str) -> str:
    """Return what may be shown of a text that is no URL: nothing that could be a password."""
    text = re.sub(r"^.*@", "***@", url, flags=re.DOTALL)
    return re.sub(r"(password\s*=).*", r"\1***", text, flags=re.DOTALL | re.IGNORECASE)
