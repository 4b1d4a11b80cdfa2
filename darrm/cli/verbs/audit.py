"""Verbs about privacy claims: ``darrm audit`` tests one, ``darrm statement`` writes one that can be filed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, fail
from darrm.cli.parameters import (
    CHECKED,
    QUERIES,
    TOTAL,
    AsJson,
    MechanismParameters,
    declared_option,
    number,
    options_named,
    parameter_of,
    total_privacy,
)
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm_opt.audit import Audit
    from darrm_opt.mechanisms import VoteMechanism

BLACK_BOX = "A black box"


def _checked_subject(name: str) -> None:
    """Refuse the name of a mechanism that cannot be used."""
    from darrm_opt.mechanisms import mechanism_class, mechanism_names

    if name in mechanism_names():
        with options_named(mechanism="SUBJECT"):
            mechanism_class(name)


def audit(
    parameters: MechanismParameters,
    subject: Annotated[
        str | None,
        Argument(
            "SUBJECT",
            "A mechanism's name, with its parameter; a file written by darrm, or a CSV table with the "
            "columns votes_0, …, chance_0, … (and chance_none); - is stdin; or module:function, a "
            "Python function from vote counts to an answer.",
            _checked_subject,
        ),
    ] = None,
    command: Annotated[
        str | None,
        CommandOption(
            "--command",
            "Instead of SUBJECT: a program that reads vote counts, such as 3,0,8, one per line, and "
            "writes one independent random answer per line.",
            "TEXT",
            BLACK_BOX,
        ),
    ] = None,
    queries: Annotated[str, declared_option("queries", QUERIES)] = "1",
    total_epsilon: Annotated[str | None, declared_option("total_epsilon", QUERIES)] = None,
    total_delta: Annotated[str, declared_option("total_delta", QUERIES)] = "0",
    K: Annotated[str | None, declared_option("K", otherwise="that of the file")] = None,
    classes: Annotated[str | None, declared_option("classes", otherwise="2, or that of the file")] = None,
    affected: Annotated[str | None, declared_option("affected", otherwise="1")] = None,
    neighbours: Annotated[
        str,
        CommandOption("--neighbours", "Neighbours replace a record, or add or remove it.", "replace-one|add-remove"),
    ] = "replace-one",
    pairs: Annotated[
        str | None,
        CommandOption(
            "--pairs",
            "A JSON list of pairs of neighbouring inputs of the black box, such as data sets, instead of vote counts.",
            "FILE",
            BLACK_BOX,
            "all vote counts, or many",
        ),
    ] = None,
    samples: Annotated[str, CommandOption("--samples", "Number of answers to draw.", "COUNT", BLACK_BOX)] = "200000",
    confidence: Annotated[
        str, CommandOption("--confidence", "Confidence of the bound.", "PROBABILITY", BLACK_BOX)
    ] = "0.99",
    *,
    json: AsJson = False,
) -> None:
    """Prove or refute a privacy claim about any voting mechanism.

    The claim: this many queries are (ε, δ)-private together (--total-epsilon, --total-delta). For a mechanism or a
    table, the answer is a proof, or a counterexample: two neighbouring vote counts and an event that is too likely on
    one of them. A black box is sampled: the worst neighbours and event are searched for, then ε is bounded from below
    with fresh samples, at a stated confidence. The exit code is 1 if the claim is false, or if the claim about a
    mechanism or a table is not proved. A claim about a black box cannot be proved: the exit code is 0 if it is not
    refuted. The claim must hold for any votes, so the privacy of the voters themselves, and their --profile, does not
    matter.
    """
    from darrm_opt.audit import Claim, command_draws
    from darrm_opt.audit import audit as find
    from darrm_opt.errors import InvalidInput

    if (subject is None) == (command is None):
        raise InvalidInput("SUBJECT", subject, "a mechanism, a file, module:function, or --command")
    privacy = total_privacy(total_epsilon, total_delta)
    shape = {"K": number(K), "classes": number(classes or "2"), "affected": number(affected or "1")}
    with options_named(table="SUBJECT", FILE="SUBJECT"):
        # What a file says of itself must not be overruled by an option: the audit would be of another vote.
        found, read = _subject(subject, shape, parameters) if subject is not None else (print, {})
    given = {"K": K, "classes": classes, "affected": affected}
    for name, value in read.items():
        if given[name] is not None and shape[name] != value:
            raise InvalidInput(name, shape[name], f"{value}, as in {subject}")
    with options_named(**TOTAL, releases="queries", claim="SUBJECT", table="SUBJECT"):
        kind: Any = neighbours  # checked there
        claim = Claim(privacy, releases=number(queries), neighbours=kind, **{**shape, **read})
        with ProgressDisplay("auditing"):
            result = find(
                found,
                claim,
                pairs=None if pairs is None else _pairs(pairs),
                samples=number(samples),
                confidence=number(confidence),
                draws=None if command is None else command_draws(command),
            )
    # Before the exit code is decided: a program reads the counterexample, also of a claim that is false.
    if json:
        answer(as_json(result.as_dict()))
    text = _text(result)
    if result.verdict == "refuted" or (result.verdict == "not refuted" and result.sampled is None):
        fail(text, ExitCode.NOT_PRIVATE)
    if not json:
        answer(text)


def _subject(subject: str, shape: dict[str, Any], parameters: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """Return what is audited, and what it says of its voters itself."""
    from darrm.cli.files import read_text
    from darrm_opt.audit import read_table
    from darrm_opt.errors import InvalidInput, Rule, similar_names
    from darrm_opt.mechanisms import mechanism_class, mechanism_names

    # Names come first: a file that is called like a mechanism can be given as ./NAME.
    _checked_subject(subject)
    if subject in mechanism_names():
        kind = mechanism_class(subject)
        value = parameter_of(kind, parameters)
        if "parameter" not in value:
            raise InvalidInput(kind.parameter or "SUBJECT", None, f"the parameter of {subject}, or a file")
        with options_named(**CHECKED):
            made = kind.of(shape["K"], shape["classes"], value.pop("parameter"), shape["affected"], **value)
        return made, _shape_of(made)
    for name, text in parameters.items():
        if text is not None and not Path(subject).suffix and not Path(subject).exists():
            alike = similar_names(subject, mechanism_names())
            advice = f"Did you mean {alike[0]}?" if alike else ""
            raise InvalidInput("SUBJECT", subject, f"a mechanism: one of {', '.join(mechanism_names())}", advice)
        if text is not None:
            advice = f"{subject!r} is a file, which states its parameters."
            raise InvalidInput(name, text, Rule("needs a mechanism's name"), advice)
    module, colon, function = subject.rpartition(":")
    # A path may have a colon in it, as on other systems: what exists is a file.
    if colon and not Path(subject).exists() and function.isidentifier():
        return _function(module, function), {}
    text = read_text(subject)
    # By its content, as stdin has no name that would tell CSV from JSON.
    if not text.lstrip().startswith(("{", "[")):
        table = read_table(text)
        counts = next(iter(table), ())
        return table, {"K": max(map(sum, table), default=0), "classes": len(counts)}
    return _recorded_mechanism(subject, text)


def _recorded_mechanism(file: str, text: str) -> tuple[VoteMechanism, dict[str, int]]:
    from darrm_opt.mechanisms import mechanism_from_record
    from darrm_opt.untrusted import json_value

    try:
        record = json_value(text)
    except ValueError as err:
        fail(f"{file} is not one JSON value: {err}.", ExitCode.BAD_INPUT)
    with options_named(mechanism="SUBJECT"):
        mechanism = mechanism_from_record(record)
    return mechanism, _shape_of(mechanism)


def _shape_of(mechanism: VoteMechanism) -> dict[str, int]:
    return {"K": mechanism.K, "classes": mechanism.classes, "affected": mechanism.affected}


def _function(module: str, name: str) -> Callable[..., Any]:
    """Import a function, of a module in this folder too."""
    import sys
    from importlib import import_module

    from darrm_opt.errors import InvalidInput

    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as err:
        raise InvalidInput("SUBJECT", f"{module}:{name}", "a function that can be imported", f"{err}.") from err
    return found


def _pairs(file: str) -> list[tuple[Any, Any]]:
    from json import loads

    from darrm.cli.files import read_text
    from darrm_opt.errors import InvalidInput

    try:
        pairs = [(before, after) for before, after in loads(read_text(file))]
    except (TypeError, ValueError) as err:
        raise InvalidInput("pairs", file, "a JSON list of pairs of inputs") from err
    return pairs


def _text(audit: Audit) -> str:
    """Return what was found, in sentences."""
    from darrm_opt.design.report import guarantee, text_above

    claim, found, sampled = audit.claim, audit.counterexample, audit.sampled
    one, several = {"proved": ("is", "are"), "refuted": ("is not", "are not")}.get(audit.verdict, ("may be", "may be"))
    releases = f"one release {one}" if claim.releases == 1 else f"{claim.releases:,} releases together {several}"
    changes = {"add-remove": "add or remove one record", "replace-one": "replace one record"}[claim.neighbours]
    claimed = f"{releases} {guarantee(claim.privacy)} (neighbours: {changes})"
    sentences = [f"{audit.verdict.capitalize()}: {claimed}."]
    # A proof and a refutation rest on the claim alone; between them stand what is proved instead and what was seen.
    if audit.verdict == "proved" and audit.epsilon is not None:
        sentences.append(f"The account {audit.account} gives epsilon = {text_above(audit.epsilon, '.4g')}.")
    elif audit.epsilon is not None:
        sentences.append(f"What is proved, by the account {audit.account}, is epsilon = {audit.epsilon:.6g}.")
    if audit.verdict == "refuted" and found is not None:
        event = f"an answer in {{{', '.join('none' if each == -1 else str(each) for each in found.event)}}}"
        if claim.releases > 1:
            event += f" in at least {found.least:,} releases"
        # Bounds in the direction that counts against the refutation.
        least, most = ("", "") if audit.exact else ("at least ", "at most ")
        chances = f"{least}{found.chance_before:.6g}", f"{most}{found.chance_after:.6g}"
        sentences.append(f"On {found.before} {event} has chance {chances[0]}, and on {found.after} {chances[1]}.")
    if sampled is not None:
        sentences.append(
            f"With confidence {sampled.confidence:g}, epsilon is at least {sampled.epsilon:.4g} ({sampled.samples:,} "
            "answers)."
        )
        if audit.verdict != "refuted":
            least = "No epsilon" if sampled.detectable is None else f"An epsilon of {sampled.detectable:.4g}"
            sentences.append(f"{least} at such an event would have been refuted with chance {sampled.power:g}.")
            sentences.append("That is no proof.")
    return " ".join(sentences)


def statement(
    file: Annotated[str, Argument("FILE", "A release log, γ, plan, table or mechanism written by darrm; - is stdin.")],
    *,
    json: AsJson = False,
) -> None:
    """Write a privacy statement of a release log or a design, as Markdown, or as JSON with --json.

    It states the mechanism, the unit of privacy, the neighbouring data sets, what is published, ε and δ, the account,
    the assumptions and what is not covered, with the software's version, a hash of the design and the date. What can
    be proved is proved again first.
    """
    from darrm.cli.files import is_release_log, read_text
    from darrm_opt.answers.statement import statement_of_log, statement_of_record
    from darrm_opt.errors import InvalidInput, VerificationFailed
    from darrm_opt.release import ReleaseLog
    from darrm_opt.untrusted import json_value

    try:
        if is_release_log(file):
            made = statement_of_log(ReleaseLog(file, read_only=True))
        else:
            try:
                record = json_value(read_text(file))
            except ValueError as err:
                raise InvalidInput("FILE", file, "a release log, or one JSON object as darrm writes it") from err
            made = statement_of_record(record)
    except VerificationFailed as err:
        fail(f"{file}: {err}", ExitCode.NOT_PRIVATE)
    answer(as_json(made.as_dict()) if json else made.markdown().rstrip())
