"""The page at /, in a real browser against a real server."""

# ruff: noqa: F811 — fixtures are imported by name

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browser import (  # noqa: F401
    PATIENT,
    Visit,
    Visiting,
    browser,
    fetch,
    form,
    paper,
    serve,
    server,
    shared_form,
    shared_tab,
    small,
    visit,
    visiting,
    window,
)
from support import solver_tasks as tasks

from api.access import keys
from api.tasks import design
from darrm_opt import NotPrivate, Privacy, Problem, __version__, solve, verify
from darrm_opt.accounting import Sampling
from darrm_opt.answers.statement import statement_of_record
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.voters import PrivacyProfile

PROFILE_QUERY = "K=5&target_epsilon=0.25&profile=0%3A0.013%2C0.1%3A1e-5&affected=4"
TARGETS_QUERY = "K=5&epsilon=0.3&targets=0.3%3A0.01%2C0.5%3A1e-4"
PLAN = "?tab=questions&question=plan&ask_plan_queries=2"
PAPER_QUERY = "K=11&m=3&epsilon=0.1"

pytestmark = pytest.mark.slow  # a browser starts, and every test loads the page


def _api(server: str, query: str) -> Any:
    return fetch(f"{server}/v1/gamma?{query}")


def drawn_heights(visit: Visit, figure: str, curve: str) -> list[float]:
    """Return the distances of the points of a curve from the top [px]."""
    path = visit.tab.get_attribute(f"{figure} .series[data-name={curve}] .line", "d")
    return [float(height) for _, height in re.findall(r"[ML](\S+) ([\d.]+)", path)]


def test_the_setting_of_the_paper_is_plotted_as_by_the_api(paper: Visit) -> None:
    gamma = _api(paper.server, PAPER_QUERY)["gamma"]
    heights = drawn_heights(paper, "#gamma-figure", "optimal")
    assert len(heights) == len(gamma)
    (low, high), (lowest, highest) = (min(gamma), max(gamma)), (max(heights), min(heights))
    for value, height in zip(gamma, heights, strict=True):  # a linear axis, upwards
        assert height == pytest.approx(lowest + (value - low) / (high - low) * (highest - lowest), abs=0.02)
    names = paper.tab.locator("#gamma-figure .series").evaluate_all("(all) => all.map((one) => one.dataset.name)")
    assert set(names) == {"optimal", "double_subsampling", "subsampling", "randomized_response"}
    assert paper.tab.locator("#gamma-figure .series.own .mark").count() == len(gamma)
    assert "0.3-DP" in paper.text("#headline")
    assert "90.82 %" in paper.text("#figures")


def test_the_proof_is_explained(visit: Visit) -> None:
    visit.go("?K=5&m=2&epsilon=0.1&Delta=1e-5")
    visit.tab.click("#proof summary")
    said = visit.text("#certificate")
    certificate = _api(visit.server, "K=5&m=2&epsilon=0.1&Delta=1e-5")["certificate"]
    assert "5 voters are each (0.1, 10⁻⁵)-DP" in said
    assert "e^0.2 = 1.222 times as likely" in said
    for voters in certificate["worst_corners"].values():
        assert re.search(rf"\b{voters} (surely )?(answer|never)", said)
    assert "a margin of" in said
    assert "this one is optimal" in said


def test_warnings_are_shown(visit: Visit) -> None:
    visit.go("?K=5&m=1&epsilon=0.1&Delta=0.5&delta=1e-5")
    assert "Were the two swapped?" in visit.text("#warnings")
    visit.go("?K=5&m=2&epsilon=0.1")
    assert not visit.tab.is_visible("#warnings")


WRONG = {
    "design": [
        ("K", "<b>7</b>", "<b>7</b>"),
        ("epsilon", "0,1", "expected a number of nats, at least 0"),
        ("m", "-2", "m = -2.0 is not valid"),
        ("affected", "12", "affected = 12 is not valid"),
        ("objective", "rectangle", "objective"),
        ("profile", "0:0.013, 0.1", "expected points such as 0:0.013,0.1:1e-5"),
    ],
    "classes": [
        ("K", "0", "K = 0 is not valid: expected a whole number of voters, at least 1"),
        ("prior", "dirichlet(nan)", "prior = 'dirichlet(nan)' is not valid"),
        ("price", "<i>", "price"),
        ("sample", "4", "needs records"),
    ],
    "groups": [("target_epsilon", "-1", "from 0 to 500"), ("objective", "x", "prior = 'x'")],
    "cost": [("delta", "2", "delta = 2.0 is not valid"), ("labels", "0", "labels = 0")],
}
"""By tab: a field, an invalid value, and the error at the field."""


@pytest.mark.parametrize(
    "row", [(tab, *row) for tab, rows in WRONG.items() for row in rows], ids=lambda row: "-".join(row[:2])
)
def test_the_error_of_an_invalid_input_is_shown_at_its_field(form: Visit, row: tuple[str, str, str, str]) -> None:
    tab, field, value, said = row
    name = field if tab == "design" else f"{tab}_{field}"
    if form.query().get("tab", "design") != tab:
        form.tab.click(f"#{tab}-tab")
    control = form.tab.locator(f"#{name}")
    if not control.is_visible():
        form.tab.click(f"#{tab}-form .advanced summary")
    good = control.input_value()
    control.fill(value)
    control.press("Enter")
    assert_error_at(form, name, said)
    control.fill(good)
    if tab == "design":
        assert form.tab.is_visible("#trouble[role=alert]")
        control.dispatch_event("change")
        form.until(lambda: not form.tab.is_visible("#trouble"))
        assert not form.tab.is_visible(f"#{name}-error")
        assert control.get_attribute("aria-invalid") is None


def test_every_invalid_field_is_marked(visit: Visit) -> None:
    visit.go("?K=0&m=2&epsilon=-1&delta=3")
    for name, said in (("K", "K = 0"), ("epsilon", "epsilon = -1"), ("delta", "delta = 3")):
        assert said in visit.text(f"#{name}-error")
        assert visit.tab.get_attribute(f"#{name}", "aria-invalid") == "true"
    assert visit.tab.locator("#problem [aria-invalid=true]").count() == 3
    visit.expect_refusal()
    visit.fill("K", "5")
    assert visit.tab.locator("#problem [aria-invalid=true]").count() == 2
    visit.expect_refusal()


PROFILES: dict[str, list[list[float]] | None] = {
    "0:0.013, 0.1:1e-5": [[0.0, 0.013], [0.1, 1e-5]],
    "0.1:0.001, 0.4:0": [[0.1, 0.001], [0.4, 0.0]],
    "gaussian(0.0325)": None,
}


def test_the_region_of_profile_points_is_drawn(visit: Visit) -> None:
    visit.go("?K=5&target_epsilon=0.3&epsilon=0.1&Delta=1e-5")
    alone = _api(visit.server, "K=5&target_epsilon=0.3&epsilon=0.1&Delta=1e-5")
    assert not visit.tab.is_visible("#region-figure")
    visit.tab.click("#proof summary")
    for stated, points in PROFILES.items():
        visit.fill("profile", stated)
        assert not visit.tab.is_visible("#epsilon")
        assert not visit.tab.is_visible("#inverse")
        assert visit.tab.is_disabled("input[name=target][value=m]")
        assert visit.query() == {"K": "5", "target_epsilon": "0.3", "profile": stated}
        answer = _api(visit.server, urlsplit(visit.tab.url).query)
        problem = answer["problem"]
        if points:
            assert problem["profile"] == points
        assert answer["gamma"] != alone["gamma"]
        # The corners of the region are those of the polygon of the voter, on both axes.
        corners = visit.tab.get_attribute("#region-figure .region", "points").split()
        drawn = [tuple(map(float, corner.split(","))) for corner in corners]
        upper = [(float(other), float(p)) for other, p in PrivacyProfile(problem["profile"]).chain()]
        lower = [(1 - other, 1 - p) for other, p in upper]
        expected = upper + lower
        assert len(drawn) == len(expected)
        (left, bottom), (right, top) = drawn[0], drawn[len(upper) - 1]
        for (x, y), (other, p) in zip(drawn, expected, strict=True):
            assert x == pytest.approx(left + other * (right - left), abs=0.02)
            assert y == pytest.approx(bottom + p * (top - bottom), abs=0.02)
        said = visit.text("#region-figure .about")
        assert f"{len(problem['profile'])} points" in said
        assert f"its {2 * len(upper) - 2} corners" in said
        assert "at once" in visit.text("#certificate")
        assert "are at" not in visit.text("#certificate")  # each corner shows its probabilities
    # A link shows the same, and without the field the page is as before.
    url = visit.tab.url
    visit.go("?K=3&m=1&epsilon=0.1")
    assert not visit.tab.is_visible("#region-figure")
    visit.tab.goto(url)
    visit.wait()
    assert visit.tab.input_value("#profile") == stated
    assert visit.tab.is_visible("#region-figure")


def test_plans_and_targets_accept_profiles(visit: Visit) -> None:
    visit.go(
        "?K=11&target_epsilon=0.3&profile=0%3A0.013%2C0.1%3A1e-5&budget_queries=2&budget_total_epsilon=0.7&budget_total_delta=1e-3"
    )
    visit.tab.wait_for_selector("#budget-answer table")
    with visit.tab.expect_request("**/v1/plan") as asked:
        visit.tab.click("#advice-ask")
    assert {"K": 11, "profile": "0:0.013,0.1:1e-5"}.items() <= asked.value.post_data_json.items()
    assert "epsilon" not in asked.value.post_data_json
    visit.tab.wait_for_selector("#advice-answer .headline")
    visit.tab.wait_for_selector("#utility-figure .series .line", state="attached")
    links = visit.tab.locator("#utility-figure table a").evaluate_all("(all) => all.map((one) => one.search)")
    assert links
    assert all("profile=0%3A0.013%2C0.1%3A1e-5" in link for link in links)
    visit.go("?K=5&target_epsilon=0.25&profile=0%3A0.13%2C0.1%3A1e-5")  # whose first point is redundant
    visit.tab.wait_for_selector("#utility-figure .series .line", state="attached")
    assert not visit.tab.is_visible("#region-figure")


def test_several_targets_are_accepted(visit: Visit) -> None:
    visit.go("?K=5&m=1&epsilon=0.3")
    assert not visit.tab.is_visible("#targets")
    visit.tab.check("input[name=target][value=targets]")
    for name in ("m", "target_epsilon", "delta"):
        assert not visit.tab.is_visible(f"#{name}")
    visit.fill("targets", "0.3:0.01,0.5:1e-4")
    assert visit.query() == {"K": "5", "epsilon": "0.3", "targets": "0.3:0.01,0.5:1e-4"}
    answer = _api(visit.server, TARGETS_QUERY)
    assert answer["problem"]["targets"] == [[0.3, 0.01], [0.5, 1e-4]]
    assert "(0.3, 0.01)-DP and (0.5, 10⁻⁴)-DP" in visit.text("#headline")
    visit.tab.click("#proof summary")
    assert "plus 0.01; and at most" in visit.text("#certificate")
    url = visit.tab.url
    visit.go("?K=3&m=1&epsilon=0.1")
    visit.tab.goto(url)
    visit.wait()
    assert visit.tab.input_value("#targets") == "0.3:0.01,0.5:1e-4"
    assert visit.tab.is_checked("input[name=target][value=targets]")
    visit.fill("targets", "0.3:0.01,0.5:2")
    visit.until(lambda: "targets = 2" in visit.text("#targets-error"))
    assert visit.tab.get_attribute("#targets", "aria-invalid") == "true"
    visit.expect_refusal()


def assert_error_at(visit: Visit, name: str, said: str) -> None:
    """Wait for the error of a field, which has the focus and names the error as its description."""
    visit.until(lambda: visit.tab.is_visible(f"#{name}-error") and said in visit.text(f"#{name}-error"))
    assert visit.tab.get_attribute(f"#{name}", "aria-invalid") == "true"
    assert f"{name}-error" in str(visit.tab.get_attribute(f"#{name}", "aria-describedby")).split()
    assert visit.tab.evaluate("document.activeElement.id") == name
    visit.expect_refusal()


def test_the_url_is_the_state_of_the_page(visit: Visit) -> None:
    visit.go()
    visit.fill("K", "9")
    visit.fill("Delta", "1e-5")
    visit.tab.select_option("#shape", "monotone")
    visit.wait()
    visit.tab.check("input[name=measure][value=disagreement]")
    visit.tab.uncheck("#legend input[value=subsampling]")
    query = {"K": "9", "m": "3", "epsilon": "0.1", "Delta": "1e-5", "shape": "monotone"}
    query |= {"measure": "disagreement", "hide": "subsampling"}
    assert visit.query() == query
    headline = visit.text("#headline")
    visit.tab.reload()
    visit.wait()
    visit.wait_for_curves()
    assert visit.query() == query
    assert visit.text("#headline") == headline
    assert visit.tab.input_value("#Delta") == "1e-5"
    assert visit.tab.is_checked("input[name=measure][value=disagreement]")
    assert not visit.tab.is_checked("#legend input[value=subsampling]")
    assert visit.tab.locator("#gamma-figure .series").count() == 3


def test_target_is_converted_between_its_forms(visit: Visit) -> None:
    visit.go()
    visit.tab.check("input[name=target][value=target_epsilon]")
    visit.wait()
    assert visit.query() == {"K": "11", "target_epsilon": "0.3", "epsilon": "0.1"}
    assert "0.3-DP" in visit.text("#headline")
    visit.fill("epsilon", "inf")
    assert visit.tab.is_disabled("input[name=target][value=m]")
    assert visit.query() == {"K": "11", "target_epsilon": "0.3", "epsilon": "inf"}
    visit.fill("target_epsilon", "")
    assert "target_epsilon is missing" in visit.text("#target_epsilon-error")
    visit.expect_refusal()


def test_back_and_forward_restore_the_state(visit: Visit) -> None:
    visit.go()
    first = visit.text("#headline")
    visit.fill("K", "7")
    visit.fill("m", "2")
    last = visit.text("#headline")
    visit.tab.go_back()
    visit.wait()
    assert (visit.tab.input_value("#K"), visit.tab.input_value("#m")) == ("7", "3")
    visit.tab.go_back()
    visit.wait()
    assert visit.tab.input_value("#K") == "11"
    assert visit.text("#headline") == first
    visit.tab.go_forward()
    visit.tab.go_forward()
    visit.wait()
    assert visit.text("#headline") == last


def test_examples_are_links_that_stay_on_the_page(visit: Visit) -> None:
    visit.go()
    visit.tab.evaluate("globalThis.here = true")
    visit.tab.click("text=plain models on disjoint data")
    visit.tab.wait_for_selector("text=one record reaches at most 1 voter")
    assert visit.tab.evaluate("globalThis.here")
    assert visit.query() == {"K": "11", "epsilon": "inf", "target_epsilon": "0.2676", "delta": "3e-4", "affected": "1"}
    assert visit.tab.is_disabled("input[name=target][value=m]")
    assert "need not be private at all" in visit.tab.text_content("#certificate")


def test_the_table_is_downloaded(visit: Visit) -> None:
    visit.go("?K=10&m=2.5&epsilon=0.3&Delta=1e-6")
    expected = _api(visit.server, "K=10&m=2.5&epsilon=0.3&Delta=1e-6")["gamma"]
    texts = {}
    for kind in ("csv", "json"):
        visit.tab.check(f"input[name=form][value={kind}]")
        with visit.tab.expect_download() as promised:
            visit.tab.click("#download")
        file = promised.value
        name = rf"darrm-gamma-K10-m2\.5-epsilon0\.3-Delta0\.000001-delta[0-9.e-]+\.{kind}"
        assert re.fullmatch(name, file.suggested_filename)
        texts[kind] = Path(file.path()).read_text("utf-8")
        assert file.suggested_filename in visit.text("#copied")
    assert json.loads(texts["json"])["gamma"] == expected
    rows = csv.DictReader(io.StringIO(texts["csv"]))
    assert [(int(row["l"]), float(row["gamma"])) for row in rows] == list(enumerate(expected))


def test_the_table_shows_every_digit(visit: Visit) -> None:
    visit.go("?K=4&m=1.5&epsilon=0.4")
    cells = [row.split("\t") for row in visit.text("#table tbody").splitlines()]
    assert [float(row[1]) for row in cells] == _api(visit.server, "K=4&m=1.5&epsilon=0.4")["gamma"]
    assert [row[2] for row in cells] == ["0", "0", "a tie", "1", "1"]


def test_the_python_snippet_runs_and_agrees(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", "memory")
    for query in (
        "K=5&m=2&epsilon=0.1&Delta=1e-5&shape=monotone",
        "K=5&epsilon=inf&target_epsilon=0.5&affected=2",
        PROFILE_QUERY,
        TARGETS_QUERY,
    ):
        visit.go(f"?{query}")
        visit.tab.check("input[name=form][value=python]")
        visit.tab.wait_for_selector("#text:has-text('darrm_opt')")
        names: dict[str, Any] = {"print": lambda *_: None}
        exec(visit.text("#text"), names)  # noqa: S102 — the snippet must run
        assert names["solution"].gamma.tolist() == _api(visit.server, query)["gamma"]


def test_the_curl_command_sends_the_same_question(visit: Visit) -> None:
    visit.go("?K=5&m=2&epsilon=0.1&objective=shared(2,5)&hide=subsampling")
    visit.tab.check("input[name=form][value=curl]")
    visit.tab.wait_for_selector("#text:has-text('curl')")
    (url,) = re.findall(r"'(.+)'", visit.text("#text"))
    assert fetch(url) | {"cached": True} == _api(visit.server, urlsplit(url).query)


def test_a_copied_table_can_be_pasted_into_a_spreadsheet(small: Visit) -> None:
    small.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    small.tab.click("#copy")
    small.tab.wait_for_selector("#copied:has-text('Copied')")
    lines = str(small.tab.evaluate("navigator.clipboard.readText()")).splitlines()
    assert [float(line.split("\t")[1]) for line in lines] == _api(small.server, "K=5&m=2&epsilon=0.1")["gamma"]
    small.tab.click("#link")
    small.until(lambda: small.tab.evaluate("navigator.clipboard.readText()") == small.tab.url)


def test_the_page_can_be_used_by_keyboard_only(visit: Visit) -> None:
    visit.go()
    keys = visit.tab.keyboard
    keys.press("Tab")
    assert visit.text(":focus") == "Skip to the result"
    for _ in range(13):
        keys.press("Tab")  # past the link to the paper, the examples and the tabs
    assert visit.tab.evaluate("document.activeElement.id") == "K"
    keys.type("7")  # replaces the content, which is selected by tabbing to the field
    order = ["K"]
    for _ in range(14):
        keys.press("Tab")
        order.append(str(visit.tab.evaluate("document.activeElement.id || document.activeElement.name")))
        if order[-1] == "shape":
            keys.press("ArrowDown")
    stops = "K affected epsilon Delta target m delta kind objective shape profile"
    assert order == [*stops.split(), "wanted_parameter", "wanted_utility", "wanted_agreement", "least-ask"]
    keys.press("Tab")
    keys.press("Enter")
    visit.tab.wait_for_selector("#headline:has-text('7 voters')")
    assert visit.query() == {"K": "7", "m": "3", "epsilon": "0.1", "shape": "monotone"}
    keys.press("Tab")
    assert visit.text(":focus") == "The proof, in words"
    assert visit.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    keys.press("Enter")
    assert visit.tab.is_visible("#certificate")
    keys.press("Tab")
    keys.press("ArrowRight")
    assert visit.query()["measure"] == "disagreement"


def test_the_numbers_of_a_plot_are_available_as_a_table(small: Visit) -> None:
    small.tab.click("#gamma-figure summary")
    rows = small.text("#gamma-figure tbody").splitlines()
    assert len(rows) == 6
    assert float(rows[5].split("\t")[1]) == pytest.approx(_api(small.server, "K=5&m=2&epsilon=0.1")["gamma"][5], 1e-5)


# ---------------------------------------------------------------------------- votes among more classes

CLASS_QUERY = {
    "classes_K": "5",
    "classes_classes": "3",
    "classes_total_epsilon": "1",
    "classes_total_delta": "1e-3",
    "classes_prior": "favoured(0.5,0.9)",
    "classes_price": "1",
}


def ask_classes(visit: Visit, **given: str) -> None:
    if not visit.tab.is_visible("#classes-form"):
        visit.tab.click("#classes-tab")
    visit.tab.locator("#classes-form .advanced").evaluate("(fold) => { fold.open = true }")
    for name, value in (CLASS_QUERY | given).items():
        visit.tab.fill(f"#{name}", value)
    visit.tab.click("#classes-form button")


def test_every_option_among_classes_is_shown_as_by_the_api(visit: Visit) -> None:
    visit.go()
    ask_classes(visit)
    visit.tab.wait_for_selector("#classes-answer table")
    query = "K=5&classes=3&total_epsilon=1&total_delta=1e-3&prior=favoured(0.5,0.9)&price=1"
    options = fetch(f"{visit.server}/v1/plurality/options?{query}")["options"]
    rows = [row.locator("td").all_inner_texts() for row in visit.tab.locator("#classes-answer tbody tr").all()]
    assert [float(row[4]) for row in rows] == [pytest.approx(option["utility"], abs=1e-4) for option in options]
    for row, option in zip(rows, options, strict=True):
        shares = [float(cell.removesuffix(" %")) / 100 for cell in row[1:4]]
        assert shares == [pytest.approx(option[name], abs=6e-4) for name in ("right", "wrong", "abstained")]
    tiles = visit.text("#classes-answer dl")
    assert "optimal table" in tiles
    assert "no table of the same ε and δ" in tiles
    assert visit.query() == {"K": "11", "m": "3", "epsilon": "0.1", "tab": "classes"} | CLASS_QUERY
    shown = visit.text("#classes-answer")
    visit.tab.reload()  # the URL contains everything
    visit.tab.wait_for_selector("#classes-answer table")
    assert visit.text("#classes-answer") == shown
    assert visit.tab.input_value("#classes_prior") == "favoured(0.5,0.9)"


def test_more_classes_than_a_table_allows_are_estimated(visit: Visit) -> None:
    visit.go("?tab=classes&classes_K=60&classes_classes=12&classes_total_epsilon=2")
    visit.tab.wait_for_selector("#classes-answer table")
    assert "estimated from 2,000 queries" in visit.text("#classes-answer")
    assert "too many vote counts for a table" in visit.text("#classes-answer dl")


def test_the_page_never_scrolls_horizontally(visit: Visit) -> None:
    visit.tab.set_viewport_size({"width": 320, "height": 800})
    visit.go("?K=35&m=8&epsilon=0.1&Delta=1e-5")
    visit.wait_for_curves()
    for details in visit.tab.locator("details").all():
        details.evaluate("(element) => { element.open = true }")
    for width in (320, 390, 768, 1024, 1600):
        visit.tab.set_viewport_size({"width": width, "height": 800})
        assert visit.tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrasts_meet_wcag(paper: Visit, scheme: str) -> None:
    visit = paper
    visit.tab.emulate_media(color_scheme=scheme)

    def colour(name: str) -> str:
        styles = "getComputedStyle(document.documentElement)"
        return str(visit.tab.evaluate(f"{styles}.getPropertyValue('--{name}').trim()"))

    for ground in ("paper", "ground"):  # axe checks texts
        assert _contrast(colour("edge"), colour(ground)) >= 3, ground
    curves = "optimal optimal_sequence double_subsampling subsampling randomized_response majority other"
    for name in curves.split():
        assert _contrast(colour(f"curve-{name}"), colour("paper")) >= 3, name
    visit.tab.emulate_media(color_scheme="light")


def _contrast(one: str, other: str) -> float:
    """Return the contrast of two colours written #rrggbb (WCAG 2.2)."""

    def light(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_plots_follow_the_colour_scheme(visit: Visit) -> None:
    visit.go()
    visit.wait_for_curves()
    shown = "getComputedStyle(document.querySelector('#gamma-figure .series.own .line')).stroke"
    light = visit.tab.evaluate(shown)
    visit.tab.emulate_media(color_scheme="dark")
    visit.until(lambda: visit.tab.evaluate(shown) != light)


def test_values_under_the_pointer_are_shown(small: Visit) -> None:
    box = small.tab.locator("#gamma-figure .plot").bounding_box()
    small.tab.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60)
    small.tab.wait_for_selector("#gamma-figure .reading:not([hidden])")
    said = small.text("#gamma-figure .reading").splitlines()
    gamma = _api(small.server, "K=5&m=2&epsilon=0.1")["gamma"]
    assert said[0] == "5"
    assert float(said[1].removeprefix("optimal γ (this design): ")) == pytest.approx(gamma[5], rel=1e-4)
    small.tab.mouse.move(1, 1)
    small.tab.wait_for_selector("#gamma-figure .reading", state="hidden")


def test_on_a_slow_connection_the_answer_is_shown_soon(visiting: Visiting) -> None:
    visit = visiting(viewport={"width": 1280, "height": 900})
    bytes_of: list[int] = []
    visit.tab.on("response", lambda answer: bytes_of.append(len(answer.body())))
    line = visit.tab.context.new_cdp_session(visit.tab)
    line.send("Network.enable")
    slow = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
    line.send("Network.emulateNetworkConditions", slow)  # 400 kbit/s
    visit.go()
    visit.wait_for_curves()  # no further requests for the plots
    assert sum(bytes_of) < 290_000


def test_the_button_is_initially_in_view(visit: Visit) -> None:
    visit.go()
    for width, height in [(1280, 720), (1280, 900), (1366, 768), (1536, 864)]:
        visit.tab.set_viewport_size({"width": width, "height": height})
        for place in (0, 300):  # the form uses the space below the header
            visit.tab.evaluate(f"scrollTo(0, {place})")
            visit.tab.wait_for_timeout(100)
            box = visit.tab.locator("button.main").bounding_box()
            assert 0 <= box["y"] <= height - box["height"]


def test_the_button_covers_no_field(visit: Visit) -> None:
    visit.go()
    top = "([x, y, of]) => document.elementFromPoint(x, y)?.matches(of)"
    for (width, height), fields in {
        (1280, 900): ["#shape", "#objective"],
        (390, 844): ["#epsilon"],
        (768, 1024): ["#kind"],
    }.items():
        visit.tab.set_viewport_size({"width": width, "height": height})
        visit.tab.evaluate("scrollTo(0, 0)")
        visit.tab.wait_for_timeout(100)
        for field in fields:
            box = visit.tab.locator(field).last.bounding_box()
            assert box["y"] + box["height"] <= height  # initially in view
            for y in (box["y"] + 3, box["y"] + box["height"] - 3):
                assert visit.tab.evaluate(top, [box["x"] + 5, y, field])
        for legend in visit.tab.locator("#problem legend").all():  # nor a heading, at any scroll position
            legend.scroll_into_view_if_needed()
            box = legend.bounding_box()
            assert visit.tab.evaluate(top, [box["x"] + 5, box["y"] + box["height"] / 2, "legend, legend *"])


def test_a_click_that_leaves_a_corrected_field_is_not_lost(visiting: Visiting) -> None:
    visit = visiting(viewport={"width": 390, "height": 844})
    visit.go()
    visit.tab.evaluate(
        "addEventListener('click', ({ target }) => (globalThis.clicked = target.name ?? target.tagName))"
    )
    visit.tab.fill("#K", "0")
    visit.tab.press("#K", "Enter")
    visit.tab.wait_for_selector("#K-error:not([hidden])")
    visit.wait()
    visit.tab.keyboard.press("Backspace")
    visit.tab.keyboard.type("7")
    # the last radio button is below the error, whose line disappears when the field is corrected
    visit.tab.evaluate("document.querySelector('input[value=target_epsilon]').scrollIntoView({ block: 'center' })")
    box = visit.tab.locator("input[value=target_epsilon]").bounding_box()
    visit.tab.mouse.move(box["x"] + 5, box["y"] + box["height"] - 3)
    visit.tab.mouse.down()
    visit.tab.wait_for_timeout(400)  # time for an answer to move the page
    visit.tab.mouse.up()
    visit.tab.wait_for_selector("#headline:has-text('7 voters')")
    assert visit.tab.evaluate("globalThis.clicked") == "target"
    assert visit.tab.is_checked("input[value=target_epsilon]")
    assert not visit.tab.is_visible("#K-error")
    visit.expect_refusal()


@pytest.fixture(scope="module")
def sheet(browser: Any, server: str) -> Iterator[Visit]:
    """A tab with the width of A4 within its margins, without a print dialogue."""
    context = browser.new_context(viewport={"width": 720, "height": 1000})
    visit = Visit.open(context, server)
    visit.tab.add_init_script("window.print = () => {}")
    yield visit
    context.close()
    assert visit.complaints == []


def test_the_print_is_black_on_white_and_complete(sheet: Visit) -> None:
    visit = sheet
    visit.go("?K=35&m=8&epsilon=0.1&Delta=1e-5")
    visit.wait_for_curves()
    for scheme in ("light", "dark"):
        visit.tab.emulate_media(media="print", color_scheme=scheme)
        white = "getComputedStyle(document.documentElement).backgroundColor"
        assert visit.tab.evaluate(white) == "rgb(255, 255, 255)"
        assert visit.tab.evaluate("document.documentElement.scrollWidth") <= 720
        cut = visit.tab.evaluate(
            """[...document.querySelectorAll('.scroll, pre, .plot, main')].filter((box) => box.checkVisibility() &&
                 (box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1)).map((box) => box.id || box.className)"""
        )
        assert cut == []
        assert visit.tab.locator("button:visible, input:visible").count() == 0
        assert len(visit.text("#table tbody").splitlines()) == 36


def printed_statement(sheet: Visit, query: str, tab: str, path: Path) -> str:
    """Return the text of the statement of a tab, of one page."""
    sheet.tab.emulate_media(media="null")
    sheet.tab.goto(f"{sheet.server}/{query}")
    if tab == "design":
        sheet.wait()
        sheet.wait_for_curves()
    sheet.tab.click(f"#{tab}-statement")  # when it is shown
    sheet.tab.wait_for_selector("body.statement")
    sheet.tab.emulate_media(media="print")
    text = sheet.text("body" if tab == "design" else "#statement")  # it disappears after printing
    pages = sheet.tab.pdf(path=str(path / "statement.pdf"), format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pages)) == 1
    return text


@pytest.mark.parametrize(
    "query",
    ["K=4&m=1.5&epsilon=0.1&Delta=1e-5&delta=2e-3", "K=3&epsilon=inf&target_epsilon=2", PROFILE_QUERY, TARGETS_QUERY],
)
def test_a_statement_is_one_sheet_with_its_date_version_link_and_hash(sheet: Visit, tmp_path: Path, query: str) -> None:
    began = datetime.now(UTC)
    text = printed_statement(sheet, f"?{query}", "design", tmp_path)
    content = _api(sheet.server, query)
    filed = statement_of_record(content).fields["design_hash"]
    for said in ("-DP", " voters", f"darrm-opt {content['certificate']['version']}", sheet.tab.url, filed):
        assert said in text
    assert any(f"{day:%Y-%m-%d}" in text for day in (began, datetime.now(UTC)))
    assert "Comparison" not in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "?tab=cost&cost_mechanism=gnmax&cost_K=250&cost_classes=10&cost_queries=286&cost_parameter=40&cost_delta=1e-5",
            ("(1.944, 10⁻⁵)-DP of 286 releases together", "gnmax, σ = 40", '"queries":286', "ρ = 0.1788"),
        ),
        ("?tab=classes", ("(2, 10⁻⁶)-DP of 1 release", "optimal table", '"prior":"beta(8,2)"')),
        ("?tab=groups", ("0.6-DP of one released class", "6 with ε = 0.1; 5 with ε = 0.5", "Id of the design")),
        (
            f"{PLAN}&ask_plan_groups=K%3D3%2Cepsilon%3D0.1%3BK%3D2%2Cepsilon%3D0.5&ask_plan_total_epsilon=1",
            ("1-DP",),
        ),
        (  # equal voters
            f"{PLAN}&ask_plan_groups=K%3D5%2Cepsilon%3D0.1&ask_plan_total_epsilon=0.3&ask_plan_fresh=true",
            ("0.3-DP of 2 releases together, each", "at most 5 of 5 voters, each 0.1-DP", "they are fresh"),
        ),
    ],
)
def test_every_tab_prints_a_statement(sheet: Visit, tmp_path: Path, query: str, said: tuple[str, ...]) -> None:
    tab = parse_qs(query[1:])["tab"][0].replace("questions", "ask_plan")
    began = datetime.now(UTC)
    text = printed_statement(sheet, query, tab, tmp_path)
    for part in (*said, f"darrm-opt {__version__}", "sha256:", sheet.tab.url, "one record"):
        assert part in text
    assert any(f"{day:%Y-%m-%d}" in text for day in (began, datetime.now(UTC)))


def test_a_dropped_file_is_verified_and_another_claim_audited(visit: Visit, tmp_path: Path) -> None:
    solution = solve(Problem.from_allowance(K=5, m=2, epsilon=0.1))
    file = tmp_path / "solution.json"
    solution.save(file)
    visit.tab.goto(f"{visit.server}/?tab=verify")
    visit.tab.locator("#verify-drop").evaluate(
        "(drop, text) => { const data = new DataTransfer(); data.items.add(new File([text], 'solution.json'));"
        " drop.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true })); }",
        file.read_text(encoding="utf-8"),
    )
    visit.tab.wait_for_selector("#verify-verdict:has-text('Proved.')")
    assert "solution.json: The release is 0.2-DP" in visit.text("#verify-answer")
    visit.tab.fill("#verify_target_epsilon", "0.15")
    visit.tab.click("#verify-form button")
    visit.tab.wait_for_selector("#verify-verdict:has-text('Refuted.')")
    with pytest.raises(NotPrivate) as refutation:
        verify(Problem(5, Privacy(0.1), Privacy(0.15)), solution.noise)
    said = visit.text("#verify-answer")
    corners = refutation.value.worst
    assert all(f"{voters} " in said for voters in corners.values() if voters)
    assert "0.15-DP" in said
    assert not visit.tab.is_visible("#verify-statement")  # a refuted γ has no claim
    visit.expect_refusal()


UNREADABLE = [
    ("table.json", '{"table": []}', "The file contains no γ."),
    ("cut.json", '{"gamma": [1, 0', "it may be cut off"),
    ("words.txt", "hello", "The file contains no γ"),
    (
        "several.json",  # only the first would be a weaker claim
        json.dumps({"gamma": [1, 0.2, 0.2, 1], "problem": {"K": 3, "targets": [[0.1, 0.01], [0.2, 0.0]]}}),
        "darrm verify FILE proves them all",
    ),
    ("gamma.csv", "l,gamma\n0,1\n1,0.2\n2,0.2\n3,1\n", "says nothing of privacy"),
]


def test_files_whose_claim_cannot_be_read_are_refused(visit: Visit, tmp_path: Path) -> None:
    visit.tab.goto(f"{visit.server}/?tab=verify")
    for name, content, said in UNREADABLE:
        file = tmp_path / name
        file.write_text(content, encoding="utf-8")
        visit.tab.set_input_files("#verify-file", str(file))
        visit.tab.wait_for_selector(f"#verify-status:has-text('{said}')")
        assert visit.tab.input_value("#verify_gamma") == ("1, 0.2, 0.2, 1" if name == "gamma.csv" else "")


COST = "?tab=cost&cost_mechanism=gnmax&cost_K=11&cost_queries=20&cost_parameter=20&cost_delta=1e-5"


def test_the_second_tab_shows_totals(visit: Visit) -> None:
    visit.tab.goto(f"{visit.server}/{COST}")
    visit.tab.wait_for_selector("#cost-queries-figure .series .line", state="attached")
    expected = mechanism_class("gnmax").of(11, 2, 20.0).cost(20, 1e-5)
    assert f"{expected.epsilon:.3f}"[:4] in visit.text("#cost-figures")
    assert expected.account in visit.text("#cost-figures")
    assert not visit.tab.is_visible("#problem")
    assert visit.tab.get_attribute("#cost-tab", "aria-current") == "page"
    for name, text in {"parameter": "", "delta": "", "total_epsilon": "1", "total_delta": "1e-5"}.items():
        visit.tab.fill(f"#cost_{name}", text)
    visit.tab.click("#cost-form button")
    sigma = mechanism_class("gnmax").calibrated(11, 2, Privacy(1.0, 1e-5), 20).value
    visit.until(lambda: f"{sigma:.6g}"[:6] in visit.text("#cost-figures"))
    assert visit.query()["cost_total_epsilon"] == "1"
    visit.tab.click("#design-tab")
    visit.wait_for_curves()
    assert visit.tab.is_visible("#problem")
    assert not visit.tab.is_visible("#cost-panel")


def test_totals_of_sampled_queries_take_the_scheme(visit: Visit) -> None:
    scale = "?tab=cost&cost_mechanism=laplace&cost_K=5&cost_queries=20&cost_parameter=2&cost_delta=1e-5"
    visit.tab.goto(f"{visit.server}/{scale}&cost_records=500&cost_sample=20&cost_sampling=without-replacement")
    sampling = Sampling(500, 20, scheme="without-replacement")
    epsilon = mechanism_class("laplace").of(5, 2, 2.0).cost(20, 1e-5, sampling).epsilon
    visit.until(lambda: f"{epsilon:.4f}"[:5] in visit.text("#cost-figures"))
    assert visit.query()["cost_sampling"] == "without-replacement"


def test_each_tab_starts_with_an_example_and_shows_only_its_question(visit: Visit) -> None:
    visit.go()
    shown = {"classes": "#classes-answer table", "groups": "#group-figure", "cost": "#cost-figures dt"}
    shown["design"] = "#headline"
    for tab, answer in shown.items():
        visit.tab.click(f"#{tab}-tab")
        visit.tab.wait_for_selector(answer)
        assert [other for other in shown.values() if visit.tab.is_visible(other)] == [answer]
        assert visit.tab.locator(".tabs [aria-current=page]").get_attribute("id") == f"{tab}-tab"
        assert visit.query().get("tab", "design") == tab


def test_nothing_is_fetched_from_other_sites(visiting: Visiting) -> None:
    visit = visiting()
    asked: list[str] = []
    visit.tab.on("request", lambda request: asked.append(request.url))
    visit.go()
    visit.wait_for_curves()
    assert asked
    assert all(url.startswith(visit.server) for url in asked)


def test_a_busy_server_is_requested_again(visiting: Visiting) -> None:
    visit = visiting()
    answers = iter([(429, "1"), (503, "2")])

    def busy(route: Any) -> None:
        refused = next(answers, None)
        if refused is None:
            route.continue_()
        else:
            status, wait = refused
            route.fulfill(status=status, headers={"Retry-After": wait}, content_type="application/json", body="{}")

    visit.tab.route("**/v1/gamma?*", busy)
    visit.tab.clock.install()
    visit.tab.goto(visit.server)
    for seconds in (1, 2):
        visit.tab.wait_for_selector(f"#waiting:has-text('The server is busy; trying again in {seconds} s')")
        visit.tab.clock.run_for(1000 * seconds)
    visit.tab.wait_for_selector("#headline:has-text('0.3-DP')")
    assert not visit.tab.is_visible("#waiting")
    visit.expect_refusal(429)
    visit.expect_refusal(503)


def test_an_unreachable_server_is_reported(visiting: Visiting) -> None:
    visit = visiting()
    visit.go()
    visit.tab.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    visit.tab.clock.install()
    visit.tab.fill("#K", "8")
    visit.tab.press("#K", "Enter")
    visit.tab.wait_for_selector("#waiting:has-text('cannot be reached; trying again')")
    for _ in range(8):
        visit.tab.clock.run_for(10_000)
        visit.tab.wait_for_timeout(20)
    visit.tab.wait_for_selector("#trouble:has-text('The server cannot be reached')")
    assert "11 voters" in visit.text("#headline")  # the previous answer remains, faded
    visit.tab.unroute("**/v1/**")
    visit.tab.click("#trouble button")
    visit.tab.wait_for_selector("#headline:has-text('8 voters')")
    visit.complaints = [told for told in visit.complaints if "ERR_CONNECTION_REFUSED" not in told]


# ------------------------------------------------------------------------------------- long solves, keys, comparisons


@pytest.fixture(scope="module")
def impatient() -> Iterator[str]:
    """Serve without waiting for solves: each is a job."""
    with serve(wait_seconds=0, max_voters=1001) as url:
        yield url


@pytest.mark.parametrize("events", ["through", "lost"])
def test_a_long_solve_is_followed(visiting: Visiting, impatient: str, events: str) -> None:
    visit = visiting(impatient)
    asked: list[str] = []
    visit.tab.on("request", lambda request: asked.append(urlsplit(request.url).path))
    if events == "lost":
        visit.tab.route("**/events", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=""))
    K = 21 if events == "lost" else 23
    visit.go(f"?K={K}&m=4&epsilon=0.1&Delta=1e-5")
    visit.tab.wait_for_selector(f"#headline:has-text('{K} voters')")
    (identity,) = {path.split("/")[3] for path in asked if path.startswith("/v1/jobs/")}
    assert identity == _api(impatient, f"K={K}&m=4&epsilon=0.1&Delta=1e-5")["id"]
    assert not visit.tab.is_visible("#waiting")


def test_a_long_solve_is_cancelled(visiting: Visiting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.gamma_of_few_voters)
    with serve(wait_seconds=0, max_voters=1001) as url:
        visit = visiting(url)
        visit.tab.route("**/v1/estimate*", lambda route: route.fulfill(json={"seconds": 0.01}))
        visit.tab.goto(f"{visit.server}/?K=901&m=40&epsilon=0.05&Delta=1e-3")
        visit.tab.wait_for_selector("#waiting:has-text('About 0.01 s were expected: this one takes longer.')")
        visit.tab.click("#cancel")
        visit.tab.wait_for_selector("#status:has-text('Cancelled')")
        (job,) = fetch(f"{visit.server}/v1/jobs?state=cancelled")["jobs"]
        assert job["problem"]["K"] == 901
        visit.fill("K", "5")  # the page still works
        visit.tab.wait_for_selector("#headline:has-text('5 voters')")


def test_a_long_solve_is_stopped_with_its_best_answer(visiting: Visiting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.gamma_with_incumbent)
    with serve(wait_seconds=0) as url:
        visit = visiting(url)
        visit.tab.goto(f"{visit.server}/?{PAPER_QUERY}")
        visit.tab.wait_for_selector("#cancel:has-text('Stop, and keep the γ')")
        visit.tab.click("#cancel")
        visit.tab.wait_for_selector("#headline:has-text('11 voters')")
        visit.wait()
        assert not visit.tab.is_visible("#trouble")
        assert visit.text("#status").startswith("Done: the best γ so far keeps")
        ids = [job["id"] for job in fetch(f"{visit.server}/v1/jobs?state=done")["jobs"] if job["kind"] == "gamma"]
        kept = fetch(f"{visit.server}/v1/jobs/{ids[0]}/result")
        assert kept["status"] == "interrupted"
        cells = [row.split("\t") for row in visit.text("#table tbody").splitlines()]
        assert [float(row[1]) for row in cells] == kept["gamma"]


def test_a_key_is_prompted_for_and_an_invalid_one_reported(visiting: Visiting, tmp_path: Path) -> None:
    _, text = keys.create_key(tmp_path / "keys", "page")
    wrong = {"darrm_wrong": "does not accept this key", "kéy": "This is no key", "two words": "This is no key"}
    with serve(keys=tmp_path / "keys") as url:
        visit = visiting(url)
        visit.tab.goto(visit.server)
        visit.tab.wait_for_selector("#key-form")
        assert not visit.tab.is_visible("#key-error")
        for key, said in wrong.items():
            visit.tab.fill("#key", key)
            visit.tab.press("#key", "Enter")
            visit.tab.wait_for_selector(f"#key-error:has-text('{said}')")
            assert visit.tab.evaluate("document.activeElement.id") == "key"
            assert visit.tab.get_attribute("#key", "aria-invalid") == "true"
        visit.tab.fill("#key", f" {text} ")  # with blanks, as from a clipboard
        visit.tab.press("#key", "Enter")
        visit.tab.wait_for_selector("#headline:has-text('0.3-DP')")
        assert not visit.tab.is_visible("#key-form")
        assert text not in visit.tab.url
        visit.expect_refusal(401)


def test_a_key_without_permission_can_be_replaced(visiting: Visiting, tmp_path: Path) -> None:
    _, reader = keys.create_key(tmp_path / "keys", "dashboard", role="reader")
    _, user = keys.create_key(tmp_path / "keys", "page")
    with serve(keys=tmp_path / "keys") as url:
        visit = visiting(url)
        visit.tab.goto(visit.server)
        visit.tab.fill("#key", reader)
        visit.tab.press("#key", "Enter")
        visit.tab.wait_for_selector("#trouble:has-text('reader')")
        visit.tab.click("#trouble button:has-text('Use another key')")
        visit.tab.fill("#key", user)
        visit.tab.press("#key", "Enter")
        visit.tab.wait_for_selector("#headline:has-text('0.3-DP')")
        assert not visit.tab.is_visible("#trouble")
        for status in (401, 404):
            visit.expect_refusal(status)


def test_a_loading_page_shows_it(visiting: Visiting, server: str) -> None:
    visit = visiting(server)
    held: list[Any] = []
    visit.tab.route("**/page/main.js", lambda route: held.insert(0, route))  # the connection is slow
    visit.tab.goto(server, wait_until="commit")
    visit.tab.wait_for_selector("#status:has-text('The page loads')")
    held[0].continue_()
    visit.tab.wait_for_selector("#headline:has-text('0.3-DP')")
    assert visit.text("#status").startswith("Done:")


def test_a_tradeoff_is_plotted_and_links_to_its_designs(visit: Visit) -> None:
    visit.go("?K=5&m=2&epsilon=0.1")
    visit.tab.wait_for_selector("#utility-figure .series .line", state="attached")
    assert len(drawn_heights(visit, "#utility-figure", "optimal")) == 3
    visit.tab.click("#utility-figure summary")
    rows = [row.split("\t") for row in visit.text("#utility-figure tbody").splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert float(rows[1][1]) == pytest.approx(_api(visit.server, "K=5&m=2&epsilon=0.1")["utility"], abs=1e-6)
    visit.tab.click("#utility-figure tbody a:has-text('3')")
    visit.tab.wait_for_selector("#headline:has-text('100 %')")
    assert visit.query()["m"] == "3"


def test_mechanisms_are_compared_at_equal_total_privacy(visit: Visit) -> None:
    visit.go("?K=5&m=2&epsilon=0.3&Delta=1e-4")
    visit.tab.fill("#budget_queries", "5")
    visit.tab.fill("#budget_total_epsilon", "1")
    visit.tab.fill("#budget_total_delta", "1e-2")
    visit.tab.press("#budget_total_delta", "Enter")
    visit.tab.wait_for_selector("#budget-answer table")
    names = [row.split("\t")[0].strip() for row in visit.text("#budget-answer tbody").splitlines()]
    assert {"optimal γ of all releases at once", "gnmax", "laplace", "plain majority"} <= set(names)
    assert names.index("optimal γ of all releases at once") < names.index("gnmax") < names.index("plain majority")
    stated = {"budget_queries": "5", "budget_total_epsilon": "1", "budget_total_delta": "1e-2"}
    assert stated.items() <= visit.query().items()
    visit.tab.reload()
    visit.tab.wait_for_selector("#budget-answer table")  # a link to a comparison shows it


def test_voters_trained_on_subsamples_are_compared(visit: Visit) -> None:
    visit.go("?K=5&target_epsilon=1&epsilon=inf&delta=1e-3")
    for name, text in {"queries": "4", "total_epsilon": "2", "n": "200", "subsample_size": "10"}.items():
        visit.tab.fill(f"#budget_{name}", text)
    visit.tab.press("#budget_subsample_size", "Enter")
    visit.tab.wait_for_selector("#budget-answer table")
    assert "One record reaches 0.244 voters on average." in visit.text("#budget-answer")
    assert {"budget_n": "200", "budget_subsample_size": "10"}.items() <= visit.query().items()
    visit.tab.fill("#budget_subsample_size", "")
    visit.tab.press("#budget_n", "Enter")
    visit.tab.wait_for_selector("#budget_subsample_size-error:not([hidden])")
    assert "subsample_size is missing" in visit.text("#budget_subsample_size-error")
    visit.expect_refusal()


def test_the_advice_is_for_the_budget_of_the_page(visit: Visit) -> None:
    visit.go("?K=5&m=1&epsilon=0.3&affected=1")
    visit.tab.fill("#budget_queries", "1000")
    visit.tab.fill("#budget_total_epsilon", "0.5")
    visit.tab.click("#advice-ask")
    visit.tab.wait_for_selector("#advice-answer table")
    assert visit.text("#advice-answer .headline").startswith("You do not need this mechanism")
    assert visit.text("#advice-answer tbody").split("\t")[:3] == ["plain majority", "100 %", "no limit"]
    visit.tab.fill("#budget_total_epsilon", "0.2")  # advice for another budget disappears
    assert visit.text("#advice-answer") == ""


def test_with_solving_off_the_nearest_answer_is_labelled(visiting: Visiting, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 'kept.sqlite3'}"
    with serve(cache_url=place, wait_seconds=50) as url:
        assert _api(url, "K=5&m=2&epsilon=0.1")["gamma"]  # and there is no running job
    with serve(cache_url=place, solve="off") as url:
        visit = visiting(url)
        visit.go("?K=5&m=2.5&epsilon=0.1")
        label = _api(visit.server, "K=5&m=2.5&epsilon=0.1")["nearest"]["label"]
        assert label in visit.text("#warnings")
        visit.fill("K", "7")
        assert "not stored" in visit.text("#trouble")
        visit.expect_refusal(404)


# ---------------------------------------------------------------------------- groups of private voters


def test_a_group_is_added_and_its_table_is_a_heat_map(visit: Visit) -> None:
    visit.go("?tab=groups")
    visit.tab.fill("#groups_target_epsilon", "0.6")
    visit.tab.click("#groups_groups .add")
    for name, value in {"K": "1", "epsilon": "inf"}.items():
        visit.tab.fill(f"#groups_groups .entry:last-child [name={name}]", value)
    visit.tab.click("#groups_groups .entry:first-child button")  # two groups remain
    visit.tab.click("#groups-form [type=submit]")
    visit.tab.wait_for_selector("#group-figure")
    assert visit.query()["groups_groups"] == "K=5,epsilon=0.5;K=1,epsilon=inf"
    asked = {"groups": [{"K": 5, "epsilon": 0.5}, {"K": 1, "epsilon": "inf"}], "target_epsilon": 0.6}
    told = visit.tab.request.post(f"{visit.server}/v1/table", data=asked).json()
    assert visit.tab.locator("#group-figure rect:not(.frame)").count() == 12
    assert "Chance that class 1 is released" in visit.text("#group-figure")  # classes are numbered from 0
    assert f"{told['corners']:,}" in visit.tab.inner_text("#groups-answer")
    visit.go("?tab=groups&groups_groups=K%3D3%2Cepsilon%3D0.5&groups_classes=3&groups_target_epsilon=1")
    visit.tab.wait_for_selector("#group-figure")
    assert visit.tab.locator("#group-figure g").count() == 10  # all vote counts of three voters among three classes
    corners = visit.tab.locator("#group-figure svg > text").all_text_contents()
    assert corners == ["all for class 0", "all for class 1", "all for class 2"]


def test_a_group_may_have_a_profile(visit: Visit) -> None:
    visit.go(
        "?tab=groups&groups_groups=K%3D2%2Cepsilon%3D0.1%3BK%3D3%2Cprofile%3D0%3A0.02%2C0.1%3A1e-3&groups_target_epsilon=0.4"
    )
    visit.tab.wait_for_selector("#group-figure")
    row = "#groups_groups .entry:last-child [name={}]"
    assert visit.tab.input_value(row.format("profile")) == "0:0.02,0.1:1e-3"
    asked = {"groups": [{"K": 2, "epsilon": 0.1}, {"K": 3, "profile": "0:0.02,0.1:1e-3"}], "target_epsilon": 0.4}
    told = visit.tab.request.post(f"{visit.server}/v1/table", data=asked).json()
    said = visit.tab.inner_text("#groups-answer")
    assert f"{told['corners']:,}" in said
    assert "3 with the profile 0:0.02,0.1:0.001" in said
    assert "--group K=3,profile=0:0.02,0.1:1e-3" in said
    visit.tab.fill(row.format("profile"), "0:2")
    visit.tab.click("#groups-form [type=submit]")
    visit.until(lambda: "groups[1].profile = 2" in visit.text("#groups_groups-error"))
    assert visit.tab.get_attribute(row.format("profile"), "aria-invalid") == "true"
    assert visit.query()["groups_groups"] == "K=2,epsilon=0.1;K=3,profile=0:2"
    visit.expect_refusal()
    visit.tab.fill(row.format("profile"), "gaussian(0.03)")
    visit.tab.click("#groups-form [type=submit]")
    visit.tab.wait_for_selector("#group-figure")
    assert not visit.tab.locator("#groups_groups [aria-invalid]").count()


def test_queries_to_groups_are_planned_within_one_total(visit: Visit) -> None:
    asked = {"queries": 4, "total_epsilon": 1, "total_delta": 1e-5, "fresh": True}
    link = "?tab=questions&question=plan" + "".join(
        f"&ask_plan_{name}={value}".lower() for name, value in asked.items()
    )
    visit.go(f"{link}&ask_plan_groups=K%3D2%2Cepsilon%3D0.1%3BK%3D1%2Cepsilon%3D0.5")
    visit.tab.wait_for_selector("#ask_plan-answer table")
    groups = [{"K": 2, "epsilon": 0.1}, {"K": 1, "epsilon": 0.5}]
    told = visit.tab.request.post(f"{visit.server}/v1/plan", data={"groups": groups, **asked}).json()
    rows = visit.tab.locator("#ask_plan-answer tbody tr")
    assert rows.count() == len(told["options"])
    assert f"{100 * told['options'][0]['right']:.1f} %" in rows.first.inner_text()
    assert "fresh" in visit.text("#ask_plan-answer")
    visit.tab.click("#ask_plan_groups .entry:last-of-type button")  # equal voters have the plan of a γ
    visit.tab.fill("#ask_plan_groups [name=epsilon]", "0.5")
    visit.tab.click("#ask_plan-form [type=submit]")
    visit.tab.wait_for_selector("#ask_plan-answer .headline:has-text('γ_opt of one target')")
    assert visit.query()["ask_plan_groups"] == "K=2,epsilon=0.5"
    assert "darrm plan --group K=2,epsilon=0.5" in visit.text("#ask_plan-answer pre")


def test_commands_in_a_plan_are_formatted_as_code(visit: Visit) -> None:
    problem = {"K": 5, "epsilon": 0.1, "queries": 501, "total_epsilon": 1, "fresh": "true"}
    visit.go("?tab=questions&question=plan" + "".join(f"&ask_plan_{name}={value}" for name, value in problem.items()))
    visit.tab.wait_for_selector("#ask_plan-answer .warnings")
    assert visit.text("#ask_plan-answer .warnings code") == "darrm cost"
    assert "`" not in visit.text("#ask_plan-answer .warnings")


def test_every_question_is_asked_in_a_form(visit: Visit) -> None:
    visit.go("?tab=questions&question=compose")
    visit.tab.wait_for_selector("#ask_compose-answer dl")
    assert visit.tab.input_value("#ask_compose_epsilon") == "0.3"  # an example if nothing is asked
    visit.tab.fill("#ask_compose_queries", "7")
    visit.tab.click("#ask_compose-form [type=submit]")
    told = visit.tab.request.post(
        f"{visit.server}/v1/compose", data={"epsilon": 0.3, "delta": 1e-5, "queries": 7, "slack": 1e-4}
    ).json()
    visit.until(lambda: json.loads(visit.tab.text_content("#ask_compose-answer pre") or "{}") == told)
    assert visit.query()["ask_compose_queries"] == "7"
    visit.tab.fill("#ask_compose_gamma", "1, 2 x")
    visit.tab.press("#ask_compose_gamma", "Enter")
    visit.until(lambda: visit.tab.get_attribute("#ask_compose_gamma", "aria-invalid") == "true")
    visit.expect_refusal()
    visit.tab.select_option("#question", "calibrate")
    visit.tab.wait_for_selector("#ask_calibrate-answer dl")
    assert not visit.tab.is_visible("#ask_compose-form")
    assert visit.query()["question"] == "calibrate"
    for width in (320, 390, 768, 1024, 1600):
        visit.tab.set_viewport_size({"width": width, "height": 800})
        assert visit.tab.evaluate("document.documentElement.scrollWidth") <= width


def test_an_answer_without_its_own_presentation_shows_curves_and_numbers(visit: Visit) -> None:
    asked = {"K": 5, "m": 1, "epsilon": 0.1, "points": 5}
    visit.go("?tab=questions&question=error-curve" + "".join(f"&ask_error_curve_{n}={v}" for n, v in asked.items()))
    answer = "#ask_error_curve-answer"
    visit.tab.wait_for_selector(f"{answer} .series .line", state="attached")
    told = visit.tab.request.post(f"{visit.server}/v1/error-curve", data=asked).json()
    titles = visit.tab.locator(f"{answer} figcaption").all_inner_texts()
    assert titles == ["Error in probability over p", "Disagreement over p"]
    assert visit.tab.locator(f"{answer} figure .series").count() == 2 * len(told["curves"])
    rows = visit.tab.locator(f"{answer} > div:not(.plots) tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == [str(ones) for ones in range(6)]  # γ(l)
    visit.go("?tab=questions&question=compose&ask_compose_epsilon=0.3&ask_compose_delta=1e-5&ask_compose_queries=10")
    visit.tab.wait_for_selector("#ask_compose-answer table")
    assert "simple" in visit.text("#ask_compose-answer tbody tr:first-child")


def test_each_mechanism_shows_its_own_parameter_in_a_column(visit: Visit) -> None:
    visit.go("?tab=classes&classes_K=5&classes_classes=3&classes_total_epsilon=2&classes_total_delta=1e-6")
    visit.tab.wait_for_selector("#classes-answer table")
    cells = visit.tab.locator("#classes-answer tbody td:last-child").all_inner_texts()
    assert "ε each" in cells[0]
    assert all("each" not in cell for cell in cells[1:])
    places = {visit.tab.locator("#classes-answer .chosen").nth(row).bounding_box()["x"] for row in range(len(cells))}
    assert len(places) == 1
