"""Routes of webhooks: ask to be told when a job ends, list what was asked, take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import HTTPException, Response

from api.observability import audit
from api.routes.jobs import find_job
from api.routes.requests import Service, create_router
from api.routes.responses import error_responses
from api.schemas.jobs import JobId
from api.schemas.webhooks import WebhookAnswer, WebhookId, WebhookRequest, WebhooksAnswer, webhook_answer
from api.service.design_service import DesignService

if TYPE_CHECKING:
    from api.service.webhooks import Webhooks

router = create_router("jobs", "/v1/jobs/{id}/webhooks")


@router.post("", status_code=201, summary="Tell the end of a job", responses=error_responses(404, 422))
async def add_webhook(params: WebhookRequest, id: JobId, service: Service) -> WebhookAnswer:
    """Send a signed POST (Standard Webhooks) when the job ends, or at once if it has ended.

    If it fails, it is tried again for two days. It is delivered at least once: a receiver that sees one `webhook-id`
    twice ignores the second. Asking again for the same address while it is pending returns the same webhook.
    """
    webhooks = _webhooks(service)
    await find_job(id, service)
    return webhook_answer(*await webhooks.add(id, params.url))


@router.get("", summary="Who is told the end of a job", responses=error_responses(404, 422))
async def list_webhooks(id: JobId, service: Service) -> WebhooksAnswer:
    """List the webhooks that this client asked for, with what became of them."""
    webhooks = _webhooks(service)
    await find_job(id, service)
    return WebhooksAnswer(webhooks=[webhook_answer(webhook) for webhook in await webhooks.list(id)])


@router.delete("/{webhook}", status_code=204, summary="Take a webhook back", responses=error_responses(404, 422))
async def remove_webhook(id: JobId, webhook: WebhookId, service: Service) -> Response:
    """Forget a webhook: it is not delivered any more."""
    audit.mention_job(id)
    if not await _webhooks(service).remove(webhook, id):
        raise HTTPException(404, f"This job has no webhook {webhook}.")
    return Response(status_code=204)


def _webhooks(service: DesignService) -> Webhooks:
    if service.webhooks is None:
        raise HTTPException(404, "There are no webhooks on this server: its operator sets DARRM_WEBHOOK_SECRET.")
    return service.webhooks
