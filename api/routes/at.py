"""What routes ask the application for."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, Request

from api.desk import Desk
from api.refusals import ClientGone
from api.solver_process import Task


def desk_of(request: Request) -> Desk:
    """Return the desk that the application's lifespan opened."""
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(desk_of)]
"""The same, as a parameter of a route."""


async def performed(request: Request, desk: Desk, task: Task, argument: Any) -> Any:
    """Return what `Desk.perform` does, and stop it when the client goes away: nobody else waits for it.

    A page that is asked something new drops what it asked before, and its next question stands behind that in the queue.

    Raises:
        ClientGone: it went away first.
        Exception: as `Desk.perform`.
    """
    work, going = asyncio.ensure_future(desk.perform(task, argument)), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({work, going}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise ClientGone("The client went away.")
    finally:
        going.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
