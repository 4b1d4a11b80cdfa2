"""Verbs that are made of a declared question: an option for each of its fields, and the JSON of its answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, Literal, get_args, get_origin, get_type_hints

from darrm.cli.output import ProgressDisplay, answer, as_json, option_of
from darrm.cli.parameters import number
from darrm.cli.parser import EVERY_COMMAND, Command, CommandOption, Parameter
from darrm_opt.arguments import field_number
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import Field
from darrm_opt.questions.design import FOUND
from darrm_opt.questions.question import Question
from darrm_opt.questions.registry import QUESTIONS

JSON = CommandOption("--json", "Print the answer on one line.", panel=EVERY_COMMAND)


def question_verbs(verbs: Collection[str]) -> tuple[str, ...]:
    """Return the verbs of the questions that none of these ``verbs`` answers."""
    return tuple(path for path in QUESTIONS if "/" not in path and path not in verbs)


def question_command(path: str) -> Command | None:
    """Return the verb of the question with this path; None where there is no such question.

    >>> command = question_command("tradeoff")
    >>> command is not None and [each.name for each in command.parameters][:2]
    ['objective', 'shape']
    """
    question = QUESTIONS.get(path)
    if question is None:
        return None

    def verb(*, json: bool, **typed: Any) -> None:
        _answer(question, typed, json=json)

    verb.__doc__ = question.__doc__
    defaults, hints = {each.name: each.default for each in question.stated()}, get_type_hints(question)
    parameters = [
        Parameter(name, _option(field, hints[name], defaults), None) for name, field in question.declared().items()
    ]
    return Command(verb, (*parameters, Parameter("json", JSON, default=False)), {})


def _option(field: Field, hint: Any, defaults: dict[str, Any]) -> CommandOption:
    """Return the option of a field: an objective is how votes fall, unless a prior is asked beside it."""
    flag = "--objective" if field.name == "objective" and "prior" in defaults else option_of(field.name)
    default = defaults[field.name]
    alias = "--Delta" if field.name == "Delta" else ""
    if field.kind == "flag":
        return CommandOption(f"{flag}/{flag.replace('--', '--no-', 1)}", field.help)
    panel = "Needed" if default is dataclasses.MISSING else "Options"
    metavar = f"{field.metavar},…" if field.kind == "list" else field.metavar
    if field.kind == "choice" and get_origin(hint) is Literal:
        metavar = "|".join(get_args(hint))
    return CommandOption(
        flag, field.help, metavar, panel, field.otherwise.removeprefix("by default "), alias=alias, field=field
    )


def _answer(question: type[Question], typed: dict[str, Any], *, json: bool) -> None:
    declared = question.declared()
    given = {name: _value(declared[name], text) for name, text in typed.items() if text is not None}
    for each in question.stated():
        if each.default is dataclasses.MISSING and each.name not in given:
            raise InvalidInput(each.name, None, declared[each.name].accepted)
    asked = question.of(given)
    asked.check()
    with ProgressDisplay("working"):
        if (design := asked.needs()) is not None:
            record = design.record_of(design.answer())
            asked = dataclasses.replace(asked, found={name: record.get(name) for name in FOUND})
        found = asked.record_of(asked.answer())
    answer(as_json(found) if json else _indented(found))


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
    return [number(part) for part in text.split(",")] if field.kind == "list" else text


def _indented(found: dict[str, Any]) -> str:
    import json

    return json.dumps(found, ensure_ascii=False, allow_nan=False, indent=2)
