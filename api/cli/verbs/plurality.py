"""``darrm plurality``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.cli.output import ExitCode, answer, end
from api.cli.parameters import AsJson, number
from api.cli.parser import Option

if TYPE_CHECKING:
    from darrm_opt.plurality import PastVotes
    from darrm_opt.plurality.designer import ReleaseDesign
    from darrm_opt.problem import Privacy

DEFAULT_PRIOR = "dirichlet(1)"
"""Law of votes where none is given."""

VOTE_ROWS = 65_536
"""Rows of a file of votes that are read at a time."""


def plurality(
    K: Annotated[str | None, Option("--K", "Number of voters.", "COUNT")] = None,
    classes: Annotated[str | None, Option("--classes", "Number of classes.", "COUNT")] = None,
    target_epsilon: Annotated[str | None, Option("--target-epsilon", "ε of one released class.", "NATS")] = None,
    delta: Annotated[str, Option("--delta", "δ of one released class, in [0, 1).", "PROBABILITY")] = "0",
    queries: Annotated[str, Option("--queries", "Releases that share the total.", "COUNT")] = "1",
    total_epsilon: Annotated[
        str | None, Option("--total-epsilon", "ε of all releases together, instead of --target-epsilon.", "NATS")
    ] = None,
    total_delta: Annotated[
        str | None,
        Option(
            "--total-delta",
            "δ of all releases together, in [0, 1); with --total-epsilon.",
            "PROBABILITY",
            otherwise="0",
        ),
    ] = None,
    affected: Annotated[str, Option("--affected", "How many votes one record can move.", "COUNT")] = "1",
    prior: Annotated[
        str, Option("--prior", "How votes fall: favoured(a,…), beta(a,b), dirichlet(a) or histogram(…).", "TEXT")
    ] = DEFAULT_PRIOR,
    votes: Annotated[
        str | None,
        Option("--votes", "Past public votes as the prior: CSV, Parquet or npy, a column for each voter.", "FILE"),
    ] = None,
    ties: Annotated[
        str, Option("--ties", "Votes without a single leader: left out, or any leader is right.", "excluded|any")
    ] = "excluded",
    price: Annotated[str, Option("--price", "Cost of a wrong label, in right ones.", "NUMBER")] = "0",
    abstention: Annotated[bool, Option("--abstention", "Allow that no class is released.")] = False,  # noqa: FBT002
    time_limit: Annotated[
        str | None, Option("--time-limit", "Stop after this and report the gap.", "SECONDS", otherwise="none")
    ] = None,
    output: Annotated[
        str | None, Option("--output", "Write the certified rule to this file, for `darrm label`.", "FILE")
    ] = None,
    mechanism: Annotated[
        str,
        Option(
            "--mechanism",
            "What is written: the optimum; another rule; or noise on the counts, whose account needs no table.",
            "optimal|permute_and_flip|exponential|laplace|gnmax|noise",
        ),
    ] = "optimal",
    ways: Annotated[  # noqa: FBT002
        bool,
        Option(
            "--ways",
            "Compare every way of answering all queries within the target, with right, wrong and abstained shares.",
        ),
    ] = False,
    *,
    json: AsJson = False,
) -> None:
    """Design the best private release of the plurality of votes among any number of classes.

    Voters are not private. The optimum for one release is compared with permute-and-flip, the exponential mechanism,
    Laplace noise and GNMax, each calibrated exactly for the released label. With --ways all queries are designed together:
    tables, GNMax, and Confident-GNMax with its threshold, its two noises and its most labels.
    """
    from api.cli.files import check_writable, write_whole
    from api.cli.report import as_json, columns
    from darrm_opt.errors import InvalidInput
    from darrm_opt.plurality import PluralityObjective, PluralityProblem, compare_mechanisms, parse_prior
    from darrm_opt.plurality.designer import design_releases
    from darrm_opt.plurality.mechanisms import MECHANISMS
    from darrm_opt.plurality.plan import noise_for, release_target
    from darrm_opt.plurality.record import plurality_record, rule_record

    check_writable(output, "output")
    written = ("optimal", *MECHANISMS, "noise")
    if mechanism not in written:
        raise InvalidInput("mechanism", mechanism, "one of " + ", ".join(written))
    for option, value in (("mechanism", mechanism), ("time_limit", time_limit)):
        if ways and value not in ("optimal", None):
            raise InvalidInput(option, value, "nothing beside --ways", "It compares every mechanism.")
    if votes is not None and prior != DEFAULT_PRIOR:
        raise InvalidInput("prior", prior, "nothing beside --votes", "The votes are the prior.")
    total = _total(target_epsilon, delta, total_epsilon, total_delta, queries)
    if mechanism == "noise":
        noisy = noise_for(total, number(queries), K=number(K), classes=number(classes), affected=number(affected))
        if output is not None:
            write_whole(output, as_json(noisy.record()).encode())
        spent = noisy.epsilon(number(queries), total.delta)
        found_noise = {**noisy.record(), "queries": number(queries), "epsilon": spent, "delta": total.delta}
        answer(
            as_json(found_noise)
            if json
            else f"σ = {noisy.sigma:.6g} votes on each count: {queries} labels are ({spent:.6g}, {total.delta:g})-DP together."
        )
        return
    law = parse_prior(prior) if votes is None else _past_votes(votes, K, classes)
    objective = PluralityObjective(law, ties, number(price))  # type: ignore[arg-type]  # checked there
    if ways:
        design = design_releases(
            number(K), number(classes), total, number(queries), affected=number(affected), objective=objective
        )
        _show_ways(design, output, json=json)
        return
    problem = PluralityProblem(
        number(K), number(classes), release_target(total, number(queries)), number(affected), abstention=abstention
    )
    found = compare_mechanisms(problem, objective, time_limit=None if time_limit is None else number(time_limit))
    solution = found.solution
    if output is not None:
        chosen = found.mechanisms.get(mechanism)
        record = plurality_record(solution) if chosen is None else rule_record(chosen.problem, chosen.rule)
        write_whole(output, as_json(record).encode())
    if json:
        answer(as_json(found.as_dict()))
    else:
        rows = [["optimal rule", f"{solution.utility:.6f}"]]
        rows += [[name.replace("_", " "), f"{utility:.6f}"] for name, utility in found.ways.items()]
        answer(
            f"{problem.K} voters, {problem.classes} classes, one record moves {problem.affected}: the released class is "
            f"({problem.target.epsilon:g}, {problem.target.delta:g})-DP.\n"
            f"{columns(['way', 'utility'], rows)}\n"
            f"optimal    no private rule is worth more than {solution.upper_bound:.9f} (gap {solution.gap:.1e})\n"
            f"private    proved for these very numbers over {solution.certificate.edges:,} neighbouring vote counts; at the "
            f"tightest, {solution.certificate.margin:.1e} of probability is to spare"
        )
    end(ExitCode.DONE if solution.status.value == "optimal" else ExitCode.NOT_OPTIMAL)


def _past_votes(path: str, K: str | None, classes: str | None) -> PastVotes:
    """Return the prior of a file of votes that are public, or not protected."""
    import numpy as np

    from api.cli.vote_files import blocks
    from darrm_opt.errors import InvalidInput
    from darrm_opt.plurality import PastVotes
    from darrm_opt.problem import whole_number

    voters = whole_number(number(K), "K", "a whole number of voters, at least 1")
    many = whole_number(number(classes), "classes", "a whole number of classes, at least 2", least=2)
    tables = list(blocks(path, voters, VOTE_ROWS, many))
    if not tables:
        raise InvalidInput("votes", path, "a file with at least one row of votes")
    return PastVotes.of_votes(np.concatenate(tables), many)


def _total(
    target_epsilon: str | None, delta: str, total_epsilon: str | None, total_delta: str | None, queries: str
) -> Privacy:
    """Return the privacy of all releases together, from that of one or from the total."""
    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Privacy, real_number

    accepted = "a number of nats, at least 0"
    if total_epsilon is None:
        if number(queries) != 1:
            raise InvalidInput("total_epsilon", None, accepted, "Several releases share a total: see --total-delta.")
        if total_delta is not None:
            raise InvalidInput("total_epsilon", None, accepted, "--total-delta belongs to it.")
        return Privacy(real_number(number(target_epsilon), "target_epsilon", accepted), number(delta))
    if target_epsilon is not None:
        raise InvalidInput("target_epsilon", target_epsilon, "one of --target-epsilon and --total-epsilon")
    if delta != "0":
        raise InvalidInput("delta", delta, "nothing beside --total-epsilon", "Give --total-delta.")
    epsilon = real_number(number(total_epsilon), "total_epsilon", accepted)
    try:
        return Privacy(epsilon, number(total_delta or "0"))
    except InvalidInput as err:
        raise InvalidInput(f"total_{err.argument}", err.value, err.accepted, err.advice) from err


def _show_ways(design: ReleaseDesign, output: str | None, *, json: bool) -> None:
    """Print every way, and write the best one that `darrm label` can release."""
    from api.cli.files import write_whole
    from api.cli.report import as_json, columns

    if output is not None:
        way, mechanism = next((way, way.mechanism) for way in design.ways if way.mechanism is not None)
        write_whole(output, as_json(mechanism.record()).encode())
        wrote = f"\nwritten    {way.name.replace('_', ' ')}: release at most {design.queries} with it (darrm label --queries)"
    else:
        wrote = ""
    if json:
        answer(as_json(design.as_dict()))
        return
    rows = [
        [
            way.name.replace("_", " "),
            *(f"{share:.4f}" for share in (way.right, way.wrong, way.abstained, way.worth)),
            f"{way.epsilon:.4f}",
            ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in way.parameters.items()),
        ]
        for way in design.ways
    ]
    heads = ["way", "right", "wrong", "abstained", "worth", "ε", "parameters"]
    answer(
        f"{design.K} voters, {design.classes} classes, {design.queries} queries: all answers together are "
        f"({design.total.epsilon:g}, {design.total.delta:g})-DP.\n{columns(heads, rows)}\n"
        f"worth      right − {design.objective.price:g}·wrong, a query; shares are expectations under the prior, ε is proved{wrote}"
    )
