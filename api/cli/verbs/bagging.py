"""Verbs about the privacy of other mechanisms: ``darrm bagging`` and ``darrm gnmax``."""

from __future__ import annotations

from typing import Annotated, Any

from api.cli.output import answer
from api.cli.parameters import TOTAL, AsJson, number, options_named
from api.cli.parser import Option
from api.cli.progress import ProgressDisplay


def bagging(
    n: Annotated[str | None, Option("--n", "Records in the dataset.", "COUNT")] = None,
    subsample_size: Annotated[str | None, Option("--subsample-size", "Records drawn for one model.", "COUNT")] = None,
    models: Annotated[str, Option("--models", "Models, each trained on a subsample of its own.", "COUNT")] = "1",
    sampling: Annotated[
        str, Option("--sampling", "Without replacement, how the subsamples are drawn.", "independent|disjoint")
    ] = "independent",
    form: Annotated[
        str, Option("--form", "The published (ε, δ), or (0, δ), which is stronger.", "paper|zero")
    ] = "paper",
    *,
    without_replacement: Annotated[
        bool, Option("--without-replacement", "No record is drawn twice within a subsample.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Say how private bagging is by itself: a record is probably not drawn.

    Holds for models that see their own subsample and nothing else. One model's privacy is that of a voter.
    """
    from api.cli.report import as_json, columns, guarantee, text_above
    from darrm_opt.bagging.guarantee import bagging_guarantee

    how: dict[str, Any] = {"replacement": not without_replacement, "sampling": sampling, "form": form}
    size, draw = number(n), number(subsample_size)
    with options_named(n_models="models"):
        together = bagging_guarantee(size, draw, number(models), **how)
    member = bagging_guarantee(size, draw, 1, **how)
    if json:
        told = {
            "epsilon": together.epsilon,
            "delta": together.delta,
            "form": form,
            "basis": together.basis,
            "member": {"epsilon": member.epsilon, "delta": member.delta},
        }
        answer(as_json(told))
        return
    rows = [
        ["all models", text_above(together.epsilon, ".9g"), text_above(together.delta, ".9g")],
        ["one model", text_above(member.epsilon, ".9g"), text_above(member.delta, ".9g")],
    ]
    head = f"{models} models of {subsample_size} records out of {n}: {guarantee(together)}, {together.basis}."
    answer("\n".join([head, "", columns(["", "ε", "δ"], rows)]))


def gnmax(
    total_epsilon: Annotated[str | None, Option("--total-epsilon", "ε of all releases together.", "NATS")] = None,
    total_delta: Annotated[
        str | None, Option("--total-delta", "δ of all releases together, in (0, 1).", "PROBABILITY")
    ] = None,
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

    with ProgressDisplay("calibrating noise"), options_named(**TOTAL):
        found = gnmax_sigma(
            number(total_epsilon),
            number(total_delta),
            queries=number(queries),
            affected=number(affected),
            search=search,  # type: ignore[arg-type]  # checked there
        )
    if json:
        answer(as_json({"lambda": found.order, "sigma": found.sigma}))
    else:
        answer(f"σ = {found.sigma:.6g} votes, proved at λ = {found.order:.6g}")
