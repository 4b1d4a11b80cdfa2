"""Path prefix: links lead through the proxy; only a trusted proxy sets the path below which it publishes the service."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.darrm_runner import refused
from support.served import Served, serving

from api.access.clients import forwarded_prefix, is_trusted
from darrm_client import DarrmClient
from darrm_opt import Problem

JOB = b'{"K": 1001, "m": 20, "epsilon": 0.1, "Delta": 1e-2, "objective": "shared(1,1) agreement"}'


def links(service: Served, path: str = "/v1/jobs", **headers: str) -> tuple[str, str, str, str]:
    answer = service.ask(path, "POST", JOB, Content_Type="application/json", **headers)
    told = answer.json()
    assert answer.status == 202
    return answer.headers["location"], told["location"], told["result"], told["events"]


def expected(prefix: str, id: str) -> tuple[str, str, str, str]:
    here = f"{prefix}/v1/jobs/{id}"
    return here, here, f"{here}/result", f"{here}/events"


def test_links_begin_with_the_prefix(tmp_path: Path) -> None:
    settings = {"DARRM_PATH_PREFIX": "/darrm/", "DARRM_TRUSTED_PROXIES": "10.0.0.0/8"}
    with serving(tmp_path, DARRM_WAIT_SECONDS="0", DARRM_MAX_VOTERS="1001", **settings) as service:
        found = links(service)
        id = found[0].rpartition("/")[2]
        assert found == expected("/darrm", id)
        assert links(service, "/darrm/v1/jobs") == found
        assert service.ask(found[0]).json()["location"] == found[0]  # as set by the proxy
        pending = service.ask("/darrm/v1/gamma", "POST", JOB, Content_Type="application/json")
        assert (pending.status, pending.headers["location"], pending.json()["location"]) == (202, found[0], found[0])
        with service.connect() as stream:
            stream.sendall(f"GET {found[3]} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            received = b""
            while b'"events":' not in received:
                received += stream.recv(65_536)
        assert f'"location":"{found[0]}"'.encode() in received
        assert service.ask("/openapi.json").json()["servers"] == [{"url": "/darrm"}]
        assert service.ask("/darrm/").status == service.ask("/darrm/page/main.js").status == 200
        assert service.ask("/darrmother/v1/jobs").status == 404
        assert links(service, X_Forwarded_Prefix="/evil") == found
        assert links(service, X_Forwarded_Prefix="/evil", X_Forwarded_For="10.0.0.1") == found  # forged
        with DarrmClient(f"{service.url}/darrm") as client:
            assert client.gamma(Problem.from_allowance(K=5, m=2, epsilon=0.5), timeout=60).exact
        service.ask(found[0], "DELETE")


def test_only_a_trusted_proxy_sets_the_prefix(tmp_path: Path) -> None:
    more = {"DARRM_WAIT_SECONDS": "0", "DARRM_MAX_VOTERS": "1001", "DARRM_PATH_PREFIX": "/usual"}
    with serving(tmp_path, DARRM_TRUSTED_PROXIES="127.0.0.1", **more) as service:
        # the client address in X-Forwarded-For does not decide about trust
        found = links(service, X_Forwarded_Prefix="/team/darrm", X_Forwarded_For="10.9.8.7")
        id = found[0].rpartition("/")[2]
        assert found == expected("/team/darrm", id)
        assert links(service) == expected("/usual", id)
        for wrong in ("//evil.example", "https://evil.example", "/a b", "/..", "/x" * 200, "/a?b", "/a,/b"):
            assert links(service, X_Forwarded_Prefix=wrong) == expected("/usual", id)
        assert links(service, X_Forwarded_Prefix="/") == expected("", id)
        service.ask(f"/v1/jobs/{id}", "DELETE")


@pytest.mark.parametrize("wrong", ["darrm", "/a//b", "/a b", "/../a", "https://example.org", "/a?b"])
def test_an_invalid_prefix_aborts_the_start(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("DARRM_PATH_PREFIX", wrong)
    assert f"DARRM_PATH_PREFIX: {wrong!r} is not valid: expected the path below which" in refused(
        "serve", "--port", "0"
    )


def test_only_valid_headers_of_trusted_proxies_are_used() -> None:
    assert forwarded_prefix([(b"x-forwarded-prefix", b"/a"), (b"x-forwarded-prefix", b"/b")]) is None
    assert forwarded_prefix([]) is None
    networks = ("10.0.0.0/8", "fd00::/8")
    trusted = [
        is_trusted(address, networks) for address in ("10.1.1.1", "::ffff:10.1.1.1", "fd00::1", "11.0.0.1", "", None)
    ]
    assert trusted == [True, True, True, False, False, False]
