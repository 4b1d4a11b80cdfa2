"""Verb ``darrm compare``: mechanisms that release a majority within one budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from darrm.cli.output import ProgressDisplay, answer, as_json, assumed_text, trained_text
from darrm.cli.parameters import AsJson, QuestionOptions, SampleOptions, bags_drawn, number, priors
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.bagging.guarantee import Bags
    from darrm_opt.planning.compare import Comparison


def compare(
    options: QuestionOptions,
    drawn: SampleOptions,
    objective: Annotated[
        str, CommandOption("--objective", "What γ_opt maximises; see `darrm solve`.", "TEXT")
    ] = "rectangular",
    plot: Annotated[str | None, CommandOption("--plot", "Draw the comparison: .png, .svg or .pdf.", "FILE")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Compare mechanisms that release a majority: same voters, same total privacy over all queries.

    The table of `darrm plan`, for the same question: each mechanism is calibrated as far as the total allows, by the
    least of all accounts; then the most useful, as the objective has it, comes first. With --bags chance decides how
    many voters a record reaches, and the account is the average over that. With --records, every query has a fresh and
    secret sample of the records. With a prior of classes or a price, the
    shares of right, wrong and left-out answers are shown.
    """
    from darrm.cli.cached_solve import refuse_slow
    from darrm.cli.files import check_plot, picture_format, write_whole
    from darrm.cli.ranking import class_count, question_named, ranked, show_options, vote_prior
    from darrm_opt.answers.accounting import comparison_to_dict
    from darrm_opt.answers.running_time import COMPARISON_SOLVES
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.design.report import columns, count_text, guarantee, voters_text
    from darrm_opt.errors import InvalidInput
    from darrm_opt.planning.compare import compare as compare_mechanisms
    from darrm_opt.tables.priors import is_class_prior

    check_plot(plot)
    ensemble = drawn.as_sampling()
    # Private voters that draw for themselves are a question for `plan`, which amplifies their ε first.
    if ensemble is not None and options.epsilon != "inf":
        raise InvalidInput("records", drawn.records, "nothing beside private voters", "`darrm plan` takes both.")
    classes = class_count(options, sampled=ensemble is not None)
    total, draw, fresh = options.total, bags_drawn(options.bags), options.fresh
    # Utilities under a law of classes, and under an objective of γ, are different quantities: two tables.
    if classes > 2 or options.price != "0" or is_class_prior(options.prior) or ensemble is not None:
        for name, value, default in (("objective", objective, "rectangular"), ("plot", plot, None)):
            if value != default:
                raise InvalidInput(name, value, "nothing beside a prior of classes, a price or --records")
        show_options(ranked(options, "comparing", lambda option: option.name, ensemble=ensemble), None, json=json)
        return
    # Any target: that of a problem plays no part in a comparison.
    problem = options.problem(m=None, target_epsilon=1.0)
    # Before any work: a comparison has several solves, and one of them may take an hour.
    refuse_slow(problem, as_objective(objective), lambda solve, _: COMPARISON_SOLVES * solve, "")
    prior = vote_prior(options, classes)
    law = None if prior is None else as_objective(prior)
    if law is not None and not isinstance(law, Objective):
        raise InvalidInput("prior", options.prior, priors())
    with ProgressDisplay("comparing") as display, question_named():
        comparison = compare_mechanisms(
            problem,
            number(options.queries),
            total,
            objective=objective,
            prior=None if law is None else law.prior,
            fresh=fresh,
            progress=lambda option: display.update(option.name),
            **draw,
        )
    if plot is not None:
        from darrm_opt.figures import mechanisms_figure, render

        write_whole(plot, render(mechanisms_figure(comparison), picture_format(plot)))
    if json:
        answer(as_json(comparison_to_dict(comparison)))
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
    notes = [
        *([comparison.without_noise] if comparison.without_noise else []),
        *left_out,
        *([assumption] if assumption else []),
    ]
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
