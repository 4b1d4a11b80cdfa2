"""The files of the page: all there, under a strict policy, and asked for again only when they changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
from fastapi.testclient import TestClient
from support.paths import ROOT

from api.app import create_app
from api.routes.documents import CONTENT_SECURITY_POLICY, MECHANISMS
from api.settings import Settings
from darrm_opt.mechanisms import calibrated_names
from darrm_opt.questions.registry import QUESTIONS
from tools.pages import PAGES


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(Settings(cache_url="memory", rate=0))) as opened:
        yield opened


def test_everything_the_page_refers_to_is_served(client: TestClient) -> None:
    page = client.get("/").text
    linked = re.findall(r'(?:href|src)="(page/[^"]+)"', page)
    names = {file.name for file in files("api").joinpath("page").iterdir()} - {"index.html"}
    assert {f"page/{name}" for name in names if not name.endswith(".js")} <= set(linked)
    for name in {*linked, *(f"page/{name}" for name in names)}:
        answer = client.get(f"/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_modules_import_only_one_another() -> None:
    folder = files("api").joinpath("page")
    scripts = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".js")}
    imported = {name for text in scripts.values() for name in re.findall(r'from "\./([\w.]+)"', text)}
    assert imported == set(scripts) - {"main.js"} | {MECHANISMS}  # which the service makes
    for name, text in scripts.items():
        assert not re.search(
            r"""^import .* from ["'](?!\./)|\bimport\(|https?://(?!www\.w3\.org/2000/svg)|innerHTML|\beval\(""",
            text,
            re.MULTILINE,
        ), name


def test_every_question_has_a_form_whose_fields_are_named_and_explained(client: TestClient) -> None:
    page = client.get("/").text
    paths = re.findall(r'data-path="v1/([\w/-]+)"', page)
    assert sorted(paths) == sorted([*QUESTIONS, "compare"])  # which is asked of the design, too
    for path in QUESTIONS:
        form = max(re.findall(rf'data-path="v1/{path}".*?</form>', page, re.DOTALL), key=len)
        hidden = {"cost": {"curve"}, "verify": {"K", "targets"}}.get(path, set())
        assert set(QUESTIONS[path].declared()) - set(re.findall(r'name="(\w+)"', form)) == hidden, path
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    controls = re.findall(r'<(?:input|select) data-kind="\w+" id="(\w+)"', page)
    assert set(controls) <= set(re.findall(r'<label for="(\w+)"', page))
    assert set(re.findall(r'aria-describedby="(w-[^"]+)"', page)) == set(re.findall(r'<dd id="([^"]+)"', page))


def test_policy_is_strict() -> None:
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none';")
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "*" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_only_changed_files_are_fetched_again(client: TestClient, encoding: str) -> None:
    first = client.get("/page/main.js", headers={"Accept-Encoding": encoding})
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers.get("content-encoding", "identity") == encoding
    tags = {"Accept-Encoding": encoding, "If-None-Match": f'"other", {first.headers["etag"]}'}
    again = client.get("/page/main.js", headers=tags)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert client.get("/page/main.js", headers={**tags, "If-None-Match": '"other"'}).status_code == 200


def test_the_whole_page_is_small(client: TestClient) -> None:
    names = {file.name for file in files("api").joinpath("page").iterdir()} - {"index.html"}
    paths = ["/", *(f"/page/{name}" for name in names)]
    sent = [int(client.get(path, headers={"Accept-Encoding": "gzip"}).headers["content-length"]) for path in paths]
    assert sum(sent) < 79_000


@pytest.mark.parametrize("name", ["index.html", "__init__.py", "..%2Fapp.py", "nothing.js", "%00"])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    answer = client.get(f"/page/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_head_is_answered(client: TestClient) -> None:
    assert client.head("/").status_code == 200


def test_the_page_is_not_part_of_the_api(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if path == "/" or path.startswith("/page")]


def test_the_map_for_language_models_names_every_path_and_only_files_that_exist(client: TestClient) -> None:
    answer = client.get("/llms.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    paths = set(client.get("/openapi.json").json()["paths"])
    api, _, documents = answer.text.partition("## Documentation")
    assert set(re.findall(r"(?<![\w.])/[a-z](?:[\w/{}-]|\.\w)*", api)) - {"/openapi.json"} == paths
    named = re.findall(r"[\w/]+\.md", documents)
    assert named
    made = {f"docs/{name}" for name in PAGES}  # when the site is built
    assert [name for name in named if not (ROOT / name).is_file() and name not in made] == []


def test_mechanisms_are_those_of_the_registry(client: TestClient) -> None:
    text = client.get(f"/page/{MECHANISMS}").text
    parameters = json.loads(text.removeprefix("export const MECHANISMS = ").removesuffix(";\n"))
    assert list(parameters) == list(calibrated_names())
    assert parameters["laplace"] == "scale"
