"""``darrm profile``."""

from __future__ import annotations

from typing import Annotated

from api.cli.declared import Option
from api.cli.options import AsJson, DesignOptions, ProblemOptions, number
from api.cli.outcome import answer

WIDER = 1.5
"""The table reaches this far beyond the target ε, unless told which ε to show."""


def profile(
    asked: ProblemOptions,
    design: DesignOptions,
    solution: Annotated[
        str | None, Option("--solution", "An answer of `darrm solve`, instead of a problem; - is stdin.", "FILE")
    ] = None,
    points: Annotated[str, Option("--points", "Values of ε, from 0 to beyond the target.", "COUNT")] = "16",
    epsilons: Annotated[
        str | None, Option("--epsilons", "Values of ε, as in 0,0.1,0.3, instead of --points.", "NATS")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Tabulate how private one release really is: the least δ that is proved, at each ε.

    The problem's target is one point of that curve. Many releases are accounted by all of it: see `darrm compose`.
    """
    import numpy as np

    from api.cli.releasing import release_of
    from api.cli.report import as_json, columns, problem_text
    from darrm_opt.design.profile import privacy_profile
    from darrm_opt.problem import real_number, whole_number
    from darrm_opt.record import problem_record

    count = whole_number(number(points), "points", "a whole number of points, at least 2", least=2)
    wanted = (
        None
        if epsilons is None
        else [real_number(number(text), "epsilons", "numbers of nats, as in 0,0.1") for text in epsilons.split(",")]
    )
    release = release_of(asked, design, solution)
    if wanted is None:
        wanted = np.linspace(0.0, WIDER * max(release.privacy.epsilon, 1e-3), count).tolist()
    found = privacy_profile(release.noise, release.problem, wanted)
    if json:
        answer(
            as_json(
                {
                    "problem": problem_record(release.problem),
                    "gamma": release.noise.values.tolist(),
                    "epsilon": wanted,
                    "delta": found.deltas.tolist(),
                    "attained": found.attained.tolist(),
                }
            )
        )
        return
    rows = [[f"{epsilon:.6g}", f"{delta:.6e}"] for epsilon, delta in zip(wanted, found.deltas.tolist(), strict=True)]
    answer("\n".join([problem_text(release.problem), "", columns(["ε", "δ"], rows)]))
