"""Verb ``darrm plan``: the most accurate release within a budget."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from api.cli.output import answer, say
from api.cli.parameters import FRESH, AsJson, number, priors
from api.cli.parser import Option

if TYPE_CHECKING:
    from darrm_opt.planning import Option as PlanOption
    from darrm_opt.planning import Plan

PATIENCE = 5.0
"""Seconds after which each option is reported as soon as it is computed."""

_VOTERS, _WANTED = "The voters", "What is wanted"


def plan(
    K: Annotated[str | None, Option("--K", "Number of voters.", "COUNT", _VOTERS)] = None,
    epsilon: Annotated[
        str, Option("--epsilon", "ε of one voter; inf: the voter is not private.", "NATS", _VOTERS)
    ] = "inf",
    Delta: Annotated[str, Option("--Delta", "Δ of one voter, in [0, 1).", "PROBABILITY", _VOTERS)] = "0",
    affected: Annotated[
        str | None, Option("--affected", "How many voters one record can influence.", "COUNT", _VOTERS, "all K")
    ] = None,
    queries: Annotated[str, Option("--queries", "Answers wanted, Q.", "COUNT", _WANTED)] = "1",
    total_epsilon: Annotated[
        str | None, Option("--total-epsilon", "ε of all answers together.", "NATS", _WANTED)
    ] = None,
    total_delta: Annotated[
        str, Option("--total-delta", "δ of all answers together, in [0, 1).", "PROBABILITY", _WANTED)
    ] = "0",
    prior: Annotated[
        str,
        Option(
            "--prior",
            lambda: f"How votes fall: {priors()}.",
            "TEXT",
            _WANTED,
        ),
    ] = "rectangular",
    least_accuracy: Annotated[
        str,
        Option("--least-accuracy", "Below this an answer is of no use, in [0.5, 1).", "PROBABILITY", _WANTED),
    ] = "0.6",
    n: Annotated[
        str | None,
        Option("--n", "Records, where each voter is a model trained on a random subsample of them.", "COUNT", _VOTERS),
    ] = None,
    subsample_size: Annotated[
        str | None, Option("--subsample-size", "Records drawn for one model, with --n.", "COUNT", _VOTERS)
    ] = None,
    sampling: Annotated[
        str, Option("--sampling", "Without replacement, how subsamples are drawn.", "independent|disjoint", _VOTERS)
    ] = "independent",
    classes: Annotated[
        str,
        Option(
            "--classes",
            "Number of classes. From 3 on, for voters that are not private: every way of `darrm plurality --ways`.",
            "COUNT",
            _VOTERS,
        ),
    ] = "2",
    price: Annotated[
        str, Option("--price", "Cost of a wrong label, in right ones, with three or more classes.", "NUMBER", _WANTED)
    ] = "0",
    time_limit: Annotated[
        str | None,
        Option("--time-limit", "About how long to search: then what was found, all of it proved.", "SECONDS", _WANTED),
    ] = None,
    *,
    without_replacement: Annotated[
        bool, Option("--without-replacement", "No record is drawn twice within a subsample.", panel=_VOTERS)
    ] = False,
    fresh: Annotated[
        bool,
        Option(
            "--fresh",
            FRESH,
            panel=_VOTERS,
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Say what to do: which release is the most accurate within a total (ε, δ), or that none is needed.

    Weighs the plain majority (by post-processing of private models, or what it costs), fewer voters, γ_opt at the largest
    target of which all queries fit, a γ made for all of them, GNMax, permute-and-flip, the exponential mechanism, SAA, subsampling
    and randomised response. Every total is proved, by the account that is named. With --n and --subsample-size chance decides how
    many voters a record reaches. With three or more --classes all ways among classes are weighed, with right, wrong and abstained shares.
    """
    from api.cli.class_ways import class_ways, several_classes
    from api.cli.report import as_json
    from darrm_opt.answers.accounting import plan_to_dict
    from darrm_opt.errors import InvalidInput
    from darrm_opt.planning import plan as planning
    from darrm_opt.problem import Privacy, real_number

    of_two = {
        "epsilon": (epsilon, "inf"),
        "Delta": (Delta, "0"),
        "least_accuracy": (least_accuracy, "0.6"),
        "n": (n, None),
        "subsample_size": (subsample_size, None),
        "sampling": (sampling, "independent"),
        "time_limit": (time_limit, None),
        "without_replacement": (without_replacement, False),
        "fresh": (fresh, False),
    }
    if several_classes(classes):
        class_ways(
            K,
            classes,
            queries,
            total_epsilon,
            total_delta,
            affected,
            prior=None if prior == "rectangular" else prior,
            votes=None,
            price=price,
            unused={name: given for name, (given, default) in of_two.items() if given != default},
            json=json,
        )
        return
    if price != "0":
        raise InvalidInput("price", price, "nothing with two classes", "There every answer is a class.")

    def read(text: str | None, name: str, accepted: str) -> float:
        return real_number(number(text), name, accepted)

    total_eps = read(total_epsilon, "total_epsilon", "a number of nats above 0")
    total_del = read(total_delta, "total_delta", "a probability in [0, 1)")
    if not 0 <= total_del < 1:
        raise InvalidInput("total_delta", total_del, "a probability in [0, 1)")
    if not total_eps > 0:
        raise InvalidInput("total_epsilon", total_eps, "a number of nats above 0")
    voter_delta = read(Delta, "Delta", "a probability in [0, 1)")
    if not 0 <= voter_delta < 1:
        raise InvalidInput("Delta", voter_delta, "a probability in [0, 1)")
    voter = Privacy(read(epsilon, "epsilon", "a number of nats, at least 0 (inf: not private)"), voter_delta)
    drawn: dict[str, Any] = {"n": number(n), "subsample_size": number(subsample_size), "sampling": sampling}
    found = planning(
        number(K),
        voter,
        number(queries),
        Privacy(total_eps, total_del),
        number(affected),
        prior,
        fresh=fresh,
        least_accuracy=number(least_accuracy),
        replacement=not without_replacement,
        time_limit=number(time_limit),
        progress=_report_progress(),
        **drawn,
    )
    if json:
        answer(as_json(plan_to_dict(found)))
        return
    for warning in found.warnings:
        say(f"Warning: {warning}")
    answer(_text(found))


def _report_progress() -> Callable[[PlanOption], None]:
    """Return a listener that reports each option on stderr, once a plan takes longer than a few seconds."""
    begun = monotonic()

    def report(option: PlanOption) -> None:
        if (seconds := monotonic() - begun) > PATIENCE:
            found = "does not fit" if option.accuracy is None else f"accuracy {option.accuracy:.4f}"
            say(f"{option.mechanism}: {found}, {seconds:.1f} s")

    return report


def _text(found: Plan) -> str:
    from api.cli.report import assumed_text, columns, guarantee, trained_text, voters_text

    asked = found.request
    trained = trained_text(asked.voters, fresh=asked.fresh)
    head = f"{voters_text(asked.voters)}{trained}; {asked.queries:,} queries, {guarantee(asked.total)} in all."
    heads = ["mechanism", "accuracy", "queries", "ε spent", "proved by"]
    reasons = [f"{option.mechanism:<19} {option.why}" for option in found.options if option is not found.best]
    if assumed := assumed_text(asked.voters, asked.queries, fresh=asked.fresh):
        reasons += ["", assumed]
    return "\n".join([head, "", found.advice, "", columns(heads, map(_row, found.options)), "", *reasons])


def _row(option: PlanOption) -> list[str]:
    if not option.fits or option.spent is None:
        return [option.mechanism, "-", "-", "does not fit", "-"]
    return [
        option.mechanism,
        f"{option.accuracy:.4f}",
        "no limit" if option.queries is None else f"{option.queries:,}",
        f"{option.spent.epsilon:.4f}",
        option.account,
    ]
