"""`darrm verify` of hostile files: a clear error for each, and no changed claim passes.

Every kind of file is changed in one place: a value of another type, another number, a field dropped or added, a text
cut short, lists within lists, whole numbers of hundreds of digits. What may be changed without a word is what the
answer names as unproved, and what is asked (`QUESTION`), whose new value is then proved.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.darrm_runner import refused, run

from darrm.cli.output import ExitCode
from darrm_opt import Privacy, Problem, solve
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.errors import BudgetUnreadable
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.record import planned_fields, solution_record
from darrm_opt.release import PrivateVote, ReleaseLog
from darrm_opt.release.journal import CHECKSUM, _line
from darrm_opt.tables.record import table_record, table_solution_record
from darrm_opt.tables.solver import solve_table
from darrm_opt.untrusted import TOLERANCE
from solver_cache.model import row_of
from solver_cache.table_files import write_table

QUESTION = frozenset(
    {
        *("K", "m", "epsilon", "Delta", "delta", "target_epsilon", "affected", "gamma", "values", "classes", "groups"),
        *("queries", "total_epsilon", "total_delta", "sampling", "records", "sample", "rate", "scheme", "neighbours"),
        *("labels", "scale", "sigma", "threshold", "check_sigma", "cap", "fresh", "name", "spent", "total", "draw"),
        *("voters", "prior", "price", "least_accuracy", "version", "nearest", "designed_for"),
    }
)
"""Fields of the question; ``version``, that of the writer."""

PRIVATE = Problem(5, Privacy(0.5), Privacy(1.0))


@cache
def documents() -> dict[str, Any]:
    """Return one JSON value of each kind of file."""
    solution = solve(PRIVATE)
    table = solve_table(Problem(4, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=3))
    groups = solve_table(Problem(groups=[(2, 0.3), (1, 0.5)], target=Privacy(1.0)))
    laplace, noise = mechanism_class("laplace").of(11, 2, 16.5), mechanism_class("gnmax").of(5, 2, 4.0)
    sampling = Sampling(1000, 10)
    plan = run("plan", "--K", "3", "--affected", "1", "--queries", "2", "--total-epsilon", "2", "--json").stdout
    bare = {"K": 5, "m": 2, "epsilon": 0.5, "gamma": [0.9, 0.5, 0.1, 0.1, 0.5, 0.9]}
    total = Privacy(laplace.epsilon(20, 1e-5), 1e-5)
    sampled = Privacy(noise.epsilon(10, 1e-6, sampling), 1e-6)
    return {
        "answer": solution_record(solution),
        "bare": bare,
        "table": table_solution_record(table) | planned_fields(1, Privacy(1.0, 1e-5)),
        "groups": table_solution_record(groups),
        "group plan": table_record(groups.problem, groups.table) | {"fresh": True} | planned_fields(1, Privacy(1.0)),
        "laplace": laplace.record() | planned_fields(20, total),
        "sampled": noise.record() | planned_fields(10, sampled) | {"sampling": sampling.record()},
        "plan": json.loads(plan),
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


STRANGE: tuple[Any, ...] = (
    *(None, True, False, "", "0.5", "optimal", "best ever", [], {}, [[]], {"a": 1}, [1, 2], [None], deep(60)),
    *(0, 1, -1, 2, -3, 5, 0.5, 1e-300, 1e300, 5e-324, 10**20, 10**390, -(10**390), 0.1 + 2**-56),
)


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, tuple[Any, ...], Any]:
    """Draw a kind of file, the path of a change, and the changed document."""
    kind = draw(st.sampled_from(sorted(documents())))
    document = copy.deepcopy(documents()[kind])
    path = draw(st.sampled_from([*places(document)]))
    change = draw(st.sampled_from(["replace", "replace", "scale", "drop", "add"]))
    if not path:
        return kind, path, draw(st.sampled_from(STRANGE))
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    value = parent[path[-1]]
    if change == "drop":
        del parent[path[-1]]
    elif change == "add" and isinstance(value, dict):
        value["approved"] = draw(st.sampled_from(STRANGE))
        path = (*path, "approved")
    elif change == "scale" and type(value) in {int, float}:
        factor = draw(st.sampled_from([1 + 1e-6, 1 - 1e-6, 2, 0.5, -1, 0]))
        parent[path[-1]] = type(value)(value * factor) if type(value) is int else value * factor
    else:
        parent[path[-1]] = draw(st.sampled_from(STRANGE))
    return kind, path, document


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, with numbers up to the tolerance of a new proof."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float) and bool not in (type(one), type(other)):
        within = max(abs(one), abs(other)) <= sys.float_info.max  # else an integer that is not a double
        return one == other or (within and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE))
    return type(one) is type(other) and one == other


def unproved_names(answer: str) -> frozenset[str]:
    """Return the fields that ``darrm verify --json`` did not check."""
    told = json.loads(answer)
    return frozenset(name for proof in told.get("proofs", [told]) for name in proof.get("unproved", ()))


@cache
def claims(kind: str) -> frozenset[str]:
    """Return the fields of an unchanged document that are not checked."""
    return unproved_names(run("verify", "-", "--json", given=json.dumps(documents()[kind])).stdout)


def is_absent(document: Any, path: tuple[Any, ...]) -> bool:
    """Return whether a document lacks the field of a path."""
    for key in path[:-1]:
        document = document[key]
    return bool(path) and isinstance(document, dict) and path[-1] not in document


@settings(max_examples=400)
@given(changed())
def test_one_change_of_a_file_gives_a_clear_error_or_a_verified_claim(
    change: tuple[str, tuple[Any, ...], Any],
) -> None:
    kind, path, document = change
    result = run("verify", "-", "--json", given=json.dumps(document))
    assert result.exit_code in {0, ExitCode.NOT_PRIVATE, ExitCode.BAD_INPUT}, result.stderr
    assert "Traceback" not in result.stderr
    assert "cannot be verified" not in result.stderr  # each error is handled
    if result.exit_code == 0 and not same(document, documents()[kind]):
        unproved = unproved_names(result.stdout)
        if is_absent(document, path):  # a claim that was not proved may be left out
            unproved |= claims(kind)
        names = {name for name in path if isinstance(name, str)}
        if "options without gamma" in unproved and path[:1] == ("options",):
            names.add("options without gamma")
        assert names & (QUESTION | {*unproved, "released"}), (kind, path)  # another set may have the same excess


# ------------------------------------------------------------------------------------------ texts and tables


@pytest.mark.parametrize("kind", sorted(documents()))
def test_a_truncated_file_is_not_json(kind: str) -> None:
    text = json.dumps(documents()[kind])
    for end in range(1, len(text), max(1, len(text) // 12)):
        assert "is not JSON: " in refused("verify", "-", given=text[:end])


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[" * 100_000,
            '{"a":' * 100_000,
            '{"kind": {}}',
            '{"kind": []}',
            '{"kind": "darrm miracle"}',
            "[[]]",
            '"\\ud800"',
        ),
        *(f'{{"gamma": {"9" * 5000}}}', '{"options": [[]]}', '{"design": {"design": 1}}', '{"record": [], "K": 1}'),
        *('{"mechanism": {}, "options": []}', '{"format": 1, "gamma": {}}', '{"problem": {}, "gamma": [1, 1]}', "\x00"),
    ],
)
def test_a_hostile_text_gives_a_clear_error(text: str) -> None:
    assert "cannot be verified" not in refused("verify", "-", given=text)


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv", "t.parquet", "t.sqlite"])
@pytest.mark.parametrize(
    "content", [b"", b"[]\n[]\n", b"\xff\xfe\x00", b'{"table": 1}\n[]\n', b"[" * 50_000, b"id,core\n1\n"]
)
def test_a_hostile_table_gives_a_clear_error(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    result = run("verify", str(tmp_path / name))
    assert result.exit_code in {ExitCode.NOT_PRIVATE, ExitCode.BAD_INPUT, ExitCode.UNAVAILABLE}
    assert result.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def table_lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    path = tmp_path_factory.mktemp("table") / "table.jsonl"
    write_table(path, [row_of(solve(PRIVATE))], "jsonl")
    return path.read_bytes().splitlines(keepends=True)


@settings(max_examples=60)
@given(data=st.data())
def test_a_changed_table_is_refused(
    data: st.DataObject, table_lines: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One byte of a table is changed, or it is truncated there."""
    text = b"".join(table_lines)
    place = data.draw(st.integers(0, len(text) - 2))
    byte = data.draw(st.sampled_from(b'0"[]{},:x\xff'))
    changed = text[:place] if data.draw(st.booleans()) else text[:place] + bytes([byte]) + text[place + 1 :]
    path = tmp_path_factory.mktemp("changed") / "table.jsonl"
    path.write_bytes(changed)
    result = run("verify", str(path))
    assert result.exit_code in {0, ExitCode.NOT_PRIVATE, ExitCode.BAD_INPUT, ExitCode.UNAVAILABLE}
    if result.exit_code == 0:  # the version of the writer, or the same byte
        assert changed == text or table_lines[0] not in changed


# ------------------------------------------------------------------------------------------ release logs


@pytest.fixture
def log_lines(tmp_path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log of four releases, of which two are spent."""
    mechanism = mechanism_class("laplace").of(11, 2, 16.5)
    log = ReleaseLog.create(tmp_path / "log", mechanism, budget=Privacy(mechanism.epsilon(4, 1e-5), 1e-5), queries=4)
    vote = PrivateVote(mechanism, log)
    for name in ("a", "b"):
        vote.release_many(np.ones((1, 11), dtype=int), release_id=name)
    return [json.loads(line[CHECKSUM:]) for line in (tmp_path / "log").read_bytes().splitlines()]


def written(path: Path, lines: list[Any]) -> Path:
    """Write lines like a journal, with valid checksums, which detect damage but not forgery."""
    content, chain = b"", ""
    for line in lines:
        content += _line(chain, line)
        chain = content.splitlines()[-1][:CHECKSUM].decode("ascii")
    path.write_bytes(content)
    return path


def test_an_unchanged_log_is_verified(log_lines: list[dict[str, Any]], tmp_path: Path) -> None:
    assert written(tmp_path / "again", log_lines).read_bytes() == (tmp_path / "log").read_bytes()
    assert "2 of 4 releases are spent" in run("verify", str(tmp_path / "again")).stdout


FORGED: dict[str, Any] = {
    "more spent than allowed": lambda lines: lines[1].update(count=9, labels=9),
    "one id twice": lambda lines: lines[2].update(id="a"),
    "an unknown account": lambda lines: lines[0].update(account="magic"),
    "an account that is not a text": lambda lines: lines[0].update(account=None),
    "another account": lambda lines: lines[0].update(account="models"),
    "a larger limit": lambda lines: lines[0].update(limit=400),
    "no limit": lambda lines: lines[0].update(limit=None),
    "a limit of 390 digits": lambda lines: lines[0].update(limit=10**390),
    "a smaller total": lambda lines: lines[0]["budget"].update(epsilon=1e-3),
    "a total that is text": lambda lines: lines[0]["budget"].update(epsilon="1.0"),
    "an unknown field": lambda lines: lines[0].update(approved=True),
    "no version": lambda lines: lines[0].update(version=None),
    "less noise": lambda lines: lines[0]["mechanism"].update(scale=1.0),
    "an unknown field of a line": lambda lines: lines[1].update(refunded=1),
    "a count that is true": lambda lines: lines[1].update(count=True),
    "fewer classes": lambda lines: lines[1].update(labels=0),
    "an id that is no text": lambda lines: lines[1].update(id=[]),
    "other answers": lambda lines: lines[1].update(answers="AwA="),
    "answers that are no text": lambda lines: lines[1].update(answers=3),
    "answers of another length": lambda lines: lines[1].update(answers=""),
    "no answers": lambda lines: lines[1].pop("answers"),
    "a kind that is an object": lambda lines: lines[0].update(mechanism={"kind": {}}),
    "a mechanism that is a list": lambda lines: lines[0].update(mechanism=deep(50)),
    "a line that is a list": lambda lines: lines.append([]),
    "a line that is empty": lambda lines: lines.append({}),
}


@pytest.mark.parametrize("forgery", sorted(FORGED))
def test_a_forged_log_is_refused(forgery: str, log_lines: list[dict[str, Any]], tmp_path: Path) -> None:
    FORGED[forgery](log_lines)
    result = run("verify", str(written(tmp_path / "forged", log_lines)))
    assert result.exit_code in {ExitCode.NOT_PRIVATE, ExitCode.BAD_INPUT, ExitCode.UNAVAILABLE}, result.stdout
    assert result.stderr.count("\n") == 1
    assert "cannot be verified" not in result.stderr


def test_a_read_only_log_is_verified_and_not_changed(log_lines: list[dict[str, Any]], tmp_path: Path) -> None:
    """An incomplete last line does not count; the next release removes it."""
    log = tmp_path / "log"
    torn = log.read_bytes() + b"0123 {"
    log.write_bytes(torn)
    log.chmod(0o400)
    before = log.stat().st_mtime_ns
    for verb in ("verify", "statement"):
        result = run(verb, str(log))
        assert (result.exit_code, result.stderr) == (0, "")
    assert (log.read_bytes(), log.stat().st_mtime_ns) == (torn, before)
    assert len(log_lines) == 3
    with pytest.raises(BudgetUnreadable, match="opened read-only"):
        PrivateVote(ReleaseLog(log).mechanism, ReleaseLog(log, read_only=True)).release([1] * 11)


def test_the_total_of_a_plan_for_groups_is_verified() -> None:
    plan = documents()["group plan"]
    assert json.loads(run("verify", "-", "--json", given=json.dumps(plan)).stdout)["total"]["queries"] == 1
    false = run("verify", "-", "--json", given=json.dumps(plan | {"queries": 400, "total_epsilon": 0.01}))
    assert (false.exit_code, json.loads(false.stdout)["private"]) == (ExitCode.NOT_PRIVATE, None)


@pytest.mark.parametrize("kind", ["table", "groups"])
@pytest.mark.parametrize(
    "change",
    [
        *({"utility": 5}, {"upper_bound": 0.1}, {"status": "best ever"}, {"version": None}, {"utility": "0.5"}),
        *({"status": {}}, {"prior": 3, "objective": 3}, {"certificate": {}}, {"upper_bound": 2}, {"gap": -3}),
    ],
)
def test_a_false_claim_of_a_table_file_is_refused(kind: str, change: dict[str, Any]) -> None:
    refused("verify", "-", given=json.dumps(documents()[kind] | change))


def test_a_pending_answer_of_the_service_is_refused() -> None:
    problem = {"type": "about:blank", "title": "Invalid", "status": 422, "detail": "K is missing."}
    assert "the service refused the request (422): K is missing." in refused("verify", "-", given=json.dumps(problem))
    job = {"id": "4f", "state": "running"}
    assert "it is a job of the service (running)" in refused("verify", "-", given=json.dumps(job))
