"""Imports run downwards, each solver has one file, and importing is light.

The direction is read from the source (every module's syntax tree), so an import inside a function counts as
much as one at the top. What importing loads is measured in a fresh interpreter.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support.paths import ROOT

import darrm_opt
from darrm_opt.design.backends import BACKENDS as REGISTRY

PACKAGES = ("darrm_opt", "solver_cache", "darrm_client", "api", "darrm", "darrm_papers")

FOLDERS = {package: ROOT / package for package in PACKAGES} | {"darrm_papers": ROOT / "papers" / "darrm_papers"}

LAYERS = (
    # Lowest first. A module imports from its own layer and from those before it.
    {
        "_version",
        "arguments",
        "decimals",
        "durable_file",
        "errors",
        "fields",
        "optional_packages",
        "process",
        "rounding",
        "search",
    },
    {"problem", "noise", "priors", "baselines", "accuracy", "randomness", "untrusted", "voters"},
    {"inversion"},
    {"design"},
    {"record"},
    {"verification", "accounting"},
    {"privacy_curves"},
    {"tables"},
    {"solving"},
    {"mechanisms"},
    {"bagging", "release", "teachers"},
    {"audit", "planning", "plurality"},
    {"figures"},
    {"learning"},
    {"answers"},
    {"questions"},
    {""},  # darrm_opt/__init__.py, which re-exports
)

FRAMEWORKS = {
    # Forbidden imports by package: the core is mathematics, the cache is storage.
    "darrm_opt": {"click", "fastapi", "filelock", "platformdirs", "pydantic", "pydantic_settings", "rich", "sqlalchemy"}
    | {"starlette", "typer", "uvicorn"},
    "solver_cache": {"click", "fastapi", "rich", "starlette", "typer", "uvicorn"},
    "darrm_client": {
        "click",
        "fastapi",
        "pydantic",
        "pydantic_settings",
        "rich",
        "sqlalchemy",
        "starlette",
        "typer",
        "uvicorn",
    },
    "api": set[str](),
    "darrm": set[str](),
    "darrm_papers": set[str](),
}

SOLVERS = {entry.package: name for name, entry in REGISTRY.items()}
BACKENDS = "darrm_opt.design.backends"
MAKERS = {"darrm_opt.tables.edge_program"}
"""Programs with sparse rows and equations, which the backends lack: they use `highs.new_highs`."""


@dataclass(frozen=True)
class Import:
    importer: str
    imported: str  # the dotted name of a module
    line: int
    runs: bool  # False under `if TYPE_CHECKING:`, which is not executed

    def __str__(self) -> str:
        return f"{self.importer} (line {self.line}) imports {self.imported}"


def modules() -> dict[str, Path]:
    """Return every module of the packages by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted(FOLDERS[package].rglob("*.py")):
            parts = path.relative_to(FOLDERS[package].parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _last_name(node: ast.expr) -> str | None:
    """Return the part of a name after the last dot."""
    return getattr(node, "attr", getattr(node, "id", None))


def _statements(node: ast.AST, *, runs: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, runs
        if isinstance(child, ast.If) and _last_name(child.test) == "TYPE_CHECKING":
            for inner in child.body:
                yield inner, False
                yield from _statements(inner, runs=False)
            for inner in child.orelse:
                yield inner, runs
                yield from _statements(inner, runs=runs)
        else:
            yield from _statements(child, runs=runs)


def imports_of(name: str, tree: ast.Module, known: frozenset[str]) -> Iterator[Import]:
    """Yield the imports of a module, by statement or by ``import_module("literal")``."""
    for node, runs in _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, alias.name, node.lineno, runs)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} (line {node.lineno}) imports relatively; write the full name"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield Import(name, inner if inner in known else node.module, node.lineno, runs)
        elif isinstance(node, ast.Call) and _last_name(node.func) == "import_module":
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield Import(name, argument.value, node.lineno, runs)


@cache
def all_imports() -> tuple[Import, ...]:
    known = frozenset(modules())
    return tuple(found for name, path in modules().items() for found in imports_of(name, tree_of(path), known))


def top(name: str) -> str:
    return name.partition(".")[0]


def layer(module: str) -> int:
    room = module.partition("darrm_opt")[2].strip(".").partition(".")[0]
    for rank, rooms in enumerate(LAYERS):
        if room in rooms:
            return rank
    pytest.fail(f"darrm_opt.{room} has no layer: name it in LAYERS, beside the modules that it may import from")


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return one cycle of the graph, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as err:
        return [str(name) for name in err.args[1]]
    return []


def test_packages_import_downwards() -> None:
    rank = {"darrm_opt": 0, "solver_cache": 1, "darrm_client": 2, "api": 3, "darrm": 4, "darrm_papers": 5}
    wrong = [i for i in all_imports() if top(i.imported) in rank and rank[top(i.imported)] > rank[top(i.importer)]]
    assert not wrong, "; ".join(map(str, wrong))


def test_folders_of_the_core_import_downwards() -> None:
    core = [i for i in all_imports() if top(i.importer) == top(i.imported) == "darrm_opt"]
    wrong = [i for i in core if layer(i.imported) > layer(i.importer)]
    assert not wrong, "; ".join(map(str, wrong))


def test_folders_of_one_layer_have_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for i in all_imports():
        if top(i.importer) == top(i.imported) == "darrm_opt":
            here, there = ((*name.split("."), "")[1] for name in (i.importer, i.imported))
            if here != there:
                graph.setdefault(here, set()).add(there)
    assert not cycle(graph), " -> ".join(cycle(graph))


def test_a_module_gives_each_name_one_value() -> None:
    """After merging two files a constant of one could replace that of the other, which no tool reports."""
    twice = []
    for path in (path for folder in FOLDERS.values() for path in folder.rglob("*.py")):
        body = tree_of(path).body
        assigned = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
        names = Counter(
            name.id
            for target in assigned
            for name in (target.elts if isinstance(target, ast.Tuple) else [target])
            if isinstance(name, ast.Name)
        )
        twice += [f"{path.relative_to(ROOT)}: {name}" for name, times in names.items() if times > 1]
    assert not twice


def test_modules_have_no_import_cycle() -> None:
    """Not even for types: a type shared by two modules is in a lower one."""
    graph: dict[str, set[str]] = {}
    known = modules()
    for i in all_imports():
        if i.imported in known:
            graph.setdefault(i.importer, set()).add(i.imported)
    assert not cycle(graph), " -> ".join(cycle(graph))


BY_NAME = {
    "darrm.cli": "the verbs, each loaded when it is typed",
    "darrm.cli.verbs.audit": "the black box that a user names",
    "darrm_opt": "names that are loaded on first use, all of them below",
    "darrm_opt.design.backends": "the solver that a caller names",
    "darrm_opt.mechanisms.base": "the file of a mechanism",
    "darrm_opt.optional_packages": "packages that may be missing",
}
"""Modules that import by a variable name, invisible in the source, and the imported ones."""


def test_modules_are_imported_by_name_in_few_places() -> None:
    found = {
        name
        for name, path in modules().items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and _last_name(node.func) == "import_module"
        if not isinstance(node.args[0], ast.Constant)
    }
    assert found == set(BY_NAME)


CHANGED_GLOBALS = {
    # State that is global to the process by nature.
    "api.access.clients": {"CURRENT_CLIENT"},  # a context variable: the client of the request
    "api.observability.access_log": {"_CURRENT"},  # likewise
    "api.observability.logs": {"_render", "_stream"},  # the logging of the process
    "api.observability.metrics": {"_LAG", "_PROCESSOR"},  # counters
    "api.observability.traces": {"_JOB_SPAN", "_tracer"},  # a context variable; the exporter of spans of the process
    "darrm_opt": {"globals()"},  # names that are loaded on first use
    "darrm_opt.design.backends.highs": {"_idle"},  # emptied objects of a library, which print when they are made
    "darrm_opt.process": {"_files", "_forks"},  # of this process, for its children
    "solver_cache.validate": {"PROOFS"},  # proofs of this process; an object with a lock and a bound
}
"""Names of modules whose objects change after the import; all else is `functools.cache` or in objects."""

CHANGES = {
    *("add", "append", "clear", "discard", "extend", "inc", "insert", "move_to_end", "observe", "pop", "popitem"),
    *("remove", "reset", "set", "setdefault", "update"),
}


def changed_globals(tree: ast.Module) -> set[str]:
    """Return the names of a module that its functions rebind or whose objects they mutate by usual methods."""
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    changed: set[str] = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        inner = [*ast.walk(function)]
        bound = {name for node in inner if isinstance(node, ast.Global) for name in node.names}
        stored = {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        shown = names - ({node.arg for node in inner if isinstance(node, ast.arg)} | stored - bound)
        changed |= bound
        for node in inner:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                changed |= shown & {_last_name(node.func.value) or ""}
            elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                changed |= shown & {node.value.id} if isinstance(node.value, ast.Name) else set[str]()
            elif isinstance(node, ast.Call) and _last_name(node.func) == "globals":
                changed.add("globals()")
    return changed


def test_objects_of_modules_change_in_few_places() -> None:
    found = {name: changed_globals(tree_of(path)) for name, path in modules().items()}
    assert {name: changed for name, changed in found.items() if changed} == CHANGED_GLOBALS


def test_the_core_and_the_cache_know_no_framework() -> None:
    wrong = [i for i in all_imports() if top(i.imported) in FRAMEWORKS[top(i.importer)]]
    assert not wrong, "; ".join(map(str, wrong))


@pytest.mark.parametrize("solver", SOLVERS)
def test_each_solver_has_one_file(solver: str) -> None:
    importers = {i.importer for i in all_imports() if top(i.imported) == solver}
    assert importers == {f"{BACKENDS}.{SOLVERS[solver]}"} | (MAKERS if solver == "highspy" else set())


def test_objects_of_highs_are_created_in_one_file() -> None:
    # Others would print: see that file.
    assert not [name for name, path in modules().items() if "highspy.Highs()" in path.read_text(encoding="utf-8")]


def test_the_core_reaches_a_backend_only_through_the_registry() -> None:
    # A direct import of the file of a backend would always load its solver.
    files = {f"{BACKENDS}.{name}" for name in SOLVERS.values()}
    wrong = [i for i in all_imports() if i.imported in files and i.importer not in {f"{BACKENDS}.cvxpy", *MAKERS}]
    assert not wrong, "; ".join(map(str, wrong))


HEAVY = {
    "scipy",
    "highspy",
    "cvxpy",
    "gurobipy",
    "matplotlib",
    "numba",
    "flint",
    "dp_accounting",
    "sqlalchemy",
    "fastapi",
}


def loaded_by(code: str) -> set[str]:
    """Run code in a new interpreter and return the top-level packages it loaded."""
    report = (
        "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    script = f"import atexit\n@atexit.register\ndef _report():\n    {report}\n{code}\n"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stderr.splitlines()[-1]))


def test_importing_the_core_loads_only_numpy() -> None:
    loaded = loaded_by("import darrm_opt")
    assert {"darrm_opt", "numpy"} <= loaded
    assert not loaded & (HEAVY | {"pydantic", "typer", "rich"})


def test_the_core_has_only_its_public_names() -> None:
    assert {name for name in dir(darrm_opt) if not name.startswith("_")} == {*darrm_opt.__all__} - {"__version__"}


def test_a_total_of_a_gamma_does_not_load_tables() -> None:
    names = "[name for name in sys.modules if name.startswith('darrm_opt.tables')]"
    spec = "DesignSpec(Problem.from_allowance(K=301, m=3, epsilon=0.1))"
    loaded_by(
        "import sys\nfrom darrm_opt.answers.running_time import solve_seconds\n"
        "from darrm_opt.problem import Problem\nfrom darrm_opt.record import DesignSpec\n"
        f"assert solve_seconds({spec}) > 0\nassert not {names}"
    )


def test_importing_the_cache_is_light() -> None:
    assert not loaded_by("import solver_cache") & (HEAVY | {"pydantic", "typer", "rich"})


# Packages that neither the core nor the service needs: those of extras other than `serve`.
OTHER_EXTRAS = {"scipy", "sklearn", "cvxpy", "gurobipy", "matplotlib", "dp_accounting", "flint", "numba", "pyarrow"}


def without(packages: set[str]) -> str:
    """Return code after which the packages cannot be imported."""
    return (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {packages!r}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )


@pytest.mark.parametrize("code", ["import api.app", "import darrm_opt.questions.registry", "import darrm_client"])
def test_the_service_imports_without_other_extras(code: str) -> None:
    assert not loaded_by(without(OTHER_EXTRAS) + code) & OTHER_EXTRAS


def test_the_core_alone_reads_a_table_file(tmp_path: Path) -> None:
    problem = darrm_opt.Problem.from_allowance(K=5, m=2, epsilon=0.5)
    darrm_opt.solve(problem).save(tmp_path / "one.json")
    code = (
        "from darrm_client import DarrmClient\nfrom darrm_opt import Problem\n"
        f"with DarrmClient({(tmp_path / 'one.json').as_uri()!r}) as client:\n"
        "    assert client.gamma(Problem.from_allowance(K=5, m=2, epsilon=0.5)).exact\n"
        "    assert not client.gamma(Problem.from_allowance(K=5, m=2.1, epsilon=0.5)).exact\n"
    )
    store = {"sqlalchemy", "filelock", "psycopg"}
    assert not loaded_by(without(OTHER_EXTRAS | store) + code) & store


def test_the_command_line_prints_help_without_unneeded_imports() -> None:
    loaded = loaded_by("import sys; sys.argv = ['darrm', '--help']\nfrom darrm import main\nmain()")
    assert "darrm" in loaded
    assert not loaded & (HEAVY | {"api", "darrm_opt", "numpy", "rich", "solver_cache"})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import scipy.optimize", [("scipy.optimize", True)]),
        ("from darrm_opt.design import solver", [("darrm_opt.design.solver", True)]),
        ("from darrm_opt.design import Status", [("darrm_opt.design", True)]),
        ("def f():\n    return importlib.import_module('cvxpy')", [("cvxpy", True)]),
        ("if typing.TYPE_CHECKING:\n    import flint\nelse:\n    import json", [("flint", False), ("json", True)]),
    ],
)
def test_all_forms_of_import_are_found(source: str, expected: list[tuple[str, bool]]) -> None:
    known = frozenset({"darrm_opt.design", "darrm_opt.design.solver"})
    found = imports_of("somewhere", ast.parse(source), known)
    assert sorted((each.imported, each.runs) for each in found) == sorted(expected)


def test_changes_of_globals_are_found() -> None:
    source = "a, b, c, d = {}, [], 0, 0\ndef f(d):\n    global c\n    a[1] = b.append(2)\n    c, d[0], e = 1, 2, 3"
    assert changed_globals(ast.parse(source)) == {"a", "b", "c"}
