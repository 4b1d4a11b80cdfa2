"""`plan`: what should I do? Every way weighed, on proved totals only, with its reason in words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from darrm_opt.accounting.refusals import TooMuchWork
from darrm_opt.accounting.turning import never
from darrm_opt.design.objective import Objective
from darrm_opt.ensembles.bagging import Sampling
from darrm_opt.errors import InvalidInput
from darrm_opt.planning import noisy, plain
from darrm_opt.planning.option import WAYS, Option, Plan, Way
from darrm_opt.planning.remedies import remedies
from darrm_opt.planning.situation import Situation
from darrm_opt.problem import Privacy, real_number

LEAST_ACCURACY = 0.6
"""An answer that is the majority less often than this is hardly better than a coin (0.5)."""

ALIKE = 1e-4
"""Accuracies closer than this count as alike: then the option that is weighed first, the simpler one, comes first."""

NO_DELTA = "total_delta = 0: the ε of the releases add up. A δ of 1e-9 changes little, and over many queries lets much more fit."


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
    n: int | None = None,
    subsample_size: int | None = None,
    replacement: bool = True,
    sampling: Sampling = "independent",
    time_limit: float | None = None,
    progress: Callable[[Option], None] | None = None,
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
        n: records, ≥ 2, where each voter is a model trained on a random subsample of its own, as in `compare`; then ``affected``
            is not given.
        subsample_size: records drawn for one model, with ``n``.
        replacement: whether a record can be drawn twice within a subsample.
        sampling: without replacement, subsamples ``independent`` or ``disjoint``.
        time_limit: about how long to search [s], > 0: a way that is being weighed then is taken as far as it was found, later
            ones are left out, and a warning says so. None: as long as it takes.
        progress: called with each option as soon as it is weighed.

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
    situation = Situation.of(
        K,
        voter,
        queries,
        total,
        affected,
        prior,
        fresh=fresh,
        least_accuracy=least_accuracy,
        n=n,
        subsample_size=subsample_size,
        replacement=replacement,
        sampling=sampling,
        stop=_clock(time_limit),
    )
    options = sorted(_weighed(situation, _checked(ways), progress), key=_place)
    best = options[0] if options and options[0].fits else None
    warnings = _warnings(situation)
    if situation.stop():
        warnings += (f"The time limit of {time_limit:g} s was reached: what is shown is proved, and more may fit.",)
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


def _clock(time_limit: float | None) -> Callable[[], bool]:
    """Return whether the time is up, as a question to be asked."""
    if time_limit is None:
        return never
    accepted = "None, or seconds above 0"
    if not real_number(time_limit, "time_limit", accepted) > 0:
        raise InvalidInput("time_limit", time_limit, accepted)
    end = time.monotonic() + time_limit
    return lambda: time.monotonic() >= end


def _weighed(situation: Situation, ways: tuple[Way, ...], progress: Callable[[Option], None] | None) -> list[Option]:
    """Return an option for each way; no search where the plain majority fits, since nothing is more accurate."""
    options: list[Option] = []
    for way in sorted(ways, key=_order):
        option = _option(way, situation, options)
        options.append(option)
        if progress is not None:
            progress(option)
        if option.plain and option.fits:
            break
    return options


def _order(way: Way) -> int:
    """Return a place for each way: the quick ones first, and last the one that starts from the others."""
    return ("optimal", "optimal_sequence").index(way) + 1 if way in ("optimal", "optimal_sequence") else 0


def _option(way: Way, situation: Situation, known: list[Option]) -> Option:
    if situation.stop():
        return Option.unfit(way, situation, noisy.TIME_IS_UP)
    if way in _FOR_FEW and situation.queries > noisy.MANY:
        return Option.unfit(way, situation, f"Not weighed for more than {noisy.MANY:,} queries: see optimal.")
    seeds = [each.noise for each in known if each.noise is not None]
    try:
        return noisy.optimal_sequence(situation, seeds) if way == "optimal_sequence" else _WEIGH[way](situation)
    except TooMuchWork as err:
        return Option.unfit(way, situation, f"Not weighed: {err}")


_WEIGH = {
    "majority": plain.majority,
    "fewer_voters": plain.fewer_voters,
    "optimal": noisy.optimal,
    "gnmax": noisy.gnmax,
    "permute_and_flip": noisy.permute_and_flip,
    "exponential_mechanism": noisy.exponential_mechanism,
    "saa": noisy.saa,
    "subsampling": noisy.subsampling,
    "randomized_response": noisy.randomized_response,
}

_FOR_FEW = {
    "optimal_sequence",
    "permute_and_flip",
    "exponential_mechanism",
    "saa",
    "subsampling",
    "randomized_response",
}
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
        "permute_and_flip": "Release the vote with Laplace noise on the difference",
        "exponential_mechanism": "Release the vote by the exponential mechanism",
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
