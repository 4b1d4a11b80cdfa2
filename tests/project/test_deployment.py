"""The image and the files that deploy it, compared with the service: settings, paths, user and locks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # ships no types
from support.paths import ROOT
from test_toolchain import locked

from api.app import create_app
from api.settings import PREFIX, Settings
from darrm.cli.verbs import VERBS
from darrm_client.client import KEY_VARIABLE, URL_VARIABLE

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
FINAL = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
KUBERNETES = sorted(
    set((ROOT / "examples" / "kubernetes").glob("*.yaml")) - {*ROOT.rglob("examples/*/kustomization.yaml")}
)
USER = 10001


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in KUBERNETES:
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] in {"Deployment", "Job"}:
                yield f"{path.name}: {document['metadata']['name']}", document["spec"]["template"]["spec"]


PODS = dict(pods())
CONTAINERS = {
    f"{name}: {container['name']}": container
    for name, pod in PODS.items()
    for container in [*pod.get("initContainers", []), *pod["containers"]]
}
SERVICES = {name: container for name, container in CONTAINERS.items() if container["name"] == "darrm"}


def variables(text: str) -> set[str]:
    return set(re.findall(r"\bDARRM_[A-Z_]+\b", text))


# ------------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("path", ["Dockerfile", "compose.yaml", "docs/container.md", *KUBERNETES], ids=str)
def test_every_variable_that_is_named_exists(path: str | Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | {URL_VARIABLE, KEY_VARIABLE}
    named = variables((ROOT / path).read_text(encoding="utf-8")) - {"DARRM_PORT"}  # what a Service's link would make
    assert named
    assert named <= known


def test_every_path_that_is_asked_is_a_route() -> None:
    texts = [DOCKERFILE, *(path.read_text(encoding="utf-8") for path in [ROOT / "compose.yaml", *KUBERNETES])]
    asked = {path for text in texts for path in re.findall(r"(?:127\.0\.0\.1:8000|path: )(/[a-z]+)", text)}
    assert asked == {"/healthz", "/readyz"}
    assert asked <= set(create_app(Settings(cache_url="memory")).openapi()["paths"])


def test_commands_are_verbs_of_the_command_line() -> None:
    verbs = set(VERBS)
    assert "serve" in verbs
    for container in SERVICES.values():
        assert container["args"][0] in verbs
    assert 'CMD ["serve", ' in FINAL
    assert "exec darrm serve " in COMPOSE["services"]["darrm"]["command"][0]


# --------------------------------------------------------------------------------------------------------- the image


def test_the_final_stage_builds_nothing() -> None:
    assert FINAL.startswith("\nFROM ${PYTHON_IMAGE}\n")
    assert not re.search(r"^(RUN|ADD) ", FINAL, re.MULTILINE)
    assert all("--from=build" in line for line in re.findall(r"^COPY .*$", FINAL, re.MULTILINE))


def test_the_image_is_run_by_a_number_that_is_not_root() -> None:
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == [f"{USER}:{USER}"]


def test_every_install_is_pinned() -> None:
    installs = re.findall(r"pip (?:--python \S+ )?install [^&]*", DOCKERFILE.replace("\\\n", " "))
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert "# syntax=" not in DOCKERFILE  # would fetch a builder by a tag


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"}
    copied = set()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        copied |= set(line.split()[:-1])
    assert sent == copied
    assert all((ROOT / name).exists() for name in sent)


def test_the_services_lock_is_part_of_the_other() -> None:
    service, whole = locked("requirements-service.lock"), locked("requirements.lock")
    assert {package: whole.get(package) for package in service} == service


# -------------------------------------------------------------------------------------------------------- what runs it


def test_compose_confines_both() -> None:
    assert set(COMPOSE["services"]) == {"darrm", "database"}
    for service in COMPOSE["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["healthcheck"]["test"][0] == "CMD"
        assert {"cpus", "memory", "pids"} == set(service["deploy"]["resources"]["limits"])
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        assert set(service["networks"]) <= set(COMPOSE["networks"])
    assert COMPOSE["services"]["darrm"]["ports"] == ["127.0.0.1:8000:8000"]
    assert "ports" not in COMPOSE["services"]["database"]
    assert COMPOSE["networks"]["back"]["internal"] is True
    assert "password" not in COMPOSE["services"]["darrm"]["environment"]["DARRM_CACHE_URL"]


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_confined(name: str) -> None:
    pod = PODS[name]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    context = pod["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"], context["fsGroup"]) == (True, USER, USER)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["terminationGracePeriodSeconds"] > Settings.model_fields["stop_seconds"].default
    mounted = {volume["name"] for volume in pod["volumes"]}
    assert {m["name"] for c in CONTAINERS.values() if c["name"] == "darrm" for m in c["volumeMounts"]} >= {
        "cache",
        "tmp",
    }
    assert {"cache", "tmp"} <= mounted


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_is_confined_and_bounded(name: str) -> None:
    container = CONTAINERS[name]
    context = container["securityContext"]
    assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    assert not container["image"].endswith(":latest")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_probed(name: str) -> None:
    container = SERVICES[name]
    assert {"startupProbe", "livenessProbe"} <= set(container)
    if "127.0.0.1" in container["args"]:  # where the kubelet cannot come
        assert all("exec" in probe for key, probe in container.items() if key.endswith("Probe"))
        assert "/readyz" in container["startupProbe"]["exec"]["command"][-1]
    else:
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert any(variable["name"] == "DARRM_KEYS" for variable in container["env"])


def test_the_examples_python_is_python() -> None:
    for container in CONTAINERS.values():
        commands = [container.get("command", []), *(p.get("exec", {}).get("command", []) for p in _probes(container))]
        for command in commands:
            if command[:2] == ["python", "-c"]:
                compile(command[2], container["name"], "exec")


def _probes(container: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (value for key, value in container.items() if key.endswith("Probe"))
