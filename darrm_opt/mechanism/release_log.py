"""Release log: the budget of one γ on a file, where a release is charged once and never free.

A release is one line, written before its bits leave: how many, its id, and the bits themselves. So there is no moment at
which something is released and not charged, or charged and lost: a job that was killed asks again under the same id and is
given the bits that are there, or draws them now if its line never came to be.

What is stored is public already, once released: γ, the problem, the budget, counts, ids, bits. Never votes, nor anything
computed from them but the bits.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt._version import __version__
from darrm_opt.accounting import Release
from darrm_opt.accounting.errors import BudgetUnreadable
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.accounting.release_profile import Released
from darrm_opt.budgeting.quota import Quota, is_proved, most_releases
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.mechanism.errors import BudgetSpent, ReleaseIdTaken, ReleaseLogDamaged
from darrm_opt.mechanism.journal import Journal, Open, Record, create
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.record import problem_from_record, problem_record

Bits = NDArray[np.uint8]

FORMAT = 2
"""Version of the file; 1 did not say whether voters are fresh."""

KIND = "darrm release ledger"
"""What the first line says it is."""

MAX_ID = 200
"""Most characters of a release id."""

_COUNT = "a whole number of releases, at least 0"


class ReleaseLog:
    """Log of the releases of one γ: how many were made, how many are allowed, and the bits of those that have an id.

    Args:
        path: a file made by `create`.

    Guarantees:
        However many processes use the file, and however they end, no more releases leave than are charged, no more are
        charged than the budget allows, and releases under one id are charged once.

    Raises:
        BudgetUnreadable: no such file, or not a ledger of this format.
        ReleaseLogDamaged: its lines are not as they were written.
        NotPrivate: its γ is not private for its problem.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._header: Record = {}
        self._spent = 0
        self._places: dict[str, tuple[int, int]] = {}  # id: (place of its line, count)
        self._journal = Journal(path, self._seen)
        with self._journal.locked():
            if not self._header:
                raise BudgetUnreadable(f"the ledger {path} is empty.")
        try:
            self._read_header()
        except DarrmError:
            raise
        except (ValueError, KeyError, TypeError, ArithmeticError) as err:
            raise ReleaseLogDamaged(f"the ledger {path} does not say what it is for: {err!r}") from err

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        released: Released | Release,
        *,
        budget: Privacy | None = None,
        queries: int | None = None,
        fresh: bool = False,
        first: int = 0,
    ) -> ReleaseLog:
        """Begin a ledger for one γ, with a total budget or a number of releases.

        Args:
            path: a file that does not exist yet, in a folder that does.
            released: a `Solution`, or a pair (gamma, problem); proved private first.
            budget: total (ε, δ) of all releases; how many fit is proved by the tightest account, see `most_releases`.
            queries: or this many releases, whose total cost is then for the caller to know.
            fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
                False where the voters were trained once, and (ε, Δ) is the privacy of the whole voter
                (`accounting.freshness.FRESH`). Such a ledger is for the releases of one training: other models, another ledger.
            first: how many are about to be released: a ledger that allows fewer is not begun.

        Returns:
            The ledger, on disk.

        Raises:
            InvalidInput: not exactly one of ``budget`` and ``queries``, a number out of range, or the file exists.
            NotPrivate: the γ is not private for its problem.
            BudgetSpent: fewer than ``first`` releases fit; there is no file.
            BudgetUnreadable: the file cannot be written.
        """
        if (budget is None) == (queries is None):
            raise InvalidInput("budget", budget, "exactly one of budget and queries")
        release, fresh = Release.of(released), check_fresh(fresh)
        if budget is None:
            quota = Quota(whole_number(queries, "queries", _COUNT, least=0), "queries")
        else:
            quota = most_releases(release, budget, fresh=fresh)
        header = {
            "kind": KIND,
            "format": FORMAT,
            "version": __version__,
            "problem": problem_record(release.problem),
            "gamma": release.noise.values.tolist(),
            "fresh": fresh,
            "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
            "account": quota.account,
            "limit": quota.queries,
        }
        create_log(path, header, budget, first)
        return cls(path)

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._journal.path

    @property
    def release(self) -> Release:
        """The γ that it is for, and the problem for which it is private."""
        return self._release

    @property
    def budget(self) -> Privacy | None:
        """Total (ε, δ), or None where only a number of releases was fixed."""
        return self._budget

    @property
    def fresh(self) -> bool:
        """Whether its limit supposes that voters are fresh; False: that they were trained once."""
        return self._fresh

    @property
    def limit(self) -> int:
        """Releases that it allows in all."""
        return self._quota.queries

    @property
    def account(self) -> str:
        """What proves the limit: "optimal", "bits" or "models", see `most_releases`; "queries" if it was given."""
        return self._quota.account

    @property
    def spent(self) -> int:
        """Releases charged so far, by any process."""
        with self._journal.locked():
            return self._spent

    @property
    def left(self) -> int:
        """Releases that are left."""
        return self.limit - self.spent

    @property
    def ids(self) -> frozenset[str]:
        """The ids under which something was released."""
        with self._journal.locked():
            return frozenset(self._places)

    def stored(self, release_id: str) -> Bits | None:
        """Return the bits released under an id, or None if there are none; costs nothing.

        Raises:
            InvalidInput: not an id.
        """
        release_id = checked_id(release_id)
        with self._journal.locked() as file:
            return self._bits(file, release_id)

    def charge_and_release(self, count: int, draw: Callable[[], Bits], release_id: str | None = None) -> Bits:
        """Release ``count`` bits, or return those that were released under this id.

        Args:
            count: how many bits.
            draw: draws them; called at most once, while nobody else may write.
            release_id: names the release, so that it can be asked for again; None: it cannot, and is charged each time.

        Returns:
            The bits, shape (count,). They are on the disk, and charged, before they are returned.

        Raises:
            BudgetSpent: fewer are left; nothing was charged.
            ReleaseIdTaken: the id named a release of another size.
            InvalidInput: not a count or not an id.
            ReleaseLogDamaged: the file is not as it was written; nothing was released.
        """
        count = whole_number(count, "count", _COUNT, least=0)
        if release_id is not None:
            release_id = checked_id(release_id)
        with self._journal.locked() as file:
            if release_id in self._places:
                before = self._places[release_id][1]
                if before != count:
                    raise ReleaseIdTaken(
                        f"the release id {release_id!r} was used for {before} releases, not {count}: choose another id. "
                        "Nothing was charged and nothing was released."
                    )
                return self._bits(file, release_id)  # type: ignore[return-value]  # it is there
            if count > self.limit - self._spent:
                raise BudgetSpent(self.in_words, self.limit, self._spent, count)
            bits = draw()
            if bits.shape != (count,):
                raise InvalidInput("draw", bits.shape, f"a draw of shape ({count},)")
            named = {} if release_id is None else {"id": release_id, "bits": self._written(bits)}
            file.append({"count": count, **self._counted(bits), **named})
            return bits

    @property
    def in_words(self) -> str:
        """The budget, in words."""
        return _in_words(self._budget, self.limit)

    def _bits(self, file: Open, release_id: str | None) -> Bits | None:
        if release_id is None or release_id not in self._places:
            return None
        place, count = self._places[release_id]
        return self._stored(file.at(place)["bits"], count)

    def _counted(self, bits: Bits) -> Record:  # noqa: ARG002 — of bits nothing more is counted than how many there are
        """Return what is written of every release beside its count."""
        return {}

    def _written(self, bits: Bits) -> str:
        """Return released bits as text."""
        return _written(bits)

    def _stored(self, text: str, count: int) -> Bits:
        """Return the released bits of a text."""
        return _read(text, count)

    def _seen(self, record: Record, place: int) -> None:
        if not self._header:
            self._header = record
            return
        try:
            count, release_id = whole_number(record["count"], "count", _COUNT, least=0), record.get("id")
        except (InvalidInput, KeyError, AttributeError) as err:
            raise ReleaseLogDamaged(
                f"the ledger {self._journal.path} holds a line that is no release: {err!r}"
            ) from err
        self._spent += count
        if release_id is not None:
            self._places[release_id] = (place, count)

    def _read_header(self) -> None:
        header = self._header
        if header.get("kind") == KIND and header.get("format") == 1:
            raise BudgetUnreadable(
                f"{self.path} is a release ledger of format 1, which does not say whether voters are fresh: its limit may allow "
                "too many releases of voters that were trained once. Begin another, with what is left of the total."
            )
        if header.get("kind") != KIND or header.get("format") != FORMAT:
            raise BudgetUnreadable(
                f"{self.path} is not a release ledger of format {FORMAT}, the one that this version reads and writes."
            )
        problem = problem_from_record(header["problem"])
        noise = NoiseFunction(header["gamma"], problem.K)
        self._release, self._fresh = Release(noise, problem), check_fresh(header["fresh"])
        self._quota = Quota(whole_number(header["limit"], "limit", _COUNT, least=0), header["account"])
        budget: Any = header["budget"]
        self._budget = None if budget is None else Privacy(budget["epsilon"], budget["delta"])
        if (
            self._budget is not None
            and header["version"] != __version__
            and not is_proved(self._release, self._quota, self._budget, fresh=self._fresh)
        ):
            raise BudgetUnreadable(
                f"the limit of {self.limit} releases in {self.path} was proved by version {header['version']}, and this "
                f"version, {__version__}, cannot prove it: refusing to go on."
            )


def checked_id(release_id: Any) -> str:
    """Return a release id, or raise `InvalidInput`."""
    accepted = f"1 to {MAX_ID} printable characters"
    if not isinstance(release_id, str) or not 1 <= len(release_id) <= MAX_ID or not release_id.isprintable():
        raise InvalidInput("release_id", release_id, accepted)
    return release_id


def _written(bits: Bits) -> str:
    return base64.b64encode(np.packbits(bits).tobytes()).decode("ascii")


def _read(text: str, count: int) -> Bits:
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except (binascii.Error, ValueError) as err:
        raise ReleaseLogDamaged("the bits of a release cannot be read") from err
    return np.unpackbits(packed, count=count)


def _in_words(budget: Privacy | None, limit: int) -> str:
    if budget is None:
        return f"{limit} releases"
    return f"epsilon = {budget.epsilon!r}, delta = {budget.delta!r} in total"


def create_log(path: str | os.PathLike[str], header: dict[str, Any], budget: Privacy | None, first: int) -> None:
    """Create a log, durably.

    Args:
        path: a file that does not exist yet.
        header: its first line, which says its ``limit``.
        budget: total (ε, δ), or None where only a number of releases was fixed.
        first: how many are about to be released.

    Raises:
        BudgetSpent: fewer are allowed; there is no file.
        InvalidInput: the file exists.
        BudgetUnreadable: it cannot be written.
    """
    if whole_number(first, "first", _COUNT, least=0) > header["limit"]:
        raise BudgetSpent(_in_words(budget, header["limit"]), header["limit"], 0, first)
    try:
        create(path, header)
    except FileExistsError as err:
        raise InvalidInput("ledger", str(path), "a file that does not exist yet", "Open it instead.") from err
    except OSError as err:
        raise BudgetUnreadable(f"the log {path} cannot be written: {err.strerror}") from err
