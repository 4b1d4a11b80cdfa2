"""API keys: the file, the ring of keys that a server follows, and `darrm keys`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from support.darrm_runner import refused, run
from support.paths import ROOT
from support.refusals import refused as refused_input
from support.served import serving

import api.access.keys
from api.access.clients import CURRENT_CLIENT, Client
from api.access.keys import KeyRing, KeysFileError, Role, create_key, list_keys, parse_expiry, revoke_key
from api.app import create_app
from api.errors.problem_details import NotCached
from api.service.design_service import DesignService
from api.settings import Settings
from darrm_client.webhooks import webhook_secret_text
from darrm_opt import InvalidInput
from darrm_opt.questions.design import Design
from solver_cache import open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "keys.json"


def test_the_file_stores_only_the_hash_of_256_random_bits(path: Path) -> None:
    key, text = create_key(path, "alice")
    prefix, identity, secret = text.split("_", 2)
    assert (prefix, identity, len(secret)) == ("darrm", key.id, 43)  # 43 base64 digits hold 256 bits
    kept = path.read_text(encoding="utf-8")
    assert secret not in kept
    assert hashlib.sha256(secret.encode()).hexdigest() in kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list_keys(path) == (key,)
    assert len({create_key(path, "bob")[1] for _ in range(5)}) == 5


def test_a_key_is_revoked_through_a_symbolic_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    key, _ = create_key(link, "alice")
    assert list_keys(path) == (key,)
    revoke_key(link, key.id)
    assert link.is_symlink()
    assert list_keys(path) == ()
    assert not [*tmp_path.glob("*.lock")]


def test_a_ring_accepts_only_its_keys(path: Path) -> None:
    key, text = create_key(path, "alice")
    _, other = create_key(path.with_name("other.json"), "mallory")
    ring = KeyRing(path)
    assert ring.holder(text) == key
    swapped = f"darrm_{key.id}_{other.split('_', 2)[2]}"
    wrong = [other, swapped, text[:-1], text + "A", text[:-1] + ("A" if text[-1] != "A" else "B"), text.upper()]
    assert [ring.holder(each) for each in (*wrong, "", "darrm__", key.id)] == [None] * 9


def test_a_ring_reloads_its_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.access.keys, "RELOAD_SECONDS", 0.0)
    first, text = create_key(path, "alice")
    ring = KeyRing(path)
    second, later = create_key(path, "bob")
    assert ring.holder(later) == second
    revoke_key(path, first.id)
    assert ring.holder(text) is None
    assert ring.holder(later) == second


def test_the_file_is_checked_once_a_second(path: Path) -> None:
    now = [1000.0]
    key, text = create_key(path, "alice")
    ring = KeyRing(path, lambda: now[0])
    revoke_key(path, key.id)
    now[0] += 0.9
    assert ring.holder(text) == key
    now[0] += 0.1
    assert ring.holder(text) is None


def test_a_change_is_logged_once(path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(api.access.keys, "RELOAD_SECONDS", 0.0)
    secret = webhook_secret_text(bytes(range(32)))
    create_key(path, "alice")
    url = f"sqlite:///{path.parent / 'store.sqlite'}"
    app = create_app(Settings(keys=path, webhook_secret=secret, cache_url=url))  # type: ignore[arg-type]  # a text
    with TestClient(app) as client, caplog.at_level("INFO", "api"):
        create_key(path, "bob")
        assert client.get("/v1/jobs", headers={"X-API-Key": "darrm_00000000_" + 43 * "A"}).status_code == 401
        app.state.service.webhooks._check_key("client bob")
    assert [record.getMessage() for record in caplog.records if "keys file" in record.getMessage()] == [
        "The keys file changed: 2 keys."
    ]


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"format": 1}', '{"format": 1, "keys": [{"id": "x"}]}', "[" * 100_000, None]
)
def test_a_broken_file_changes_no_access(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: str | None
) -> None:
    monkeypatch.setattr(api.access.keys, "RELOAD_SECONDS", 0.0)
    key, text = create_key(path, "alice")
    ring = KeyRing(path)
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage, encoding="utf-8")
    assert ring.holder(text) == key
    assert ring.holder("darrm_00000000_" + 43 * "A") is None
    assert "the previous keys stay valid" in caplog.text
    assert len(caplog.records) == 1  # reported once, not for each request
    with pytest.raises(KeysFileError):
        KeyRing(path)


def test_errors_of_the_keys_file_give_advice(path: Path) -> None:
    with pytest.raises(
        KeysFileError, match=r"The keys file .* does not exist; `darrm keys add NAME --file .*` creates it\."
    ):
        list_keys(path)
    create_key(path, "alice")
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, "format": 2}), encoding="utf-8")
    with pytest.raises(KeysFileError, match=r"has format 2; this version reads 1\."):
        list_keys(path)
    path.write_text(json.dumps({**told, "keys": 2 * told["keys"]}), encoding="utf-8")
    with pytest.raises(KeysFileError, match=r"two keys with the same id: remove one\."):
        list_keys(path)
    path.write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(KeysFileError, match=r"was not written by `darrm keys`"):
        list_keys(path)
    with pytest.raises(KeysFileError, match=r"cannot be written"):
        create_key(path / "below" / "a-file", "alice")


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "x" * 65, "\x00"])
def test_a_key_needs_a_name(path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"NAME = .* is not valid: expected 1 to 64 letters"):
        create_key(path, name)
    assert not path.exists()


def test_revoking_an_unknown_key_is_refused(path: Path) -> None:
    create_key(path, "alice")
    with refused_input("ID", "'nobody'"):
        revoke_key(path, "nobody")
    assert len(list_keys(path)) == 1


def test_concurrent_additions_lose_no_key(path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: create_key(path, f"user {number}")[0], range(16)))
    assert {key.id for key in list_keys(path)} == {key.id for key in made}
    assert {each.name for each in path.parent.iterdir()} == {"keys.json", "keys.json.lock"}


# ---------------------------------------------------------------------------------------------- roles and expiry


MISSING = object()


def test_an_invalid_role_or_time_invalidates_the_file(path: Path) -> None:
    create_key(path, "alice", "reader", "1h")
    told = json.loads(path.read_text(encoding="utf-8"))
    for name, values in {"role": ("root", None, MISSING), "expires": ("soon", "2030-01-31", MISSING)}.items():
        for value in values:
            key = {each: own for each, own in (told["keys"][0] | {name: value}).items() if own is not MISSING}
            path.write_text(json.dumps({**told, "keys": [key]}), encoding="utf-8")
            with pytest.raises(KeysFileError, match="was not written by `darrm keys`"):
                list_keys(path)


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("", ""),
        ("1h", "2026-01-01T01:00:00+00:00"),
        ("90d", "2026-04-01T00:00:00+00:00"),
        ("2w", "2026-01-15T00:00:00+00:00"),
        ("2026-01-02", "2026-01-02T00:00:00+00:00"),
        ("2026-01-02T01:00:00+02:00", "2026-01-01T23:00:00+00:00"),
    ],
)
def test_expiry_is_a_lifetime_or_a_time(text: str, until: str) -> None:
    assert parse_expiry(text, NOW) == until


@pytest.mark.parametrize(
    "text", ["90", "0d", "-1d", "1y", "d", "999999w", "tomorrow", "2025-12-31", "2026-01-01", " 1d"]
)
def test_invalid_expiry_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"expires = .* is not valid: expected a lifetime such as 12h, 90d or 26w"):
        parse_expiry(text, NOW)


def test_a_key_expires_at_its_time(path: Path) -> None:
    key, _ = create_key(path, "alice", expires="1h")
    at = datetime.fromisoformat(key.expires).timestamp()
    assert [key.has_expired(at - 1), key.has_expired(at), key.has_expired()] == [False, True, False]


def test_the_command_line_gives_roles_and_shows_expiry(path: Path) -> None:
    place = ["--file", str(path)]
    made = run("keys", "add", "board", *place, "--role", "reader", "--expires", "90d")
    assert "of 'board' (reader, until 20" in made.stderr
    run("keys", "add", "old", *place)
    [reader, user] = json.loads(run("keys", "ls", *place, "--json").stdout)
    assert (reader["role"], user["role"], user["expires"]) == ("reader", "user", "")
    assert reader["expires"].endswith("+00:00")
    listed = run("keys", "ls", *place).stdout
    assert f"reader  expires {reader['expires']}  board" in listed
    assert "user    never expires" in listed
    wrong = "Error: {}: {!r} is not valid: expected {}"
    told = wrong.format("--role", "root", "one of reader, user, admin.")
    assert refused("keys", "add", "x", *place, "--role", "root").startswith(told)
    told = wrong.format("--expires", "soon", "a lifetime such as 12h, 90d or 26w")
    assert refused("keys", "add", "x", *place, "--expires", "soon").startswith(told)


def expired(path: Path, identity: str) -> None:
    """Set the expiry of a key to the past."""
    told = json.loads(path.read_text(encoding="utf-8"))
    for key in told["keys"]:
        if key["id"] == identity:
            key["expires"] = "2020-01-01T00:00:00+00:00"
    path.write_text(json.dumps(told), encoding="utf-8")


def test_a_server_enforces_roles(tmp_path: Path) -> None:
    path, made = tmp_path / "keys.json", {}
    for role in ("reader", "user", "admin"):
        made[role] = create_key(path, role, role)[1]
    gone, late = create_key(path, "gone")
    expired(path, gone.id)
    small, other = "/v1/gamma?K=5&m=2&epsilon=0.5", "/v1/gamma?K=7&m=2&epsilon=0.5"
    long = b'{"K": 1001, "m": 20, "epsilon": 0.1, "Delta": 1e-2, "objective": "shared(1,1) agreement"}'
    with TestClient(create_app(Settings(cache_url="memory", solve="off", keys=path))) as client:
        statuses = {
            role: client.get("/metrics", headers={"X-API-Key": text}).status_code for role, text in made.items()
        }
        assert statuses == {"reader": 403, "user": 200, "admin": 200}
        assert client.get(small).status_code == 401  # answered before routing
        counted = client.get("/metrics", headers={"X-API-Key": made["admin"]}).text
        assert 'darrm_requests_total{method="GET",route="refused",status="401"}' in counted
    with serving(tmp_path, DARRM_KEYS=str(path), DARRM_METRICS="admin", DARRM_MAX_VOTERS="1001") as service:

        def status(role: str, place: str, method: str = "GET", body: bytes | None = None) -> int:
            more = {"Content_Type": "application/json"} if body else {}
            return service.ask(place, method, body, X_API_Key=made[role], **more).status

        refusal = service.ask(small, X_API_Key=late)
        assert refusal.status == 401
        assert refusal.json()["detail"].startswith("This key expired at 2020-01-01T00:00:00+00:00.")
        assert "invalid_token" in refusal.headers["www-authenticate"]
        # a reader: stored answers only, nothing that is solved or computed
        assert status("reader", small) == 404
        answer = service.ask(small, X_API_Key=made["user"]).json()
        assert status("reader", small) == status("reader", f"/v1/gamma/{answer['id']}") == 200
        near = service.ask("/v1/gamma?K=5&m=2.1&epsilon=0.5", X_API_Key=made["reader"])
        assert (near.status, near.json()["nearest"] is not None) == (200, True)
        batch = b'{"problems": [{"K": 5, "m": 2, "epsilon": 0.5}, {"K": 7, "m": 2, "epsilon": 0.5}]}'
        told = service.ask("/v1/gamma/batch", "POST", batch, X_API_Key=made["reader"], Content_Type="application/json")
        assert [item["status"] for item in told.json()["results"]] == [200, 404]
        assert status("reader", "/v1/gamma", "POST", long) == 404
        computed = ("/v1/estimate?K=5&m=2&epsilon=0.5", "/v1/compose?epsilon=0.1&queries=2")
        for place in ("/v1/jobs", *computed, "/v1/access-log"):
            denied = service.ask(place, X_API_Key=made["reader"])
            assert (denied.status, denied.json()["type"]) == (403, "urn:darrm-opt:problem:not-permitted")
        assert status("reader", "/v1/designs") == 200
        tag = f"/v1/designs/{answer['id']}/tags/paper"
        assert (status("reader", tag, "PUT"), status("user", tag, "PUT")) == (403, 200)
        assert b"darrm_jobs_queued 0.0" in service.ask("/metrics", X_API_Key=made["admin"]).body
        assert status("reader", "/metrics") == status("user", "/metrics") == status("user", "/v1/access-log") == 403
        assert status("reader", "/healthz") == 200
        # an admin: all jobs; a user: its own
        id = service.ask("/v1/jobs", "POST", long, X_API_Key=made["user"], Content_Type="application/json").json()["id"]
        assert status("user", other) == 200
        listed = {role: service.ask("/v1/jobs", X_API_Key=made[role]).json()["jobs"] for role in ("user", "admin")}
        assert {job["id"] for job in listed["user"]} == {job["id"] for job in listed["admin"]}
        assert id in {job["id"] for job in listed["admin"]}
        mine = b'{"K": 9, "m": 2, "epsilon": 0.5}'
        own = service.ask("/v1/jobs", "POST", mine, X_API_Key=made["admin"], Content_Type="application/json").json()
        assert own["id"] not in {job["id"] for job in service.ask("/v1/jobs", X_API_Key=made["user"]).json()["jobs"]}
        foreign = f"/v1/jobs/{own['id']}"  # running or finished
        assert status("user", f"{foreign}/stop", "POST") == status("user", foreign, "DELETE") == 404
        assert service.ask(f"/v1/jobs/{id}/stop", "POST", X_API_Key=made["user"]).status in {200, 202}
        state = service.ask(f"/v1/jobs/{id}", "DELETE", X_API_Key=made["admin"]).json()["state"]
        assert state in {"cancelled", "done"}  # the stopped job may already be done with its incumbent


MOUNTED = """
import sys
from pathlib import Path
from api.access.keys import KeyRing, KeysFileError, create_key, revoke_key

source, mounted, identity, text = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
times = iter(range(100))
ring = KeyRing(mounted, lambda: 10.0 * next(times))
print(ring.holder(text).id == identity)
_, new = create_key(source, "new")
print(ring.holder(text) is not None, ring.holder(new) is not None)
revoke_key(source, identity)
print(ring.holder(text) is not None, ring.holder(new) is not None)
try:
    KeyRing(mounted)
except KeysFileError as err:
    print(err, file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts need Linux and root")
@pytest.mark.parametrize("by", ["folder", "file"])
def test_keys_must_be_mounted_by_their_folder(tmp_path: Path, by: str) -> None:
    source, mounted = tmp_path / "source", tmp_path / "mounted"
    source.mkdir()
    mounted.mkdir()
    key, text = create_key(source / "keys.json", "old")
    (mounted / "keys.json").touch()
    name = "" if by == "folder" else "/keys.json"
    script = f'mount --bind "{source}{name}" "{mounted}{name}" && exec "$0" -c "$@"'
    files = [str(folder / "keys.json") for folder in (source, mounted)]
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, MOUNTED, *files, key.id, text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    if by == "folder":  # as in docs/deploy.md
        assert (done.stdout.split(), done.stderr) == (["True", "True", "True", "False", "True"], "")
    else:  # the mount shows the old file forever: revoked keys would stay valid
        assert done.stdout.split() == ["True", *4 * ["False"]]
        assert "is a mount, so" in done.stderr
        assert done.stderr.count("was replaced behind its mount, so no key is valid") == 2


def test_a_refused_reader_does_not_affect_a_concurrent_user() -> None:
    settings = Settings(cache_url="memory", solvers=1, wait_seconds=60)
    reader, user = (Client(f"client {role}", local=False, role=role, key_id=role) for role in get_args(Role)[:2])

    async def ask(service: DesignService, client: Client) -> Any:
        CURRENT_CLIENT.set(client)
        try:
            return await service.design(Design(K=5, m=2, epsilon=0.5))
        except NotCached as err:
            return str(err)

    async def both() -> list[Any]:
        async with DesignService.open(open_store("memory"), settings, asyncio.Event()) as service:
            return list(await asyncio.gather(ask(service, reader), ask(service, user)))

    refusal, answer = asyncio.run(both())
    assert refusal == "This answer is not stored, and the role reader cannot request a solve."
    assert answer["status"] == "optimal"


# ------------------------------------------------------------------------------------------------ the command line


def test_the_command_line_creates_lists_and_revokes_keys(path: Path) -> None:
    made = run("keys", "add", "train cluster", "--file", str(path))
    text = made.stdout.strip()
    assert KeyRing(path).holder(text) is not None
    assert text not in made.stderr
    assert "cannot be shown again" in made.stderr
    shown = json.loads(run("keys", "ls", "--file", str(path), "--json").stdout)
    assert [each["name"] for each in shown] == ["train cluster"]
    assert set(shown[0]) == {"id", "name", "created", "role", "expires"}
    assert shown[0]["id"] in run("keys", "ls", "--file", str(path)).stdout
    gone = run("keys", "revoke", shown[0]["id"], "--file", str(path))
    assert (gone.exit_code, gone.stdout) == (0, f"Revoked {shown[0]['id']} of 'train cluster'.\n")
    assert run("keys", "ls", "--file", str(path)).stdout == "No keys: nobody is let in.\n"
    assert json.loads(run("keys", "add", "x", "--file", str(path), "--json").stdout)["key"].startswith("darrm_")


def test_the_command_line_takes_the_file_from_the_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("keys", "ls").startswith("Error: --file is missing: expected the file that the keys are stored in.")
    monkeypatch.setenv("DARRM_KEYS", str(path))
    assert run("keys", "add", "alice").exit_code == 0
    assert len(list_keys(path)) == 1
