"""Verb ``darrm compose``: the total privacy of many releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import answer
from darrm.cli.parameters import PROBLEM, AsJson, DesignOptions, Fresh, ProblemOptions, number
from darrm.cli.parser import CommandOption

if TYPE_CHECKING:
    from darrm_opt.accounting.release_profile import Release
    from darrm_opt.problem import Privacy


@dataclass(frozen=True)
class Releases(ProblemOptions):
    """A problem, or (ε, δ) of one release where no K is given."""

    epsilon: Annotated[
        str | None,
        CommandOption(
            "--epsilon",
            "With --K: ε of one voter, as everywhere. Without --K: ε of one release, and --delta is its δ.",
            "NATS",
            PROBLEM,
        ),
    ] = None
    delta: Annotated[
        str | None,
        CommandOption("--delta", "δ of one release, in [0, 1).", "PROBABILITY", PROBLEM, "1 − (1−Δ)^m; without --K 0"),
    ] = None


def compose(
    options: Releases,
    design: DesignOptions,
    queries: Annotated[str, CommandOption("--queries", "Number of releases Q.", "COUNT")] = "1",
    slack: Annotated[str, CommandOption("--slack", "δ′ of the closed form, in [0, 1).", "PROBABILITY")] = "1e-4",
    total_delta: Annotated[
        str | None,
        CommandOption("--total-delta", "δ of all releases together.", "PROBABILITY", otherwise="1 − (1−δ)^Q (1−slack)"),
    ] = None,
    solution: Annotated[
        str | None, CommandOption("--solution", "An answer of `darrm solve`, instead of a problem; - is stdin.", "FILE")
    ] = None,
    *,
    fresh: Fresh = False,
    json: AsJson = False,
) -> None:
    """Say what many releases cost together, by every sound account.

    Without --K: --epsilon and --delta are those of one release. With --K (and --m or --target-epsilon) they belong to
    the problem as everywhere, --epsilon to one voter, and γ_opt is designed; or --solution names a γ. Then the exact
    profile of that γ and the exact recursion on its bits are asked too: the least of all is the best. Voters that were
    trained once (no --fresh) are taken as not private, and what their models cost together is an account beside the
    others.
    """
    from darrm.cli.report import as_json, assumed_text, columns, count_text, guarantee, text_above, trained_text
    from darrm_opt.answers.accounting import composition_to_dict

    privacy, release = _release(options, design, solution)
    table = composition_to_dict(privacy, number(queries), number(slack), number(total_delta), release, fresh=fresh)
    if json:
        answer(as_json({name: {**account, "fresh": fresh} for name, account in table.items()}))
        return
    rows = [
        [name, "-" if total["epsilon"] is None else text_above(total["epsilon"], ".6f"), _delta(total)]
        for name, total in table.items()
    ]
    notes = [f"{name}: {total['refused']}" for name, total in table.items() if "refused" in total]
    if (least := table.get("bits", {}).get("epsilon_at_least")) is not None:
        notes.append(f"No account can be below {least:.6f}: some adversary attains that.")
    if release is not None and (assumption := assumed_text(release.problem, int(number(queries)), fresh=fresh)):
        notes.append(assumption)
    head = (
        f"{count_text(int(number(queries)), 'release')}, each "
        f"{guarantee(privacy)}{'' if release is None else trained_text(release.problem, fresh=fresh)}:"
    )
    answer("\n".join([head, "", columns(["account", "ε", "δ"], rows), *([""] if notes else []), *notes]))


def _release(options: ProblemOptions, design: DesignOptions, solution: str | None) -> tuple[Privacy, Release | None]:
    from darrm_opt.errors import InvalidInput
    from darrm_opt.problem import Privacy

    if options.K is not None or solution is not None:
        from darrm.cli.cached_solve import release_of

        release = release_of(options, design, solution)
        return release.privacy, release
    for name in options.given:
        if name not in {"epsilon", "delta"}:
            raise InvalidInput("K", None, "a whole number of voters, at least 1", f"{name} belongs to a problem.")
    if options.epsilon is None:
        raise InvalidInput("epsilon", None, "ε of one release [nats], or a problem, or --solution")
    return Privacy(number(options.epsilon), 0.0 if options.delta is None else number(options.delta)), None


def _delta(total: dict[str, Any]) -> str:
    from darrm.cli.report import text_above

    return "-" if total["delta"] is None else text_above(total["delta"])
