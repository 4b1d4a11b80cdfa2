"""Verb ``darrm compare``: mechanisms that release a majority within one budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ProgressDisplay, answer
from darrm.cli.parameters import AsJson, Fresh, VoterOptions, number, priors, total_privacy
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.bagging.bags import Bags
    from darrm_opt.planning.compare import Comparison
    from darrm_opt.priors import Prior

ROWS = 65_536
"""Rows of votes read at a time."""


def compare(
    options: VoterOptions,
    queries: Annotated[str, CommandOption("--queries", "Number of releases Q.", "COUNT")] = "1",
    total_epsilon: Annotated[
        str | None, CommandOption("--total-epsilon", "ε of all releases together.", "NATS")
    ] = None,
    total_delta: Annotated[
        str | None, CommandOption("--total-delta", "δ of all releases together, in [0, 1).", "PROBABILITY")
    ] = None,
    objective: Annotated[
        str, CommandOption("--objective", "What γ_opt maximises; see `darrm solve`.", "TEXT")
    ] = "rectangular",
    prior: Annotated[
        str | None,
        CommandOption(
            "--prior",
            "How votes fall, for the accuracy: the text of an objective, as in histogram(9,1,0,2) for measured votes.",
            "TEXT",
            otherwise="the objective's",
        ),
    ] = None,
    votes: Annotated[
        str | None,
        CommandOption(
            "--votes",
            "How votes fell, for the errors, instead of --prior: a .csv, .npy or .parquet file, a row of K votes a "
            "query. What is computed from private votes is as private as they are.",
            "FILE",
        ),
    ] = None,
    n: Annotated[
        str | None,
        CommandOption(
            "--n", "Records in the dataset, where each voter is a model trained on a subsample of them.", "COUNT"
        ),
    ] = None,
    subsample_size: Annotated[
        str | None, CommandOption("--subsample-size", "Records drawn for one model, with --n.", "COUNT")
    ] = None,
    sampling: Annotated[
        str, CommandOption("--sampling", "Without replacement, how the subsamples are drawn.", "independent|disjoint")
    ] = "independent",
    classes: Annotated[
        str,
        CommandOption(
            "--classes",
            "Number of classes. From 3 on, for voters that are not private: "
            "the options of `darrm plurality --compare`.",
            "COUNT",
        ),
    ] = "2",
    price: Annotated[
        str, CommandOption("--price", "Cost of a wrong label, in right ones, with three or more classes.", "NUMBER")
    ] = "0",
    plot: Annotated[str | None, CommandOption("--plot", "Draw the comparison: .png, .svg or .pdf.", "FILE")] = None,
    *,
    without_replacement: Annotated[
        bool, CommandOption("--without-replacement", "No record is drawn twice within a subsample.")
    ] = False,
    fresh: Fresh = False,
    json: AsJson = False,
) -> None:
    """Compare mechanisms that release a majority: same voters, same total privacy over all queries.

    Each mechanism is calibrated as far as the total allows, by the exact account of its bits; then the most useful, as
    the objective has it, comes first. With --n and --subsample-size chance decides how many voters a record reaches,
    and the account is the average over that. With three or more --classes all mechanisms for classes are compared, with
    right, wrong and abstained shares.
    """
    from darrm.cli.cached_solve import refuse_slow
    from darrm.cli.files import check_plot, picture_format, write_whole
    from darrm.cli.plurality_options import answer_options, several_classes
    from darrm.cli.report import as_json, assumed_text, columns, count_text, guarantee, trained_text, voters_text
    from darrm_opt.answers.accounting import comparison_to_dict
    from darrm_opt.answers.running_time import COMPARISON_SOLVES
    from darrm_opt.design.objective import as_objective
    from darrm_opt.planning.compare import compare as compare_mechanisms

    binary_options = {
        "epsilon": (None if options.epsilon == "inf" else options.epsilon, None),
        "Delta": (options.Delta, "0"),
        "objective": (objective, "rectangular"),
        "n": (n, None),
        "subsample_size": (subsample_size, None),
        "sampling": (sampling, "independent"),
        "plot": (plot, None),
        "without_replacement": (without_replacement, False),
        "fresh": (fresh, False),
    }
    if several_classes(classes, price):
        answer_options(
            options.K,
            classes,
            queries,
            total_epsilon,
            total_delta,
            options.affected,
            prior=prior,
            votes=votes,
            price=price,
            unused={name: value for name, (value, default) in binary_options.items() if value != default},
            json=json,
        )
        return
    check_plot(plot)
    total = total_privacy(total_epsilon, total_delta or "0")
    problem = options.problem(m=None, target_epsilon=1.0)
    refuse_slow(problem, as_objective(objective), lambda solve, _: COMPARISON_SOLVES * solve, "")
    draw: dict[str, Any] = {"n": number(n), "subsample_size": number(subsample_size), "sampling": sampling}
    with ProgressDisplay("comparing") as display:
        comparison = compare_mechanisms(
            problem,
            number(queries),
            total,
            objective=objective,
            prior=_prior(prior, votes, problem.K),
            replacement=not without_replacement,
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
    assumption = assumed_text(problem, comparison.queries, fresh=fresh)
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
    from darrm.cli.report import text_above

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


def _prior(text: str | None, votes: str | None, K: int) -> Prior | None:
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.errors import InvalidInput

    if votes is not None:
        from darrm.cli.vote_files import blocks
        from darrm_opt.priors import vote_histogram

        if text is not None:
            raise InvalidInput("votes", votes, "--prior or --votes, not both")
        return vote_histogram(blocks(votes, K, ROWS))
    if text is None:
        return None

    objective: Any = as_objective(text)
    if not isinstance(objective, Objective):
        raise InvalidInput("prior", text, priors())
    return objective.prior
