"""Options of a verb that are those of questions: apart from `verbs.question`, which loads the questions themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from darrm.cli.parser import CommandOption, Made, Parameter


def fields_of(*paths: str, without: Sequence[str] = (), texts: Mapping[str, Mapping[str, Any]] | None = None) -> Made:
    """Return the options of the fields of questions, each as the first of them has it, but for its ``texts``."""

    def made() -> list[Parameter]:
        from darrm.cli.verbs.question import question_parameters
        from darrm_opt.questions.registry import QUESTIONS

        found: dict[str, Parameter] = {}
        for path in paths:
            found = {each.name: each for each in question_parameters(QUESTIONS[path], composed=True)} | found
        return [
            each._replace(declared=cast("CommandOption", each.declared)._replace(**(texts or {}).get(name, {})))
            for name, each in found.items()
            if name not in without
        ]

    return Made(made)
