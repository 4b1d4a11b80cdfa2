"""The program in a project that has its own `api/`, from a checkout and from a wheel, in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.darrm_runner import SMALL, start
from support.paths import ROOT

GRID = {"K": [5, 7], "epsilon": 0.1, "m": [1, 2]}


@dataclass(frozen=True)
class Project:
    """The project of a user, with PYTHONPATH=. as set by many test runners.

    Attributes:
        folder: where `api/` is, which only the project itself may import.
        installed: folder from which darrm-opt is imported, after the project.
    """

    folder: Path
    installed: Path

    @property
    def command(self) -> list[str]:
        """Return the console script as written by installers."""
        script = self.folder / "darrm"
        script.write_text("import sys\nfrom darrm import main\nif __name__ == '__main__':\n    sys.exit(main())\n")
        return [sys.executable, str(script)]

    @property
    def settings(self) -> dict[str, str]:
        return {"PYTHONPATH": f".{os.pathsep}{self.installed}"}

    def run(self, *command: str, **settings: str) -> str:
        """Run a program in it, and return its output."""
        environment = {**os.environ, **self.settings, **settings}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture(params=["checkout", "wheel"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    installed = ROOT if request.param == "checkout" else request.getfixturevalue("wheel")
    theirs = tmp_path / "project" / "api"
    theirs.mkdir(parents=True)
    (theirs / "__init__.py").write_text(
        "import os\nif 'THEIRS' not in os.environ:\n    raise RuntimeError('not ours')\n"
    )
    return Project(tmp_path / "project", installed)


def test_a_wheel_has_no_package_called_api(wheel: Path) -> None:
    packages = {path.parent.name for path in wheel.glob("*/__init__.py")}
    assert packages == {"darrm", "darrm_client", "darrm_opt", "solver_cache"}
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "api").rglob("*") if "__pycache__" not in path.parts}
    service = wheel / "darrm" / "_service"
    found = {str(path.relative_to(service)) for path in service.rglob("*") if "__pycache__" not in path.parts}
    assert found == {"api", *shipped}  # bytecode: where another test ran it


def test_a_problem_is_solved(project: Project) -> None:
    programs = project.command, *([sys.executable, "-m", package] for package in ("darrm", "darrm_opt"))
    told = [json.loads(project.run(*program, "solve", *SMALL, "--json"))["gamma"] for program in programs]
    assert told == [told[0]] * 3
    assert len(told[0]) == 6


def test_the_error_of_a_missing_package_names_it() -> None:
    hidden = (
        "import importlib.metadata as m, runpy, sys\nm.MetadataPathFinder.find_distributions = lambda *_: iter(())\n"
    )
    program = [
        sys.executable,
        "-c",
        f"{hidden}sys.argv = ['darrm_opt', 'solve']\nrunpy.run_module('darrm_opt', run_name='__main__')",
    ]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: darrm-opt is not installed in this Python: pip install . first")


def test_processes_precompute(project: Project) -> None:
    grid = project.folder / "grid.json"
    grid.write_text(json.dumps(GRID))
    url = f"sqlite:///{project.folder / 'store.sqlite'}"
    told = json.loads(project.run(*project.command, "precompute", str(grid), "--url", url, "--workers", "2", "--json"))
    assert told["outcome"]["solved"] == 4


@pytest.fixture
def url(project: Project) -> Iterator[str]:
    """A server with two workers, each with its solver processes, from the wheel only."""
    if project.installed == ROOT:
        pytest.skip("served from the checkout by every other test of the server")
    process = start(
        *("serve", "--port", "0", "--workers", "2", "--json"),
        cwd=project.folder, program=project.command, **project.settings,
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        try:
            yield json.loads(process.stdout.readline())["url"]
            process.terminate()
            assert process.wait(300) == 0
        finally:
            process.kill()


CLIENT = """\
import api, os, sys
from darrm_client import DarrmClient
from darrm_opt import Problem
assert os.path.dirname(api.__file__) == os.path.abspath("api"), api.__file__
with DarrmClient(sys.argv[1], timeout=60) as client:
    for m in (1, 2):
        print(client.gamma(Problem.from_allowance(K=5, m=m, epsilon=0.5)).exact)
"""
"""The program of the user: it imports its own api and uses the client."""


def test_a_service_answers_the_client_of_the_project(project: Project, url: str) -> None:
    assert project.run(sys.executable, "-c", CLIENT, url, THEIRS="1") == "True\nTrue\n"


APP = """\
import darrm
app = darrm.create_app()
import api.app
assert os.path.samefile(api.app.__file__, os.path.join(darrm.service_folder(), "api", "app.py"))
print(app.title)
"""


def test_the_application_can_be_served_by_another_server(project: Project) -> None:
    assert project.run(sys.executable, "-c", f"import os\n{APP}") == "darrm-opt\n"


def test_the_application_is_refused_if_another_api_is_imported(project: Project) -> None:
    code = "import api, darrm\ntry:\n    darrm.create_app()\nexcept ImportError as err:\n    print(err)"
    told = project.run(sys.executable, "-c", code, THEIRS="1")
    assert told.startswith(f"another package named api is already imported, from {project.folder / 'api'}")
