"""Kinds of answers: the one registry, and the task of every answer but a single γ.

A new kind is a question of `darrm_opt.questions`.

A result that is read from the table of jobs may have been written by anyone who can write there. What a client proves
of an answer that it does not trust (`darrm_opt.answers.verification`) is proved again here. Totals over many releases,
profiles and the rows of a comparison rest on the row having been written by this program, as the upper bound of a γ
does.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self

from pydantic import BaseModel

from api.schemas.questions import GammaAnswer, json_type, reader_of_answer
from api.tasks.design import verify_as_stored
from api.tasks.task import Limits, ProgressCallback, Task, TaskContext, verify_result
from darrm_opt.questions.question import Question
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import CORE, canonical_json, digest
from solver_cache.model import kind_of
from solver_cache.solve import load_records, save_records
from solver_cache.task_loop import Report

_LOG = logging.getLogger("api.jobs")

MAX_OVERRUN = 2.0  # multiple of the admitted time after which a job is stopped, because estimates are rough


def answer_question(question: type[Question], argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Answer the question that ``argument`` states; return the answer, and the records of new designs.

    Each design is proved again as the store will prove it, here rather than in the process that serves requests. A
    non-empty doubt says why the store would reject it, and means a defect of this program.
    """
    asked = question.of(argument)
    answer = asked.answer(report)
    record, new = asked.record_of(answer), list[tuple[dict[str, Any], str]]()
    found = asked.found or itertools.repeat(None)
    for (spec, _), solution, known in zip(asked.parts(record), asked.solutions(answer), found, strict=False):
        if known is None:
            new.append((kind_of(solution).record(solution), verify_as_stored(solution, spec)[1]))
    return {"answer": record, "new": new}


def verify_stored(question: type[Question], argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove a stored answer again."""
    question.of(argument).verify_stored(result)


@dataclass(frozen=True)
class AnswerTask(Task):
    """Any answer but a single γ; its result is stored with its job."""

    kind: str  # its path in `QUESTIONS`
    argument: dict[str, Any]  # on which alone the answer depends
    seconds: float  # expected time [s]
    question: dict[str, Any]  # the question, as shown with the job
    solves: ClassVar[bool] = False

    @cached_property
    def key(self) -> str:
        return digest(canonical_json({"kind": self.kind, "argument": self.argument, "core": CORE}))

    @cached_property
    def text(self) -> str:
        return canonical_json(
            {"kind": self.kind, "argument": self.argument, "seconds": self.seconds, "question": self.question}
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the task that ``text`` states."""
        content = json.loads(text)
        task = cls(
            str(content["kind"]), dict(content["argument"]), float(content["seconds"]), dict(content["question"])
        )
        if task.kind not in QUESTIONS:
            raise ValueError(f"unknown kind of job: {task.kind}")
        _ = task.as_question  # untrusted
        return task

    @cached_property
    def as_question(self) -> Question:
        """The question, from its argument."""
        return QUESTIONS[self.kind].of(self.argument)

    def design_keys(self, answer: dict[str, Any]) -> Collection[str]:
        return {spec.key for spec, _ in self.as_question.parts(answer)}

    async def compute(
        self, context: TaskContext, limits: Limits | None = None, progress: ProgressCallback | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        seconds, processor = limits or (MAX_OVERRUN * context.settings.max_work_seconds, math.inf)
        argument, known = self.argument, list[dict[str, Any] | None]()
        if specs := self.as_question.designs():
            # Stored designs are passed to the process, which does not design them again.
            known = await context.read(load_records, specs, context.store)
            argument = {**argument, "found": known}
        work = partial(answer_question, QUESTIONS[self.kind])
        result = await context.pool.run(
            work, argument, time_limit=seconds, processor_limit=processor, progress=progress
        )
        answer, new = result["answer"], iter(result["new"])
        additions = []
        for (spec, part), record in itertools.zip_longest(self.as_question.parts(answer), known):
            part |= {"id": spec.key, "cached": record is not None}
            if record is None:
                made, doubt = next(new)
                # Designs that the process doubts are returned but not stored.
                additions += [] if doubt else [(spec, made)]
        if additions:
            await context.write(save_records, additions, context.store, await context.clients())
        return {"answer": answer}, answer

    async def verify(
        self,
        result: dict[str, Any],
        context: TaskContext,
        asked: Task | None = None,  # noqa: ARG002 - the base's
    ) -> dict[str, Any] | None:
        answer = dict(result["answer"])
        proof = partial(verify_stored, QUESTIONS[self.kind]), self.argument, answer
        trouble = await context.checkers.run(verify_result, proof)
        if trouble:
            _LOG.warning("job %s: its result does not answer its request and is not used: %s", self.key, trouble)
            return None
        parts = self.as_question.parts(answer)
        present = await context.read(context.store.present, {spec.key for spec, _ in parts}) if parts else ()
        for spec, part in parts:
            part |= {"id": spec.key, "cached": spec.key in present}
        return answer


def answer_model(task: Task, result: dict[str, Any]) -> BaseModel:
    """Return the answer in the result of a task, as a model."""
    if not isinstance(task, AnswerTask):
        return GammaAnswer.model_validate(result)
    return reader_of_answer(json_type(QUESTIONS[task.kind].answers))(result)
