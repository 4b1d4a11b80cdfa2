"""`plan`: what should I do? Every way weighed, on proved totals only, with its reason in words."""

from __future__ import annotations

import math
from collections.abc import Iterable

from darrm_opt.accounting.refusals import TooMuchWork
from darrm_opt.design.objective import Objective
from darrm_opt.errors import InvalidInput
from darrm_opt.planning import noisy, plain
from darrm_opt.planning.option import WAYS, Option, Plan, Way
from darrm_opt.planning.remedies import remedies
from darrm_opt.planning.situation import Situation
from darrm_opt.problem import Privacy

LEAST_ACCURACY = 0.6
"""An answer that is the majority less often than this is hardly better than a coin (0.5)."""

ALIKE = 1e-4
"""Accuracies closer than this count as alike: then the option that is weighed first, the simpler one, comes first."""

NO_DELTA = (
    "total_delta = 0: the accounts that know the very γ count in floating point and prove nothing at δ = 0, so most ways do not fit. A "
    "δ of 1e-9 changes little, and much of what fits."
)


def plan(
    K: int,
    voter: Privacy | None,
    queries: int,
    total: Privacy,
    affected: int | None = None,
    prior: Objective | str = "rectangular",
    *,
    fresh: bool = False,
    least_accuracy: float = LEAST_ACCURACY,
    ways: Iterable[str] = WAYS,
) -> Plan:
    """Return what to do with K voters, Q queries and a total (ε, δ): the best way, the others, and why.

    Args:
        K: number of voters, ≥ 1.
        voter: (ε, Δ) of one voter; None, or ε = ``inf``, where it has none.
        queries: Q ≥ 1 answers wanted, fixed beforehand, each query chosen freely in view of the earlier answers.
        total: (ε, δ) of all answers together, ε > 0 and finite.
        affected: voters that one record can influence, 1..K; None means all K.
        prior: how votes fall, as the objective that has it or its text (its measure does not count).
        fresh: True where the voters answer every query with fresh, independent randomness, each answer (ε, Δ)-DP by itself
            (local randomisers, private predictions, the clients of a round); False where they are models trained once,
            (ε, Δ)-DP as a whole. Where neither is certain, ``voter`` = None is: it holds for both.
        least_accuracy: below this an option is of no use [probability], in [0.5, 1).
        ways: what to weigh, among `WAYS`.

    Returns:
        The options by accuracy, a verdict, and the advice in words.

    Guarantees:
        Every option that fits is within ``total``, by the account that it names: what it says of privacy is a proof. What
        it says of accuracy is exact under the prior. That nothing better exists is not proved.

    Raises:
        InvalidInput: a number is outside its range.

    Source: ours (docs/planning.md).

    >>> plan(11, Privacy(0.5), 1000, Privacy(1.0), affected=1).verdict
    'plain majority'
    >>> found = plan(5, None, 5, Privacy(4.0, 1e-5), affected=1, ways=("optimal", "randomized_response"))
    >>> found.best.way, found.best.spent.epsilon <= 4.0
    ('optimal', True)
    """
    situation = Situation.of(K, voter, queries, total, affected, prior, fresh=fresh, least_accuracy=least_accuracy)
    options = sorted(_weighed(situation, _checked(ways)), key=_place)
    best = options[0] if options and options[0].fits else None
    warnings = _warnings(situation)
    if best is not None and best.plain:
        advice = f"You do not need this mechanism: release the plain majority. {best.why}"
        return Plan(situation, tuple(options), "plain majority", advice, (), warnings)
    if situation.total.delta == 0 and situation.queries > 1:
        warnings += (NO_DELTA,)
    if best is not None and best.accuracy is not None and best.accuracy >= situation.least_accuracy:
        return Plan(situation, tuple(options), "noisy majority", _advice(best, situation), (), warnings)
    noise = next((each.noise for each in options if each.fits and each.noise is not None), None)
    found = remedies(situation, noise)
    advice = " ".join([_refusal(best, situation), *(remedy.words for remedy in found)])
    return Plan(situation, tuple(options), "none", advice, found, warnings)


def _weighed(situation: Situation, ways: tuple[Way, ...]) -> list[Option]:
    """Return an option for each way; no search where the plain majority fits, since nothing is more accurate."""
    options: list[Option] = []
    for way in sorted(ways, key=lambda way: way == "optimal_sequence"):  # last: it starts from the others
        if way in _FOR_FEW and situation.queries > noisy.MANY:
            options.append(
                Option.unfit(way, situation, f"Not weighed for more than {noisy.MANY:,} queries: see optimal.")
            )
            continue
        seeds = [each.noise for each in options if each.noise is not None]
        try:
            option = noisy.optimal_sequence(situation, seeds) if way == "optimal_sequence" else _WEIGH[way](situation)
        except TooMuchWork as err:
            option = Option.unfit(way, situation, f"Not weighed: {err}")
        options.append(option)
        if option.plain and option.fits:
            break
    return options


_WEIGH = {
    "majority": plain.majority,
    "fewer_voters": plain.fewer_voters,
    "optimal": noisy.optimal,
    "gnmax": noisy.gnmax,
    "saa": noisy.saa,
    "subsampling": noisy.subsampling,
    "randomized_response": noisy.randomized_response,
}

_FOR_FEW = {"optimal_sequence", "saa", "subsampling", "randomized_response"}
"""What is weighed for up to `noisy.MANY` queries only."""


def _checked(ways: Iterable[str]) -> tuple[Way, ...]:
    accepted = f"one or more of {', '.join(WAYS)}"
    asked = (ways,) if isinstance(ways, str) else tuple(ways)
    wrong = [way for way in asked if way not in WAYS]
    if wrong or not asked:
        raise InvalidInput("ways", wrong[0] if wrong else None, accepted)
    return tuple(way for way in WAYS if way in asked)


def _place(option: Option) -> tuple[bool, float, int]:
    return not option.fits, -round((option.accuracy or 0.0) / ALIKE), WAYS.index(option.way)


def _advice(best: Option, situation: Situation) -> str:
    shown = f"Right with probability {best.accuracy:.4f} under the prior {situation.objective.name}."
    named = {
        "optimal": "Release γ_opt of one target",
        "optimal_sequence": "Release the γ made for all queries together",
        "fewer_voters": f"Release the plain majority of {best.voters} of the voters",
        "gnmax": "Release the vote with Gaussian noise",
        "saa": "Release the vote with Laplace noise",
        "subsampling": "Release the majority of a few voters, drawn anew for each query",
        "randomized_response": "Release the majority with one probability, else a coin",
        "majority": "Release the plain majority",
    }[best.way]
    return f"{named}. {shown} {best.why}"


def _refusal(best: Option | None, situation: Situation) -> str:
    total = situation.total
    wanted = f"an accuracy of {situation.least_accuracy:g} over {situation.queries:,} queries within ({total.epsilon:g}, {total.delta:g})"
    if best is None or best.accuracy is None:
        return f"No option fits: nothing gives {wanted}."
    return f"No option is of use: the best has accuracy {best.accuracy:.4f}, and nothing gives {wanted}."


def _warnings(situation: Situation) -> tuple[str, ...]:
    warnings = []
    voter, total = situation.voter, situation.total
    if situation.private and total.delta < voter.delta:
        warnings.append(
            f"total_delta = {total.delta:g} is below Delta = {voter.delta:g}: all answers together are asked to fail less often than a "
            "single voter. Were the two swapped?"
        )
    if situation.private and situation.fresh and situation.queries > 1:
        warnings.append(
            "fresh: this holds only where every voter draws new randomness for every query, independently of the others. For "
            "models that are trained once and then asked, it does not, and the total would be wrong."
        )
    if situation.K % 2 == 0:
        warnings.append("An even number of voters can tie, and a tie is a fair coin: an odd number wastes nothing.")
    if math.isfinite(voter.epsilon) and voter.epsilon > 20:
        warnings.append(f"epsilon = {voter.epsilon:g} protects nobody: such a voter is as good as not private.")
    return tuple(warnings)
