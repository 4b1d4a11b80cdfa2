"""Ctrl-C before a chosen bytecode: whatever a piece of code was doing, it is stopped there."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


def interrupted_before(bytecode: int, act: Callable[[], Any], *files: str) -> KeyboardInterrupt | None:
    """Call ``act``, and raise KeyboardInterrupt before a bytecode of it.

    Args:
        bytecode: which one, counted from 0 over all that are executed.
        act: what is called.
        files: ends of the names of the source files whose bytecodes count.

    Returns:
        The interrupt, with the frames that it left; None where ``act`` ended before that bytecode.
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
    # Python 3.12 gives opcodes only to a tracer that is set after some frame of the process asked for them: this one.
    sys._getframe().f_trace_opcodes = True
    # The collector would close generators that earlier interrupts left, here: an interrupt there is lost.
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
    """Yield an interrupt of ``act`` before its first bytecode, then one of another call before its second, to its end.

    The frames that an interrupt left stay alive until the next, as in a notebook, which keeps the last traceback.
    """
    bytecode = 0
    while (interrupt := interrupted_before(bytecode, act, *files)) is not None:
        yield interrupt
        bytecode += 1
