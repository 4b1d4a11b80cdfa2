"""Verb ``darrm plan``: the most accurate release within a budget."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ProgressDisplay, answer, say
from darrm.cli.parameters import FRESH, AsJson, number, options_named, priors, total_privacy
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.planning import Option as PlanOption
    from darrm_opt.planning import Plan
    from darrm_opt.problem import Privacy

_VOTERS, _WANTED = "The voters", "What is wanted"


def plan(
    K: Annotated[str | None, CommandOption("--K", "Number of voters.", "COUNT", _VOTERS)] = None,
    epsilon: Annotated[
        str, CommandOption("--epsilon", "ε of one voter; inf: the voter is not private.", "NATS", _VOTERS)
    ] = "inf",
    Delta: Annotated[str, CommandOption("--Delta", "Δ of one voter, in [0, 1).", "PROBABILITY", _VOTERS)] = "0",
    affected: Annotated[
        str | None, CommandOption("--affected", "How many voters one record can influence.", "COUNT", _VOTERS, "all K")
    ] = None,
    queries: Annotated[str, CommandOption("--queries", "Answers wanted, Q.", "COUNT", _WANTED)] = "1",
    total_epsilon: Annotated[
        str | None, CommandOption("--total-epsilon", "ε of all answers together.", "NATS", _WANTED)
    ] = None,
    total_delta: Annotated[
        str, CommandOption("--total-delta", "δ of all answers together, in [0, 1).", "PROBABILITY", _WANTED)
    ] = "0",
    prior: Annotated[
        str,
        CommandOption(
            "--prior",
            lambda: f"How votes fall: {priors()}.",
            "TEXT",
            _WANTED,
        ),
    ] = "rectangular",
    least_accuracy: Annotated[
        str,
        CommandOption("--least-accuracy", "Below this an answer is of no use, in [0.5, 1).", "PROBABILITY", _WANTED),
    ] = "0.6",
    n: Annotated[
        str | None,
        CommandOption(
            "--n", "Records, where each voter is a model trained on a random subsample of them.", "COUNT", _VOTERS
        ),
    ] = None,
    subsample_size: Annotated[
        str | None, CommandOption("--subsample-size", "Records drawn for one model, with --n.", "COUNT", _VOTERS)
    ] = None,
    sampling: Annotated[
        str,
        CommandOption("--sampling", "Without replacement, how subsamples are drawn.", "independent|disjoint", _VOTERS),
    ] = "independent",
    classes: Annotated[
        str,
        CommandOption(
            "--classes",
            "Number of classes. From 3 on, for voters that are not private: "
            "the options of `darrm plurality --compare`.",
            "COUNT",
            _VOTERS,
        ),
    ] = "2",
    price: Annotated[
        str,
        CommandOption(
            "--price", "Cost of a wrong label, in right ones, with three or more classes.", "NUMBER", _WANTED
        ),
    ] = "0",
    time_limit: Annotated[
        str | None,
        CommandOption(
            "--time-limit", "About how long to search: then what was found, all of it proved.", "SECONDS", _WANTED
        ),
    ] = None,
    output: Annotated[
        str | None,
        CommandOption(
            "--output", "Write the recommended γ there, for `darrm verify` and `darrm label`.", "FILE", _WANTED
        ),
    ] = None,
    *,
    without_replacement: Annotated[
        bool, CommandOption("--without-replacement", "No record is drawn twice within a subsample.", panel=_VOTERS)
    ] = False,
    fresh: Annotated[
        bool,
        CommandOption(
            "--fresh",
            FRESH,
            panel=_VOTERS,
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Say what to do: which release is the most accurate within a total (ε, δ), or that none is needed.

    Weighs the plain majority (by post-processing of private models, or what it costs), fewer voters, γ_opt at the
    largest target of which all queries fit, a γ made for all of them, and every mechanism of `darrm cost`. Every
    total is proved, by the account that is named. With --n and --subsample-size chance decides how many voters a
    record reaches. With three or more --classes all mechanisms for classes are weighed, with right, wrong and
    abstained shares.
    """
    from darrm.cli.files import check_writable
    from darrm.cli.plurality_options import answer_options, several_classes
    from darrm.cli.report import as_json
    from darrm_opt.answers.accounting import plan_to_dict
    from darrm_opt.planning import plan as planning
    from darrm_opt.problem import Privacy

    check_writable(output, "output")

    binary_options = {
        "epsilon": (epsilon, "inf"),
        "Delta": (Delta, "0"),
        "least_accuracy": (least_accuracy, "0.6"),
        "n": (n, None),
        "subsample_size": (subsample_size, None),
        "sampling": (sampling, "independent"),
        "time_limit": (time_limit, None),
        "without_replacement": (without_replacement, False),
        "fresh": (fresh, False),
        "output": (output, None),
    }
    if several_classes(classes, price):
        answer_options(
            K,
            classes,
            queries,
            total_epsilon,
            total_delta,
            affected,
            prior=None if prior == "rectangular" else prior,
            votes=None,
            price=price,
            unused={name: value for name, (value, default) in binary_options.items() if value != default},
            json=json,
        )
        return

    total = total_privacy(total_epsilon, total_delta)
    with options_named(delta="Delta"):
        voter = Privacy(number(epsilon), number(Delta))
    if time_limit is None:
        _refuse_slow(number(K), voter, number(queries))
    draw: dict[str, Any] = {"n": number(n), "subsample_size": number(subsample_size), "sampling": sampling}
    with ProgressDisplay("planning") as display:
        result = planning(
            number(K),
            voter,
            number(queries),
            total,
            number(affected),
            prior,
            fresh=fresh,
            least_accuracy=number(least_accuracy),
            replacement=not without_replacement,
            time_limit=number(time_limit),
            progress=lambda option: display.update(_option_text(option)),
            **draw,
        )
    if output is not None:
        _save(result, output)
    if json:
        answer(as_json(plan_to_dict(result)))
        return
    for warning in result.warnings:
        say(f"Warning: {warning}")
    answer(_text(result, output))


def _refuse_slow(K: Any, voter: Privacy, queries: Any) -> None:
    """Refuse a plan that would take too long; what is no number is for `planning.plan` to refuse."""
    from darrm.cli.cached_solve import refuse_slow
    from darrm_opt.answers.running_time import plan_seconds
    from darrm_opt.design.objective import as_objective
    from darrm_opt.problem import Privacy, Problem

    if isinstance(K, int) and isinstance(queries, int):
        refuse_slow(
            Problem(K, voter, Privacy(1.0)),
            as_objective("rectangular"),
            lambda solve, _: plan_seconds(solve, queries),
            "Or give --time-limit: what was found by then is reported, all of it proved.",
        )


def _save(plan: Plan, output: str) -> None:
    """Write the recommended γ, or say that there is none."""
    from darrm.cli.files import write_json
    from darrm_opt.record import solution_record

    if plan.best is None or plan.best.noise is None:
        say(f"Nothing is written to {output}: the recommendation has no γ.")
    else:
        write_json(output, solution_record(plan.best.to_solution(plan.question.gamma_objective)))


def _option_text(option: PlanOption) -> str:
    outcome = option.outcome if option.accuracy is None else f"accuracy {option.accuracy:.4f}"
    return f"{option.name} {outcome}"


def _next_step(plan: Plan, output: str | None) -> str:
    """Return the command that releases labels as planned; empty where no γ is recommended."""
    best, question = plan.best, plan.question
    if best is None or best.noise is None:
        return ""
    if output is None:
        return (
            "\n\nAdd --output plan.json to keep this γ; the plan then ends with "
            "the command that releases labels with it."
        )
    if question.bags is not None:
        budget = f"--queries {question.queries}"  # a release log's own account knows no draw
    else:
        budget = f"--total-epsilon {question.total.epsilon!r} --total-delta {question.total.delta!r}"
    fresh = " --fresh" if question.fresh else ""
    command = f"darrm label votes.csv --solution {shlex.quote(output)} --release-log releases.log"
    return f"\n\nγ is in {output}. Next:\n  {command} \\\n      {budget}{fresh} --output labels.csv"


def _text(plan: Plan, output: str | None) -> str:
    from darrm.cli.report import assumed_text, columns, count_text, guarantee, trained_text, voters_text

    question = plan.question
    training = trained_text(question.voters, fresh=question.fresh)
    head = (
        f"{voters_text(question.voters)}{training}; {count_text(question.queries, 'query', 'queries')}, "
        f"{guarantee(question.total)} in all."
    )
    heads = ["mechanism", "accuracy", "queries", "ε spent", "proved by"]
    # what all of them share is said once: by the advice, or below
    composing = question.composing()
    reasons = [
        f"{option.name:<19} {option.why.removesuffix(composing).rstrip()}"
        for option in plan.options
        if option is not plan.best
    ]
    if composing not in plan.advice and any(option.why.endswith(composing) for option in plan.options):
        reasons += ["", composing]
    if assumption := assumed_text(question.voters, question.queries, fresh=question.fresh):
        reasons += ["", assumption]
    law = f"Accuracy: how often the answer is the majority, where votes fall as the prior {question.prior_text} has it."
    text = "\n".join([head, "", plan.advice, "", law, columns(heads, map(_row, plan.options)), "", *reasons])
    return text + _next_step(plan, output)


def _row(option: PlanOption) -> list[str]:
    from darrm.cli.report import text_above

    if not option.fits or option.spent is None:
        return [option.name, "-", "-", option.outcome, "-"]
    return [
        option.name,
        f"{option.accuracy:.4f}",
        "no limit" if option.queries is None else f"{option.queries:,}",
        text_above(option.spent.epsilon, ".4f"),
        option.account,
    ]
