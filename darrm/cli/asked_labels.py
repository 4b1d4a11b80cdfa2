"""Labels of queries that have a fresh sample of the records each: the samples are drawn here, a command answers them.

For each query the command is sent one line of JSON, ``{"query": 0, "shares": [[12, 7], …]}``: the indices of the
records of each voter. It answers by a line with the K classes that the voters vote for. Where a sample serves T labels,
such as the tokens of a text, it is sent T lines for each query, with the ``labels`` so far. A sample stays in this
process: no file holds it. Where the command fails, every voter answers 0, which depends on no data, and the label
leaves all the same: so a failure gives nobody another sample. Asked again, a query has the labels it had; one whose
sample was drawn when a process ended has another sample, which is charged as another query.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from darrm.cli.files import json_document, read_text
from darrm.cli.label_job import classes_of_votes
from darrm.cli.output import ProgressDisplay
from darrm.cli.vote_files import check_format, labels
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.base import mechanism_from_record, planned_total
from darrm_opt.problem import Privacy
from darrm_opt.release import EnsembleSampler, PrivateVote, ReleaseLog, Sample
from darrm_opt.tables.votes import Labels, label_type

if TYPE_CHECKING:
    from darrm.cli.parameters import SampleOptions


def sampled_mechanism(source: str, drawn: SampleOptions) -> tuple[VoteMechanism, Sampling, tuple[int, Privacy] | None]:
    """Return the mechanism of a file, how records are drawn, and the queries and total that it was designed for."""
    record = json_document(read_text(source))
    mechanism, typed = mechanism_from_record(record), drawn.as_sampling()
    written = Sampling.from_record(record["sampling"]) if "sampling" in record else typed
    if written is None or typed not in (None, written):
        accepted = "the number of records" if written is None else f"what {source} is for: {written.words}"
        raise InvalidInput("records", drawn.records, accepted)
    planned = planned_total(record)
    return mechanism, written, planned if "sampling" in record else None


class Answerer:
    """The command that answers samples, as a process that reads and writes lines."""

    def __init__(self, command: str, K: int, classes: int) -> None:
        self._command, self._K, self._classes = command, K, classes
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        except (OSError, ValueError, IndexError) as err:
            raise InvalidInput("ask", command, "a command that can be started", str(err)) from err
        self.failed = False

    def votes(self, query: int, sample: Sample, labels: Sequence[int]) -> list[int]:
        """Return the votes for the next label of a query; 0 of each voter where the command fails."""
        try:
            assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018 - pipes
            question = {"query": query, "shares": [share.tolist() for share in sample.shares]}
            text = {"labels": list(labels)} if sample.sampling.labels > 1 else {}
            self._process.stdin.write(json.dumps(question | text) + "\n")
            self._process.stdin.flush()
            votes = json.loads(self._process.stdout.readline())
            whole = isinstance(votes, list) and all(type(vote) is int and 0 <= vote < self._classes for vote in votes)
            if whole and len(votes) == self._K:
                return list(votes)
        except (OSError, ValueError):
            pass
        self.failed = True
        return [0] * self._K

    def close(self) -> None:
        """End the command."""
        with suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)  # closes its input, at which it ends
            return
        self._process.kill()
        self._process.wait()


def label_asked(
    command: str,
    output: str,
    mechanism: VoteMechanism,
    sampling: Sampling,
    log: ReleaseLog,
    count: int,
    release_id: str | None,
) -> int:
    """Release ``count`` labels, or as many as are left, into a file; return how many.

    A job without an id has that of its output's place. Samples that were drawn when a process ended were charged, and
    leave so many fewer; rounds of queries are charged whole.
    """
    suffix, classes = check_format(output, "output"), classes_of_votes(mechanism)
    # The same command names its releases alike after a crash, and gets the labels that it had been given.
    name = release_id or hashlib.sha256(os.path.realpath(output).encode()).hexdigest()[:32]
    vote, sampler = PrivateVote(mechanism, log), EnsembleSampler(sampling, mechanism.K)
    ids, texts, charged = log.ids, count // sampling.labels, sampling.among or sampling.labels
    # Rounds are charged whole: a rest that is shorter than a round is of no use.
    left = log.left // charged * charged // sampling.labels
    # What was released before is read from the log, and costs nothing.
    texts = min(texts, sum(f"{name}/{query}" in ids for query in range(texts)) + left)
    answerer, found = Answerer(command, mechanism.K, mechanism.classes), list[Labels]()
    try:
        with ProgressDisplay("labelling queries", texts) as display:
            for query in range(texts):
                found.append(vote.release_text(sampler, partial(answerer.votes, query), f"{name}/{query}"))
                # After its release: the sample was seen, so that the query is charged and must not be drawn again.
                if answerer.failed:
                    accepted = f"a command that answers each line by {mechanism.K} classes 0..{mechanism.classes - 1}"
                    raise InvalidInput("ask", command, accepted, f"It failed at query {query}, which is charged.")
                display.update(done=query + 1)
    finally:
        answerer.close()
    whole = np.concatenate(found) if found else np.empty(0, dtype=label_type(mechanism.classes))
    # Written beside its place: a file of that name is a whole one.
    part = Path(output).with_name(f".{Path(output).name}.part")
    with labels(part, suffix, classes) as file:
        file.write(whole)
    part.replace(output)
    return len(whole)
