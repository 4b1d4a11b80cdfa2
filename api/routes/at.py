"""What routes ask the application for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.desk import Desk


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
"""The desk that the application's lifespan opened."""
