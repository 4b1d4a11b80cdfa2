"""Release log: the durable log of one γ, its budget and the bits that were released."""

from __future__ import annotations

import base64
import binascii
import os

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting import Release
from darrm_opt.accounting.errors import BudgetUnreadable
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.accounting.release_profile import Released
from darrm_opt.budgeting.quota import is_proved, most_releases
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanism.durable_log import DurableLog
from darrm_opt.mechanism.errors import ReleaseLogDamaged
from darrm_opt.mechanism.journal import Record
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy
from darrm_opt.record import problem_from_record, problem_record

Bits = NDArray[np.uint8]


class ReleaseLog(DurableLog[Release, Bits]):
    """Log of the releases of one γ: how many were made, how many are allowed, and the bits of those that have an id.

    Args:
        path: a file made by `create`.

    Guarantees:
        However many processes use the file, and however they end, no more releases leave than are charged, no more are
        charged than the budget allows, and releases under one id are charged once.

    Raises:
        BudgetUnreadable: no such file, or not a release log of a γ in this format.
        ReleaseLogDamaged: its lines are not as they were written.
        NotPrivate: its γ is not private for its problem.
    """

    KIND = "darrm release ledger"  # the word of the first version: it stays, so that all files can be read
    FORMAT = 2  # 1 did not say whether voters are fresh
    SUBJECT = "gamma and problem"

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
        """Create a release log for one γ, with a total budget or a number of releases.

        Args:
            path: a file that does not exist yet, in a folder that does.
            released: a `Solution`, or a pair (gamma, problem); proved private first.
            budget: total (ε, δ) of all releases; how many fit is proved by the tightest account, see `most_releases`.
            queries: or this many releases, whose total cost is then for the caller to know.
            fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one
                answer; False where the voters were trained once, and (ε, Δ) is the privacy of the whole voter
                (`accounting.freshness.FRESH`). Such a log is for the releases of one training: other models, another
                log.
            first: how many are about to be released: a log that allows fewer is not created.

        Returns:
            The log, on disk.

        Raises:
            InvalidInput: not exactly one of ``budget`` and ``queries``, a number out of range, or the file exists.
            NotPrivate: the γ is not private for the problem.
            BudgetSpent: fewer than ``first`` releases fit; there is no file.
            BudgetUnreadable: the file cannot be written.
        """
        release, fresh = Release.of(released), check_fresh(fresh)
        return cls._create(
            path,
            {"problem": problem_record(release.problem), "gamma": release.noise.values.tolist(), "fresh": fresh},
            lambda total: most_releases(release, total, fresh=fresh),
            budget=budget,
            queries=queries,
            first=first,
        )

    @classmethod
    def open_or_create(
        cls,
        path: str | os.PathLike[str],
        released: Released | Release,
        *,
        budget: Privacy | None = None,
        queries: int | None = None,
        fresh: bool = False,
        first: int = 0,
    ) -> ReleaseLog:
        """Open the release log of one γ, or create it if there is no file; several processes may do so at once.

        Args:
            path: the file, in a folder that exists.
            released: as for `create`; an existing log must be for the same γ and problem.
            budget: as for `create`; an existing log must have the same. None with ``queries`` None: whichever it has.
            queries: as for `create`; an existing log must allow as many.
            fresh: as for `create`; True needs an existing log that says so too.
            first: as for `create`; an existing log may have fewer left.

        Returns:
            The log, on disk.

        Raises:
            InvalidInput: an existing log is for another γ, another budget, or voters that were trained once; or
                `create` refuses an argument, ``budget`` and ``queries`` both None among them.
            DarrmError: what `create` and opening a log raise, for the same reasons.
        """
        release = Release.of(released)
        log = cls._open_or_create(
            path,
            release,
            lambda: cls.create(path, release, budget=budget, queries=queries, fresh=fresh, first=first),
            budget=budget,
            queries=queries,
        )
        if check_fresh(fresh) and not log.fresh:
            raise InvalidInput("fresh", fresh, f"False, as {path} is for voters that were trained once")
        return log

    @property
    def release(self) -> Release:
        """The γ that it is for, and the problem for which it is private."""
        return self._subject

    @property
    def fresh(self) -> bool:
        """Whether its limit supposes that voters are fresh; False: that they were trained once."""
        return self._fresh

    def _read_header(self, header: Record) -> None:
        if header.get("kind") == self.KIND and header.get("format") == 1:
            raise BudgetUnreadable(
                f"{self.path} is a release log of format 1, which does not say whether voters are fresh: its limit may "
                "allow too many releases of voters that were trained once. Create another, with what is left of the "
                "total."
            )
        super()._read_header(header)

    def _read_subject(self, header: Record) -> Release:
        problem = problem_from_record(header["problem"])
        self._fresh = check_fresh(header["fresh"])
        return Release(NoiseFunction(header["gamma"], problem.K), problem)

    def _limit_is_proved(self, budget: Privacy) -> bool:
        return is_proved(self.release, self._quota, budget, fresh=self._fresh)

    def _encode(self, answers: Bits) -> str:
        return encode_bits(answers)

    def _decode(self, text: str, count: int) -> Bits:
        return decode_bits(text, count)


def encode_bits(bits: Bits) -> str:
    """Return bits as text: eight in a byte, in base 64."""
    return base64.b64encode(np.packbits(bits).tobytes()).decode("ascii")


def decode_bits(text: str, count: int) -> Bits:
    """Return the first ``count`` bits of a text of `encode_bits`.

    Raises:
        ReleaseLogDamaged: it is no such text.
    """
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except (binascii.Error, ValueError) as err:
        raise ReleaseLogDamaged("the bits of a release cannot be read") from err
    return np.unpackbits(packed, count=count)
