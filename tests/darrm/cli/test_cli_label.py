"""`darrm label`: formats, refusals, and one release per row even if a job is killed."""

from __future__ import annotations

import itertools
import json
import math
import re
import signal
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns.kill_label import kill_and_resume
from numpy.typing import NDArray
from support.darrm_runner import Result, refused, run, run_json, start
from support.paths import DATA
from vote_files import labels, written

from darrm.cli.output import ExitCode, ProgressDisplay
from darrm.cli.vote_files import Missing, VoteFile
from darrm.cli.vote_files import labels as label_blocks
from darrm_opt import Privacy, Problem, solve
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.mechanisms.base import mechanism_from_record
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum
from darrm_opt.record import planned_fields, solution_record
from darrm_opt.release import ReleaseLog
from darrm_opt.tables.votes import fill_missing

K = 5
PROBLEM = Problem.from_allowance(K=K, m=2, epsilon=0.5)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with an answer of `darrm solve`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solution.json").write_text(json.dumps(solution_record(solve(PROBLEM))))
    return tmp_path


KINDS = ("csv", "npy", "parquet")


def votes(rows: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 2, (rows, K), dtype=np.uint8)


def label(name: str, output: str, *more: str) -> Result:
    return run("label", name, "--solution", "solution.json", "--release-log", "log", "--output", output, *more)


# ------------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_has_the_bit_of_the_release_log(kind: str) -> None:
    result = label(
        written(f"votes.{kind}", votes(250)), f"labels.{kind}", "--queries", "300", "--block", "64", "--json"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert (answer["labels"], answer["resumed"], answer["spent"], answer["left"]) == (250, 0, 250, 50)
    log = ReleaseLog("log")
    stored = [log.stored(f"{answer['release_id']}/{number}") for number in range(4)]
    assert labels(f"labels.{kind}") == [int(bit) for block in stored if block is not None for bit in block]
    assert {path.name for path in Path().iterdir()} == {"solution.json", "log", f"votes.{kind}", f"labels.{kind}"}


def test_without_noise_the_labels_are_the_majorities() -> None:
    # m = K: γ = 1, so the majority is released.
    loose = solve(Problem.from_allowance(K=K, m=5, epsilon=0.5))
    Path("solution.json").write_text(json.dumps(solution_record(loose)), encoding="utf-8")
    assert float(loose.gamma.min()) > 1 - 1e-9
    table = votes(1000)
    assert label(written("votes.csv", table), "labels.csv", "--queries", "1000").exit_code == 0
    assert labels("labels.csv") == (table.sum(axis=1) > K / 2).astype(int).tolist()


def test_what_is_no_class_is_charged_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    name = written("votes.csv", votes(20))
    assert run("cost", "laplace", "--K", str(K), "--scale", "2", "--delta", "0", "--output", "own.json").exit_code == 0
    words = ("label", name, "--solution", "own.json", "--release-log", "log", "--output", "labels.csv", "--block", "8")
    drawn = iter([np.zeros(8, dtype=np.int16), np.full(8, 2, dtype=np.int16)])
    with monkeypatch.context() as patch:
        patch.setattr(LaplaceMaximum, "draw_many", lambda *_: next(drawn))
        said = refused(*words, "--queries", "40")
    assert "--solution: 'laplace' is not valid: expected one that draws a class of 0 to 1, or -1 for none" in said
    assert (ReleaseLog("log").spent, Path("labels.csv").exists()) == (16, False)
    assert "2" not in Path(".labels.csv.part").read_text(encoding="utf-8")
    assert run(*words).exit_code == 0  # the first block is not drawn again; the second is charged again
    assert ReleaseLog("log").spent == 28
    assert set(labels("labels.csv")) <= {0, 1}


def test_a_total_budget_holds_across_jobs() -> None:
    name = written("votes.csv", votes(3))
    budget = ("--total-epsilon", "8", "--total-delta", "1e-6", "--fresh")
    assert label(name, "one.csv", *budget).exit_code == 0
    limit = ReleaseLog("log").limit
    assert ReleaseLog("log").budget == Privacy(8.0, 1e-6)
    result = label(name, "two.csv", *budget)
    assert result.exit_code == 0
    assert (
        f"6 of {limit} releases are spent. All {limit} together: epsilon = 8, delta = 1e-06 in total." in result.stdout
    )
    assert "The voters were taken to be fresh: each draws" in result.stdout
    result = label(written("more.csv", votes(limit)), "three.csv")
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert f"{limit} releases were requested and {limit - 6} are left" in result.stderr
    assert ReleaseLog("log").spent == 6
    assert not [path for path in Path().iterdir() if "three" in path.name]


def test_the_log_of_voters_trained_once_allows_the_releases_within_their_models() -> None:
    name = written("votes.csv", votes(3))
    result = label(name, "one.csv", "--total-epsilon", "8", "--total-delta", "1e-6")
    assert result.exit_code == 0
    log = ReleaseLog("log")
    assert (log.fresh, log.account, log.limit) == (False, "models", 10**9)  # K·ε is within 8
    again = label(name, "two.csv", "--fresh")
    assert again.exit_code == ExitCode.BAD_INPUT
    assert "--fresh: True is not valid: expected False, as log is for voters that were trained once" in again.stderr
    assert ReleaseLog("log").spent == 3


def test_output_messages_and_other_files_do_not_show_votes(folder: Path) -> None:
    table = np.zeros((40, K), dtype=np.uint8)
    table[7] = 1
    result = label(written("votes.csv", table), "labels.npy", "--queries", "50", "--block", "8")
    texts = [result.stdout, result.stderr, (folder / "log").read_text()]
    assert not [text for text in texts if "0,0,0" in text or "1,1,1" in text or "00000" in text]


def test_common_variants_of_csv_are_read() -> None:
    plain = votes(6)
    lines = [",".join(map(str, row)) for row in plain.tolist()]
    for text in (
        "\n".join(lines),
        "\r\n".join(lines) + "\r\n",
        "ann,bo,cy,di,ed\n" + "\n".join(lines) + "\n\n\n",
        "\ufeff" + "\n".join(lines),
        "\n".join(line.replace(",", " , ") for line in lines),
        "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in lines),
        "\n".join(line.replace("1", "true").replace("0", "False") for line in lines),
        "\n".join(line.replace(",", ".0,") for line in lines),
    ):
        Path("votes.csv").write_text(text, encoding="utf-8", newline="")
        for rows in (1, 4, 100):
            assert np.array_equal(np.concatenate([*VoteFile("votes.csv", K).blocks(rows)]), plain)
            assert VoteFile("votes.csv", K).count_rows(rows) == 6


@pytest.mark.parametrize("name", ["votes.csv", "votes.npy", "votes.parquet"])
def test_blocks_are_complete_for_any_block_size(name: str) -> None:
    table = votes(100)
    written(name, table)
    found = [*VoteFile(name, K).blocks(33)]
    assert [len(block) for block in found] == [33, 33, 33, 1]
    assert np.array_equal(np.concatenate(found), table)


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.int64, np.float32, ">i4"])
def test_arrays_of_every_type_are_read(kind: Any) -> None:
    np.save("votes.npy", votes(20).astype(kind))
    assert np.array_equal(next(VoteFile("votes.npy", K).blocks(50)), votes(20))


def test_an_empty_file_is_refused_and_leaves_no_release_log() -> None:
    for name in ("votes.csv", "votes.npy"):
        written(name, votes(0))
        result = label(name, f"{name}.npy", "--queries", "3")
        assert result.exit_code == ExitCode.BAD_INPUT
        assert "expected at least one row of votes. " in result.stderr
        assert not Path("log").exists()
    for text, advice in (("", "The file is empty."), ("a,b,c,d,e\n", "It has a header but no rows.")):
        Path("votes.csv").write_text(text, encoding="utf-8")
        assert label("votes.csv", "l.csv", "--queries", "3").stderr.endswith(f"row of votes. {advice}\n")


@pytest.mark.parametrize("budget", [("--queries", "3"), ("--total-epsilon", "8", "--total-delta", "1e-6", "--fresh")])
def test_more_rows_than_a_new_budget_allows_leave_no_release_log(budget: tuple[str, ...]) -> None:
    result = label(written("votes.npy", votes(500)), "labels.csv", *budget)
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert "500 releases were requested" in result.stderr
    assert "none are spent. Nothing was charged and nothing was released." in result.stderr
    assert {path.name for path in Path().iterdir()} == {"solution.json", "votes.npy"}


# ------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,1,1,0,1\n0,1,2,0,1\n", "0 and 1 alone. Line 2, column 3 holds something else"),
        ("a,b,c,d,e\n0,1,1,0,1\n\n0,1,,0,1\n", "Line 4, column 3 holds something else"),
        ("0,1,1,0,1\n0,1,1,0\n", "5 votes on each line, one of each voter. Line 2 has 4."),
        ("a,b\n0,1\n", "Line 1 has 2."),
        ("0,1,7,0,1\n", "Line 1, column 3 holds something else"),
        ("0,1,1,0,1\n0,1,\xff,0,1\n", "CSV as UTF-8 text. Line 2 is not"),
    ],
)
def test_the_error_of_invalid_votes_names_the_line_and_does_not_show_them(text: str, said: str) -> None:
    Path("votes.csv").write_bytes(text.encode("latin-1"))
    message = refused("label", "votes.csv", "--solution", "solution.json", *_to("log", "l.csv"), "--queries", "9")
    assert message.startswith("Error: VOTES: 'votes.csv' is not valid: expected ")
    assert said in message
    assert not Path("log").exists()  # a refusal leaves no files
    assert not Path(".l.csv.job").exists()


@pytest.mark.parametrize("cell", ["A", "-", " ", "_", "1_0", "\u0663", "nan", "inf", "0x1", "17e"])
def test_only_digits_are_classes(cell: str) -> None:
    # These characters are at "0" + 17, + 253 etc.: subtracting bytes once made classes of them.
    classes = 256
    for line in (f"1,2,{cell},4,5", f"11,12,{cell},14,15"):
        Path("votes.csv").write_text(f"0,1,2,3,5\n{line}\n", encoding="utf-8")
        with pytest.raises(InvalidInput) as refusal:
            VoteFile("votes.csv", K, classes).count_rows(10)
        assert (refusal.value.argument, refusal.value.accepted) == ("VOTES", "classes 0 to 255 alone")
        assert refusal.value.advice.startswith("Line 2, column ")


def test_classes_of_several_digits_are_read() -> None:
    table = np.random.default_rng(1).integers(0, 300, (50, K))
    written("votes.csv", table)
    np.savetxt("floats.csv", table, delimiter=",")  # 1.200000000000000000e+01
    for name in ("votes.csv", "floats.csv"):
        assert np.array_equal(np.concatenate([*VoteFile(name, K, 300).blocks(7)]), table)


@pytest.mark.parametrize("classes", [None, 300])
@pytest.mark.parametrize("head", ["NA,NA,NA,NA,NA", ",,,,", "a,,c,d,e", "NA,b,c,d,e", "a,a,b,c,d", "?,b,c,d,e"])
def test_a_first_line_of_missing_votes_is_not_a_header(head: str, classes: int | None) -> None:
    Path("votes.csv").write_text(f"{head}\n0,1,1,0,1\n", encoding="utf-8")
    with pytest.raises(InvalidInput) as refusal:
        VoteFile("votes.csv", K, classes).count_rows(10)
    assert (refusal.value.argument, refusal.value.value) == ("VOTES", "votes.csv")
    assert refusal.value.accepted == "a first line of votes, or of names, without duplicates"
    assert refusal.value.advice.startswith("Line 1 is neither: votes are ")


@pytest.mark.parametrize("start", ["", "0,1,1,0,1\n" * 3])
def test_a_line_that_is_too_long_is_refused_before_it_is_read_completely(start: str) -> None:
    Path("votes.csv").write_text(start, encoding="utf-8")
    with Path("votes.csv").open("ab") as file:
        file.truncate(file.tell() + 100_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput) as refusal:
            VoteFile("votes.csv", K).count_rows(65_536)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert refusal.value.accepted == f"lines of at most {256 * K} bytes"
    assert refusal.value.advice == f"Line {4 if start else 1} is longer."


def test_lines_are_numbered_from_the_first_including_headers() -> None:
    for first, rows in itertools.product(("\n", " \r\n", "a,b,c,d,e\n"), (1, 100)):
        Path("votes.csv").write_text(f"{first}0,1,1,0,1\n\n0,1,x,0,1\n", encoding="utf-8", newline="")
        with pytest.raises(InvalidInput, match=r"Line 4, column \d+ holds something else"):
            VoteFile("votes.csv", K).count_rows(rows)


@pytest.mark.parametrize("first", [0, 1])
def test_a_header_of_numbers_is_never_a_row_of_votes(first: int) -> None:
    # As pandas writes columns without names. With that many classes they could be votes: neither is assumed.
    table = np.random.default_rng(1).integers(0, 3, (6, K))
    rows = "".join(",".join(map(str, row)) + "\n" for row in table.tolist())
    counting = ",".join(str(first + place) for place in range(K)) + "\n"
    Path("votes.csv").write_text(counting + rows, encoding="utf-8")
    assert np.array_equal(np.concatenate([*VoteFile("votes.csv", K, 3).blocks(10)]), table)
    with pytest.raises(InvalidInput, match=f"Line 1 counts from {first}.*give names to the columns"):
        VoteFile("votes.csv", K, K + 1).count_rows(10)
    Path("votes.csv").write_text("a,b,c,d,e\n" + counting + rows, encoding="utf-8")
    assert VoteFile("votes.csv", K, K + 1).count_rows(10) == 7


EVENLY, NUMBERED, DATES = "--missing evenly", "Number the classes", "leave their columns out"
SIGNED = r"Votes of -1 and 1 become 0 and 1 by \(votes \+ 1\) // 2\.$"
TRANSPOSED = r"Is the table transposed\? A row is a release, a column a voter\.$"
INDEXED = r"Is its first column an index.*index=False"
HOLDS = r"Line 2, column \d+ holds something else\..*"
MOSTLY_VOTES = np.concatenate([np.zeros((12, K)), np.full((3, K), math.nan)])


@pytest.mark.parametrize(
    ("name", "content", "classes", "said"),
    [
        # for two and three classes: each kind of invalid cell has its advice
        *(
            ("votes.csv", f"0,1,1,0,1\n0,1,{cell},0,1\n", classes, HOLDS + said)
            for cell, said in (("", EVENLY), ("cat", NUMBERED), ("2020-01-01", NUMBERED))
            for classes in (None, 3)
        ),
        *(("votes.npy", np.full((3, K), math.nan), classes, EVENLY) for classes in (None, 3)),
        *(("votes.npy", np.full((3, K), "cat"), classes, NUMBERED) for classes in (None, 3)),
        *(("votes.npy", np.full((3, K), np.datetime64("2020-01-01")), classes, DATES) for classes in (None, 3)),
        *(("votes.parquet", [[None, 1]] * K, classes, EVENLY) for classes in (None, 3)),
        *(("votes.parquet", [["a", "b"]] * K, classes, NUMBERED) for classes in (None, 3)),
        *(("votes.parquet", [np.array(["2020"], dtype="M8[ns]")] * K, classes, DATES) for classes in (None, 3)),
        *(
            (f"votes.{kind}", 2 * votes(20).astype(np.int8) - 1, classes, SIGNED)
            for kind in KINDS
            for classes in (None, 2)
        ),
        *((f"votes.{kind}", votes(12).T, classes, TRANSPOSED) for kind in KINDS for classes in (None, 3)),
        ("votes.csv", ",a,b,c,d,e\n0,1,1,0,1,0\n", None, INDEXED),
        ("votes.npy", np.zeros((3, K + 1), dtype=np.int64), None, INDEXED),
        # and the position of a vote, or the format of the file
        ("votes.npy", np.zeros((3, 4)), None, r"It has shape \(3, 4\) and type float64"),
        ("votes.npy", np.zeros(5), None, r"It has shape \(5,\)"),
        ("votes.npy", np.full((3, K), "1"), None, r"type <U1"),
        ("votes.npy", MOSTLY_VOTES, None, r"0 and 1 alone\. Row 12, column 0, counted from 0, holds something else\."),
        ("votes.npy", np.full((3, K), None), None, "'votes.npy'"),
        ("votes.npy", b"not an array", None, "'votes.npy'"),
        ("votes.parquet", b"PAR1 not", None, "'votes.parquet'"),
        ("votes.parquet", [[0, 1]], None, "5 columns, one of each voter. It has 1"),
        ("votes.parquet", [[0, None]] * K, None, "0 and 1 alone. It has missing values"),
        ("votes.parquet", [["0", "1"]] * K, None, "0 and 1 alone. Of rows 0 to 1, counted from 0"),
        ("votes.parquet", [[0, 3]] * K, None, "0 and 1 alone. Row 1, column 0, counted from 0"),
    ],
)
def test_files_without_votes_are_refused_with_advice(name: str, content: Any, classes: int | None, said: str) -> None:
    if isinstance(content, str | bytes):
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    elif isinstance(content, list):
        pa = pytest.importorskip("pyarrow")
        columns = {f"v{place}": pa.array(column) for place, column in enumerate(content)}
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), name)
    elif content.dtype.kind in "iu":
        written(name, content)
    else:
        np.save(name, content, allow_pickle=True)
    with pytest.raises(InvalidInput, match=said) as refusal:
        VoteFile(name, K, classes).count_rows(10)
    assert refusal.value.argument == "VOTES"
    if said.startswith(HOLDS):
        assert "(votes + 1) // 2" not in str(refusal.value)


def test_a_truncated_array_is_refused() -> None:
    content = Path(written("votes.npy", votes(50))).read_bytes()
    Path("votes.npy").write_bytes(content[:-3])
    with pytest.raises(InvalidInput, match=r"50 rows\. The file ends before"):
        VoteFile("votes.npy", K).count_rows(10)


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_a_transposed_array_is_read_correctly(rows: int) -> None:
    predictions = np.random.default_rng(1).integers(0, 3, (K, 11))  # one row per voter
    np.save("votes.npy", predictions.T)
    assert np.array_equal(np.concatenate([*VoteFile("votes.npy", K, 3).blocks(rows)]), predictions.T)
    content = Path("votes.npy").read_bytes()
    Path("votes.npy").write_bytes(content[:-3])
    with pytest.raises(InvalidInput, match=r"11 rows\. The file ends before"):
        VoteFile("votes.npy", K, 3).count_rows(rows)


def test_missing_votes_become_the_given_class_in_every_format() -> None:
    rng = np.random.default_rng(2)
    table = rng.integers(0, 3, (9, K)).astype(np.float64)
    table[rng.random(table.shape) < 0.4] = math.nan
    np.save("votes.npy", table)
    np.save("marked.npy", np.nan_to_num(table, nan=-1).astype(np.int8))
    lines = [",".join("" if math.isnan(vote) else str(int(vote)) for vote in row) for row in table]
    Path("votes.csv").write_text("a,b,c,d,e\n" + "\n".join(lines) + "\n", encoding="utf-8")
    Path("marked.csv").write_text(
        "\n".join(line.replace(",,", ",-1,").replace(",,", ",-1,") for line in lines), encoding="utf-8"
    )
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        f"v{place}": pa.array([None if math.isnan(x) else int(x) for x in table[:, place]]) for place in range(K)
    }
    parquet.write_table(pa.table(columns), "votes.parquet")
    for how in ("evenly", "class"):
        expected = fill_missing(table, 4, how)
        for name in ("votes.npy", "votes.csv", "votes.parquet", "marked.npy", "marked.csv"):
            for rows in (1, 4, 100):  # the class of a vote depends on its row number in the file, not in a block
                file = VoteFile(name, K, 4, Missing(how, -1 if "marked" in name else None))
                read = np.concatenate([*file.blocks(rows)])
                assert np.array_equal(read, expected), (name, rows)
        with pytest.raises(InvalidInput):
            VoteFile("marked.npy", K, 4, Missing(how)).count_rows(10)


def test_missing_votes_are_refused_without_the_option_for_them() -> None:
    mechanism = run(
        "cost", "permute_and_flip", "--K", "5", "--classes", "3", "--rate", "50", "--queries", "4", *DELTA, *KEPT
    )
    assert mechanism.exit_code == 0
    Path("votes.csv").write_text("a,b,c,d,e\n1,1,1,,\n0,0,,,NA\n2,2,2,2,0\n", encoding="utf-8")
    asked = ("label", "votes.csv", "--solution", "m.json", *_to("log", "l.csv"), "--queries", "4")
    assert "Are votes missing? --missing evenly counts them for each class in turn, --missing class" in refused(*asked)
    assert not Path("log").exists()
    for wrong in ("random", "evenly,value=x", "evenly,value=1", "class,row=3"):
        assert "--missing: " in refused(*asked, "--missing", wrong)
    assert not Path("log").exists()
    assert run(*asked, "--missing", "evenly").exit_code == 0
    assert labels("l.csv") == [1, 0, 2]


DELTA, KEPT = ("--delta", "1e-5"), ("--output", "m.json")


def test_parquet_without_pyarrow_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(BackendUnavailable, match=r"\.csv and \.npy do not.*pip install 'darrm-opt\[parquet\]'"):
        VoteFile("votes.parquet", K).count_rows(10)


def _to(log: str, output: str) -> tuple[str, ...]:
    return "--release-log", log, "--output", output


def test_invalid_options_are_refused_before_any_charge() -> None:
    name = written("votes.csv", votes(3))
    asked = ("label", name, "--solution", "solution.json")
    assert "--release-log is missing: expected a file" in refused(*asked, "--output", "l.csv")
    assert "--solution is missing" in refused("label", name)
    assert "Give --total-epsilon and --total-delta, or --queries" in refused(*asked, *_to("log", "l.csv"))
    assert "--output: 'l.txt' is not valid: expected a name ending in .csv, .parquet, .npy" in refused(
        *asked, *_to("log", "l.txt"), "--queries", "3"
    )
    assert "There is no folder" in refused(*asked, *_to("none/log", "l.csv"), "--queries", "3")
    both = ("--queries", "3", "--total-epsilon", "1")
    assert "either --queries or --total-epsilon" in refused(*asked, *_to("other", "l.csv"), *both)
    assert "--total-epsilon" in refused(*asked, *_to("other", "l.csv"), "--total-delta", "0.1")
    assert "--total-epsilon" in refused(*asked, *_to("other", "l.csv"), "--total-epsilon", "inf")
    assert "--total-delta" in refused(*asked, *_to("other", "l.csv"), "--total-epsilon", "1", "--total-delta", "1")
    assert "--block" in refused(*asked, *_to("log", "l.csv"), "--block", "0")
    assert "a readable file" in refused("label", "none.csv", *asked[2:], *_to("log", "l.csv"))
    assert not Path("log").exists()
    assert label(name, "first.csv", "--queries", "3").exit_code == 0
    assert "the budget of log: 3 releases. Use that one, or another file" in refused(
        *asked, *_to("log", "l.csv"), "--queries", "4"
    )
    assert "the budget of log: 3 releases" in refused(*asked, *_to("log", "l.csv"), "--total-epsilon", "1")


def test_a_solution_that_is_not_private_releases_nothing() -> None:
    record = solution_record(solve(PROBLEM))
    Path("solution.json").write_text(json.dumps(record | {"gamma": [1.0] * (K + 1)}), encoding="utf-8")
    result = label(written("votes.csv", votes(3)), "labels.csv", "--queries", "3")
    assert result.exit_code == ExitCode.NOT_PRIVATE
    assert not Path("log").exists()


def test_existing_labels_are_not_charged_again_by_mistake() -> None:
    name = written("votes.csv", votes(3))
    assert label(name, "labels.csv", "--queries", "9").exit_code == 0
    before = Path("labels.csv").read_bytes()
    result = label(name, "labels.csv")
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "labelling again costs again: choose another output name" in result.stderr
    assert (ReleaseLog("log").spent, Path("labels.csv").read_bytes()) == (3, before)


# ------------------------------------------------------------------------------------------ interrupted


class _StopError(BaseException):
    """The process is killed here."""


def stopped_after(blocks_done: int, name: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Start a job that is killed after this many blocks."""

    def update(self: object, text: str = "", done: int = 0) -> None:  # noqa: ARG001 — replaces a method
        if done == 10 * blocks_done:
            raise _StopError

    with monkeypatch.context() as patch:
        patch.setattr(ProgressDisplay, "update", update)
        with pytest.raises(_StopError):
            label(name, "labels.csv", "--queries", "100", "--block", "10", *more)


def test_the_same_command_continues_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    name = written("votes.csv", votes(45))
    stopped_after(3, name, monkeypatch)
    assert ReleaseLog("log").spent == 30
    assert not Path("labels.csv").exists()
    result = label(name, "labels.csv", "--json")  # its blocks stay the same, whatever --block is now
    answer = json.loads(result.stdout)
    assert (answer["labels"], answer["resumed"], answer["spent"]) == (45, 30, 45)
    assert result.stderr == "Going on: 30 of 45 labels were released before.\n"
    assert len(labels("labels.csv")) == 45


@pytest.mark.parametrize("kind", KINDS)
def test_if_another_job_spends_the_budget_the_error_names_the_labels_so_far(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, output = written("votes.csv", votes(45)), f"labels.{kind}"

    def update(self: object, text: str = "", done: int = 0) -> None:  # noqa: ARG001 — replaces a method
        if done == 20:
            ReleaseLog("log").charge_and_release(30, lambda _: np.zeros(30, dtype=np.int16))

    with monkeypatch.context() as patch:
        patch.setattr(ProgressDisplay, "update", update)
        result = label(name, output, "--queries", "50", "--block", "10")
    again = label(name, output)
    part = Path(f".{output}.part").absolute()
    for each in (result, again):
        assert each.exit_code == ExitCode.UNAVAILABLE
        assert "25 releases are missing and none are left: the budget, 50 releases, allows 50 in all" in each.stderr
        assert f"The first 20 of 45 labels are released and stay charged: they are in {part}." in each.stderr
    readable = part.rename(f"found.{kind}")
    assert len(labels(readable.name)) == 20


def test_continuing_with_other_arguments_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = written("votes.csv", votes(45))
    stopped_after(3, name, monkeypatch, "--release-id", "monday")
    other = written("other.csv", votes(45))
    assert "differs in votes, changed" in label(other, "labels.csv").stderr
    assert "differs in release_id" in label(name, "labels.csv", "--release-id", "tuesday").stderr
    written("votes.csv", votes(46))
    result = label(name, "labels.csv")
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "VOTES has changed since the interrupted job. Restore it, or remove " in result.stderr
    assert "its releases stay charged" in result.stderr
    assert ReleaseLog("log").ids == frozenset(f"monday/{number}" for number in range(3))


def test_a_job_without_its_record_is_continued_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    name = written("votes.csv", votes(45))
    stopped_after(3, name, monkeypatch, "--release-id", "monday")
    Path(".labels.csv.job").write_text("", encoding="utf-8")
    assert label(name, "labels.csv", "--release-id", "monday", "--block", "10").exit_code == 0
    assert ReleaseLog("log").spent == 45
    long = label(name, "long.csv", "--release-id", "x" * 151)
    assert "at most 150 characters" in long.stderr


def test_two_jobs_cannot_write_the_same_output() -> None:
    import fcntl

    name = written("votes.csv", votes(4))
    with Path(".labels.csv.job").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "a file that no other job is writing" in label(name, "labels.csv", "--queries", "9").stderr
    assert ReleaseLog("log").spent == 0


GOES_ON = "The labels released so far are in .{}.part; repeat the command to continue: they are not charged again."


@pytest.mark.parametrize("kind", KINDS)
def test_after_ctrl_c_the_message_tells_how_to_continue(folder: Path, kind: str) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    written("votes.npy", votes(30_000))
    command = ("label", "votes.npy", "--solution", "solution.json", *_to("log", f"labels.{kind}"), "--queries", "30000")
    process = start(*command, "--block", "3", cwd=folder)
    while process.poll() is None and (not Path("log").exists() or Path("log").stat().st_size < 5000):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == ExitCode.INTERRUPTED
    lines = [line for line in stderr.splitlines() if not line.startswith("labelling rows")]
    assert lines == [f"Interrupted. {GOES_ON.format(f'labels.{kind}')}"]
    spent = ReleaseLog("log").spent
    assert 0 < spent < 30_000


LIMITED = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, ({0}, {0})); from darrm.cli import main; main()"
"""`darrm` with a limit of file sizes, like a full disk for this process only."""


@pytest.mark.parametrize(
    ("rows", "block", "full", "limit"),
    [(200, 1, "log", 10_000), (40_000, 40_000, ".labels.csv.part", 10_000), (200, 200, ".labels.csv.job", 100)],
)
def test_on_a_full_disk_the_error_tells_how_to_continue(
    folder: Path, rows: int, block: int, full: str, limit: int
) -> None:
    name, table = "votes.npy", votes(rows)
    written(name, table)
    if full.endswith(".job"):
        ReleaseLog.create("log", solve(PROBLEM), queries=2 * rows)
    command = ("label", name, "--solution", "solution.json", *_to("log", "labels.csv"), "--queries", str(2 * rows))
    program = [sys.executable, "-c", LIMITED.format(limit)]
    process = start(*command, "--block", str(block), cwd=folder, program=program)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == ExitCode.UNAVAILABLE
    said, error = stderr.splitlines()
    assert said == "The same command continues where this stopped; released labels are not charged again."
    assert error.startswith("Error: ")
    assert error.endswith(f"{full}: File too large")
    assert not Path("labels.csv").exists()
    result = label(name, "labels.csv", "--json")
    assert json.loads(result.stdout)["labels"] == rows
    assert (len(labels("labels.csv")), ReleaseLog("log").spent) == (rows, rows)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full does not exist")
@pytest.mark.parametrize("suffix", [".csv", ".npy", ".parquet"])
def test_the_error_of_unwritable_labels_names_the_file(suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")

    def write() -> None:
        with label_blocks(Path("/dev/full"), suffix) as file:
            for _ in range(100):
                file.write(np.zeros(10_000, dtype=np.uint8))

    with pytest.raises(OSError, match="No space left") as failure:
        write()
    assert failure.value.filename == "/dev/full"


@pytest.mark.parametrize("classes", [None, 4])
def test_a_job_that_is_killed_releases_every_row_once(tmp_path: Path, classes: int | None) -> None:
    suffix = "csv" if classes is None else "npy"
    (tmp_path / "trial").mkdir()
    trial = kill_and_resume(tmp_path / "trial", rows=1000, block=4, kills=3, seed=0, suffix=suffix, classes=classes)
    assert trial.faults == ()
    assert trial.kills >= 1


# ------------------------------------------------------------------------------------------ status of a log


def test_the_status_of_a_log_states_the_spent_releases_and_their_total() -> None:
    label(written("votes.csv", votes(3)), "labels.csv", "--total-epsilon", "8", "--total-delta", "1e-6")
    log = ReleaseLog("log")
    status = run_json("label", "--status", "log")
    assert (status["spent"], status["limit"], status["left"], status["labels"]) == (3, log.limit, log.limit - 3, 3)
    assert (status["total_epsilon"], status["total_delta"], status["account"]) == (8.0, 1e-6, log.account)
    assert status["epsilon"] == log.cost(3, 1e-6).epsilon <= 8.0
    assert (status["delta"], status["epsilon_account"]) == (1e-6, log.cost(3, 1e-6).account)
    assert "trained once" in status["assumption"]
    text = run("label", "--status", "log").stdout
    assert "3 releases" in text
    assert "because of the labels" in text
    assert "so far     ε = " in text


def test_a_limit_of_labels_keeps_its_total() -> None:
    command = ("--queries", "4", "--total-delta", "1e-6")
    done = json.loads(label(written("votes.csv", votes(3)), "labels.csv", *command, "--json").stdout)
    log = ReleaseLog("log")
    assert log.budget == Privacy(log.cost(4, 1e-6).epsilon, 1e-6)
    assert (done["total_epsilon"], done["total_delta"], done["account"]) == (*vars(log.budget).values(), log.account)
    bare = ReleaseLog.create("bare", solve(PROBLEM), queries=4)
    assert run_json("label", "--status", "bare", "--total-delta", "1e-6")["epsilon"] == 0.0
    assert bare.budget is None


@pytest.mark.parametrize("name", ["gnmax", "permute_and_flip", "table", "confident_gnmax"])
def test_the_total_of_a_planned_mechanism_is_the_budget_of_its_log(name: str) -> None:
    """A plan writes the queries and the total with the mechanism: they are the budget of the log."""
    mechanism = mechanism_from_record(json.loads((DATA / "contracts" / f"{name}.json").read_text()))
    total = Privacy(mechanism.epsilon(5, 1e-3), 1e-3)
    Path("rule.json").write_text(json.dumps(mechanism.record() | planned_fields(5, total)))
    np.save("votes.npy", np.zeros((3, mechanism.K), dtype=np.uint8))
    command = ("label", "votes.npy", "--solution", "rule.json", "--release-log", "log")
    done = run_json(*command, "--output", "labels.npy")
    assert (done["limit"], done["spent"], done["total_epsilon"], done["total_delta"]) == (5, 3, total.epsilon, 1e-3)
    status = run_json("label", "--status", "log")
    assert (status["mechanism"], status["left"]) == (mechanism.name, 2)
    assert status["epsilon"] == mechanism.epsilon(3, 1e-3) <= total.epsilon


def test_options_that_make_votes_of_private_voters_dependent_are_refused() -> None:
    Path("votes.csv").write_text("a,b,c,d,e\n1,1,1,,\n", encoding="utf-8")
    asked = ("label", "votes.csv", "--solution", "solution.json", *_to("log", "l.csv"), "--queries", "4")
    told = refused(*asked, "--missing", "evenly")
    assert "class, where a record reaches 5 private voters" in told
    assert "evenly with two classes" in refused(*asked, "--missing", "class")
    assert not Path("log").exists()


def test_every_verb_that_reads_votes_has_the_option_for_missing_ones() -> None:
    Path("past.csv").write_text("a,b,c,d,e\n1,1,1,,0\n0,0,0,NA,0\n", encoding="utf-8")
    Path("filled.csv").write_text("a,b,c,d,e\n1,1,1,0,0\n0,0,0,1,0\n", encoding="utf-8")
    total = ("--total-epsilon", "2", "--total-delta", "1e-3", "--queries", "2")
    shape = ("--K", "5", "--affected", "1")
    for asked in (
        ("plan", "--compare", *shape, *total),
        ("solve", "--K", "5", "--classes", "2", "--abstention", "--affected", "1", "--target-epsilon", "1"),
        ("cost", "gnmax", "--K", "5", "--classes", "3", "--sigma", "3", "--delta", "1e-3", "--unpublished"),
    ):
        assert "--missing evenly" in refused(*asked, "--votes", "past.csv")
        assert "--missing" in refused(*asked, "--votes", "past.csv", "--missing", "evenly,value=1")
        assert "--missing" in refused(*asked, "--missing", "evenly")
        found, same = (run_json(*asked, "--votes", name, "--missing", "evenly") for name in ("past.csv", "filled.csv"))
        for name in ("options", "utility", "ranking", "epsilon", "rows"):
            assert found.get(name) == same.get(name)


def test_one_release_is_counted_as_one() -> None:
    Path("one.csv").write_text("0,1,1,0,1\n")
    options = ("--solution", "solution.json", "--release-log", "log", "--queries", "1")
    for name in ("first.csv", "second.csv"):
        result = run("label", "one.csv", *options, "--output", name)
        told = result.stdout + result.stderr
        assert not re.search(r"\b1 (labels|releases|answers|are)\b", told), told
    assert "1 release was requested and none are left" in result.stderr
    assert "1 of 1 release is spent" in run("verify", "log").stdout
    assert "spent      1 release; none are left" in run("label", "--status", "log").stdout
