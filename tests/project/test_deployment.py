"""The image and the files that deploy it, compared with the service: settings, paths, user and locks."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # ships no types
from support.paths import ROOT
from support.served import serving

from api.access.keys import create_key
from api.app import create_app
from api.server.run import listen, prepare
from api.settings import KILL_SECONDS, PREFIX, Settings
from darrm.cli import VERBS
from darrm_client.client import KEY_VARIABLE, URL_VARIABLE
from darrm_opt import Problem, solve
from solver_cache.model import row_of
from solver_cache.table_files import write_table

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


DIGEST = re.compile(r"[\w./-]+(:[\w.-]+)?@sha256:[0-9a-f]{64}")


def images() -> dict[str, str]:
    """Return every external image, by the position of its name."""
    found = {f"{name}": container["image"] for name, container in CONTAINERS.items()}
    found |= {
        f"compose.yaml: {name}": each["image"] for name, each in COMPOSE["services"].items() if "build" not in each
    }
    for name in ("Dockerfile", "deploy/Dockerfile"):
        text = (ROOT / name).read_text(encoding="utf-8")
        bases = dict(re.findall(r"^ARG (\w+_IMAGE)=(.+)$", text, re.MULTILINE))
        for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
            found[f"{name}: {base}"] = bases[base.strip("${}")] if base.startswith("$") else base
    return found


@pytest.mark.parametrize("place", images())
def test_every_image_has_a_digest(place: str) -> None:
    assert DIGEST.fullmatch(images()[place]), f"a tag moves: {images()[place]}"


@pytest.mark.parametrize("path", ["Dockerfile", "compose.yaml", "docs/deploy.md", *KUBERNETES], ids=str)
def test_every_named_variable_exists(path: str | Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | {URL_VARIABLE, KEY_VARIABLE}
    named = variables((ROOT / path).read_text(encoding="utf-8")) - {"DARRM_PORT"}  # as made by the links of a Service
    assert named or path in KUBERNETES  # the proxy has none
    assert named <= known


def test_every_requested_path_is_a_route() -> None:
    texts = [DOCKERFILE, *(path.read_text(encoding="utf-8") for path in [ROOT / "compose.yaml", *KUBERNETES])]
    asked = {path for text in texts for path in re.findall(r"(?:127\.0\.0\.1:8000|path: |\"8000\", \")(/[a-z]+)", text)}
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


def test_the_image_runs_as_a_numeric_user_other_than_root() -> None:
    assert re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE) == [f"{USER}:{USER}"]


def test_every_install_is_pinned() -> None:
    installs = re.findall(r"pip (?:--python \S+ )?install [^&]*", DOCKERFILE.replace("\\\n", " "))
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert "# syntax=" not in DOCKERFILE  # this would fetch a builder by a tag


def test_only_copied_files_are_sent_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"}
    copied = set()
    for line in re.findall(r"^COPY (?!--from)(?:--chmod=\d+ )?(.+)$", DOCKERFILE, re.MULTILINE):
        copied |= set(line.split()[:-1])
    assert sent == copied
    assert all((ROOT / name).exists() for name in sent)


@pytest.mark.parametrize("file", ["Dockerfile", "deploy/Dockerfile"])
def test_files_of_the_checkout_have_a_stated_mode_in_the_image(file: str) -> None:
    """The mode in a checkout depends on the umask: under 077 only root can read files that root copies."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    places = {line: line.split()[-1] for line in lines if line.split()[-1].startswith(("/opt/", "/usr/", "/etc/"))}
    assert places
    assert all(re.match(r"--chmod=(644|755) ", line) for line in places)


# -------------------------------------------------------------------------------------------------------- deployments


def test_compose_confines_both() -> None:
    assert set(COMPOSE["services"]) == {"proxy", "darrm", "database"}
    for service in COMPOSE["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["healthcheck"]["test"][0] == "CMD"
        assert {"cpus", "memory", "pids"} == set(service["deploy"]["resources"]["limits"])
        assert {each if isinstance(each, str) else each["source"] for each in service["secrets"]} <= set(
            COMPOSE["secrets"]
        )
        assert set(service["networks"]) <= set(COMPOSE["networks"])
    assert COMPOSE["services"]["proxy"]["ports"] == ["${HTTPS_PORT:-443}:8443"]  # the only entry
    assert not [name for name in ("darrm", "database") if "ports" in COMPOSE["services"][name]]
    (front,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    # only the address of the proxy, since a network would include all its containers
    proxy = COMPOSE["services"]["proxy"]["networks"]["front"]["ipv4_address"]
    assert COMPOSE["services"]["darrm"]["environment"]["DARRM_TRUSTED_PROXIES"] == proxy
    assert ip_address(proxy) in ip_network(front["subnet"])
    address = COMPOSE["services"]["darrm"]["networks"]["front"]["ipv4_address"]  # which the proxy resolves once
    assert ip_address(address) in ip_network(front["subnet"])
    assert set(COMPOSE["services"]["proxy"]["networks"]) & set(COMPOSE["services"]["darrm"]["networks"]) == {"front"}
    assert COMPOSE["networks"]["back"]["internal"] is True
    assert "password" not in COMPOSE["services"]["darrm"]["environment"]["DARRM_CACHE_URL"]


def test_keys_are_mounted_by_their_folder() -> None:
    variable = COMPOSE["services"]["darrm"]["environment"]["DARRM_KEYS"]
    mounts = dict(volume.split(":")[:2] for volume in COMPOSE["services"]["darrm"]["volumes"])
    assert str(Path(variable).parent) in mounts.values()
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (mounted,) = re.findall(r'--volume "\$PWD/keys:(\S+):ro" --env DARRM_KEYS=(\S+)', text)
    assert mounted[1] == f"{mounted[0]}/keys.json"


def test_the_secrets_folder_is_closed_to_other_users(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (permissions,) = re.findall(r"^.*chmod 0700 secrets$", text, re.MULTILINE)
    for name in ("database_password", "tls.crt", "tls.key", "keys/keys.json"):
        path = tmp_path / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    subprocess.run(["sh", "-euc", permissions], cwd=tmp_path, check=True)
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "secrets" / "keys").stat().st_mode) & 0o005 == 0o005
    for path in (tmp_path / "secrets").rglob("*.*"):
        assert (
            stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444
        )  # the users of the containers can read the mounted files


def test_the_command_at_the_head_of_the_dockerfile_starts() -> None:
    (command,) = re.findall(r"^# `docker run .*`\.$", DOCKERFILE, re.MULTILINE)
    variables_ = {name.lower(): value for name, value in re.findall(r"-e DARRM_([A-Z_]+)=(\w+)", command)}
    with listen("0.0.0.0", 0) as listening:  # noqa: S104 - the address of the command of the image
        assert prepare(listening, cache_url="memory", **variables_).public


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
    assert {m["name"] for c in pod["containers"] for m in c.get("volumeMounts", [])} <= mounted
    if any(container["name"] == "darrm" for container in pod["containers"]):
        assert {"cache", "tmp"} <= mounted


def test_the_proxy_of_the_cluster_has_the_files_that_its_image_expects() -> None:
    (proxy,) = [container for container in CONTAINERS.values() if container["name"] == "proxy"]
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    folder, configuration = re.findall(r'"-p", "(\S+)", "-c", "(\S+)/nginx.conf"', text)[0]
    assert {mount["mountPath"] for mount in proxy["volumeMounts"]} == {folder, f"{configuration}/tls"}
    port = proxy["ports"][0]["containerPort"]
    assert f"EXPOSE {port}" in text
    nginx = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    assert f"listen {port} " in nginx
    assert "server darrm:8000 " in nginx  # the name and port of the service, in compose and in the cluster
    assert proxy["readinessProbe"]["exec"]["command"][1] in nginx


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_is_confined_and_limited(name: str) -> None:
    container = CONTAINERS[name]
    context = container["securityContext"]
    assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_probed(name: str) -> None:
    container = SERVICES[name]
    assert {"startupProbe", "livenessProbe"} <= set(container)
    if "127.0.0.1" in container["args"]:  # which the kubelet cannot reach
        assert all("exec" in probe for key, probe in container.items() if key.endswith("Probe"))
        assert "/readyz" in container["startupProbe"]["exec"]["command"][-1]
    else:
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert any(variable["name"] == "DARRM_KEYS" for variable in container["env"])


def test_python_in_manifests_compiles() -> None:
    programs = [
        (container["name"], command[2])
        for container in CONTAINERS.values()
        for command in [
            container.get("command", []),
            *(p.get("exec", {}).get("command", []) for p in _probes(container)),
        ]
        if command[:2] == ["python", "-c"]
    ]
    assert programs
    for name, text in programs:
        compile(text, name, "exec")


def _probes(container: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (value for key, value in container.items() if key.endswith("Probe"))


# ----------------------------------------------------------------------------------------------- systemd, and Slurm

UNIT = ROOT / "deploy" / "darrm.service"


def test_the_unit_starts_an_existing_command_and_is_confined(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert "serve" in VERBS
    assert variables(text) <= {PREFIX + name.upper() for name in Settings.model_fields}
    stop = int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0])
    assert stop > Settings.model_fields["stop_seconds"].default + KILL_SECONDS
    # The owner of a folder may replace its files: keys and settings must not be in a folder of the service.
    assert re.findall(r"^\w+Directory=.*$", text, re.MULTILINE) == [
        "StateDirectory=darrm",
        "WorkingDirectory=/var/lib/darrm",
    ]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name  # its program is not installed here
    unit.write_text(text.replace("/opt/darrm/bin/darrm", sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", str(unit)]
    rated = subprocess.run(command, capture_output=True, text=True, check=False)
    assert rated.returncode == 0, rated.stdout[-200:] + rated.stderr  # exposure at most 1.5 of 10


def test_a_job_of_slurm_gets_its_gamma_from_a_table_or_a_service(tmp_path: Path) -> None:
    """Slurm runs a batch script by its shell, for which its options are comments."""
    job = "from darrm_client import DarrmClient; from darrm_opt import Problem\n"
    job += "with DarrmClient() as client: print(client.gamma(Problem.from_allowance(K=5, m=2, epsilon=0.5)).exact)"
    key = create_key(tmp_path / "keys.json", "cluster")[1]
    (tmp_path / "key").write_text(key)
    solution = solve(Problem.from_allowance(K=5, m=2, epsilon=0.5))
    write_table(tmp_path / "gamma.jsonl", [row_of(solution)])
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with serving(tmp_path, DARRM_KEYS=str(tmp_path / "keys.json")) as service:
        settings = {
            "table": {"TABLE": str(tmp_path / "gamma.jsonl")},
            "service": {"DARRM_URL": service.url, "DARRM_KEY_FILE": str(tmp_path / "key")},
        }
        for name, more in settings.items():
            script = ROOT / "examples" / "slurm" / f"{name}.sbatch"
            command = ["bash", str(script), sys.executable, "-c", job]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings | more)
            assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert not [*tmp_path.glob("darrm.*")]  # the copy was removed
