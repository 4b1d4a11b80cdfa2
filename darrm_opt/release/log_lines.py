"""Lines of a release log: the header, and one line per release."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from darrm_opt._version import __version__
from darrm_opt.accounting.calibrate import Quota
from darrm_opt.accounting.propose_test_release import Proposal
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.arguments import whole_number
from darrm_opt.design.report import count_text, text_above
from darrm_opt.errors import BudgetUnreadable, DarrmError, InvalidInput, ReleaseLogDamaged
from darrm_opt.mechanisms import VoteMechanism, mechanism_from_record
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.problem import Privacy
from darrm_opt.release.journal import Record
from darrm_opt.tables.votes import Labels, label_type
from darrm_opt.untrusted import UNREADABLE, check_written, json_value, typed

KIND, FORMAT = "darrm release log", 1
LINE_FIELDS = frozenset({"count", "charged", "labels", "passed", "id", "drawn", "answers"})
PTR_ACCOUNT = "propose-test-release"

MAX_ID = 200  # maximum length of a release id [characters]

COUNT = "a whole number of releases, at least 0"


@dataclass(frozen=True)
class Header:
    """First line of a log: its mechanism and limits."""

    mechanism: VoteMechanism
    budget: Privacy | None
    quota: Quota
    sampling: Sampling | None
    proposal: Proposal | None

    @classmethod
    def of(cls, record: Record, path: Path) -> Header:
        """Return the header of a log's first line, with its mechanism and test proved anew.

        Raises:
            BudgetUnreadable: not a release log of this format, or one with a limit that cannot be proved.
            ReleaseLogDamaged: the header cannot be read.
        """
        if not record:
            raise BudgetUnreadable(f"the release log {path} is empty.")
        if (record.get("kind"), record.get("format")) != (KIND, FORMAT):
            raise BudgetUnreadable(f"{path} is not a release log of format {FORMAT}, the format of this version.")
        try:
            header = cls._read(record, path)
            header.check(record, path)
        except DarrmError:
            raise
        except UNREADABLE as err:
            raise ReleaseLogDamaged(f"the header of the release log {path} cannot be read ({err!r})") from err
        return header

    @classmethod
    def _read(cls, record: Record, path: Path) -> Header:
        mechanism = mechanism_from_record(record["mechanism"])
        sampling = Sampling.from_record(record["sampling"]) if "sampling" in record else None
        limit = whole_number(record["limit"], "limit", COUNT, least=0)
        quota = Quota(limit, typed(str, record["account"], "account"))
        given: Any = record["budget"]
        budget = None if given is None else Privacy(given["epsilon"], given["delta"])
        proposal = None
        if "proposal" in record:  # proved anew, in any version
            if budget is None:
                raise BudgetUnreadable(f"{path} contains a test without a total.")
            proposal = Proposal.from_record(mechanism.batch(limit), budget, record["proposal"])
        return cls(mechanism, budget, quota, sampling, proposal)

    def check(self, record: Record, path: Path) -> None:
        """Reject a first line that differs from what would be written for it, or has an unproved limit."""
        version = typed(str, record["version"], "version")
        # The mechanism was checked when it was read.
        check_written(record, self.record() | {"mechanism": record["mechanism"], "version": version})
        if self.budget is None or self.proposal is not None or version == __version__:
            return
        limit = self.quota.queries
        if not self.mechanism.fits(self.budget, limit, self.sampling):
            raise BudgetUnreadable(
                f"the limit of {limit} releases in {path} was proved by version {version}, and this version, "
                f"{__version__}, cannot prove it: the log is not used."
            )

    def record(self) -> Record:
        """Return the first line of a log."""
        record: Record = {
            "kind": KIND,
            "format": FORMAT,
            "version": __version__,
            "mechanism": self.mechanism.record(),
            "budget": None if self.budget is None else {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "account": self.quota.account,
            "limit": self.quota.queries,
        }
        if self.sampling is not None:
            record["sampling"] = self.sampling.record()
        if self.proposal is not None:
            record["proposal"] = self.proposal.record()
        return record

    @property
    def in_words(self) -> str:
        """The budget in words, its numbers rounded up."""
        if self.budget is None:
            return count_text(self.quota.queries, "release")
        return f"epsilon = {text_above(self.budget.epsilon)}, delta = {text_above(self.budget.delta)} in total"

    @property
    def stored_type(self) -> np.dtype[np.signedinteger] | None:
        """Type of a stored answer; None for a γ, whose answers are never ⊥: a bit each."""
        if isinstance(self.mechanism, NoiseFunctionMechanism):
            return None
        return label_type(self.mechanism.classes).newbyteorder("<")


def other_document(path: Path) -> str | None:
    """Return what a file is, with its article, if it is one JSON object of another kind; None for any other file.

    Every line of a release log begins with a checksum, so that neither a log nor a damaged one is such an object; a log
    of one line without its checksum still names its kind.
    """
    try:
        record = json_value(path.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("kind") == KIND:
        return None
    kind = record.get("kind")
    if isinstance(kind, str):
        return f"of the kind {kind[:60]!r}"
    return "another JSON document" if "gamma" not in record else "a plan" if "queries" in record else "a solution"


class Releases(NamedTuple):
    """State after the lines of a log."""

    header: Record  # the first line
    spent: int  # charged releases; for an incomplete text, including those to come
    labels: int  # those of them that are classes and not ⊥
    # place of the line and count of each release with an id. One dict for all states, which only grows: a line whose
    # reading was interrupted is in it, under the same id, when it is read again
    places: dict[str, tuple[int, int]]
    passed: bool | None = None  # outcome of the test of a batch; None: not drawn, or no test


def replayed(releases: Releases, record: Record, place: int, path: Path) -> Releases:
    """Return the state after one more line, which begins at a place of the file."""
    if not releases.header:
        return releases._replace(header=record)
    holds = f"the release log {path} holds"
    try:
        check_written(record, {}, LINE_FIELDS)
        count, release_id = whole_number(record["count"], "count", COUNT, least=0), record.get("id")
        labels, charged = record.get("labels"), count
        if "sampling" in releases.header:
            charged = whole_number(record["charged"], "charged", COUNT, least=0)
        passed = record.get("passed", releases.passed)
        if passed is not None:
            typed(bool, passed, "passed")
        if release_id is not None:
            checked_id(release_id)
    except (InvalidInput, KeyError) as err:
        raise ReleaseLogDamaged(f"{holds} a line that is not a release ({err!r})") from err
    if type(labels) is not int or not 0 <= labels <= count:
        raise ReleaseLogDamaged(f"{holds} a release that does not count its classes")
    # The place of its line, not its answers: a log of millions of labels is read by place. After an interrupt the same
    # line may be read again.
    if release_id is not None and releases.places.setdefault(release_id, (place, count)) != (place, count):
        raise ReleaseLogDamaged(f"{holds} two releases of one id, {release_id!r}")
    limit, spent = releases.header.get("limit"), releases.spent + charged
    if type(limit) is not int or spent > limit:
        raise ReleaseLogDamaged(f"{holds} {spent} releases, and its limit is {limit!r}")
    return Releases(releases.header, spent, releases.labels + labels, releases.places, passed)


def checked_id(release_id: Any) -> str:
    """Return a release id, or raise `InvalidInput`."""
    if not isinstance(release_id, str) or not 1 <= len(release_id) <= MAX_ID or not release_id.isprintable():
        raise InvalidInput("release_id", release_id, f"1 to {MAX_ID} printable characters")
    return release_id


def encoded(answers: Labels, stored: np.dtype[np.signedinteger] | None) -> str:
    """Return answers as base64 text: each of type ``stored``, or eight bits in a byte."""
    packed = np.packbits(answers.astype(np.uint8)) if stored is None else answers.astype(stored)
    return base64.b64encode(packed.tobytes()).decode("ascii")


def decoded(text: Any, count: int, stored: np.dtype[np.signedinteger] | None) -> Labels:
    """Return the ``count`` answers of an `encoded` text."""
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=stored or np.uint8)
    except (binascii.Error, ValueError, TypeError) as err:
        raise ReleaseLogDamaged("the answers of a release cannot be read") from err
    is_packed = stored is None and packed.size == -(-count // 8)
    answers = np.unpackbits(packed, count=count) if is_packed else packed
    if answers.size != count:
        raise ReleaseLogDamaged(f"a release does not have {count} answers")
    return answers.astype(np.int16 if stored is None else stored.newbyteorder("="))
