"""Tests of the documentation: blocks are run, names resolved, links followed, generated pages regenerated."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import docstrings
import httpx
import pytest
from documented import HERE, Block, blocks_of, session, shell_in
from identifiers import FOLDERS, python_files
from markdown.extensions.toc import slugify  # type: ignore[import-untyped]  # ships no types
from support.paths import ROOT
from support.served import serving

from api.schemas.questions import DesignRequest
from api.settings import PREFIX, Settings
from darrm.cli import all_verbs, load
from darrm.cli.parser import Command, CommandOption
from darrm_opt.accounting.accounts import NAMES
from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.objective import FAMILIES
from darrm_opt.design.solution import Status
from darrm_opt.planning.class_candidates import MAX_RULE_PARTITIONS
from darrm_opt.planning.question import MAX_EXACT_QUERIES
from darrm_opt.planning.ranking import MIN_ACCURACY
from darrm_opt.problem import MAX_GROUP_CLASSES
from darrm_opt.questions.design import Design
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.tables.corners import MAX_CORNERS
from darrm_opt.tables.problem import MAX_PARTITIONS
from tools.pages import PAGES

VERBS = all_verbs()

MADE = {f"docs/{name}": make() for name, make in PAGES.items()}

DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("papers/*.md"))]
} | {name: text for name, text in MADE.items() if name.endswith(".md")}

PUBLIC = (
    "darrm_opt",
    "darrm_opt.accounting",
    "darrm_opt.release",
    "darrm_opt.learning",
    "solver_cache",
    "darrm_client",
)
"""Packages whose ``__all__`` is public."""

OF_OTHERS = {"DARRM_URL", "DARRM_KEY", "DARRM_FORMAL_CHECKER", "DARRM_KERNEL", "DARRM_BUILD_KERNEL"}
"""Variables of clients, of the checker and of the compiled search, which are not settings of the service."""


BLOCKS = [block for name, text in DOCUMENTS.items() for block in blocks_of(name, text)]
RUN = [block for block in BLOCKS if not block.left_out and block.code != "darrm serve\n"]  # the fixture `server`


def of(language: str) -> list[Block]:
    return [block for block in RUN if block.language == language]


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    return shell_in(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path) as service:
        yield service.url


# ------------------------------------------------------------------------------------------------ blocks


def test_every_block_is_run_or_has_a_reason_not_to() -> None:
    unknown = [
        str(b) for b in RUN if b.language not in {"sh", "pycon", "python", "r", "toml", "json", "text", "bibtex"}
    ]
    assert not unknown, f"a block of no kind that is run, without <!-- not run: reason -->: {', '.join(unknown)}"
    fences = sum(len(re.findall(r"^ *```", text, re.MULTILINE)) for text in DOCUMENTS.values())
    assert fences == 2 * len(BLOCKS)


@pytest.mark.parametrize("name", sorted({block.document for block in of("pycon")}))
def test_sessions_print_the_output_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert session(name, [block for block in of("pycon") if block.document == name]) == ""


def ran(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_programs_run(block: Block, shell: dict[str, str], tmp_path: Path) -> None:
    lines = ran([sys.executable, "-c", block.code], tmp_path, shell).stderr.splitlines()
    assert [line for line in lines if not re.fullmatch(r"\w+: [\w ]+ …", line)] == []  # progress if it is slow


@pytest.mark.parametrize("block", [b for b in of("sh") if "curl" not in b.code], ids=str)
def test_commands_run(block: Block, shell: dict[str, str], tmp_path: Path) -> None:
    ran(["sh", "-eu", "-c", block.code], tmp_path, shell)


@pytest.mark.skipif(shutil.which("curl") is None and "CI" not in os.environ, reason="curl is not installed")
@pytest.mark.parametrize("block", [b for b in of("sh") if "curl" in b.code], ids=str)
def test_requests_are_answered(block: Block, shell: dict[str, str], server: str, tmp_path: Path) -> None:
    assert HERE in block.code
    code = block.code.replace(HERE, server).replace("curl ", "curl --silent --show-error --fail --noproxy '*' ")
    assert ran(["sh", "-eu", "-c", code], tmp_path, shell).stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", of("r"), ids=str)
def test_programs_in_r_run(block: Block, shell: dict[str, str], server: str, tmp_path: Path) -> None:
    rscript = shutil.which("Rscript")
    has_json = [str(rscript), "-e", "quit(status = !requireNamespace('jsonlite', quietly = TRUE))"]
    if rscript is None or subprocess.run(has_json, capture_output=True, check=False).returncode:
        pytest.skip("R with jsonlite is not installed")
    (tmp_path / "program.R").write_text(block.code.replace(HERE, server), encoding="utf-8")
    ran([rscript, "program.R"], tmp_path, {**shell, "no_proxy": "*"})


def test_a_refused_request_is_answered_as_shown(server: str) -> None:
    shown = re.findall(r"^\$ curl '(\S+)'\n(\{.*?\})\n```", DOCUMENTS["docs/api.md"], re.MULTILINE | re.DOTALL)
    assert len(shown) == 1
    [(url, problem)] = shown
    with httpx.Client(trust_env=False) as client:
        answer = client.get(url.replace(HERE, server))
    assert answer.json() == json.loads(problem) | {"request_id": answer.headers["X-Request-ID"]}
    assert answer.json()["status"] == answer.status_code


def test_files_shown_are_valid() -> None:
    for block in [*of("toml"), *of("json")]:
        assert (tomllib.loads if block.language == "toml" else json.loads)(block.code), block


# ------------------------------------------------------------------------------------------------ names


def commands_named() -> Iterator[tuple[str, str, list[str]]]:
    """Yield (document, verb, options) for every command that a document writes, in a block or within a line."""
    for name, text in DOCUMENTS.items():
        spans = re.findall(r"`(darrm [^`\n]+)`", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL))
        lines = [line for b in BLOCKS if b.document == name for line in b.code.replace("\\\n", " ").splitlines()]
        for command in spans + re.findall(r"(?:^|[|$;] *)(darrm .*)", "\n".join(lines), re.MULTILINE):
            words = re.split(r" \| |;|&&| #", command)[0].split()
            verb = " ".join(words[1:3]) if " ".join(words[1:3]) in VERBS else words[1]
            yield name, verb, [word for word in words[2:] if word.startswith("--")]


WITHOUT_OPTIONS = {"COMMAND", "help", "-h", "--help", "--version", "--print-completion"}


def test_every_command_shown_exists() -> None:
    options = {verb: {"--help"} | flags(verb) for verb in VERBS}
    wrong = [
        f"{name}: darrm {verb} {' '.join(given)}"
        for name, verb, given in commands_named()
        if verb not in {*WITHOUT_OPTIONS, *QUESTIONS, *(each.split()[0] for each in VERBS if " " in each)}
        and (verb not in options or not {each.partition("=")[0] for each in given} <= options[verb])
    ]
    assert not wrong, "\n".join(wrong)


def flags(verb: str) -> set[str]:
    declared = [each.declared for each in Command.of(load(verb)).parameters]
    return {name for each in declared if isinstance(each, CommandOption) for name in each.flag.split("/")}


def test_every_verb_has_an_example() -> None:
    shown = {verb for name, verb, _ in commands_named() if name not in MADE}
    assert set(VERBS) <= shown, f"no document has a line with {', '.join(set(VERBS) - shown)}"


def test_the_choices_of_an_option_are_those_of_the_registries() -> None:
    declared = {(verb, p.name): p.declared for verb in VERBS for p in Command.of(load(verb)).parameters}
    backends = {verb: each for (verb, name), each in declared.items() if name == "backend"}
    assert {"solve", "precompute"} <= set(backends)
    for verb, option in backends.items():
        assert isinstance(option, CommandOption)
        assert option.metavar.split("|") == [*BACKENDS], verb
    assert all(name in declared["solve", "prior"].help for name in FAMILIES)
    assert DesignRequest.model_json_schema()["properties"]["backend"]["enum"] == [*BACKENDS]
    assert Design(K=1).backend in BACKENDS


def test_every_setting_is_documented_and_every_documented_one_exists() -> None:
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    told = {*re.findall(r"^\| `(DARRM_\w+)` \|", MADE["docs/reference/service.md"], re.MULTILINE)}
    assert told == settings
    named = {(name, word) for name, text in DOCUMENTS.items() for word in re.findall(r"\bDARRM_[A-Z_]+\b(?!…)", text)}
    assert not {(name, word) for name, word in named if word not in settings | OF_OTHERS}


def test_every_account_is_in_the_table_of_accounts() -> None:
    table = DOCUMENTS["docs/releases.md"].partition("## Which account")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == NAMES


def described() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(MADE["docs/openapi.json"])
    return found


def test_every_named_path_exists() -> None:
    paths = {re.sub(r"\{\w+\}", "{}", path) for path in described()["paths"]}
    named = {
        (name, path)
        for name, text in DOCUMENTS.items()
        for path in re.findall(r"(?<![\w./-])(?:http://127\.0\.0\.1:8000)?(/v1/[\w/{}-]+)", text)
    }
    assert named
    wrong = {(name, path) for name, path in named if re.sub(r"\{\w+\}", "{}", path).rstrip("/") not in paths}
    assert not wrong


OF_THEIR_DATE = {"CHANGELOG.md", "docs/mutation.md"}
"""Pages with names of a given date."""


def test_every_named_python_file_exists() -> None:
    files = [f"/{path.relative_to(ROOT)}" for path in python_files()]
    named = {
        (name, path)
        for name, text in DOCUMENTS.items()
        for path in re.findall(r"(?<![\w/.-])[\w./-]+\.py\b", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        if name not in OF_THEIR_DATE
    }
    assert len(named) > 100
    wrong = {(name, path) for name, path in named if not any(file.endswith(f"/{path.lstrip('./')}") for file in files)}
    assert not wrong


def test_every_named_object_of_the_package_exists() -> None:
    named = {
        (name, dotted)
        for name, text in DOCUMENTS.items()
        for dotted in re.findall(r"(?<![\w.-])darrm_opt(?:\.\w+)+", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        if name not in OF_THEIR_DATE
    }
    assert len(named) > 100
    assert not {(name, dotted) for name, dotted in named if not docstrings.resolves(dotted)}


def test_every_status_is_explained() -> None:
    statuses = {
        status
        for methods in described()["paths"].values()
        for about in methods.values()
        for status in about["responses"]
        if status >= "300"
    }
    table = "\n".join(line for line in DOCUMENTS["docs/api.md"].splitlines() if line.startswith("| "))
    rows = {status for line in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for status in line.split(", ")}
    assert rows == statuses | {"405"}  # which belongs to no operation: the answer to an unknown method
    ended = {
        *re.findall(r"^\| `([a-z ]+)` \|", DOCUMENTS["docs/glossary.md"].split("## How a solve ends")[1], re.MULTILINE)
    }
    assert ended == {status.value for status in Status}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    module = importlib.import_module(name)
    told = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", reference(), re.MULTILINE)}
    assert set(module.__all__) - {"__version__"} <= told


def test_everything_in_the_reference_exists() -> None:
    for path in re.findall(r"^::: (\S+)$", reference(), re.MULTILINE):
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


def reference() -> str:
    return DOCUMENTS["docs/reference/python.md"]


# ------------------------------------------------------------------------------------------------ links


@cache
def anchors(text: str) -> set[str]:
    """Return the anchors of a page: of headings, and explicit ones."""
    found = set()
    for title in re.findall(r"^#+ (.+?)(?: \{ #[\w-]+ \})?$", text, re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title)
        found |= {slugify(plain, "-"), re.sub(r"[^\w -]", "", plain.lower()).replace(" ", "-")}
    return found | {*re.findall(r"\{ #([\w-]+) \}", text)}


def test_every_link_has_a_target() -> None:
    for name, document in DOCUMENTS.items():
        text = re.sub(r"```.*?```", "", document, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text):
            path, _, anchor = (target[0] or target[1]).partition("#")
            if ":" in path:
                continue  # external, not tested here
            there = os.path.normpath(Path(name).parent / path if path else name)
            # A generated page is not in the repository: only pages of the site link to it.
            assert (ROOT / there).is_file() or (name in MADE and there in MADE), f"{name}: {path}"
            if anchor:
                assert anchor in anchors(DOCUMENTS[there]), f"{name}: {path}#{anchor}"


# ------------------------------------------------------------------------------------------------ generated pages


def test_generated_pages_are_on_the_site_and_not_in_the_repository() -> None:
    tracked = subprocess.run(["git", "ls-files", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not MADE.keys() & {*tracked.stdout.split()}
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(re.search(rf" {re.escape(name)}$", navigation, re.MULTILINE) for name in PAGES if name.endswith(".md"))
    for verb in VERBS:
        assert f"\n### darrm {verb}\n" in MADE["docs/reference/cli.md"]
    for path, methods in described()["paths"].items():
        assert all(f"\n## {method.upper()} {path}\n" in MADE["docs/reference/rest.md"] for method in methods)


SITE = """
import runpy, sys
sys.modules["ruff"] = None  # a process for each signature, to break its lines
runpy.run_module("mkdocs", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_the_site_is_built_strictly_without_external_resources(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SITE, "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = [*(tmp_path / "site").rglob("*.html")]
    assert len(pages) > len([name for name in DOCUMENTS if name.startswith("docs/")])
    fetched = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")
    for page in pages:
        assert not fetched.findall(page.read_text(encoding="utf-8")), page
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


def test_the_shelf_for_users_is_short() -> None:
    """A reader finishes it in two hours: material for checkers is on the second shelf."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = re.findall(
        r"^      - (?:.*: )?(\w+\.md)$",
        navigation.partition("- Use it:")[2].partition("- References:")[0],
        re.MULTILINE,
    )
    assert pages[0] == "start.md"
    assert len(pages) <= 15
    assert sum(len(re.findall(r"\S*\w\S*", DOCUMENTS[f"docs/{page}"])) for page in pages) <= 20_000


def test_limits_on_pages_are_those_of_the_code() -> None:
    stated = {
        "classes": (
            f"more than {MAX_PARTITIONS:,} partitions, or of groups with more than {MAX_CORNERS // 10**6} million",
            f"tables of up to {MAX_RULE_PARTITIONS} partitions",
            f"| 2 to {MAX_GROUP_CLASSES} |",
        ),
        "planning": (
            f"for up to {MAX_EXACT_QUERIES} of them",
            f"which is {MIN_ACCURACY} between two classes and {(MIN_ACCURACY - 0.5) * 2 * 0.9 + 0.1:.2f} among ten",
        ),
    }
    pages = {name: " ".join(DOCUMENTS[f"docs/{name}.md"].split()) for name in stated}
    assert [text for name, texts in stated.items() for text in texts if text not in pages[name]] == []


def test_every_page_named_in_code_exists() -> None:
    """In docstrings, comments, help and error texts, except for the examples of test_tools.py."""
    others = ("Makefile", "Dockerfile", "compose.yaml", "SECURITY.md", ".ci/run", "deploy/*", "examples/**/*.ipynb")
    folders = (*(f"{folder}/**/*.py" for folder in FOLDERS), "api/page/*", "tests/container/*", "examples/*/*.yaml")
    named = {
        (str(path.relative_to(ROOT)), page)
        for pattern in (*others, *folders)
        for path in ROOT.glob(pattern)
        if path.is_file() and path.name != "test_tools.py"
        for page in re.findall(r"\bdocs/[a-z_/]+\.md", path.read_text("utf-8"))
    }
    assert len(named) > 50
    assert not {(name, page) for name, page in named if not (ROOT / page).is_file() and page not in MADE}
