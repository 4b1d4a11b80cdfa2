"""``darrm cost``: what releases of a mechanism cost together, and which parameter fits in a total."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, cast

from darrm.cli.output import ProgressDisplay, answer
from darrm.cli.parameters import TOTAL, AsJson, number, options_named, total_privacy
from darrm.cli.parser import Argument, CommandOption

if TYPE_CHECKING:
    from darrm_opt.accounting.sampling import Sampling
    from darrm_opt.mechanisms import VoteMechanism


@dataclass(frozen=True)
class ParameterOptions:
    """The parameter of each mechanism, as typed, and the check of noisy counts."""

    sigma: Annotated[
        str | None, CommandOption("--sigma", "σ of Gaussian noise on each count: the parameter of gnmax.", "VOTES")
    ] = None
    scale: Annotated[
        str | None, CommandOption("--scale", "Scale of Laplace noise on each count: the parameter of laplace.", "VOTES")
    ] = None
    rate: Annotated[
        str | None,
        CommandOption("--rate", "Nats a vote: the parameter of selection mechanisms.", "NUMBER"),
    ] = None
    voters: Annotated[
        str | None, CommandOption("--voters", "Mean number of voters drawn: the parameter of subsampling.", "NUMBER")
    ] = None
    share: Annotated[
        str | None,
        CommandOption("--share", "γ, the same for every vote: the parameter of randomized_response.", "PROBABILITY"),
    ] = None
    value: Annotated[
        str | None, CommandOption("--value", "The parameter of a mechanism that a package brings.", "NUMBER")
    ] = None
    threshold: Annotated[
        str | None,
        CommandOption("--threshold", "Least noisy count for which gnmax releases a class.", "VOTES", otherwise="none"),
    ] = None
    check_sigma: Annotated[
        str | None, CommandOption("--check-sigma", "σ of the noise on the count that is checked.", "VOTES")
    ] = None
    cap: Annotated[
        str | None, CommandOption("--cap", "Most classes that are released.", "COUNT", otherwise="as many as queries")
    ] = None

    def is_given(self, found: type[VoteMechanism]) -> bool:
        """Return whether the mechanism's own parameter was typed.

        Raises:
            InvalidInput: another one was, or a check that the mechanism does not have or that cannot be calibrated.
        """
        from darrm_opt.errors import InvalidInput

        own, is_checked = self._own(found), found.name == "gnmax"
        for option in fields(self):
            text, accepted = getattr(self, option.name), f"nothing for {found.name}"
            if option.name in _CHECKS:
                if text is not None and not (is_checked and getattr(self, own) is not None):
                    raise InvalidInput(option.name, text, "nothing without gnmax and --sigma")
            elif text is not None and option.name != own:
                raise InvalidInput(option.name, text, accepted, f"Its parameter is --{own}.")
        return getattr(self, own) is not None

    def mechanism(self, found: type[VoteMechanism], K: Any, classes: Any, affected: Any) -> VoteMechanism:
        """Return the mechanism at the parameter that was typed, checked where a check was."""
        value = number(getattr(self, self._own(found)))
        if all(getattr(self, name) is None for name in _CHECKS):
            return found.of(K, classes, value, affected)
        from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum

        threshold, check_sigma, cap = (number(getattr(self, name)) for name in _CHECKS)
        if check_sigma is not None and threshold is None:
            threshold = 0.0  # it costs the same whatever it is
        return NoisyMaximum(K, classes, value, threshold=threshold, check_sigma=check_sigma, affected=affected, cap=cap)

    def _own(self, found: type[VoteMechanism]) -> str:
        return found.parameter if found.parameter in {option.name for option in fields(self)} else "value"


@dataclass(frozen=True)
class SamplingOptions:
    """How the records are drawn anew for every query, as typed."""

    records: Annotated[
        str | None,
        CommandOption("--records", "Records of which every query has a fresh, secret sample.", "COUNT"),
    ] = None
    sample: Annotated[
        str | None,
        CommandOption("--sample", "Records drawn for one query (by each voter, with each-voter).", "COUNT"),
    ] = None
    sampling: Annotated[
        str | None,
        CommandOption(
            "--sampling",
            "poisson, without-replacement, each-voter or each-voter-with-replacement.",
            "SCHEME",
            otherwise="poisson",
        ),
    ] = None
    neighbours: Annotated[
        str | None,
        CommandOption(
            "--neighbours",
            "add-remove or replace-one.",
            "RELATION",
            otherwise="add-remove with poisson, else replace-one",
        ),
    ] = None
    labels: Annotated[
        str | None,
        CommandOption("--labels", "Labels that one sample serves: tokens of a text.", "COUNT", otherwise="1"),
    ] = None

    def value(self) -> Sampling | None:
        """Return the sampling; None if every record is in every query.

        Raises:
            InvalidInput: an option without --records, or a value out of its range.
        """
        from darrm_opt.accounting.sampling import Sampling
        from darrm_opt.errors import InvalidInput

        typed = {option.name: getattr(self, option.name) for option in fields(self)}
        if self.records is None:
            for name, text in typed.items():
                if text is not None:
                    raise InvalidInput(name, text, "nothing without --records")
            return None
        return Sampling(
            number(self.records),
            number(self.sample),
            scheme=cast("Any", self.sampling or "poisson"),
            neighbours=cast("Any", self.neighbours),
            labels=number(self.labels or "1"),
        )


_CHECKS = ("threshold", "check_sigma", "cap")


def cost(
    mechanism: Annotated[str, Argument("NAME", "The mechanism: gnmax, laplace, or another one of the registry.")],
    parameters: ParameterOptions,
    drawn_anew: SamplingOptions,
    K: Annotated[str | None, CommandOption("--K", "Number of voters.", "COUNT")] = None,
    classes: Annotated[str, CommandOption("--classes", "Number of classes.", "COUNT")] = "2",
    queries: Annotated[str, CommandOption("--queries", "Releases that share the total.", "COUNT")] = "1",
    affected: Annotated[str, CommandOption("--affected", "How many votes one record can move.", "COUNT")] = "1",
    delta: Annotated[
        str | None, CommandOption("--delta", "δ of all releases together, with a parameter.", "PROBABILITY")
    ] = None,
    total_epsilon: Annotated[
        str | None, CommandOption("--total-epsilon", "ε of all releases together: find the parameter.", "NATS")
    ] = None,
    total_delta: Annotated[
        str | None,
        CommandOption(
            "--total-delta", "δ of all releases together, with --total-epsilon.", "PROBABILITY", otherwise="0"
        ),
    ] = None,
    output: Annotated[
        str | None, CommandOption("--output", "Write the mechanism to this file, for `darrm label`.", "FILE")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Say what releases of a mechanism cost together, or which parameter fits in a total.

    With a parameter and --delta: the least ε that any account proves, for votes of voters that are not private. With
    --total-epsilon and --total-delta: the most useful parameter within the total. What is accounted for is what
    `darrm label` draws. With --records and --sample, every query has a fresh and secret sample of the records, and
    costs less.
    """
    from darrm.cli.files import check_writable, write_json
    from darrm.cli.report import as_json, guarantee
    from darrm_opt.errors import InvalidInput
    from darrm_opt.mechanisms import mechanism_class
    from darrm_opt.mechanisms.base import planned_fields
    from darrm_opt.problem import Privacy

    check_writable(output, "output")
    with options_named(mechanism="NAME"):
        found = mechanism_class(mechanism)
    shape, sampling = (number(K), number(classes), number(affected)), drawn_anew.value()
    if parameters.is_given(found):
        for name, text in (("total_epsilon", total_epsilon), ("total_delta", total_delta)):
            if text is not None:
                raise InvalidInput(name, text, "nothing beside a parameter", "Give --delta.")
        drawn = parameters.mechanism(found, *shape)
        total, total_at = None, number(delta)
    else:
        total = total_privacy(total_epsilon, total_delta or "0")
        with ProgressDisplay("calibrating"), options_named(**TOTAL, releases="queries"):
            drawn = found.calibrated(*shape[:2], total, number(queries), affected=shape[2], sampling=sampling)
        total_at = total.delta
    with ProgressDisplay("accounting"), options_named(releases="queries"):
        found_cost = drawn.cost(number(queries), total_at, sampling)
    if output is not None:
        proved = total or Privacy(found_cost.epsilon, found_cost.delta)
        fields = planned_fields(number(queries), proved) if proved.epsilon < float("inf") else {}
        if sampling is not None:
            fields |= {"sampling": sampling.record()}
        write_json(output, drawn.record() | fields)
    record = {
        "mechanism": mechanism,
        "parameter": drawn.value,
        "epsilon": found_cost.epsilon,
        "delta": found_cost.delta,
        "account": found_cost.account,
    }
    if sampling is not None:
        record["sampling"] = sampling.record()
    if json:
        answer(as_json(record))
    elif found_cost.account == "none":
        answer(f"{drawn.words} No account proves a finite ε at δ = {found_cost.delta:g}.")
    else:
        together = guarantee(Privacy(found_cost.epsilon, found_cost.delta))
        sampled = "" if sampling is None else f" With {sampling.words} ({sampling.neighbours}),"
        answer(
            f"{drawn.words}{sampled} {number(queries)} releases are {together} together, "
            f"by the account {found_cost.account}."
        )
