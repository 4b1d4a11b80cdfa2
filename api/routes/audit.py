"""Route of the audit log, for keys with the role admin (`api.access.clients.check_role`)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request

from api.observability import audit
from api.routes.requests import Service, create_router, from_query, query_parameters
from api.routes.responses import error_responses, require_json
from api.schemas.audit import AuditAnswer, AuditEntryAnswer, AuditRequest

router = create_router("operating")

Params = Annotated[AuditRequest, Depends(from_query(AuditRequest))]


@router.get(
    "/audit",
    summary="The last entries of the audit log",
    openapi_extra=query_parameters(AuditRequest),
    responses=error_responses(404, 406, 422),
)
async def get_audit(params: Params, request: Request, service: Service) -> AuditAnswer:
    """Read the end of the audit log's file; for keys with the role admin."""
    require_json(request)
    log = request.app.state.audit_log
    if not isinstance(log, audit.AuditFile):
        raise HTTPException(404, "There is no audit log in a file: the operator sets DARRM_AUDIT_LOG.")
    try:
        entries = await service.run_in_reader(log.last, params.limit)
    except OSError as err:
        raise HTTPException(503, "The audit log cannot be read; the server's log says why.") from err
    return AuditAnswer(entries=[AuditEntryAnswer.model_validate(entry) for entry in entries])
