"""``darrm plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.cli.declared import Option
from api.cli.options import AsJson, number
from api.cli.outcome import answer, say

if TYPE_CHECKING:
    from darrm_opt.planning import Option as Way
    from darrm_opt.planning import Plan

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
            "How votes fall: rectangular(lower, tau), uniform(lower), shared(a,b) or histogram(n_0,…,n_K).",
            "TEXT",
            _WANTED,
        ),
    ] = "rectangular",
    least_accuracy: Annotated[
        str,
        Option("--least-accuracy", "Below this an answer is of no use, in [0.5, 1).", "PROBABILITY", _WANTED),
    ] = "0.6",
    *,
    fresh: Annotated[
        bool,
        Option(
            "--fresh",
            "Every voter draws new randomness for every answer. Without it voters are models that are trained once.",
            panel=_VOTERS,
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Say what to do: which release is the most accurate within a total (ε, δ), or that none is needed.

    Weighs the plain majority (by post-processing of private models, or what it costs), fewer voters, γ_opt at the largest
    target of which all queries fit, a γ made for all of them, GNMax, SAA, subsampling and randomised response. Every total
    is proved, by the account that is named.
    """
    from api.cli.report import as_json
    from darrm_opt.answers.accounting import plan_to_dict
    from darrm_opt.errors import InvalidInput
    from darrm_opt.planning import plan as planning
    from darrm_opt.problem import Privacy, real_number

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
    found = planning(
        number(K),
        voter,
        number(queries),
        Privacy(total_eps, total_del),
        number(affected),
        prior,
        fresh=fresh,
        least_accuracy=number(least_accuracy),
    )
    if json:
        answer(as_json(plan_to_dict(found)))
        return
    for warning in found.warnings:
        say(f"Warning: {warning}")
    answer(_text(found))


def _text(found: Plan) -> str:
    from api.cli.report import columns, guarantee, voters_text

    asked = found.situation
    trained = "" if not asked.private else "fresh in every answer" if asked.fresh else "trained once"
    head = f"{voters_text(asked.voters)}{f' ({trained})' if trained else ''}; {asked.queries:,} queries, {guarantee(asked.total)} in all."
    heads = ["way", "accuracy", "queries", "ε spent", "proved by"]
    reasons = [f"{option.way:<19} {option.why}" for option in found.options if option is not found.best]
    return "\n".join([head, "", found.advice, "", columns(heads, map(_row, found.options)), "", *reasons])


def _row(option: Way) -> list[str]:
    if not option.fits or option.spent is None:
        return [option.way, "-", "-", "does not fit", "-"]
    return [
        option.way,
        f"{option.accuracy:.4f}",
        "no limit" if option.queries is None else f"{option.queries:,}",
        f"{option.spent.epsilon:.4f}",
        option.account,
    ]
