"""Verb ``darrm verify``: the privacy of whatever this program writes, proved again from the file alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from darrm.cli.output import ExitCode, answer, as_json, fail, say
from darrm.cli.parameters import AsJson, declared_option
from darrm.cli.parser import Argument, CommandOption, Made
from darrm.cli.question_options import PROBLEM_FIELDS, design_parameters

if TYPE_CHECKING:
    from darrm.cli.proofs import Proof


def verify(
    file: Annotated[
        str,
        Argument(
            "FILE",
            "A solution, plan, mechanism, table or release log written by darrm, or a JSON list γ(0), "
            "…, γ(K); - is stdin.",
        ),
    ],
    options: Annotated[dict[str, Any], Made(lambda: design_parameters(*PROBLEM_FIELDS))],
    arithmetic: Annotated[
        str,
        declared_option("arithmetic", values="float|ball"),
    ] = "float",
    checker: Annotated[
        str,
        CommandOption(
            "--checker",
            "This program's own search, or the checker that is extracted from a Coq proof (`make formal` builds it).",
            "own|formal",
        ),
    ] = "own",
    *,
    json: AsJson = False,
) -> None:
    """Verify a release from its file alone, or show a counterexample.

    Verifies a γ or a table from its values alone, whatever the file claims. For noise on vote counts, and for totals
    over many releases, including those of a release log, recomputes the account. A file states its problem; for a
    bare list, give the problem's options (K follows from the list).
    """
    from darrm.cli.proofs import VerifyOptions, proofs_of
    from darrm_opt.errors import DarrmError, InvalidInput, Rule
    from darrm_opt.untrusted import UNREADABLE

    if checker not in ("own", "formal"):
        raise InvalidInput("checker", checker, "'own' or 'formal'")
    if checker == "formal" and arithmetic != "float":
        raise InvalidInput(
            "arithmetic", arithmetic, Rule("cannot be combined with --checker formal, which has its own arithmetic")
        )
    try:
        proofs = list(proofs_of(file, VerifyOptions(options, arithmetic, checker)))
    except DarrmError:
        raise
    except UNREADABLE as err:  # any step may break on a file that anyone wrote
        fail(f"{file} cannot be verified: {type(err).__name__}: {err}", ExitCode.BAD_INPUT)
    _show(proofs, json=json)


def _show(proofs: list[Proof], *, json: bool) -> None:
    """Print what was proved; end with an error if anything was not."""
    from darrm.cli.proofs import unproved_text

    contents = [{"private": proof.private, **proof.content} for proof in proofs]
    failure = next((proof for proof in proofs if not proof.private), None)
    if json:
        many = {"private": True if failure is None else failure.private, "proofs": contents}
        answer(as_json(contents[0] if len(contents) == 1 else many))
    if failure is not None:
        fail(failure.text, ExitCode.NOT_PRIVATE)
    for warning in dict.fromkeys(warning for proof in proofs for warning in proof.warnings):
        say(f"Warning: {warning}")
    if not json:
        many_text = f"{len(proofs)} releases, each proved private for the problem that it names:"
        lines = [many_text, *(proof.text.partition("\n")[0] + proof.addition for proof in proofs)]
        unproved = [name for proof in proofs for name in proof.content.get("unproved", ())]
        lines += [unproved_text(dict.fromkeys(unproved))] if unproved else []
        answer(proofs[0].text if len(proofs) == 1 else "\n".join(lines))
