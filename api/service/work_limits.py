"""Work limits: the voters, the estimated time and the estimated memory that the operator allows for one request."""

from __future__ import annotations

from api.errors.exceptions import WorkLimitExceeded
from api.settings import Settings
from darrm_opt.answers.running_time import design_memory, estimate_cost
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import InvalidInput


def check_voters(K: int, settings: Settings) -> None:
    """Reject more voters than the operator allows.

    Raises:
        InvalidInput: naming K and the setting.
    """
    if settings.max_voters < K:
        raise InvalidInput(
            "K",
            K,
            f"at most {settings.max_voters} voters on this server",
            "Solve it with the command line, or have the operator raise DARRM_MAX_VOTERS.",
        )


def check_work(seconds: float, settings: Settings, field: str = "") -> None:
    """Reject more estimated solving time [s] than the operator allows for one request.

    Raises:
        WorkLimitExceeded: with the estimate.
    """
    if seconds > settings.max_work_seconds:
        raise WorkLimitExceeded(
            f"The expected solving time is {seconds:.3g} s, and one request may ask for {settings.max_work_seconds:g} "
            "s on this server. Ask for less at a time, or have the operator raise DARRM_MAX_WORK_SECONDS.",
            seconds,
            field,
        )


def check_design(spec: DesignSpec, method: str, settings: Settings) -> None:
    """Reject a design that is expected to take more time or memory than the operator allows; raises as `check_work`."""
    memory = design_memory(spec, method)
    if memory > settings.solver_memory:
        raise WorkLimitExceeded(
            f"Solving by {method} is expected to need {memory:.0f} MiB, and a solver process may take "
            f"{settings.solver_memory} MiB on this server. method = 'cuts' gives the same answer with less.",
            estimate_cost(spec, method).seconds,
            "method",
        )
    check_work(estimate_cost(spec, method).seconds, settings)
