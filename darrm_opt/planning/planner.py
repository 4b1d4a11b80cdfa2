"""`plan`: all mechanisms compared under a total budget, with proved totals and the reason for each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial

from darrm_opt.accounting.calibrate import never_stop
from darrm_opt.accounting.errors import TooMuchWork
from darrm_opt.bagging.guarantee import Sampling
from darrm_opt.design.objective import Objective
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import calibrated_names, mechanism_class
from darrm_opt.planning import noisy_majorities as noisy
from darrm_opt.planning import plain_majority as plain
from darrm_opt.planning.options import MECHANISMS, Mechanism, Option, Plan
from darrm_opt.planning.request import MAX_EXACT_QUERIES, PlanRequest
from darrm_opt.planning.suggestions import suggestions
from darrm_opt.problem import Privacy, real_number

MIN_ACCURACY = 0.6
"""An answer that is the majority less often than this is hardly better than a fair coin (0.5)."""

ACCURACY_TOLERANCE = 1e-4
"""Accuracies closer than this count as equal: then the simpler option comes first."""

NO_DELTA = "total_delta = 0: the ε of the releases add up. A δ as small as 1e-9 allows much more over many queries."


def plan(
    K: int,
    voter: Privacy | None,
    queries: int,
    total: Privacy,
    affected: int | None = None,
    prior: Objective | str = "rectangular",
    *,
    fresh: bool = False,
    least_accuracy: float = MIN_ACCURACY,
    mechanisms: Iterable[str] = MECHANISMS,
    n: int | None = None,
    subsample_size: int | None = None,
    replacement: bool = True,
    sampling: Sampling = "independent",
    time_limit: float | None = None,
    progress: Callable[[Option], None] | None = None,
) -> Plan:
    """Return a plan for K voters, Q queries and a total (ε, δ): the best mechanism, the others, and why.

    Args:
        K: number of voters, ≥ 1.
        voter: (ε, Δ) of one voter; None, or ε = ``inf``, where it has none.
        queries: Q ≥ 1 answers wanted, fixed beforehand, each query chosen freely in view of the earlier answers.
        total: (ε, δ) of all answers together, ε > 0 and finite.
        affected: voters that one record can influence, 1..K; None means all K.
        prior: how votes fall, as the objective that has it or its text (its measure does not count).
        fresh: True where the voters answer every query with fresh, independent randomness, each answer (ε, Δ)-DP by
            itself (local randomisers, private predictions, the clients of a round); False where they are models trained
            once, (ε, Δ)-DP as a whole. If neither is certain, pass ``voter`` = None, which is valid for both.
        least_accuracy: below this an option is useless [probability], in [0.5, 1).
        mechanisms: those to compare, of `MECHANISMS`.
        n: records, ≥ 2, where each voter is a model trained on a random subsample of its own, as in `compare`; then
            ``affected`` is not given.
        subsample_size: records drawn for one model, with ``n``.
        replacement: whether a record can be drawn twice within a subsample.
        sampling: without replacement, subsamples ``independent`` or ``disjoint``.
        time_limit: about how long to search [s], > 0: the mechanism in progress then keeps its best result so far,
            later ones are left out, and a warning says so. None: no limit.
        progress: called with each option as soon as it is known.

    Returns:
        The options by accuracy, a verdict, and the advice in words.

    Guarantees:
        Every option that fits is within ``total``, by the account that it names: its privacy is proved. Its accuracy
        is exact under the prior. That nothing better exists is not proved.

    Raises:
        InvalidInput: a number is outside its range.

    Source: ours (docs/planning.md).

    >>> plan(11, Privacy(0.5), 1000, Privacy(1.0), affected=1).verdict
    'plain majority'
    >>> noisy = plan(5, None, 5, Privacy(4.0, 1e-5), affected=1, mechanisms=("optimal", "randomized_response"))
    >>> noisy.best.mechanism, noisy.best.spent.epsilon <= 4.0
    ('optimal', True)
    """
    request = PlanRequest.of(
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
        stop=_deadline(time_limit),
    )
    options = sorted(_evaluate(request, _check_mechanisms(mechanisms), progress), key=_rank)
    best = options[0] if options and options[0].fits else None
    warnings = _warnings(request)
    if request.stop():
        warnings += (f"The time limit of {time_limit:g} s was reached: the results are proved, and more may fit.",)
    if best is not None and best.plain:
        advice = f"You do not need this mechanism: release the plain majority. {best.why}"
        return Plan(request, tuple(options), "plain majority", advice, (), warnings)
    if request.total.delta == 0 and request.queries > 1:
        warnings += (NO_DELTA,)
    if best is not None and best.accuracy is not None and best.accuracy >= request.least_accuracy:
        return Plan(request, tuple(options), "noisy majority", _advice(best, request), (), warnings)
    changes = suggestions(request, [option.noise for option in options if option.fits and option.noise is not None])
    advice = " ".join([_no_option_advice(best, request), *(suggestion.words for suggestion in changes)])
    return Plan(request, tuple(options), "none", advice, changes, warnings)


def _deadline(time_limit: float | None) -> Callable[[], bool]:
    """Return a function that tells whether the time is up."""
    if time_limit is None:
        return never_stop
    accepted = "seconds above 0"
    if not real_number(time_limit, "time_limit", accepted) > 0:
        raise InvalidInput("time_limit", time_limit, accepted)
    end = time.monotonic() + time_limit
    return lambda: time.monotonic() >= end


def _evaluate(
    request: PlanRequest, mechanisms: tuple[Mechanism, ...], progress: Callable[[Option], None] | None
) -> list[Option]:
    """Return an option for each mechanism; none after the plain majority if that fits, being the most accurate."""
    options: list[Option] = []
    for mechanism in sorted(mechanisms, key=_order):
        option = _option(mechanism, request, options)
        options.append(option)
        if progress is not None:
            progress(option)
        if option.plain and option.fits:
            break
    return options


def _order(mechanism: Mechanism) -> int:
    """Return the place of a mechanism: the quick ones first, and last those that start from the others."""
    return [*_SEEDED].index(mechanism) + 1 if mechanism in _SEEDED else 0


def _option(mechanism: Mechanism, request: PlanRequest, options: list[Option]) -> Option:
    if request.stop():
        return Option.unfit(mechanism, request, noisy.TIME_IS_UP, "not computed")
    seeds = [option.noise for option in options if option.noise is not None]
    try:
        if mechanism in _SEEDED:
            return _SEEDED[mechanism](request, seeds)
        return _EVALUATORS.get(mechanism, partial(noisy.calibrated, mechanism))(request)
    except TooMuchWork as err:
        return Option.unfit(mechanism, request, f"Not computed: {err}", "not computed")


_EVALUATORS: dict[Mechanism, Callable[[PlanRequest], Option]] = {
    "majority": plain.majority,
    "fewer_voters": plain.fewer_voters,
}
"""Mechanisms that are not calibrated by one parameter (`noisy.calibrated`)."""

_SEEDED = {"optimal": noisy.optimal, "optimal_sequence": noisy.optimal_sequence}
"""Mechanisms that start from the others, evaluated after them in this order."""


def _check_mechanisms(mechanisms: Iterable[str]) -> tuple[Mechanism, ...]:
    accepted = f"one or more of {', '.join(MECHANISMS)}"
    names = (mechanisms,) if isinstance(mechanisms, str) else tuple(mechanisms)
    unknown = [mechanism for mechanism in names if mechanism not in MECHANISMS]
    if unknown or not names:
        raise InvalidInput("mechanisms", unknown[0] if unknown else None, accepted)
    return tuple(mechanism for mechanism in MECHANISMS if mechanism in names)


def _rank(option: Option) -> tuple[bool, float, int]:
    return not option.fits, -round((option.accuracy or 0.0) / ACCURACY_TOLERANCE), MECHANISMS.index(option.mechanism)


def _advice(best: Option, request: PlanRequest) -> str:
    accuracy = f"Right with probability {best.accuracy:.4f} under the prior {request.prior_text}."
    action = {
        "optimal": "Release γ_opt of one target",
        "optimal_sequence": "Release the γ made for all queries together",
        "fewer_voters": f"Release the plain majority of {best.voters} of the voters",
        "majority": "Release the plain majority",
        **{name: mechanism_class(name).advice for name in calibrated_names()},
    }[best.mechanism]
    return f"{action}. {accuracy} {best.why}"


def _no_option_advice(best: Option | None, request: PlanRequest) -> str:
    total = request.total
    goal = (
        f"an accuracy of {request.least_accuracy:g} over {request.queries:,} queries within "
        f"({total.epsilon:g}, {total.delta:g})"
    )
    if best is None or best.accuracy is None:
        return f"No option fits: nothing gives {goal}."
    return f"No option is useful: the best has accuracy {best.accuracy:.4f}, and nothing gives {goal}."


def _warnings(request: PlanRequest) -> tuple[str, ...]:
    warnings = []
    voter, total = request.voter, request.total
    if request.private and total.delta < voter.delta:
        warnings.append(
            f"total_delta = {total.delta:g} is below Delta = {voter.delta:g}: all answers together must fail less "
            "often than a single voter. Were the two swapped?"
        )
    if request.private and request.fresh and request.queries > 1:
        warnings.append(
            "fresh: this is valid only if every voter draws new randomness for every query, independently of the "
            "others. For models that are trained once and then queried it is not, and the total would be wrong."
        )
    if request.quick:
        warnings.append(
            f"For more than {MAX_EXACT_QUERIES} queries every total is proved by accounts that are quick at any number "
            "of them; `compose` and `cost` may prove some per cent less."
        )
    if request.K % 2 == 0:
        warnings.append("An even number of voters can tie, and a tie is a fair coin: an odd number wastes nothing.")
    if math.isfinite(voter.epsilon) and voter.epsilon > 20:
        warnings.append(
            f"epsilon = {voter.epsilon:g} gives no meaningful privacy: such a voter is as good as not private."
        )
    return tuple(warnings)
