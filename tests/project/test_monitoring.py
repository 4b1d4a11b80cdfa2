"""The dashboard, the alert rules and the kustomize overlay: their metrics, labels, variables and ports exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # ships no types
from fastapi.testclient import TestClient
from support.paths import ROOT

from api.app import create_app
from api.observability import metrics
from api.settings import PREFIX, Settings

MONITORING = ROOT / "examples" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
OVERLAY = ROOT / "examples" / "kustomize" / "replicas"
EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in ALERTS},
    **{f"{panel['title']} {t['refId']}": t["expr"] for panel in DASHBOARD["panels"] for t in panel["targets"]},
}


def read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """Return the metrics of /metrics with their labels."""
    found: dict[str, set[str]] = {}
    with TestClient(create_app(Settings(cache_url="memory"))) as client:
        for line in client.get("/metrics").text.splitlines():
            if match := re.fullmatch(r"# TYPE (\w+) (\w+)", line):
                found[match[1]] = set()
                if match[2] == "histogram":
                    found[f"{match[1]}_bucket"] = {"le"}
    # series with labels are exposed only after an event: their labels are those of their definition
    for collector in set(metrics.REGISTRY._collector_to_names):
        labels = set(collector._labelnames)  # type: ignore[attr-defined]  # of prometheus_client's metrics
        for name in metrics.REGISTRY._collector_to_names[collector]:
            if name in found:
                found[name] |= labels
    found["darrm_build_info"] |= {"version", "python", "kernel"}
    return found


def test_every_queried_metric_and_label_exists(exposed: dict[str, set[str]]) -> None:
    for name, expression in EXPRESSIONS.items():
        metrics_named = set(re.findall(r"\b(darrm_\w+|process_\w+|up)\b", expression))
        assert metrics_named, name
        assert metrics_named - {"up"} <= exposed.keys(), name
        known = {"instance", "job"}.union(*(exposed[metric] for metric in metrics_named - {"up"}))
        selectors = re.findall(r"\{([^}]*(?:\{id\}[^}]*)?)\}", expression)
        asked = {label for inner in selectors for label in re.findall(r"(\w+)\s*[=!]", inner)}
        asked |= {label for inner in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", inner)}
        assert asked <= known, name


def test_every_queried_value_can_occur() -> None:
    values = {
        "found": set(metrics.LOOKUP_RESULTS),
        "why": set(metrics.REPLACEMENT_REASONS),
        "outcome": set(metrics.OUTCOMES),
        "route": set(create_app(Settings(cache_url="memory")).openapi()["paths"]),
    }
    found = [each for expression in EXPRESSIONS.values() for each in re.findall(r'(\w+)=~?"([^"]*)"', expression)]
    assert {label for label, _ in found} >= values.keys() - {"route"}
    for label, wanted in found:
        assert label not in values or set(wanted.split("|")) <= values[label]


def test_every_metric_is_documented_and_plotted(exposed: dict[str, set[str]]) -> None:
    described = metrics.describe()
    drawn = " ".join(EXPRESSIONS.values())
    for metric in exposed:
        if not metric.endswith("_bucket"):
            assert described[metric].endswith("."), metric
            assert metric in drawn, metric


def test_the_process_its_loop_and_its_resources_have_alerts(exposed: dict[str, set[str]]) -> None:
    alerted = " ".join(rule["expr"] for rule in ALERTS)
    held = {"darrm_connections_open", "darrm_streams_open", "darrm_received_bytes", "darrm_unread_bytes"}
    for metric in held | {"darrm_loop_lag_seconds_bucket"} | {name for name in exposed if name.startswith("process_")}:
        assert metric in alerted, metric


def test_the_overlay_fits_its_base() -> None:
    (overlay,) = read(OVERLAY / "kustomization.yaml")
    (base,) = read(ROOT / "examples" / "kubernetes" / "kustomization.yaml")
    documents = read(ROOT / "examples" / "kubernetes" / base["resources"][0])
    there = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    assert (OVERLAY / overlay["resources"][0]).resolve() == ROOT / "examples" / "kubernetes"
    patches = [
        document
        for patch in overlay["patches"]
        for document in ([yaml.safe_load(patch["patch"])] if "patch" in patch else read(OVERLAY / patch["path"]))
    ]
    assert {(patch["kind"], patch["metadata"]["name"]) for patch in patches} <= set(there)
    deployment = there["Deployment", "darrm"]["spec"]["template"]
    (patched,) = [patch["spec"]["template"] for patch in patches if patch["kind"] == "Deployment"]
    (container,) = patched["spec"]["containers"]
    (original,) = deployment["spec"]["containers"]
    assert container["name"] == original["name"]
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert {variable["name"] for variable in container["env"]} <= known
    assert {volume["name"] for volume in patched["spec"]["volumes"]} <= {
        v["name"] for v in deployment["spec"]["volumes"]
    }
    assert overlay["images"][0]["name"] == original["image"].partition("@")[0]
    port = original["ports"][0]["containerPort"]
    assert there["Service", "darrm"]["spec"]["ports"][0]["port"] == port
    annotations = patched["metadata"]["annotations"]
    assert (annotations["prometheus.io/port"], annotations["prometheus.io/path"]) == (str(port), "/metrics")
    assert (
        next(v["value"] for v in container["env"] if v["name"] == "DARRM_METRICS") == "open"
    )  # else scraping is refused
    (disruption,) = read(OVERLAY / overlay["resources"][1])
    assert disruption["spec"]["selector"]["matchLabels"].items() <= deployment["metadata"]["labels"].items()
    assert disruption["spec"]["maxUnavailable"] < next(
        p["spec"]["replicas"] for p in patches if p["kind"] == "Deployment"
    )
