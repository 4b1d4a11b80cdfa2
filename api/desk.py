"""Where requests become answers: solved off the event loop, a few at a time, through the cache."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from api.curves import over_p, shared_p
from api.problems import ShuttingDown
from api.schemas import ACCEPTED, LARGEST_POINTS, CurveRequest, DesignRequest
from api.settings import Settings
from darrm_opt.errors import InvalidInput
from darrm_opt.record import solution_record
from solver_cache.key import Request
from solver_cache.solve import CachedSolution, cached_solve
from solver_cache.store import Store

Result = TypeVar("Result")


class Desk:
    """Answers requests with plain data. Threads are enough here: the solver lets go of Python's lock.

    Args:
        store: where answers are kept; the desk closes it.
        settings: limits, and how many solves may run at once.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._pool = ThreadPoolExecutor(settings.solvers, thread_name_prefix="solver")
        self._closing = threading.Event()

    @property
    def store(self) -> Store:
        """Where answers are kept; it blocks, so use it in a thread."""
        return self._store

    @property
    def settings(self) -> Settings:
        """What the operator set."""
        return self._settings

    async def perform(self, task: Callable[[Any, Callable[[Any], None]], Result], argument: Any) -> Result:
        """Return ``task(argument, report)``, done apart from the event loop, within the server's time limit.

        Args:
            task: a function at the top of a module (`api.answering`).
            argument: plain data.

        Raises:
            Exception: whatever the task raises.
        """
        return await self._apart(lambda given: task(given, self._watch), argument)

    async def gamma(self, asked: DesignRequest) -> dict[str, Any]:
        """Return the certified γ_opt.

        Raises:
            InvalidInput: a field is out of its range.
            BackendUnavailable: it must be solved, and the solver is not there.
            CacheError: the store cannot be read.
        """
        return await self._apart(self._gamma, asked)

    async def error_curve(self, asked: CurveRequest) -> dict[str, Any]:
        """Return the errors of γ_opt and of the baselines over p; raises as `gamma`."""
        return await self._apart(self._error_curve, asked)

    def close(self) -> None:
        """Stop what is running at its next round, and close the store."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)
        self._store.close()

    async def _apart(self, work: Callable[[Any], Result], asked: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, asked)

    def _gamma(self, asked: DesignRequest) -> dict[str, Any]:
        answer = self._solved(asked)
        return {**_named(answer), **solution_record(answer.solution)}

    def _error_curve(self, asked: CurveRequest) -> dict[str, Any]:
        if asked.points > LARGEST_POINTS:
            raise InvalidInput("points", asked.points, ACCEPTED["points"])
        p = shared_p(asked.points)
        answer = self._solved(asked)
        solution = answer.solution
        more = {"shape": solution.shape, "status": solution.status.value, "warnings": list(solution.warnings)}
        return {**_named(answer), **over_p(solution, p), **more}

    def _solved(self, asked: DesignRequest) -> CachedSolution:
        if self._settings.most_voters < asked.K:
            raise InvalidInput(
                "K",
                asked.K,
                f"at most {self._settings.most_voters} voters on this server",
                "Solve it with the command line, or have the operator raise DARRM_MOST_VOTERS.",
            )
        return cached_solve(
            asked.problem(),
            asked.objective,
            asked.shape,
            asked.method,
            asked.backend,
            store=self._store,
            time_limit=self._settings.time_limit,
            progress=self._watch,
        )

    def _watch(self, _: Any) -> None:
        if self._closing.is_set():
            raise ShuttingDown("The server is shutting down; ask again when it is back.")


def _named(answer: CachedSolution) -> dict[str, Any]:
    solution = answer.solution
    request = Request(solution.problem, solution.objective, "monotone" if solution.shape == "monotone" else "free")
    return {"id": request.key, "cached": answer.hit}
