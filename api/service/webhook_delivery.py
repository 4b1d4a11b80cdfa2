"""Webhook delivery: one signed POST to an address that a client chose.

It must not be a way into the operator's network. The name is resolved once, its addresses are checked, and connections
go to addresses that were checked, so a name that resolves otherwise the next time (DNS rebinding) changes nothing. No
redirect is followed and no proxy is used; of the answer, only the status is read. httpcore does the exchange, and no
more: it takes no redirect, proxy or setting from anywhere, and connects to the address that it is given, while
``sni_hostname`` has the certificate held against the name.
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
"""Longest address [characters]."""

MAX_ADDRESSES = 4
"""Most addresses of a host that are tried, one after the other."""

CLOSE_SECONDS = 1.0
"""Time for the receiver to end its answer before the connection is cut [s]."""

_URL = re.compile(r"[!-~]+")
"""Visible ASCII."""

RESOLVE_SECONDS = 3.0
"""Time within which the host of a new webhook must resolve [s]: its client waits for that."""

_UNICAST = ipaddress.ip_network("2000::/3")
"""The only IPv6 addresses that are given out to hosts.

Outside are loopback, ULA, link-local, site-local and multicast addresses, and most forms that hold an IPv4 address:
IPv4-compatible, IPv4-mapped, SIIT (``::ffff:0:0:0/96``) and NAT64 with its local prefix.
"""

_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
            "192.0.0.0/24",  # protocol assignments
            "192.88.99.0/24",  # relays of 6to4
        ),
    )
)
"""Parts of the unicast space that are for no host: a list, as that of the library differs by Python's release."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class DeliveryError(Exception):
    """A webhook could not be sent; the text says why, and names neither its URL nor an address."""


class WebhookUrl(NamedTuple):
    """An address that webhooks may be sent to."""

    secure: bool  # whether by https
    host: str  # name or address, without brackets
    port: int  # of TCP
    target: str  # path and query
    authority: str  # the Host header


def parse_webhook_url(text: str, networks: Sequence[Network] = ()) -> WebhookUrl:
    """Return the parts of an address."""
    if len(text) > MAX_URL_LENGTH or not _URL.fullmatch(text):
        raise _invalid_url(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _invalid_url(text) from None
    # Plain HTTP only where the operator allows this machine as a receiver: to test.
    schemes = {"https", "http"} if any(network.is_loopback for network in networks) else {"https"}
    if parts.scheme not in schemes or not host or "%" in host or port == 0 or "@" in parts.netloc or "#" in text:
        raise _invalid_url(text)
    secure = parts.scheme == "https"
    literal = _literal(host)
    # An address is judged now; a name when it is resolved, each time, as its addresses may change.
    if literal is not None and not is_allowed(literal, networks, secure=secure):
        raise _invalid_url(text)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(secure, host, port or (443 if secure else 80), target, parts.netloc)


def _literal(host: str) -> Address | None:
    """Return the address that a host is; None for a name, whose addresses are checked when it is resolved."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _invalid_url(text: str) -> InvalidInput:
    """Return the refusal of an address, which is not repeated beyond its scheme: it may hold a password."""
    return InvalidInput("url", text.partition(":")[0][:10] + ":…", DECLARED["url"].accepted)


def is_allowed(address: Address, networks: Sequence[Network], *, secure: bool) -> bool:
    """Tell whether webhooks may be sent to an address: a public one, or one that the operator allows.

    >>> addresses = map(ipaddress.ip_address, ("8.8.8.8", "10.0.0.1", "::1", "64:ff9b::a00:1"))
    >>> [is_allowed(address, (), secure=True) for address in addresses]
    [True, False, False, False]
    """
    on_list = any(address in network for network in networks)
    if not secure:
        return on_list and address.is_loopback
    return on_list or _is_public(address)


def _is_public(address: Address) -> bool:
    """Tell whether an address is a host's on the internet; no IPv6 form of an IPv4 address is, whatever it holds."""
    # Where such a form ends up is for gateways to say that the service does not know.
    if any(address in network for network in _SPECIAL):
        return False
    return (address.version == 4 or address in _UNICAST) and address.is_global and not address.is_multicast


async def check_host(url: WebhookUrl, networks: Sequence[Network]) -> None:
    """Find out whether the host of a new webhook resolves, now, to an address that webhooks may be sent to."""
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            await _resolve(url, networks)
    except (TimeoutError, DeliveryError):
        raise _invalid_url("https:" if url.secure else "http:") from None


async def post(
    url: WebhookUrl, headers: Mapping[str, str], body: bytes, *, networks: Sequence[Network], seconds: float
) -> int:
    """Send one POST; return the status of its answer."""
    import httpcore

    # The name is resolved here and the request goes to the address that was checked: a client that resolved it again
    # could be answered another address, inside the network, between the check and the connection.
    try:
        async with asyncio.timeout(seconds):
            addresses = await _resolve(url, networks)
            for count, address in enumerate(addresses, 1):
                try:
                    return await _send(url, address, headers, body, seconds / len(addresses))
                except (httpcore.ConnectError, httpcore.ConnectTimeout):  # nothing was sent: the next may do
                    if count == len(addresses):
                        raise
    except (TimeoutError, httpcore.TimeoutException):
        raise DeliveryError(f"no answer within {seconds:g} s") from None
    except httpcore.ProtocolError as err:
        raise DeliveryError("the answer is not HTTP") from err
    except httpcore.NetworkError as err:
        cause = next((item for item in _causes(err) if isinstance(item, ssl.SSLError)), None)
        reason = "no connection" if cause is None else f"no secure connection ({cause.reason or 'TLS'})"
        raise DeliveryError(reason) from err
    raise AssertionError("unreachable: there is an address")


async def _send(url: WebhookUrl, address: str, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Send the request to an address that was checked, connected within its share of the time; return the status."""
    import httpcore

    place = httpcore.URL(scheme="https" if url.secure else "http", host=address, port=url.port, target=url.target)
    head = [("host", url.authority), ("content-length", str(len(body))), ("connection", "close"), *headers.items()]
    # TLS still names and verifies the host, not the address; redirects are not followed, as they could lead anywhere.
    extensions = {"sni_hostname": url.host, "timeout": {"connect": seconds}}
    async with (
        httpcore.AsyncConnectionPool(ssl_context=_tls()) as pool,
        pool.stream("POST", place, headers=head, content=body, extensions=extensions) as answer,
    ):
        with contextlib.suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
            async with asyncio.timeout(CLOSE_SECONDS):  # else some receivers log a broken connection
                await anext(answer.aiter_stream(), None)
        return answer.status


def _causes(err: BaseException | None) -> Iterator[BaseException]:
    while err is not None:
        yield err
        err = err.__cause__ or err.__context__


async def _resolve(url: WebhookUrl, networks: Sequence[Network]) -> list[str]:
    """Return the addresses of a host that webhooks may be sent to, in the order in which they are to be tried."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as err:  # an empty or too long label is no name at all
        raise DeliveryError("its host name cannot be resolved") from err
    addresses = [ipaddress.ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in infos]
    allowed = [str(address) for address in addresses if is_allowed(address, networks, secure=url.secure)]
    if not allowed:
        raise DeliveryError("its host has no address that webhooks may be sent to")
    return allowed[:MAX_ADDRESSES]


@cache
def _tls() -> ssl.SSLContext:
    """Return what is trusted: the system's certificates, or those of ``SSL_CERT_FILE``."""
    return ssl.create_default_context()
