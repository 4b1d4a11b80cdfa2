"""Webhooks, as requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from api.schemas.fields import EXAMPLES, AnswerModel, RequestModel
from api.schemas.jobs import utc_text
from solver_cache.jobs import Webhook, WebhookState

WebhookId = Annotated[
    str,
    Field(description="Id of the webhook.", pattern="^msg_[0-9a-f]{32}$", examples=[EXAMPLES["WEBHOOK_EXAMPLE"]["id"]]),
]


class WebhookRequest(RequestModel):
    """Where the end of a job is told."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"url": EXAMPLES["WEBHOOK_EXAMPLE"]["url"]}]})

    url: Annotated[
        str,
        Field(
            description="Address of a POST that tells the end of the job: https, at any port, without user name and "
            "password; its host must resolve when it is registered. "
            "Answer it with any 2xx within the server's time limit; redirects are not followed.",
            max_length=2000,
        ),
    ]


class WebhookAnswer(AnswerModel):
    """A webhook of a job."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLES["WEBHOOK_EXAMPLE"]]})

    id: str = Field(description="Id of the webhook, and header webhook-id of every attempt.")
    job: str = Field(description="Id of the job.")
    url: str = Field(description="Where its end is told.")
    state: WebhookState = Field(
        description="pending (the job goes on, or delivery is tried again), delivered, or failed (given up)."
    )
    attempts: int = Field(description="Attempts so far.", ge=0)
    reason: str = Field(description="What was wrong with the last attempt, in words; else empty.")
    created: str = Field(description="When it was asked for (UTC, ISO 8601).")
    updated: str = Field(description="When it last changed (UTC, ISO 8601).")
    secret: str | None = Field(
        description="What signatures are verified with (Standard Webhooks), "
        "the same for every webhook of one key; null in lists."
    )


class WebhooksAnswer(AnswerModel):
    """Webhooks of a job."""

    webhooks: list[WebhookAnswer] = Field(description="All of them, the oldest first.")


def webhook_answer(webhook: Webhook, secret: str | None = None) -> WebhookAnswer:
    """Return the answer that describes a webhook."""
    return WebhookAnswer(
        id=webhook.id,
        job=webhook.job,
        url=webhook.url,
        state=webhook.state,
        attempts=webhook.attempts,
        reason=webhook.reason,
        created=utc_text(webhook.created),
        updated=utc_text(webhook.updated),
        secret=secret,
    )
