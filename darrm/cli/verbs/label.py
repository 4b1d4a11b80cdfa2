"""Verb ``darrm label``: private labels for a file of votes."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ProgressDisplay, answer, as_json, say
from darrm.cli.parameters import (
    AsJson,
    Drawn,
    MissingVotes,
    declared_option,
    meaning_of_fresh,
    number,
    refuse_missing,
    total_privacy,
)
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm.cli.label_job import LabelResult
    from darrm.cli.vote_files import Missing
    from darrm_opt.accounting import Sampling
    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.problem import Privacy
    from darrm_opt.release import ReleaseLog

_BUDGET = "The budget of a new release log"

TRIALS = 3
"""Queries of a dry run."""


def label(
    drawn: Drawn,
    votes_file: Annotated[
        str | None, Argument("VOTES", "A .csv, .parquet or .npy file with one row per label and one column per voter.")
    ] = None,
    votes: Annotated[str | None, CommandOption("--votes", "The same file, as an option.", "FILE")] = None,
    solution: Annotated[
        str | None, CommandOption("--solution", "Output of `darrm solve`, `plan` or `cost`.", "FILE")
    ] = None,
    release_log: Annotated[
        str | None,
        CommandOption("--release-log", "Log of past releases; created if it does not exist.", "FILE"),
    ] = None,
    output: Annotated[
        str | None, CommandOption("--output", "Output file for the labels: .csv, .parquet or .npy.", "FILE")
    ] = None,
    queries: Annotated[
        str | None,
        CommandOption("--queries", "Total number of releases that the release log allows.", "COUNT", _BUDGET),
    ] = None,
    total_epsilon: Annotated[
        str | None,
        CommandOption(
            "--total-epsilon", "Or ε of all releases together; the log allows as many as fit.", "NATS", _BUDGET
        ),
    ] = None,
    total_delta: Annotated[
        str | None,
        declared_option("total_delta", _BUDGET, "0"),
    ] = None,
    ptr: Annotated[
        str | None,
        CommandOption(
            "--ptr",
            "Or ε and δ of propose-test-release: all labels are released together if a noisy test of the votes passes.",
            "NATS,PROBABILITY",
            _BUDGET,
            alias="--earned",
        ),
    ] = None,
    leader_share: Annotated[
        str,
        CommandOption("--leader-share", "With --ptr: expected mean share of agreeing voters.", "SHARE", _BUDGET),
    ] = "0.9",
    release_id: Annotated[
        str | None,
        CommandOption(
            "--release-id",
            "Name of this job in the release log.",
            "TEXT",
            otherwise="a new one, kept beside the output",
        ),
    ] = None,
    status: Annotated[
        str | None,
        CommandOption(
            "--status", "Print what this release log has spent, what is left, and its ε so far; release nothing.", "LOG"
        ),
    ] = None,
    ask: Annotated[
        str | None,
        CommandOption(
            "--ask",
            "With --records, or a mechanism planned for them: the command that votes on samples, instead of VOTES.",
            "COMMAND",
        ),
    ] = None,
    missing: MissingVotes = None,
    block: Annotated[str, CommandOption("--block", "Rows charged and released together.", "COUNT")] = "65536",
    *,
    fresh: Annotated[bool, CommandOption("--fresh", meaning_of_fresh, panel=_BUDGET)] = False,
    dry_run: Annotated[
        bool,
        CommandOption("--dry-run", "With --ask: test the command with three made-up samples; charge nothing."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Release a private label for each row of votes, within a persistent budget.

    Each label is charged to the release log before it is released. After ctrl-C or a crash, the same command resumes;
    labels already released are not charged again. Votes are never printed or logged. The file states the voters' own
    privacy, (ε, Δ) or a profile, for which its γ or table is proved and its releases are charged.

    With --ask, each query uses a fresh, secret sample of the records, drawn here. The command reads a line of JSON
    with the query's number and the numbers of the records of each voter, such as {"query": 0, "shares": [[12, 7],
    [3]]} for two voters, and writes and flushes a line with their votes, a JSON list of K classes, such as [2, 0].
    If one sample serves all labels of a text, the command is asked for each label in turn, given the "labels" so far.
    It is tested once before anything is charged ("trial": true). A query for which it fails is spent, and its output
    is -2.

    With --ptr, the file is one fixed batch of queries to a noisy vote (gnmax). The test is fixed before the votes are
    read, and runs once; its total is spent in any case. If it fails, nothing is released, and the exit code is 4.
    """
    from darrm.cli.files import check_writable
    from darrm.cli.label_job import check_label_files, classes_of_votes, label_file
    from darrm.cli.ptr import open_ptr_log
    from darrm.cli.vote_files import missing_votes
    from darrm_opt.arguments import whole_number
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.release import PrivateVote, ReleaseLog

    if status is not None:
        show_status(ReleaseLog(status), total_delta, json=json)
        return
    # Samples are drawn here and charged before they are seen: another order of work, with no file of votes.
    voted = missing_votes(missing)
    if ask is not None or any(drawn.values()):
        nothing = {"votes": votes_file or votes, "ptr": ptr, "fresh": fresh or None}
        budget = queries, total_epsilon, total_delta
        files = solution, release_log, output
        _label_samples(ask, drawn, files, budget, release_id, nothing, voted, dry_run=dry_run, json=json)
        return
    if dry_run:
        raise InvalidInput("dry_run", dry_run, Rule("needs --ask"))
    refuse_missing(
        solution=(solution, "a file"),
        output=(output, "a file"),
        release_log=(release_log, "a file"),
        votes=(votes_file or votes, "a file"),
    )
    source, labels = required(solution, "solution"), required(output, "output")
    log_file = required(release_log, "release_log")
    if votes_file is not None and votes is not None:
        raise InvalidInput("votes", votes, Rule("cannot be combined with the argument VOTES"))
    votes = required(votes_file or votes, "votes")
    _refuse_other_budget(ptr, leader_share, queries=queries, total_epsilon=total_epsilon, total_delta=total_delta)
    check_writable(labels, "output")
    check_writable(log_file, "release_log")
    rows = whole_number(number(block), "block", "a whole number of rows, at least 1")
    mechanism, planned = mechanism_in(source, fresh=fresh)
    voted = _missing_for(voted, mechanism)
    count = check_label_files(votes, labels, mechanism.K, classes_of_votes(mechanism), rows, voted)
    with ProgressDisplay("proving the budget"):
        log = (
            open_log(log_file, mechanism, queries, total_epsilon, total_delta, planned=planned, first=count)
            if ptr is None
            else open_ptr_log(log_file, mechanism, ptr, leader_share, count)
        )
    if log.proposal is not None:
        rows = count  # all labels at once, or none
    try:
        result = label_file(
            votes,
            labels,
            PrivateVote(mechanism, log),
            log,
            release_id=release_id,
            rows=rows,
            count=count,
            missing=voted,
        )
    # What was released stays in the log under the job's name: the same command finds it there.
    except (KeyboardInterrupt, OSError):
        say("The same command continues where this stopped; released labels are not charged again.")
        raise
    _say_labelled(result, log, labels, json=json)


def _say_labelled(result: LabelResult, log: ReleaseLog, output: str, *, json: bool) -> None:
    from darrm_opt.design.report import count_text

    if json:
        record = log.mechanism.record()
        released = {"labels": result.labels, "resumed": result.resumed, "output": output}
        released |= {"release_id": result.release_id, "release_log": str(log.path)}
        answer(as_json(released | budget_fields(log) | {"problem": record.get("problem", record)}))
        return
    written = count_text(result.labels, "label")
    lines = [f"{written} in {output}. {_spent_text(log)}"]
    if log.budget is not None:
        lines += filter(None, [assumption(log)])
    answer("\n".join(lines))


def _label_samples(
    ask: str | None,
    drawn: dict[str, Any],
    files: tuple[str | None, str | None, str | None],
    budget: tuple[str | None, str | None, str | None],
    release_id: str | None,
    nothing: dict[str, Any],
    missing: Missing | None,
    *,
    dry_run: bool,
    json: bool,
) -> None:
    """Release labels of queries that have a fresh sample of the records each."""
    from darrm.cli.files import check_writable
    from darrm.cli.label_job import answering, label_asked, sampled_mechanism
    from darrm_opt.arguments import whole_number
    from darrm_opt.design.report import count_text
    from darrm_opt.errors import InvalidInput, Rule

    if ask is None:
        raise InvalidInput("ask", None, "the command that votes on samples", "A file of votes has no samples.")
    # Votes of samples that were drawn elsewhere have no account here; the test of a batch needs all of its votes at
    # once.
    for name, value in nothing.items():
        if value is not None:
            raise InvalidInput(name, value, Rule("cannot be combined with --ask"))
    source = required(files[0], "solution")
    if dry_run:
        try_command(ask, drawn, source, missing, json=json)
        return
    log_file, labels = required(files[1], "release_log"), required(files[2], "output")
    check_writable(labels, "output")
    check_writable(log_file, "release_log")
    # What is there is the whole of an earlier job: labels are not overwritten.
    if Path(labels).exists():
        raise InvalidInput("output", labels, "a file that does not exist yet")
    mechanism, sampling, planned = sampled_mechanism(source, drawn)
    asked = None if budget[0] is None else whole_number(number(budget[0]), "queries", "a whole number", least=1)
    if asked is not None and asked % sampling.labels:
        raise InvalidInput("queries", asked, f"whole texts of {sampling.labels} labels each")
    with answering(ask, mechanism, _missing_for(missing, mechanism)) as answerer:
        # A wrong form of answer costs nothing: it is seen before there is a log, and before a sample is drawn.
        with ProgressDisplay("trying the command"):
            answerer.try_once(sampling)
        with ProgressDisplay("proving the budget"):
            # Opened before anything is drawn: a sample is charged before anybody sees it.
            log = open_log(log_file, mechanism, *budget, planned=planned, sampling=sampling)
        # An older log is for its own scheme, whose total does not hold for another.
        if log.sampling != sampling:
            raise InvalidInput("release_log", log_file, f"the release log of {sampling.words}")
        count = log.limit if asked is None else asked
        released, unanswered = label_asked(answerer, labels, mechanism, sampling, log, count, release_id)
    if unanswered:
        say(
            f"The command failed for {count_text(len(unanswered), 'query', 'queries')}, spent and -2 in {labels}: "
            + ", ".join(map(str, unanswered))
        )
    if released < count // sampling.labels * sampling.labels:
        say("The last queries have no label: samples that were drawn when a process ended are spent, rounds whole.")
    fields = {"labels": released, "unanswered": unanswered, "output": labels, "release_log": log_file}
    fields |= budget_fields(log)
    answer(
        as_json(fields | {"sampling": sampling.record()})
        if json
        else f"{count_text(released, 'label')} in {labels}. {_spent_text(log)}"
    )


def _spent_text(log: ReleaseLog) -> str:
    """Return how many releases are spent, and what all that the log allows cost together."""
    from darrm_opt.design.report import count_text

    tested = "" if log.proposal is None else ", by propose-test-release: the votes passed the test"
    whole = "This release" if log.limit == 1 else f"All {log.limit:,} together"
    total = "" if log.budget is None else f" {whole}: {log.in_words}{tested}."
    return f"{log.spent:,} of {count_text(log.limit, 'release is', 'releases are')} spent.{total}"


def _missing_for(missing: Missing | None, mechanism: VoteMechanism) -> Missing | None:
    """Return the same for a mechanism, or refuse it: missing votes of a group become votes of that group."""
    from darrm_opt.errors import InvalidInput
    from darrm_opt.mechanisms.table import GroupTableMechanism
    from darrm_opt.tables.votes import AS_CLASS, EVENLY

    if missing is None:
        return None
    # Dealt in turn, the votes of private voters would not be independent: proved for one of them alone.
    if missing.how == EVENLY and mechanism.private_voters and mechanism.affected > 1:
        accepted = f"{AS_CLASS}, where a record reaches {mechanism.affected} private voters"
        raise InvalidInput("missing", missing.how, accepted, "Or design for voters that are not private.")
    if isinstance(mechanism, GroupTableMechanism):
        missing = replace(missing, groups=tuple(group.K for group in mechanism.problem.groups))
    missing.check(mechanism.K, mechanism.classes)
    return missing


def try_command(ask: str, drawn: dict[str, Any], solution: str, missing: Missing | None, *, json: bool) -> None:
    """Ask a command about made-up shares and say how it answered."""
    from time import monotonic

    from darrm.cli.label_job import answering, sampled_mechanism

    mechanism, sampling, _ = sampled_mechanism(solution, drawn)
    started = monotonic()
    voted = _missing_for(missing, mechanism)
    with answering(ask, mechanism, voted) as answerer, ProgressDisplay("trying the command"):
        answerer.try_once(sampling, TRIALS)
    answered = TRIALS * sampling.labels
    fields = {"answered": answered, "voters": mechanism.K, "classes": mechanism.classes}
    answer(
        as_json(fields | {"seconds": monotonic() - started})
        if json
        else f"The command answered {answered} lines about made-up shares, each by {mechanism.K} classes "
        f"0 to {mechanism.classes - 1}, in {monotonic() - started:.1f} s. Nothing was drawn or charged."
    )


def _refuse_other_budget(ptr: str | None, leader_share: str, **budget: str | None) -> None:
    """Refuse what was typed of another budget than the one that there is."""
    from darrm_opt.errors import InvalidInput, Rule

    if ptr is None and leader_share != "0.9":
        raise InvalidInput("leader_share", leader_share, Rule("needs --ptr"))
    for name, text in budget.items():
        if ptr is not None and text is not None:
            raise InvalidInput(name, text, Rule("cannot be combined with --ptr"))


def budget_fields(log: ReleaseLog) -> dict[str, Any]:
    """Return the state of a release log as plain data."""
    spent, budget = log.spent, log.budget
    return {
        "spent": spent,
        "left": log.limit - spent,
        "limit": log.limit,
        "fresh": log.fresh,
        "total_epsilon": None if budget is None else budget.epsilon,
        "total_delta": None if budget is None else budget.delta,
        "account": log.account,
    }


def show_status(log: ReleaseLog, delta: str | None, *, json: bool) -> None:
    """Print what is spent of a release log, what remains, and the (ε, δ) of the releases so far.

    ``delta``: δ at which ε is said, as typed; None: that of the budget, or 0 where there is none.
    """
    from darrm_opt.design.report import count_text, guarantee, text_above

    budget, fields = log.budget, budget_fields(log)
    at_delta = number(delta) if delta is not None else (0.0 if budget is None else budget.delta)
    with ProgressDisplay("accounting"):
        # Of the releases so far, as if their number had been fixed: the last line says when that is not so.
        so_far = log.cost(fields["spent"], at_delta)
    epsilon = so_far.epsilon if so_far.epsilon < math.inf else None
    groups = group_fields(log, fields["spent"], at_delta)
    if json:
        content = {"release_log": str(log.path), "mechanism": log.mechanism.name, "affected": log.mechanism.affected}
        released = {"labels": log.labels, "epsilon": epsilon, "delta": so_far.delta, "epsilon_account": so_far.account}
        if log.proposal is not None:
            released["passed"] = log.passed
        answer(as_json(content | fields | released | groups | {"assumption": assumption(log)}))
        return
    proved = (
        f"no ε is proved at δ = {so_far.delta:g}: give --total-delta"
        # What is proved depends on δ: at 0 most mechanisms have no total, so it says what to ask.
        if epsilon is None
        else f"ε = {text_above(epsilon, '.6g')} at δ = {so_far.delta:g}, by the account {so_far.account}"
    )
    total = count_text(log.limit, "release") + ("" if budget is None else f", {guarantee(budget)} in all")
    # A number that somebody gave proves no total.
    proof = "given, not proved" if log.account == "queries" else f"proved by the account {log.account}"
    labels = (
        ""
        if log.labels == fields["spent"] or log.passed is False
        else f", {log.labels:,} of them labels and the others {'⊥' if log.sampling is None else '⊥ or not released'}"
    )
    test = {None: [], True: ["test       passed"], False: ["test       not passed: nothing was released"]}[log.passed]
    lines = [
        f"mechanism  {log.mechanism.description}",
        f"budget     {total} ({proof})",
        f"spent      {count_text(fields['spent'], 'release')}{labels}; {count_text(fields['left'], 'is', 'are')} left",
        *test,
        f"so far     {proved}",
        *(_group_text(number, group) for number, group in enumerate(groups.get("groups", ()), 1)),
        f"assumed    {assumption(log)}",
        "A number of releases that was decided in view of the labels costs what the whole budget does.",
    ]
    answer("\n".join(lines))


def group_fields(log: ReleaseLog, spent: int, delta: float) -> dict[str, list[dict[str, Any]]]:
    """Return what the releases so far cost the records of each group of a table of groups, as plain data."""
    from darrm_opt.mechanisms.table import GroupTableMechanism
    from darrm_opt.tables.record import group_records

    if not isinstance(log.mechanism, GroupTableMechanism):
        return {}
    voters = group_records(log.mechanism.problem.groups)
    costs = log.group_costs(spent, delta)
    for group, each in zip(voters, costs, strict=True):
        group["spent_epsilon"] = each.epsilon if each.epsilon < math.inf else None
        group |= {"spent_delta": each.delta, "account": each.account}
    return {"groups": voters}


def _group_text(number: int, group: dict[str, Any]) -> str:
    from darrm_opt.design.report import text_above

    spent, at = group["spent_epsilon"], f"at δ = {group['spent_delta']:g}"
    proved = f"no ε is proved {at}" if spent is None else f"ε = {text_above(spent, '.6g')} {at}"
    return f"group {number}    {group['K']} voters of ε = {group['epsilon']}: {proved} for their records"


def assumption(log: ReleaseLog) -> str:
    """Return what the total of a release log takes its voters to be."""
    from darrm_opt.design.report import assumed_text, count_text

    mechanism = log.mechanism
    return (
        assumed_text(mechanism.private_voters, log.limit, fresh=log.fresh)
        or f"A record moves at most {count_text(mechanism.affected, 'vote', 'votes')}."
    )


def required(value: str | None, argument: str) -> str:
    """Return what was typed for an option without which nothing works."""
    from darrm_opt.errors import InvalidInput

    if value is None:
        raise InvalidInput(argument, None, "a file")
    return value


def mechanism_in(source: str, *, fresh: bool) -> tuple[VoteMechanism, tuple[int, Privacy] | None]:
    """Return the mechanism of a file, proved, and the queries and the total of its plan, which may say it too."""
    from darrm.cli.cached_solve import solution_in
    from darrm.cli.files import read_text
    from darrm_opt.accounting.release_profile import Release
    from darrm_opt.errors import InvalidInput
    from darrm_opt.mechanisms.base import mechanism_from_record, mechanism_kinds, planned_total
    from darrm_opt.release.log import mechanism_of
    from darrm_opt.untrusted import json_value, typed

    record = None
    if source != "-":  # which can be read once
        with suppress(ValueError):  # reported when it is read as an answer of `darrm solve`
            record = json_value(read_text(source))
    if isinstance(record, dict) and record.get("kind") in mechanism_kinds():
        if "sampling" in record:  # its total holds for samples that nobody can see in a file of votes
            accepted = "a mechanism for votes of records that are in every query"
            advice = "--ask COMMAND draws samples; in Python an EnsembleSampler with a PrivateVote and a ReleaseLog."
            raise InvalidInput("solution", source, accepted, advice)
        return mechanism_of(mechanism_from_record(record), fresh=fresh), planned_total(record)
    release = Release.of(solution_in(source))
    plan = record if isinstance(record, dict) else {}
    return mechanism_of(release, fresh=fresh or typed(bool, plan.get("fresh", False), "fresh")), planned_total(plan)


def _is_within(total: Privacy, planned: Privacy) -> bool:
    return total.epsilon <= planned.epsilon and total.delta <= planned.delta


def open_log(
    path: str,
    mechanism: VoteMechanism,
    queries: str | None,
    total_epsilon: str | None,
    total_delta: str | None,
    *,
    planned: tuple[int, Privacy] | None = None,
    first: int = 0,
    sampling: Sampling | None = None,
) -> ReleaseLog:
    """Return the release log at ``path``, created if there is none and it allows ``first`` releases.

    ``queries``, ``total_epsilon`` and ``total_delta`` are the budget as typed; ``planned``, the queries and the total
    that the mechanism was designed for, where nothing was.
    """
    from darrm_opt.arguments import whole_number
    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Privacy
    from darrm_opt.release import ReleaseLog

    if total_delta is not None and total_epsilon is None and queries is None:
        raise InvalidInput("total_epsilon", None, "ε of all releases [nats], with --total-delta")
    if queries is not None and total_epsilon is not None:
        raise InvalidInput("queries", queries, "either --queries or --total-epsilon")
    total = None if total_epsilon is None else total_privacy(total_epsilon, total_delta or "0")
    limit = None if queries is None else whole_number(number(queries), "queries", "a whole number of releases", least=0)
    is_new = not Path(path).exists()
    # A number and a δ: the ε of so many is proved and becomes the budget, so that the log says what it is for.
    if is_new and limit is not None and total_delta is not None:
        epsilon = mechanism.cost(limit, number(total_delta), sampling).epsilon
        if epsilon == math.inf:
            accepted = f"a δ at which an ε of {limit} releases is proved"
            raise InvalidInput("total_delta", total_delta, accepted)
        total = Privacy(epsilon, number(total_delta))
    elif is_new and planned is not None and total is not None and not _is_within(total, planned[1]):
        from darrm_opt.design.report import count_text, guarantee

        plan = f"{count_text(planned[0], 'release')} within {guarantee(planned[1])}"
        say(f"Warning: the plan in the file is for {plan}; this release log allows {guarantee(total)}.")
    elif is_new and planned is not None and total is None:
        limit = planned[0] if limit is None else limit
        # Fewer than were planned cost less than the plan's total; more do not fit in it.
        total = planned[1] if limit <= planned[0] else None  # which `create` proves
    try:
        return ReleaseLog.open_or_create(path, mechanism, budget=total, queries=limit, first=first, sampling=sampling)
    # The log speaks of a budget: here it has the names of options.
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
