"""Options as text: `darrm` hands to the core what was typed, and the core says what is wrong with it.

Typer would convert each option itself, through pydantic: half the time of a small solve, and a second, poorer set of
messages ("Input should be a valid integer" where the core says what K is and what is accepted). So verbs declare
their options as text and flags, `Verb` and `Verbs` take them as they come, and `number` reads them.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


def number(text: str | None) -> Any:
    """Return the int or float that ``text`` spells, else the text itself, which the core will refuse by name.

    >>> number("11"), number("1e-4"), number("inf"), number("a"), number(None)
    (11, 0.0001, inf, 'a', None)
    """
    for read in (int, float):
        try:
            return read(text)  # type: ignore[arg-type]  # None is refused like any other text
        except (TypeError, ValueError):
            continue
    return text


class _Option(TyperOption):
    """An option whose value is the text that was typed, or a flag's truth value."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        return value if self.callback is None else self.callback(ctx, self, value)


class _Argument(TyperArgument):
    """A required argument whose value is the text that was typed."""

    def process_value(self, ctx: Any, value: Any) -> Any:
        return super().process_value(ctx, value) if value is None else value  # which says that it is missing


class _TakesText:
    """A command whose parameters are as typed. Typer builds them itself, so they change class where it hands them on."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if type(parameter) is TyperOption:
                parameter.__class__ = _Option
            elif type(parameter) is TyperArgument:
                parameter.__class__ = _Argument
        return parameters


class Verb(_TakesText, TyperCommand):
    """One verb."""


class Verbs(_TakesText, TyperGroup):
    """A group of verbs."""
