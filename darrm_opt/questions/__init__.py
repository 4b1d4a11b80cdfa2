"""Questions: one file for each, read by every door (`question.Question`)."""

from __future__ import annotations

from typing import Any

from darrm_opt.answers import Report
from darrm_opt.questions.compare import Compare
from darrm_opt.questions.cost import Calibrate, Cost
from darrm_opt.questions.question import Question

QUESTIONS: dict[str, type[Question]] = {question.path: question for question in (Compare, Cost, Calibrate)}
"""Questions, by their paths."""


def compute(question: type[Question], argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the answer to the question that ``argument`` states, as plain data: work of a process."""
    asked = question.of(argument)
    return asked.record_of(asked.answer(report))


def recheck(question: type[Question], argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove a stored answer again; raises as `Question.verify`."""
    question.of(argument).verify(result)
