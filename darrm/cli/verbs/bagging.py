"""``darrm bagging``."""

from __future__ import annotations

from typing import Annotated, Any

from darrm.cli.output import answer
from darrm.cli.parameters import AsJson, number, options_named
from darrm.cli.parser import CommandOption


def bagging(
    n: Annotated[str | None, CommandOption("--n", "Records in the dataset.", "COUNT")] = None,
    subsample_size: Annotated[
        str | None, CommandOption("--subsample-size", "Records drawn for one model.", "COUNT")
    ] = None,
    models: Annotated[str, CommandOption("--models", "Models, each trained on a subsample of its own.", "COUNT")] = "1",
    sampling: Annotated[
        str, CommandOption("--sampling", "Without replacement, how the subsamples are drawn.", "independent|disjoint")
    ] = "independent",
    form: Annotated[
        str, CommandOption("--form", "The published (ε, δ), or (0, δ), which is stronger.", "paper|zero")
    ] = "paper",
    *,
    without_replacement: Annotated[
        bool, CommandOption("--without-replacement", "No record is drawn twice within a subsample.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Say how private bagging is by itself: a record is probably not drawn.

    Holds for models that see their own subsample and nothing else. One model's privacy is that of a voter.
    """
    from darrm.cli.report import as_json, columns, guarantee, text_above
    from darrm_opt.bagging.guarantee import bagging_guarantee

    draw_options: dict[str, Any] = {"replacement": not without_replacement, "sampling": sampling, "form": form}
    size, draw = number(n), number(subsample_size)
    with options_named(n_models="models"):
        total = bagging_guarantee(size, draw, number(models), **draw_options)
    member = bagging_guarantee(size, draw, 1, **draw_options)
    if json:
        record = {
            "epsilon": total.epsilon,
            "delta": total.delta,
            "form": form,
            "basis": total.basis,
            "member": {"epsilon": member.epsilon, "delta": member.delta},
        }
        answer(as_json(record))
        return
    rows = [
        ["all models", text_above(total.epsilon, ".9g"), text_above(total.delta, ".9g")],
        ["one model", text_above(member.epsilon, ".9g"), text_above(member.delta, ".9g")],
    ]
    head = f"{models} models of {subsample_size} records out of {n}: {guarantee(total)}, {total.basis}."
    answer("\n".join([head, "", columns(["", "ε", "δ"], rows)]))
