"""Labelling job: a file of votes through a `PrivateMajority` into a file of labels, resumable after a crash.

Beside the output stands ``.NAME.job`` while the job lasts: the release id, and what it belongs to. Each block of rows is
released under an id of its own, ``<release id>/<block>``, so a job that was killed, asked again, is given the bits that
left already and pays for the others alone. The labels are gathered in ``.NAME.part`` and moved to the output when all are
there.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from api.cli.output import say
from api.cli.progress import ProgressDisplay
from api.cli.vote_files import blocks, check_format, count_rows, labels
from darrm_opt.accounting.errors import BudgetExceeded
from darrm_opt.durable_file import flush_folder
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanism import BudgetSpent, PrivateMajority
from darrm_opt.mechanism.durable_log import DurableLog, checked_id
from darrm_opt.plurality.private_plurality import PrivatePlurality

ROWS = 65_536
"""Rows of a block: charged and written together."""

MAX_JOB_ID = 150
"""Most characters of a job's release id: blocks add their number."""


@dataclass(frozen=True)
class Job:
    """Labelling job on disk: what it is, so that resuming a different one by mistake is refused.

    Attributes:
        release_id: its name in the release log.
        rows: rows of a block.
        votes: path of the votes.
        size: their size [bytes].
        changed: when they were last changed [ns].
        release_log: path of the release log.
    """

    release_id: str
    rows: int
    votes: str
    size: int
    changed: int
    release_log: str


@dataclass(frozen=True)
class LabelResult:
    """Result of a labelling job.

    Attributes:
        labels: labels in the output.
        resumed: labels that an earlier run had released already.
        release_id: the job's name in the release log.
    """

    labels: int
    resumed: int
    release_id: str


def check_label_files(votes: str, output: str, K: int, classes: int | None, rows: int) -> int:
    """Return the number of rows in a file of votes, all of which was read, before a release log is created.

    Args:
        votes: path of the votes.
        output: path of the labels.
        K: voters.
        classes: C, for votes among more than two answers.
        rows: rows of a block.

    Raises:
        InvalidInput: a file is not what is accepted, or the votes have no rows.
    """
    check_format(output, "output")
    if Path(output).exists() and not _beside(output, "job").exists():
        raise _labelled_already(output)
    with ProgressDisplay("reading votes"):
        count = count_rows(votes, K, rows, classes)
    if count == 0:
        raise InvalidInput("VOTES", votes, "at least one row of votes", "The file is empty.")
    return count


def _labelled_already(output: str) -> InvalidInput:
    return InvalidInput(
        "output",
        output,
        "a file that does not exist yet",
        "Labels that were released stay released: labelling again costs again, so choose another name for it.",
    )


def label_file(
    votes: str,
    output: str,
    release: PrivateMajority | PrivatePlurality,
    log: DurableLog[Any, Any],
    *,
    release_id: str | None,
    rows: int,
    count: int,
) -> LabelResult:
    """Release a label for each row of a file of votes.

    Args:
        votes: path of the votes, see `api.cli.vote_files.blocks`.
        output: path of the labels, a CSV, Parquet or npy file that does not exist yet.
        release: the mechanism, whose budget is ``log``.
        log: what is charged.
        release_id: names the job in the release log; None: a new one, or that of the job that is to go on.
        rows: rows of a block.
        count: rows of ``votes``, by `check_label_files`.

    Raises:
        InvalidInput: a file is not what is accepted, or the output belongs to another job.
        BudgetExceeded: the log has less left than there are rows; the message says which labels there are (`BudgetSpent`: none).
    """
    suffix = check_format(output, "output")
    K, classes = (
        (release.problem.K, None)
        if isinstance(release, PrivateMajority)
        else (release.mechanism.K, release.mechanism.classes)
    )
    with _job(votes, output, log, release_id, rows) as job:
        missing, part = _missing(log, job, count), _beside(output, "part")
        if missing > log.left:
            raise _too_few_left(log, missing, count, part)
        if missing < count:
            say(f"Going on: {count - missing:,} of {count:,} labels were released before.")
        with (
            labels(part, suffix, classes=classes is not None) as file,
            ProgressDisplay("labelling rows", count) as display,
        ):
            for number, block in enumerate(blocks(votes, K, job.rows, classes)):
                try:
                    file.write(release.release_many(block, _block_id(job, number)))
                except BudgetSpent as err:  # somebody else was charged meanwhile
                    file.finish()
                    raise _too_few_left(log, _missing(log, job, count), count, part) from err
                display.update(done=min(count, (number + 1) * job.rows))
        part.replace(os.path.realpath(output))
        flush_folder(part.parent)
    return LabelResult(count, count - missing, job.release_id)


def _too_few_left(log: DurableLog[Any, Any], missing: int, count: int, part: Path) -> BudgetExceeded:
    """Return the error of a log that allows fewer releases than are missing: it says where the labels are that were paid for."""
    if missing == count:
        return BudgetSpent(log.in_words, log.limit, log.spent, missing)
    return BudgetExceeded(
        f"{missing} releases are missing and {log.left} are left: the budget, {log.in_words}, allows {log.limit} in all, and "
        f"others were charged to the same release log. The first {count - missing} of {count} labels are released and stay "
        f"charged: they are in {part}. The others were neither charged nor released."
    )


def _missing(log: DurableLog[Any, Any], job: Job, count: int) -> int:
    """Return how many of a job's rows are not released yet."""
    known = log.ids
    return sum(
        min(job.rows, count - start)
        for number, start in enumerate(range(0, count, job.rows))
        if _block_id(job, number) not in known
    )


def _block_id(job: Job, number: int) -> str:
    return f"{job.release_id}/{number}"


def _beside(output: str, what: str) -> Path:
    path = Path(os.path.realpath(output))
    return path.with_name(f".{path.name}.{what}")


@contextmanager
def _job(votes: str, output: str, log: DurableLog[Any, Any], release_id: str | None, rows: int) -> Iterator[Job]:
    """Begin a job, or go on with the one whose output this is; nobody else may have it at the same time."""
    if release_id is not None and len(checked_id(release_id)) > MAX_JOB_ID:
        raise InvalidInput("release_id", release_id, f"at most {MAX_JOB_ID} characters")
    place = _beside(output, "job")
    going_on = place.exists()
    if Path(output).exists() and not going_on:
        raise _labelled_already(output)
    with place.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput("output", output, "a file that no other job is writing") from None
        state = Path(votes).stat()
        present = Job(
            release_id or secrets.token_hex(16),
            rows,
            str(Path(votes).absolute()),
            state.st_size,
            state.st_mtime_ns,
            str(log.path.absolute()),
        )
        before = _read(file)
        if before is None:
            _write(file, present)  # on the disk before anything is charged under its name
            flush_folder(place.parent)
        job = present if before is None else _same(before, present, place, release_id)
        try:
            yield job
        except BudgetSpent:
            if not any(known.startswith(f"{job.release_id}/") for known in log.ids):
                place.unlink()  # nothing to go on with
            raise
        place.unlink()


def _same(before: Job, present: Job, place: Path, release_id: str | None) -> Job:
    """Return the job that goes on, or refuse if this is not the same one."""
    now = asdict(present) | {"rows": before.rows}
    if release_id is None:
        now["release_id"] = before.release_id
    other = [name for name, value in asdict(before).items() if now[name] != value]
    if other:
        raise InvalidInput(
            "output",
            place.name,
            "the same job as before",
            f"A job that was interrupted differs in {', '.join(other)}. Finish that one, or remove {place} to give it up: "
            "what it released stays charged.",
        )
    return before


def _read(file: IO[str]) -> Job | None:
    """Return the job in a file; None where its writing was cut short, so that nothing was released under its name."""
    file.seek(0)
    try:
        record = json.loads(file.read())
        if "ledger" in record:  # the name before 0.2.0: a job that was begun then can go on
            record["release_log"] = record.pop("ledger")
        return Job(**record)
    except (ValueError, TypeError):
        return None


def _write(file: IO[str], job: Job) -> None:
    file.truncate(0)
    json.dump(asdict(job), file)
    file.flush()
    os.fsync(file.fileno())
