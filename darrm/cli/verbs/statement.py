"""Verb ``darrm statement``: a privacy statement that can be filed."""

from __future__ import annotations

from typing import Annotated

from darrm.cli.output import ExitCode, answer, as_json, fail
from darrm.cli.parameters import AsJson
from darrm.cli.parser import Argument


def statement(
    file: Annotated[
        str, Argument("FILE", "A release log, or a γ, plan, table or mechanism that darrm wrote; - is stdin.")
    ],
    *,
    json: AsJson = False,
) -> None:
    """Write a privacy statement of a release log or a design, as Markdown, or as JSON with --json.

    It says what is claimed, of what and for whom: the mechanism, the unit of privacy, the neighbouring data sets, what
    leaves, ε and δ, the account, what is assumed and what is not covered, with the software's version, a hash of the
    design and the date. What can be proved is proved again first.
    """
    from darrm.cli.files import json_document, read_text
    from darrm.cli.verbs.verify import is_release_log
    from darrm_opt.answers.statement import statement_of_log, statement_of_record
    from darrm_opt.errors import InvalidInput, VerificationFailed
    from darrm_opt.release import ReleaseLog

    try:
        if is_release_log(file):
            made = statement_of_log(ReleaseLog(file))
        else:
            try:
                record = json_document(read_text(file))
            except ValueError as err:
                raise InvalidInput("FILE", file, "a release log, or one JSON object as darrm writes it") from err
            made = statement_of_record(record)
    except VerificationFailed as err:
        fail(f"{file}: {err}", ExitCode.NOT_PRIVATE)
    answer(as_json(made.as_dict()) if json else made.markdown().rstrip())
