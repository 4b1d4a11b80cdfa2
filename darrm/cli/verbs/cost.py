"""``darrm cost``: what releases cost together, and which parameter of a mechanism fits in a total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ProgressDisplay, answer, as_json, assumed_text, trained_text
from darrm.cli.parameters import (
    BAGS,
    PROBLEM,
    TOTAL,
    VOTES,
    AsJson,
    BagsOption,
    DesignOptions,
    Fresh,
    MissingVotes,
    ProblemOptions,
    SampleOptions,
    TotalOptions,
    bags_drawn,
    declared_option,
    named_values,
    number,
    options_named,
    total_privacy,
)
from darrm.cli.parser import ADVANCED, Argument, CommandOption

if TYPE_CHECKING:
    from darrm_opt.accounting import Release, Sampling
    from darrm_opt.mechanisms import VoteMechanism
    from darrm_opt.problem import Privacy
    from darrm_opt.questions.cost import CostAnswer


def _parameter(name: str, words: str, values: str = "VOTES") -> CommandOption:
    def described() -> str:
        from darrm_opt.mechanisms.base import mechanism_classes

        names = [each for each, mechanism in mechanism_classes().items() if mechanism.parameter == name]
        return f"{words}: the parameter of {', '.join(names)}."

    return CommandOption(f"--{name}", described, values)


@dataclass(frozen=True)
class ParameterOptions:
    """The parameter of each mechanism, as typed, and the check of noisy counts."""

    sigma: Annotated[str | None, _parameter("sigma", "σ of noise on each count")] = None
    scale: Annotated[str | None, _parameter("scale", "Scale of noise on each count")] = None
    rate: Annotated[str | None, _parameter("rate", "Nats per vote", "NUMBER")] = None
    voters: Annotated[str | None, _parameter("voters", "Mean number of voters drawn", "NUMBER")] = None
    share: Annotated[str | None, _parameter("share", "γ, the same for all votes", "PROBABILITY")] = None
    value: Annotated[
        str | None, CommandOption("--value", "Parameter of a mechanism from an add-on package.", "NUMBER", ADVANCED)
    ] = None
    check: Annotated[
        str | None,
        CommandOption(
            "--check",
            "Release a class only if the largest count, with its own noise, reaches the threshold; at "
            "most cap classes are released.",
            "sigma=VOTES,threshold=VOTES,cap=COUNT",
            ADVANCED,
            "none",
        ),
    ] = None

    def is_given(self, found: type[VoteMechanism]) -> bool:
        """Return whether the mechanism's own parameter was typed."""
        from darrm_opt.errors import InvalidInput, Rule

        own = self._own(found)
        if self.check is not None and not (found.has_check and getattr(self, own) is not None):
            raise InvalidInput("check", self.check, Rule("needs a parameter of a mechanism that has a check"))
        for option in fields(self):
            text = getattr(self, option.name)
            if text is not None and option.name not in ("check", own):
                raise InvalidInput(
                    option.name, text, Rule(f"is not a parameter of {found.name}"), f"Its parameter is --{own}."
                )
        return getattr(self, own) is not None

    def argument(self, found: type[VoteMechanism]) -> dict[str, Any]:
        """Return the parameter and the check, by the names of `darrm_opt.questions.cost.Cost`."""
        accepted = "sigma=VOTES and perhaps threshold=VOTES and cap=COUNT, separated by commas"
        typed = named_values("check", self.check, ("sigma", "threshold", "cap"), accepted)
        names = {"check_sigma": "sigma", "threshold": "threshold", "cap": "cap"}
        own = {"parameter": number(getattr(self, self._own(found)))}
        return own | {name: number(typed.get(word)) for name, word in names.items()}

    def named(self, found: type[VoteMechanism]) -> dict[str, str]:
        """Return the options that give the numbers of a mechanism, for errors about them (`options_named`)."""
        return {**dict.fromkeys(("threshold", "check_sigma", "cap"), "check"), found.parameter: self._own(found)}

    def _own(self, found: type[VoteMechanism]) -> str:
        return found.parameter if found.parameter in {option.name for option in fields(self)} else "value"


@dataclass(frozen=True)
class AccountOptions(ProblemOptions, TotalOptions):
    """What is accounted for, as typed: a mechanism's releases, or those of a γ, or of one known by its (ε, δ)."""

    epsilon: Annotated[
        str | None,
        CommandOption(
            "--epsilon",
            "ε of one voter; without --K, of one release, and --delta is its δ.",
            "NATS",
            PROBLEM,
        ),
    ] = None
    affected: Annotated[str | None, declared_option("affected", PROBLEM, "1; γ: K")] = None
    delta: Annotated[
        str | None,
        CommandOption(
            "--delta",
            "δ of all releases, with a mechanism's parameter; else δ of one release, in [0, 1).",
            "PROBABILITY",
            PROBLEM,
            "of a γ 1 − (1−Δ)^m; of a release 0",
        ),
    ] = None
    classes: Annotated[str, declared_option("classes", PROBLEM)] = "2"
    slack: Annotated[str, declared_option("slack", ADVANCED)] = "1e-4"
    solution: Annotated[
        str | None, CommandOption("--solution", "Output of `darrm solve`, instead of a problem; - is stdin.", "FILE")
    ] = None
    fresh: Fresh = False
    bags: BagsOption = None

    def refuse(self, used: Sequence[str], reason: str) -> None:
        """Refuse every option that was typed and is not among ``used``."""
        from darrm_opt.errors import InvalidInput

        for option in fields(self):
            if option.name not in used and getattr(self, option.name) != option.default:
                raise InvalidInput(option.name, getattr(self, option.name), reason)


@dataclass(frozen=True)
class BatchOptions:
    """A fixed batch of votes, as typed, and what is expected of it."""

    votes: Annotated[
        str | None,
        CommandOption("--votes", "Votes of a fixed batch, one row per query: report what they reveal.", "FILE", VOTES),
    ] = None
    missing: MissingVotes = None
    leader_share: Annotated[
        str,
        CommandOption("--leader-share", "Expected mean share of agreeing voters, fixed beforehand.", "SHARE", ADVANCED),
    ] = "0.9"
    unpublished: Annotated[
        bool,
        CommandOption(
            "--unpublished", "Also print the ε computed from the votes, which must NOT be published.", panel=ADVANCED
        ),
    ] = False

    def refuse(self) -> None:
        """Refuse what was typed of a batch that there is not."""
        from darrm_opt.errors import InvalidInput, Rule

        for option in fields(self):
            if getattr(self, option.name) != option.default:
                raise InvalidInput(option.name, getattr(self, option.name), Rule("needs --votes of a mechanism"))


def cost(
    options: AccountOptions,
    parameters: ParameterOptions,
    batch: BatchOptions,
    drawn: SampleOptions,
    mechanism: Annotated[str | None, Argument("NAME", "The mechanism, such as laplace; or bagging.")] = None,
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
    """Compute the total privacy of releases, or a parameter that fits in a total.

    With NAME, a parameter and --delta: the least ε that any account proves, for voters that are not private. With
    NAME, --total-epsilon and --total-delta: the most useful parameter within the total. The account covers exactly
    what `darrm label` draws. With --records, every query uses a fresh, secret sample of the records, and costs less.
    With --votes, also prints how much noisy labels reveal about these votes, itself made private; this account does
    not exist for adaptive queries.

    Without NAME: the total of many releases of a γ (--solution, or the best for --K and --m or --target-epsilon), by
    every sound account; the least is the result. Without --K and --solution, --epsilon and --delta are those of one
    release. Voters that were trained once (no --fresh) count as not private; the total of their models is one more
    account.

    With the name bagging: the privacy of --K models, each trained on its own subsample alone (--bags).
    """
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.mechanisms import mechanism_names

    if mechanism is not None and mechanism != "bagging":
        if mechanism not in mechanism_names() and Path(mechanism).is_file():
            rule = Rule("is the name of a mechanism, such as laplace, and not a file")
            raise InvalidInput("NAME", mechanism, rule, f"Give the file as --solution {mechanism}.")
        _cost_of_mechanism(mechanism, options, parameters, drawn.as_sampling(), (output, plot), batch, json=json)
        return
    typed = {option.name: getattr(parameters, option.name) for option in fields(parameters)}
    batch.refuse()
    # A number that nothing uses would look as if it had been accounted for.
    for name, text in {**typed, "records": drawn.records, "output": output, "plot": plot}.items():
        if text is not None:
            raise InvalidInput(name, text, Rule("needs a mechanism"))
    if mechanism == "bagging":
        _cost_of_bags(options, json=json)
    else:
        _cost_of_release(options, json=json)


_OF_MECHANISM = ("K", "classes", "queries", "affected", "delta", "total_epsilon", "total_delta")


def _cost_of_mechanism(
    mechanism: str,
    options: AccountOptions,
    parameters: ParameterOptions,
    sampling: Sampling | None,
    files: tuple[str | None, str | None],
    batch: BatchOptions,
    *,
    json: bool,
) -> None:
    from darrm.cli.files import check_plot, check_writable
    from darrm.cli.ptr import batch_cost, batch_text, read_batch
    from darrm_opt.answers import sampling_body
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.mechanisms import mechanism_class
    from darrm_opt.questions.cost import Cost

    output, plot = files
    # Before the account, which may take a minute.
    check_writable(output, "output")
    check_plot(plot)
    with options_named(mechanism="NAME"):
        found = mechanism_class(mechanism)
    _refuse_problem(options)
    queries, total, counts = number(options.queries), None, None
    # An ε by the votes is of one batch at a fixed noise: there is nothing to calibrate, and samples have no such
    # account.
    if batch.votes is None:
        batch.refuse()
    else:
        if sampling is not None or not parameters.is_given(found):
            raise InvalidInput(
                "votes", batch.votes, Rule("needs the mechanism's parameter and cannot be combined with --records")
            )
        counts = read_batch(batch.votes, options.K, options.classes, options.queries, batch.missing)
        queries = len(counts)
    # One of the two questions: ε of a parameter at δ, or the parameter within a total. A δ means something else in
    # each.
    if parameters.is_given(found):
        for name, text in (("total_epsilon", options.total_epsilon), ("total_delta", options.total_delta)):
            if text is not None:
                raise InvalidInput(name, text, Rule("cannot be combined with a parameter"), "Give --delta.")
    else:
        total = total_privacy(options.total_epsilon, options.total_delta or "0")
    question = Cost(
        mechanism=mechanism,
        K=number(options.K),
        classes=number(options.classes),
        affected=number(options.affected or "1"),
        queries=queries,
        **parameters.argument(found),
        delta=None if total else number(options.delta),
        total_epsilon=None if total is None else total.epsilon,
        total_delta=None if total is None else total.delta,
        curve=plot is not None or (output is not None and output.lower().endswith(".csv")),
        **sampling_body(sampling),
    )
    named = {} if total is None else TOTAL
    with (
        ProgressDisplay("accounting" if total is None else "calibrating"),
        options_named(**named, **parameters.named(found), releases="queries", mechanism="NAME"),
    ):
        found_cost = question.answer()
        labels_cost = (
            None
            if counts is None
            else batch_cost(found_cost, batch.leader_share, counts, unpublished=batch.unpublished)
        )
    told = found_cost.record()
    points = told.pop("curve", [])
    if output is not None:
        _write(output, found_cost, points, queries, total)
    if plot is not None:
        from darrm.cli.files import picture_format, write_whole
        from darrm_opt.figures import cost_figure, render

        figure = cost_figure(found_cost.mechanism, points, queries, found_cost.delta)
        write_whole(plot, render(figure, picture_format(plot)))
    if json:
        answer(as_json(told | ({} if labels_cost is None else {"votes": labels_cost})))
    elif labels_cost is None or found_cost.account == "none":
        answer(found_cost.text(queries))
    else:
        answer(f"{found_cost.text(queries)}\n{batch_text(labels_cost)}")


def _refuse_problem(options: AccountOptions) -> None:
    """Refuse the options of private voters, which a mechanism does not have."""
    from darrm_opt.errors import InvalidInput, Rule

    if options.fresh:
        rule = Rule("makes no difference to a mechanism, whose voters are not private")
        raise InvalidInput("fresh", options.fresh, rule, "Leave it out.")
    options.refuse(_OF_MECHANISM, Rule("cannot be combined with a mechanism"))


def _write(
    output: str, found: CostAnswer, points: Sequence[dict[str, Any]], queries: int, total: Privacy | None
) -> None:
    """Write the mechanism with its total, or as CSV ε over δ and over the number of releases."""
    from darrm.cli.files import write_json, write_whole
    from darrm_opt.mechanisms.base import planned_fields
    from darrm_opt.problem import Privacy

    if output.lower().endswith(".csv"):
        rows = [",".join("" if value is None else str(value) for value in point.values()) for point in points]
        write_whole(output, "\n".join([",".join(points[0]), *rows, ""]).encode())
        return
    proved = total or Privacy(found.epsilon, found.delta)
    fields = planned_fields(queries, proved) if proved.epsilon < float("inf") else {}
    if found.sampling is not None:
        fields |= {"sampling": found.sampling.record()}
    write_json(output, found.mechanism.record() | fields)


_PROBLEM = ("K", "epsilon", "Delta", "affected", "m", "target_epsilon", "delta", "targets", "profile", "profile_points")


def _cost_of_release(options: AccountOptions, *, json: bool) -> None:
    """Print what many releases of a γ, or of one known by its (ε, δ), cost by every sound account."""
    from darrm_opt.design.report import columns, count_text, guarantee, text_above
    from darrm_opt.errors import Rule
    from darrm_opt.questions.compose import totals_by_account

    options.refuse((*_PROBLEM, "queries", "slack", "total_delta", "solution", "fresh"), Rule("needs a mechanism"))
    queries = number(options.queries)
    privacy, release = _release(options)
    with ProgressDisplay("accounting"):
        table = totals_by_account(
            privacy, queries, number(options.slack), number(options.total_delta), release, fresh=options.fresh
        )
    if json:
        assumed: dict[str, Any] = {"fresh": options.fresh}
        if release is not None:
            assumed["affected"] = release.problem.affected
        answer(as_json({name: account | assumed for name, account in table.items()}))
        return
    rows = [
        [
            name,
            "-" if total["epsilon"] is None else text_above(total["epsilon"], ".6f"),
            "-" if total["delta"] is None else text_above(total["delta"]),
        ]
        for name, total in table.items()
    ]
    # An account that refuses is a row with its reason: that it is missing says something about the question.
    notes = [f"{name}: {total['refused']}" for name, total in table.items() if "refused" in total]
    # A lower bound tells whether to look for a better account.
    if (least := table.get("bits", {}).get("epsilon_at_least")) is not None:
        notes.append(f"No account can be below {least:.6f}: some adversary attains that.")
    if release is not None and (assumption := assumed_text([release.problem.voter], int(queries), fresh=options.fresh)):
        notes.append(assumption)
    head = f"{count_text(int(queries), 'release')}, each {guarantee(privacy)}"
    if release is not None:
        head += trained_text(release.problem, fresh=options.fresh)
        head += f"; one record reaches at most {count_text(release.problem.affected, 'voter')}"
    head += ":"
    answer("\n".join([head, "", columns(["account", "ε", "δ"], rows), *([""] if notes else []), *notes]))


def _release(options: AccountOptions) -> tuple[Privacy, Release | None]:
    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Privacy

    if options.K is not None or options.solution is not None:
        from darrm.cli.cached_solve import release_of

        release = release_of(options, DesignOptions(), options.solution)
        return release.privacy, release
    for name in options.given:
        if name not in {"epsilon", "delta"}:
            raise InvalidInput("K", None, "a whole number of voters, at least 1", f"{name} belongs to a problem.")
    if options.epsilon is None:
        raise InvalidInput("epsilon", None, "ε of one release [nats], a problem, --solution, or a mechanism")
    return Privacy(number(options.epsilon), 0.0 if options.delta is None else number(options.delta)), None


def _cost_of_bags(options: AccountOptions, *, json: bool) -> None:
    """Print how private bagging is by itself: a record is probably not drawn."""
    from darrm_opt.bagging import bagging_guarantee
    from darrm_opt.design.report import columns, guarantee, text_above
    from darrm_opt.errors import InvalidInput, Rule

    options.refuse(("K", "bags"), Rule("cannot be combined with bagging, whose options are --K and --bags"))
    bags, models = bags_drawn(options.bags), number(options.K or "1")
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
        for name, privacy in (("all models", total), ("the same, stronger", zero), ("one model", member))
    ]
    head = f"{models} models of {drawn} records out of {size}: {guarantee(total)}, {total.basis}."
    answer("\n".join([head, "", columns(["", "ε", "δ"], rows)]))
