"""Verb ``darrm label``: private labels for a file of votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from darrm.cli.output import answer, say
from darrm.cli.parameters import FRESH, AsJson, number, total_privacy
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm_opt.accounting import Release
    from darrm_opt.mechanism import ReleaseLog
    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.plurality.release_log import PluralityLog

_BUDGET = "The budget, where the release log is new"


def label(
    votes: Annotated[
        str, Argument("VOTES", "A .csv, .parquet or .npy file: a row for each label, a column for each voter.")
    ],
    solution: Annotated[
        str | None, CommandOption("--solution", "An answer of `darrm solve`, or a rule of `darrm plurality`.", "FILE")
    ] = None,
    release_log: Annotated[
        str | None,
        CommandOption("--release-log", "What was released so far; created if there is no such file.", "FILE"),
    ] = None,
    output: Annotated[
        str | None, CommandOption("--output", "Where the labels go: .csv, .parquet or .npy.", "FILE")
    ] = None,
    queries: Annotated[
        str | None, CommandOption("--queries", "Releases that the release log allows in all.", "COUNT", _BUDGET)
    ] = None,
    total_epsilon: Annotated[
        str | None,
        CommandOption("--total-epsilon", "Or ε of all releases together; as many as fit are allowed.", "NATS", _BUDGET),
    ] = None,
    total_delta: Annotated[
        str | None,
        CommandOption("--total-delta", "δ of all releases together, in [0, 1).", "PROBABILITY", _BUDGET, "0"),
    ] = None,
    release_id: Annotated[
        str | None,
        CommandOption(
            "--release-id",
            "Name of this job in the release log.",
            "TEXT",
            otherwise="a new one, kept beside the output",
        ),
    ] = None,
    block: Annotated[str, CommandOption("--block", "Rows that are charged and released together.", "COUNT")] = "65536",
    *,
    fresh: Annotated[bool, CommandOption("--fresh", FRESH, panel=_BUDGET)] = False,
    json: AsJson = False,
) -> None:
    """Release a private label for each row of votes, within a budget that lasts.

    Each label is charged to the release log before it leaves. After ctrl-C or a crash, the same command goes on where
    it stopped: what was released is not charged again. Votes are never printed or logged.
    """
    from darrm.cli.cached_solve import release_of
    from darrm.cli.files import check_writable
    from darrm.cli.label_job import check_label_files, label_file
    from darrm.cli.parameters import DesignOptions, ProblemOptions
    from darrm.cli.report import as_json, assumed_text
    from darrm_opt.mechanism import PrivateMajority
    from darrm_opt.plurality.private_plurality import PrivatePlurality
    from darrm_opt.problem import whole_number
    from darrm_opt.record import problem_record

    source, labels = needed(solution, "solution"), needed(output, "output")
    log_file = needed(release_log, "release_log")
    check_writable(labels, "output")
    check_writable(log_file, "release_log")
    rows = whole_number(number(block), "block", "a whole number of rows, at least 1")
    plurality = plurality_of(source)
    release = plurality or release_of(ProblemOptions(), DesignOptions(), source)
    K, classes = (
        (plurality.K, plurality.classes) if plurality else (release.problem.K, None)  # type: ignore[union-attr]
    )
    count = check_label_files(votes, labels, K, classes, rows)
    log = open_log(log_file, release, queries, total_epsilon, total_delta, fresh=fresh, first=count)
    mechanism: PrivateMajority | PrivatePlurality
    if plurality is None:
        mechanism = PrivateMajority(release, log)  # type: ignore[arg-type]  # no plurality, so a majority
        problem = problem_record(mechanism.problem)
    else:
        mechanism = PrivatePlurality(plurality, log)
        problem = plurality.record()
        problem = problem.get("problem", problem)
    try:
        result = label_file(votes, labels, mechanism, log, release_id=release_id, rows=rows, count=count)
    except (KeyboardInterrupt, OSError):
        say("The same command goes on where this stopped; what was released is not charged again.")
        raise
    spent = log.spent
    if json:
        answer(
            as_json(
                {
                    "labels": result.labels,
                    "resumed": result.resumed,
                    "output": labels,
                    "release_id": result.release_id,
                    "release_log": log_file,
                    "spent": spent,
                    "left": log.limit - spent,
                    "limit": log.limit,
                    "fresh": log.fresh,
                    "total_epsilon": None if log.budget is None else log.budget.epsilon,
                    "total_delta": None if log.budget is None else log.budget.delta,
                    "problem": problem,
                }
            )
        )
        return
    budget_text = "" if log.budget is None else f": {log.in_words}"
    lines = [f"{result.labels:,} labels in {labels}. {spent:,} of {log.limit:,} releases are spent{budget_text}."]
    if isinstance(mechanism, PrivateMajority) and log.budget is not None:
        lines += filter(None, [assumed_text(mechanism.problem, log.limit, fresh=log.fresh)])
    answer("\n".join(lines))


def needed(value: str | None, argument: str) -> str:
    """Return what was typed for an option without which nothing works.

    Raises:
        InvalidInput: nothing was.
    """
    from darrm_opt.errors import InvalidInput

    if value is None:
        raise InvalidInput(argument, None, "a file")
    return value


def plurality_of(source: str) -> VoteMechanism | None:
    """Return the mechanism in a file that `darrm plurality` wrote, proved; None where the file is another one."""
    from darrm.cli.files import json_document, read_text

    if source == "-":  # can be read once
        return None
    text = read_text(source)
    try:
        record = json_document(text)
    except ValueError:
        return None  # said by whoever reads it as an answer of `darrm solve`
    from darrm_opt.mechanisms.base import mechanism_from_record, mechanism_kinds

    if not isinstance(record, dict) or record.get("kind") not in mechanism_kinds():
        return None
    return mechanism_from_record(record)


def open_log(
    path: str,
    release: Release | VoteMechanism,
    queries: str | None,
    total_epsilon: str | None,
    total_delta: str | None,
    *,
    fresh: bool,
    first: int = 0,
) -> ReleaseLog | PluralityLog:
    """Return the release log at ``path``, created if there is none and it allows ``first`` releases.

    Raises:
        BudgetSpent: it would be created, and allows fewer.
        InvalidInput: it is new and no budget was typed, or two; or it has another budget or another mechanism.
    """
    from darrm_opt.errors import InvalidInput
    from darrm_opt.mechanism import ReleaseLog
    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.plurality.release_log import PluralityLog

    if total_delta is not None and total_epsilon is None:
        raise InvalidInput("total_epsilon", None, "ε of all releases [nats], with --total-delta")
    if queries is not None and total_epsilon is not None:
        raise InvalidInput("queries", queries, "one of --queries and --total-epsilon")
    total = None if total_epsilon is None else total_privacy(total_epsilon, total_delta or "0")
    limit = number(queries)
    try:
        if isinstance(release, VoteMechanism):  # its voters are not private: whether they are fresh makes no difference
            return PluralityLog.open_or_create(path, release, budget=total, queries=limit, first=first)
        return ReleaseLog.open_or_create(path, release, budget=total, queries=limit, fresh=fresh, first=first)
    except InvalidInput as err:
        if err.argument != "budget":
            raise
        if total is not None:
            raise InvalidInput("total_epsilon", total_epsilon, err.accepted, err.advice) from err
        raise InvalidInput(
            "release_log",
            path,
            "an existing release log, or a budget to create one with",
            "Give --total-epsilon and --total-delta, or --queries.",
        ) from err
