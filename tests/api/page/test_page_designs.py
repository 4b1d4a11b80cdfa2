"""The page: stored designs with tags and two side by side, the inverse question, and plots that are saved."""

# ruff: noqa: F401, F811 — fixtures are imported by name

from __future__ import annotations

import csv
import io
import json
import re
import urllib.request
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from browser import Visit, browser, fetch, server, shared_tab, visit, visiting, window

from darrm_opt import least_parameter

pytestmark = pytest.mark.slow  # a browser starts, and every test loads the page


def api(server: str, path: str, **asked: Any) -> Any:
    return fetch(f"{server}/v1/{path}", **asked)


def saved(visit: Visit, figure: str, name: str) -> tuple[str, str]:
    with visit.tab.expect_download() as download:
        visit.tab.click(f"#{figure} .save button:text-is('{name}')")
    return download.value.suggested_filename, download.value.path().read_text(encoding="utf-8")


def test_the_form_finds_the_least_m_and_designs_it(visit: Visit) -> None:
    visit.go("?K=7&m=2&epsilon=0.2")
    own = least_parameter(7, epsilon=0.2, utility=0.9)
    assert own.below is not None
    visit.tab.fill("#wanted_utility", "0.9")
    visit.tab.press("#wanted_utility", "Enter")
    visit.until(lambda: f"m = {own.value:g} keeps" in visit.text("#least-status"))
    said = visit.text("#least-status")
    assert f"At {own.below.value:g} the best γ keeps {own.below.reached * 100:.2f} %" in said
    assert "it is proved that nothing there or below reaches 90 %" in said
    visit.until(lambda: visit.query() == {"K": "7", "m": f"{own.value:g}", "epsilon": "0.2"})
    visit.wait()
    assert f"{own.reached * 100:.2f} %" in visit.text("#figures")


def test_the_form_offers_valid_choices_and_reports_errors(visit: Visit) -> None:
    visit.go("?K=5&epsilon=inf&affected=1&target_epsilon=1&delta=1e-5")
    assert visit.tab.input_value("#wanted_parameter") == "target_epsilon"
    shown = visit.tab.locator("#wanted_parameter option:not([hidden])")
    assert shown.evaluate_all("(all) => all.map((one) => one.text)") == ["target_epsilon"]
    visit.tab.fill("#wanted_utility", "1.2")
    visit.tab.click("#least-ask")
    visit.until(lambda: "a share in (0, 1]" in visit.text("#wanted_utility-error"))
    visit.expect_refusal()
    visit.tab.fill("#wanted_utility", "")
    visit.tab.fill("#wanted_agreement", "0.8")
    visit.tab.click("#least-ask")
    visit.until(lambda: "is right in" in visit.text("#least-status"))
    assert visit.query()["objective"] == "rectangular agreement"


def test_designs_are_tagged_filtered_and_compared(visit: Visit) -> None:
    for query in ("K=3&m=1&epsilon=0.4", "K=5&m=2&epsilon=0.4"):
        api(visit.server, f"gamma?{query}")
    visit.go("?K=3&m=1&epsilon=0.4")
    rows = visit.tab.locator("#designs tbody tr")
    visit.tab.fill("#designs_epsilon", "0.4")
    visit.tab.press("#designs_epsilon", "Enter")
    visit.until(lambda: rows.count() >= 2)
    row = visit.tab.locator("#designs tr", has_text="K = 5, m = 2").first
    visit.tab.wait_for_load_state("networkidle")  # else the rows of the first search replace the edited one
    row.locator(".tags input").fill("round-2")
    row.locator(".tags input").press("Enter")
    visit.until(lambda: "Tagged round-2." in visit.text("#designs-status"))
    visit.tab.fill("#designs_tag", "round-2")
    visit.tab.press("#designs_tag", "Enter")
    visit.until(lambda: rows.count() == 1)
    assert "stored" in rows.first.inner_text()
    rows.first.locator("input[type=checkbox]").check()
    visit.until(lambda: "Pick another one" in visit.text("#designs-status"))
    visit.tab.fill("#designs_tag", "")
    visit.tab.fill("#designs_K", "3")
    visit.tab.press("#designs_K", "Enter")
    visit.until(lambda: "K = 3" in visit.text("#designs") and "K = 5" not in visit.text("#designs"))
    rows.first.locator("input[type=checkbox]").check()
    visit.tab.wait_for_selector("#pair-figure .series[data-name=second] .line", state="attached")
    numbers = visit.text("#pair-numbers")
    assert re.search(r"voters K\s+5\s+3\s+−2", numbers)
    name, text = saved(visit, "pair-figure", "CSV")
    lines = list(csv.reader(io.StringIO(text)))
    assert re.fullmatch(r"darrm-pair-figure-K5-m2-epsilon0\.4-Delta0-delta0-and-K3-m\d-.*\.csv", name)
    assert lines[0] == ["share of votes for 1", "first design", "second design"]
    [tagged] = api(visit.server, "designs?tag=round-2")["designs"]
    [gamma] = [api(visit.server, f"gamma/{tagged['id']}")["gamma"]]
    assert [float(first) for _, first, _ in lines[1:] if first] == gamma
    visit.tab.fill("#designs_K", "5")
    visit.tab.press("#designs_K", "Enter")
    visit.tab.click("#designs button[aria-label='Take the tag round-2 away']")
    visit.until(lambda: "is taken away" in visit.text("#designs-status"))
    assert api(visit.server, "designs?tag=round-2")["designs"] == []


def test_two_tables_are_compared_and_a_table_is_not_compared_with_a_gamma(visit: Visit) -> None:
    tables = [
        api(visit.server, "table", groups=[{"K": 2, "epsilon": 0.1}, {"K": 3, "epsilon": each}], target_epsilon=1.3)
        for each in (0.5, 0.6)
    ]
    rule = api(visit.server, "plurality", K=3, classes=3, affected=1, target_epsilon=1.3)
    gamma = api(visit.server, "gamma?K=3&m=1&epsilon=1.3")
    names = {one["id"]: f"t{place}" for place, one in enumerate((*tables, rule, gamma))}
    for id_, tag in names.items():
        request = urllib.request.Request(f"{visit.server}/v1/designs/{id_}/tags/{tag}", method="PUT")  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310 — our own server
    visit.go("?K=3&m=1&epsilon=1.3")

    def pick(tag: str) -> None:
        visit.tab.locator("#designs tr", has_text=tag).locator("input[type=checkbox]").click()

    pick("t0")
    visit.until(lambda: "Pick another one" in visit.text("#designs-status"))
    pick("t1")
    visit.tab.wait_for_selector("#pair-numbers table")
    assert visit.tab.locator("#pair-figure svg.groups").count() == 2
    assert visit.tab.locator("#pair-figure rect:not(.frame)").count() == 2 * 12
    numbers = visit.text("#pair-numbers")
    assert re.search(r"voters\s+2 with ε = 0\.1; 3 with ε = 0\.5\s+2 with ε = 0\.1; 3 with ε = 0\.6", numbers)
    shown = re.search(r"utility\s+([\d.]+)\s+([\d.]+)", numbers)
    assert shown is not None
    assert [float(text) for text in shown.groups()] == pytest.approx([one["utility"] for one in tables], rel=1e-4)
    pick("t2")  # the second one of groups, and the table of classes
    visit.until(lambda: visit.tab.locator("#pair-figure svg.groups").count() == 1)
    assert re.search(r"classes\s+2\s+3\s+\+1", visit.text("#pair-numbers"))
    pick("t3")
    visit.until(lambda: "A γ and a table are not compared" in visit.text("#designs-status"))
    assert visit.tab.locator("#designs-compared").is_hidden()


def test_an_invalid_filter_is_reported_at_its_field(visit: Visit) -> None:
    visit.go()
    visit.tab.fill("#designs_m", "-1")
    visit.tab.press("#designs_m", "Enter")
    visit.until(lambda: "a real number above 0" in visit.text("#designs_m-error"))
    visit.expect_refusal()


def test_a_plot_is_saved_completely_in_the_light_scheme(visit: Visit) -> None:
    visit.go()
    visit.wait_for_curves()
    gamma = api(visit.server, "gamma?K=11&m=3&epsilon=0.1")["gamma"]
    for scheme in ("light", "dark"):
        visit.tab.emulate_media(color_scheme=scheme)
        name, text = saved(visit, "gamma-figure", "SVG")
        assert name == "darrm-gamma-figure-K11-m3-epsilon0.1-Delta0-delta0.svg"
        assert "var(" not in text
        root = ET.fromstring(text)  # noqa: S314 — our own
        said = {one.text for one in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"Weight of the majority: γ", "votes for 1", "optimal γ (this design)", "subsampling"} <= said
        assert root[1].get("fill") == "#ffffff"
        _, table = saved(visit, "gamma-figure", "CSV")
        lines = list(csv.reader(io.StringIO(table)))
        assert lines[0][:2] == ["votes for 1", "optimal γ (this design)"]
        assert [float(line[1]) for line in lines[1:]] == gamma


def test_the_panel_of_designs_fits_the_window(visit: Visit) -> None:
    for query in ("K=11&m=3&epsilon=0.0892&Delta=1e-4", "K=10&m=1&epsilon=0.5&Delta=1e-3&delta=1e-4"):
        api(visit.server, f"gamma?{query}")
    visit.go()
    visit.tab.wait_for_selector("#designs tbody tr:nth-child(2)")
    boxes = visit.tab.locator("#designs input[type=checkbox]")
    for at in (0, 1):
        boxes.nth(at).check()
        visit.tab.wait_for_selector(f":nth-match(#designs input:checked, {at + 1})")
    visit.tab.wait_for_selector("#pair-numbers table")
    for width in (390, 1280):
        visit.tab.set_viewport_size({"width": width, "height": 844})
        for which in ("#designs .scroll", "#pair-numbers .scroll"):
            inner, outer = visit.tab.locator(which).evaluate("(box) => [box.scrollWidth, box.clientWidth]")
            assert inner <= outer, (which, width)
