"""Verb ``darrm verify``: the privacy of whatever this program writes, proved again from the file alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, fail, option_of, say
from darrm.cli.parameters import AsJson, ProblemOptions
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm_opt import NoiseFunction, NotPrivate, Problem
    from darrm_opt.design.certificate import Arithmetic
    from darrm_opt.mechanisms import VoteMechanism

BARE_FIELDS = ("K", "m", "epsilon", "Delta", "delta", "affected", "target_epsilon")
"""Fields of a problem beside ``gamma``, as people write them; their defaults are those of the options."""

LEAST_FILE = '{"K": 5, "m": 2, "epsilon": 0.5, "gamma": [0.9, 0.5, 0.1, 0.1, 0.5, 0.9]}'
"""The shortest file that names its problem."""

SINGLE_DELTA = 1e-6
"""δ at which the ε of one noisy maximum is told where its file names no total."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Outcome for one γ or one mechanism: plain data, and the same as text for people.

    ``private`` is None if it can be neither proved nor refuted; ``warnings`` say what to reconsider.
    """

    private: bool | None
    content: dict[str, Any]
    text: str
    warnings: tuple[str, ...] = ()


def verify(
    file: Annotated[
        str,
        Argument(
            "FILE",
            "An answer, a plan, a mechanism, a table or a release log that darrm wrote, or a JSON list γ(0), …, γ(K); "
            "- is stdin.",
        ),
    ],
    options: ProblemOptions,
    arithmetic: Annotated[
        str,
        CommandOption(
            "--arithmetic",
            "Doubles with a proven error bound, or ball arithmetic (slower; the extra `exact`).",
            "float|ball",
        ),
    ] = "float",
    checker: Annotated[
        str,
        CommandOption(
            "--checker",
            "This program's own search, or the checker that is extracted from a Coq proof (`make formal` builds it).",
            "own|formal",
        ),
    ] = "own",
    *,
    json: AsJson = False,
) -> None:
    """Prove from the file alone that a release is private, or show where it is not.

    A γ and a table of classes are proved again, whatever the file claims; for noise on vote counts, and for a total
    over many releases, a release log's too, the account is computed again. A file names its problem; for a bare list
    give the problem's options (--K follows from the list).
    """
    from darrm_opt.errors import InvalidInput

    if checker not in ("own", "formal"):
        raise InvalidInput("checker", checker, "'own' or 'formal'")
    if checker == "formal" and arithmetic != "float":
        raise InvalidInput("arithmetic", arithmetic, "nothing beside --checker formal, which has its own arithmetic")
    # By what the file is: nobody should have to know which verb wrote it.
    if _is_table(file):
        _refuse_beside("a table", options, arithmetic, checker)
        proofs = [_table_proof(file)]
    elif is_release_log(file):
        _refuse_beside("a release log", options, arithmetic, checker)
        proofs = [_log_proof(file)]
    else:
        proofs = list(_proofs(file, options, arithmetic, checker))
    _show(proofs, json=json)


def _show(proofs: list[Proof], *, json: bool) -> None:
    """Print what was proved; end with an error if anything was not."""
    contents = [{"private": proof.private, **proof.content} for proof in proofs]
    failure = next((proof for proof in proofs if not proof.private), None)
    if json:
        many = {"private": True if failure is None else failure.private, "proofs": contents}
        answer(as_json(contents[0] if len(contents) == 1 else many))
    if failure is not None:
        fail(failure.text, ExitCode.NOT_PRIVATE)
    for warning in dict.fromkeys(warning for proof in proofs for warning in proof.warnings):
        say(f"Warning: {warning}")
    if not json:
        many_text = f"{len(proofs)} releases, each proved private for the problem that it names:"
        lines = [many_text, *(proof.text.partition("\n")[0] for proof in proofs)]
        answer(proofs[0].text if len(proofs) == 1 else "\n".join(lines))


def _proofs(file: str, options: ProblemOptions, arithmetic: str, checker: str) -> Iterator[Proof]:
    """Yield a proof of each γ and mechanism of a file of JSON values: one, or one after the other as in JSON Lines."""
    from darrm.cli.files import json_documents, read_text
    from darrm_opt.errors import DarrmError
    from darrm_opt.mechanisms.base import mechanism_kinds

    text = read_text(file)
    try:
        documents = json_documents(text)
    except ValueError as err:
        fail(f"{file} is not JSON: {err}.", ExitCode.BAD_INPUT)
    for number, document in enumerate(documents, start=1):
        source = file if len(documents) == 1 else f"{file}, value {number}"
        try:
            content = _record_in(document)
        except DarrmError as err:
            fail(f"{source}: {err}", ExitCode.BAD_INPUT)
        if not isinstance(content, list) and options.given:
            names = ", ".join(map(option_of, options.given))
            fail(f"{source} names its problem itself: leave out {names}, or give a bare list.", ExitCode.BAD_INPUT)
        if isinstance(content, dict) and content.get("kind") == "darrm group table":
            _refuse_beside("a table of groups", options, arithmetic, checker)
            yield _group_proof(source, content)
            continue
        if isinstance(content, dict) and content.get("kind") in mechanism_kinds():
            _refuse_beside("a mechanism for classes", options, arithmetic, checker)
            yield _mechanism_proof(source, content)
            continue
        try:
            questions = list(_questions(content, options))
        except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            fail(f"{source}: {err}", ExitCode.BAD_INPUT)  # any step may break on a file that anyone wrote
        if not questions:
            others = "For a table or a mechanism give the file of `darrm solve`, `plan` or `cost` with --output."
            message = f"{source}: there is no γ with its problem in it. The least file is {LEAST_FILE}. {others}"
            fail(message, ExitCode.BAD_INPUT)
        for problem, gamma in questions:
            yield _formal_proof(problem, gamma) if checker == "formal" else _gamma_proof(problem, gamma, arithmetic)


def _record_in(document: Any) -> Any:
    """Return the record in a service's answer; what is none of these as it is, with nothing more loaded."""
    if not isinstance(document, dict) or document.keys().isdisjoint(("rule", "mechanism", "design")):
        return document
    from darrm_opt.answers.tables import record_in_answer

    return record_in_answer(document)


def _questions(content: Any, options: ProblemOptions) -> Iterator[tuple[Problem, NoiseFunction]]:
    """Yield each problem of a file with the γ that is to be proved private for it."""
    from darrm_opt.noise import NoiseFunction
    from darrm_opt.record import check_allowance, problem_from_record

    if isinstance(content, list):
        problem = options.problem() if options.K is not None else options.problem(K=max(1, len(content) - 1))
        yield problem, NoiseFunction(content, problem.K)
    elif isinstance(content, dict) and "format" in content and not content.keys().isdisjoint(("problem", "gamma")):
        yield _answer_in(content)
    elif isinstance(content, dict) and "gamma" in content:
        problem = _bare_problem(content)
        check_allowance(content.get("m"), problem)
        yield problem, NoiseFunction(content["gamma"], problem.K)
    else:
        for design in _designs_in(content):
            if "format" in design:
                yield _answer_in(design)
            else:
                problem = problem_from_record(design["problem"])
                yield problem, NoiseFunction(design["gamma"], problem.K)


def _answer_in(content: dict[str, Any]) -> tuple[Problem, NoiseFunction]:
    """Return the problem and the γ of an answer of `darrm solve`, whose utility must be that of its γ."""
    from darrm_opt.record import DesignSpec
    from darrm_opt.reprove import check_utility, read_solution

    solution = read_solution(content)
    check_utility(solution.utility, solution.noise, DesignSpec.of(solution))
    return solution.problem, solution.noise


def _bare_problem(content: dict[str, Any]) -> Problem:
    """Return the problem that is written beside a γ."""
    from math import inf

    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Problem

    for name in content:
        if name not in (*BARE_FIELDS, "gamma"):
            raise InvalidInput("FILE", name, f"fields {', '.join(BARE_FIELDS)} and gamma", f"Such as {LEAST_FILE}.")
    fields: dict[str, Any] = {
        name: inf if content[name] == "inf" else content[name] for name in BARE_FIELDS if name in content
    }
    target = fields.get("target_epsilon")
    for name in ("epsilon", *(["m"] if target is None else [])):
        if name not in fields:
            raise InvalidInput(name, None, "a value", f"The least file is {LEAST_FILE}.")
    gamma, m = content["gamma"], fields.pop("m", None) if target is None else None
    K = len(gamma) - 1 if isinstance(gamma, list) and len(gamma) > 1 else 1
    return Problem.from_allowance(**{"K": K, **fields, "m": m})


def _designs_in(content: Any) -> Iterator[dict[str, Any]]:
    """Yield every record in an answer, such as a plan, that has a γ and names its problem."""
    if isinstance(content, dict):
        if content.get("gamma") is not None and isinstance(content.get("problem"), dict):
            yield content
            return
        content = list(content.values())
    if isinstance(content, list):
        for part in content:
            yield from _designs_in(part)


def _gamma_proof(problem: Problem, gamma: NoiseFunction, arithmetic: str) -> Proof:
    """Return the proof of a γ by this program's own search."""
    from darrm_opt import NotPrivate
    from darrm_opt import verify as prove
    from darrm_opt.design.report import certificate_text, problem_text
    from darrm_opt.record import problem_record

    content: dict[str, Any] = {"problem": problem_record(problem)}
    try:
        certificate = prove(problem, gamma, arithmetic=cast("Arithmetic", arithmetic))  # checked there
    except NotPrivate as err:
        return _not_private(err, content)
    text = f"{problem_text(problem)}\n\n{certificate_text(certificate)}"
    content["certificate"] = asdict(certificate)
    return Proof(private=True, content=content, text=text, warnings=problem.warnings(gamma.values))


def _not_private(err: NotPrivate, content: dict[str, Any]) -> Proof:
    from darrm_opt import NotProven

    content |= {"message": str(err), "excess": err.excess, "worst_corners": err.worst}
    return Proof(private=None if isinstance(err, NotProven) else False, content=content, text=str(err))


def _formal_proof(problem: Problem, gamma: NoiseFunction) -> Proof:
    """Return what the formal checker says of a γ."""
    from darrm.cli.formal import formally_private
    from darrm_opt.design.report import problem_text
    from darrm_opt.record import problem_record

    content: dict[str, Any] = {"problem": problem_record(problem), "checker": "formal"}
    if not formally_private(problem, gamma):
        message = (
            "The formal checker does not prove gamma private for these very numbers. "
            "Without --checker formal, `darrm verify` says where it fails."
        )
        return Proof(private=None, content=content | {"message": message}, text=message)
    sentence = "private    proved by the formal checker (a program extracted from a Coq proof), for these very numbers"
    text = f"{problem_text(problem)}\n\n{sentence}"
    return Proof(private=True, content=content, text=text, warnings=problem.warnings(gamma.values))


def _mechanism_proof(source: str, record: dict[str, Any]) -> Proof:
    """Return the proof of a mechanism for classes, and of the total that its file names."""
    from darrm_opt import NotPrivate
    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.design.report import guarantee
    from darrm_opt.errors import DarrmError
    from darrm_opt.mechanisms.base import mechanism_from_record, planned_total
    from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
    from darrm_opt.problem import Privacy

    try:
        mechanism = mechanism_from_record(record)
        planned = planned_total(record)
        sampling = Sampling.from_record(record["sampling"]) if "sampling" in record else None
    # A table is proved while it is read: that it fails is a verdict, while an unreadable file is bad input.
    except NotPrivate as err:
        return Proof(private=False, content={"message": str(err), "excess": err.excess}, text=str(err))
    except DarrmError as err:
        fail(f"{source}: {err}", ExitCode.BAD_INPUT)
    voters = f"{mechanism.K} voters, {mechanism.classes} classes, one record moves {mechanism.affected}"
    content: dict[str, Any] = {"mechanism": mechanism.record()}
    lines = []
    if (table := _table_fields(mechanism)) is not None:
        content, words, line = table
        voters += words
        lines.append(line)
    else:
        voters += f": {mechanism.description}"
        if isinstance(mechanism, CertifiedNoiseFunction):
            lines.append("private    proved for these very numbers")
            content["certificate"] = asdict(mechanism.certificate)
        # Without a total there is nothing to prove of many releases: the ε of one, at a δ that is named.
        elif planned is None:
            single = Privacy(mechanism.epsilon(1, SINGLE_DELTA, sampling), SINGLE_DELTA)
            lines.append(f"one        one answer is {guarantee(single)}, by the account of what is drawn")
            lines.append("total      none is named: `darrm label --queries` or `darrm cost` adds answers up")
            content["one"] = asdict(single)
    if sampling is not None:
        content["sampling"] = sampling.record()
        # How records were drawn leaves no trace in a file.
        lines.append(f"sampled    {sampling.words}: assumed, as no file can show it")
    if planned is not None:
        queries, total = planned
        content["total"] = {"queries": queries, **asdict(total)}
        # Neither proved nor refuted: another account might prove it.
        if not mechanism.fits(total, queries, sampling):
            message = (
                f"{source}: {queries:,} answers are not proved to be {guarantee(total)} together: the account gives "
                f"epsilon = {mechanism.epsilon(queries, total.delta, sampling):.6g}."
            )
            return Proof(private=None, content=content | {"message": message}, text=message)
        lines.append(f"total      {queries:,} answers are {guarantee(total)} together: the account, computed again")
    return Proof(private=True, content=content, text="\n".join([f"{voters}.", *lines]))


def is_release_log(file: str) -> bool:
    """Return whether a file begins as a release log does: a checksum, and a record that says so."""
    from darrm_opt.release.journal import CHECKSUM
    from darrm_opt.release.log import KINDS

    starts = tuple(f' {{"kind":"{kind}"'.encode() for kind in KINDS)
    try:
        with Path(file).open("rb") as log:
            return log.read(256)[CHECKSUM:].startswith(starts)
    except OSError:
        return False


def _table_fields(mechanism: VoteMechanism) -> tuple[dict[str, Any], str, str] | None:
    """Return what was proved of a table, of votes that are alike or of groups; None for another mechanism."""
    from darrm_opt.design.report import guarantee
    from darrm_opt.mechanisms.table import GroupTableMechanism, TableMechanism
    from darrm_opt.tables.record import problem_record

    if not isinstance(mechanism, TableMechanism):
        return None
    is_groups = isinstance(mechanism, GroupTableMechanism)
    looked_at = f"{mechanism.certificate.checked:,} {'corners' if is_groups else 'neighbouring vote counts'}"
    words = mechanism.description if is_groups else f"the released class is {guarantee(mechanism.problem.target)}"
    content = {"problem": problem_record(mechanism.problem), "certificate": mechanism.certificate.as_dict()}
    return content, f": {words}", f"private    proved for these very numbers over {looked_at}"


def _log_proof(file: str) -> Proof:
    """Return the proof of what a release log releases by, and of its total."""
    from darrm.cli.verbs.label import assumption, budget_fields
    from darrm_opt.design.report import guarantee
    from darrm_opt.mechanisms.base import planned_fields
    from darrm_opt.release import ReleaseLog

    log = ReleaseLog(file)
    record = log.mechanism.record()
    if log.budget is not None and log.proposal is None:
        record |= planned_fields(log.limit, log.budget)
    if log.sampling is not None:
        record["sampling"] = log.sampling.record()
    proof, fields = _mechanism_proof(file, record), budget_fields(log)
    state = f"{fields['spent']:,} of {fields['limit']:,} releases are spent; every line is as it was written"
    text = proof.text
    if log.proposal is not None:
        text = f"{text.partition(chr(10))[0]}\ntest       {guarantee(log.proposal.total)} with its batch: proved again"
    lines = [text, f"log        {state}", f"assumed    {assumption(log)}"]
    return replace(proof, content=proof.content | fields, text="\n".join(lines))


def _group_proof(source: str, record: dict[str, Any]) -> Proof:
    """Return the proof of a table for groups of voters."""
    from darrm_opt import NotPrivate
    from darrm_opt.errors import DarrmError
    from darrm_opt.tables.groups import GroupProblem
    from darrm_opt.tables.record import problem_record, table_from_record

    try:
        problem, _, certificate = table_from_record(record)
    except NotPrivate as err:
        return _not_private(err, {})
    except DarrmError as err:
        fail(f"{source}: {err}", ExitCode.BAD_INPUT)
    groups = "; ".join(map(str, problem.groups if isinstance(problem, GroupProblem) else ()))
    text = (
        f"{problem.classes} classes, voters {groups}: the released class is ({problem.target.epsilon:g}, "
        f"{problem.target.delta:g})-private.\nprivate    proved for these very numbers over "
        f"{certificate.checked:,} corners"
    )
    content = {"problem": problem_record(problem), "certificate": certificate.as_dict()}
    return Proof(private=True, content=content, text=text)


def _is_table(file: str) -> bool:
    """Return whether a file is a table of answers: by its name, or a JSON Lines file by its head."""
    from json import loads

    suffix = Path(file).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        try:
            with Path(file).open(encoding="utf-8") as lines:
                head = loads(lines.readline())
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(head, dict) and "table" in head
    return suffix in (".parquet", ".pq", ".csv", ".sqlite", ".sqlite3", ".db")


def _table_proof(file: str) -> Proof:
    """Return the proof of every row of a table, or what is wrong with the first row that has none."""
    from solver_cache import validate_row
    from solver_cache.table_files import read_table

    count = 0
    with ProgressDisplay("proving rows") as display:
        for entry in read_table(file):
            reason = entry.trouble if entry.row is None else validate_row(entry.row).reason
            if reason:
                message = f"{file}, row {entry.number}: {reason}"
                content = {"rows": count, "row": entry.number, "message": message}
                return Proof(private=None, content=content, text=message)
            count += 1
            display.update(f"{count:,} are proved")
    text = f"{count:,} answers, each proved private for the problem that it names."
    return Proof(private=True, content={"rows": count}, text=text)


def _refuse_beside(subject: str, options: ProblemOptions, arithmetic: str, checker: str) -> None:
    """Refuse options that only a γ has."""
    from darrm_opt.errors import InvalidInput

    for name in options.given:
        raise InvalidInput(name, getattr(options, name), f"nothing beside {subject}, which names its problem itself")
    for name, value, default in (("checker", checker, "own"), ("arithmetic", arithmetic, "float")):
        if value != default:
            raise InvalidInput(name, value, f"nothing or {default!r}, as this is {subject}")
