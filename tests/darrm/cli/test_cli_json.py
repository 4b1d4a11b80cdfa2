"""``--json`` of every verb, as a pipe gets it: one line of JSON, and nothing that a library printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.darrm_runner import SMALL, run, run_json, start

from darrm.cli.verbs import VERBS
from darrm_client import DarrmClient
from darrm_opt import Problem

TOTAL = ("--total-epsilon", "2", "--total-delta", "1e-3")

COMMANDS = {
    "plan": ("--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "2", *TOTAL),
    "compare": ("--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "2", *TOTAL),
    "solve": SMALL,
    "least": ("--K", "5", "--epsilon", "0.5", "--utility", "0.5"),
    "verify": ("gamma.json",),
    "curve": (*SMALL, "--points", "3"),
    "label": (
        "votes.csv",
        "--solution",
        "gamma.json",
        "--release-log",
        "log",
        "--queries",
        "3",
        "--output",
        "bits.csv",
    ),
    "cost": ("gnmax", "--K", "11", "--queries", "5", *TOTAL),
    "serve": ("--show-settings",),
    "keys add": ("someone", "--file", "keys.json"),
    "keys ls": ("--file", "keys.json"),
    "keys revoke": ("KEY", "--file", "keys.json"),
    "precompute": ("grid.json", "--workers", "1"),
    "cache ls": (),
    "cache tag": ("ID", "best"),
    "cache stats": (),
    "cache check": (),
    "cache prune": ("--days", "7"),
    "cache migrate": (),
    "export": ("--output", "table.jsonl"),
    "import": ("given.jsonl",),
    "reproduce": ("table-3", "--quick"),
    "teach": ("--data", "breast-cancer", "--labels", "4", "--chunks", "5", "--partitions", "1"),
}
"""What each verb is given, where `prepared` put its files."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Go to a folder with what the verbs read; return the names of an answer in the cache and of a key."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("verbs")
        patch.chdir(folder)
        patch.setenv("DARRM_CACHE_URL", f"sqlite:///{folder}/cache.sqlite")
        Path("votes.csv").write_text("1,0,1,1,0\n" * 3, encoding="utf-8")
        Path("grid.json").write_text('{"K": [5, 7], "epsilon": 0.1, "m": 1, "Delta": 0}', encoding="utf-8")
        assert run("precompute", "grid.json", "--workers", "1").exit_code == 0
        assert run("solve", *SMALL, "--output", "gamma.json").exit_code == 0
        assert run("export", "--output", "given.jsonl").exit_code == 0
        yield {
            "ID": run_json("cache", "ls")[0]["id"],
            "KEY": json.loads(run("keys", "add", "other", "--file", "keys.json", "--json").stdout)["id"],
            "DARRM_CACHE_URL": f"sqlite:///{folder}/cache.sqlite",
        }


def printed(verb: str, names: dict[str, str]) -> tuple[int, str]:
    """Return the exit code and the stdout of a verb with ``--json``, as a process of its own."""
    words = [names.get(word, word) for word in COMMANDS[verb]]
    process = start(*verb.split(), *words, "--json", cwd=Path.cwd(), DARRM_CACHE_URL=names["DARRM_CACHE_URL"])
    with process:
        stdout, _ = process.communicate(timeout=300)
    return process.returncode, stdout


def test_no_verb_is_left_out() -> None:
    assert {*COMMANDS} == {*VERBS} - {"completion"}


@pytest.mark.parametrize("verb", COMMANDS)
def test_stdout_is_one_line_of_json(verb: str, prepared: dict[str, str]) -> None:
    code, stdout = printed(verb, prepared)
    assert code == 0
    assert stdout.endswith("\n")
    [line] = stdout.splitlines()
    content: Any = json.loads(line)
    assert isinstance(content, dict | list)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("curve", ("--over", "epsilon", "--solution", "gamma.json", "--points", "3")),
        ("solve", ("--K", "5", "--classes", "3", "--affected", "1", "--target-epsilon", "1")),
        ("cost", ("--solution", "gamma.json", "--queries", "3", "--total-delta", "1e-3")),
        ("cost", ("bagging", "--K", "5", "--bags", "n=1000,size=20")),
    ],
)
def test_the_other_answers_of_a_verb_are_one_line_of_json(
    verb: str, words: tuple[str, ...], prepared: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, verb, words)
    test_stdout_is_one_line_of_json(verb, prepared)


def test_answers_in_one_file_are_a_table(tmp_path: Path) -> None:
    table = tmp_path / "table.jsonl"
    for allowance in ("1", "2"):
        with table.open("a", encoding="utf-8") as file:
            file.write(run("solve", "--K", "7", "--m", allowance, "--epsilon", "0.2", "--json").stdout)
    assert [json.loads(line)["problem"]["m"] for line in table.read_text(encoding="utf-8").splitlines()] == [1, 2]
    with DarrmClient(table.as_uri()) as client:
        assert client.gamma(Problem.from_allowance(K=7, m=2, epsilon=0.2)).exact
