"""A browser with the page: fixtures of the tests of the page."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from support.live import serving

from api.app import create_app
from api.settings import Settings

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
VIEWPORT = {"width": 1280, "height": 900}

PATIENT = 120_000  # timeout of the browser [ms]: long, since a busy machine is not a failure


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield the address of a server."""
    with serve(max_voters=61) as url:
        yield url


def serve(**settings: Any) -> AbstractContextManager[str]:
    """Serve with these settings, in memory by default; yield the address."""
    return serving(create_app(Settings(**{"cache_url": "memory", **settings})))


def fetch(url: str, **asked: Any) -> Any:
    """Return the answer to a GET, or to a POST of a body."""
    body = json.dumps(asked).encode() if asked else None
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 — our own server
    with urllib.request.urlopen(request) as answer:  # noqa: S310 — as above
        return json.load(answer)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a browser; skip if none is installed."""
    if shutil.which(CHROMIUM) is None and "CI" not in os.environ:
        pytest.skip(f"there is no browser at {CHROMIUM}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@dataclass
class Visit:
    """A tab and its errors."""

    tab: Any
    server: str
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, context: Any, server: str) -> Visit:
        """Return a new tab of a context, with its errors recorded."""
        visit = cls(context.new_page(), server)
        visit.tab.set_default_timeout(PATIENT)
        visit.tab.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.tab.on("console", lambda line: visit.complaints.append(line.text) if line.type == "error" else None)
        return visit

    def go(self, query: str = "") -> None:
        """Open the page."""
        self.tab.goto(f"{self.server}/{query}")
        self.wait()

    def wait(self) -> None:
        """Wait until the answer is shown."""
        self.tab.wait_for_selector("#answer:not([aria-busy])", state="attached")

    def wait_for_curves(self) -> None:
        """Wait until the plots are drawn."""
        self.tab.wait_for_selector("#error-figure .series .line", state="attached")

    def until(self, true: Callable[[], Any]) -> None:
        """Wait for a condition, outside the page, whose policy forbids evaluating strings."""
        for _ in range(PATIENT // 50):
            if true():
                return
            self.tab.wait_for_timeout(50)
        pytest.fail("it did not come about")

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.tab.inner_text(selector))

    def fill(self, name: str, value: str) -> None:
        """Fill in a field, and wait for the answer."""
        self.tab.fill(f"#{name}", value)
        self.tab.dispatch_event(f"#{name}", "change")
        self.tab.wait_for_timeout(50)
        self.wait()

    def expect_refusal(self, status: int = 422) -> None:
        """Discard the console message of the browser about a refused request."""
        self.complaints = [told for told in self.complaints if f"status of {status}" not in told]

    def query(self) -> dict[str, str]:
        """Return the query of the address of the page."""
        return {name: value for name, (value,) in parse_qs(urlsplit(self.tab.url).query).items()}


Visiting = Callable[..., Visit]


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    """Yield a window whose tabs share a cache."""
    context = browser.new_context(viewport=VIEWPORT)
    yield context
    context.close()


@pytest.fixture
def visiting(browser: Any, window: Any, server: str) -> Iterator[Visiting]:
    """Return a function that opens a tab; any error of the tab fails the test."""
    visits: list[Visit] = []

    def opened(url: str = server, **look: Any) -> Visit:
        visits.append(Visit.open(browser.new_context(**look) if look else window, url))
        return visits[-1]

    yield opened
    for visit in visits:
        if visit.tab.context is window:
            visit.tab.close()
        else:
            visit.tab.context.close()
    assert [complaint for visit in visits for complaint in visit.complaints] == []


@pytest.fixture(scope="module")
def shared_tab(window: Any, server: str) -> Iterator[Visit]:
    """A tab, for `visit`."""
    visit = Visit.open(window, server)
    yield visit
    visit.tab.close()


@pytest.fixture
def visit(shared_tab: Visit) -> Iterator[Visit]:
    """A shared tab, in which a test opens the page; a new tab takes twice as long.

    Additions to the tab itself remain (routes, clocks, handlers): a test that needs them opens a tab by `visiting`.
    """
    shared_tab.tab.bring_to_front()
    yield shared_tab
    shared_tab.tab.emulate_media(media="null", color_scheme="null")
    shared_tab.tab.set_viewport_size(VIEWPORT)
    complaints, shared_tab.complaints[:] = [*shared_tab.complaints], []
    assert complaints == []


@contextmanager
def _shared(window: Any, server: str, query: str = "") -> Iterator[Visit]:
    visit = Visit.open(window, server)
    visit.go(query)
    yield visit
    visit.tab.close()
    assert visit.complaints == []


@pytest.fixture(scope="module")
def shared_form(window: Any, server: str) -> Iterator[Visit]:
    """A tab with the page, for `form`."""
    with _shared(window, server) as visit:
        yield visit


@pytest.fixture
def form(shared_form: Visit) -> Visit:
    """A tab shared by the tests of invalid input, which leave it unchanged: loading the page takes longer."""
    # a background tab is drawn once a second, and a click waits for it.
    shared_form.tab.bring_to_front()
    return shared_form


@pytest.fixture(scope="module")
def paper(window: Any, server: str) -> Iterator[Visit]:
    """A read-only tab with the initial page."""
    with _shared(window, server) as visit:
        visit.wait_for_curves()
        yield visit


@pytest.fixture(scope="module")
def small(window: Any, server: str) -> Iterator[Visit]:
    """A read-only tab with five voters."""
    with _shared(window, server, "?K=5&m=2&epsilon=0.1") as visit:
        visit.wait_for_curves()
        yield visit
