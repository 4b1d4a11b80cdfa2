"""Verbs that are made of a declared question: an option for each of its fields, and one function that asks."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from darrm.cli.files import check_plot, check_writable, picture_format, write_json, write_whole
from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, end, exit_code_of, fail, option_of, say
from darrm.cli.parameters import (
    PANELS,
    PROBLEM,
    BagsOptions,
    DesignOptions,
    GroupOptions,
    ProblemOptions,
    SampleOptions,
    bags_drawn,
    declared_option,
    meaning_of_fresh,
    number,
    refuse_missing,
    stated_voter,
    warn_of_large,
)
from darrm.cli.parser import ADVANCED, EVERY_COMMAND, Command, CommandOption, Parameter
from darrm_opt.answers import DRAW, SAMPLING, sampling_body
from darrm_opt.arguments import field_number, real_number
from darrm_opt.design.solution import Solution
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS, Field
from darrm_opt.questions.design import FOUND
from darrm_opt.questions.question import Question
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import DesignSpec, solution_record

FRESH = CommandOption("--fresh", meaning_of_fresh, panel=PROBLEM)

JSON = CommandOption("--json", "Print the answer on one line.", panel=EVERY_COMMAND)

COMPOSED: dict[str, tuple[tuple[type, str], ...]] = {
    **dict.fromkeys((*DRAW, *SAMPLING), ()),
    "n": ((BagsOptions, "bags"),),
    "records": ((SampleOptions, "records"), (SampleOptions, "sample"), (SampleOptions, "sampling")),
    "groups": ((GroupOptions, "group"),),
    "profile": ((ProblemOptions, "profile"), (ProblemOptions, "profile_points")),
}
"""Options by the fields that they state: several at once, or what a text or file says."""


def question_verbs(verbs: Collection[str]) -> tuple[str, ...]:
    """Return the verbs of the questions that none of these ``verbs`` answers."""
    return tuple(path for path in QUESTIONS if "/" not in path and path not in verbs)


def question_command(path: str) -> Command | None:
    """Return the verb of the question with this path; None where there is no such question.

    >>> command = question_command("tradeoff")
    >>> command is not None and [each.name for each in command.parameters][:2]
    ['K', 'epsilon']
    """
    question = QUESTIONS.get(path)
    if question is None:
        return None

    def verb(*, json: bool, **typed: Any) -> None:
        beside = {name: typed.pop(name, None) for name in BESIDE}
        _give(question, typed, **beside, json=json)

    verb.__doc__ = question.__doc__
    declared, has = question.declared(), {each for each in dir(question) if _changes(question, each)}
    offered = {
        "solution": "needs" in has,
        "time_limit": question.limited_by == "time_limit",
        "output": bool({"file_of", "columns"} & has),
        "plot": "figure_of" in has,
    }
    more = [Parameter(name, BESIDE[name], None) for name, is_offered in offered.items() if is_offered]
    more = [each for each in more if each.name not in declared]
    shown = question_parameters(question)
    return Command(verb, (*shown, *more, Parameter("json", JSON, default=False)), {})


BESIDE = {
    "solution": CommandOption("--solution", "Output of `darrm solve`, instead of a problem; - is stdin.", "FILE"),
    "time_limit": declared_option("time_limit", ADVANCED),
    "output": CommandOption("--output", "Write the γ, for `darrm verify`; to a .csv, the table.", "FILE"),
    "plot": CommandOption("--plot", "Plot the answer: .png, .svg or .pdf.", "FILE"),
}
"""Options of a question that are none of its fields."""


def _changes(question: type[Question], name: str) -> bool:
    """Return whether a question has a method of its own for what others lack."""
    return getattr(question, name) is not getattr(Question, name, None)


def question_parameters(question: type[Question]) -> list[Parameter]:
    """Return an option for each field that has one, or several as `COMPOSED` says."""
    hints, defaults = get_type_hints(question), {each.name: each.default for each in question.stated()}
    found, declared = [], question.declared()
    for name in sorted(declared, key=[*FIELDS].index):
        if name not in COMPOSED:
            option = _option(declared[name], hints[name], defaults)
            found.append(Parameter(name, option, None))
            continue
        for group, part in COMPOSED[name]:
            shown = inspect.get_annotations(group, eval_str=True)[part].__metadata__[0]
            found.append(Parameter(part, shown, () if shown.several else None))
    return found


def _option(field: Field, hint: Any, defaults: dict[str, Any]) -> CommandOption:
    """Return the option of a field: an objective is how votes fall, unless a prior is asked beside it."""
    flag = "--objective" if field.name == "objective" and "prior" in defaults else option_of(field.name)
    default = defaults[field.name]
    alias = "--Delta" if field.name == "Delta" else ""
    panel = ADVANCED if field.is_advanced else PANELS.get(field.name, "Options")
    if field.name == "fresh":
        return FRESH
    if field.kind == "flag":
        both = f"{flag}/{flag.replace('--', '--no-', 1)}"
        return CommandOption(both if default else flag, field.help, panel=panel)
    metavar = f"{field.metavar},…" if field.kind == "list" else field.metavar
    if field.kind == "choice" and get_origin(hint) is Literal:
        metavar = "|".join(get_args(hint))
    otherwise = field.otherwise.removeprefix("by default ")
    if not otherwise and default not in (None, dataclasses.MISSING):
        otherwise = str(default)
    return CommandOption(flag, field.help, metavar, panel, otherwise, alias=alias, field=field)


def given_fields(question: type[Question], typed: Mapping[str, Any], *needed: str) -> dict[str, Any]:
    """Return the fields that were typed, as plain data; those without a default, and ``needed`` others, must be."""
    declared, given = question.declared(), dict[str, Any]()
    for name, text in typed.items():
        if text is not None and name in declared and name not in COMPOSED:
            given[name] = _value(declared[name], text)
    if given.get("epsilon", "inf") != "inf":
        warn_of_large(given["epsilon"])
    if "records" in declared:
        names = ("records", "sample", "sampling")
        given |= sampling_body(SampleOptions(**{name: typed[name] for name in names}).as_sampling())
    if "n" in declared and (bags := bags_drawn(typed["bags"])) is not None:
        given |= dataclasses.asdict(bags)
    if "groups" in declared and typed["group"]:
        given["groups"] = GroupOptions(typed["group"]).fields()
    if "profile" in declared and typed["profile"] is not None:
        given["profile"] = stated_voter(typed["profile"], typed["profile_points"])
    absent = [each.name for each in question.stated() if each.default is dataclasses.MISSING]
    refuse_missing(**{name: (given.get(name), declared[name].accepted) for name in (*needed, *absent)})
    return given


def _give(
    question: type[Question],
    typed: dict[str, Any],
    *,
    solution: str | None,
    time_limit: str | None,
    output: str | None,
    plot: str | None,
    json: bool,
) -> None:
    """Ask, print and end; a γ that the question needs is read or designed first."""
    from darrm.cli.cached_solve import cached_solution, refuse_slow_question, solution_in
    from darrm_opt.questions.design import Design

    # Before the work: a missing library or folder should not cost its time.
    check_writable(output, "output")
    check_plot(plot)
    solutions, found = list[Solution](), None
    if solution is not None:
        named = [name for name in (*Design.declared(), "profile_points", "gamma") if typed.get(name) is not None]
        if named:
            fail(f"{solution} states its own problem: omit {', '.join(map(option_of, named))}.", ExitCode.BAD_INPUT)
        read = solution_in(solution)
        typed, found = typed | {"K": str(read.problem.K)}, found_of(read)
    asked = question.of(given_fields(question, typed) | {"limit": number(time_limit)})
    asked = dataclasses.replace(asked, found=found)
    asked.check()
    if asked.solves and asked.limit is None:
        refuse_slow_question(asked, "Or give --time-limit.")
    if found is None and isinstance(design := asked.needs(), Design):
        limit = None if design.time_limit is None else repr(design.time_limit)
        options = DesignOptions(design.objective, design.shape, design.backend, limit)
        solutions.append(cached_solution(design.problem(), options, design.method))
        asked = dataclasses.replace(asked, found=found_of(solutions[0]))
    answered = ask(asked, "working")
    show(asked, answered, json=json, output=output, plot=plot)
    # The worst of them: a program must not take a curve with one bad point for a good one.
    statuses = (exit_code_of(each.status) for each in (*solutions, *asked.solutions(answered)))
    end(max(statuses, default=ExitCode.DONE))


def found_of(solution: Solution) -> dict[str, Any]:
    """Return what a question takes of the γ that it needs."""
    record = {"id": DesignSpec.of(solution).key, "nearest": None, **solution_record(solution)}
    return {name: record[name] for name in FOUND}


def ask(asked: Question, doing: str) -> Any:
    """Return the answer to a question; long work shows its progress."""
    with ProgressDisplay(doing) as display:
        return asked.answer(lambda progress: display.update(_progress_text(progress)))


def show(
    asked: Question,
    found: Any,
    *,
    json: bool,
    output: str | None = None,
    plot: str | None = None,
    beside: dict[str, Any] | None = None,
    more: str = "",
) -> None:
    """Write, draw and print an answer, with ``beside`` in its JSON and ``more`` behind its text."""
    record = asked.record_of(found)
    if output is not None and output.lower().endswith(".csv"):
        columns = asked.columns(record)
        rows = [[*columns], *zip(*columns.values(), strict=True)]
        lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
        write_whole(output, "\n".join([*lines, ""]).encode())
    elif output is not None and (written := asked.file_of(found)) is not None:
        write_json(output, written)
    if plot is not None:
        from darrm_opt.figures import render

        with ProgressDisplay("drawing"):
            write_whole(plot, render(asked.figure_of(found), picture_format(plot)))
    if json:
        answer(as_json(record | (beside or {})))
        return
    for warning in record.get("warnings") or ():
        say(f"Warning: {warning}")
    answer((asked.text_of(found) or _indented(record)) + more)


def _progress_text(progress: Any) -> str:
    if progress is None:
        return ""
    return progress.get("step") or "{done} of {of} done".format(**progress)


def _value(field: Field, text: Any) -> Any:
    """Return the value of a field as JSON has it, its numbers in the declared range."""
    from darrm_opt.untrusted import json_value

    if field.kind in ("whole", "real"):
        value = number(text)
        if field.infinite and value == float("inf"):
            return "inf"
        return field_number(value, field.name, **field.limits)
    if field.kind in ("list", "object") and text.startswith(("[", "{")):
        try:
            return json_value(text)
        except ValueError as err:
            raise InvalidInput(field.name, text, field.accepted, str(err)) from err
    if field.kind != "list":
        return text
    parts, limits = [number(part) for part in text.split(",")], dict[str, Any](field.limits)
    return [real_number(each, field.name, field.accepted, **limits) for each in parts] if limits else parts


def _indented(found: dict[str, Any]) -> str:
    import json

    return json.dumps(found, ensure_ascii=False, allow_nan=False, indent=2)
