"""Labelling job: a file of votes through a `PrivateVote` into a file of labels, resumable after a crash.

Beside the output stands ``.NAME.job`` while the job lasts: the release id, and what it belongs to. Each block of rows
is released under an id of its own, ``<release id>/<block>``, so a job that was killed, asked again, is given the bits
that left already and pays for the others alone. The labels are gathered in ``.NAME.part`` and moved to the output when
all are there.

*Asked labels* are those of queries that have a fresh sample of the records each, drawn here; a command answers them.

For each query the command is sent one line of JSON, ``{"query": 0, "shares": [[12, 7], …]}``: the indices of the
records of each voter. It answers by a line with the K classes that the voters vote for. Where a sample serves T labels,
such as the tokens of a text, it is sent T lines for each query, with the ``labels`` so far. A sample stays in this
process: no file holds it. Before anything is charged the command is asked one question for made-up shares.

Where the command fails, the query has no label: it is spent, the log has a release of no labels under its id, and the
file has `UNANSWERED` in its place. It never has another sample: so a failure chooses none. Asked again, a query has the
labels it had; one whose sample was drawn when a process ended has another sample, which is charged as another query.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from time import monotonic
from typing import IO, Any

import numpy as np

from darrm.cli.files import check_writable, read_text
from darrm.cli.output import ProgressDisplay, answer, as_json, say
from darrm.cli.parameters import number, options_named, typed_sampling
from darrm.cli.release_logs import assumption, budget_fields, open_log, spent_text
from darrm.cli.vote_files import Missing, VoteFile, check_format, labels
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.answers.filed import filed_mechanism
from darrm_opt.arguments import whole_number
from darrm_opt.design.report import count_text
from darrm_opt.durable_file import errors_naming, flush_folder
from darrm_opt.errors import BudgetExceeded, InvalidInput, Rule
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.mechanisms.table import GroupTableMechanism
from darrm_opt.problem import Privacy
from darrm_opt.release import BatchWithheld, BudgetSpent, EnsembleSampler, PrivateVote, ReleaseLog, Sample
from darrm_opt.release.log_lines import checked_id
from darrm_opt.tables.votes import AS_CLASS, EVENLY, Labels, label_type
from darrm_opt.untrusted import json_value

UNANSWERED = -2  # what a file of labels has where the command failed: nobody voted, and nothing was released
MAX_JOB_ID = 150  # most characters of a job's release id: blocks add their number


@dataclass(frozen=True)
class LabelJob:
    """Labelling job on disk: what it is, so that resuming a different one by mistake is refused."""

    release_id: str  # its name in the release log
    rows: int  # rows of a block
    votes: str  # path of the votes
    size: int  # their size [bytes]
    changed: int  # when they were last changed [ns]
    release_log: str  # path of the release log


@dataclass(frozen=True)
class LabelResult:
    """Result of a labelling job."""

    labels: int  # labels in the output
    resumed: int  # labels that an earlier run had released already
    release_id: str  # the job's name in the release log


def votes_of(mechanism: VoteMechanism, path: str, missing: Missing | None) -> VoteFile:
    """Return a file of votes as a mechanism takes them; those of a γ are bits, 0 and 1."""
    classes = None if isinstance(mechanism, NoiseFunctionMechanism) else mechanism.classes
    return VoteFile(path, mechanism.K, classes, missing_for(missing, mechanism))


def check_label_files(votes: VoteFile, output: str, rows: int) -> int:
    """Return the number of rows in a file of votes, all of which was read, before a release log is created."""
    check_format(output, "output")
    if Path(output).exists() and not _hidden_path(output, "job").exists():
        raise _labelled_already(output)
    with ProgressDisplay("reading votes"):
        count = votes.count_rows(rows)
    if count == 0:
        is_empty = Path(votes.path).stat().st_size == 0
        advice = "The file is empty." if is_empty else "It has a header but no rows."
        raise InvalidInput("VOTES", votes.path, "at least one row of votes", advice)
    return count


@contextmanager
def saying_what_is_kept(file: str, *, of_samples: bool = False) -> Iterator[None]:
    """Say where released labels are if the job stops before its end; ``file``: its output, or the log of samples."""
    # What was released stays in the log under the job's name: the same command finds it there.
    try:
        yield
    except KeyboardInterrupt as err:
        kept = _kept_text(file)
        if of_samples:
            released = f"The labels released so far are in {file}; repeat the command to continue."
            kept = released if Path(file).exists() else ""
        raise KeyboardInterrupt(kept) from err
    except OSError:
        say("The same command continues where this stopped; released labels are not charged again.")
        raise


def _kept_text(output: str) -> str:
    """Return where the labels are that a job released before it stopped."""
    part, job = _hidden_path(output, "part"), _hidden_path(output, "job")
    if not job.exists():
        return ""
    kept = f"The labels released so far are in {part.name}" if part.exists() else "Released labels are kept"
    return f"{kept}; repeat the command to continue: they are not charged again."


def _labelled_already(output: str) -> InvalidInput:
    return InvalidInput(
        "output",
        output,
        "a file that does not exist yet",
        "Released labels cannot be withdrawn, and labelling again costs again: choose another output name.",
    )


def label_file(
    votes: VoteFile,
    output: str,
    release: PrivateVote,
    log: ReleaseLog,
    *,
    release_id: str | None,
    rows: int,
    count: int,
) -> LabelResult:
    """Release a label for each row of a file of votes."""
    suffix = check_format(output, "output")
    with _job(votes.path, output, log, release_id, rows) as job:
        unpaid, partial_path = _missing_count(log, job, count), _hidden_path(output, "part")
        if unpaid > log.left and log.passed is not False:  # a batch that did not pass says so itself
            raise _budget_exceeded(log, unpaid, count, partial_path)
        if unpaid < count:
            say(f"Going on: {count - unpaid:,} of {count:,} labels were released before.")
        with labels(partial_path, suffix, votes.classes) as file, ProgressDisplay("labelling rows", count) as display:
            for number, block in enumerate(votes.blocks(job.rows)):
                try:
                    with options_named(mechanism="solution"):
                        file.write(release.release_many(block, _block_id(job, number)))
                except BudgetSpent as err:  # somebody else was charged meanwhile
                    file.finish()
                    raise _budget_exceeded(log, _missing_count(log, job, count), count, partial_path) from err
                except BatchWithheld:
                    partial_path.unlink()
                    raise
                display.update(done=min(count, (number + 1) * job.rows))
        partial_path.replace(os.path.realpath(output))
        flush_folder(partial_path.parent)
    return LabelResult(count, count - unpaid, job.release_id)


def show_labelled(result: LabelResult, log: ReleaseLog, output: str, *, json: bool) -> None:
    """Print how many labels were written, and what they and the budget cost."""
    if json:
        record = log.mechanism.record()
        released = {"labels": result.labels, "resumed": result.resumed, "output": output}
        released |= {"release_id": result.release_id, "release_log": str(log.path)}
        answer(as_json(released | budget_fields(log) | {"problem": record.get("problem", record)}))
        return
    written = count_text(result.labels, "label")
    lines = [f"{written} in {output}. {spent_text(log)}"]
    if log.budget is not None:
        lines += filter(None, [assumption(log)])
    answer("\n".join(lines))


def _budget_exceeded(log: ReleaseLog, missing: int, count: int, partial_path: Path) -> BudgetExceeded:
    """Return the error of a log that allows fewer releases than are missing, with the place of the labels paid for."""
    from darrm_opt.design.report import count_text

    if missing == count:
        return BudgetSpent(log.in_words, log.limit, log.spent, missing)
    left = count_text(log.left, "is", "are") if log.left else "none are"
    return BudgetExceeded(
        f"{count_text(missing, 'release is', 'releases are')} missing and {left} left: "
        f"the budget, {log.in_words}, allows {log.limit:,} in all, and others were charged to the same release log. "
        f"The first {count - missing:,} of {count:,} labels are released and stay charged: they are in {partial_path}. "
        "The others were neither charged nor released."
    )


def _missing_count(log: ReleaseLog, job: LabelJob, count: int) -> int:
    """Return how many of a job's rows are not released yet."""
    ids = log.ids
    return sum(
        min(job.rows, count - start)
        for number, start in enumerate(range(0, count, job.rows))
        if _block_id(job, number) not in ids
    )


def _block_id(job: LabelJob, number: int) -> str:
    return f"{job.release_id}/{number}"


def _hidden_path(output: str, suffix: str) -> Path:
    path = Path(os.path.realpath(output))
    return path.with_name(f".{path.name}.{suffix}")


@contextmanager
def _job(votes: str, output: str, log: ReleaseLog, release_id: str | None, rows: int) -> Iterator[LabelJob]:
    """Begin a job, or go on with the one whose output this is; nobody else may have it at the same time."""
    if release_id is not None and len(checked_id(release_id)) > MAX_JOB_ID:
        raise InvalidInput("release_id", release_id, f"at most {MAX_JOB_ID} characters")
    import fcntl  # a release log was opened, so this is there

    job_path = _hidden_path(output, "job")
    resuming = job_path.exists()
    if Path(output).exists() and not resuming:
        raise _labelled_already(output)
    with job_path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput("output", output, "a file that no other job is writing") from None
        state = Path(votes).stat()
        current = LabelJob(
            release_id or secrets.token_hex(16),
            rows,
            str(Path(votes).absolute()),
            state.st_size,
            state.st_mtime_ns,
            str(log.path.absolute()),
        )
        previous = _read_job(file)
        if previous is None:
            _write_job(file, current)  # on the disk before anything is charged under its name
            flush_folder(job_path.parent)
        job = current if previous is None else _resumed_job(previous, current, job_path, release_id)
        try:
            yield job
        except BudgetSpent:
            if not any(block_id.startswith(f"{job.release_id}/") for block_id in log.ids):
                job_path.unlink()  # nothing to go on with
            raise
        except BatchWithheld:
            job_path.unlink()
            raise
        job_path.unlink()


def _resumed_job(previous: LabelJob, current: LabelJob, job_path: Path, release_id: str | None) -> LabelJob:
    """Return the job that goes on, or refuse if this is not the same one."""
    expected = asdict(current) | {"rows": previous.rows}
    if release_id is None:
        expected["release_id"] = previous.release_id
    differences = [name for name, value in asdict(previous).items() if expected[name] != value]
    if differences and {*differences} <= {"size", "changed"}:
        advice = f"Restore it, or remove {job_path} to abandon that job: its releases stay charged."
        raise InvalidInput("VOTES", current.votes, Rule("has changed since the interrupted job"), advice)
    if differences:
        raise InvalidInput(
            "output",
            job_path.name,
            "the same job as before",
            f"A job that was interrupted differs in {', '.join(differences)}. "
            f"Finish that one, or remove {job_path} to abandon it: its releases stay charged.",
        )
    return previous


def _read_job(file: IO[str]) -> LabelJob | None:
    """Return the job in a file; None where its writing was cut short, so that nothing was released under its name."""
    file.seek(0)
    try:
        return LabelJob(**json.loads(file.read()))
    except (ValueError, TypeError):
        return None


def _write_job(file: IO[str], job: LabelJob) -> None:
    content = memoryview(json.dumps(asdict(job)).encode("ascii"))
    with errors_naming(file.name):
        file.truncate(0)
        while content:  # past the buffer: what it could not write, it would try again when the file is closed
            content = content[os.write(file.fileno(), content) :]
        os.fsync(file.fileno())


def sampled_mechanism(source: str, drawn: dict[str, Any]) -> tuple[VoteMechanism, Sampling, tuple[int, Privacy] | None]:
    """Return the mechanism of a file, how records are drawn, and the queries and total that it was designed for."""
    mechanism, planned, written = filed_mechanism(json_value(read_text(source, "solution")))
    typed = typed_sampling(**drawn)
    if written is not None:
        if typed not in (None, written):
            raise InvalidInput("records", drawn["records"], f"what {source} is for: {written.words}")
        return mechanism, written, planned
    if typed is None:
        raise InvalidInput("records", None, "the number of records")
    return mechanism, typed, None  # a total is that of the samples that it was planned for


class NoAnswer(Exception):
    """The command gave no votes; the text says what came instead, and no vote."""


class Answerer:
    """The command that answers samples, as a process that reads and writes lines."""

    def __init__(self, command: str, K: int, classes: int, missing: Missing | None = None) -> None:
        self._command, self._K, self._classes, self._missing = command, K, classes, missing
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        except (OSError, ValueError, IndexError) as err:
            raise InvalidInput(
                "ask", command, "a command that can be started", f"{getattr(err, 'strerror', None) or err}."
            ) from err

    def votes(self, query: int, sample: Sample, labels: Sequence[int]) -> list[int]:
        """Return the votes for the next label of a query.

        Raises:
            NoAnswer: the command failed, or wrote something else.
        """
        question = {"query": query, "shares": [share.tolist() for share in sample.shares]}
        answer = self._answer(question | ({"labels": list(labels)} if sample.sampling.labels > 1 else {}))
        if self._missing is None:
            return answer
        return list(self._missing.fill([answer], self._classes, query, None)[0].tolist())

    def try_once(self, sampling: Sampling, queries: int = 1) -> None:
        """Ask about made-up shares, which nothing is released of.

        Raises:
            InvalidInput: the command gave no votes.
        """
        texts = [[0] * length for length in range(sampling.labels)] if queries > 1 else [[]]
        try:
            for query, labels in product(range(queries), texts):
                # Records that no chance chose: of the first ones each voter has one.
                shares = [[(voter + query * self._K) % sampling.records] for voter in range(self._K)]
                question = {"query": query, "shares": shares, "trial": True}
                self._answer(question | ({"labels": labels} if sampling.labels > 1 else {}))
        except NoAnswer as err:
            raise self.refusal(f"{err} This was a trial: nothing was charged.") from err

    def refusal(self, advice: str) -> InvalidInput:
        """Return the error of a command that does not answer."""
        example = json.dumps([voter % self._classes for voter in range(min(self._K, 4))])
        listed = example if self._K <= 4 else f"{example[:-1]}, …]"
        accepted = f"a command that answers each line by a line with a JSON list of {self._K} classes "
        return InvalidInput("ask", self._command, f"{accepted}0 to {self._classes - 1}, such as {listed}", advice)

    def _answer(self, question: dict[str, Any]) -> list[Any]:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018 - pipes
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (OSError, ValueError) as err:
            raise NoAnswer("The command ended.") from err
        if not line:
            raise NoAnswer("The command ended, or closed its output.")
        try:
            votes = json.loads(line)
        except (ValueError, RecursionError) as err:
            raise NoAnswer("It wrote a line that is not JSON.") from err
        if not isinstance(votes, list):
            raise NoAnswer("It wrote JSON other than a list.")
        if len(votes) != self._K:
            raise NoAnswer(f"It wrote a list of {len(votes)}.")
        if self._missing is None and None in votes:
            raise NoAnswer("It wrote null, a missing vote: use --missing to say how it counts.")
        if not all(vote is None or (type(vote) is int and 0 <= vote < self._classes) for vote in votes):
            raise NoAnswer("It wrote a list of other values.")
        return votes

    def close(self) -> None:
        """End the command."""
        with suppress(OSError, ValueError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)  # closes its input, at which it ends
            return
        self._process.kill()
        self._process.wait()


@contextmanager
def answering(command: str, mechanism: VoteMechanism, missing: Missing | None) -> Iterator[Answerer]:
    """Run the command that votes on samples."""
    answerer = Answerer(command, mechanism.K, mechanism.classes, missing)
    try:
        yield answerer
    finally:
        answerer.close()


def label_asked(
    answerer: Answerer,
    output: str,
    mechanism: VoteMechanism,
    sampling: Sampling,
    log: ReleaseLog,
    count: int,
    release_id: str | None,
) -> tuple[int, list[int]]:
    """Release ``count`` labels, or as many as are left, into a file; return how many, and the queries without one.

    A job without an id has that of its output's place. Samples that were drawn when a process ended were charged, and
    leave so many fewer; rounds of queries are charged whole.
    """
    suffix, T = check_format(output, "output"), sampling.labels
    # The same command names its releases alike after a crash, and gets the labels that it had been given.
    name = release_id or hashlib.sha256(os.path.realpath(output).encode()).hexdigest()[:32]
    vote, sampler = PrivateVote(mechanism, log), EnsembleSampler(sampling, mechanism.K)
    ids, texts, charged = log.ids, count // T, sampling.among or T
    # Rounds are charged whole: a rest that is shorter than a round is of no use.
    left = log.left // charged * charged // T
    # What was released before is read from the log, and costs nothing.
    texts = min(texts, sum(f"{name}/{query}" in ids for query in range(texts)) + left)
    kind = label_type(mechanism.classes)
    found, unanswered = list[Labels](), list[int]()
    with ProgressDisplay("labelling queries", texts) as display:
        for query in range(texts):
            query_id = f"{name}/{query}"
            stored = log.stored(query_id) if query_id in ids else None
            if stored is not None and not len(stored):
                unanswered.append(query)
                found.append(np.full(T, UNANSWERED, dtype=kind))
                continue
            try:
                with options_named(mechanism="solution"):
                    found.append(vote.release_text(sampler, partial(answerer.votes, query), query_id))
            except NoAnswer as err:
                # Its sample was seen, so that the query is charged and must not be drawn again: no labels, by its name.
                log.charge_and_release(0, lambda _: np.empty(0, dtype=kind), query_id)
                advice = f"{err} Query {query} is spent without a label: the file will have {UNANSWERED} for it."
                raise answerer.refusal(f"{advice} The same command continues with the next one.") from err
            display.update(done=query + 1)
    whole = np.concatenate(found) if found else np.empty(0, dtype=kind)
    # Written beside its place: a file of that name is a whole one.
    part = Path(output).with_name(f".{Path(output).name}.part")
    with labels(part, suffix, mechanism.classes) as file:
        file.write(whole)
    part.replace(output)
    return len(whole), unanswered


TRIALS = 3  # queries of a dry run


def needed_command(ask: str | None) -> str:
    """Return the command that votes on samples; refuse that there is none."""
    if ask is None:
        raise InvalidInput("ask", None, "the command that votes on samples", "A file of votes has no samples.")
    return ask


def label_samples(
    command: str,
    source: str,
    log_file: str,
    labels: str,
    drawn: dict[str, Any],
    budget: tuple[str | None, str | None, str | None],
    release_id: str | None,
    missing: Missing | None,
    *,
    json: bool,
) -> None:
    """Release labels of queries that have a fresh sample of the records each; ``source`` has the mechanism."""
    check_writable(labels, "output")
    check_writable(log_file, "release_log")
    # What is there is the whole of an earlier job: labels are not overwritten.
    if Path(labels).exists():
        raise InvalidInput("output", labels, "a file that does not exist yet")
    mechanism, sampling, planned = sampled_mechanism(source, drawn)
    asked = None if budget[0] is None else whole_number(number(budget[0]), "queries", "a whole number", least=1)
    if asked is not None and asked % sampling.labels:
        raise InvalidInput("queries", asked, f"whole texts of {sampling.labels} labels each")
    with answering(command, mechanism, missing_for(missing, mechanism)) as answerer:
        # a wrong form of answer costs nothing: it is seen before there is a log, and before a sample is drawn.
        with ProgressDisplay("trying the command"):
            answerer.try_once(sampling)
        with ProgressDisplay("proving the budget"):
            # Opened before anything is drawn: a sample is charged before anybody sees it.
            log = open_log(log_file, mechanism, *budget, planned=planned, sampling=sampling)
        # an older log is for its own scheme, whose total does not hold for another.
        if log.sampling != sampling:
            raise InvalidInput("release_log", log_file, f"the release log of {sampling.words}")
        count = log.limit if asked is None else asked
        released, unanswered = label_asked(answerer, labels, mechanism, sampling, log, count, release_id)
    if unanswered:
        say(
            f"The command failed for {count_text(len(unanswered), 'query', 'queries')}, spent and -2 in {labels}: "
            + ", ".join(map(str, unanswered))
        )
    if released < count // sampling.labels * sampling.labels:
        say("The last queries have no label: samples that were drawn when a process ended are spent, rounds whole.")
    fields = {"labels": released, "unanswered": unanswered, "output": labels, "release_log": log_file}
    fields |= budget_fields(log)
    answer(
        as_json(fields | {"sampling": sampling.record()})
        if json
        else f"{count_text(released, 'label')} in {labels}. {spent_text(log)}"
    )


def try_command(command: str, source: str, drawn: dict[str, Any], missing: Missing | None, *, json: bool) -> None:
    """Ask a command about made-up shares and say how it answered."""
    mechanism, sampling, _ = sampled_mechanism(source, drawn)
    started = monotonic()
    voted = missing_for(missing, mechanism)
    with answering(command, mechanism, voted) as answerer, ProgressDisplay("trying the command"):
        answerer.try_once(sampling, TRIALS)
    answered = TRIALS * sampling.labels
    fields = {"answered": answered, "voters": mechanism.K, "classes": mechanism.classes}
    answer(
        as_json(fields | {"seconds": monotonic() - started})
        if json
        else f"The command answered {answered} lines about made-up shares, each by {mechanism.K} classes "
        f"0 to {mechanism.classes - 1}, in {monotonic() - started:.1f} s. Nothing was drawn or charged."
    )


def missing_for(missing: Missing | None, mechanism: VoteMechanism) -> Missing | None:
    """Return the same for a mechanism, or refuse it: missing votes of a group become votes of that group."""
    if missing is None:
        return None
    # Dealt in turn, the votes of private voters would not be independent: proved for one of them alone.
    if missing.how == EVENLY and mechanism.private_voters and mechanism.affected > 1:
        accepted = f"{AS_CLASS}, where a record reaches {mechanism.affected} private voters"
        raise InvalidInput("missing", missing.how, accepted, "Or design for voters that are not private.")
    if isinstance(mechanism, GroupTableMechanism):
        missing = replace(missing, groups=tuple(group.K for group in mechanism.problem.groups))
    missing.check(mechanism.K, mechanism.classes)
    return missing
