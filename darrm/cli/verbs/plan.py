"""Verb ``darrm plan``: the most accurate release within a budget, or the table of all mechanisms."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, assumed_text, fail, say, trained_text
from darrm.cli.parameters import (
    AsJson,
    GroupOptions,
    QuestionOptions,
    SampleOptions,
    bags_drawn,
    declared_option,
    number,
    refuse_missing,
)
from darrm.cli.parser import ADVANCED, CommandOption

if TYPE_CHECKING:
    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.bagging import Bags
    from darrm_opt.planning import Option as PlanOption
    from darrm_opt.planning import Plan
    from darrm_opt.planning.compare import Comparison
    from darrm_opt.problem import Privacy, VoterGroup
    from darrm_opt.tables.priors import Ties

VOTERS, TOTAL_EPSILON = "a whole number of voters, at least 1", "a finite number of nats, at least 0"
"""What --K and --total-epsilon accept, for a command that lacks them."""

GROUP_SECONDS = 60.0
"""Time limit of a plan for groups where none is given [s]: the best tables of many voters take hours."""


def plan(
    options: QuestionOptions,
    voters: GroupOptions,
    drawn: SampleOptions,
    least_accuracy: Annotated[
        str | None,
        declared_option("least_accuracy", ADVANCED, "0.6 of two classes; of C, a fifth of the way from 1/C to 1"),
    ] = None,
    time_limit: Annotated[str | None, declared_option("time_limit", ADVANCED, "none; with --group 60")] = None,
    output: Annotated[
        str | None, CommandOption("--output", "Write the γ or mechanism, for `darrm verify` and `darrm label`.", "FILE")
    ] = None,
    plot: Annotated[
        str | None, CommandOption("--plot", "Plot accuracy and ε of each mechanism: .png, .svg or .pdf.", "FILE")
    ] = None,
    *,
    compare: Annotated[
        bool,
        CommandOption("--compare", "Compare every mechanism, calibrated to the total, instead of recommending one."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Recommend the most accurate release within a total (ε, δ), or compare all mechanisms.

    Compares the plain majority, fewer voters, γ_opt at the largest target at which all queries fit, a γ designed for
    the whole sequence, tables, and every mechanism of `darrm cost`. The account that proves each total is shown. With
    --bags, a random draw decides how many voters a record reaches. With --records, every query uses a fresh, secret
    sample of the records, divided among the voters, and costs less; a record then reaches one voter. With a prior of
    classes or a price, the shares of right, wrong and withheld answers are shown. With --group for each group of
    voters, the table for the groups is compared with every other mechanism that its voters allow.
    """
    if voters.group:
        _plan_groups(options, voters, drawn, number(least_accuracy), number(time_limit), output, plot, json=json)
        return
    from darrm.cli.files import check_plot, check_writable
    from darrm.cli.ranking import class_count, ranked_plan
    from darrm_opt.design.report import guarantee

    check_writable(output, "output")
    check_plot(plot)
    sampling = drawn.as_sampling()
    # Private voters draw for themselves, and are fresh ones with a smaller ε.
    is_shared = sampling is not None and options.epsilon == "inf" and options.profile is None
    classes = class_count(options, sampled=is_shared)
    refuse_missing(K=(options.K, VOTERS), total_epsilon=(options.total_epsilon, TOTAL_EPSILON))
    # Under a law of classes every plan is such a table.
    if compare and not _is_of_classes(options, sampled=is_shared):
        unused = {"least_accuracy": least_accuracy, "time_limit": time_limit, "output": output}
        _compare(options, plot, unused, sampling, json=json)
        return
    # Only these have an estimate of their time; a search with a limit ends by itself.
    if time_limit is None and sampling is None and classes == 2:
        _refuse_slow(number(options.K), options.voter, number(options.queries))
    result = ranked_plan(
        options,
        "planning",
        _option_text,
        least_accuracy=number(least_accuracy),
        sampling=sampling,
        time_limit=number(time_limit),
    )
    # The plan is then of fresh voters with that ε, and no longer of samples.
    if not json and sampling is not None and result.question.sampling is None:
        say(f"Each voter draws its own records: one answer of it is {guarantee(result.question.voter)}.")
    _show(result, output, plot, json=json)


def _plan_groups(
    options: QuestionOptions,
    voters: GroupOptions,
    drawn: SampleOptions,
    least_accuracy: Any,
    time_limit: Any,
    output: str | None,
    plot: str | None,
    *,
    json: bool,
) -> None:
    """Print the plan of groups of voters."""
    from darrm.cli.files import check_plot, check_writable
    from darrm.cli.ranking import class_count, question_named
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.planning.group_plan import plan_groups

    check_writable(output, "output")
    check_plot(plot)
    voters.refuse_others(options, ("K", "epsilon", "bags", "profile"))
    for name, value, default in (("Delta", options.Delta, "0"), ("records", drawn.records, None)):
        if value != default:
            raise InvalidInput(name, value, Rule("cannot be combined with --group"))
    if options.votes is not None:
        raise InvalidInput("votes", options.votes, Rule("cannot be combined with --group"), "Give a --prior.")
    groups, weights = voters.voters()
    with ProgressDisplay("planning") as display, question_named():
        found = plan_groups(
            groups,
            number(options.queries),
            options.total,
            number(options.affected),
            options.prior,
            classes=class_count(options, sampled=True),  # here all voters are affected where nothing is said
            ties=cast("Ties", options.ties),  # checked there
            price=number(options.price),
            weights=weights,
            fresh=options.fresh,
            least_accuracy=least_accuracy,
            time_limit=GROUP_SECONDS if time_limit is None else time_limit,
            progress=lambda option: display.update(option.name),
        )
    _show(found, output, plot, json=json, groups=groups)


def _show(plan: Plan, output: str | None, plot: str | None, *, json: bool, groups: Sequence[VoterGroup] = ()) -> None:
    """Write what is recommended, draw the options, and print the plan."""
    from darrm.cli.ranking import show_options
    from darrm_opt.questions.plan import plan_record

    is_written = output is None or _save(plan, output)
    _draw_plan(plan, plot)
    if not json:
        for warning in plan.warnings:
            say(f"Warning: {warning}")
    if plan.question.law is not None:
        show_options(plan, output, json=json, groups=groups)
    else:
        answer(as_json(plan_record(plan)) if json else _text(plan, output))
    if not is_written:
        fail(f"{output} is not written. {_without_file(plan)}", ExitCode.UNAVAILABLE)


def _without_file(plan: Plan) -> str:
    """Return why a recommendation has no file, and what gives its labels."""
    best = plan.best if plan.question.law is None else plan.options[0]
    name = None if best is None or not best.fits else best.name
    if name == "majority":
        return "The plain majority draws nothing: release the class of most votes of each row."
    if name == "fewer_voters":
        kept = f"{best.parameters['voters']:.0f}"  # type: ignore[union-attr]  # a name has an option
        return f"Keep {kept} of the models, and release the class of most of their votes in each row."
    return "No option has a γ or a mechanism." if name is None else f"The option {name} has no γ and no mechanism."


def _draw_plan(plan: Plan, plot: str | None) -> None:
    """Draw the options of a plan into a file, if one is named."""
    if plot is None:
        return
    from darrm.cli.files import picture_format, write_whole
    from darrm_opt.figures import plan_figure, render

    with ProgressDisplay("drawing"):
        write_whole(plot, render(plan_figure(plan), picture_format(plot)))


def _refuse_slow(K: Any, voter: Privacy, queries: Any) -> None:
    """Refuse a plan that would take too long; `planning.plan` refuses invalid numbers."""
    from darrm.cli.cached_solve import refuse_slow
    from darrm_opt.answers.running_time import plan_seconds
    from darrm_opt.design.objective import as_objective
    from darrm_opt.problem import Privacy, Problem

    if isinstance(K, int) and isinstance(queries, int):
        refuse_slow(
            Problem(K, voter, Privacy(1.0)),
            as_objective("rectangular"),
            lambda solve: plan_seconds(solve, queries),
            "Or give --time-limit: what was found by then is reported, all of it proved.",
        )


def _save(plan: Plan, output: str) -> bool:
    """Write the recommended γ, or the mechanism of the best option under a law of votes; False where neither is."""
    from darrm.cli.files import write_json
    from darrm_opt.mechanisms.base import planned_fields
    from darrm_opt.record import solution_record

    question, best = plan.question, plan.best
    if question.law is not None:
        best = plan.options[0]
        if best.mechanism is not None:
            drawn_anew = {} if question.sampling is None else {"sampling": question.sampling.record()}
            planned = planned_fields(question.queries, question.total)
            write_json(output, best.mechanism.record() | planned | drawn_anew)
            return True
    if best is None or best.noise is None:
        return False
    # A release log's own account knows no draw, so that the total of one is nothing that it could be held to.
    use: dict[str, Any] = {"fresh": question.fresh}
    if question.bags is None:
        use |= planned_fields(question.queries, question.total)
    write_json(output, solution_record(best.to_solution(question.gamma_objective)) | use)
    return True


def _option_text(option: PlanOption) -> str:
    outcome = option.outcome if option.accuracy is None else f"accuracy {option.accuracy:.4f}"
    return f"{option.name} {outcome}"


def _next_step(plan: Plan, output: str | None) -> str:
    """Return the command that releases labels as planned; empty where no γ is recommended."""
    best, question = plan.best, plan.question
    if best is None or best.noise is None:
        return ""
    if output is None:
        text = (
            "Add --output plan.json to keep this γ; the plan then ends with the command that releases labels with it."
        )
        return f"\n\n{text}"
    budget = f"--total-epsilon {question.total.epsilon!r} --total-delta {question.total.delta!r}"
    if question.bags is not None:
        budget = f"--queries {question.queries}"  # a release log's own account knows no draw
    fresh = " --fresh" if question.fresh else ""
    command = f"darrm label votes.csv --solution {shlex.quote(output)} --release-log releases.log"
    return f"\n\nγ is in {output}. Next:\n  {command} \\\n      {budget}{fresh} --output labels.csv"


def _text(plan: Plan, output: str | None) -> str:
    from darrm.cli.ranking import default_prior_text
    from darrm_opt.design.report import columns, count_text, guarantee, voters_text

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
    if assumption := assumed_text([question.voters.voter], question.queries, fresh=question.fresh):
        reasons += ["", assumption]
    prior = f"{question.prior_text}{default_prior_text(question)}"
    law = f"Accuracy: how often the answer is the majority, expected under the prior {prior}."
    text = "\n".join([head, "", plan.advice, "", law, columns(heads, map(_row, plan.options)), "", *reasons])
    return text + _next_step(plan, output)


def _row(option: PlanOption) -> list[str]:
    from darrm_opt.design.report import text_above

    if not option.fits or option.spent is None:
        return [option.name, "-", "-", option.outcome, "-"]
    return [
        option.name,
        f"{option.accuracy:.4f}",
        "no limit" if option.queries is None else f"{option.queries:,}",
        text_above(option.spent.epsilon, ".4f"),
        option.account,
    ]


def _is_of_classes(options: QuestionOptions, *, sampled: bool) -> bool:
    """Return whether utilities are those under a law of classes, and not those of a γ."""
    from darrm.cli.ranking import class_count
    from darrm_opt.tables.priors import is_class_prior

    return sampled or class_count(options) > 2 or options.price != "0" or is_class_prior(options.prior)


def _compare(
    options: QuestionOptions, plot: str | None, unused: dict[str, Any], sampling: Sampling | None, *, json: bool
) -> None:
    """Print each mechanism, calibrated to the total by the least of all accounts; the best comes first."""
    from darrm.cli.cached_solve import refuse_slow
    from darrm.cli.files import picture_format, write_whole
    from darrm.cli.ranking import question_named, vote_prior
    from darrm_opt.answers.running_time import COMPARISON_SOLVES
    from darrm_opt.design.objective import as_objective
    from darrm_opt.design.report import columns, count_text, guarantee, voters_text
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.planning.compare import amplified
    from darrm_opt.planning.compare import compare as compare_mechanisms
    from darrm_opt.problem import Privacy, Problem
    from darrm_opt.questions.compare import comparison_record

    for name, value in unused.items():
        if value is not None:
            raise InvalidInput(name, value, Rule("cannot be combined with --compare"))
    total, bags, fresh = options.total, bags_drawn(options.bags), options.fresh
    # Any target: that of a problem plays no part in a comparison.
    problem = (
        options.problem(m=None, target_epsilon=1.0)
        if options.profile is None
        else Problem(number(options.K), options.voter, Privacy(1.0), number(options.affected))
    )
    with question_named(sampled=sampling is not None):
        problem = amplified(problem, sampling, fresh=fresh)
    # Before any work: a comparison has several solves, and one of them may take an hour.
    with question_named():
        objective = as_objective(vote_prior(options, 2) or "rectangular")
    refuse_slow(problem, objective, lambda solve: COMPARISON_SOLVES * solve, "")
    with ProgressDisplay("comparing") as display, question_named():
        comparison = compare_mechanisms(
            problem,
            number(options.queries),
            total,
            objective=objective,
            fresh=fresh,
            progress=lambda option: display.update(option.name),
            bags=bags,
        )
    if plot is not None:
        from darrm_opt.figures import mechanisms_figure, render

        write_whole(plot, render(mechanisms_figure(comparison), picture_format(plot)))
    if json:
        answer(as_json(comparison_record(comparison)))
        return
    head = (
        f"{voters_text(problem)}{trained_text(problem, fresh=fresh)}; {count_text(comparison.queries, 'release')}, "
        f"{guarantee(comparison.total)} in all."
    )
    heads = ["mechanism", "parameter", "ε spent", "utility", "disagreement", "tv error"]
    left_out = [f"{name} is left out: {reason}." for name, reason in comparison.not_compared.items()]
    if comparison.bags is not None:
        head += f"\n{_draw(comparison.bags, problem.K)}"
    assumption = assumed_text([problem.voter], comparison.queries, fresh=fresh)
    if sampling is not None:
        head = f"Each voter draws its own records: what follows is of one sampled answer.\n{head}"
    notes = filter(None, [comparison.without_noise, *left_out, assumption])
    answer("\n".join([head, "", columns(heads, _rows(comparison)), "", *notes]))


def _draw(bags: Bags, K: int) -> str:
    sampling = f"with{'' if bags.replacement else 'out'} replacement" + (", disjoint" * (bags.sampling == "disjoint"))
    return (
        f"Each voter is trained on {bags.subsample_size} of {bags.n} records, {sampling}: "
        f"one record reaches {bags.affected_distribution(K).mean:.4g} voters on average."
    )


def _rows(comparison: Comparison) -> list[list[str]]:
    from darrm_opt.design.report import text_above

    return [
        [
            row.name,
            "does not fit" if row.epsilon is None else f"{row.parameter} = {row.value:.6g}",
            "-" if row.epsilon is None else text_above(row.epsilon, ".6f"),
            *map(_figure, (row.utility, row.disagreement, row.tv_error)),
        ]
        for row in comparison.rows
    ]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6f}"
