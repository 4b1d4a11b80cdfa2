"""``darrm plurality``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from darrm.cli.output import ExitCode, ProgressDisplay, answer, end, say
from darrm.cli.parameters import AsJson, number, options_named, total_privacy
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.planning.baselines import MechanismComparison
    from darrm_opt.problem import Privacy

LONG = 60.0
"""Seconds from which an expected time is told beforehand."""


def plurality(
    K: Annotated[str | None, CommandOption("--K", "Number of voters.", "COUNT")] = None,
    classes: Annotated[str | None, CommandOption("--classes", "Number of classes.", "COUNT")] = None,
    target_epsilon: Annotated[str | None, CommandOption("--target-epsilon", "ε of one released class.", "NATS")] = None,
    delta: Annotated[str, CommandOption("--delta", "δ of one released class, in [0, 1).", "PROBABILITY")] = "0",
    queries: Annotated[str, CommandOption("--queries", "Releases that share the total.", "COUNT")] = "1",
    total_epsilon: Annotated[
        str | None, CommandOption("--total-epsilon", "ε of all releases together, instead of --target-epsilon.", "NATS")
    ] = None,
    total_delta: Annotated[
        str | None,
        CommandOption(
            "--total-delta",
            "δ of all releases together, in [0, 1); with --total-epsilon.",
            "PROBABILITY",
            otherwise="0",
        ),
    ] = None,
    affected: Annotated[str, CommandOption("--affected", "How many votes one record can move.", "COUNT")] = "1",
    prior: Annotated[
        str | None,
        CommandOption(
            "--prior",
            "How votes fall: favoured(a,…), beta(a,b), dirichlet(a) or histogram(…).",
            "TEXT",
            otherwise="dirichlet(1)",
        ),
    ] = None,
    votes: Annotated[
        str | None,
        CommandOption(
            "--votes", "Past public votes as the prior: CSV, Parquet or npy, a column for each voter.", "FILE"
        ),
    ] = None,
    ties: Annotated[
        str, CommandOption("--ties", "Votes without a single leader: left out, or any leader is right.", "excluded|any")
    ] = "excluded",
    price: Annotated[str, CommandOption("--price", "Cost of a wrong label, in right ones.", "NUMBER")] = "0",
    abstention: Annotated[bool, CommandOption("--abstention", "Allow that no class is released.")] = False,  # noqa: FBT002
    time_limit: Annotated[
        str | None, CommandOption("--time-limit", "Stop after this and report the gap.", "SECONDS", otherwise="none")
    ] = None,
    output: Annotated[
        str | None, CommandOption("--output", "Write the certified rule to this file, for `darrm label`.", "FILE")
    ] = None,
    mechanism: Annotated[
        str,
        CommandOption(
            "--mechanism",
            "What is written: the optimum, or the rule of a mechanism that is compared with it.",
            "NAME",
        ),
    ] = "optimal",
    compare: Annotated[  # noqa: FBT002
        bool,
        CommandOption(
            "--compare",
            "Compare every mechanism for all queries within the target, with right, wrong and abstained shares.",
        ),
    ] = False,
    *,
    json: AsJson = False,
) -> None:
    """Design the best private release of the plurality of votes among any number of classes.

    Voters are not private. The optimum for one release is compared with the mechanisms that people use, each calibrated
    exactly for the released label. With --compare all queries are designed together: tables, noise on the counts, and
    checks before it, with a threshold, two noises and most labels.
    """
    from darrm.cli.files import check_writable, write_json
    from darrm.cli.plurality_options import show_estimate, show_options, vote_law
    from darrm_opt.accounting.equal_releases import release_target
    from darrm_opt.answers.plurality import plurality_seconds
    from darrm_opt.errors import InvalidInput
    from darrm_opt.mechanisms.base import planned_fields
    from darrm_opt.mechanisms.calibrated_table import tables
    from darrm_opt.planning import plan
    from darrm_opt.planning.baselines import compare_mechanisms
    from darrm_opt.plurality import PluralityObjective, PluralityProblem
    from darrm_opt.tables.problem import has_table
    from darrm_opt.tables.record import plurality_record, rule_record

    check_writable(output, "output")
    mechanisms = ("optimal", *tables())
    if mechanism not in mechanisms:
        raise InvalidInput("mechanism", mechanism, "one of " + ", ".join(mechanisms))
    for option, value in (("mechanism", mechanism), ("time_limit", time_limit)):
        if compare and value not in ("optimal", None):
            raise InvalidInput(option, value, "nothing beside --compare", "It compares every mechanism.")
    total = _total(target_epsilon, delta, total_epsilon, total_delta, queries)
    law = vote_law(prior, votes, K, classes)
    objective = PluralityObjective(law, ties, number(price))  # type: ignore[arg-type]  # checked there
    if compare:
        target_option = "total_epsilon" if target_epsilon is None else "target_epsilon"
        with ProgressDisplay("designing releases"), options_named(total_epsilon=target_option):
            found = plan(number(K), None, number(queries), total, number(affected), objective, classes=number(classes))
        show_options(found, output, json=json)
        return
    problem = PluralityProblem(
        number(K), number(classes), release_target(total, number(queries)), number(affected), abstention=abstention
    )
    if not has_table(problem.K, problem.classes):
        if output is not None:
            problem.histograms  # noqa: B018 — says how many partitions there are
        show_estimate(problem, total, number(queries), objective, json=json)
        return
    if (seconds := plurality_seconds(problem)) > LONG and time_limit is None:
        say(f"About {seconds / 60:,.0f} minutes are expected; --time-limit stops earlier, with a proven gap.")
    with ProgressDisplay("designing the rule"):
        comparison = compare_mechanisms(
            problem, objective, time_limit=None if time_limit is None else number(time_limit)
        )
    solution = comparison.solution
    if output is not None:
        alternative = comparison.mechanisms.get(mechanism)
        record = (
            plurality_record(solution) if alternative is None else rule_record(alternative.problem, alternative.rule)
        )
        write_json(output, record | planned_fields(number(queries), total))
    _show(comparison, json=json)
    end(ExitCode.DONE if solution.status.value == "optimal" else ExitCode.NOT_OPTIMAL)


def _show(comparison: MechanismComparison, *, json: bool) -> None:
    """Print the optimum and the mechanisms beside it."""
    from darrm.cli.report import as_json, columns, guarantee

    if json:
        answer(as_json(comparison.as_dict()))
    else:
        solution, problem = comparison.solution, comparison.solution.problem
        rows = [["optimal rule", f"{solution.utility:.6f}"]]
        rows += [[name.replace("_", " "), f"{utility:.6f}"] for name, utility in comparison.utilities.items()]
        answer(
            f"{problem.K} voters, {problem.classes} classes, one record moves {problem.affected}: "
            f"the released class is {guarantee(problem.target)}.\n"
            f"{columns(['mechanism', 'utility'], rows)}\n"
            f"optimal    no private rule has a utility above {solution.upper_bound:.9f} (gap {solution.gap:.1e})\n"
            f"private    proved for these very numbers over {solution.certificate.edges:,} neighbouring vote counts; "
            f"at the tightest, {solution.certificate.margin:.1e} of probability is to spare"
        )


def _total(
    target_epsilon: str | None, delta: str, total_epsilon: str | None, total_delta: str | None, queries: str
) -> Privacy:
    """Return the privacy of all releases together, from that of one or from the total."""
    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Privacy

    accepted = "a finite number of nats, at least 0"
    if total_epsilon is None:
        if number(queries) != 1:
            raise InvalidInput("total_epsilon", None, accepted, "Several releases share a total: see --total-delta.")
        if total_delta is not None:
            raise InvalidInput("total_epsilon", None, accepted, "--total-delta belongs to it.")
        with options_named(epsilon="target_epsilon"):
            return Privacy(number(target_epsilon), number(delta))
    if target_epsilon is not None:
        raise InvalidInput("target_epsilon", target_epsilon, "one of --target-epsilon and --total-epsilon")
    if delta != "0":
        raise InvalidInput("delta", delta, "nothing beside --total-epsilon", "Give --total-delta.")
    return total_privacy(total_epsilon, total_delta or "0")
