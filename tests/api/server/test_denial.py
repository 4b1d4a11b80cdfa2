"""A short form of the denial-of-service campaign: smaller attacks, and no request of the polite client fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from campaigns.attackers import ATTACKS, Attack
from campaigns.denial import HANG, MAX_MEMORY, Site, measure, site
from campaigns.proxy import needs_proxy

pytestmark = pytest.mark.slow

NAKED = [attack for attack in ATTACKS if attack.name in {"unfinished bodies", "slow readers", "endless trailers"}]
"""Attacks on the memory of the HTTP code of the server; smaller ones of other kinds: test_connection_limits.py."""

MORE_ADDRESSES = {
    "endless trailers, 14 addresses",
    "half-open, held, 3 addresses",
    "half-open, reconnecting at once, 3 addresses",
    "unfinished bodies",
}
"""Attacks that the long form also runs from another number of addresses."""

PROXIED = [attack for attack in ATTACKS if attack.name not in {HANG, *MORE_ADDRESSES}]

SCALE = 0.3  # multiple of the connections of the long form
SECONDS = 0.4  # time of each attack [s]


@pytest.fixture(scope="module")
def proxied() -> Iterator[Site]:
    with site("proxy", 0.0) as under:
        yield under


@pytest.fixture(scope="module")
def naked() -> Iterator[Site]:
    with site("naked", 0.0) as under:
        yield under


@pytest.mark.parametrize("attack", NAKED, ids=lambda attack: attack.name)
def test_without_a_proxy_no_request_fails(naked: Site, attack: Attack) -> None:
    found = measure(naked, attack, SCALE, SECONDS, recovery=0.0)
    assert found.attackers.opened > 0
    assert found.during.failures == found.after.failures == []
    assert max(found.peak, found.left) < MAX_MEMORY


@needs_proxy
@pytest.mark.parametrize("attack", PROXIED, ids=lambda attack: attack.name)
def test_behind_the_proxy_no_request_fails(proxied: Site, attack: Attack) -> None:
    found = measure(proxied, attack, SCALE, SECONDS, recovery=0.0)
    assert found.attackers.opened > 0
    assert found.during.failures == found.after.failures == []
    assert max(found.peak, found.left) < MAX_MEMORY
    assert found.errors < 100_000
