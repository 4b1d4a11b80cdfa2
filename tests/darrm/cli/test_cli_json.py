"""``--json`` of every verb: one line of JSON on stdout, without output of libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.darrm_runner import SMALL, run, run_json

from darrm.cli import all_verbs
from darrm_client import DarrmClient
from darrm_opt import Problem

VERBS = all_verbs()

TOTAL = ("--total-epsilon", "2", "--total-delta", "1e-3")

COMMANDS = {
    "plan": ("--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "2", *TOTAL),
    "plan --compare": ("--K", "5", "--epsilon", "0.5", "--fresh", "--queries", "2", *TOTAL),
    "solve": SMALL,
    "verify": ("gamma.json",),
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
    "audit": ("laplace", "--K", "5", "--scale", "2", "--total-epsilon", "1"),
    "statement": ("gamma.json",),
    "serve": ("--show-settings",),
    "keys add": ("someone", "--file", "keys.json"),
    "keys ls": ("--file", "keys.json"),
    "keys revoke": ("KEY", "--file", "keys.json"),
    "precompute": ("grid.json", "--workers", "1"),
    "cache ls": (),
    "cache tag": ("ID", "best"),
    "cache check": (),
    "cache rm --defective": ("--days", "7"),
    "cache rm": ("--days", "7"),
    "export": ("--output", "table.jsonl"),
    "import": ("given.jsonl",),
    "reproduce": ("table-3", "--quick"),
}
"""Arguments of each verb, with the files of `prepared`."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Change to a folder with the input files; return the id of a stored answer and that of a key."""
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


def test_every_verb_is_tested() -> None:
    assert {verb.partition(" --")[0] for verb in COMMANDS} == {*VERBS} - {"mcp"}


@pytest.mark.parametrize("verb", COMMANDS)
def test_stdout_is_one_line_of_json(
    verb: str, prepared: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", prepared["DARRM_CACHE_URL"])
    result = run(*verb.split(), *(prepared.get(word, word) for word in COMMANDS[verb]), "--json")
    assert (result.exit_code, capfd.readouterr().out) == (0, "")  # output of C and of child processes goes there
    assert result.stdout.endswith("\n")
    [line] = result.stdout.splitlines()
    assert isinstance(json.loads(line), dict | list)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("least", ("--K", "5", "--epsilon", "0.5", "--utility", "0.5")),
        ("error-curve", (*SMALL, "--points", "3")),
        ("profile", ("--solution", "gamma.json", "--points", "3")),
        ("solve", ("--K", "5", "--classes", "3", "--affected", "1", "--target-epsilon", "1")),
        ("compose", ("--solution", "gamma.json", "--queries", "3", "--total-delta", "1e-3")),
        ("cost", ("bagging", "--K", "5", "--bags", "n=1000,size=20")),
    ],
)
def test_further_answers_of_a_verb_are_one_line_of_json(
    verb: str,
    words: tuple[str, ...],
    prepared: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(COMMANDS, verb, words)
    test_stdout_is_one_line_of_json(verb, prepared, monkeypatch, capfd)


def test_several_answers_in_one_file_are_a_table(tmp_path: Path) -> None:
    table = tmp_path / "table.jsonl"
    for allowance in ("1", "2"):
        with table.open("a", encoding="utf-8") as file:
            file.write(run("solve", "--K", "7", "--m", allowance, "--epsilon", "0.2", "--json").stdout)
    assert [json.loads(line)["problem"]["m"] for line in table.read_text(encoding="utf-8").splitlines()] == [1, 2]
    with DarrmClient(table.as_uri()) as client:
        assert client.gamma(Problem.from_allowance(K=7, m=2, epsilon=0.2)).exact
