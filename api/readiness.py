"""Whether answers can be given: the place where they are kept takes and gives, and the solver solves."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from api.solver_process import Report
from darrm_opt.errors import DarrmError

if TYPE_CHECKING:
    from api.desk import Desk

_LOG = logging.getLogger("api")

PATIENCE = 5.0
"""How long a part may take to show that it works [s]; whoever asks gives up soon after."""


class Readiness:
    """Looks at the parts that answers depend on, at most once in a while.

    Args:
        desk: whose parts are looked at.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._looked = -math.inf
        self._found: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def look(self) -> dict[str, str]:
        """Return by part "ok", "busy" (which is well), "off", or in a few words what is wrong."""
        async with self._lock:  # however many ask, one looks
            if time.monotonic() - self._looked >= self._desk.settings.ready_seconds:
                database, solver = await asyncio.gather(self._shown(self._database()), self._shown(self._solver()))
                self._found = {"database": database, "solver": solver}
                self._looked = time.monotonic()
            return self._found

    async def _database(self) -> str:
        await self._desk.apart(self._desk.store.health_check)
        return "ok"

    async def _solver(self) -> str:
        if self._desk.settings.solve == "off":
            return "off"
        try:
            async with asyncio.timeout(PATIENCE - 0.5):
                gamma = await self._desk.perform(tiny, None)
        except TimeoutError:
            errands = self._desk.pools["errands"]
            return "busy" if errands.busy == errands.size and errands.tasks else "nothing was solved in time"
        return "ok" if math.isclose(gamma, 1 / 3, abs_tol=1e-9) else "it solves wrongly"

    @staticmethod
    async def _shown(work: Awaitable[str]) -> str:
        try:
            async with asyncio.timeout(PATIENCE):
                return await work
        except TimeoutError:
            return "it does not answer in time"
        except DarrmError as err:
            _LOG.warning("not ready: %s", err)
            return "it cannot be used; the server's log says why"


def ready(found: dict[str, str]) -> bool:
    """Tell whether all is well."""
    return all(word in {"ok", "busy", "off"} for word in found.values())


def tiny(_: Any, report: Report) -> float:
    """Return γ(1) of three voters with m = 1, whose optimum is known, |2/3 − 1| = 1/3: solved, proved, in a solver process."""
    from darrm_opt.design.solver import solve
    from darrm_opt.problem import Problem

    report(None)
    return float(solve(Problem.from_allowance(K=3, m=1, epsilon=0.1)).gamma[1])
