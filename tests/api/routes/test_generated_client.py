"""Clients generated from the description, in Python and TypeScript, call every operation of a server."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.paths import DATA
from support.served import Served, serving

from tools.openapi import openapi_text

SCHEMA: dict[str, Any] = json.loads(openapi_text())
OPERATIONS = {operation["operationId"]: operation for item in SCHEMA["paths"].values() for operation in item.values()}
MODELS = SCHEMA["components"]["schemas"]
PACKAGE = "darrm_generated"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("client")
    program = "from openapi_python_client.cli import app; app()"
    options = {"path": folder / "openapi.json", "output-path": folder / PACKAGE, "config": folder / "none.yml"}
    words = [f"--{name}={path}" for name, path in options.items()]
    (folder / "openapi.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (folder / "none.yml").write_text("post_hooks: []\n")  # the formatter is not needed
    command = [sys.executable, "-c", program, "generate", *words, "--meta=none", "--fail-on-warning"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for both clients: the second gets the stored answers of the first."""
    with serving(tmp_path_factory.mktemp("served"), DARRM_CACHE_URL="memory", DARRM_SOLVERS="1") as served:
        yield served


def operation(name: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.api.{OPERATIONS[name]['tags'][0]}.{name}")


def bodies(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the model and the content of every example of the body of an operation."""
    schema = OPERATIONS[name]["requestBody"]["content"]["application/json"]["schema"]
    for choice in schema.get("oneOf", [schema]):
        model = choice["$ref"].rpartition("/")[2]
        yield from ((model, example) for example in MODELS[model].get("examples", ()))


def without_path_parameters() -> Iterator[str]:
    for name, about in OPERATIONS.items():
        if "requestBody" in about and not any(each["in"] == "path" for each in about.get("parameters", ())):
            yield name


def test_a_generated_client_calls_the_service(generated: Path, service: Served) -> None:
    assert {path.stem for path in (generated / PACKAGE / "api").glob("*/*.py")} - {"__init__"} == OPERATIONS.keys()
    package, models = importlib.import_module(PACKAGE), importlib.import_module(f"{PACKAGE}.models")
    with package.Client(base_url=service.url, timeout=300) as client:
        asked = set()
        for name in without_path_parameters():
            for model, example in bodies(name):
                body = getattr(models, model).from_dict(example)
                assert body.to_dict() == example
                answer = operation(name).sync_detailed(client=client, body=body)
                assert answer.status_code in {200, 202}, (name, answer.content)
                assert type(answer.parsed).__name__ in MODELS, name
                asked.add(name)
        assert len(asked) >= 15
        # Infinity is a string, in bodies, queries and answers.
        infinite = {"K": 7, "epsilon": "inf", "Delta": 0.0, "target_epsilon": 0.5, "delta": 1e-5, "affected": 1}
        posted = operation("post_gamma").sync(client=client, body=models.DesignRequest.from_dict(infinite))
        assert posted.to_dict()["problem"]["epsilon"] == "inf"
        epsilon = models.GetGammaEpsilonType1("inf")
        query = {"k": 7, "epsilon": epsilon, "target_epsilon": 0.5, "delta": 1e-5, "affected": 1}
        assert operation("get_gamma").sync(client=client, **query).id == posted.id
        assert operation("get_gamma_by_id").sync(client=client, id=posted.id).gamma == posted.gamma


PROGRAM = """import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };
type Schemas = components["schemas"];
const client = createClient<paths, "application/json">({ baseUrl: process.argv[2] ?? "" });
const said: [string, number][] = [];
const told = (name: string, answer: { response: Response }) => said.push([name, answer.response.status]);
"""

INFINITE = """
const body: Schemas["DesignRequest"] = { K: 7, epsilon: "inf", target_epsilon: 0.5, delta: 1e-5, affected: 1 };
const posted = (await client.POST("/v1/gamma", { body })).data;
if (!posted || !("gamma" in posted)) throw Error("no γ");
const { id, gamma, problem } = posted;
const query = { K: 7, epsilon: "inf", target_epsilon: 0.5, delta: 1e-5, affected: 1 } as const;
const asked = (await client.GET("/v1/gamma", { params: { query } })).data;
const read = (await client.GET("/v1/gamma/{id}", { params: { path: { id } } })).data;
const same = asked && "id" in asked && asked.id === id && JSON.stringify(read?.gamma) === JSON.stringify(gamma);
console.log(JSON.stringify({ said, epsilon: problem.epsilon, same }));
"""


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of a TypeScript client and the generated types."""
    if (npm := shutil.which("npm")) is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copytree(DATA / "typescript_client", folder, dirs_exist_ok=True)
    words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install: {done.stderr[-200:]}")
    # With this option fields with a default are optional.
    options = ["--default-non-nullable=false", "-o", "schema.d.ts"]
    (folder / "openapi.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    made = ["node_modules/.bin/openapi-typescript", "openapi.json", *options]
    subprocess.run(made, cwd=folder, capture_output=True, text=True, check=True)
    return folder


def test_a_typescript_client_compiles_and_calls_the_service(typescript: Path, service: Served) -> None:
    routes = {each["operationId"]: path for path, item in SCHEMA["paths"].items() for each in item.values()}
    # The compiler checks that each example has its generated type.
    calls = [
        f"{{ const body: Schemas[{json.dumps(model)}] = {json.dumps(example)};\n"
        f"  told({json.dumps(name)}, await client.POST({json.dumps(routes[name])}, {{ body }})); }}"
        for name in without_path_parameters()
        for model, example in bodies(name)
    ]
    (typescript / "client.ts").write_text("\n".join([PROGRAM, *calls, INFINITE]), encoding="utf-8")
    tsc = ["node_modules/.bin/tsc", "--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--module"]
    words = [*tsc, "nodenext", "--skipLibCheck", "--lib", "es2022,dom", "client.ts"]
    done = subprocess.run(words, cwd=typescript, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    node = ["node", "client.js", service.url]
    ran = subprocess.run(node, cwd=typescript, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [name for name, status in told["said"] if status not in {200, 202}] == []
    assert len(told["said"]) == len(calls) >= 15
    assert (told["epsilon"], told["same"]) == ("inf", True)
