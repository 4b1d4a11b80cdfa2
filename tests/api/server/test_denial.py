"""The campaign of denial of service in its short form: smaller attacks, and nothing of the polite client's fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from campaigns.attackers import ATTACKS, Attack
from campaigns.denial import HANG, MAX_MEMORY, Site, measure, site
from campaigns.proxy import needs_proxy

pytestmark = pytest.mark.slow

NAKED = [attack for attack in ATTACKS if attack.name in {"unfinished bodies", "slow readers", "endless trailers"}]
"""Those on the memory of the server's own HTTP code; smaller ones of each other kind: test_connection_limits.py."""

MORE_ADDRESSES = {
    "endless trailers, 14 addresses",
    "half-open, held, 3 addresses",
    "half-open, reconnecting at once, 3 addresses",
    "unfinished bodies",
}
"""What the long form does from another number of addresses as well."""

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
def test_naked_nothing_fails(naked: Site, attack: Attack) -> None:
    found = measure(naked, attack, SCALE, SECONDS, recovery=0.0)
    assert found.attackers.opened > 0
    assert found.during.failures == found.after.failures == []
    assert max(found.peak, found.left) < MAX_MEMORY


@needs_proxy
@pytest.mark.parametrize("attack", PROXIED, ids=lambda attack: attack.name)
def test_behind_the_proxy_nothing_fails(proxied: Site, attack: Attack) -> None:
    found = measure(proxied, attack, SCALE, SECONDS, recovery=0.0)
    assert found.attackers.opened > 0
    assert found.during.failures == found.after.failures == []
    assert max(found.peak, found.left) < MAX_MEMORY
    assert found.errors < 100_000
