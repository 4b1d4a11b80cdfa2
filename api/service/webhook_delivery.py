"""Webhook delivery: one signed POST to a URL chosen by a client.

It must not give access to the operator's network. The name is resolved once, and connections go only to addresses
that were checked, so DNS rebinding has no effect. Redirects are not followed, no proxy is used, and only the status
of the response is read. httpcore does the exchange: it reads no settings and connects to the address it is given,
while ``sni_hostname`` verifies the certificate against the name.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

from api.schemas.fields import DECLARED
from darrm_opt.errors import InvalidInput

MAX_URL_LENGTH = 2000
MAX_ADDRESSES = 4  # addresses of a host that are tried in turn
CLOSE_SECONDS = 1.0  # time for the receiver to end its response before the connection is closed
_URL = re.compile(r"[!-~]+")  # visible ASCII
RESOLVE_SECONDS = 3.0  # time limit for resolving the host of a new webhook, while its client waits

_UNICAST = ipaddress.ip_network("2000::/3")
"""IPv6 addresses that can belong to hosts.

This excludes loopback, ULA, link-local, site-local and multicast addresses, and most forms that embed an IPv4
address: IPv4-compatible, IPv4-mapped, SIIT (``::ffff:0:0:0/96``) and NAT64 with its local prefix.
"""

_SPECIAL = [
    *map(ipaddress.ip_network, ("2001::/23", "192.0.0.0/24")),  # protocol assignments, Teredo among them
    *map(ipaddress.ip_network, ("2001:db8::/32", "3fff::/20")),  # documentation
    *map(ipaddress.ip_network, ("2002::/16", "192.88.99.0/24")),  # 6to4 and its relays
]
"""Parts of the unicast space that belong to no host, which the library knows in some releases of Python alone."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class DeliveryError(Exception):
    """A webhook cannot be sent; the text gives neither its URL nor an address."""


class WebhookUrl(NamedTuple):
    """URL that webhooks may be sent to."""

    secure: bool  # https
    host: str  # without brackets
    port: int  # of TCP
    target: str  # path and query
    authority: str  # the Host header


def parse_webhook_url(text: str, networks: Sequence[Network] = ()) -> WebhookUrl:
    """Return the parts of a URL; raises InvalidInput if webhooks may not be sent there."""
    if len(text) > MAX_URL_LENGTH or not _URL.fullmatch(text):
        raise _invalid_url(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _invalid_url(text) from None
    # Plain HTTP only if the operator allows loopback, for tests.
    schemes = {"https", "http"} if any(network.is_loopback for network in networks) else {"https"}
    if parts.scheme not in schemes or not host or "%" in host or port == 0 or "@" in parts.netloc or "#" in text:
        raise _invalid_url(text)
    secure = parts.scheme == "https"
    literal = _literal(host)
    # An address is checked now; a name each time it is resolved.
    if literal is not None and not is_allowed(literal, networks, secure=secure):
        raise _invalid_url(text)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(secure, host, port or (443 if secure else 80), target, parts.netloc)


def _literal(host: str) -> Address | None:
    """Return the IP address that a host states; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _invalid_url(text: str) -> InvalidInput:
    """Return the error for a URL, of which only the scheme is shown: it may contain a password."""
    return InvalidInput("url", text.partition(":")[0][:10] + ":…", DECLARED["url"].accepted)


def is_allowed(address: Address, networks: Sequence[Network], *, secure: bool) -> bool:
    """Whether webhooks may be sent to an address: a public one, or one that the operator allows.

    >>> addresses = map(ipaddress.ip_address, ("8.8.8.8", "10.0.0.1", "::1", "64:ff9b::a00:1"))
    >>> [is_allowed(address, (), secure=True) for address in addresses]
    [True, False, False, False]
    """
    on_list = any(address in network for network in networks)
    if not secure:
        return on_list and address.is_loopback
    return on_list or _is_public(address)


def _is_public(address: Address) -> bool:
    """Whether an address belongs to a host on the internet; no embedded IPv4 address does."""
    # Gateways unknown to the service decide where embedded addresses lead.
    if any(address in network for network in _SPECIAL):
        return False
    return (address.version == 4 or address in _UNICAST) and address.is_global and not address.is_multicast


async def check_host(url: WebhookUrl, networks: Sequence[Network]) -> None:
    """Raise InvalidInput unless the host of a new webhook resolves to an allowed address."""
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            await _resolve(url, networks)
    except (TimeoutError, DeliveryError):
        raise _invalid_url("https:" if url.secure else "http:") from None


async def post(
    url: WebhookUrl, headers: Mapping[str, str], body: bytes, *, networks: Sequence[Network], seconds: float
) -> int:
    """Send one POST; return the status of the response."""
    import httpcore

    # Resolved and checked once: a second lookup could return an address inside the network.
    try:
        async with asyncio.timeout(seconds):
            addresses = await _resolve(url, networks)
            for count, address in enumerate(addresses, 1):
                try:
                    return await _send(url, address, headers, body, seconds / len(addresses))
                except (httpcore.ConnectError, httpcore.ConnectTimeout):  # nothing was sent: try the next
                    if count == len(addresses):
                        raise
    except (TimeoutError, httpcore.TimeoutException):
        raise DeliveryError(f"no response within {seconds:g} s") from None
    except httpcore.ProtocolError as err:
        raise DeliveryError("the response is not HTTP") from err
    except httpcore.NetworkError as err:
        cause = next((item for item in _causes(err) if isinstance(item, ssl.SSLError)), None)
        reason = "no connection" if cause is None else f"no secure connection ({cause.reason or 'TLS'})"
        raise DeliveryError(reason) from err
    raise AssertionError("unreachable: there is an address")


async def _send(url: WebhookUrl, address: str, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Send the request to a checked address, with a time limit for connecting; return the status."""
    import httpcore

    place = httpcore.URL(scheme="https" if url.secure else "http", host=address, port=url.port, target=url.target)
    head = [("host", url.authority), ("content-length", str(len(body))), ("connection", "close"), *headers.items()]
    # TLS verifies the host name, not the address.
    extensions = {"sni_hostname": url.host, "timeout": {"connect": seconds}}
    async with (
        httpcore.AsyncConnectionPool(ssl_context=_tls()) as pool,
        pool.stream("POST", place, headers=head, content=body, extensions=extensions) as answer,
    ):
        with contextlib.suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
            async with asyncio.timeout(CLOSE_SECONDS):  # or some receivers log a broken connection
                await anext(answer.aiter_stream(), None)
        return answer.status


def _causes(err: BaseException | None) -> Iterator[BaseException]:
    while err is not None:
        yield err
        err = err.__cause__ or err.__context__


async def _resolve(url: WebhookUrl, networks: Sequence[Network]) -> list[str]:
    """Return the allowed addresses of a host, in the order to try them."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as err:  # UnicodeError: an empty or too long label
        raise DeliveryError("its host name cannot be resolved") from err
    addresses = [ipaddress.ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in infos]
    allowed = [str(address) for address in addresses if is_allowed(address, networks, secure=url.secure)]
    if not allowed:
        raise DeliveryError("its host has no address that is allowed for webhooks")
    return allowed[:MAX_ADDRESSES]


@cache
def _tls() -> ssl.SSLContext:
    """Return a context that trusts the system's certificates, or those of ``SSL_CERT_FILE``."""
    return ssl.create_default_context()
