"""Ranking: every mechanism for queries within a total budget, with proved totals and the reason for each.

One ranking serves any number of classes, voters private or not, fresh or trained once, a draw of subsamples, abstention
and a price of wrong answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.bagging import Bags
from darrm_opt.errors import InvalidInput, TooMuchWork
from darrm_opt.mechanisms import calibrated_names, mechanism_class
from darrm_opt.mechanisms.base import CONFIDENT, is_brought
from darrm_opt.planning.candidates import calibrated_option, optimal, optimal_sequence
from darrm_opt.planning.class_candidates import checked_maximum, table_options
from darrm_opt.planning.option import MECHANISMS, TIME_IS_UP, TOO_MANY_COUNTS, Option, Plan, Suggestion
from darrm_opt.planning.plain_majority import fewer_voters, majority
from darrm_opt.planning.question import MAX_EXACT_QUERIES, AnyPrior, Question, end_of, stop_at
from darrm_opt.planning.sampled_candidates import sampled_table
from darrm_opt.planning.suggestions import suggestions
from darrm_opt.problem import Privacy
from darrm_opt.tables.priors import Ties

MIN_ACCURACY = 0.6
"""Smallest useful accuracy between two classes: below it an answer is hardly better than a fair coin (0.5)."""

UTILITY_TOLERANCE = 1e-6  # utilities closer than this are equal: the simpler option comes first

FRESH = (
    "fresh: valid only if every voter draws new randomness for every query, independently of the others. For models "
    "that are trained once and then queried it is false, and the total would be wrong."
)
"""Requirement on private voters with more than one query."""

NO_DELTA = "total_delta = 0: the ε of the releases add up. A δ as small as 1e-9 allows much more over many queries."


def plan(
    K: int,
    voter: Privacy | None,
    queries: int,
    total: Privacy,
    affected: int | None = None,
    prior: AnyPrior | None = None,
    *,
    classes: int = 2,
    ties: Ties = "excluded",
    price: float = 0.0,
    fresh: bool = False,
    least_accuracy: float | None = None,
    mechanisms: Iterable[str] = MECHANISMS,
    bags: Bags | None = None,
    sampling: Sampling | None = None,
    time_limit: float | None = None,
    progress: Callable[[Option], None] | None = None,
) -> Plan:
    """Return a plan for K voters, Q queries and a total (ε, δ): the best mechanism, the others, and why.

    Args:
        K: number of voters, ≥ 1.
        voter: (ε, Δ) of one voter; None, or ε = ``inf``, if it has none.
        queries: Q ≥ 1 answers, fixed beforehand, each query chosen freely after the earlier answers.
        total: (ε, δ) of all answers together, ε > 0 and finite.
        affected: voters that one record can influence, 1..K; None means all K.
        prior: distribution of votes: an objective with a prior or its text (its measure is not used), or votes among
            classes or their text; None: rectangular between two classes, dirichlet(1) among more. Parameters depend on
            it: past votes must be public, or are not protected.
        classes: C ≥ 2. Among three or more, private voters are charged as models, all of whose answers are
            post-processing, or taken as not private.
        ties: votes without a single leader, under a prior of classes: "excluded", or "any" leader is right.
        price: cost of a wrong answer in right ones, ≥ 0; above 0 options that abstain are compared too.
        fresh: True if the voters answer every query with fresh, independent randomness, each answer (ε, Δ)-DP by itself
            (local randomisers, private predictions, the clients of a round); False if they are models trained once,
            (ε, Δ)-DP as a whole. If neither is certain, pass ``voter`` = None, which is valid for both.
        least_accuracy: below this an answer is useless [probability], in [1/C, 1); None: `MIN_ACCURACY` between two
            classes, and as far from a guess among more.
        mechanisms: those to compare, of `MECHANISMS`; those for another number of classes are skipped.
        bags: how subsamples are drawn (`darrm_opt.bagging.Bags`) if each voter is a model trained on one of its own;
            neighbours replace one record, the voters' (ε, Δ) must hold for a given subsample, and ``affected`` must be
            None.
        sampling: how records are drawn anew for every query (`darrm_opt.accounting.Sampling`), by voters that are not
            private, or by fresh private ones with the scheme "each-voter"; None: no sampling.
        time_limit: approximate search time [s], > 0: then the current mechanism keeps its best result so far, later
            ones are skipped, and a warning is added. None: no limit.
        progress: called with each option as soon as it is known.

    Returns:
        The options by utility, a verdict, and the advice as text.

    Guarantees:
        Every option that fits is within ``total``, proved by the account that it names. Its shares are exact under the
        prior, or estimates if vote counts are too many to list (`VoteLaw.samples`). Optimality is not proved.

    Raises:
        InvalidInput: a value is out of range.

    >>> plan(11, Privacy(0.5), 1000, Privacy(1.0), affected=1).verdict
    'plain majority'
    >>> noisy = plan(5, None, 5, Privacy(4.0, 1e-5), affected=1, mechanisms=("optimal", "randomized_response"))
    >>> noisy.best.name, noisy.best.spent.epsilon <= 4.0
    ('optimal', True)
    >>> plan(11, None, 2, Privacy(2.0), 1, "favoured(0.5,0.9)", classes=3).best.name
    'optimal'
    """
    question = Question.of(
        K,
        voter,
        queries,
        total,
        affected,
        prior,
        classes=classes,
        ties=ties,
        price=price,
        fresh=fresh,
        least_accuracy=least_accuracy,
        bags=bags,
        sampling=sampling,
        stop=stop_at(end_of(time_limit)),
    )
    options = ranked_options(question, mechanisms, progress)
    warnings = _warnings(question) + time_limit_warning(question, time_limit)
    # a suggestion is another search: made only if nothing useful fits.
    return plan_of_options(question, options, _advice, warnings, lambda: suggestions(question, options))


def plan_of_options(
    question: Question,
    options: tuple[Option, ...],
    advice: Callable[[Option, Question], str],
    warnings: tuple[str, ...] = (),
    suggested: Callable[[], tuple[Suggestion, ...]] = tuple,
) -> Plan:
    """Return the plan of ranked options: the verdict, the advice, and suggestions if none is useful."""
    best = options[0] if options and options[0].fits else None
    if best is not None and best.plain:
        words = f"You do not need this mechanism: release the plain majority. {best.why}"
        return Plan(question, options, "plain majority", words, (), warnings)
    if question.total.delta == 0 and question.queries > 1:
        warnings += (NO_DELTA,)
    if best is not None and _is_useful(best, question):
        return Plan(question, options, "noisy majority", advice(best, question), (), warnings)
    changes = suggested()
    words = _no_option_advice(best, question)
    if changes:
        first, *others = (suggestion.words for suggestion in changes)
        words = " ".join([words, first, *(f"Or {each[0].lower()}{each[1:]}" for each in others)])
    return Plan(question, options, "none", words, changes, warnings)


def design_within_total(
    K: int,
    classes: int,
    total: Privacy,
    queries: int,
    *,
    voter: Privacy | None = None,
    affected: int = 1,
    prior: AnyPrior | None = None,
    price: float = 0.0,
    sampling: Sampling | None = None,
    progress: Callable[[Option], None] | None = None,
) -> Option:
    """Return the most useful option for Q queries within a total (ε, δ), for estimators and tools.

    Args:
        K: voters, trained once.
        voter: (ε, Δ) of one voter's training; None: not private.
        affected: voters that one record can influence.
        total: as for `plan`, like `classes`, `queries`, `prior`, `price` and `sampling`.
        progress: called with each option as soon as it is known; not called for a cached answer.

    Returns:
        The first option of `plan`, useful or not. Without a ``mechanism`` or a ``noise`` it is a plain majority.

    Guarantees:
        All answers together are ``total``-DP, each query chosen freely after the earlier answers.

    Raises:
        InvalidInput: a value is out of range, or nothing fits the total.

    >>> design_within_total(11, 3, Privacy(1.0, 1e-5), 1).name
    'optimal'
    """
    asked = (K, voter, queries, total, affected, prior)
    named = (("classes", classes), ("price", price), ("sampling", sampling))
    best = _best_option(asked, named, _Watched(progress))
    if not best.fits:
        raise InvalidInput("total", total, f"a total within which {queries} answers are proved")
    return best


@dataclass(frozen=True)
class _Watched:
    """Callback for each option, not part of the cache key."""

    progress: Callable[[Option], None] | None = field(compare=False)


@lru_cache(maxsize=64)
def _best_option(asked: tuple[Any, ...], named: tuple[tuple[str, Any], ...], watched: _Watched) -> Option:
    return ranked_options(Question.of(*asked, **dict(named)), progress=watched.progress)[0]


def ranked_options(
    question: Question,
    mechanisms: Iterable[str] = MECHANISMS,
    progress: Callable[[Option], None] | None = None,
    *,
    complete: bool = False,
) -> tuple[Option, ...]:
    """Return an option for each mechanism, the most useful first, those that do not fit last.

    ``complete``: whether the others are compared even if the plain majority, the most accurate, fits.
    """
    options: list[Option] = []
    for name in sorted(_checked_names(mechanisms), key=_order):
        if not _applies(name, question):
            continue
        options.append(_option(name, question, options))
        if progress is not None:
            progress(options[-1])
        if options[-1].plain and options[-1].fits and not complete:
            break
    return tuple(sorted(options, key=_rank))


def _checked_names(mechanisms: Iterable[str]) -> tuple[str, ...]:
    names = (mechanisms,) if isinstance(mechanisms, str) else tuple(mechanisms)
    unknown = [name for name in names if name not in MECHANISMS]
    if unknown or not names:
        raise InvalidInput("mechanisms", unknown[0] if unknown else None, f"one or more of {', '.join(MECHANISMS)}")
    return tuple(name for name in MECHANISMS if name in names)


def _order(name: str) -> int:
    """Return the sort key of a mechanism: quick ones first, those that start from the others last."""
    return [*_SEEDED].index(name) + 1 if name in _SEEDED else 0


def _applies(name: str, question: Question) -> bool:
    """Return whether a mechanism applies to a question."""
    if question.sampling is not None:
        return name == "optimal" or name in calibrated_names()
    if name == CONFIDENT:
        return question.price > 0 and question.total.delta > 0 and _has_fixed_votes(question)
    return question.classes == 2 or name not in ("fewer_voters", "optimal_sequence")


def _has_fixed_votes(question: Question) -> bool:
    """Return whether the votes are those of voters taken as not private."""
    return question.released.voter.epsilon == math.inf and question.bags is None


def _option(name: str, question: Question, earlier: list[Option]) -> Option:
    """Return the option of a name, or why it is not computed."""
    if question.stop():
        return Option.unfit(name, question, TIME_IS_UP, "not computed")
    try:
        return _computed_option(name, question, earlier)
    except TooMuchWork as err:
        return Option.unfit(name, question, f"Not computed: {err}", "not computed")
    except Exception as err:
        # Nobody may have asked for it: a fault of one package must not take the other options away.
        if not is_brought(name):
            raise
        why = f"Not computed: {name} of an installed package failed: {type(err).__name__}: {err}"
        return Option.unfit(name, question, why, "not computed")


def _computed_option(name: str, question: Question, earlier: list[Option]) -> Option:
    """Return the option of a name: the better one if it is both a mechanism and a table."""
    if question.sampling is not None:
        is_table = name == "optimal"
        return sampled_table(question, question.sampling) if is_table else calibrated_option(name, question)
    if name in _PLAIN:
        return _PLAIN[name](question)
    found: list[Option] = []
    if question.classes == 2 and name in _SEEDED:
        seeds = [option.noise for option in earlier if option.noise is not None]
        found.append(_SEEDED[name](question, seeds))
    elif name == CONFIDENT:
        found.append(checked_maximum(question))
    elif name not in _SEEDED:
        found.append(calibrated_option(name, question))
    if _has_fixed_votes(question) and question.law is not None:  # else γ is the table
        found += table_options(name, question)
    return min(found, key=_rank) if found else Option.unfit(name, question, TOO_MANY_COUNTS, "not computed")


_PLAIN: dict[str, Callable[[Question], Option]] = {"majority": majority, "fewer_voters": fewer_voters}
"""Votes released without noise."""

_SEEDED = {"optimal": optimal, "optimal_sequence": optimal_sequence}
"""Mechanisms that start from the others, evaluated after them in this order."""


def _rank(option: Option) -> tuple[bool, float, int]:
    return not option.fits, -round((option.utility or 0.0) / UTILITY_TOLERANCE), MECHANISMS.index(option.name)


def _is_useful(option: Option, question: Question) -> bool:
    """Return whether answers are accurate enough, and worth more than none."""
    if option.accuracy is None or option.utility is None:
        return False
    return option.accuracy >= question.least_accuracy and (question.price == 0 or option.utility > 0)


def time_limit_warning(question: Question, time_limit: float | None) -> tuple[str, ...]:
    """Return the warning of a plan whose time limit was reached; empty otherwise."""
    if time_limit is None or not question.stop():
        return ()
    return (f"The time limit of {time_limit:g} s was reached: the results are proved, but better ones may exist.",)


def _advice(best: Option, question: Question) -> str:
    accuracy = f"Right with probability {best.accuracy:.4f} under the prior {question.prior_text}."
    action = {
        "optimal": "Release γ_opt of one target" if best.noise is not None else "Release the best table",
        "optimal_sequence": "Release the γ made for all queries together",
        "fewer_voters": "Release the answers of one voter"
        if best.voters == 1
        else f"Release the plain majority of {best.voters} of the voters",
        "majority": "Release the plain majority",
        CONFIDENT: "Release the vote with Gaussian noise if it passes a check",
        **{name: mechanism_class(name).advice for name in calibrated_names()},
    }[best.name]
    return f"{action}. {accuracy} {best.why}"


def _no_option_advice(best: Option | None, question: Question) -> str:
    total = question.total
    goal = (
        f"an accuracy of {question.least_accuracy:g} over {question.queries:,} queries within "
        f"({total.epsilon:g}, {total.delta:g})"
    )
    reached = ""
    drawn = question.sampling is not None or question.bags is not None
    if not question.private and question.affected == question.K > 1 and not drawn:
        reached = f" Every record is taken to influence all {question.K} voters; with disjoint data, set affected to 1."
    if best is None or best.accuracy is None:
        return f"No option fits: nothing gives {goal}.{reached}"
    return f"No option is useful: the best has accuracy {best.accuracy:.4f}, and nothing gives {goal}.{reached}"


def _warnings(question: Question) -> tuple[str, ...]:
    warnings = []
    voter, total = question.voter, question.total
    if question.private and total.delta < voter.delta:
        warnings.append(
            f"total_delta = {total.delta:g} is below Delta = {voter.delta:g}: all answers together must fail less "
            "often than a single voter. Were the two swapped?"
        )
    # For a single release both claims give the same account.
    if question.private and question.fresh and question.queries > 1:
        warnings.append(FRESH)
    if question.sampling is not None:
        warnings.append(
            "The total assumes that every query has a fresh and secret sample, as `darrm label --ask` draws it (in "
            "Python, an EnsembleSampler)."
        )
    # Mentioned because another interface may show a smaller ε for the same releases.
    if question.quick and question.law is None:
        warnings.append(
            f"For more than {MAX_EXACT_QUERIES} queries every total is proved by accounts whose time does not depend "
            "on their number; `darrm cost` has others too, which are slower and may prove a slightly smaller ε."
        )
    if question.private and question.classes > 2 and question.sampling is None and question.bags is None:
        warnings.append(
            "Among more than two classes this plan uses the privacy of the voters for the plain majority only. State "
            "them as one group (groups, --group) to design with it."
        )
    if question.K % 2 == 0 and question.classes == 2:
        warnings.append("An even number of voters can tie, and a tie is decided by a fair coin: use an odd number.")
    if math.isfinite(voter.epsilon) and voter.epsilon > 20:
        warnings.append(f"epsilon = {voter.epsilon:g} gives no meaningful privacy: such a voter is hardly private.")
    return tuple(warnings)
