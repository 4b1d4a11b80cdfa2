"""``darrm gnmax``."""

from __future__ import annotations

from typing import Annotated

from api.cli.declared import Option
from api.cli.options import AsJson, number
from api.cli.outcome import answer


def gnmax(
    target_epsilon: Annotated[str | None, Option("--target-epsilon", "ε of all releases together.", "NATS")] = None,
    delta: Annotated[str | None, Option("--delta", "δ of all releases together, in (0, 1).", "PROBABILITY")] = None,
    queries: Annotated[str, Option("--queries", "Number of releases.", "COUNT")] = "1",
    affected: Annotated[str, Option("--affected", "How many votes one record can move.", "COUNT")] = "1",
    search: Annotated[
        str, Option("--search", "The exact minimiser over λ, or the paper's grid.", "continuous|grid")
    ] = "continuous",
    *,
    json: AsJson = False,
) -> None:
    """Say how much Gaussian noise GNMax needs for a target, and at which order λ that is proved.

    By the Rényi privacy of noisy counts, as published. Two classes need less: see `darrm compare`.
    """
    from api.cli.report import as_json
    from darrm_opt.aggregators.gnmax import gnmax_sigma
    from darrm_opt.errors import InvalidInput

    try:
        found = gnmax_sigma(
            number(target_epsilon),
            number(delta),
            queries=number(queries),
            affected=number(affected),
            search=search,  # type: ignore[arg-type]  # checked there
        )
    except InvalidInput as err:
        if err.argument != "epsilon":
            raise
        raise InvalidInput("target_epsilon", err.value, err.accepted, err.advice) from err
    if json:
        answer(as_json({"lambda": found.order, "sigma": found.sigma}))
    else:
        answer(f"σ = {found.sigma:.6g} votes, proved at λ = {found.order:.6g}")
