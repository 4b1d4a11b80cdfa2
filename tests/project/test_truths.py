"""Options and names named in texts exist."""

from __future__ import annotations

import re

import docstrings
import pytest
from identifiers import python_files, unknown
from support.paths import ROOT

from darrm.cli import all_verbs, load, question_commands
from darrm.cli.parser import Command
from tools.first_run import first_run

VERBS = all_verbs()

TEXTS = [
    path
    for folder in ("darrm", "api", "darrm_opt", "darrm_client", "solver_cache", "papers", "docs", "examples", "tools")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".md", ".js", ".html", ".ipynb"}
] + [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

OTHER_PROGRAMS = re.compile(
    r"docker|\bcurl\b|\bpip\b|\bgit\b|\bmake\b|ARGS=|campaigns|apt-get|sha256sum|training_job|add_argument|wheel|hashes|uvicorn|npx|openapi-typescript|default-non-nullable"
)
"""A line that names one of these programs may have its options."""

OF_OTHER_PROGRAMS = (
    "docs/deploy.md",
    "docs/mutation.md",
    "docs/faults.md",
    "docs/soundness.md",
    "darrm/cli/parser.py",
    "darrm/cli/question_options.py",
    "tools/release.py",
)
"""Files about the options of other programs, or about options in general."""


def test_every_option_in_a_text_exists() -> None:
    flags = {"--help", "--version", "--print-completion"}
    commands = [Command.of(verb) for verb in (first_run, *(load(name) for name in VERBS))]
    for command in (*commands, *question_commands().values()):
        flags |= {flag for each in command.parameters for flag in each.flags}
    texts = [path for path in TEXTS if path.suffix in {".py", ".md"} and not str(path).endswith(OF_OTHER_PROGRAMS)]
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {option}"
        for path in texts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if not OTHER_PROGRAMS.search(line)
        for option in re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", line)
        if option not in flags
    ]
    assert wrong == []


OF_THEIR_DATE = {"docs/mutation.md"}
"""Pages that say of themselves that names in them are those of a date."""

NAMING = {
    name: path
    for path in (*TEXTS, *python_files(), ROOT / "tests" / "data" / "README.md")
    if path.suffix in {".py", ".md", ".ipynb"} and (name := path.relative_to(ROOT).as_posix()) not in OF_THEIR_DATE
}
"""Texts whose names in backticks are checked."""

OF_OTHERS = {
    "docs/certificate.md": {"upper_1", "lower_1"},  # corners, which are numbered
    "docs/dependencies.md": {"timeout_worker_healthcheck"},  # of uvicorn
    "docs/deploy.md": {"darrm.example.org"},  # a machine
    "docs/extending.md": {"darrm.verbs"},  # a group of entry points
    "docs/operating.md": {"darrm_access_log_lost_total"},  # Prometheus appends the last word
    "papers/README.md": {"darrm.verbs"},
}
"""Names that no code has, by the texts that may state them."""

PACKAGES = "|".join(sorted({*docstrings.OURS, *docstrings.OF_TESTS}))


def without_code(text: str) -> set[str]:
    """Return the names in backticks that no code has: dotted ones if they begin with one of our packages."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    dotted = {
        name
        for span in re.findall(r"`([^`\n]+)`", text)
        for name in re.findall(rf"(?<![\w./-])(?:{PACKAGES})(?:\.\w+)+(?![\w/])", span)
        if not name.endswith((".py", ".md"))
    }
    return {name for name in dotted if not docstrings.resolves(name)} | {*unknown(text)}


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in NAMING}))
def test_every_name_in_backticks_exists(folder: str) -> None:
    wrong = {
        name: absent
        for name, path in NAMING.items()
        if name.partition("/")[0] == folder
        and (absent := without_code(path.read_text("utf-8")) - OF_OTHERS.get(name, set()))
    }
    assert wrong == {}


def test_a_name_that_does_not_exist_is_found() -> None:
    absent = {"such_no"[::-1], "sucaba.troppus"[::-1]}  # else their names would be in code: in these strings
    named = (*absent, "without_code(text)", "support.paths.ROOT", "solver_cache.Row", "nothing")
    assert without_code(" ".join(f"`{name}`" for name in named)) == absent
