"""Floating-point mode of a thread: whether its arithmetic is the one that every proof here supposes.

Every number that comes in asks it; `rounding` loads `fractions`, which a small solve does without.
"""

from __future__ import annotations

import sys

from darrm_opt.errors import UnsafeArithmetic

_ONE, _BELOW_HALF_ULP, _ABOVE_HALF_ULP = 1.0, 2.0**-54, 3.0 * 2.0**-54
_LEAST_NORMAL, _TWO = sys.float_info.min, 2.0  # variables: Python would compute with literals when it compiles


def check_arithmetic() -> None:
    """Raise `UnsafeArithmetic` unless this thread rounds to nearest and computes with subnormal numbers."""
    # Libraries that are compiled for speed change both for a whole thread ("flush to zero", "denormals are zero"); a
    # bound that was computed so proves nothing. Every proof asks, every account, and every number that comes in
    # (`problem.real_number`), in a fraction of a microsecond.
    if _ONE + _BELOW_HALF_ULP != _ONE or _ONE + _ABOVE_HALF_ULP == _ONE or -_ONE - _BELOW_HALF_ULP != -_ONE:
        raise UnsafeArithmetic(f"sums are not rounded to nearest in this thread. {_REMEDY}")
    if _LEAST_NORMAL / _TWO * _TWO != _LEAST_NORMAL:
        raise UnsafeArithmetic(f"subnormal numbers count as zero in this thread. {_REMEDY}")


_REMEDY = (
    "Some library has changed the processor's floating-point mode (as -ffast-math does, or "
    "torch.set_flush_denormal), and no proof holds in it. Restore the default, or call from another process."
)
