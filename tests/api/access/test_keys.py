"""API keys: the file, the ring of keys that a server follows, and `darrm keys`."""

from __future__ import annotations

import hashlib
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.darrm_runner import refused, run

import api.access.keys
from api.access.keys import KeyRing, KeysFileError, create_key, list_keys, revoke_key
from darrm_opt import InvalidInput


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "keys.json"


def test_a_key_is_256_random_bits_and_the_file_has_its_hash_alone(path: Path) -> None:
    key, text = create_key(path, "alice")
    prefix, identity, secret = text.split("_", 2)
    assert (prefix, identity, len(secret)) == ("darrm", key.id, 43)  # 43 base64 digits hold 256 bits
    kept = path.read_text(encoding="utf-8")
    assert secret not in kept
    assert hashlib.sha256(secret.encode()).hexdigest() in kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list_keys(path) == (key,)
    assert len({create_key(path, "bob")[1] for _ in range(5)}) == 5


def test_a_ring_opens_for_its_keys_alone(path: Path) -> None:
    key, text = create_key(path, "alice")
    _, other = create_key(path.with_name("other.json"), "mallory")
    ring = KeyRing(path)
    assert ring.holder(text) == key
    wrong = [
        other,
        text[:-1],
        text + "A",
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        text.upper(),
        "",
        "darrm__",
        key.id,
    ]
    assert [ring.holder(each) for each in wrong] == [None] * len(wrong)
    swapped = f"darrm_{key.id}_{other.split('_', 2)[2]}"
    assert ring.holder(swapped) is None


def test_a_ring_follows_its_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.access.keys, "RELOAD_SECONDS", 0.0)
    first, text = create_key(path, "alice")
    ring = KeyRing(path)
    second, later = create_key(path, "bob")
    assert ring.holder(later) == second
    revoke_key(path, first.id)
    assert ring.holder(text) is None
    assert ring.holder(later) == second


def test_a_change_is_seen_within_a_second_and_not_looked_for_at_each_request(path: Path) -> None:
    now = [1000.0]
    key, text = create_key(path, "alice")
    ring = KeyRing(path, lambda: now[0])
    revoke_key(path, key.id)
    now[0] += 0.9
    assert ring.holder(text) == key
    now[0] += 0.1
    assert ring.holder(text) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 1}', '{"format": 1, "keys": [{"id": "x"}]}', None])
def test_a_file_that_breaks_lets_nobody_in_and_locks_nobody_out(
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
    assert "the keys from before stay in force" in caplog.text
    assert len(caplog.records) == 1  # said once, not at each request
    with pytest.raises(KeysFileError):
        KeyRing(path)


def test_messages_about_the_file_say_what_to_do(path: Path) -> None:
    with pytest.raises(KeysFileError, match=r"There is no keys file .*: `darrm keys add NAME --file .*` makes one\."):
        list_keys(path)
    create_key(path, "alice")
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, "format": 2}), encoding="utf-8")
    with pytest.raises(KeysFileError, match=r"has format 2; this version reads 1\."):
        list_keys(path)
    path.write_text(json.dumps({**told, "keys": 2 * told["keys"]}), encoding="utf-8")
    with pytest.raises(KeysFileError, match=r"two keys of one id: remove one of them\."):
        list_keys(path)
    path.write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(KeysFileError, match=r"is not one that `darrm keys` wrote"):
        list_keys(path)
    with pytest.raises(KeysFileError, match=r"cannot be written"):
        create_key(path / "below" / "a-file", "alice")


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "x" * 65, "\x00"])
def test_a_key_needs_a_name(path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"NAME = .* is not valid: expected 1 to 64 letters"):
        create_key(path, name)
    assert not path.exists()


def test_nobody_can_revoke_what_is_not_there(path: Path) -> None:
    create_key(path, "alice")
    with pytest.raises(InvalidInput, match=r"ID = 'nobody' is not valid: .* `darrm keys ls` lists them\."):
        revoke_key(path, "nobody")
    assert len(list_keys(path)) == 1


def test_several_at_once_lose_no_key(path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: create_key(path, f"user {number}")[0], range(16)))
    assert {key.id for key in list_keys(path)} == {key.id for key in made}
    assert {each.name for each in path.parent.iterdir()} == {"keys.json", "keys.json.lock"}


# ------------------------------------------------------------------------------------------------ the command line


def test_the_command_line_makes_lists_and_revokes(path: Path) -> None:
    made = run("keys", "add", "train cluster", "--file", str(path))
    text = made.stdout.strip()
    assert KeyRing(path).holder(text) is not None
    assert text not in made.stderr
    assert "cannot be shown again" in made.stderr
    shown = json.loads(run("keys", "ls", "--file", str(path), "--json").stdout)
    assert [each["name"] for each in shown] == ["train cluster"]
    assert set(shown[0]) == {"id", "name", "created"}
    assert shown[0]["id"] in run("keys", "ls", "--file", str(path)).stdout
    gone = run("keys", "revoke", shown[0]["id"], "--file", str(path))
    assert (gone.exit_code, gone.stdout) == (0, f"Revoked {shown[0]['id']} of 'train cluster'.\n")
    assert run("keys", "ls", "--file", str(path)).stdout == "No keys: nobody is let in.\n"
    assert json.loads(run("keys", "add", "x", "--file", str(path), "--json").stdout)["key"].startswith("darrm_")


def test_the_command_line_finds_the_file_in_the_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("keys", "ls").startswith("Error: --file is missing: expected the file that the keys are kept in.")
    monkeypatch.setenv("DARRM_KEYS", str(path))
    assert run("keys", "add", "alice").exit_code == 0
    assert len(list_keys(path)) == 1


def test_the_command_line_refuses_what_it_does_not_know(path: Path) -> None:
    assert refused("keys", "mint", "alice", "--file", str(path)) == (
        "Error: No such command 'keys mint'. There are add, ls, revoke."
    )
    assert refused("keys", "ls", "alice", "--file", str(path)) == "Error: Got unexpected argument 'alice'."
    assert refused("keys", "add", "--file", str(path)) == "Error: Missing argument 'NAME'."
    assert refused("keys", "add", "", "--file", str(path)).startswith("Error: NAME: '' is not valid")
