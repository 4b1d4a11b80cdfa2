"""Verb ``darrm plan``: the most accurate release within a budget, or the table of all mechanisms."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ExitCode, fail, say
from darrm.cli.parameters import BAGS, DISJOINT, PAST, PRIOR, TOTAL, AsJson, options_named
from darrm.cli.parser import CommandOption, Made, parameters_of
from darrm.cli.question_options import fields_of

if TYPE_CHECKING:
    from darrm_opt.planning import Plan
    from darrm_opt.questions.plan import ReleasePlan

GROUP_SECONDS = 60.0
"""Time limit of a plan for groups where none is given [s]: the best tables of many voters take hours."""


def plan(
    asked: Annotated[dict[str, Any], fields_of("plan")],
    past: Annotated[dict[str, Any], Made(lambda: parameters_of(PAST))],
    output: Annotated[
        str | None, CommandOption("--output", "Write the γ or mechanism, for `darrm verify` and `darrm label`.", "FILE")
    ] = None,
    plot: Annotated[
        str | None, CommandOption("--plot", "Plot accuracy and ε of each mechanism: .png, .svg or .pdf.", "FILE")
    ] = None,
    *,
    compare: Annotated[
        bool,
        CommandOption("--compare", "Compare every mechanism, calibrated to the total, instead of recommending one."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Recommend the most accurate release within a total (ε, δ), or compare all mechanisms.

    Compares the plain majority, fewer voters, γ_opt at the largest target at which all queries fit, a γ designed for
    the whole sequence, tables, and every mechanism of `darrm cost`. The account that proves each total is shown. With
    --bags, a random draw decides how many voters a record influences. With --records, every query uses a fresh, secret
    sample of the records, divided among the voters, and costs less; a record then influences one voter. Otherwise,
    among more than two classes --affected is required. With a prior of classes or a price, the shares of right, wrong
    and withheld answers are shown. With --group for each group of voters, the table for the groups is compared with
    every other mechanism that its voters allow.
    """
    from darrm.cli.cached_solve import refuse_slow
    from darrm.cli.files import check_plot, check_writable
    from darrm.cli.verbs.question import ask, show
    from darrm_opt.design.report import guarantee
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.questions.compare import Compare

    # Before the work: a missing library or folder should not cost its time.
    check_writable(output, "output")
    check_plot(plot)
    question = _question(asked, past)
    # Private voters draw for themselves, and are fresh ones with a smaller ε.
    drawn = question.records is not None and question.epsilon != "inf"
    # Under a law of classes every plan is such a table.
    if compare and not question.by_law and question.groups is None:
        for name in ("least_accuracy", "time_limit"):
            if asked[name] is not None:
                raise InvalidInput(name, asked[name], Rule("cannot be combined with --compare"))
        if output is not None:
            raise InvalidInput("output", output, Rule("cannot be combined with --compare"))
        prior = {"objective": question.prior or "rectangular", "prior": None}
        comparison = Compare.of(question.record() | prior)
        with _named(sampled=drawn, total=False):
            comparison.check()
            refuse_slow(comparison, "")
        with _named(sampled=drawn):
            show(comparison, ask(comparison, "comparing"), json=json, plot=plot)
        return
    # Only γ have an estimate of their time; a search with a limit ends by itself.
    if not question.by_law and question.groups is None and question.records is None and question.time_limit is None:
        refuse_slow(question, "Or give --time-limit: what was found by then is reported, all of it proved.")

    with _named(sampled=question.records is not None):
        found: Plan = ask(question, "planning")
    # The plan is then of fresh voters with that ε, and no longer of samples.
    if drawn and not json:
        say(f"Each voter draws its own records: one answer of it is {guarantee(found.question.voter)}.")
    written = question.file_of(found)
    show(question, found, json=json, output=output, plot=plot, more=_next_step(question, found, written, output))
    if output is not None and written is None:
        if found.best is None:
            fail(f"{output} is not written: no option is useful (verdict none).", ExitCode.UNAVAILABLE)
        fail(f"{output} is not written. {_without_file(found)}", ExitCode.UNAVAILABLE)


@contextmanager
def _named(*, sampled: bool = False, total: bool = True) -> Iterator[None]:
    """Report what a planner refuses under the name of the option that gave it.

    ``sampled``: there are --records; ``total``: ε is that of all releases, and no longer a voter's.
    """
    prior = dict.fromkeys((*PRIOR, "lower", "measure", "objective"), "prior")
    drawn = BAGS | ({"sampling": "sampling"} if sampled else {})
    with options_named(**drawn, **prior, **(TOTAL | {"target_epsilon": "total_epsilon"} if total else {})):
        yield


def _question(asked: dict[str, Any], past: dict[str, Any]) -> ReleasePlan:
    """Return the question that was typed, of voters that are not private unless it says how private they are."""
    from darrm.cli.question_options import given_fields
    from darrm.cli.vote_files import vote_prior
    from darrm_opt.errors import InvalidInput
    from darrm_opt.questions.plan import ReleasePlan

    given = given_fields(ReleasePlan, asked, *(() if asked["group"] else ("K",)))
    if "groups" not in given and "profile" not in given:
        given = {"epsilon": "inf"} | given
    if "groups" in given:
        given = {"time_limit": GROUP_SECONDS} | given
    question = ReleasePlan.of(given)
    if question.classes > 2 and question.affected is None and question.groups is None and question.records is None:
        raise InvalidInput("affected", None, "the number of votes that one record can influence", DISJOINT)
    question = replace(question, prior=vote_prior(past, question))
    # Of private voters a plan under a law of votes says more than a service proves.
    if not question.by_law or question.groups is not None or question.epsilon == "inf":
        with _named(sampled=question.records is not None, total=False):
            question.check()
    return question


def _without_file(plan: Plan) -> str:
    """Return why a recommendation has no file, and what gives its labels."""
    best = plan.options[0]
    if best.fits and best.name == "majority":
        return "The plain majority draws nothing: release the class of most votes of each row."
    if best.fits and best.name == "fewer_voters":
        kept = round(best.parameters["voters"])
        if kept == 1:
            return "Keep one model and release its answers."
        return f"Keep {kept} of the models, and release the class of most of their votes in each row."
    return f"The option {best.name} has no γ and no mechanism." if best.fits else "No option has a γ or a mechanism."


def _next_step(question: ReleasePlan, plan: Plan, written: dict[str, Any] | None, output: str | None) -> str:
    """Return the command that releases labels as planned; empty without a γ or mechanism, which is ``written``."""
    from darrm_opt.record import planned_total

    asked, best = plan.question, plan.options[0]
    if written is None or (output is None and (asked.law is not None or best.plain)):
        return ""
    if output is None:
        text = (
            "Add --output plan.json to keep this γ; the plan then ends with the command that releases labels with it."
        )
        return f"\n\n{text}"
    name = shlex.quote(output)
    fresh = " --fresh" if asked.fresh and (asked.law is None or question.groups is not None) else ""
    if asked.law is not None:
        # In full: it has to be for the same votes, log and freshness as this plan.
        votes = " VOTES" if asked.sampling is None else " --ask 'python my_model.py'"
        way = f"darrm label --solution {name} --release-log releases.log --output labels.csv{fresh}{votes}"
        return f"\nwritten    {best.name}: release at most {asked.queries:,} with it:\n           {way}"
    # The total of a plain majority in the file is what it spends.
    total = planned[1] if best.plain and (planned := planned_total(written)) is not None else asked.total
    epsilon, delta = (repr(value).removesuffix(".0") for value in (total.epsilon, total.delta))
    budget = f"--total-epsilon {epsilon} --total-delta {delta}"
    if asked.bags is not None:
        budget = f"--queries {asked.queries}"  # a release log's own account knows no draw
    command = f"darrm label votes.csv --solution {name} --release-log releases.log"
    contents = "The plain majority, as γ = 1," if best.plain else "γ"
    return f"\n\n{contents} is in {output}. Next:\n  {command} \\\n      {budget}{fresh} --output labels.csv"
