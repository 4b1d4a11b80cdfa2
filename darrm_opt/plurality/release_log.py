"""Durable log of plurality releases: the budget of one mechanism on a file, charged once and never free.

The file, its protocol and its promises are those of `darrm_opt.mechanism.release_log.ReleaseLog`; what is stored of a
mechanism is its record, and of a release how many of its answers are classes and not ⊥; where it has an id, the answers
themselves, two bytes each.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from darrm_opt._version import __version__
from darrm_opt.accounting.errors import BudgetUnreadable
from darrm_opt.budgeting.quota import Quota
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanism.errors import ReleaseLogDamaged
from darrm_opt.mechanism.release_log import ReleaseLog, create_log
from darrm_opt.plurality.problem import ABSTENTION
from darrm_opt.plurality.vote_mechanisms import VoteMechanism, mechanism_from_record
from darrm_opt.problem import Privacy, whole_number

Labels = NDArray[np.int16]

FORMAT = 2
"""Version of the file; 1 did not count the classes among the answers, so that it could keep no cap."""

KIND = "darrm plurality log"
"""What the first line says it is."""

_COUNT = "a whole number of releases, at least 0"


class PluralityLog(ReleaseLog):
    """How many releases of one mechanism were made, how many there may be, and the classes of those that have an id.

    Args:
        path: a file made by `begin`.

    Guarantees:
        As `ReleaseLog`: however many processes use the file, and however they end, no more releases leave than are
        charged, no more are charged than the budget allows, and releases under one id are charged once. Where the mechanism has
        a cap, no more classes leave than that.

    Raises:
        BudgetUnreadable: no such file, or not a log of this format.
        ReleaseLogDamaged: its lines are not as they were written.
        NotPrivate: its rule is not private for its problem.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._labels = 0
        super().__init__(path)

    @classmethod
    def begin(
        cls,
        path: str | os.PathLike[str],
        mechanism: VoteMechanism,
        *,
        budget: Privacy | None = None,
        queries: int | None = None,
        first: int = 0,
    ) -> PluralityLog:
        """Begin a log for one mechanism, with a total budget or a number of releases.

        Args:
            path: a file that does not exist yet, in a folder that does.
            mechanism: what releases.
            budget: total (ε, δ) of all releases; how many fit is proved by `VoteMechanism.most_releases`.
            queries: or this many releases, whose total cost is then for the caller to know.
            first: how many are about to be released: a log that allows fewer is not begun.

        Returns:
            The log, on disk.

        Raises:
            InvalidInput: not exactly one of ``budget`` and ``queries``, a number out of range, or the file exists.
            BudgetSpent: fewer than ``first`` releases fit; there is no file.
            BudgetUnreadable: the file cannot be written.
        """
        if (budget is None) == (queries is None):
            raise InvalidInput("budget", budget, "exactly one of budget and queries")
        if budget is None:
            limit, account = whole_number(queries, "queries", _COUNT, least=0), "queries"
        else:
            limit, account = mechanism.most_releases(budget)
        header = {
            "kind": KIND,
            "format": FORMAT,
            "version": __version__,
            "mechanism": mechanism.record(),
            "budget": None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta},
            "account": account,
            "limit": limit,
        }
        create_log(path, header, budget, first)
        return cls(path)

    @property
    def mechanism(self) -> VoteMechanism:
        """What releases, proved when the log was opened."""
        return self._mechanism

    @property
    def labels(self) -> int:
        """Classes released so far, by any process: answers that are not ⊥."""
        with self._journal.locked():
            return self._labels

    def once_labels(self, count: int, draw: Callable[[int], Labels], release_id: str | None = None) -> Labels:
        """Release ``count`` answers, or return those that were released under this id; as `ReleaseLog.charge_and_release`.

        Args:
            count: how many answers.
            draw: draws them, given how many classes were released before; called at most once, while nobody else may write.
            release_id: as for `ReleaseLog.charge_and_release`.
        """
        return cast("Labels", self.charge_and_release(count, cast("Any", lambda: draw(self._labels)), release_id))

    def _counted(self, bits: Any) -> dict[str, Any]:
        return {"labels": int(np.count_nonzero(bits != ABSTENTION))}

    def _seen(self, record: dict[str, Any], place: int) -> None:
        first = not self._header
        super()._seen(record, place)
        if first:
            return
        labels = record.get("labels")
        if type(labels) is not int or not 0 <= labels <= record["count"]:
            raise ReleaseLogDamaged(f"the log {self._journal.path} holds a release that does not count its classes")
        self._labels += labels

    def _written(self, bits: Any) -> str:
        return base64.b64encode(bits.astype("<i2").tobytes()).decode("ascii")

    def _stored(self, text: str, count: int) -> Any:
        try:
            labels = np.frombuffer(base64.b64decode(text, validate=True), dtype="<i2")
        except (binascii.Error, ValueError) as err:
            raise ReleaseLogDamaged("the classes of a release cannot be read") from err
        if labels.size != count:
            raise ReleaseLogDamaged(f"a release has {labels.size} classes, not {count}")
        return labels.astype(np.int16)

    def _read_header(self) -> None:
        header = self._header
        if header.get("kind") != KIND or header.get("format") != FORMAT:
            raise BudgetUnreadable(
                f"{self.path} is not a plurality log of format {FORMAT}, the one that this version reads and writes."
            )
        self._mechanism, self._fresh = mechanism_from_record(header["mechanism"]), False
        self._quota = Quota(whole_number(header["limit"], "limit", _COUNT, least=0), header["account"])
        budget: Any = header["budget"]
        self._budget = None if budget is None else Privacy(budget["epsilon"], budget["delta"])
        if self._budget is not None and header["version"] != __version__:
            again, _ = self._mechanism.most_releases(self._budget)
            if again < self.limit:
                raise BudgetUnreadable(
                    f"the limit of {self.limit} releases in {self.path} was proved by version {header['version']}, and this "
                    f"version, {__version__}, cannot prove it: refusing to go on."
                )
