"""`darrm` with a recorder of its event loop's longest stall: `python -c "from campaigns.loop_lag import main; main()" serve`.

The stall is measured within the loop, by how much later than asked it wakes up: what a client waits is that and more.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import time
from pathlib import Path
from typing import Any

VARIABLE = "LOOP_LAG_FILE"
"""Environment variable that names the file."""

INTERVAL = 0.01
"""Time between two wakes [s]."""

_FORM = struct.Struct("d")


class LoopLag:
    """Longest stall of an event loop, in a file that two processes share.

    Args:
        path: of the file; made if there is none.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_FORM.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _FORM.size)

    @property
    def longest(self) -> float:
        """The longest stall since the last reset [s]."""
        return float(_FORM.unpack_from(self._memory)[0])

    def set(self, seconds: float) -> None:
        """Set it; 0 is a reset."""
        _FORM.pack_into(self._memory, 0, seconds)

    async def record(self) -> None:
        """Record stalls of the running loop until cancelled."""
        while True:
            began = time.perf_counter()
            await asyncio.sleep(INTERVAL)
            self.set(max(self.longest, time.perf_counter() - began - INTERVAL))


def main() -> None:
    """Run `darrm`, whose server records its stalls in the file that `VARIABLE` names."""
    import uvicorn

    from darrm import main as run

    lag, tasks, startup = LoopLag(Path(os.environ[VARIABLE])), set[asyncio.Task[None]](), uvicorn.Server.startup

    async def recorded(self: uvicorn.Server, sockets: Any = None) -> None:
        tasks.add(asyncio.get_running_loop().create_task(lag.record()))
        await startup(self, sockets)

    uvicorn.Server.startup = recorded  # type: ignore[method-assign]  # one worker, in this process
    run()
