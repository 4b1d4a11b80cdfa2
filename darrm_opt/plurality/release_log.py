"""Durable log of plurality releases: the budget of one mechanism on a file, charged once and never free.

What is stored of a mechanism is its record, and of a release how many of its answers are classes and not ⊥; where it
has an id, the answers themselves, two bytes each.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from darrm_opt.mechanism.durable_log import DurableLog
from darrm_opt.mechanism.errors import ReleaseLogDamaged
from darrm_opt.mechanism.journal import Record
from darrm_opt.mechanisms import VoteMechanism, mechanism_from_record
from darrm_opt.problem import Privacy
from darrm_opt.tables.problem import ABSTENTION

Labels = NDArray[np.int16]


class PluralityLog(DurableLog[VoteMechanism, Labels]):
    """How many releases of one mechanism were made, how many there may be, and the classes of those that have an id.

    Args:
        path: a file made by `create`.

    Guarantees:
        However many processes use the file, and however they end, no more releases leave than are charged, no more are
        charged than the budget allows, and releases under one id are charged once. Where the mechanism has a cap, no
        more classes leave than that.

    Raises:
        BudgetUnreadable: no such file, or not a release log of a plurality mechanism in this format.
        ReleaseLogDamaged: its lines are not as they were written.
        NotPrivate: its rule is not private for its problem.
    """

    KIND = "darrm plurality log"
    FORMAT = 2  # 1 did not count the classes among the answers, so that it could keep no cap
    SUBJECT = "plurality mechanism"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        mechanism: VoteMechanism,
        *,
        budget: Privacy | None = None,
        queries: int | None = None,
        first: int = 0,
    ) -> PluralityLog:
        """Create a log for one mechanism, with a total budget or a number of releases.

        Args:
            path: a file that does not exist yet, in a folder that does.
            mechanism: what releases.
            budget: total (ε, δ) of all releases; how many fit is proved by `VoteMechanism.most_releases`.
            queries: or this many releases, whose total cost is then for the caller to know.
            first: how many are about to be released: a log that allows fewer is not created.

        Returns:
            The log, on disk.

        Raises:
            InvalidInput: not exactly one of ``budget`` and ``queries``, a number out of range, or the file exists.
            BudgetSpent: fewer than ``first`` releases fit; there is no file.
            BudgetUnreadable: the file cannot be written.
        """
        return cls._create(
            path,
            {"mechanism": mechanism.record()},
            mechanism.most_releases,
            budget=budget,
            queries=queries,
            first=first,
        )

    @classmethod
    def open_or_create(
        cls,
        path: str | os.PathLike[str],
        mechanism: VoteMechanism,
        *,
        budget: Privacy | None = None,
        queries: int | None = None,
        first: int = 0,
    ) -> PluralityLog:
        """Open the log of one mechanism, or create it if there is no file; several processes may do so at once.

        Args:
            path: the file, in a folder that exists.
            mechanism: as for `create`; an existing log must be for the same mechanism.
            budget: as for `create`; an existing log must have the same. None with ``queries`` None: whichever it has.
            queries: as for `create`; an existing log must allow as many.
            first: as for `create`; an existing log may have fewer left.

        Returns:
            The log, on disk.

        Raises:
            InvalidInput: an existing log is for another mechanism or budget; or `create` refuses an argument,
                ``budget`` and ``queries`` both None among them.
            DarrmError: what `create` and opening a log raise, for the same reasons.
        """
        return cls._open_or_create(
            path,
            mechanism,
            lambda: cls.create(path, mechanism, budget=budget, queries=queries, first=first),
            budget=budget,
            queries=queries,
        )

    @property
    def mechanism(self) -> VoteMechanism:
        """What releases, proved when the log was opened."""
        return self._subject

    @property
    def labels(self) -> int:
        """Classes released so far, by any process: answers that are not ⊥."""
        return self._total("labels")

    def charge_and_release_labels(
        self, count: int, draw: Callable[[int], Labels], release_id: str | None = None
    ) -> Labels:
        """Release ``count`` answers, or return those that were released under this id; as `charge_and_release`.

        Args:
            count: how many answers.
            draw: draws them, given how many classes were released before; called at most once, while nobody else may
                write.
            release_id: as for `charge_and_release`.
        """
        return self._charge_and_release(count, lambda totals: draw(totals.get("labels", 0)), release_id)

    def _read_subject(self, header: Record) -> VoteMechanism:
        return mechanism_from_record(header["mechanism"])

    def _limit_is_proved(self, budget: Privacy) -> bool:
        return self.mechanism.fits(budget, self.limit)

    def _summary_fields(self, answers: Labels) -> dict[str, int]:
        return {**super()._summary_fields(answers), "labels": int(np.count_nonzero(answers != ABSTENTION))}

    def _read_summary(self, record: Record) -> dict[str, int]:
        summary, labels = super()._read_summary(record), record.get("labels")
        if type(labels) is not int or not 0 <= labels <= summary["count"]:
            raise ReleaseLogDamaged(
                f"the release log {self._journal.path} holds a release that does not count its classes"
            )
        return {**summary, "labels": labels}

    def _encode(self, answers: Labels) -> str:
        return base64.b64encode(answers.astype("<i2").tobytes()).decode("ascii")

    def _decode(self, text: str, count: int) -> Labels:
        try:
            labels = np.frombuffer(base64.b64decode(text, validate=True), dtype="<i2")
        except (binascii.Error, ValueError) as err:
            raise ReleaseLogDamaged("the classes of a release cannot be read") from err
        if labels.size != count:
            raise ReleaseLogDamaged(f"a release has {labels.size} classes, not {count}")
        return labels.astype(np.int16)
