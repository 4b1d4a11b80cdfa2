"""HTML of the page: its template, with the forms that are made of the declared fields of each question.

The template `api/page/index.html` has marks: ``{{form PREFIX PATH -NAME…}}`` is the form of a question without some
fields, ``{{form PREFIX PATH NAME…}}`` one with these alone, ``{{fields PREFIX PATH NAME…}}`` its fields only;
``{{questions}}`` and ``{{panels}}`` are the questions that have no form of their own there, and ``{{words}}`` what the
fields of all forms mean.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Iterable
from html import escape
from typing import Any, Literal, get_args, get_origin, get_type_hints

from api.schemas.fields import DECLARED, examples_of
from api.schemas.questions import WORDS, model_of_question
from darrm_opt.design.backends import BACKENDS
from darrm_opt.fields import Field
from darrm_opt.mechanisms import calibrated_names
from darrm_opt.questions.design import Design
from darrm_opt.questions.question import Fields
from darrm_opt.questions.registry import QUESTIONS

_REQUIRED = dataclasses.MISSING


@dataclasses.dataclass(frozen=True)
class _Control:
    """Field of a form."""

    field: Field
    prefix: str = ""
    default: Any = None
    hint: Any = None
    items: tuple[_Control, ...] = ()  # of each entry, where it is a list of objects
    example: Any = None

    @property
    def id(self) -> str:
        return f"{self.prefix}_{self.field.name}" if self.prefix else self.field.name

    @property
    def label(self) -> str:
        """Name of the field as HTML, its symbols as variables."""
        symbol = self.field.symbol
        pattern = rf"[εδΔγσ]′?|(?<= ){symbol}$" if symbol else "[εδΔγσ]′?"
        return re.sub(pattern, lambda found: f"<var>{found[0]}</var>", escape(self.field.label))

    @property
    def words(self) -> str:
        """What the field means, and what is accepted."""
        return self.field.description + ("" if self.field.kind == "flag" else f" Expected: {self.field.accepted}.")

    @property
    def words_id(self) -> str:
        return f"w-{self.field.name}-{zlib.crc32(self.words.encode()) % 1000}"

    @property
    def _names(self) -> Iterable[str]:
        """What can be chosen, if it is one of some names."""
        if self.field.name == "mechanism":
            return calibrated_names()
        if self.field.name == "backend":
            return BACKENDS
        choices = [self.hint, *get_args(self.hint)] if self.field.kind == "choice" else []
        return [name for choice in choices if get_origin(choice) is Literal for name in get_args(choice)]

    @property
    def _placeholder(self) -> str:
        """What holds where it is left empty, if that is short."""
        if self.default is not _REQUIRED and self.default is not None:
            return text_of(self.default)
        usual = self.field.otherwise.removeprefix("by default ")
        return usual if usual != self.field.otherwise and len(usual) < 20 else ""

    def html(self) -> str:
        """Return the field: its label and its input."""
        id, kind = self.id, self.field.kind
        named = f'id="{id}" name="{self.field.name}" aria-describedby="{self.words_id}"'
        if self.example is not None:
            named += f' data-example="{escape(text_of(self.example))}"'
        if self.items:
            least, most = self.field.items or (0, "")
            entry = "".join(f"<label>{each.label} {each.input(each.named)}</label>" for each in self.items)
            return (
                f'<fieldset class="field rows" data-kind="rows" {named} '
                f'data-least="{0 if self.default is None else least}" data-most="{most}"><legend>{self.label}</legend>'
                f'<template><div class="entry" role="group">{entry}<button type="button" class="quiet">Remove</button>'
                '</div></template><div></div><button type="button" class="add">Add one</button></fieldset>\n'
            )
        label, control = f'<label for="{id}">{self.label}</label>', self.input(named)
        content = control + label if kind == "flag" else label + control
        return f'<div class="field {kind}">{content}</div>\n'

    @property
    def named(self) -> str:
        """Attributes of its input in an entry of a list."""
        return f'name="{self.field.name}" aria-describedby="{self.words_id}"'

    def input(self, named: str) -> str:
        """Return its input, with the attributes that name it."""
        field = self.field
        if field.kind == "flag":
            return f'<input type="checkbox" data-kind="flag" {named}{" checked" if self.default is True else ""}>'
        if names := self._names:
            usual = "" if self.default is _REQUIRED else f'<option value="">{self._placeholder or "–"}</option>'
            options = (f"<option>{escape(name)}</option>" for name in names if name != self.default)
            return f'<select data-kind="text" {named}>{usual}{"".join(options)}</select>'
        kind = {"whole": "number", "real": "number", "list": "list"}.get(field.kind, "text")
        is_decimal = field.kind == "real" and field.unit != "probability" and not field.infinite
        mode = ' inputmode="numeric"' if field.kind == "whole" else ' inputmode="decimal"' if is_decimal else ""
        usual = f' placeholder="{escape(self._placeholder)}"' if self._placeholder else ""
        required = " required" if self.default is _REQUIRED else ""
        return f'<input data-kind="{kind}" {named}{mode}{usual}{required}>'


def text_of(value: Any) -> str:
    """Return a value of a field as a form and a link have it."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ";".join(",".join(f"{name}={text_of(part)}" for name, part in entry.items()) for entry in value)
    if isinstance(value, list):
        return ", ".join(map(text_of, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _controls(prefix: str, path: str, names: list[str]) -> list[_Control]:
    """Return the fields of a question, or where there is none of that path the declared ones."""
    question = (QUESTIONS | {"gamma": Design}).get(path)
    if question is None:
        return [_Control(DECLARED[name], prefix) for name in names]
    found = _of_fields(question, prefix, next(iter(examples_of(model_of_question(question))), {}))
    if names and not names[0].startswith("-"):
        return [found[name] for name in names]
    return [found[name] for name in DECLARED if name in found and f"-{name}" not in names]


def _of_fields(of: type[Fields], prefix: str, example: dict[str, Any]) -> dict[str, _Control]:
    hints, found = get_type_hints(of), dict[str, _Control]()
    for each in of.stated():
        field, kind = DECLARED[each.name], each.metadata["each"]
        field = field.of(**{"short": field.label} | WORDS.get(each.name, {}) | each.metadata["changes"])
        items = tuple(_of_fields(kind, "", {}).values()) if kind else ()
        found[each.name] = _Control(field, prefix, each.default, hints[each.name], items, example.get(each.name))
    return found


def _fields(controls: list[_Control], *, fold: bool) -> str:
    """Return fields as HTML, those that few need folded."""
    usual = "".join(control.html() for control in controls if not (fold and control.field.is_advanced))
    further = "".join(control.html() for control in controls if fold and control.field.is_advanced)
    folded = f'<details class="advanced"><summary>Advanced</summary><div class="row">{further}</div></details>'
    return usual + folded if further else usual


def page_of(template: str) -> str:
    """Return the page, with the forms of all questions in the places of the marks."""
    own = {mark[1] for mark in re.finditer(r"{{form \w+ (\S+?)(?: -\w+)*}}", template)}
    others = [path for path in QUESTIONS if path not in own]
    told: dict[str, _Control] = {}

    def fields(prefix: str, path: str, names: list[str]) -> str:
        controls = _controls(prefix, path, names)
        told.update({each.words_id: each for control in controls for each in (control, *control.items)})
        return _fields(controls, fold=not names or names[0].startswith("-"))

    def form(prefix: str, path: str, *names: str) -> str:
        return f"""<form id="{prefix}-form" class="row" data-path="v1/{path}" data-prefix="{prefix}" novalidate
autocomplete="off" spellcheck="false">
{fields(prefix, path, [*names])}<button type="submit">Compute</button></form>
<p id="{prefix}-status" class="status" role="status"></p>
<div id="{prefix}-answer"></div>
<p><button type="button" class="print-statement" id="{prefix}-statement" data-of="{prefix}" hidden>
Print a statement</button></p>"""

    def panel(path: str) -> str:
        about = re.sub("`(.+?)`", r"<code>\1</code>", escape(" ".join((QUESTIONS[path].__doc__ or "").split())))
        content = form(re.sub(r"\W", "_", f"ask_{path}"), path)
        return f'<div data-question="{path}" hidden><p class="hint">{about}</p>{content}</div>'

    def words() -> str:
        ordered = sorted(told.values(), key=lambda control: [*DECLARED].index(control.field.name))
        return "".join(f'<dt>{one.label}</dt><dd id="{one.words_id}">{escape(one.words)}</dd>\n' for one in ordered)

    def made(mark: re.Match[str]) -> str:
        kind, *rest = mark[1].split()
        if kind == "form":
            return form(*rest)
        if kind == "fields":
            return fields(rest[0].strip("."), rest[1], rest[2:])
        if kind == "panels":
            return "\n".join(map(panel, others))
        if kind == "words":
            return words()
        return "".join(f'<option value="{path}">{escape(QUESTIONS[path].summary)}</option>' for path in others)

    return re.sub("{{(.+?)}}", made, template)
