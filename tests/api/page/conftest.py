"""The browser of the page's tests."""

from __future__ import annotations

from support.browser import browser, server, visit, visiting, window

__all__ = ["browser", "server", "visit", "visiting", "window"]
