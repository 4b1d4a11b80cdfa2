"""Project files agree: locks with pyproject.toml, documents with the Makefile and dependencies."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # ships no types
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from support.paths import ROOT
from test_imports import all_imports, top

from darrm_opt.optional_packages import EXTRAS

RUNTIME, DEV = "requirements.lock", "requirements-dev.lock"
PARTS = {
    "requirements-run.lock": {"serve", "cli", "plot", "plurality"},
    "requirements-service.lock": {"serve", "postgres", "otel", "plurality"},
}
"""Locks with some of the extras."""

LOCKS = (RUNTIME, DEV, *PARTS)
IMPORTED_AS = {
    "opentelemetry": "opentelemetry-sdk",
    "flint": "python-flint",
    "dp_accounting": "dp-accounting",
    "prometheus_client": "prometheus-client",
    "pydantic_settings": "pydantic-settings",
    "sklearn": "scikit-learn",
}
BROUGHT_ALONG = {
    "starlette": "fastapi",
    "uvloop": "uvicorn",
    "httptools": "uvicorn",
    "dask": "distributed",
    "pydantic_core": "pydantic",
}  # part of the public interface of the package that installs them


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads(text("pyproject.toml"))


APART = {"flower"}  # extras that pin versions of packages of others, in no lock and not in `all`


def stated_requirements(project: dict[str, Any], *, dev: bool, apart: bool = True) -> list[Requirement]:
    """Return every requirement in pyproject.toml, except for the extra of all extras."""
    stated = [*project["project"]["dependencies"]]
    for extra, requirements in project["project"]["optional-dependencies"].items():
        stated += requirements if apart or extra not in APART else []
    groups = project["dependency-groups"]
    stated += [each for group in groups.values() for each in group if isinstance(each, str)] if dev else []
    return [r for r in map(Requirement, stated) if r.name != project["project"]["name"]]


def of_extras(project: dict[str, Any], names: set[str]) -> set[str]:
    """Return the direct dependencies of the core and of some extras."""
    stated = {*map(Requirement, project["project"]["dependencies"])}
    for name in names:
        stated |= {*map(Requirement, project["project"]["optional-dependencies"][name])}
    found = {str(canonicalize_name(r.name)) for r in stated} - {project["project"]["name"]}
    inner = {extra for r in stated if r.name == project["project"]["name"] for extra in r.extras}
    return found | of_extras(project, inner) if inner else found


def locked(name: str) -> dict[str, tuple[Version, int]]:
    """Return each package of a lock with its version and number of hashes."""
    found: dict[str, tuple[Version, int]] = {}
    for entry in re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", text(name), flags=re.MULTILINE)):
        head = re.fullmatch(r"([a-z0-9.-]+)==([^ ]+)( ; [^\\]+)? \\", entry.splitlines()[0])
        assert head, f"{name}: not one pinned package: {entry[:80]!r}"
        assert head[1] not in found, f"{name}: {head[1]} is pinned twice"
        found[head[1]] = (Version(head[2]), len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)))
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_each_package_once_with_hashes(name: str) -> None:
    assert [package for package, (_, hashes) in locked(name).items() if not hashes] == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_contains_no_index_or_path(name: str) -> None:
    assert re.findall(r"://|--index|--extra-index|--find-links|--trusted|file:| @ |(?<!\w)/\w+", text(name)) == []


@pytest.mark.parametrize("name", [RUNTIME, DEV])
def test_a_lock_has_all_requirements_of_pyproject(project: dict[str, Any], name: str) -> None:
    versions = {package: version for package, (version, _) in locked(name).items()}
    missing = [
        str(r)
        for r in stated_requirements(project, dev="dev" in name, apart=False)
        if (package := canonicalize_name(r.name)) not in versions or versions[package] not in r.specifier
    ]
    assert not missing, f"{', '.join(missing)} not in {name}: run make lock"


@pytest.mark.parametrize("name", PARTS)
def test_a_lock_with_some_extras_has_those_and_no_others(project: dict[str, Any], name: str) -> None:
    its, dev = locked(name), locked(DEV)
    assert {package: dev.get(package) for package in its} == its  # so that the tools can be installed on top
    needed, left_out = (
        of_extras(project, PARTS[name]),
        {*project["project"]["optional-dependencies"]} - PARTS[name] - {"all"},
    )
    assert needed <= set(its)
    own = set[str]().union(*(of_extras(project, {extra}) for extra in left_out)) - needed
    assert own & set(its) == set()


def test_the_tools_lock_extends_the_other() -> None:
    runtime, dev = locked(RUNTIME), locked(DEV)
    assert {package: dev.get(package) for package in runtime} == runtime


def test_the_extra_all_has_every_extra(project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == set(extras) - {"all"} - APART


def test_imported_packages_are_declared(project: dict[str, Any]) -> None:
    declared = {canonicalize_name(r.name) for r in stated_requirements(project, dev=False)} | {*BROUGHT_ALONG}
    own = {"darrm", "darrm_opt", "solver_cache", "darrm_client", "api", "darrm_papers"}
    foreign = [
        i for i in all_imports() if top(i.imported) not in own and top(i.imported) not in sys.stdlib_module_names
    ]
    undeclared = [i for i in foreign if IMPORTED_AS.get(top(i.imported), top(i.imported)) not in declared]
    assert not undeclared, "; ".join(map(str, undeclared))


def test_an_import_of_an_optional_package_names_its_extra(project: dict[str, Any]) -> None:
    core = of_extras(project, set())
    own = {"darrm", "darrm_opt", "solver_cache", "darrm_client", "api", "darrm_papers", *BROUGHT_ALONG}
    optional = {top(i.imported) for i in all_imports() if i.runs} - own - sys.stdlib_module_names - core
    assert {"scipy", "sqlalchemy", "fastapi"} <= optional <= {*EXTRAS}


def test_the_supported_pythons_are_the_same_everywhere(project: dict[str, Any]) -> None:
    stated = project["project"]["classifiers"]
    versions = [found[1] for each in stated if (found := re.search(r":: Python :: (3\.\d+)$", each))]
    first, last = (int(versions[i].partition(".")[2]) for i in (0, -1))
    assert versions == [f"3.{minor}" for minor in range(first, last + 1)]
    assert project["project"]["requires-python"] == f">=3.{first},<3.{last + 1}"
    assert f"(3, {first}) <= sys.version_info < (3, {last + 1})" in text("Makefile")
    assert f"VERSIONS=({' '.join(versions)})\n" in text(".ci/run")
    workflow = yaml.safe_load(text(".github/workflows/ci.yml"))
    assert workflow["jobs"]["checks"]["strategy"]["matrix"]["python"] == versions


def test_the_workflow_runs_the_targets_of_the_makefile() -> None:
    job = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["checks"]
    assert [step["run"] for step in job["steps"] if step.get("name") == "All checks"] == ["bash .ci/run"]
    base = re.search(
        r"^ARG PYTHON_IMAGE=docker\.io/library/python:3\.11-slim-(\w+)@sha256:[0-9a-f]{64}$",
        text("Dockerfile"),
        re.MULTILINE,
    )
    assert base
    assert job["container"]["image"] == f"python:${{{{ matrix.python }}}}-{base[1]}"


def test_tests_can_interrupt_even_if_the_shell_ignores_interrupts() -> None:
    check = "import conftest, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    command = ["sh", "-c", 'trap \'\' INT; exec "$0" -c "$1"', sys.executable, check]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "True\n"


def verbs() -> set[str]:
    (phony,) = re.findall(r"^\.PHONY: (.+)$", text("Makefile"), re.MULTILINE)
    return {*phony.split()}


def test_documents_name_existing_targets() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "papers").glob("*.md")]
    named = {verb for path in documents for verb in re.findall(r"`make ([a-z-]+)", path.read_text(encoding="utf-8"))}
    assert {"test", "lint", "lock"} <= named <= verbs()


def test_each_dependency_has_its_reason(project: dict[str, Any]) -> None:
    first_cells = re.findall(r"^\| (`.+?) \|", text("docs/dependencies.md"), re.MULTILINE)
    reasons = {re.sub(r"\[.*\]", "", name).lower() for cell in first_cells for name in re.findall(r"`(.+?)`", cell)}
    assert reasons == {canonicalize_name(r.name) for r in stated_requirements(project, dev=True)}


def test_help_lists_every_verb() -> None:
    assert {*re.findall(r"^([a-z-]+):.*## \S", text("Makefile"), re.MULTILINE)} == verbs()
