"""Audit: is a claim of (ε, δ) about a vote true? A certificate, a counterexample, or a bound by samples.

claim      what is claimed, which vote counts are neighbours, and what an audit finds
exact      by known chances: of a mechanism, or of a table as fractions
black_box  by samples: the worst pair and event are explored, and a bound is drawn afresh
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.audit.black_box import Draws, command_draws, explored_pairs, sampled_bound
from darrm_opt.audit.claim import Audit, Claim, Counterexample, Counts, SampledBound, Verdict
from darrm_opt.audit.exact import Laws, mechanism_laws, of_voters, proved_epsilon, read_table, table_laws, worst_event
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.randomness import SystemRandomness

__all__ = ["Audit", "Claim", "Counterexample", "SampledBound", "audit", "command_draws", "read_table"]

SAMPLES, CONFIDENCE = 200_000, 0.99
"""Answers that are drawn of a black box, and the chance that its bound is true."""

Subject = VoteMechanism | Mapping[Counts, list[Fraction]] | Callable[[Any], Hashable]


def audit(
    subject: Subject,
    claim: Claim,
    *,
    pairs: Sequence[tuple[Any, Any]] | None = None,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
    draws: Draws | None = None,
) -> Audit:
    """Say whether a claim about a vote is proved, refuted, or neither.

    Args:
        subject: a mechanism; a table, as `read_table` returns it; or any function of vote counts (a tuple of C whole
            numbers) that returns the answer of one release: a label, or whatever can be hashed.
        claim: (ε, δ) of all releases, neighbours, voters and classes; those of a mechanism are its own.
        pairs: neighbouring inputs of a function, in place of vote counts: data sets, for example. Both orders are
            looked at.
        samples: answers to draw of a function, or of a mechanism whose chances are not known, ≥ 1000.
        confidence: chance that a bound by samples is true, in (0, 1).
        draws: many answers of a function at a time, in place of calling it once for each (`command_draws`).

    Returns:
        "proved" only of our own mechanisms, by the least of all accounts, and of tables. "refuted" with a
        counterexample; `Audit.exact` says whether it is certain or holds with the confidence. Several releases of a
        function are taken to be independent, given the counts.

    Guarantees:
        What is proved is a proof as everywhere here; a true claim is refuted by samples with a chance of at most
        1 − confidence, and never otherwise.

    >>> from darrm_opt import Privacy
    >>> from darrm_opt.mechanisms import mechanism_class
    >>> vote = mechanism_class("exponential").of(11, 3, 0.5)
    >>> audit(vote, Claim(Privacy(1.0), 11, 3)).verdict, audit(vote, Claim(Privacy(0.9), 11, 3)).verdict
    ('proved', 'refuted')
    """
    samples = whole_number(samples, "samples", "a whole number of answers, at least 1000", least=1000)
    confidence = real_number(confidence, "confidence", "a chance in (0, 1)", above=0, below=1)
    if isinstance(subject, VoteMechanism):
        if (subject.K, subject.classes, subject.affected) != (claim.K, claim.classes, claim.affected):
            shape = f"K = {subject.K}, {subject.classes} classes and {subject.affected} affected"
            raise InvalidInput("claim", (claim.K, claim.classes, claim.affected), f"that of the mechanism: {shape}")
        return _audit_mechanism(subject, claim, samples, confidence)
    if isinstance(subject, Mapping):
        return _audit_laws(table_laws(dict(subject), claim), claim)
    draw: Draws = draws or (lambda inputs, count: [[subject(each) for _ in range(count)] for each in inputs])
    # Both orders: privacy is asked of each side as the data and as the neighbour.
    both = explored_pairs(claim) if pairs is None else [each for a, b in pairs for each in ((a, b), (b, a))]
    return _audit_draws(draw, claim, both, samples, confidence)


def _audit_mechanism(mechanism: VoteMechanism, claim: Claim, samples: int, confidence: float) -> Audit:
    ours = type(mechanism).__module__.startswith("darrm_opt.")
    found = Audit(claim, "not refuted")
    if ours and claim.neighbours == "replace-one":  # what a package states of its mechanism is no proof
        cost = mechanism.cost(claim.releases, claim.privacy.delta)
        found = Audit(claim, "not refuted", cost.epsilon if cost.epsilon < math.inf else None, cost.account)
        if cost.epsilon <= claim.privacy.epsilon:
            return Audit(claim, "proved", cost.epsilon, cost.account)
    # Neighbours of private voters are no vote counts (`darrm verify` shows a γ's worst ones); groups count votes apart.
    if mechanism.private_voters or type(mechanism).count is not VoteMechanism.count:
        return found
    counted = mechanism.cap is None or claim.releases == 1
    laws = mechanism_laws(mechanism, claim) if counted else None
    if laws is not None:
        by_laws = _audit_laws(laws, claim)
        if by_laws.verdict == "refuted" or (ours and by_laws.verdict == "proved"):
            return by_laws if ours else replace(by_laws, epsilon=None, account="")
        if ours:
            least = min((each for each in (found, by_laws) if each.epsilon is not None), key=_epsilon, default=by_laws)
            return Audit(claim, "not refuted", least.epsilon, least.account, by_laws.counterexample, exact=True)
    if not counted:
        return found

    def draws(inputs: Sequence[Counts], count: int) -> list[list[int]]:
        source = SystemRandomness()
        votes = [np.tile(np.array(counts), (count, 1)) for counts in inputs]
        return [of_voters(mechanism, int(each[0].sum())).draw_many(each, source).tolist() for each in votes]

    sampled = _audit_draws(draws, claim, explored_pairs(claim), samples, confidence)
    return Audit(claim, sampled.verdict, found.epsilon, found.account, sampled.counterexample, sampled=sampled.sampled)


def _epsilon(one: Audit) -> float:
    return math.inf if one.epsilon is None else one.epsilon


def _audit_laws(laws: Laws, claim: Claim) -> Audit:
    epsilon, account = proved_epsilon(laws, claim)
    if epsilon <= claim.privacy.epsilon:
        return Audit(claim, "proved", epsilon, account)
    worst = worst_event(laws, claim)
    refuted = worst is not None and worst[1]
    return Audit(
        claim,
        "refuted" if refuted else "not refuted",
        epsilon if epsilon < math.inf else None,
        account,
        None if worst is None else worst[0],
        exact=True,
    )


def _audit_draws(
    draws: Draws, claim: Claim, pairs: Sequence[tuple[Any, Any]], samples: int, confidence: float
) -> Audit:
    bound, event = sampled_bound(draws, claim, pairs, samples, confidence)
    verdict: Verdict = "refuted" if bound.epsilon > claim.privacy.epsilon else "not refuted"
    return Audit(claim, verdict, counterexample=event, sampled=bound)
