"""Release logs of `darrm label`: opened within a budget, and described."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from darrm.cli.cached_solve import solution_in
from darrm.cli.files import read_text
from darrm.cli.output import ProgressDisplay, answer, as_json, say
from darrm.cli.parameters import number, total_privacy
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.arguments import whole_number
from darrm_opt.design.report import assumed_text, count_text, guarantee, text_above
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.base import mechanism_from_record, mechanism_kinds
from darrm_opt.mechanisms.table import GroupTableMechanism
from darrm_opt.problem import Privacy
from darrm_opt.record import planned_total
from darrm_opt.release import ReleaseLog
from darrm_opt.release.log import mechanism_of
from darrm_opt.tables.record import group_records
from darrm_opt.untrusted import json_value, typed


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


def spent_text(log: ReleaseLog) -> str:
    """Return how many releases are spent, and what all that the log allows cost together."""
    tested = "" if log.proposal is None else ", by propose-test-release: the votes passed the test"
    whole = "This release" if log.limit == 1 else f"All {log.limit:,} together"
    total = "" if log.budget is None else f" {whole}: {log.in_words}{tested}."
    return f"{log.spent:,} of {count_text(log.limit, 'release is', 'releases are')} spent.{total}"


def assumption(log: ReleaseLog) -> str:
    """Return what the total of a release log takes its voters to be."""
    mechanism = log.mechanism
    return (
        assumed_text(mechanism.private_voters, log.limit, fresh=log.fresh, brief=True)
        or f"A record moves at most {count_text(mechanism.affected, 'vote', 'votes')}."
    )


def show_status(log: ReleaseLog, delta: str | None, *, json: bool) -> None:
    """Print what is spent of a release log, what remains, and the (ε, δ) of the releases so far.

    ``delta``: δ at which ε is said, as typed; None: that of the budget, or 0 where there is none.
    """
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
        "nothing is released"
        if fields["spent"] == 0
        else f"no ε is proved at δ = {so_far.delta:g}: give --total-delta"
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
    left = count_text(fields["left"], "is", "are") if fields["left"] else "none are"
    lines = [
        f"mechanism  {log.mechanism.description}",
        f"budget     {total} ({proof})",
        f"spent      {count_text(fields['spent'], 'release')}{labels}; {left} left",
        *test,
        f"so far     {proved}",
        *(_group_text(number, group) for number, group in enumerate(groups.get("groups", ()), 1)),
        f"assumed    {assumption(log)}",
        "If you stop early because of the labels, count the whole budget as spent.",
    ]
    answer("\n".join(lines))


def group_fields(log: ReleaseLog, spent: int, delta: float) -> dict[str, list[dict[str, Any]]]:
    """Return what the releases so far cost the records of each group of a table of groups, as plain data."""
    if not isinstance(log.mechanism, GroupTableMechanism):
        return {}
    voters = group_records(log.mechanism.problem.groups)
    costs = log.group_costs(spent, delta)
    for group, each in zip(voters, costs, strict=True):
        group["spent_epsilon"] = each.epsilon if each.epsilon < math.inf else None
        group |= {"spent_delta": each.delta, "account": each.account}
    return {"groups": voters}


def _group_text(number: int, group: dict[str, Any]) -> str:

    spent, at = group["spent_epsilon"], f"at δ = {group['spent_delta']:g}"
    proved = f"no ε is proved {at}" if spent is None else f"ε = {text_above(spent, '.6g')} {at}"
    return f"group {number}    {group['K']} voters of ε = {group['epsilon']}: {proved} for their records"


def mechanism_in(source: str, *, fresh: bool) -> tuple[VoteMechanism, tuple[int, Privacy] | None]:
    """Return the mechanism of a file, proved, and the queries and the total of its plan, which may say it too."""
    record = None
    if source != "-":  # which can be read once
        with suppress(ValueError):  # reported when it is read as an answer of `darrm solve`
            record = json_value(read_text(source, "solution"))
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
