"""Audit by known probabilities: those of a mechanism, or of any table.

Neighbours give finitely many pairs of laws (`accounting.law_pairs`): this package's accounts prove a claim from them,
and the worst event of a pair refutes it. A table is read as fractions, and one release of it is decided exactly.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.accounting.law_pairs import PROBABILITY_ERROR, BitPairs, LawPairs
from darrm_opt.accounting.total import total_of
from darrm_opt.audit.claim import Claim, Counterexample, Counts
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import VoteMechanism, with_shape
from darrm_opt.noise import Array
from darrm_opt.optional_packages import require
from darrm_opt.rounding import EXPONENT_BITS, exp_bounds
from darrm_opt.tables.problem import ABSTENTION, Index, has_table, partitions

MAX_LISTED, MAX_PAIRS, BLOCK = 3000, 100_000, 300
"""Most vote counts up to class names and most pairs of neighbours that are listed; number of counts in a block."""

MARGIN = 1e-6
"""Relative margin by which computed probabilities must refute; sums of binomials are a thousand times as precise."""

SUM_ERROR = Fraction(1, 10**9)
"""Largest difference from 1 of the sum of a row's probabilities; the last one is set to the remainder."""


@dataclass(frozen=True, eq=False)
class Laws:
    """Laws of one release on both sides of every pair of neighbours, in both orders."""

    counts: Sequence[Counts]
    pairs: Index  # places of (before, after), shape (pairs, 2)
    chances: Array  # probability of each answer, shape (counts, answers)
    outputs: tuple[int, ...]  # a class, or `ABSTENTION`
    error: float = 0.0  # relative error of each probability, besides rounding
    fractions: Sequence[Sequence[Fraction]] | None = None  # the exact probabilities, if known

    @property
    def law_pairs(self) -> LawPairs:
        """The pairs of laws, for the accounts."""
        on_data, on_neighbour = (self.chances[self.pairs[:, side]] for side in (0, 1))
        return LawPairs(on_data, on_neighbour, error=self.error)


def read_table(text: str) -> dict[Counts, list[Fraction]]:
    """Return the rows of a CSV table: columns votes_0, …, votes_{C−1}, then chance_0, …, and perhaps chance_none.

    A probability is a decimal number or a fraction such as 1/3, read exactly. The last one of a row is the remainder to
    1, and must be stated to 1e-9.
    """
    # Spreadsheets write a byte order mark before the first name.
    rows = list(csv.reader(text.removeprefix("\ufeff").splitlines()))
    head = [name.strip() for name in rows[0]] if rows else []
    classes = sum(name.startswith("votes_") for name in head)
    names = [f"{kind}_{place}" for kind in ("votes", "chance") for place in range(classes)]
    accepted = "a CSV table with the columns votes_0, …, chance_0, … and perhaps chance_none"
    if classes < 2 or head not in (names, [*names, "chance_none"]):
        raise InvalidInput("table", ",".join(head), accepted)
    table: dict[Counts, list[Fraction]] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            counts = tuple(int(text) for text in row[:classes])
            chances = [Fraction(text.strip()) for text in row[classes:]]
        except (ValueError, ZeroDivisionError) as err:
            raise InvalidInput("table", f"row {number}", accepted) from err
        # A law must sum to exactly 1, and three times 0.333 does not: the last probability is the remainder.
        rest = 1 - sum(chances[:-1], Fraction())
        if len(row) != len(head) or min(counts) < 0 or counts in table or abs(rest - chances[-1]) > SUM_ERROR:
            raise InvalidInput("table", f"row {number}", "counts that no other row has, and chances that add up to 1")
        chances[-1] = rest
        # Checked last: the remainder may be negative.
        if min(chances) < 0:
            raise InvalidInput("table", f"row {number}", "chances in [0, 1] that add up to 1")
        table[counts] = chances
    return table


def table_laws(table: dict[Counts, list[Fraction]], claim: Claim) -> Laws:
    """Return the laws of a table, which must contain all vote counts of the claim."""
    places = {counts: place for place, counts in enumerate(table)}
    starts = compositions(claim.K, claim.classes)
    pairs = [(counts, other) for counts in starts for other in claim.neighbours_of(counts)]
    for counts in dict.fromkeys(each for pair in pairs for each in pair):
        if counts not in places:
            raise InvalidInput("table", counts, "a row for every vote count of the claim")
    if claim.neighbours == "add-remove":
        pairs += [(after, before) for before, after in pairs]
    fractions = list(table.values())
    answers = len(fractions[0])
    return Laws(
        list(table),
        np.array([(places[a], places[b]) for a, b in pairs], dtype=np.intp).reshape(-1, 2),
        np.array([[float(chance) for chance in row] for row in fractions]),
        (*range(claim.classes), *((ABSTENTION,) if answers > claim.classes else ())),
        fractions=fractions,
    )


def compositions(K: int, classes: int) -> list[Counts]:
    """Return every vector of K votes by class; `InvalidInput` if there are more than `MAX_PAIRS`."""
    if math.comb(K + classes - 1, classes - 1) > MAX_PAIRS:
        raise InvalidInput("K", K, f"at most {MAX_PAIRS:,} vote counts")
    if classes == 1:
        return [(K,)]
    return [(first, *rest) for first in range(K + 1) for rest in compositions(K - first, classes - 1)]


def mechanism_laws(mechanism: VoteMechanism, claim: Claim) -> Laws | None:
    """Return the laws of a mechanism that treats classes alike; None if they are too many or unknown.

    One side of a pair has decreasing counts: relabelling the classes on both sides changes nothing.
    """
    if not has_table(claim.K, claim.classes, MAX_LISTED):
        return None
    found = ((counts, other) for counts in partitions(claim.K, claim.classes) for other in claim.neighbours_of(counts))
    # One more than allowed shows that there are too many, without listing them all.
    pairs = list(islice(found, MAX_PAIRS + 1))
    if len(pairs) > MAX_PAIRS:
        return None
    # Replacing is symmetric, so each pair occurs from both sides. Adding or removing has one side with fewer votes.
    both = pairs if claim.neighbours == "replace-one" else [*pairs, *((after, before) for before, after in pairs)]
    counts = list(dict.fromkeys(each for pair in both for each in pair))
    places = {each: place for place, each in enumerate(counts)}
    rows: dict[Counts, Array] = {}
    # Under "add-remove" a neighbour has fewer votes, and the mechanism is the one for fewer voters.
    for K in sorted({sum(each) for each in counts}):
        ordered = np.array(sorted({tuple(sorted(each, reverse=True)) for each in counts if sum(each) == K}))
        chances = _chances(of_voters(mechanism, K), ordered)
        if chances is None:
            return None
        rows |= dict(zip(map(tuple, ordered.tolist()), chances, strict=True))
    # Probabilities are computed for decreasing counts and renamed: a mechanism treats the classes alike.
    laws = np.array([_unordered(each, rows) for each in counts])
    outputs = (*range(claim.classes), *((ABSTENTION,) if laws.shape[1] > claim.classes else ()))
    index = np.array([(places[a], places[b]) for a, b in both], dtype=np.intp)
    return Laws(counts, index, laws, outputs, PROBABILITY_ERROR)


def of_voters(mechanism: VoteMechanism, K: int) -> VoteMechanism:
    """Return the mechanism for K voters, for neighbours that add or remove one."""
    if mechanism.K == K:
        return mechanism
    if not mechanism.parameter:
        raise InvalidInput(
            "neighbours", "add-remove", f"replace-one: this {mechanism.name} is for {mechanism.K} voters"
        )
    return with_shape(mechanism, K, min(mechanism.affected, K))


def _chances(mechanism: VoteMechanism, ordered: Index) -> Array | None:
    """Return Pr[each answer] for decreasing counts."""
    parts = [mechanism.class_chances(part) for part in np.array_split(ordered, -(-len(ordered) // BLOCK))]
    known = [part for part in parts if part is not None]
    if len(known) == len(parts):
        return np.vstack(known)
    bounds = mechanism.bounds(1)
    laws = bounds[0][0].laws if len(bounds) == 1 and mechanism.classes == 2 else None
    bits = None if laws is None else laws()
    if not isinstance(bits, BitPairs):
        return None
    return np.asarray(np.array([float(chance) for chance in bits.chances])[ordered])


def _unordered(counts: Counts, rows: dict[Counts, Array]) -> Array:
    order = sorted(range(len(counts)), key=lambda place: -counts[place])
    law = rows[tuple(counts[place] for place in order)].copy()
    law[order] = law[: len(counts)].copy()
    return law


def proved_epsilon(laws: Laws, claim: Claim) -> tuple[float, str]:
    """Return ε of all releases at the claimed δ [nats], proved from the laws, and the account; inf if unproved."""
    if not len(laws.pairs):
        return 0.0, "no neighbours"
    pairs = laws.law_pairs
    found = total_of([(ReleaseGuarantee(laws=lambda: pairs), claim.releases)], claim.privacy.delta)
    if claim.releases == 1 and laws.fractions is not None and _exact_excess(laws.fractions, laws, claim) <= 0:
        # The claim is true exactly; the account of rounded laws may be tighter, or up to rounding beyond it.
        return min(found.epsilon, claim.privacy.epsilon), "laws"
    return found.epsilon, found.account


def _exact_excess(rows: Sequence[Sequence[Fraction]], laws: Laws, claim: Claim) -> Fraction:
    """Return the excess of one release over e^ε and δ, maximised over pairs; never below the exact value."""
    slope = Fraction(exp_bounds(claim.privacy.epsilon)[0], 1 << EXPONENT_BITS)
    excesses = (
        sum((max(p - slope * q, Fraction()) for p, q in zip(rows[before], rows[after], strict=True)), Fraction())
        for before, after in laws.pairs.tolist()
    )
    return max(excesses) - Fraction(claim.privacy.delta)


def worst_event(laws: Laws, claim: Claim) -> tuple[Counterexample, bool] | None:
    """Return the event with the largest excess over e^ε and δ, and whether it refutes the claim; None without a pair.

    The event is that at least k releases give one of the answers whose probabilities fall most: by Neyman and Pearson
    the best event of a single release, and for several releases the best that counts such answers.

    Guarantees: A refutation is true, with a margin of `MARGIN` for the arithmetic, or by exact fractions.
    """
    if not len(laws.pairs):
        return None
    p, q = (laws.chances[laws.pairs[:, side]] for side in (0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Stable, so that answers with equal ratios give the same event everywhere.
        order = np.argsort(-np.where(p > 0, p / q, -1.0), axis=1, kind="stable")
    # Each prefix of the order is a candidate event: by Neyman and Pearson the best of its size.
    P, R = (np.minimum(np.cumsum(np.take_along_axis(side, order, axis=1), axis=1), 1.0) for side in (p, q))
    least, tail_p, tail_q = tails(P, R, claim.releases, claim.privacy.epsilon)
    excess = tail_p - math.exp(claim.privacy.epsilon) * tail_q
    pair, last = np.unravel_index(int(np.argmax(excess)), excess.shape)
    before, after = laws.pairs[pair].tolist()
    places = order[pair, : last + 1].tolist()
    if claim.releases == 1 and laws.fractions is not None:
        rows = laws.fractions[before], laws.fractions[after]
        # An answer that never occurs on the data only adds to the neighbour's side.
        places = [place for place in places if rows[0][place] > 0]
        on_data, on_neighbour = (sum((row[place] for place in places), Fraction()) for row in rows)
        # Rounded up, against the refutation: a claim that holds with equality must not be refuted.
        slope = Fraction(exp_bounds(claim.privacy.epsilon)[1], 1 << EXPONENT_BITS)
        refutes = on_data > slope * on_neighbour + Fraction(claim.privacy.delta)
    else:
        limit = math.exp(claim.privacy.epsilon) * tail_q[pair, last] + claim.privacy.delta
        refutes = bool(tail_p[pair, last] * (1 - MARGIN) > limit * (1 + MARGIN))
    event = tuple(sorted(laws.outputs[place] for place in places))
    chances = float(tail_p[pair, last]), float(tail_q[pair, last])
    counts = laws.counts[before], laws.counts[after]
    return Counterexample(*counts, event, int(least[pair, last]), *chances), refutes


def tails(P: Array, R: Array, releases: int, epsilon: float) -> tuple[Array, Array, Array]:
    """Return the least k hits that are e^ε times as likely under P as under R, and both probabilities of ≥ k hits.

    ``P``, ``R``: probability of a hit in one release on the two sides, of any shape.
    """
    if releases == 1:
        return np.ones(P.shape, dtype=np.intp), P, R
    stats: Any = require("scipy.stats", "an audit of several releases")
    with np.errstate(divide="ignore", invalid="ignore"):
        hit, miss = np.log(P) - np.log(R), np.log1p(-P) - np.log1p(-R)
        # k·hit + (Q − k)·miss > ε; an answer that only one side can give decides with one hit, or with all hits
        least = np.where(R <= 0, 1.0, np.where(P >= 1, releases, np.ceil((epsilon - releases * miss) / (hit - miss))))
    least = np.clip(np.nan_to_num(least, nan=releases, posinf=releases, neginf=1), 1, releases).astype(np.intp)
    return least, stats.binom.sf(least - 1, releases, P), stats.binom.sf(least - 1, releases, R)
