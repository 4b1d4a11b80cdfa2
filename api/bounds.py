"""What one request may ask of this server. Whoever asks for more is told so before any work, with what it would cost."""

from __future__ import annotations

from api.estimating import estimate
from api.refusals import TooMuchAsked
from api.settings import Settings
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import InvalidInput


def check_voters(K: int, settings: Settings) -> None:
    """Refuse more voters than the operator allows.

    Raises:
        InvalidInput: naming K and the setting.
    """
    if settings.most_voters < K:
        raise InvalidInput(
            "K",
            K,
            f"at most {settings.most_voters} voters on this server",
            "Solve it with the command line, or have the operator raise DARRM_MOST_VOTERS.",
        )


def check_work(seconds: float, settings: Settings, field: str = "") -> None:
    """Refuse more estimated solving time [s] than the operator allows one request.

    Raises:
        TooMuchAsked: with the estimate.
    """
    if seconds > settings.most_work:
        raise TooMuchAsked(
            f"The expected solving time is {seconds:.3g} s, and one request may ask for {settings.most_work:g} s on this "
            "server. Ask for less at a time, or have the operator raise DARRM_MOST_WORK.",
            seconds,
            field,
        )


def check_design(request: DesignSpec, method: str, settings: Settings) -> None:
    """Refuse a design that is expected to take longer than the operator allows; raises as `check_work`."""
    check_work(estimate(request, method).seconds, settings)
