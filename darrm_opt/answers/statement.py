"""Privacy statement of a release, to be filed: its guarantee, unit of privacy, proof and assumptions.

The fields answer what NIST SP 800-226 asks of a differential privacy guarantee: ε and δ, the unit of privacy, the
neighbouring relation, the mechanism, the transcript, the trust model, the accounting of totals, and what is not
covered. Everything provable is proved again when a statement is made; the rest is listed as an assumption.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from darrm_opt._version import __version__
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.sampling import EACH_VOTER, Sampling
from darrm_opt.answers.filed import concentrated, design_hash, design_record, filed_mechanism
from darrm_opt.answers.tables import record_in_answer
from darrm_opt.design.report import FRESH_MEANING, TRAINED_MEANING, count_text, text_above, voters_text
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.base import mechanism_kinds
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.mechanisms.plain_vote import PlainVote
from darrm_opt.mechanisms.table import GroupTableMechanism, TableMechanism
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy
from darrm_opt.record import planned_total, problem_from_record
from darrm_opt.release.log import ReleaseLog
from darrm_opt.untrusted import typed
from darrm_opt.verification import read_solution

KIND, FORMAT = "darrm privacy statement", 1

SINGLE_DELTA = 1e-6  # δ of a stated ε if a file names no total

ACCOUNTS = {
    "certificate": "the certificate of one release, over every pair of neighbouring votes or voters",
    "simple": "basic composition of the (ε, δ) of each release",
    "general": "the closed form of Kairouz, Oh and Viswanath, of the (ε, δ) of each release",
    "optimal": "the optimal composition of the (ε, δ) of each release",
    "pld": "a privacy loss distribution of the (ε, δ) of each release",
    "points": "the optimal composition of the best (ε, δ) of the exact profile of one release",
    "profile": "a privacy loss distribution of the exact profile of one release",
    "profiles": "privacy loss distributions of models that state a privacy profile",
    "bits": "an exact account of released bits against every adaptive adversary",
    "losses": "the largest loss of each release, which add up",
    "laws": "the laws of the answer on all neighbouring votes",
    "moments": "Rényi divergences of the laws of the answer on all neighbouring votes",
    "renyi": "Rényi divergences of the answers, at every order",
    "gaussian": "a Gaussian mechanism that dominates the answers",
    "models": "the models that one record reaches, charged once for all that is computed from them",
    "propose-test-release": "a noisy test of the votes, and the Rényi loss of the batch that passes it, both included",
    "queries": "none: the number of releases was given, and its total is the one below",
    "none": "none proves a finite ε at this δ",
}
"""Proofs of a total, by the name of the account."""

NOT_COVERED = (
    "Anything else that is computed from the same records or votes and released: it adds to this total.",
    "Time, memory, swap files and core dumps of the machine that holds the votes.",
    "The usefulness and fairness of the released labels.",
)
"""Exclusions of every statement."""


@dataclass(frozen=True)
class Statement:
    """A privacy statement: ``fields`` is plain data, ready for JSON, in the order of the Markdown page."""

    fields: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the statement as plain data."""
        return self.fields

    def markdown(self) -> str:
        """Return the statement as a page in Markdown."""
        f = self.fields
        lines = [f"# Privacy statement: {_pair(f['epsilon'], f['delta'])}", ""]
        rows = [
            ("mechanism", f["mechanism"]["description"]),
            ("unit of privacy", f["privacy_unit"]),
            ("neighbouring data sets", f["neighbours"]),
            ("what is published", f["transcript"]),
            ("guarantee", f"{_pair(f['epsilon'], f['delta'])} of everything published{_chosen(f)}"),
            ("account", f"{f['account']}: {ACCOUNTS.get(f['account'], 'see docs/releases.md')}"),
        ]
        if f["zcdp"] is not None and _tells(f["zcdp"], f["epsilon"], f["delta"]):
            rows.append(("zCDP", f"ρ-zCDP with ρ = {text_above(f['zcdp'])}"))
        if (any_votes := f.get("data_independent")) is not None:
            rows.append(("the same labels, whatever the votes are", _pair(any_votes["epsilon"], any_votes["delta"])))
        if (test := f.get("test")) is not None:
            # a test that was drawn and failed is part of the transcript, so the page reports it.
            outcome = {None: "not drawn yet", True: "passed: labels released", False: "failed: nothing else released"}
            chosen = f"τ = {test['test_sigma']:g}, threshold {test['test_threshold']:g}, order {test['order']:g}"
            rows.append(
                ("test of the votes", f"{chosen}, Rényi target {test['target']:.6g}; {outcome[test['passed']]}")
            )
        if (spent := f["releases"].get("spent")) is not None:
            rows.append(("released so far", f"{spent:,} of {f['releases']['allowed']:,}"))
        rows += [
            ("trust model", f["trust"]),
            ("software", f"{f['software']['name']} {f['software']['version']}"),
            ("hash of the design", f"`{f['design_hash']}`"),
            ("date", f["date"]),
        ]
        # a table without headings: names are in the first column.
        lines += ["| | |", "|---|---|", *(f"| {name} | {_cell(text)} |" for name, text in rows), ""]
        for title, name in (("Assumptions", "assumptions"), ("Not covered", "not_covered")):
            lines += [f"## {title}", "", *(f"- {text}" for text in f[name]), ""]
        return "\n".join(lines).rstrip() + "\n"


def statement_of_log(log: ReleaseLog) -> Statement:
    """Return the statement of a release log: of everything that it may release, whatever is released so far."""
    mechanism, sampling, proposal = log.mechanism, log.sampling, log.proposal
    earned: dict[str, Any] = {}
    if proposal is not None:  # proved when the log was opened
        total = proposal.total
        any_votes = {"epsilon": proposal.batch.epsilon(total.delta), "delta": total.delta}
        earned = {"data_independent": any_votes, "test": {**proposal.record(), "passed": log.passed}}
    else:
        total = _proved_total(mechanism, log.limit, log.budget, sampling)
    releases = {"allowed": log.limit, "spent": log.spent}
    design: dict[str, Any] = {}
    if proposal is not None:
        design["proposal"] = proposal.record()
    account = log.account if log.budget is not None else log.cost(log.limit, total.delta).account
    has_delta = proposal is not None or log.budget is not None
    return _statement("release log", mechanism, total, account, releases, sampling, design, earned, has_delta=has_delta)


def statement_of_record(record: Any) -> Statement:
    """Return the statement of a file of darrm: an answer, a plan, a table or a mechanism.

    A file that names queries and their total is stated as a whole; any other file as a single release.
    """
    record, sampling = record_in_answer(record), None
    if isinstance(record, dict) and record.get("kind") in mechanism_kinds():
        subject, (mechanism, planned, sampling) = "mechanism", filed_mechanism(record)
    elif isinstance(record, dict) and isinstance(record.get("options"), list):
        subject, mechanism, planned = "plan", *_recommended(record)
    elif isinstance(record, dict) and "gamma" in record:
        solution = read_solution(record)
        fresh = typed(bool, record.get("fresh", False), "fresh")
        subject, planned = "gamma", planned_total(record)
        mechanism = CertifiedNoiseFunction(Release(solution.noise, solution.problem), fresh=fresh)
    else:
        accepted = "a release log, or a γ, plan, table or mechanism as darrm writes them"
        raise InvalidInput("FILE", type(record).__name__, accepted)
    target = getattr(getattr(mechanism, "problem", None), "target", None)
    # One release at the target of its own proof needs no account: its certificate was proved on reading.
    if planned is None and target is not None and sampling is None:
        return _statement(subject, mechanism, target, "certificate", {"allowed": 1}, None, {}, {})
    # a file without a number of queries promises one release.
    queries, total = planned if planned is not None else (1, None)
    total = _proved_total(mechanism, queries, total, sampling)
    account = mechanism.cost(queries, total.delta, sampling).account
    has_delta = planned is not None
    return _statement(subject, mechanism, total, account, {"allowed": queries}, sampling, {}, {}, has_delta=has_delta)


def _recommended(plan: dict[str, Any]) -> tuple[VoteMechanism, tuple[int, Privacy]]:
    """Return the mechanism that a plan recommends, its queries and its total; a plan contains γ only."""
    accepted = "a plan that recommends a γ, or the file of `darrm plan --output`"
    try:
        options = [option for option in plan["options"] if option["fits"]]
        best = options[0]
        if best.get("gamma") is None:
            raise InvalidInput("FILE", best.get("mechanism", best.get("name")), accepted)
        problem = problem_from_record(best["problem"])
        release = Release(NoiseFunction(best["gamma"], problem.K), problem)
        total = Privacy(plan["total"]["epsilon"], plan["total"]["delta"])
        return CertifiedNoiseFunction(release, fresh=plan["fresh"]), (plan["queries"], total)
    except (LookupError, TypeError) as err:
        raise InvalidInput("FILE", "a plan", accepted) from err


def _proved_total(mechanism: VoteMechanism, releases: int, total: Privacy | None, sampling: Sampling | None) -> Privacy:
    """Return the total of a number of releases, proved here; at `SINGLE_DELTA` if there is no total."""
    if total is None:
        return Privacy(mechanism.epsilon(releases, SINGLE_DELTA, sampling), SINGLE_DELTA)
    if not mechanism.fits(total, releases, sampling):
        count = count_text(releases, "release is", "releases are")
        raise VerificationFailed(f"{count} not proved to be within {_pair(total.epsilon, total.delta)}")
    return total


def _statement(
    subject: str,
    mechanism: VoteMechanism,
    total: Privacy,
    account: str,
    releases: dict[str, int],
    sampling: Sampling | None,
    design: dict[str, Any],
    earned: dict[str, Any],
    *,
    has_delta: bool = True,
) -> Statement:
    design = {**design_record(mechanism, total, releases["allowed"], sampling), **design}
    epsilon = design["budget"][0]
    fields = {
        "kind": KIND,
        "format": FORMAT,
        "subject": subject,
        "mechanism": {"name": mechanism.name, "description": mechanism.description, "record": design["mechanism"]},
        "privacy_unit": _unit(mechanism, sampling),
        "neighbours": _neighbours(mechanism, sampling),
        "transcript": _transcript(mechanism, releases["allowed"], is_batch=bool(earned)),
        "releases": releases,
        "epsilon": epsilon,
        "delta": total.delta,
        "delta_is_chosen": not has_delta,  # by this statement: the subject names none
        "account": "none" if epsilon is None else account,
        "zcdp": None if earned else concentrated(mechanism, releases["allowed"], sampling),
        **earned,
        "trust": "central: the operator of the mechanism sees the votes; recipients of answers are not trusted",
        "assumptions": _assumptions(mechanism, releases["allowed"], sampling, is_batch=bool(earned)),
        "not_covered": [*NOT_COVERED],
        "software": {"name": "darrm-opt", "version": __version__},
        # The mechanism's record is above.
        "design": {name: value for name, value in design.items() if name != "mechanism"},
        "design_hash": design_hash(design),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Statement(fields)


def _tells(rho: float, epsilon: float | None, delta: float) -> bool:
    """Return whether ρ-zCDP adds to (ε, δ): it implies at most 2ε at δ; at δ = 0, less than ε²/2."""
    if epsilon is None:
        return True
    return rho + 2 * math.sqrt(rho * -math.log(delta)) <= 2 * epsilon if delta else rho < epsilon**2 / 2


def _unit(mechanism: VoteMechanism, sampling: Sampling | None) -> str:
    if sampling is not None and sampling.scheme in EACH_VOTER:
        return "one record, which may be drawn by any number of voters of a query"
    reached = f"at most {count_text(mechanism.affected, 'vote')} of {mechanism.K} in a query"
    if isinstance(mechanism, GroupTableMechanism):
        return f"one record, which moves {reached}; voters: {'; '.join(map(str, mechanism.problem.groups))}"
    if isinstance(mechanism, CertifiedNoiseFunction):
        return f"one record, which moves {reached}; {voters_text(mechanism.problem)}"
    return f"one record, which moves {reached}"


def _neighbours(mechanism: VoteMechanism, sampling: Sampling | None) -> str:
    if sampling is not None:
        what = "one record more" if sampling.neighbours == "add-remove" else "one record replaced by another"
        return f"data sets of which one has {what} ({sampling.neighbours})"
    moved = count_text(mechanism.affected, "voter")
    return (
        f"data sets that differ in one record, so that the votes of at most {moved} change: one record replaced; or "
        "added or removed, where that moves no other record to another voter"
    )


def _transcript(mechanism: VoteMechanism, releases: int, *, is_batch: bool) -> str:
    may_abstain = mechanism.cap is not None or getattr(mechanism, "threshold", None) is not None
    silent = mechanism.problem.abstention if isinstance(mechanism, TableMechanism) else False
    label = "0 or 1" if mechanism.classes == 2 else f"a class 0 to {mechanism.classes - 1}"
    label += ", or ⊥" if may_abstain or silent else ""
    if is_batch:
        return f"whether the test passed, and if so {count_text(releases, 'answer')} of one fixed batch, each {label}"
    if isinstance(mechanism, PlainVote):
        return f"any number of answers, each {label}, of the models of {count_text(releases, 'training')}"
    chosen = ", each query chosen freely in view of earlier answers" if releases > 1 else ""
    cap = "" if mechanism.cap is None else f"; at most {mechanism.cap:,} classes, then ⊥ alone"
    return f"at most {count_text(releases, 'answer')}, each {label}{chosen}{cap}; no counts and no margins"


def _assumptions(mechanism: VoteMechanism, releases: int, sampling: Sampling | None, *, is_batch: bool) -> list[str]:
    found = []
    # If each voter draws for itself, a record may reach all of them: no layout to assume.
    if sampling is None or sampling.scheme not in EACH_VOTER:
        moved = count_text(mechanism.affected, "vote")
        found.append(f"One record moves at most {moved} of a query, by how the data are laid out.")
    # Voters that are not private may depend on each other in any way.
    if mechanism.private_voters:
        found.append(
            "Each voter has its stated privacy, and voters answer independently of each other, given the data."
        )
        # Freshness concerns later releases; a single one has none.
        if releases > 1:
            meaning = FRESH_MEANING if mechanism.fresh else TRAINED_MEANING
            found.append(f"Voters {'are fresh' if mechanism.fresh else 'were trained once'}: {meaning}.")
    if sampling is not None:
        found.append(f"Of the records, {sampling.words}: in secret, and independently of all earlier draws.")
        if sampling.labels > 1:
            found.append(f"One sample serves {sampling.labels} labels, which are charged together.")
    if is_batch:
        found.append("All queries were fixed, and the test was chosen, before any of the votes were examined.")
    return [
        *found,
        "Noise and coins come from the operating system; each answer has exactly the stated probabilities.",
        "Only the operator of the mechanism reads votes, unreleased noise, or samples of records.",
    ]


def _chosen(fields: dict[str, Any]) -> str:
    if not fields["delta_is_chosen"]:
        return ""
    return f"; the {fields['subject']} names no δ, so this statement chose δ = {fields['delta']:g}"


def _pair(epsilon: float | None, delta: float) -> str:
    if epsilon is None:
        return f"no finite ε at δ = {text_above(delta)}"
    return f"({text_above(epsilon)}, {text_above(delta)})-DP" if delta else f"{text_above(epsilon)}-DP"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
