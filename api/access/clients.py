"""Clients: identification by API key or address, checks of host names and origins, and the path prefix of a proxy."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

from starlette.types import Scope

from api.access.keys import KeyRing, Role
from api.errors.problem_details import Rejection
from api.settings import PREFIX_PATTERN, Settings

Headers = Iterable[tuple[bytes, bytes]]

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/llms.txt", "/favicon.ico"})
"""Paths that need no key: health, the API's description, and the page, which prompts for a key."""

OPEN_FOLDERS = ("/page/",)  # folders that need no key: the files of the page
UNLIMITED_PATHS = frozenset({"/healthz", "/readyz"})  # paths exempt from rate and concurrency limits, for monitoring
ADMIN_PATHS = frozenset({"/v1/access-log"})  # paths that need the role admin
CLIENT_PREFIX = "client "  # start of the name of a client with a key; its name in the keys file follows

CHALLENGE = b'Bearer realm="darrm-opt"'


READER_REQUESTS = re.compile(r"\S+ /v1/gamma(/[^/]+)?|(GET|HEAD) /v1/designs(/.*)?")
"""Method and path of the requests that a reader can send: for stored answers, and the list of designs."""

FORWARDED_HEADERS = frozenset({b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"forwarded"})
"""Headers that a proxy adds: the client is not at the peer address."""

MAX_PREFIX_LENGTH = 200  # longest path prefix accepted from a proxy

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Client(NamedTuple):
    """Sender of a request."""

    name: str  # "client NAME" or "address A.B.C.D"; IPv6 by /64, the allocation of one customer
    local: bool  # without a key, from this machine
    role: Role = "user"
    key_id: str = ""  # empty without a key

    @property
    def has_key(self) -> bool:
        """Whether it sent a valid key."""
        return bool(self.key_id)

    def rate(self, chosen: float | None, usual: float) -> float:
        """Return its rate [1/s]: the operator's; else the usual one, or 0, no limit, for programs on this machine."""
        return chosen if chosen is not None else 0.0 if self.local else usual  # which have its processors anyway


CURRENT_CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)  # of the current request, if any


def current_client() -> Client | None:
    """Return the client of the current request, or None outside of a request."""
    return CURRENT_CLIENT.get()


def current_name() -> str:
    """Return the name of that client; "" outside of a request."""
    client = current_client()
    return "" if client is None else client.name


def current_owner() -> str | None:
    """Return the client of the current request if it sees only its own jobs, or None if it sees all jobs.

    Without keys, clients behind one proxy cannot be distinguished, so all see all jobs; an admin's key does too.
    """
    client = current_client()
    return client.name if client is not None and client.has_key and client.role != "admin" else None


def designs_owner() -> str | None:
    """Return the client that owns the designs of the current request; None without a key."""
    client = current_client()
    return client.name if client is not None and client.has_key else None


def designs_viewer(settings: Settings) -> str | None:
    """Return the client of the current request if it may see only its own designs; None if it may see all."""
    return current_owner() if settings.private_designs else None


def may_solve() -> bool:
    """Whether the client of the current request may request solves: a reader may not."""
    client = current_client()
    return client is None or client.role != "reader"


CURRENT_PREFIX: ContextVar[str] = ContextVar("path_prefix", default="")  # path prefix of links; "" at the root


def forwarded_prefix(headers: Headers) -> str | None:
    """Return the prefix in X-Forwarded-Prefix; None unless there is exactly one valid value.

    >>> [forwarded_prefix([(b"x-forwarded-prefix", text)]) for text in (b"/darrm/", b"//evil.example", b"/")]
    ['/darrm', None, '']
    """
    values = [value for name, value in headers if name == b"x-forwarded-prefix"]
    if len(values) != 1:
        return None
    text = values[0].decode("latin-1").strip().removesuffix("/")
    valid = len(text) <= MAX_PREFIX_LENGTH and (not text or PREFIX_PATTERN.fullmatch(text))
    return text if valid else None


def check_access(scope: Scope, settings: Settings, ring: KeyRing | None) -> Rejection | None:
    """Return a rejection, or None; set the client in the request's scope and context."""
    headers, path = scope["headers"], scope["path"]
    server, origin = scope.get("server"), scope.get("client")
    # Before the key: a web page may point its own host name to this machine (DNS rebinding).
    rejection = check_host(headers, server[0] if server else None, settings.hosts)
    rejection = rejection or check_site(headers, path, settings.cors_origins)
    if rejection is not None:
        return rejection
    needed_ring = ring if needs_key(path, settings.metrics) else None
    client, rejection = identify_client(headers, origin[0] if origin else None, needed_ring)
    if settings.keys is None and not settings.public and not settings.trusted_proxies:
        rejection = rejection or check_forwarded(headers, client)
    scope["darrm.client"] = client
    CURRENT_CLIENT.set(client)
    # Also set for a rejected client, which is rate-limited and logged under its name.
    return rejection or check_role(client, scope["method"], path, settings.metrics)


def identify_client(headers: Headers, address: str | None, ring: KeyRing | None) -> tuple[Client, Rejection | None]:
    """Return the client of a request, and a rejection if it has no valid key."""
    if ring is None:
        return client_at(address), None
    texts = _presented_keys(headers)
    if not texts:
        return client_at(address), _unauthorized(
            "Send a key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.", CHALLENGE
        )
    # Another layer might choose a different one.
    if len(texts) > 1:
        return client_at(address), _unauthorized("Send one key, not several.", _invalid(b"invalid_request"))
    key = ring.holder(next(iter(texts)))
    if key is None:
        detail = "The key is not valid here: it may be mistyped or revoked."
        return client_at(address), _unauthorized(detail, _invalid(b"invalid_token"))
    client = Client(CLIENT_PREFIX + key.name, local=False, role=key.role, key_id=key.id)
    # Known, though no longer valid: the access log names the client.
    if key.has_expired():
        detail = f"This key expired at {key.expires}. Ask the operator for a new one."
        return client, _unauthorized(detail, _invalid(b"invalid_token"))
    return client, None


def check_role(client: Client, method: str, path: str, metrics: str) -> Rejection | None:
    """Return a rejection of what the role of a client's key does not allow."""
    guarded = path.startswith("/v1/") or (path == "/metrics" and metrics != "open")
    if client.role == "reader" and guarded and not READER_REQUESTS.fullmatch(f"{method} {path}"):
        detail = "This key has the role reader: it reads stored answers, under /v1/gamma and /v1/designs."
        return Rejection("not-permitted", detail)
    if client.role != "admin" and (path in ADMIN_PATHS or (path == "/metrics" and metrics == "admin")):
        return Rejection("not-permitted", "This is for keys with the role admin.")
    return None


def needs_key(path: str, metrics: str) -> bool:
    """Tell whether a path needs a key, on a server that has keys."""
    if path == "/metrics":
        return metrics in {"key", "admin"}
    return not (path in OPEN_PATHS or path.startswith(OPEN_FOLDERS))


def check_host(headers: Headers, server: str | None, hosts: tuple[str, ...]) -> Rejection | None:
    """Return a rejection if the Host header does not name this server.

    A page on the web can have its own name point to 127.0.0.1 ("DNS rebinding"), and a browser then lets its scripts
    read what is served there. The browser sends that name as the host, which identifies such requests.
    """
    host_headers = [value for name, value in headers if name == b"host"]
    # A proxy, the log and this server might each believe another one (RFC 9112, 3.2).
    if len(host_headers) > 1:
        return Rejection("bad-request", "The request has more than one Host header.", closing=True)
    if _is_own_name(host_headers[0] if host_headers else b"", _is_loopback(server), hosts):
        return None
    detail = "The Host header does not name this server. The operator lists its names in DARRM_HOSTS."
    return Rejection("wrong-host", detail, closing=True)


def check_forwarded(headers: Headers, client: Client) -> Rejection | None:
    """Return a rejection of a request that a local proxy forwards to a server for this machine only."""
    if not client.local or not any(name in FORWARDED_HEADERS for name, _ in headers):
        return None
    return Rejection(
        "key-needed",
        "A proxy forwards requests to this server, which has no API keys. The operator sets DARRM_KEYS, or "
        "DARRM_PUBLIC=true if everyone who reaches the proxy may use it, or DARRM_TRUSTED_PROXIES.",
        ((b"www-authenticate", CHALLENGE),),
    )


def check_site(headers: Headers, path: str, origins: tuple[str, ...]) -> Rejection | None:
    """Return a rejection of a request that a page of another site made through a browser.

    Otherwise an image URL on any page could start a solve on behalf of its visitor.
    """
    if not path.startswith("/v1/"):
        return None
    fields = {name: value for name, value in headers if name in {b"sec-fetch-site", b"origin"}}
    if fields.get(b"sec-fetch-site") != b"cross-site" or fields.get(b"origin", b"").decode("latin-1") in origins:
        return None
    detail = "Pages of other sites cannot use this server. The operator lists permitted origins in DARRM_CORS_ORIGINS."
    return Rejection("cross-site", detail)


@lru_cache(maxsize=1024)
def _is_own_name(header: bytes, loopback: bool, hosts: tuple[str, ...]) -> bool:  # noqa: FBT001 — part of the cache's key
    name = header.decode("latin-1").strip().lower()
    name = name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]
    if loopback and (name in LOOPBACK_NAMES or name.endswith(".localhost") or _is_loopback(name)):
        return True
    if not hosts:
        return not loopback
    return any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in hosts)


@lru_cache(maxsize=1024)
def _is_loopback(address: str | None) -> bool:
    ip = _parse(address)
    return ip is not None and ip.is_loopback


@lru_cache(maxsize=4096)
def client_at(address: str | None) -> Client:
    """Return the client without a key at an address."""
    ip = _parse(address)
    if ip is None:
        return Client(f"address {address or 'unknown'}"[:72], local=False)
    prefix = str(ipaddress.ip_network(f"{ip}/64", strict=False)) if ip.version == 6 else str(ip)
    return Client(f"address {prefix}", local=ip.is_loopback)


@lru_cache(maxsize=1024)
def is_trusted(address: str | None, networks: tuple[str, ...]) -> bool:
    """Whether an address belongs to a trusted proxy."""
    ip = _parse(address)
    return ip is not None and any(ip in ipaddress.ip_network(network) for network in networks)


def _parse(address: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a parsed address, with IPv4-mapped IPv6 as IPv4; None if it is invalid."""
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def _presented_keys(headers: Headers) -> set[str]:
    keys = set()
    for name, value in headers:
        if name == b"x-api-key":
            keys.add(value.decode("latin-1").strip())
        elif name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                keys.add(text.strip())
    return keys


def _unauthorized(detail: str, challenge: bytes) -> Rejection:
    return Rejection("key-needed", detail, ((b"www-authenticate", challenge),))


def _invalid(error: bytes) -> bytes:
    return CHALLENGE + b', error="' + error + b'"'
