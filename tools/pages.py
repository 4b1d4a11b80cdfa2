"""Pages of the site that are made when it is built: nobody edits them, and git does not keep them."""

from __future__ import annotations

from tools import licences, openapi, reference

PAGES = {
    "reference/cli.md": reference.commands,
    "reference/rest.md": reference.routes,
    "reference/service.md": reference.service,
    "licences.md": licences.page,
    "openapi.json": openapi.openapi_text,
}
"""Pages by their place below docs/, and what makes each."""
