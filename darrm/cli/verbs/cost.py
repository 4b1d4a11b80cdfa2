"""``darrm cost``: what releases cost together, and which parameter of a mechanism fits in a total."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import answer, as_json
from darrm.cli.parameters import (
    BAGS,
    BAGS_DRAWN,
    CHECKED,
    PAST,
    TOTAL,
    VOTES,
    AsJson,
    MechanismParameters,
    bags_drawn,
    number,
    options_named,
    parameter_of,
)
from darrm.cli.parser import ADVANCED, Argument, CommandOption, Made, parameters_of
from darrm.cli.question_options import fields_of

if TYPE_CHECKING:
    from darrm_opt.mechanisms import VoteMechanism

OF_MECHANISM = ("mechanism", "parameter", "threshold", "check_sigma", "cap", "curve")
"""Fields that the name of a mechanism and its own options state."""

BAGGING = "bagging"  # a name that is no mechanism's

_BATCH = {
    "votes": CommandOption(
        "--votes", "Votes of a fixed batch, one row per query: report what they reveal.", "FILE", VOTES
    ),
    "missing": PAST["missing"],
    "leader_share": CommandOption(
        "--leader-share", "Expected mean share of agreeing voters, fixed beforehand.", "SHARE", ADVANCED, "0.9"
    ),
    "unpublished": CommandOption(
        "--unpublished", "Also print the ε computed from the votes, which must NOT be published.", panel=ADVANCED
    ),
}
"""A fixed batch of votes, and what is expected of it."""


_NO_PARAMETER = "For a γ or a table, use `darrm compose`; for the plain vote, `darrm plan`."


def _priced(name: str) -> type[VoteMechanism]:
    """Return the mechanism of a name; refuse one without a parameter, and what is not installed."""
    from darrm_opt.errors import InvalidInput
    from darrm_opt.mechanisms import calibrated_names, mechanism_class, mechanism_names

    if name not in mechanism_names() or not (found := mechanism_class(name)).parameter:
        raise InvalidInput("mechanism", name, f"one of {', '.join(calibrated_names())}, bagging", _NO_PARAMETER)
    return found


def _refuse_batch(batch: dict[str, Any]) -> None:
    """Refuse what was typed of a batch that there is not."""
    from darrm_opt.errors import InvalidInput, Rule

    for name, value in batch.items():
        if value is not None:
            raise InvalidInput(name, value, Rule("needs --votes of a mechanism"))


def _checked_name(name: str) -> None:
    """Refuse a name that is neither that of a mechanism that can be priced, nor bagging."""
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.mechanisms import mechanism_names

    if name == BAGGING:
        return
    if name not in mechanism_names() and Path(name).is_file():
        rule = Rule("is the name of a mechanism, such as laplace, and not a file")
        raise InvalidInput("NAME", name, rule, f"For a γ: darrm compose --solution {name}.")
    with options_named(mechanism="NAME"):
        _priced(name)


def cost(
    mechanism: Annotated[str, Argument("NAME", "The mechanism, such as laplace; or bagging.", _checked_name)],
    asked: Annotated[dict[str, Any], fields_of("cost", *OF_MECHANISM)],
    parameters: MechanismParameters,
    batch: Annotated[dict[str, Any], Made(lambda: parameters_of(_BATCH))],
    bags: Annotated[str | None, BAGS_DRAWN] = None,
    output: Annotated[
        str | None,
        CommandOption(
            "--output",
            "Write the mechanism to this file, for `darrm label`; or, to a .csv, ε over δ and over the "
            "number of releases.",
            "FILE",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        CommandOption("--plot", "Plot ε over δ and over the number of releases: .png, .svg or .pdf.", "FILE"),
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Compute the total privacy of releases of a mechanism, or a parameter that fits in a total.

    With a parameter and --delta: the least ε that any account proves, for voters that are not private. With
    --total-epsilon and --total-delta: the most useful parameter within the total. The account covers exactly what
    `darrm label` draws. With --records, every query uses a fresh, secret sample of the records, and costs less. With
    --votes, also prints how much noisy labels reveal about these votes, itself made private; this account does not
    exist for adaptive queries.

    One record can influence --affected votes of a query; the default is 1 here, as for teachers on disjoint data, and
    all in `darrm plan`.

    With the name bagging: the privacy of --K models, each trained on its own subsample alone (--bags). For releases of
    a γ, or of known (ε, δ), use `darrm compose`.
    """
    from darrm_opt.errors import InvalidInput, Rule

    if mechanism == BAGGING:
        _refuse_batch(batch)
        given = {**asked, **parameters, "output": output, "plot": plot}
        for name, value in given.items():
            # A number that nothing uses would look as if it had been accounted for.
            if value not in (None, False) and name != "K":
                raise InvalidInput(
                    name, value, Rule("cannot be combined with bagging, whose options are --K and --bags")
                )
        _cost_of_bags(asked["K"] or "1", bags, json=json)
        return
    _checked_name(mechanism)
    if bags is not None:
        raise InvalidInput("bags", bags, Rule("cannot be combined with a mechanism"))
    _cost_of_mechanism(mechanism, asked, parameters, batch, output, plot, json=json)


def _cost_of_mechanism(
    mechanism: str,
    asked: dict[str, Any],
    parameters: dict[str, Any],
    batch: dict[str, Any],
    output: str | None,
    plot: str | None,
    *,
    json: bool,
) -> None:
    """Print what releases of a mechanism cost, or which parameter fits in a total."""
    from dataclasses import replace

    from darrm.cli.files import check_plot, check_writable
    from darrm.cli.ptr import batch_cost, batch_text, read_batch
    from darrm.cli.question_options import given_fields
    from darrm.cli.verbs.question import ask, show
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.questions.cost import Cost

    # Before the account, which may take a minute.
    check_writable(output, "output")
    check_plot(plot)
    found = _priced(mechanism)
    parameter = parameter_of(found, parameters)
    counts = None
    # An ε by the votes is of one batch at a fixed noise: there is nothing to calibrate, and samples have no such
    # account.
    if batch["votes"] is None:
        _refuse_batch(batch)
    elif asked["records"] is not None or "parameter" not in parameter:
        rule = Rule("needs the mechanism's parameter and cannot be combined with --records")
        raise InvalidInput("votes", batch["votes"], rule)
    else:
        counts = read_batch(
            batch["votes"], asked["K"], asked["classes"] or "2", asked["queries"] or "1", batch["missing"]
        )
    # One of the two questions: ε of a parameter at δ, or the parameter within a total. A δ means something else in
    # each.
    totals = (asked["total_epsilon"], asked["total_delta"])
    if "parameter" not in parameter:
        if totals[0] is None:
            advice = f"Or give --{found.parameter} and --delta."
            raise InvalidInput("total_epsilon", None, "ε of all releases together [nats]", advice)
        if asked["delta"] is not None:
            rule = Rule("goes with a parameter of the mechanism")
            raise InvalidInput("delta", asked["delta"], rule, "With --total-epsilon, give --total-delta.")
    for name, text in zip(("total_epsilon", "total_delta"), totals, strict=True):
        if "parameter" in parameter and text is not None:
            raise InvalidInput(name, text, Rule("cannot be combined with a parameter"), "Give --delta.")
    needs_curve = plot is not None or (output is not None and output.lower().endswith(".csv"))
    given = given_fields(Cost, {**asked, "mechanism": mechanism}, "K")
    question = Cost.of(given | parameter | {"curve": needs_curve})
    if counts is not None:
        question = replace(question, queries=len(counts))
    named = {} if "parameter" in parameter else TOTAL
    with options_named(**named, **CHECKED, parameter=found.parameter, releases="queries", mechanism="NAME"):
        cost = ask(question, "accounting" if "parameter" in parameter else "calibrating")
        votes = (
            None
            if counts is None
            else batch_cost(cost, batch["leader_share"] or "0.9", counts, unpublished=bool(batch["unpublished"]))
        )
    more = "" if votes is None or cost.account == "none" else f"\n{batch_text(votes)}"
    beside = None if votes is None else {"votes": votes}
    show(question, cost, json=json, output=output, plot=plot, beside=beside, more=more)


def _cost_of_bags(K: str, text: str | None, *, json: bool) -> None:
    """Print how private bagging is by itself: a record is probably not drawn."""
    from darrm_opt.bagging import bagging_guarantee
    from darrm_opt.design.report import columns, guarantee, text_above
    from darrm_opt.errors import InvalidInput

    bags, models = bags_drawn(text), number(K)
    if bags is None:
        raise InvalidInput("bags", None, "n=COUNT,size=COUNT")
    size, drawn = bags.n, bags.subsample_size
    draw: dict[str, Any] = {"replacement": bags.replacement, "sampling": bags.sampling}
    with options_named(**BAGS):
        # Both forms hold: the paper's (ε, δ), and the same δ with ε = 0.
        total, zero = (bagging_guarantee(size, drawn, models, form=form, **draw) for form in ("paper", "zero"))
        # Who is given one model only learns less: a claim of its own.
        member = bagging_guarantee(size, drawn, 1, **draw)
    if json:
        numbers = [{"epsilon": each.epsilon, "delta": each.delta} for each in (total, zero, member)]
        answer(as_json({**numbers[0], "basis": total.basis, "zero": numbers[1], "member": numbers[2]}))
        return
    rows = [
        [name, text_above(privacy.epsilon, ".9g"), text_above(privacy.delta, ".9g")]
        for name, privacy in (("all models", total), ("all models, pure δ (ε = 0)", zero), ("one model", member))
    ]
    source = f"{total.basis} of Liu, Jia and Gong"
    head = f"{models} models of {drawn:,} records out of {size:,}: {guarantee(total)} ({source})."
    answer("\n".join([head, "", columns(["", "ε", "δ"], rows)]))
