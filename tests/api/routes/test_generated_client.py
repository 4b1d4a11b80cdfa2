"""A client that is generated from the description, as people do: every operation is there, and really called."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.served import serving

from tools.openapi import openapi_text

SCHEMA: dict[str, Any] = json.loads(openapi_text())
OPERATIONS = {operation["operationId"]: operation for item in SCHEMA["paths"].values() for operation in item.values()}
MODELS = SCHEMA["components"]["schemas"]
PACKAGE = "darrm_generated"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("client")
    program = "from openapi_python_client.cli import app; app()"
    words = [
        "generate",
        "--path",
        str(folder / "openapi.json"),
        "--output-path",
        str(folder / PACKAGE),
        "--meta",
        "none",
    ]
    (folder / "openapi.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (folder / "none.yml").write_text("post_hooks: []\n")  # which would format it
    command = [sys.executable, "-c", program, *words, "--config", str(folder / "none.yml"), "--fail-on-warning"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def operation(name: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.api.{OPERATIONS[name]['tags'][0]}.{name}")


def bodies(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the model, and the content, of every example of an operation's body."""
    schema = OPERATIONS[name]["requestBody"]["content"]["application/json"]["schema"]
    for choice in schema.get("oneOf", [schema]):
        model = choice["$ref"].rpartition("/")[2]
        yield from ((model, example) for example in MODELS[model].get("examples", ()))


def test_a_generated_client_calls_the_service(generated: Path, tmp_path: Path) -> None:
    assert {path.stem for path in (generated / PACKAGE / "api").glob("*/*.py")} - {"__init__"} == OPERATIONS.keys()
    package, models = importlib.import_module(PACKAGE), importlib.import_module(f"{PACKAGE}.models")
    with (
        serving(tmp_path, DARRM_CACHE_URL="memory", DARRM_SOLVERS="1") as service,
        package.Client(base_url=service.url, timeout=60) as client,
    ):
        asked = set()
        for name, about in OPERATIONS.items():
            if "requestBody" not in about or any(each["in"] == "path" for each in about.get("parameters", ())):
                continue
            for model, example in bodies(name):
                body = getattr(models, model).from_dict(example)
                assert body.to_dict() == example
                answer = operation(name).sync_detailed(client=client, body=body)
                assert answer.status_code in {200, 202}, (name, answer.content)
                assert type(answer.parsed).__name__ in MODELS, name
                asked.add(name)
        assert len(asked) >= 15
        # Infinity is a word, in a body, in a query and in an answer.
        infinite = {"K": 7, "epsilon": "inf", "Delta": 0.0, "target_epsilon": 0.5, "delta": 1e-5, "affected": 1}
        posted = operation("post_gamma").sync(client=client, body=models.DesignRequest.from_dict(infinite))
        assert posted.to_dict()["problem"]["epsilon"] == "inf"
        epsilon = models.GetGammaEpsilonType1("inf")
        query = {"k": 7, "epsilon": epsilon, "target_epsilon": 0.5, "delta": 1e-5, "affected": 1}
        assert operation("get_gamma").sync(client=client, **query).id == posted.id
        assert operation("get_gamma_by_id").sync(client=client, id=posted.id).gamma == posted.gamma
