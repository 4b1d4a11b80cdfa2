"""``darrm vote-cost``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from darrm.cli.output import answer
from darrm.cli.parameters import AsJson, number, options_named
from darrm.cli.parser import CommandOption
from darrm.cli.progress import ProgressDisplay

if TYPE_CHECKING:
    from darrm_opt.accounting.labels import VoteCost, VoteReleases


def vote_cost(
    labels: Annotated[str, CommandOption("--labels", "Most labels that are released.", "COUNT")] = "0",
    label_sigma: Annotated[
        str | None, CommandOption("--label-sigma", "σ of the Gaussian noise on each count of a label.", "VOTES")
    ] = None,
    checks: Annotated[
        str, CommandOption("--checks", "Most checks of the largest noisy count against a threshold.", "COUNT")
    ] = "0",
    check_sigma: Annotated[
        str | None, CommandOption("--check-sigma", "σ of the Gaussian noise on the largest count of a check.", "VOTES")
    ] = None,
    delta: Annotated[
        str | None, CommandOption("--delta", "δ of all releases together, in (0, 1).", "PROBABILITY")
    ] = None,
    total_epsilon: Annotated[
        str | None,
        CommandOption(
            "--total-epsilon", "Instead of --label-sigma: ε of all releases together; find the least σ.", "NATS"
        ),
    ] = None,
    check_ratio: Annotated[
        str, CommandOption("--check-ratio", "With --total-epsilon: σ of a check over σ of a label.", "NUMBER")
    ] = "4",
    classes: Annotated[
        str | None, CommandOption("--classes", "Number of classes.", "COUNT", otherwise="any number")
    ] = None,
    affected: Annotated[str, CommandOption("--affected", "How many votes one record can move.", "COUNT")] = "1",
    noise: Annotated[
        str, CommandOption("--noise", "Gaussian noise as published, or on whole numbers as drawn.", "gaussian|discrete")
    ] = "gaussian",
    *,
    json: AsJson = False,
) -> None:
    """Say what labels of a noisy vote (GNMax), and checks before them (Confident-GNMax), cost together.

    By noisy counts, as accountants charge them, and by what is released: labels and checks. With --total-epsilon the
    other way round: the least noise for a budget.
    """
    from darrm.cli.report import as_json, columns, text_above
    from darrm_opt.accounting.labels import vote_cost as cost_of

    vote_fields = {"classes": None if classes is None else number(classes), "affected": number(affected)}
    if total_epsilon is not None:
        releases, cost = _calibrate(total_epsilon, delta, labels, checks, check_ratio, label_sigma, noise, vote_fields)
    else:
        releases = (*_releases("check", check_sigma, checks, noise), *_releases("label", label_sigma, labels, noise))
        with ProgressDisplay("accounting"):
            cost = cost_of(releases, number(delta), **vote_fields)
    if json:
        sigmas = {f"{release.kind}_sigma": release.sigma for release in releases} if total_epsilon is not None else {}
        answer(as_json(sigmas | _record(cost)))
        return
    rows = [
        ["noisy counts, Rényi", text_above(cost.counts_renyi, ".6f")],
        *(
            [["noisy counts, exact", text_above(cost.counts_gaussian, ".6f")]]
            if cost.counts_gaussian < float("inf")
            else []
        ),
        ["labels, Rényi", text_above(cost.labels_renyi, ".6f")],
        ["labels, recursion", text_above(cost.labels_recursion.epsilon, ".6f")],
    ]
    releases_text = (
        ", ".join(f"{release.count} {release.kind}s at σ = {release.sigma:.6g}" for release in releases) or "nothing"
    )
    method_text = f"The recursion is bounded by: {cost.labels_recursion.method}."
    answer("\n".join([f"{releases_text}; δ = {cost.delta:g}:", "", columns(["account", "ε"], rows), "", method_text]))


def _releases(kind: str, sigma: str | None, count: str, noise: str) -> Iterator[VoteReleases]:
    """Yield the releases of one kind, if there are any; errors name the option."""
    from darrm_opt.accounting.labels import VoteReleases

    if number(count) == 0:
        return
    with options_named(sigma=f"{kind}_sigma", count=f"{kind}s"):
        releases = VoteReleases(kind, number(sigma), number(count), noise)  # type: ignore[arg-type]  # checked there
    yield releases


def _calibrate(
    total_epsilon: str,
    delta: str | None,
    labels: str,
    checks: str,
    check_ratio: str,
    label_sigma: str | None,
    noise: str,
    vote_fields: dict[str, int | None],
) -> tuple[tuple[VoteReleases, ...], VoteCost]:
    from darrm_opt.accounting.labels import calibrate_noise
    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Privacy

    if label_sigma is not None:
        raise InvalidInput("label_sigma", label_sigma, "nothing beside total_epsilon", "One decides the other.")
    with ProgressDisplay("calibrating noise"), options_named(epsilon="total_epsilon"):
        calibration = calibrate_noise(
            Privacy(number(total_epsilon), number(delta)),
            number(labels),
            checks=number(checks),
            check_ratio=number(check_ratio),
            noise=noise,  # type: ignore[arg-type]  # checked there
            **vote_fields,  # type: ignore[arg-type]  # checked there
        )
    return calibration.releases, calibration.cost


def _record(cost: VoteCost) -> dict[str, object]:
    recursion = cost.labels_recursion
    return {
        "counts_renyi": cost.counts_renyi,
        "labels_renyi": cost.labels_renyi,
        "labels_recursion": {"epsilon": recursion.epsilon, "proved": recursion.proved, "method": recursion.method},
    }
