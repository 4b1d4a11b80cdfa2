"""HiGHS objects that print nothing: the one place where they are made."""

from __future__ import annotations

import highspy

from darrm_opt.errors import SolveFailed

Option = bool | int | float | str

OPTIONS: dict[str, Option] = {
    "output_flag": False,
    "threads": 1,  # one value per process, or a second instance fails
    "presolve": "off",  # it would throw the warm start away
}
"""Options of every program here."""


class _SilentHighs(highspy.Highs):
    """HiGHS that does not write to the console, from its construction on.

    Since 1.16 the first object of a process writes a banner to stdout when its constructor calls this method, before
    any option can be set from outside. Without the console the banner counts as written, and no later object writes
    it, such as those that CVXPY makes.
    """

    def enableCallbacks(self) -> None:
        check_status(self.setOptionValue("log_to_console", False), "option log_to_console")  # noqa: FBT003 — by position
        highspy.Highs.enableCallbacks(self)


def new_highs(options: dict[str, Option]) -> highspy.Highs:
    """Return a new HiGHS object without a program, with `OPTIONS` and ``options`` set.

    Guarantees:
        HiGHS 1.10 to 1.16 write nothing to stdout, neither here nor later.

    Raises:
        SolveFailed: HiGHS refuses an option.
    """
    solver: highspy.Highs = _SilentHighs()  # type: ignore[no-untyped-call]
    for name, value in (OPTIONS | options).items():
        check_status(solver.setOptionValue(name, value), f"option {name}")
    return solver


def check_status(status: highspy.HighsStatus, call: str) -> None:
    """Raise SolveFailed if HiGHS refused a call."""
    if status == highspy.HighsStatus.kError:
        raise SolveFailed(f"HiGHS refused {call}; please report this with the problem's parameters.")
