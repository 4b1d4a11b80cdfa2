"""Options and corners that a text names exist."""

from __future__ import annotations

import re

from support.paths import ROOT

from darrm.cli import all_verbs, load, question_commands
from darrm.cli.parser import Command
from tools.first_run import first_run

VERBS = all_verbs()

TEXTS = [
    path
    for folder in ("api", "darrm_opt", "darrm_client", "solver_cache", "papers", "docs", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".md", ".js", ".html", ".ipynb"}
] + [ROOT / "README.md"]

OTHER_PROGRAMS = re.compile(
    r"docker|\bcurl\b|\bpip\b|\bgit\b|\bmake\b|ARGS=|campaigns|apt-get|sha256sum|training_job|add_argument|wheel|hashes|uvicorn|npx|openapi-typescript|default-non-nullable"
)
"""A line that names one of these may have its options."""

OF_OTHER_PROGRAMS = (
    "docs/deploy.md",
    "docs/mutation.md",
    "docs/faults.md",
    "docs/soundness.md",
    "darrm/cli/parser.py",
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
