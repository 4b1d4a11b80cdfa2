"""API keys: shown once on creation, and stored as hashes in a file that `darrm keys` writes.

Keys with the same name belong to one client: its jobs, webhooks, quotas and private designs outlast each key, and a
new key can overlap the one that it replaces.

A key is ``darrm_<id>_<secret>``: the id finds its entry in the file and names it in logs, the secret proves it. The
secret is 256 random bits, so a plain SHA-256 suffices: a slow password hash protects guessable secrets, and would
only delay every request. Digests are compared in constant time.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from darrm_opt.durable_file import replacing
from darrm_opt.errors import DarrmError, InvalidInput

FORMAT = 1  # version of the file format

Role = Literal["reader", "user", "admin"]
"""Role of a key: read stored answers; also request solves; also see and cancel all jobs."""

ROLES: tuple[Role, ...] = get_args(Role)

LIFETIME_UNITS = {"h": 3600, "d": 86_400, "w": 604_800}
SECRET_BYTES = 32
RELOAD_SECONDS = 1.0  # interval between checks of the file: a revoked key is rejected after this time

_KEY_FORMAT = re.compile(r"darrm_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")

_NAME = re.compile(r"[\w.@:/+-][\w.@:/+ -]{0,63}")

_LIFETIME = re.compile(r"([1-9][0-9]{0,5})([hdw])")

_LOG = logging.getLogger("api.keys")

_MOUNTING = "Mount the folder that holds it, and restart."

_REPLACED = f"The keys file {{path}} was replaced behind its mount, so no key is valid. {_MOUNTING}"

_NO_DIGEST = hashlib.sha256(secrets.token_bytes(SECRET_BYTES)).hexdigest()


class KeysFileError(DarrmError):
    """The keys file cannot be read or written; the message gives advice."""


@dataclass(frozen=True)
class Key:
    """Entry of a key in the file, without the secret."""

    id: str  # 8 hexadecimal digits, unique in the file
    name: str  # of its client
    digest: str  # SHA-256 of the secret, in hexadecimal
    created: str  # UTC (ISO 8601)
    role: Role = "user"  # "reader", "user" or "admin"
    expires: str = ""  # UTC (ISO 8601); empty: never

    def has_expired(self, now: float | None = None) -> bool:
        """Whether it has expired by ``now`` [s since 1970-01-01 UTC]; None: the current time."""
        now = time.time() if now is None else now
        return bool(self.expires) and datetime.fromisoformat(self.expires).timestamp() <= now


def create_key(path: Path, name: str, role: str = "user", expires: str = "") -> tuple[Key, str]:
    """Add a key to the file, created if necessary with access for its owner only; return the key and its text."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("NAME", name, "1 to 64 letters, digits, spaces and . @ : / + - _, the name of a client")
    if role not in ROLES:
        raise InvalidInput("role", role, f"one of {', '.join(ROLES)}")
    expiry = parse_expiry(expires)
    with _lock(path):
        keys = list_keys(path) if path.exists() else ()
        ids = {key.id for key in keys}
        identity = next(candidate for candidate in iter(lambda: secrets.token_hex(4), "") if candidate not in ids)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        key = Key(identity, name, _digest(secret), datetime.now(UTC).isoformat(timespec="seconds"), role, expiry)
        _write(path, (*keys, key))
    return key, f"darrm_{identity}_{secret}"


def parse_expiry(text: str, now: datetime | None = None) -> str:
    """Return the time at which a key expires, in UTC (ISO 8601); empty: never.

    >>> parse_expiry("90d", datetime(2026, 1, 1, tzinfo=UTC)), parse_expiry("2999-01-31")
    ('2026-04-01T00:00:00+00:00', '2999-01-31T00:00:00+00:00')
    """
    if not text:
        return ""
    now = datetime.now(UTC) if now is None else now
    lifetime, expiry = _LIFETIME.fullmatch(text), now
    with contextlib.suppress(ValueError, OverflowError):
        if lifetime is not None:
            expiry = now + timedelta(seconds=int(lifetime[1]) * LIFETIME_UNITS[lifetime[2]])
        else:
            expiry = datetime.fromisoformat(text)
            expiry = (expiry.replace(tzinfo=UTC) if expiry.tzinfo is None else expiry).astimezone(UTC)
    if expiry <= now:
        accepted = "a lifetime such as 12h, 90d or 26w, or a future time such as 2030-01-31 (UTC)"
        raise InvalidInput("expires", text, accepted)
    return expiry.isoformat(timespec="seconds")


def revoke_key(path: Path, identity: str) -> Key:
    """Remove a key from the file; running servers reject it within `RELOAD_SECONDS` seconds."""
    with _lock(path):
        keys = list_keys(path)
        key = next((entry for entry in keys if entry.id == identity), None)
        if key is None:
            raise InvalidInput("ID", identity, "the id of a key in the file", "`darrm keys ls` lists them.")
        _write(path, tuple(entry for entry in keys if entry is not key))
    return key


class KeyRing:
    """Valid keys, reloaded when the file changes.

    If the file becomes unreadable, the previous keys stay valid, none is added, and the log reports it: a typing
    error must neither lock everybody out nor let anybody in. Only a file that was replaced behind its mount
    invalidates every key, because revocations in it are unknown.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._keys = {key.id: key for key in list_keys(path)}
        self._last_check = clock()
        if _is_replaced(self._stamp):
            raise KeysFileError(_REPLACED.format(path=path))
        if _is_mount(path):
            _LOG.warning("The keys file %s is a mount, so changes by `darrm keys` cannot reach it. %s", path, _MOUNTING)

    def holder(self, text: str) -> Key | None:
        """Return the key with this text, possibly expired, or None."""
        self._reload()
        shape = _KEY_FORMAT.fullmatch(text)
        key = self._keys.get(shape[1]) if shape else None
        # Constant time, whether the id is known or not.
        matches = hmac.compare_digest(_digest(shape[2] if shape else ""), key.digest if key else _NO_DIGEST)
        return key if matches else None

    def has_client(self, name: str) -> bool:
        """Whether a client has an unexpired key."""
        self._reload()
        return any(key.name == name and not key.has_expired() for key in self._keys.values())

    def _reload(self) -> None:
        now = self._clock()
        if now - self._last_check < RELOAD_SECONDS:
            return
        self._last_check = now
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        if _is_replaced(stamp):
            _LOG.error(_REPLACED.format(path=self._path))
            self._keys, self._stamp = {}, stamp
            return
        try:
            self._keys = {key.id: key for key in list_keys(self._path)}
        # A half-written file must not lock everybody out; revocations take effect once it is valid.
        except KeysFileError as err:
            _LOG.warning("The keys file changed and is invalid; the previous keys stay valid. %s", err)
        else:
            _LOG.info("The keys file changed: %d keys.", len(self._keys))
        # After a failure too: the same invalid file is reported once.
        self._stamp = stamp


def open_ring(path: Path | None) -> KeyRing | None:
    """Return the keys of a file, or None without one. Raises as `KeyRing`."""
    return None if path is None else KeyRing(path)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes with a file, the number of its hard links first; nothing without a file."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_nlink, status.st_ino, status.st_mtime_ns, status.st_size
    return ()


def _is_replaced(stamp: tuple[int, ...]) -> bool:
    return stamp[:1] == (0,)  # behind a mount


def _is_mount(path: Path) -> bool:
    """Whether a file is a mount point (Linux), such as a container's volume."""
    target = os.path.realpath(path)
    with contextlib.suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
        return any(_unescaped(line.split(b" ")[4]) == os.fsencode(target) for line in mounts)
    return False


def _unescaped(name: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), name)


def _lock(path: Path) -> Any:
    """Return a lock beside the file that ``path`` resolves to, for concurrent `darrm keys`."""
    from filelock import FileLock

    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(f"{target}.lock", timeout=10, mode=0o600).acquire()
    except (OSError, TimeoutError) as err:
        raise KeysFileError(f"The keys file {path} cannot be written: {err}.") from err


def list_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys in the file, oldest first."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if (form := content["format"]) != FORMAT:
            raise KeysFileError(f"The keys file {path} has format {form}; this version reads {FORMAT}.")
        keys = tuple(map(_key, content["keys"]))
    except FileNotFoundError as err:
        raise KeysFileError(
            f"The keys file {path} does not exist; `darrm keys add NAME --file {path}` creates it."
        ) from err
    except (OSError, UnicodeError) as err:
        raise KeysFileError(f"The keys file {path} cannot be read: {err}.") from err
    except (ValueError, TypeError, KeyError, RecursionError) as err:
        advice = "restore a copy, or create new keys."
        raise KeysFileError(f"The keys file {path} was not written by `darrm keys`: {advice}") from err
    if len({key.id for key in keys}) < len(keys):
        raise KeysFileError(f"The keys file {path} has two keys with the same id: remove one.")
    return keys


def _key(content: dict[str, Any]) -> Key:
    """Return a key of the file; an invalid role or time must not grant access."""
    texts = {name: str(content[name]) for name in ("id", "name", "digest", "created", "expires")}
    role, expires = content["role"], texts["expires"]
    if role not in ROLES or (expires and datetime.fromisoformat(expires).tzinfo is None):
        raise ValueError(role)
    return Key(**texts, role=role)


def _write(path: Path, keys: tuple[Key, ...]) -> None:
    text = json.dumps({"format": FORMAT, "keys": [asdict(key) for key in keys]}, indent=1) + "\n"
    try:
        with replacing(path, 0o600) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as err:
        raise KeysFileError(f"The keys file {path} cannot be written: {err}.") from err
