"""Options of a verb that are those of a question: apart from `verbs.question`, which loads the questions themselves."""

from __future__ import annotations

from darrm.cli.parser import Made, Parameter


def fields_of(path: str, *without: str) -> Made:
    """Return the options of the fields of a question, but for those of some."""

    def made() -> list[Parameter]:
        from darrm.cli.verbs.question import question_parameters
        from darrm_opt.questions.registry import QUESTIONS

        return [each for each in question_parameters(QUESTIONS[path]) if each.name not in without]

    return Made(made)
