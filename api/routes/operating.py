"""What an operator asks: whether the process is up."""

from __future__ import annotations

from fastapi import APIRouter

from api.schemas import HealthAnswer
from darrm_opt import __version__

router = APIRouter(tags=["operating"])


@router.get("/healthz", summary="Whether the process is up")
async def get_health() -> HealthAnswer:
    """Answer without touching the cache or the solver."""
    return HealthAnswer(status="ok", version=__version__)
