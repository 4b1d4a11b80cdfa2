"""Generated pages of the site, which git ignores."""

from __future__ import annotations

from tools import licences, openapi, reference

PAGES = {
    "reference/cli.md": reference.commands,
    "reference/rest.md": reference.routes,
    "reference/service.md": reference.service,
    "licences.md": licences.page,
    "openapi.json": openapi.openapi_text,
}
"""Pages by their path below docs/, with their generators."""
