"""Durable log: the releases of one mechanism on a file, where a release is charged once and never free.

A release is one line, written before its answers leave: how many, its id, and the answers themselves. So there is no
moment at which something is released and not charged, or charged and lost: a job that was killed asks again under the
same id and is given the answers that are there, or draws them now if its line never came to be.

What is stored is public already, once released: the mechanism, the budget, counts, ids, answers. Never votes, nor
anything computed from them but the answers.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from numpy.typing import NDArray

from darrm_opt._version import __version__
from darrm_opt.accounting.cost import Quota
from darrm_opt.accounting.errors import BudgetUnreadable
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.mechanism.errors import BudgetSpent, ReleaseIdTaken, ReleaseLogDamaged
from darrm_opt.mechanism.journal import Journal, LockedJournal, Record, create
from darrm_opt.problem import Privacy, whole_number

Subject = TypeVar("Subject")
"""What a log is for: a γ with its problem, or a plurality mechanism."""

Answers = TypeVar("Answers", bound=NDArray[Any])
"""Released answers, shape (count,)."""

MAX_ID = 200
"""Most characters of a release id."""

_COUNT = "a whole number of releases, at least 0"


class _Releases(NamedTuple):
    """What the lines of a log come to.

    Attributes:
        header: the first line.
        totals: each summary field, added up over all releases.
        places: place of the line and count of each release that has an id. One dict for all states, which only grows:
            a line whose reading was interrupted is in it, under the same id, when it is read again.
    """

    header: Record
    totals: dict[str, int]
    places: dict[str, tuple[int, int]]


class DurableLog(ABC, Generic[Subject, Answers]):
    """Durable log of releases: how many were made, how many are allowed, and the answers of those that have an id.

    A subclass says what its log is for (`SUBJECT`, `_read_subject`, `_limit_is_proved`) and how answers are stored
    (`_encode`, `_decode`; `_summary_fields`, `_read_summary`).

    Args:
        path: a file made by ``create``.

    Guarantees:
        However many processes use the file, and however they end, no more releases leave than are charged, no more are
        charged than the budget allows, and releases under one id are charged once.

    Raises:
        BudgetUnreadable: no such file, or not a release log of this kind and format.
        ReleaseLogDamaged: its lines are not as they were written.
        NotPrivate: what it is for is not private.
    """

    KIND: ClassVar[str]
    """Kind of file, in its first line; the same in every version."""

    FORMAT: ClassVar[int]
    """Version of the file."""

    SUBJECT: ClassVar[str]
    """What it is for, in words."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._journal = Journal(path, _Releases({}, {}, {}), self._replay)
        header = self._journal.locked(lambda file: file.state.header)
        if not header:
            raise BudgetUnreadable(f"the release log {path} is empty.")
        try:
            self._read_header(header)
        except DarrmError:
            raise
        except (ValueError, KeyError, TypeError, ArithmeticError) as err:
            raise ReleaseLogDamaged(f"the release log {path} does not say what it is for ({err!r})") from err

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._journal.path

    @property
    def budget(self) -> Privacy | None:
        """Total (ε, δ), or None where only a number of releases was fixed."""
        return self._budget

    @property
    def fresh(self) -> bool:
        """Whether its limit supposes that voters are fresh (`accounting.freshness.FRESH`)."""
        return False

    @property
    def limit(self) -> int:
        """Releases that it allows in all."""
        return self._quota.queries

    @property
    def account(self) -> str:
        """What proves the limit, see `Quota`; "queries" if it was given."""
        return self._quota.account

    @property
    def spent(self) -> int:
        """Releases charged so far, by any process."""
        return self._total("count")

    @property
    def left(self) -> int:
        """Releases that are left."""
        return self.limit - self.spent

    @property
    def ids(self) -> frozenset[str]:
        """The ids under which something was released."""
        return self._journal.locked(lambda file: frozenset(file.state.places))

    @property
    def in_words(self) -> str:
        """The budget, in words."""
        return _in_words(self._budget, self.limit)

    def stored(self, release_id: str) -> Answers | None:
        """Return the answers released under an id, or None if there are none; costs nothing.

        Raises:
            InvalidInput: not an id.
        """
        release_id = checked_id(release_id)
        return self._journal.locked(lambda file: self._answers(file, release_id))

    def charge_and_release(self, count: int, draw: Callable[[], Answers], release_id: str | None = None) -> Answers:
        """Release ``count`` answers, or return those that were released under this id.

        Args:
            count: how many answers.
            draw: draws them; called at most once, while nobody else may write.
            release_id: names the release, so that it can be asked for again; None: it cannot, and is charged each time.

        Returns:
            The answers, shape (count,). They are on the disk, and charged, before they are returned.

        Raises:
            BudgetSpent: fewer are left; nothing was charged.
            BudgetExceeded: this is a child that was forked inside ``draw``; its parent is charged and gets the answers.
            ReleaseIdTaken: the id named a release of another size.
            InvalidInput: not a count or not an id.
            ReleaseLogDamaged: the file is not as it was written; nothing was released.
            OSError: the file cannot be written, by its name. Nothing was released, and it may be charged: asked again
                under the same id, it is charged once.
        """
        return self._charge_and_release(count, lambda _: draw(), release_id)

    def _charge_and_release(
        self, count: int, draw: Callable[[dict[str, int]], Answers], release_id: str | None
    ) -> Answers:
        """Do as `charge_and_release` with a draw that is given the totals of the releases so far."""
        count = whole_number(count, "count", _COUNT, least=0)
        if release_id is not None:
            release_id = checked_id(release_id)
        return self._journal.locked(lambda file: self._charge_and_release_alone(file, count, draw, release_id))

    def _charge_and_release_alone(
        self,
        file: LockedJournal[_Releases],
        count: int,
        draw: Callable[[dict[str, int]], Answers],
        release_id: str | None,
    ) -> Answers:
        stored = None if release_id is None else self._answers(file, release_id)
        if stored is not None:
            if len(stored) != count:
                raise ReleaseIdTaken(
                    f"the release id {release_id!r} was used for {len(stored)} releases, not {count}: choose "
                    "another id. Nothing was charged and nothing was released."
                )
            return stored
        spent = file.state.totals.get("count", 0)
        if count > self.limit - spent:
            raise BudgetSpent(self.in_words, self.limit, spent, count)
        answers = draw(file.state.totals)
        if answers.shape != (count,):
            raise InvalidInput("draw", answers.shape, f"a draw of shape ({count},)")
        named_fields = {} if release_id is None else {"id": release_id, "bits": self._encode(answers)}
        file.append({**self._summary_fields(answers), **named_fields})
        return answers

    def check_is_for(self, subject: Subject, argument: str = "release_log") -> None:
        """Refuse to release anything else than what this log is for.

        Args:
            subject: what is about to be released.
            argument: name of the argument that gave this log.

        Raises:
            InvalidInput: the log is for something else.
        """
        if subject != self._subject:
            raise InvalidInput(
                argument,
                str(self.path),
                f"the release log of this {self.SUBJECT}",
                "The limit of a release log is proved for one mechanism: give another one a log and a part of the "
                "total of its own.",
            )

    @classmethod
    def _create(
        cls,
        path: str | os.PathLike[str],
        subject: Record,
        prove: Callable[[Privacy], Quota],
        *,
        budget: Privacy | None,
        queries: int | None,
        first: int,
    ) -> Self:
        """Create a log, durably.

        Args:
            path: a file that does not exist yet, in a folder that does.
            subject: fields of the first line that say what the log is for.
            prove: returns how many releases fit in a total (ε, δ).
            budget: total (ε, δ) of all releases.
            queries: or this many releases.
            first: how many are about to be released.

        Raises:
            InvalidInput: not exactly one of ``budget`` and ``queries``, a number out of range, or the file exists.
            BudgetSpent: fewer than ``first`` are allowed; there is no file.
            BudgetUnreadable: the file cannot be written.
        """
        if (budget is None) == (queries is None):
            raise InvalidInput("budget", budget, "exactly one of budget and queries")
        quota = Quota(whole_number(queries, "queries", _COUNT, least=0), "queries") if budget is None else prove(budget)
        if whole_number(first, "first", _COUNT, least=0) > quota.queries:
            raise BudgetSpent(_in_words(budget, quota.queries), quota.queries, 0, first)
        header = {
            "kind": cls.KIND,
            "format": cls.FORMAT,
            "version": __version__,
            **subject,
            "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
            "account": quota.account,
            "limit": quota.queries,
        }
        try:
            create(path, header)
        except FileExistsError as err:
            raise InvalidInput("release_log", str(path), "a file that does not exist yet", "Open it instead.") from err
        except OSError as err:
            raise BudgetUnreadable(f"the release log {path} cannot be written: {err.strerror}") from err
        return cls(path)

    @classmethod
    def _open_or_create(
        cls,
        path: str | os.PathLike[str],
        subject: Subject,
        creation: Callable[[], Self],
        *,
        budget: Privacy | None,
        queries: int | None,
    ) -> Self:
        """Open a log, or create it if there is none; refuse an existing one of another subject or budget."""
        if not Path(path).exists():
            try:
                return creation()
            except InvalidInput as err:
                if not isinstance(err.__cause__, FileExistsError):  # else another process has just created it
                    raise
        log = cls(path)
        log.check_is_for(subject)
        accepted, advice = f"the budget of {path}: {log.in_words}", "Give that one, or name another file."
        if budget is not None and log.budget != budget:
            raise InvalidInput("budget", budget, accepted, advice)
        if queries is not None and (log.budget is not None or log.limit != queries):
            raise InvalidInput("queries", queries, accepted, advice)
        return log

    @abstractmethod
    def _read_subject(self, header: Record) -> Subject:
        """Return what a log with this first line is for, proved private."""

    @abstractmethod
    def _limit_is_proved(self, budget: Privacy) -> bool:
        """Return whether this version proves that as many releases as the limit are within ``budget``."""

    @abstractmethod
    def _encode(self, answers: Answers) -> str:
        """Return released answers as text."""

    @abstractmethod
    def _decode(self, text: str, count: int) -> Answers:
        """Return the ``count`` released answers of a text.

        Raises:
            ReleaseLogDamaged: the text does not hold them.
        """

    def _summary_fields(self, answers: Answers) -> dict[str, int]:
        """Return the counts that are written of every release, with an id or without, and added up."""
        return {"count": len(answers)}

    def _read_summary(self, record: Record) -> dict[str, int]:
        """Return the summary fields of a release that is in the file.

        Raises:
            InvalidInput: a field is out of range.
            KeyError: a field is missing.
            ReleaseLogDamaged: the fields do not belong together.
        """
        return {"count": whole_number(record["count"], "count", _COUNT, least=0)}

    def _replay(self, releases: _Releases, record: Record, place: int) -> _Releases:
        if not releases.header:
            return _Releases(record, releases.totals, releases.places)
        try:
            summary, release_id = self._read_summary(record), record.get("id")
        except (InvalidInput, KeyError, AttributeError) as err:
            raise ReleaseLogDamaged(
                f"the release log {self._journal.path} holds a line that is no release ({err!r})"
            ) from err
        if release_id is not None:
            releases.places[release_id] = (place, summary["count"])
        totals = {field: releases.totals.get(field, 0) + number for field, number in summary.items()}
        return _Releases(releases.header, totals, releases.places)

    def _total(self, field: str) -> int:
        """Return a summary field, added up over all releases so far, by any process."""
        return self._journal.locked(lambda file: file.state.totals.get(field, 0))

    def _answers(self, file: LockedJournal[_Releases], release_id: str) -> Answers | None:
        if release_id not in file.state.places:
            return None
        place, count = file.state.places[release_id]
        return self._decode(file.at(place)["bits"], count)

    def _read_header(self, header: Record) -> None:
        if header.get("kind") != self.KIND or header.get("format") != self.FORMAT:
            raise BudgetUnreadable(
                f"{self.path} is not a release log of format {self.FORMAT} for one {self.SUBJECT}, which this version "
                "reads and writes."
            )
        self._subject = self._read_subject(header)
        self._quota = Quota(whole_number(header["limit"], "limit", _COUNT, least=0), header["account"])
        budget: Any = header["budget"]
        self._budget = None if budget is None else Privacy(budget["epsilon"], budget["delta"])
        if self._budget is not None and header["version"] != __version__ and not self._limit_is_proved(self._budget):
            raise BudgetUnreadable(
                f"the limit of {self.limit} releases in {self.path} was proved by version {header['version']}, and "
                f"this version, {__version__}, cannot prove it: refusing to go on."
            )


def checked_id(release_id: Any) -> str:
    """Return a release id, or raise `InvalidInput`."""
    accepted = f"1 to {MAX_ID} printable characters"
    if not isinstance(release_id, str) or not 1 <= len(release_id) <= MAX_ID or not release_id.isprintable():
        raise InvalidInput("release_id", release_id, accepted)
    return release_id


def _in_words(budget: Privacy | None, limit: int) -> str:
    if budget is None:
        return f"{limit} releases"
    return f"epsilon = {budget.epsilon!r}, delta = {budget.delta!r} in total"
