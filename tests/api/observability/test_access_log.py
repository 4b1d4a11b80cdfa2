"""Access log: one line per request, without secrets; rotation, a full disk, several workers, and permissions."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.darrm_runner import run
from support.paths import ROOT
from support.served import serving
from support.waiting import until

from api.access.keys import create_key
from api.observability import access_log, metrics
from api.observability.access_log import AccessLogEntry, AccessLogFile, line_of

GAMMA = "/v1/gamma?K=5&m=2&epsilon=0.5"
ENTRY: dict[str, Any] = dict.fromkeys(AccessLogEntry.model_fields, "text") | {"status": 200, "seconds": 0.1}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AccessLogFile]:
    opened = AccessLogFile(tmp_path / "access.jsonl")
    yield opened
    opened.drain()


def test_a_line_records_the_request_without_secrets(tmp_path: Path) -> None:
    key, text = create_key(tmp_path / "keys.json", "train cluster")
    _, admin = create_key(tmp_path / "keys.json", "boss", "admin")
    path = tmp_path / "access.jsonl"
    settings = {"DARRM_KEYS": "keys.json", "DARRM_ACCESS_LOG": str(path), "DARRM_TRUSTED_PROXIES": "127.0.0.1"}
    with serving(tmp_path, DARRM_SHORT_SECONDS="0", **settings) as service:  # every design is a job with its id
        answer = service.ask(GAMMA, X_API_Key=text, X_Forwarded_For="10.9.8.7").json()
        service.ask(GAMMA, X_API_Key=text)  # from the response cache
        service.ask(f"/v1/gamma/{answer['id']}", X_API_Key=text)
        service.ask(
            "/v1/verify", "POST", b'{"K": 3, "secret-1": [0, 1]}', X_API_Key=text, Content_Type="application/json"
        )
        service.ask("/v1/gamma?votes=secret-2", Authorization="Bearer secret-3")
        service.ask(f"/v1/jobs/{answer['id']}", X_API_Key=text)
        both = b'{"problems": [{"K": 5, "m": 2, "epsilon": 0.5}, {"K": 3, "m": 2, "epsilon": 0.5}]}'
        service.ask("/v1/gamma/batch", "POST", both, X_API_Key=text, Content_Type="application/json")
        for open_ in ("/healthz", "/readyz", "/", "/openapi.json"):
            service.ask(open_)
        assert service.ask("/readyz").json()["checks"]["access_log"] == "ok"
        until(lambda: len(path.read_text(encoding="utf-8").splitlines()) == 7)
        told = service.ask("/v1/access-log?limit=3", X_API_Key=admin).json()["entries"]
        assert [entry["path"] for entry in told] == ["/v1/gamma/batch", f"/v1/jobs/{answer['id']}", "/v1/gamma"]
        assert service.ask("/v1/access-log", X_API_Key=text).status == 403
        assert service.ask("/v1/access-log?limit=0", X_API_Key=admin).status == 422
        assert service.ask("/v1/access-log", X_API_Key=admin, Accept="text/csv").status == 406
    found = lines(path)
    who = {"client": "client train cluster", "key": key.id, "role": "user", "address": "10.9.8.7"}
    what = {"event": "access", "method": "GET", "path": "/v1/gamma", "status": 200}
    assert (who | what).items() <= found[0].items()
    assert [entry["status"] for entry in found[:7]] == [200, 200, 200, 422, 401, 200, 200]
    assert [entry["questions"] for entry in found[:3]] == [[answer["id"]]] * 3
    assert (found[0]["jobs"], found[1]["jobs"]) == ([answer["id"]], [])
    assert found[5]["jobs"] == [answer["id"]]
    assert (len(found[6]["questions"]), found[6]["questions"][0]) == (2, answer["id"])
    assert (found[4]["client"], found[4]["key"], found[4]["role"]) == ("address 127.0.0.1", "", "user")
    assert all(entry["seconds"] > 0 and entry["time"].endswith("+00:00") for entry in found)
    written = path.read_text(encoding="utf-8")
    assert "secret" not in written
    assert text not in written
    assert oct(path.stat().st_mode & 0o777) == oct(0o600)


def test_a_rotated_file_is_created_again(log: AccessLogFile) -> None:
    log.write(line_of(ENTRY))
    assert log.drain()
    moved = log.path.rename(log.path.with_suffix(".1"))
    log.write(line_of(ENTRY | {"status": 404}))
    assert log.drain()
    assert [entry["status"] for entry in lines(moved)] == [200]
    assert [entry["status"] for entry in lines(log.path)] == [404]
    log.path.unlink()
    log.write(line_of(ENTRY | {"status": 500}))
    assert log.drain()
    assert [entry["status"] for entry in lines(log.path)] == [500]


def test_lines_wait_for_a_full_disk_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(access_log, "MAX_WAITING_LINES", 5)
    room, write = [10], os.write  # bytes
    log = AccessLogFile(tmp_path / "access.jsonl")

    def limited(descriptor: int, piece: bytes) -> int:
        if descriptor != log._descriptor:
            return write(descriptor, piece)
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, piece[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", limited)
    lost = metrics.ACCESS_LOG_LOST._value.get()
    log.write("".join(line_of(ENTRY | {"status": status}) for status in range(200, 203)))  # which are tried together
    until(lambda: log.trouble == os.strerror(errno.ENOSPC))
    for status in range(203, 211):
        log.write(line_of(ENTRY | {"status": status}))
    assert metrics.ACCESS_LOG_LOST._value.get() - lost == 3
    room[0] = 10**9
    assert until(log.drain)
    cut, *whole = log.path.read_text(encoding="utf-8").splitlines()
    assert len(cut) == 10
    assert [json.loads(line).get("status") for line in whole] == [*range(200, 208), None]
    assert json.loads(whole[-1])["lines"] == 3
    assert log.trouble == ""
    assert [entry["status"] for entry in log.last(2)] == [
        207,
        206,
    ]  # neither the truncated line nor the count is an entry


def test_a_full_disk_is_reported_before_a_line_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AccessLogFile(tmp_path / "access.jsonl")
    assert log.find_trouble() == ""
    monkeypatch.setattr(access_log, "MIN_FREE_BYTES", 2**80)
    assert log.find_trouble() == os.strerror(errno.ENOSPC)
    log.path.unlink()
    assert log.find_trouble() == ""  # the next line creates it


def test_a_failing_access_log_is_reported_while_requests_are_served(tmp_path: Path) -> None:
    path = tmp_path / "access.jsonl"
    path.symlink_to("/dev/full")
    with serving(tmp_path, DARRM_ACCESS_LOG=str(path), DARRM_READY_SECONDS="0") as service:
        assert service.ask(GAMMA).status == 200
        answer = until(lambda: (found := service.ask("/readyz")).status == 503 and found)
        assert "access_log: it cannot be written: No space left on device" in answer.json()["detail"]
        assert service.ask(GAMMA).status == 200
        assert b"darrm_access_log_lost_total 0.0" in service.ask("/metrics").body
    assert any("the access log cannot be written" in event["event"] for event in service.events())


def test_a_file_that_cannot_be_opened_aborts_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", "memory")
    monkeypatch.setenv("DARRM_ACCESS_LOG", str(tmp_path / "nowhere" / "access.jsonl"))
    result = run("serve", "--port", "0")
    assert (result.exit_code, result.stderr.endswith("access.jsonl: No such file or directory\n")) == (4, True)


def test_the_access_log_can_go_to_stderr(tmp_path: Path) -> None:
    with serving(tmp_path, DARRM_ACCESS_LOG="stderr", DARRM_LOG_LEVEL="error") as service:
        assert service.ask(GAMMA).status == 200
        assert service.ask("/v1/access-log").status == 403  # without keys there is no admin
        assert "access_log" not in service.ask("/readyz").json()["checks"]
    [first, second] = [event for event in service.events() if event["event"] == "access"]
    assert (first["path"], first["status"], second["status"]) == ("/v1/gamma", 200, 403)


def test_the_last_lines_of_a_long_file_are_returned(log: AccessLogFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "BLOCK_BYTES", 100)
    assert log.last(5) == []
    for status in range(200, 260):
        log.write(line_of(ENTRY | {"status": status}))
    assert log.drain()
    assert [entry["status"] for entry in log.last(3)] == [259, 258, 257]
    assert len(log.last(1000)) == 60
    monkeypatch.setattr(access_log, "MAX_READ_BYTES", 1000)
    assert 0 < len(log.last(1000)) < 60


def test_the_documentation_has_every_field() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    told = page.partition("\n## Access log\n")[2].partition("\n## ")[0]
    for name in AccessLogEntry.model_fields:
        assert f"`{name}`" in told, name
