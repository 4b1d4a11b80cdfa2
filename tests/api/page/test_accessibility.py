"""The page has no violations of axe-core: on every tab, with results and with errors, and in print."""

# ruff: noqa: F401, F811 — fixtures are imported by name

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser import VIEWPORT, Visit, browser, server, shared_tab, visit, visiting

pytestmark = pytest.mark.slow  # a browser starts, and axe takes a second per run


def designed(visit: Visit) -> None:
    visit.go("?K=5&m=2&epsilon=0.1&Delta=1e-5&budget_queries=5&budget_total_epsilon=1&budget_total_delta=1e-2")
    visit.wait_for_curves()
    visit.tab.wait_for_selector("#budget-answer table")
    visit.tab.click("#advice-ask")
    visit.tab.wait_for_selector("#advice-answer table")


def compared(visit: Visit) -> None:
    visit.go("?K=3&m=1&epsilon=0.4")
    visit.go("?K=5&m=2&epsilon=0.4")
    boxes = visit.tab.locator("#designs tr", has_text="m = ").locator("input[type=checkbox]")  # of γ
    for at in (0, 1):
        visit.until(lambda: boxes.count() >= 2)
        boxes.nth(at).check()
        visit.tab.wait_for_selector(f":nth-match(#designs input:checked, {at + 1})")
    visit.tab.wait_for_selector("#pair-numbers table")
    visit.tab.check("#forms input[value=python]")


def classes(visit: Visit) -> None:
    visit.go("?tab=classes")
    visit.tab.wait_for_selector("#classes-answer table")


def groups(visit: Visit) -> None:
    visit.go("?tab=groups")
    visit.tab.wait_for_selector("#group-figure")


def triangle(visit: Visit) -> None:
    visit.go("?tab=groups&groups_groups=K%3D3%2Cepsilon%3D0.5&groups_classes=3&groups_target_epsilon=1")
    visit.tab.wait_for_selector("#group-figure")


def planned_groups(visit: Visit) -> None:
    visit.go(
        "?tab=questions&question=plan&ask_plan_groups=K%3D2%2Cepsilon%3D0.1%3BK%3D1%2Cepsilon%3D0.5"
        "&ask_plan_queries=4&ask_plan_total_epsilon=1&ask_plan_fresh=true"
    )
    visit.tab.wait_for_selector("#ask_plan-answer table")


def cost(visit: Visit) -> None:
    visit.tab.goto(f"{visit.server}/?tab=cost")
    visit.tab.wait_for_selector("#cost-queries-figure .series .line", state="attached")


def refused(visit: Visit) -> None:
    visit.go("?K=5&m=2&epsilon=0.1")
    for name in ("designs_m", "K"):
        visit.tab.fill(f"#{name}", "-1")
        visit.tab.press(f"#{name}", "Enter")
        visit.tab.wait_for_selector(f"#{name}-error:visible")


def refused_elsewhere(tab: str, name: str, button: str) -> Callable[[Visit], None]:
    def go(visit: Visit) -> None:
        visit.tab.goto(f"{visit.server}/?tab={tab}")
        visit.tab.fill(f"#{name}", "-1")
        visit.tab.click(button)
        visit.tab.wait_for_selector(f"#{name}-error:visible")

    return go


def printed(visit: Visit) -> None:
    visit.tab.add_init_script("window.print = () => {}")
    visit.go("?K=5&m=2&epsilon=0.1")
    visit.tab.click("#design-statement")
    visit.tab.wait_for_selector("body.statement")
    visit.tab.emulate_media(media="print")


def profile(visit: Visit) -> None:
    visit.go("?K=5&target_epsilon=0.3&profile=0%3A0.013%2C0.1%3A1e-5")
    visit.tab.wait_for_selector("#region-figure .region", state="attached")


def verified(visit: Visit) -> None:
    visit.tab.goto(f"{visit.server}/?tab=verify")
    visit.tab.fill("#verify_gamma", "1 0.1 0.1 1")
    visit.tab.fill("#verify_epsilon", "0.5")
    visit.tab.fill("#verify_target_epsilon", "0.1")
    visit.tab.click("#verify-form button")
    visit.tab.wait_for_selector("#verify-verdict")
    visit.expect_refusal()


STATES = {
    "profile": profile,
    "designed": designed,
    "compared": compared,
    "classes": classes,
    "groups": groups,
    "triangle": triangle,
    "planned groups": planned_groups,
    "cost": cost,
    "refused": refused,
    "refused classes": refused_elsewhere("classes", "classes_K", "#classes-form button"),
    "refused groups": refused_elsewhere("groups", "groups_target_epsilon", "#groups-form [type=submit]"),
    "refused costs": refused_elsewhere("cost", "cost_delta", "#cost-form button"),
    "verified": verified,
    "printed": printed,
}


AXE = {"resultTypes": ["violations"]}
"""Report one node per passed rule: reporting all of them takes longer than checking."""


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    """Yield a window in which axe may run, which the policy of the page forbids."""
    context = browser.new_context(bypass_csp=True, reduced_motion="reduce", viewport=VIEWPORT)
    yield context
    context.close()


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(visit: Visit, state: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    STATES[state](visit)
    for details in visit.tab.locator("details").all():
        details.evaluate("(element) => { element.open = true }")
    found = {}
    for scheme, width in (("light", 1280), ("dark", 390)):
        visit.tab.emulate_media(color_scheme=scheme)
        visit.tab.set_viewport_size({"width": width, "height": 900})
        response = Axe().run(visit.tab, options=AXE).response
        assert len(response["passes"]) > 10
        for rule in response["violations"]:
            found[scheme, width, rule["id"]] = [(node["target"], node["failureSummary"]) for node in rule["nodes"]]
    assert found == {}
    visit.expect_refusal()
