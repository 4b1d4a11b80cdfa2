"""The release that a verb is about: a saved answer, or the γ_opt of the problem that the options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.cli.options import DesignOptions, ProblemOptions
from api.cli.outcome import ExitCode, fail, option_of, say

if TYPE_CHECKING:
    from darrm_opt.accounting.release import Release


def release_of(asked: ProblemOptions, design: DesignOptions, saved: str | None) -> Release:
    """Return the release, proved private.

    Raises:
        InvalidInput: an option is outside what is accepted, or the file cannot be read.
        NotPrivate: the saved γ is not private for its problem.
    """
    from darrm_opt.accounting.release import Release

    if saved is None:
        from api.cli.obtaining import obtain

        solution = obtain(asked.problem(), design)
        release = Release.of(solution)
    else:
        release = _saved(saved, asked)
    for warning in release.problem.warnings:
        say(f"Warning: {warning}")
    return release


def _saved(source: str, asked: ProblemOptions) -> Release:
    from json import loads

    from api.cli.files import read_text
    from darrm_opt.accounting.release import Release
    from darrm_opt.errors import DarrmError
    from darrm_opt.record import solution_from_record

    if asked.given:
        options = ", ".join(map(option_of, asked.given))
        fail(f"{source} names its problem itself: leave out {options}.", ExitCode.BAD_INPUT)
    text = read_text(source)
    try:
        solution = solution_from_record(loads(text))
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as err:
        fail(f"{source} is not an answer of `darrm solve`: {err}", ExitCode.BAD_INPUT)  # anyone may have written it
    return Release.of((solution.gamma, solution.problem))
