"""Answers as plain data: what a service, an offline table and the command line say in the same words.

    curves        errors over p and over the allowance, privacy profiles
    accounting    totals of many releases, comparisons, plans, labelling experiments
    running_time  what a design, a plan or a comparison would cost, before anything is solved

A function with the arguments ``(argument, report)`` takes and returns plain data, so that a worker process can run it.
"""

from collections.abc import Callable
from typing import Any

Report = Callable[[Any], None]
"""Called now and then by what takes long, with its progress as plain data or None; it may raise to stop the work."""
