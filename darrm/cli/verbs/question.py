"""Verbs that are made of a declared question: an option for each of its fields, and one function that asks."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from darrm.cli.files import check_plot, check_writable, picture_format, write_json, write_whole
from darrm.cli.output import ExitCode, ProgressDisplay, answer, as_json, end, exit_code_of, fail, option_of, say
from darrm.cli.parameters import declared_option, number
from darrm.cli.parser import ADVANCED, EVERY_COMMAND, Command, CommandOption, Parameter
from darrm.cli.question_options import given_fields, question_parameters
from darrm_opt.design.solution import Solution
from darrm_opt.questions.design import FOUND
from darrm_opt.questions.question import Question
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import DesignSpec, solution_record

JSON = CommandOption("--json", "Print the answer on one line.", panel=EVERY_COMMAND)


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
    declared = question.declared()
    has = {name for name in dir(question) if getattr(question, name) is not getattr(Question, name, None)}
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
    from darrm.cli.cached_solve import cached_solution, refuse_slow, solution_in
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
        refuse_slow(asked, "Or give --time-limit.")
    if found is None and isinstance(design := asked.needs(), Design):
        solutions.append(cached_solution(design.problem(), design))
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
    answer((asked.text_of(found) or as_json(record, indent=2)) + more)


def _progress_text(progress: Any) -> str:
    if progress is None:
        return ""
    return progress.get("step") or "{done} of {of} done".format(**progress)
