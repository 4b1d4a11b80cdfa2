"""Audit: prove or refute a claim of (ε, δ) about a vote, by a certificate, a counterexample or a bound from samples."""

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

SAMPLES, CONFIDENCE = 200_000, 0.99  # number of answers drawn from a black box, and the confidence in its bound

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
    """Prove or refute a claim about a vote.

    Args:
        subject: a mechanism; a table, as `read_table` returns it; or any function of vote counts (a tuple of C whole
            numbers) that returns the answer of one release: a label, or any hashable value.
        claim: (ε, δ) of all releases, neighbours, voters and classes; for a mechanism they must be its own.
        pairs: neighbouring inputs of a function instead of vote counts, such as data sets; both orders are examined.
        samples: answers drawn from a function, or from a mechanism with unknown probabilities, ≥ 1000.
        confidence: probability that a bound from samples is true, in (0, 1).
        draws: draws many answers of a function at once, instead of calling it once for each (`command_draws`).

    Returns:
        "proved" only for this package's mechanisms, by the least of all accounts, and for tables. "refuted" with a
        counterexample; `Audit.exact` says whether it is certain or holds with the confidence. Several releases of a
        function are assumed to be independent, given the counts.

    Guarantees:
        "proved" is a proof. Samples refute a true claim with probability at most 1 − confidence; nothing else does.
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
    # Both orders: privacy holds with either side as the data.
    both = explored_pairs(claim) if pairs is None else [each for a, b in pairs for each in ((a, b), (b, a))]
    return _audit_draws(draw, claim, both, samples, confidence)


def _audit_mechanism(mechanism: VoteMechanism, claim: Claim, samples: int, confidence: float) -> Audit:
    ours = type(mechanism).__module__.startswith("darrm_opt.")
    found = Audit(claim, "not refuted")
    if ours and claim.neighbours == "replace-one":  # a plug-in's statement about its mechanism is no proof
        cost = mechanism.cost(claim.releases, claim.privacy.delta)
        found = Audit(claim, "not refuted", cost.epsilon if cost.epsilon < math.inf else None, cost.account)
        if cost.epsilon <= claim.privacy.epsilon:
            return Audit(claim, "proved", cost.epsilon, cost.account)
    # Vote counts do not describe the neighbours of private voters (`darrm verify` does), and groups count separately.
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
