"""Verb ``darrm label``: private labels for a file of votes."""

from __future__ import annotations

from typing import Annotated

from darrm.cli.output import ProgressDisplay
from darrm.cli.parameters import (
    AsJson,
    Drawn,
    MissingVotes,
    declared_option,
    meaning_of_fresh,
    needed_files,
    number,
)
from darrm.cli.parser import Argument, CommandOption

_BUDGET = "The budget of a new release log"


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
            "--total-epsilon",
            "ε of all releases together, instead of --queries; as many are allowed as fit.",
            "NATS",
            _BUDGET,
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
            "ε and δ of propose-test-release, instead of --queries: all labels are released together if a noisy test "
            "of the votes passes.",
            "NATS,PROBABILITY",
            _BUDGET,
            alias="--earned",
        ),
    ] = None,
    leader_share: Annotated[
        str,
        CommandOption("--leader-share", "Expected mean share of agreeing voters, with --ptr.", "SHARE", _BUDGET),
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
            "Command that votes on samples of the records, instead of VOTES; with --records, or a mechanism planned "
            "for them.",
            "COMMAND",
        ),
    ] = None,
    missing: MissingVotes = None,
    block: Annotated[str, CommandOption("--block", "Rows charged and released together.", "COUNT")] = "65536",
    *,
    fresh: Annotated[bool, CommandOption("--fresh", meaning_of_fresh, panel=_BUDGET)] = False,
    dry_run: Annotated[
        bool,
        CommandOption("--dry-run", "Test the --ask command with three made-up samples, and charge nothing."),
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
    from darrm.cli.label_job import (
        check_label_files,
        label_file,
        label_samples,
        needed_command,
        saying_what_is_kept,
        show_labelled,
        try_command,
        votes_of,
    )
    from darrm.cli.ptr import open_ptr_log
    from darrm.cli.release_logs import mechanism_in, open_log, show_status
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
        command = needed_command(ask)
        _refuse_beside("--ask", votes=votes_file or votes, ptr=ptr, fresh=fresh or None)
        if dry_run:
            (source,) = needed_files(solution=solution)
            try_command(command, source, drawn, voted, json=json)
            return
        source, log_file, labels = needed_files(solution=solution, release_log=release_log, output=output)
        budget = queries, total_epsilon, total_delta
        with saying_what_is_kept(log_file, of_samples=True):
            label_samples(command, source, log_file, labels, drawn, budget, release_id, voted, json=json)
        return
    if dry_run:
        raise InvalidInput("dry_run", dry_run, Rule("needs --ask"))
    files = {"solution": solution, "output": output, "release_log": release_log, "votes": votes_file or votes}
    source, labels, log_file, source_of_votes = needed_files(**files)
    if votes_file is not None:
        _refuse_beside("the argument VOTES", votes=votes)
    if ptr is not None:
        _refuse_beside("--ptr", queries=queries, total_epsilon=total_epsilon, total_delta=total_delta)
    elif leader_share != "0.9":
        raise InvalidInput("leader_share", leader_share, Rule("needs --ptr"))
    check_writable(labels, "output")
    check_writable(log_file, "release_log")
    rows = whole_number(number(block), "block", "a whole number of rows, at least 1")
    mechanism, planned = mechanism_in(source, fresh=fresh)
    voting = votes_of(mechanism, source_of_votes, voted)
    count = check_label_files(voting, labels, rows)
    with ProgressDisplay("proving the budget"):
        log = (
            open_log(log_file, mechanism, queries, total_epsilon, total_delta, planned=planned, first=count)
            if ptr is None
            else open_ptr_log(log_file, mechanism, ptr, leader_share, count)
        )
    if log.proposal is not None:
        rows = count  # all labels at once, or none
    with saying_what_is_kept(labels):
        vote = PrivateVote(mechanism, log)
        result = label_file(voting, labels, vote, log, release_id=release_id, rows=rows, count=count)
    show_labelled(result, log, labels, json=json)


def _refuse_beside(option: str, **typed: str | bool | None) -> None:
    """Refuse what was typed beside an option that it has no meaning with."""
    from darrm_opt.errors import InvalidInput, Rule

    for name, value in typed.items():
        if value is not None:
            raise InvalidInput(name, value, Rule(f"cannot be combined with {option}"))
