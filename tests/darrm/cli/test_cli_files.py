"""Files of `darrm`: paths of --output, the meaning of -, and closed or full streams."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from support.darrm_runner import PROGRAM, SMALL, refused, run
from support.paths import ROOT

from darrm.cli.output import ExitCode


@pytest.fixture
def gamma(tmp_path: Path) -> Path:
    """An answer of `darrm solve`."""
    path = tmp_path / "gamma.json"
    assert run("solve", *SMALL, "--output", str(path)).exit_code == 0
    return path


def processed(*words: str, cwd: Path, redirection: str = "", **how: Any) -> subprocess.CompletedProcess[str]:
    """Run `darrm` in a shell with these redirections."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = ["bash", "-c", f'exec "$@" {redirection}', "bash", *PROGRAM, *words]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False, **how
    )


# ------------------------------------------------------------------------------------------ --output


WRITERS = (
    ("solve", *SMALL, "--output"),
    ("solve", *SMALL, "--plot"),
    ("least", "--K", "5", "--epsilon", "0.5", "--utility", "0.5", "--output"),
    ("plan", "--K", "5", "--epsilon", "0.5", "--total-epsilon", "3", "--total-delta", "1e-3", "--output"),
    ("solve", "--K", "5", "--classes", "3", "--affected", "1", "--target-epsilon", "1", "--delta", "1e-5", "--output"),
    ("export", "--format", "csv", "--output"),
    ("reproduce", "table-1", "--quick", "--output"),
)


@pytest.mark.parametrize("words", WRITERS)
def test_output_is_never_a_file_named_dash(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(*words, "-") == (
        f"Error: {words[-1]}: '-' is not valid: expected a file that can be written. It is no stream here: answers go to stdout "
        "by themselves, with --json as JSON. A file of this name is ./-."
    )
    assert not (tmp_path / "-").exists()


def test_output_follows_a_link_and_keeps_permissions(gamma: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(gamma)
    gamma.chmod(0o600)
    for option, path in (("--output", link), ("--plot", tmp_path / "link.svg")):
        assert run("solve", *SMALL, option, str(path)).exit_code == 0
    assert link.is_symlink()
    assert stat.S_IMODE(gamma.stat().st_mode) == 0o600


@pytest.mark.parametrize("words", [("solve", *SMALL), ("export", "--format", "sqlite", "--url", "{url}")])
def test_output_is_written_to_a_fifo(words: tuple[str, ...], tmp_path: Path) -> None:
    url, path, read = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "fifo", list[bytes]()
    run("cache", "check", "--migrate", "--url", url)
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
    reader.start()
    result = run(*(word.format(url=url) for word in words), "--output", str(path))
    reader.join(60)
    assert (result.exit_code, result.stderr) == (0, "")
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert read[0].startswith(b"SQLite format 3" if words[0] == "export" else b"{")


def test_output_goes_to_a_stdout_that_is_a_pipe(tmp_path: Path) -> None:
    told = processed("solve", *SMALL, "--json", "--output", "/proc/self/fd/1", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    written, printed = told.stdout.rsplit("\n", 2)[:2]
    assert json.loads(written) == json.loads(printed)
    assert json.loads(printed)["problem"]["K"] == 5


def test_output_refuses_circular_links(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    assert "Too many levels of symbolic links." in refused("solve", *SMALL, "--output", str(link))


# ------------------------------------------------------------------------------------------ closed and full streams


def test_a_closed_stdin_is_reported(tmp_path: Path) -> None:
    told = processed("verify", "-", cwd=tmp_path, redirection="<&-")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == "Error: FILE: '-' is not valid: expected a readable file, or - for stdin. Stdin is closed.\n"


def test_a_closed_pipe_has_its_exit_code(gamma: Path) -> None:
    receiver, sender = os.pipe()
    os.close(receiver)
    told = processed("verify", str(gamma), cwd=gamma.parent, redirection=f">&{sender}", pass_fds=(sender,))
    os.close(sender)
    assert (told.returncode, told.stderr) == (ExitCode.PIPE_CLOSED, "")


@pytest.mark.parametrize(
    ("redirection", "text"),
    [(">&-", "Bad file descriptor"), (">&- <&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
def test_an_answer_that_cannot_be_written_to_stdout_is_an_error(redirection: str, text: str, tmp_path: Path) -> None:
    result = processed("solve", *SMALL, "--output", "gamma.json", cwd=tmp_path, redirection=redirection)
    assert (result.returncode, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr.splitlines()[-1] == f"Error: standard output: {text}"
    assert run("verify", str(tmp_path / "gamma.json")).exit_code == 0  # the earlier output is complete


@pytest.mark.parametrize("how", ["closed", "a closed pipe", "full"])
@pytest.mark.parametrize(("file", "code"), [("none.json", 2), ("gamma.json", 0)])
def test_a_full_stderr_does_not_change_the_exit_code(gamma: Path, file: str, code: int, how: str) -> None:
    def no_file_grows() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    more: dict[str, Any] = {"redirection": "2>&-"}
    receiver, sender = os.pipe()
    os.close(receiver)
    if how == "full":
        more = {"redirection": "2>messages", "preexec_fn": no_file_grows}
    elif how == "a closed pipe":
        more = {"redirection": f"2>&{sender}", "pass_fds": (sender,)}
    told = processed("verify", file, cwd=gamma.parent, **more)
    os.close(sender)
    assert told.returncode == code
    assert ("private    proved" in told.stdout) == (code == 0)
    assert "Error" not in told.stdout


# ------------------------------------------------------------------------------------------ names that are not text


def test_a_file_name_that_is_not_utf_8_is_written_and_reported(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.csv")
    url = f"sqlite:///{tmp_path / 'store.db'}"
    run("cache", "check", "--migrate", "--url", url)
    told = processed("export", "--output", name, "--url", url, "--json", cwd=tmp_path)
    assert (told.returncode, told.stderr, json.loads(told.stdout)["file"]) == (0, "", name)
    assert (tmp_path / name).exists()
    told = processed("export", "--output", name, "--format", "sqlite", "--url", url, cwd=tmp_path)
    assert told.returncode == 4
    assert told.stderr.startswith(r"Error: \udcff.csv cannot be written: 'utf-8' codec can't encode")


@pytest.mark.parametrize("url", ["sqlite:///{folder}/\udcff.sqlite", "postgresql+psycopg://me@\udcff/name"])
@pytest.mark.parametrize("verb", [("cache", "ls", "--count"), ("cache", "check", "--migrate")])
def test_a_url_that_is_not_utf_8_is_reported(url: str, verb: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*verb, "--url", url.format(folder=tmp_path))
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert "cannot be used: it is not a database URL. Set DARRM_CACHE_URL to " in result.stderr
    assert [*tmp_path.iterdir()] == []
