"""Ctrl-C before a chosen bytecode of a function."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


def interrupted_before(bytecode: int, act: Callable[[], Any], *files: str) -> KeyboardInterrupt | None:
    """Call ``act``, and raise KeyboardInterrupt before a bytecode of it.

    Args:
        bytecode: its number, from 0, among all that are executed.
        act: the function called.
        files: ends of the names of the source files whose bytecodes count.

    Returns:
        The interrupt, with the frames that it left; None if ``act`` ended before that bytecode.
    """
    executed = -1

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal executed
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            executed += 1
            if executed == bytecode:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    # Python 3.12 traces opcodes only after some frame of the process has requested them: this one.
    sys._getframe().f_trace_opcodes = True
    # The collector would close here generators left by earlier interrupts, and an interrupt there is lost.
    collects = gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt as interrupt:
        return interrupt
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return None


def interrupts(act: Callable[[], Any], *files: str) -> Iterator[KeyboardInterrupt]:
    """Yield an interrupt of ``act`` before its first bytecode, then one of another call before its second, and so on.

    The frames of an interrupt stay alive until the next, as in a notebook, which keeps the last traceback.
    """
    bytecode = 0
    while (interrupt := interrupted_before(bytecode, act, *files)) is not None:
        yield interrupt
        bytecode += 1
