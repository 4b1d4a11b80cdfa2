"""Options of a verb that are the fields of a question: apart from `verbs.question`, which loads all questions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from darrm.cli.output import option_of
from darrm.cli.parameters import (
    BAGS_DRAWN,
    GROUP,
    PANELS,
    PROBLEM,
    PROFILE,
    SAMPLE,
    backends,
    bags_drawn,
    group_fields,
    meaning_of_fresh,
    number,
    refuse_missing,
    stated_voter,
    typed_sampling,
    warn_of_large,
)
from darrm.cli.parser import ADVANCED, CommandOption, Made, Parameter, parameters_of

if TYPE_CHECKING:
    from darrm_opt.fields import Field
    from darrm_opt.questions.question import Question

FRESH = CommandOption("--fresh", meaning_of_fresh, panel=PROBLEM)

COMPOSED: dict[str, dict[str, CommandOption]] = {
    "n": {"bags": BAGS_DRAWN},
    **{name: {} for name in ("subsample_size", "replacement")},
    "records": SAMPLE,
    **{name: {} for name in ("sample", "sampling", "neighbours", "labels", "among", "times")},
    "groups": {"group": GROUP},
    "profile": PROFILE,
}
"""Options by the fields that they state: several at once, or what a text or file says."""


PROBLEM_FIELDS = ("K", "m", "epsilon", "Delta", "delta", "affected", "target_epsilon", "targets", "profile")
"""Fields of the problem of a γ, in the order of requests."""

DESIGN_DEFAULTS = {"Delta": 0.0, "shape": "free", "method": "auto", "backend": "highs"}
"""Values of the fields of a design where none is typed, as `darrm_opt.questions.design` has them."""


def fields_of(path: str, *without: str) -> Made:
    """Return the options of the fields of a question, but for those of some."""

    def made() -> list[Parameter]:
        from darrm_opt.questions.registry import QUESTIONS

        return [each for each in question_parameters(QUESTIONS[path]) if each.name not in without]

    return Made(made)


def question_parameters(question: type[Question]) -> list[Parameter]:
    """Return an option for each field that has one, or several as `COMPOSED` says."""
    defaults = {each.name: each.default for each in question.stated()}
    return _parameters(question.declared(), defaults, partial(get_type_hints, question))


def design_parameters(*names: str) -> list[Parameter]:
    """Return the options of fields of a design, whose question takes long to import, from their declarations alone."""
    from darrm_opt.fields import FIELDS

    return _parameters({name: FIELDS[name] for name in names}, dict.fromkeys(names) | DESIGN_DEFAULTS, _design_hints)


def _design_hints() -> dict[str, Any]:
    from darrm_opt.design.solver import Method, Shape

    return {"method": Method, "shape": Shape, "backend": str}


Hints = Callable[[], dict[str, Any]]  # the types of fields, which only the help needs


def _parameters(declared: Mapping[str, Field], defaults: Mapping[str, Any], hints: Hints) -> list[Parameter]:
    from darrm_opt.fields import FIELDS

    found = []
    for name in sorted(declared, key=[*FIELDS].index):
        parts = COMPOSED[name] if name in COMPOSED else {name: _option(declared[name], defaults, hints)}
        found += parameters_of(parts)
    return found


def _option(field: Field, defaults: Mapping[str, Any], hints: Hints) -> CommandOption:
    """Return the option of a field: an objective is named --prior, unless there is a prior, too.

    Its texts are for the help alone.
    """
    from darrm_opt.fields import ADVANCED_NAMES

    flag = "--objective" if field.name == "objective" and "prior" in defaults else option_of(field.name)
    default = defaults[field.name]
    alias = "--Delta" if field.name == "Delta" else ""
    panel = ADVANCED if field.name in ADVANCED_NAMES else PANELS.get(field.name, "Options")
    if field.name == "fresh":
        return FRESH
    if field.kind == "flag":
        both = f"{flag}/{flag.replace('--', '--no-', 1)}"
        return CommandOption(both if default else flag, lambda: field.help, panel=panel)
    otherwise = field.otherwise.rpartition("by default ")[2] if "by default " in field.otherwise else ""
    if not otherwise and default not in (None, dataclasses.MISSING):
        otherwise = f"{default:g}" if isinstance(default, float) else str(default)
    words = partial(_values, field, hints)
    return CommandOption(flag, lambda: field.help, words, panel, otherwise, alias=alias, field=field)


def _values(field: Field, hints: Hints) -> str:
    """Return what the value of an option is, as the help shows it."""
    if field.name == "backend":
        return backends()
    hint = hints()[field.name] if field.kind == "choice" else None
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    return f"{field.metavar},…" if field.kind == "list" else field.metavar


def given_fields(question: type[Question], typed: Mapping[str, Any], *needed: str) -> dict[str, Any]:
    """Return the fields that were typed, as plain data; those without a default, and ``needed`` others, must be."""
    from darrm_opt.answers import sampling_body

    declared, given = question.declared(), dict[str, Any]()
    for name, text in typed.items():
        if text is not None and name in declared and name not in COMPOSED:
            given[name] = _value(declared[name], text)
    if given.get("epsilon", "inf") != "inf":
        warn_of_large(given["epsilon"])
    if "records" in declared:
        given |= sampling_body(typed_sampling(*(typed[name] for name in SAMPLE)))
    if "n" in declared and (bags := bags_drawn(typed["bags"])) is not None:
        given |= dataclasses.asdict(bags)
    if "groups" in declared and typed["group"]:
        given["groups"] = group_fields(typed["group"])
    if "profile" in declared and typed["profile"] is not None:
        given["profile"] = stated_voter(typed["profile"], typed["profile_points"])
    absent = [each.name for each in question.stated() if each.default is dataclasses.MISSING]
    refuse_missing(**{name: (given.get(name), declared[name].accepted) for name in (*needed, *absent)})
    return given


def _value(field: Field, text: Any) -> Any:
    """Return the value of a field as JSON has it, its numbers in the declared range."""
    from darrm_opt.arguments import field_number, real_number
    from darrm_opt.errors import InvalidInput
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
