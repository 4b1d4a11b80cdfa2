"""Ensemble sampler: exact draws of the fresh, secret samples of records that answer queries.

`EnsembleSampler` draws only by the schemes that the accounts cover (`darrm_opt.accounting.sampling`). A `Sample` serves
one query, or one text of T labels, once: only for it does a `ReleaseLog` with a sampling charge the sampled price. A
sample drawn for a named release (`EnsembleSampler.draw_for`) is charged on disk before anybody sees it: a process may
end at any moment, and asking again pays for another query.

Rejected: a sample that was used, in another log, by another process, or after a copy; one of another sampling or
another number of voters. Not checked, but assumed by the totals: the indices stay secret, for ever; samples are not
selected, that is, none is discarded because of its content or in view of the query; each voter looks at its share only
(or all of them at the whole sample, if one record still changes at most ``affected`` votes, as with the K nearest
neighbours within it); a voter without records, or one that fails, gives an answer that does not depend on data.

Exactness: for Poisson samples the size is drawn first, Binomial(n, q), by inversion in blocks of records
(`inversion.binomial_law`), then that many distinct records, uniformly: together the law of n independent coins. They
are the first distinct ones of a sequence of independent uniform records, in their order, so that any positions in it
are a uniform share too.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.sampling import ALLOCATION, BY_COINS, Sampling
from darrm_opt.arguments import whole_number
from darrm_opt.errors import InvalidInput, SampleUsed
from darrm_opt.inversion import binomial_law
from darrm_opt.process import process_identity
from darrm_opt.randomness import RandomSource, SystemRandomness, below_each

Indices = NDArray[np.int64]

MAX_RECORDS = 2**32 - 1

BLOCK_MEAN = 4  # maximum mean number of records drawn from one block: a law of some fifty values


class Sample:
    """The records of one query, by voter; made by `EnsembleSampler.draw`, used once, and secret.

    Attributes:
        sampling: how it was drawn.
        shares: indices of the records of each voter, K arrays, read-only. Secret.
        charged_with: the unit of charge: this sample, or its round of queries.
        is_charged: whether this sample was charged, perhaps after its round.
        drawn: labels drawn from it and not released yet, in order. Secret.
    """

    def __init__(self, sampling: Sampling, shares: tuple[Indices, ...], charged_with: Charge | None = None) -> None:
        for share in shares:
            share.flags.writeable = False
        self.sampling, self.shares = sampling, shares
        self.charged_with = Charge(sampling.labels) if charged_with is None else charged_with
        self.drawn: list[int] = []
        self.is_charged, self._released = False, 0

    def __repr__(self) -> str:
        return f"Sample({self.sampling!r}, left={self.left})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A sample is used once and cannot be copied, stored or sent to another process.")

    @property
    def records(self) -> Indices:
        """Indices of all its records, each once, in increasing order. Secret."""
        return np.unique(np.concatenate(self.shares))

    @property
    def left(self) -> int:
        """Number of labels that it may still serve."""
        return self.sampling.labels - self._released

    def charge(self, count: int, owner: str) -> int:
        """Return the charge to a log for ``count`` more labels: all T labels once, then none.

        In a round of t queries, all t with the first of its samples (`charged_with`).

        Args:
            count: labels; 0 is a charge before any label.
            owner: the log.

        Raises:
            SampleUsed: it has fewer labels left, or another log or process uses it.
        """
        whole = self.charged_with
        if whole.process != process_identity():
            raise SampleUsed("it was drawn by another process, and a forked copy would be used twice")
        if whole.owner not in ("", owner):
            raise SampleUsed(f"it was charged to {whole.owner}")
        if count > self.left:
            raise SampleUsed(f"it serves {self.sampling.labels} labels, and {self._released} of them are released")
        return 0 if whole.is_paid else whole.size

    def take(self, count: int, owner: str) -> None:
        """Use the sample for ``count`` labels of a log, and for no other log; after an error nothing is used.

        Args:
            count: labels; 0 reserves the sample for the log.
            owner: the log.

        Raises:
            SampleUsed: as for `charge`.
        """
        with self.charged_with.lock:
            self.charge(count, owner)
            self.charged_with.owner, self._released = owner, self._released + count

    def pay(self) -> None:
        """Record that the charge is on disk; until then every use is charged in full."""
        self.is_charged = self.charged_with.is_paid = True


class Charge:
    """Labels that are charged together, once, to one log of one process."""

    def __init__(self, size: int) -> None:
        self.size, self.owner, self.is_paid = size, "", False
        self.process, self.lock = process_identity(), threading.Lock()


class Round(Charge):
    """A round of t queries among which every record is spread, k times each; secret."""

    def __init__(self, size: int, queries: Indices) -> None:
        """Take the queries of each record, shape (n, k)."""
        super().__init__(size)
        places = queries.ravel()
        self._order = np.argsort(places, kind="stable") // queries.shape[1]
        self._ends, self._next = np.searchsorted(np.sort(places), np.arange(size + 1)), 0

    @property
    def is_over(self) -> bool:
        """Whether all its queries have had their records, or it belongs to another process."""
        return self._next == self.size or self.process != process_identity()

    def records(self) -> Indices:
        """Return the records of the next query, once."""
        start, end = self._ends[self._next : self._next + 2]
        self._next += 1
        return np.asarray(self._order[start:end])


class SampleLog(Protocol):
    """Log that charges the samples of its releases before they are used: a `ReleaseLog`."""

    @property
    def path(self) -> Path:
        """Path of the log."""
        ...

    def charge_samples(self, samples: Sequence[Sample], release_id: str | None = None) -> None:
        """Charge all labels of samples that nobody has seen yet."""
        ...


class EnsembleSampler:
    """Sampler of the records of K voters, anew for every query or round, from the operating system's randomness.

    Args:
        sampling: the scheme and the numbers of the account.
        K: number of voters.
        records: number of records; None: as in ``sampling``. With the schemes of `BY_COINS` any number, since only the
            probability counts; with other schemes that number.
        source: source of randomness; None for the operating system, which privacy requires.

    Guarantees:
        Given uniform independent bits, each sample or round has exactly the law of its scheme, independently of others:
        "poisson" each record with probability exactly ``rate`` (the double) or ``sample``/``records`` (the fraction),
        given to each voter with probability 1/K; "random-allocation" each record in a uniform set of ``times`` of the
        ``among`` queries of a round, and given to each voter with probability 1/K in each; "without-replacement"
        ``sample`` distinct records in uniform order, of which each voter gets the same number, or one more;
        "each-voter" and "each-voter-with-replacement" that for each voter separately. Time grows with the number of
        records drawn, not with that of all records, except for one word per `BLOCK_MEAN` drawn, and for all records in
        the first query of a round; it depends on the sample's size.

    Raises:
        InvalidInput: no sampling, a number out of its range, or another number of records than the scheme's.

    >>> from darrm_opt.accounting import Sampling
    >>> sampler = EnsembleSampler(Sampling(67_349, 40, scheme="without-replacement"), K=10)
    >>> {share.size for share in sampler.draw().shares}
    {4}
    """

    def __init__(
        self, sampling: Sampling, K: int, *, records: int | None = None, source: RandomSource | None = None
    ) -> None:
        if not isinstance(sampling, Sampling):
            raise InvalidInput("sampling", sampling, "a Sampling")
        self._sampling, self._K = sampling, whole_number(K, "K", "a whole number of voters, at least 1")
        accepted = f"{sampling.records} records, as the sampling says"
        if sampling.scheme in BY_COINS:
            accepted = f"a whole number of records, 0 to {MAX_RECORDS}"
        n = whole_number(sampling.records if records is None else records, "records", accepted, least=0)
        if n > MAX_RECORDS or (sampling.scheme not in BY_COINS and n != sampling.records):
            raise InvalidInput("records", n, accepted)
        self._records, self._source = n, SystemRandomness() if source is None else source
        self._kept: dict[tuple[Path | None, str], Sample] = {}
        self._round: Round | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"EnsembleSampler({self._sampling!r}, K={self._K})"

    @property
    def sampling(self) -> Sampling:
        """How records are drawn."""
        return self._sampling

    @property
    def K(self) -> int:
        """Number of voters."""
        return self._K

    def draw(self) -> Sample:
        """Return a sample for one query, or one text of T labels, independent of all others outside its round."""
        scheme, size = self._sampling.scheme, self._sampling.sample or 0
        dealt = None
        if scheme in BY_COINS:
            if scheme == ALLOCATION:
                dealt, drawn = self._dealt()
            else:
                drawn = self._distinct(self._poisson_size())
            # Each record picks its voter by its own coin: dealt in turn, one more record would move all later ones.
            voters = below_each(np.full(drawn.size, self._K), self._source)
            by_voter = np.argsort(voters, kind="stable")
            ends = np.searchsorted(voters[by_voter], np.arange(1, self._K))
            shares = np.split(drawn[by_voter], ends)
        elif scheme == "without-replacement":
            shares = np.array_split(self._distinct(size), self._K)
        elif scheme == "each-voter":
            shares = [self._distinct(size) for _ in range(self._K)]
        else:
            shares = [self._uniform(size) for _ in range(self._K)]
        # Copies: views would keep the whole draw, with one voter's share reachable from another's.
        return Sample(self._sampling, tuple(share.copy() for share in shares), dealt)

    def draw_for(self, release_id: str | None, log: SampleLog | None) -> Sample:
        """Return the sample of a release: the same one until it is used, so that nobody retries for a better one.

        Args:
            release_id: name of the release; None: a new sample.
            log: the release log that will get the label; None: the caller keeps the account.

        Guarantees:
            Before it is returned, a new sample is charged to ``log``, on disk: all of its T labels, not its records.
            So no log gives labels of more samples than it charged, whenever processes end: a name whose sample was lost
            with its process gets another one, charged as another query.

        Raises:
            BudgetSpent: the log does not have T labels left, or t for a new round; nothing was charged.
            InvalidInput: the log is for another sampling, or for another number of voters.
        """
        place = None if log is None else log.path.resolve()
        sample = None if release_id is None else self._kept.get((place, release_id))
        if sample is None or not sample.left:
            sample = self.draw()
            if log is not None:
                log.charge_samples((sample,), release_id)
            if release_id is not None:
                self._kept[place, release_id] = sample
        return sample

    def forget(self, release_id: str | None, log: SampleLog | None) -> None:
        """Forget the sample of a release whose labels are stored.

        Args:
            release_id: as for `draw_for`.
            log: as for `draw_for`.
        """
        if release_id is not None:
            self._kept.pop((None if log is None else log.path.resolve(), release_id), None)

    def _dealt(self) -> tuple[Round, Indices]:
        """Return the round of the next query, and its records."""
        with self._lock:
            if self._round is None or self._round.is_over:
                among, n = self._sampling.among or 1, self._records
                chosen = np.empty((n, 0), dtype=np.int64)
                for number in range(self._sampling.times):
                    query = below_each(np.full(n, among - number), self._source)
                    for earlier in np.sort(chosen, axis=1).T:  # the query of this rank among the remaining ones
                        query += query >= earlier
                    chosen = np.column_stack([chosen, query])
                self._round = Round(among, chosen)
            return self._round, self._round.records()

    def _poisson_size(self) -> int:
        """Return Binomial(n, q): a sum over blocks of records of equal size, except the last."""
        rate, sample = self._sampling.rate, self._sampling.sample
        chance = Fraction(rate) if rate is not None else Fraction(sample or 0, self._sampling.records)
        if chance == 1:
            return self._records
        block = max(1, int(BLOCK_MEAN / chance))
        blocks, rest = divmod(self._records, block)
        size = int(binomial_law(block, chance).draw(blocks, self._source).sum())
        return size + (int(binomial_law(rest, chance).draw(1, self._source)[0]) if rest else 0)

    def _uniform(self, count: int) -> Indices:
        """Return independent uniform records."""
        return below_each(np.full(count, self._records), self._source)

    def _distinct(self, count: int) -> Indices:
        """Return distinct records in uniform order: the first ones of a sequence of independent uniform records."""
        drawn = self._uniform(count)
        while True:
            first = np.unique(drawn, return_index=True)[1]
            if first.size >= count:
                return np.asarray(drawn[np.sort(first)[:count]])
            drawn = np.concatenate([drawn[np.sort(first)], self._uniform(2 * (count - first.size))])
