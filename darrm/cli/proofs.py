"""Proofs of what this program writes: of each kind of file a reader, a proof, and its text for `darrm verify`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from darrm.cli.files import is_release_log, read_text
from darrm.cli.output import ExitCode, ProgressDisplay, fail, option_of
from darrm.cli.question_options import PROBLEM_FIELDS, given_fields
from darrm_opt.design.certificate import Arithmetic, verify
from darrm_opt.design.report import certificate_text, count_text, guarantee, problem_text
from darrm_opt.errors import DarrmError, InvalidInput, NotPrivate, NotProven, Rule
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import (
    DesignSpec,
    check_allowance,
    planned_fields,
    planned_total,
    problem_from_record,
    problem_record,
)
from darrm_opt.untrusted import TOLERANCE, check_written, field, json_values, typed
from darrm_opt.verification import read_solution, verify_solution

if TYPE_CHECKING:
    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.release import ReleaseLog

MINIMAL_FILE = '{"K": 5, "m": 2, "epsilon": 0.5, "gamma": [0.9, 0.5, 0.1, 0.1, 0.5, 0.9]}'
"""The shortest file that names its problem."""

SINGLE_DELTA = 1e-6  # δ for the ε of one noisy maximum whose file names no total


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Outcome for one γ or one mechanism: plain data, and the same as text for people.

    ``private`` is None if it can be neither proved nor refuted; ``warnings`` say what to reconsider.
    """

    private: bool | None
    content: dict[str, Any]
    text: str
    warnings: tuple[str, ...] = ()
    addition: str = ""  # to the first line of the text, where that stands alone


def _lacking(content: dict[str, Any], message: str) -> Proof:
    """Return the outcome for what can be neither proved nor refuted."""
    return Proof(private=None, content=content | {"message": message}, text=message)


class VerifyOptions(NamedTuple):
    """What was typed beside the file."""

    options: dict[str, Any]
    arithmetic: str
    checker: str

    @property
    def given(self) -> dict[str, str]:
        """Options of the problem that were typed."""
        return {name: text for name, text in self.options.items() if text is not None}

    def problem(self, K: int) -> Problem:
        """Return the problem that the options name; ``K`` unless they do."""
        from darrm_opt.questions.design import Design

        typed = self.options | {"K": self.options["K"] or str(K)}
        return Design.of(given_fields(Design, typed)).problem()

    def refuse_beside(self, subject: str) -> None:
        """Refuse options that only a γ has."""
        for name, text in self.given.items():
            raise InvalidInput(name, text, Rule(f"cannot be combined with {subject}, which states its own problem"))
        for name, default in (("checker", "own"), ("arithmetic", "float")):
            if (value := getattr(self, name)) != default:
                raise InvalidInput(name, value, Rule(f"needs a γ, not {subject}"))


def proofs_of(file: str, options: VerifyOptions) -> Iterator[Proof]:
    """Yield the proofs of a file, by what it is: nobody should have to know which verb wrote it."""
    for subject, (is_one, prove) in _FILES.items():
        if is_one(file):
            options.refuse_beside(subject)
            yield prove(file)
            return
    yield from _proofs_of_values(file, options)


def _proofs_of_values(file: str, options: VerifyOptions) -> Iterator[Proof]:
    """Yield a proof of each γ and mechanism of a file of JSON values: one, or one after the other as in JSON Lines."""
    text = read_text(file)
    try:
        documents = json_values(text)
    except ValueError as err:
        fail(f"{file} is not JSON: {str(err).rstrip('.')}.", ExitCode.BAD_INPUT)
    for number, document in enumerate(documents, start=1):
        source = file if len(documents) == 1 else f"{file}, value {number}"
        try:
            content = _record_in(document, options)
            if not isinstance(content, list) and options.given:
                names = ", ".join(map(option_of, options.given))
                fail(f"{source} states its own problem: omit {names}, or give a bare list.", ExitCode.BAD_INPUT)
            claims = list(_claims_in(content, options))
        except NotPrivate as err:  # found while it was read
            yield _not_private(err, {})
            continue
        except DarrmError as err:
            fail(f"{source}: {err}", ExitCode.BAD_INPUT)
        if not claims:
            fail(f"{source}: {_without_gamma(content)}", ExitCode.BAD_INPUT)
        for claim in claims:
            yield claim.proof(options, source)


def _record_in(document: Any, options: VerifyOptions) -> Any:
    """Return the record in a service's answer, or the numbers of a γ whose problem the options are; else what came."""
    if options.given and isinstance(document, dict) and [*document] == ["gamma"]:
        return document["gamma"]
    if not isinstance(document, dict) or document.keys().isdisjoint(("record", "mechanism", "design")):
        return document
    from darrm_opt.answers.tables import record_in_answer

    return record_in_answer(document)


_PRINTED = {"verdict": "plan", "without_noise": "plan --compare", "account": "cost"}
"""Verbs by a field of the answers that they print, and in which there may be nothing to prove."""


def _without_gamma(content: Any) -> str:
    """Return what a file is in which there is nothing to prove."""
    if isinstance(content, dict) and "title" in content and "status" in content:
        reason = content.get("detail", content["title"])
        return f"the service refused the request ({content['status']!s:.9}): {reason!s:.400}"
    if isinstance(content, dict) and "state" in content and "id" in content:
        return (
            f"it is a job of the service ({content['state']!s:.20}) without its result: ask for that when it is done."
        )
    for name, verb in _PRINTED.items():
        if isinstance(content, dict) and name in content:
            printed, written = f"it is what `darrm {verb} --json` prints", f"darrm {verb.split()[0]} --output FILE"
            return f"{printed}, without a γ or a mechanism that can be proved. Give the file that `{written}` writes."
    others = "For a table or a mechanism give the file of `darrm solve`, `plan` or `cost` with --output."
    return f"the file contains no γ with its problem. A minimal valid file is {MINIMAL_FILE}. {others}"


SOLVED = ("upper_bound", "gap", "status", "method", "backend", "statistics")
"""Claims of an answer that its γ does not prove: how good another γ could be, and what the solve took."""

PROVED = ("gamma", "problem", "spent", "queries")  # fields of an option of a plan that are proved


def _claims_in(content: Any, options: VerifyOptions) -> Iterator[GammaClaim | MechanismClaim]:
    """Yield each γ or mechanism of a file that is to be proved private."""
    if isinstance(content, list):
        problem = options.problem(max(1, len(content) - 1))
        yield GammaClaim(problem, NoiseFunction(_numbers(content), problem.K))
    elif isinstance(content, dict) and (known := [has for has in _OBJECTS if content.keys() >= {*has}]):
        yield _OBJECTS[known[0]](content)
    elif not isinstance(content, dict) or "without_noise" not in content:  # a comparison has γ without their problems
        for design in _designs_in(content):
            yield _answer_in(design) if "format" in design else _option_in(design, content)


def _numbers(gamma: list[Any]) -> list[Any]:
    """Return the numbers of a bare list; a list of another form is refused as a γ."""
    flat = gamma and all(not isinstance(value, list) for value in gamma)
    return typed(list[float], gamma, "gamma") if flat else gamma


def _answer_in(content: dict[str, Any]) -> GammaClaim:
    """Return the γ of an answer of `darrm solve` or `plan`, whose claims must be those of its γ."""
    claim = read_solution(content)
    solution = verify_solution(claim, DesignSpec.of(claim))
    planned, fresh = planned_total(content), typed(bool, content.get("fresh", False), "fresh")
    return GammaClaim(solution.problem, solution.noise, SOLVED, None if planned is None else (*planned, fresh))


def _option_in(option: dict[str, Any], answer: Any) -> GammaClaim:
    """Return the γ of an option of a plan, or of a point of another answer, with the total that it says it costs."""
    from darrm_opt.arguments import field_number

    problem = problem_from_record(option["problem"])
    check_written(option["problem"], problem_record(problem))
    noise, total = NoiseFunction(typed(list[float], option["gamma"], "gamma"), problem.K), None
    is_plan = isinstance(answer, dict) and isinstance(answer.get("options"), list) and answer.get("draw") is None
    if is_plan and option.get("spent") is not None and option.get("queries") is not None:
        spent = option["spent"]
        within = Privacy(field(spent, "epsilon"), field(spent, "delta"))
        queries = field_number(typed(int, option["queries"], "queries"), "queries")
        total = queries, within, typed(bool, field(answer, "fresh"), "fresh")
    proved = PROVED if total is not None else PROVED[:2]
    names = [name for name in option if name not in proved]
    if isinstance(answer, dict) and answer is not option:  # what stands around the γ: advice, or options without one
        names += [name if name != "options" else "options without gamma" for name in answer if name != "fresh"]
    return GammaClaim(problem, noise, tuple(dict.fromkeys(names)), total)


def _bare_in(content: dict[str, Any]) -> GammaClaim:
    """Return a γ with the problem that is written beside it, as requests state it."""
    from darrm_opt.questions.design import stated_problem

    for name in content:
        if name not in (*PROBLEM_FIELDS, "gamma"):
            raise InvalidInput(
                "FILE", name, f"fields {', '.join(PROBLEM_FIELDS)} and gamma", f"Such as {MINIMAL_FILE}."
            )
    gamma, fields = content["gamma"], dict[str, Any]({name: content.get(name) for name in PROBLEM_FIELDS})
    needed = () if fields["profile"] else ("epsilon",) if fields["targets"] else ("epsilon", "m")
    for name in needed:
        if fields[name] is None and (name == "epsilon" or fields["target_epsilon"] is None):
            raise InvalidInput(name, None, "a value", f"A minimal valid file is {MINIMAL_FILE}.")
    if fields["K"] is None:
        fields["K"] = len(gamma) - 1 if isinstance(gamma, list) and len(gamma) > 1 else 1
    if "m" in needed and fields["target_epsilon"] is not None:
        fields["m"] = None  # which is checked by itself
    problem = stated_problem(**fields | {"Delta": fields["Delta"] or 0.0})
    check_allowance(content.get("m"), problem)
    return GammaClaim(problem, NoiseFunction(typed(list[float], gamma, "gamma"), problem.K))


def _designs_in(content: Any) -> Iterator[dict[str, Any]]:
    """Yield every record in an answer, such as a plan, that has a γ and names its problem."""
    if isinstance(content, dict):
        if content.get("gamma") is not None:
            if not isinstance(content.get("problem"), dict):
                raise InvalidInput("problem", content.get("problem"), "the problem of its γ")
            yield content
            return
        content = list(content.values())
    if isinstance(content, list):
        for part in content:
            yield from _designs_in(part)


def _mechanism_in(record: dict[str, Any]) -> MechanismClaim:
    from darrm_opt.answers.filed import filed_mechanism

    return MechanismClaim(*filed_mechanism(record), tuple(name for name in SOLVED if name in record))


@dataclass(frozen=True)
class GammaClaim:
    """A γ of a file, the problem for which it must be private, and what else the file says of it."""

    problem: Problem
    noise: NoiseFunction
    unproved: tuple[str, ...] = ()  # claims of the file that no proof covers
    total: tuple[int, Privacy, bool] | None = None  # releases, what they cost together, whether voters are fresh

    def proof(self, options: VerifyOptions, source: str) -> Proof:  # noqa: ARG002 - as of a mechanism
        """Prove it by this program's own search or by the formal checker, and the total that its file names."""
        problem, gamma, unproved, addition = self.problem, self.noise, self.unproved, ""
        content: dict[str, Any] = {"problem": problem_record(problem)}
        if options.checker == "formal":
            from darrm.cli.formal import PROVED_TEXT, UNPROVED_TEXT, formally_private

            content["checker"] = "formal"
            if not formally_private(problem, gamma):
                return _lacking(content, UNPROVED_TEXT)
            lines = [f"{problem_text(problem)}\n\n{PROVED_TEXT}"]
            unproved += () if self.total is None else ("queries", "spent")  # it knows nothing of totals
        else:
            try:
                arithmetic = cast("Arithmetic", options.arithmetic)  # which `verify` checks
                certificate = verify(problem, gamma, arithmetic=arithmetic)
            except NotPrivate as err:
                return _not_private(err, content)
            lines = [f"{problem_text(problem)}\n\n{certificate_text(certificate, problem)}"]
            content["certificate"] = asdict(certificate)
        if self.total is not None and options.checker == "own":
            queries, claim, _ = self.total
            content["total"] = {"queries": queries, **asdict(claim)}
            if (epsilon := self._total_epsilon()) is None:
                return _lacking(content, f"By this γ, {_together(queries, f'not proved to be {guarantee(claim)}')}.")
            content["total"]["epsilon"] = epsilon  # as it is proved here, by sums in this order
            total = _together(queries, guarantee(Privacy(epsilon, claim.delta)))
            lines.append(f"total      {total}: the account, computed again")
            addition = f" {total}."
        _name_unproved(unproved, content, lines)
        warnings = problem.warnings(gamma.values)
        return Proof(private=True, content=content, text="\n".join(lines), warnings=warnings, addition=addition)

    def _total_epsilon(self) -> float | None:
        """Return the ε of the total as it is proved here; None where it is beyond what the file says."""
        from darrm_opt.accounting.accounts import PLANNED, STATED
        from darrm_opt.accounting.release_profile import NoisyMajority, Release
        from darrm_opt.accounting.total import total_of
        from darrm_opt.fields import MAX_TARGET_EPSILON

        assert self.total is not None  # noqa: S101 - for the type checker
        (queries, claim, fresh), problem = self.total, self.problem
        start = Privacy(min(claim.epsilon, MAX_TARGET_EPSILON), claim.delta)  # of the search, as in a plan
        whole = NoisyMajority(self.noise, Problem(problem.K, problem.voter, start, problem.affected))
        # Plans use other grids than totals, and search the profile from the total: either may be the tighter one.
        for released in (Release.of((self.noise, problem)), whole):
            parts = released.guarantees(queries, fresh=fresh)
            for effort in (STATED, PLANNED, STATED.for_search(queries)):
                epsilon = total_of(parts, claim.delta, effort=effort).epsilon
                if epsilon <= claim.epsilon * (1 + TOLERANCE):
                    return epsilon
        return None


@dataclass(frozen=True)
class MechanismClaim:
    """A mechanism of a file, the total that the file names, and how records are drawn."""

    mechanism: VoteMechanism
    planned: tuple[int, Privacy] | None
    sampling: Sampling | None
    unproved: tuple[str, ...] = ()

    def proof(self, options: VerifyOptions, source: str) -> Proof:
        """Return what is proved of it; a table or a γ was proved while it was read."""
        from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction

        mechanism, sampling = self.mechanism, self.sampling
        options.refuse_beside(f"a {mechanism.record()['kind']!s:.60}")
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
                lines.append("private    proved for these exact numbers")
                content["certificate"] = asdict(mechanism.certificate)
            else:
                lines.append(f"private    for any votes, {_source_of_privacy(mechanism)}")
            # Without a total there is nothing to prove of many releases: the ε of one, at a δ that is named.
            if self.planned is None and not isinstance(mechanism, CertifiedNoiseFunction):
                single = Privacy(mechanism.epsilon(1, SINGLE_DELTA, sampling), SINGLE_DELTA)
                lines.append(f"one        one answer is {guarantee(single)}, by the account of what is drawn")
                lines.append("total      none is named: `darrm label --queries` or `darrm cost` adds answers up")
                content["one"] = asdict(single)
        if sampling is not None:
            content["sampling"] = sampling.record()
            # How records were drawn leaves no trace in a file.
            lines.append(f"sampled    {sampling.words}: assumed, as no file can show it")
        if self.planned is not None:
            queries, total = self.planned
            content["total"] = {"queries": queries, **asdict(total)}
            # Neither proved nor refuted: another account might prove it.
            if not mechanism.fits(total, queries, sampling):
                epsilon = mechanism.epsilon(queries, total.delta, sampling)
                claim = _together(queries, f"not proved to be {guarantee(total)}")
                return _lacking(content, f"{source}: {claim}: the account gives epsilon = {epsilon:.6g}.")
            lines.append(f"total      {_together(queries, guarantee(total))}: the account, computed again")
        _name_unproved(self.unproved, content, lines)
        return Proof(private=True, content=content, text="\n".join([f"{voters}.", *lines]))


def _source_of_privacy(mechanism: VoteMechanism) -> str:
    """Return what makes a mechanism private that is no certified γ or table."""
    from darrm_opt.mechanisms.plain_vote import PlainVote

    if isinstance(mechanism, PlainVote):
        return "by the stated privacy of the models"
    return "by the randomness that is drawn for every answer"


def _together(queries: int, text: str) -> str:
    return f"{count_text(queries, 'answer is', 'answers are')} {text}{'' if queries == 1 else ' together'}"


def unproved_text(names: Iterable[str]) -> str:
    """Return the line that names claims of a file that no proof covers."""
    return f"unproved   not checked: {', '.join(names)}"


def _name_unproved(names: tuple[str, ...], content: dict[str, Any], lines: list[str]) -> None:
    """Name the claims of a file that no proof covers."""
    if names:
        content["unproved"] = list(names)
        lines.append(unproved_text(names))


def _not_private(err: NotPrivate, content: dict[str, Any]) -> Proof:
    content |= {"message": str(err), "excess": err.excess, "worst_corners": err.worst}
    return Proof(private=None if isinstance(err, NotProven) else False, content=content, text=str(err))


def _table_fields(mechanism: VoteMechanism) -> tuple[dict[str, Any], str, str] | None:
    """Return what was proved of a table, of votes that are alike or of groups; None for another mechanism."""
    from darrm_opt.mechanisms.table import CertifiedTable, GroupTableMechanism
    from darrm_opt.tables.record import problem_record

    if not isinstance(mechanism, CertifiedTable):
        return None
    is_groups = isinstance(mechanism, GroupTableMechanism)
    looked_at = f"{mechanism.certificate.checked:,} {'corners' if is_groups else 'neighbouring vote counts'}"
    words = mechanism.description if is_groups else f"the released class is {guarantee(mechanism.problem.target)}"
    content = {
        "problem": problem_record(mechanism.problem, mechanism.kind),
        "certificate": mechanism.certificate.as_dict(),
    }
    return content, f": {words}", f"private    proved for these exact numbers over {looked_at}"


def _log_proof(file: str) -> Proof:
    """Return the proof of what a release log releases by, and of its total."""
    from darrm.cli.release_logs import assumption, budget_fields
    from darrm_opt.release import ReleaseLog

    log = ReleaseLog(file, read_only=True)
    log.check_answers()
    record = log.mechanism.record()
    if log.budget is not None and log.proposal is None:
        record |= planned_fields(log.limit, log.budget)
    if log.sampling is not None:
        record["sampling"] = log.sampling.record()
    try:
        claim = _mechanism_in(record)
    except DarrmError as err:  # a limit that no account takes
        fail(f"{file}: {err}", ExitCode.BAD_INPUT)
    proof, fields = claim.proof(NO_OPTIONS, file), budget_fields(log)
    allowed = count_text(fields["limit"], "release is", "releases are")
    state = f"{fields['spent']:,} of {allowed} spent; every line is as it was written"
    if not proof.private:
        return replace(proof, content=proof.content | fields)
    text = proof.text
    if log.proposal is not None:
        voters, private, *_ = text.split("\n")
        total = f"total      the test and its batch are {guarantee(log.proposal.total)} together"
        text = f"{voters}\n{private}\ntest       proved again, with its batch\n{total}"
    if not _is_account(log):
        message = f"{file}: the account {log.account!r} does not prove its limit of {log.limit:,} releases."
        return _lacking(proof.content | fields, message)
    lines = [text, f"log        {state}", f"assumed    {assumption(log)}"]
    return replace(proof, content=proof.content | fields, text="\n".join(lines))


def _is_account(log: ReleaseLog) -> bool:
    """Return whether what a log says that proves its limit does."""
    from darrm_opt.release.log_lines import PTR_ACCOUNT

    if log.proposal is not None or log.budget is None:
        return log.account == ("queries" if log.proposal is None else PTR_ACCOUNT)
    known = log.cost(log.limit, log.budget.delta).epsilons
    return log.limit == 0 or known.get(log.account, inf) <= log.budget.epsilon


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


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Name the file in the error of one that is not a table."""
    from solver_cache.table_entries import TableError

    try:
        yield
    except TableError as err:
        fail(f"{file}: {err}", ExitCode.BAD_INPUT)


def _table_proof(file: str) -> Proof:
    """Return the proof of every row of a table, or what is wrong with the first row that has none."""
    from solver_cache import validate_row
    from solver_cache.table_files import read_table

    count = 0
    with ProgressDisplay("proving rows") as display, _naming(file):
        for entry in read_table(file):
            reason = entry.trouble if entry.row is None else validate_row(entry.row).reason
            if reason:
                message = f"{file}, row {entry.number}: {reason}"
                return _lacking({"rows": count, "row": entry.number}, message)
            count += 1
            display.update(f"{count:,} are proved")
    text = f"{count_text(count, 'answer')}, each proved private for the problem that it names."
    return Proof(private=True, content={"rows": count}, text=text)


_OBJECTS: dict[tuple[str, ...], Callable[[dict[str, Any]], GammaClaim | MechanismClaim]] = {
    ("kind",): _mechanism_in,
    ("format", "problem"): _answer_in,
    ("format", "gamma"): _answer_in,
    ("gamma",): _bare_in,
}
"""JSON objects that are one γ or mechanism: the fields by which each is known, the first counting, and its claim."""

NO_OPTIONS = VerifyOptions({}, "float", "own")  # the file alone, by the defaults

_FILES = {"a table": (_is_table, _table_proof), "a release log": (is_release_log, _log_proof)}
"""Files that are not JSON values: how each is known, and its proof."""
