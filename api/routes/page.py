"""Page at / and its files. A browser may load these and nothing else."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request, Response

from api.middleware.response_cache import etag_matches

router = APIRouter(include_in_schema=False)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: nothing inline, nothing evaluated, nothing from elsewhere. (With plotly 6, the
script tries out an image of its own as it starts, written as data.)"""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

REVALIDATE = "no-cache"
IMMUTABLE = "public, max-age=31536000, immutable"

_NO_PLOTS = '<meta name="darrm-plotly" content="">'


class PageFile(NamedTuple):
    """One file in its sent form.

    Attributes:
        content: its bytes.
        packed: the same, compressed; empty where that was not worth it.
        media_type: what it is.
        caching: how long a browser may keep it without asking.
        etag: names these very bytes.
    """

    content: bytes
    packed: bytes
    media_type: str
    caching: str
    etag: str


@router.api_route("/", methods=["GET", "HEAD"])
def get_page(request: Request) -> Response:
    """Return the page."""
    return _file_response(_file("index.html"), request)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
def get_page_file(name: str, request: Request) -> Response:
    """Return one of the page's own files, or Plotly's script from the installed package."""
    found = _plotly_script() if name.startswith("plotly-") else _file(name) if name in _names() else None
    if found is None or (name.startswith("plotly-") and name != _plotly_name(found)):
        raise HTTPException(404)
    return _file_response(found, request)


def _file_response(file: PageFile, request: Request) -> Response:
    packed = bool(file.packed) and "gzip" in request.headers.get("accept-encoding", "")
    etag = f'"{file.etag}-gzip"' if packed else f'"{file.etag}"'
    headers = {
        "ETag": etag,
        "Cache-Control": file.caching,
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }
    if etag_matches(request.headers.getlist("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.packed if packed else file.content, headers=headers, media_type=file.media_type)


def _page_file(content: bytes, kind: str, caching: str) -> PageFile:
    packed = gzip.compress(content, mtime=0)
    worth = packed if len(packed) < len(content) else b""
    return PageFile(content, worth, TYPES[kind], caching, hashlib.sha256(content).hexdigest()[:32])


@cache
def _names() -> frozenset[str]:
    """Return the names of the page's own files except the page itself, which has its own address."""
    found = {file.name for file in files("api").joinpath("page").iterdir() if Path(file.name).suffix in TYPES}
    return frozenset(found - {"index.html"})


@cache
def _file(name: str) -> PageFile:
    content = files("api").joinpath("page", name).read_bytes()
    plotly = _plotly_script() if name == "index.html" else None
    if plotly is not None:
        tag = _NO_PLOTS.replace('content=""', f'content="page/{_plotly_name(plotly)}"')
        content = content.replace(_NO_PLOTS.encode(), tag.encode())
    return _page_file(content, Path(name).suffix, REVALIDATE)


@cache
def _plotly_script() -> PageFile | None:
    """Return the script of the installed package plotly, which is not imported; None where there is none."""
    package = find_spec("plotly")
    if package is None or package.origin is None:
        return None
    script = Path(package.origin).parent / "package_data" / "plotly.min.js"
    return _page_file(script.read_bytes(), ".js", IMMUTABLE) if script.is_file() else None


def _plotly_name(script: PageFile) -> str:
    """Return the name of the script: other bytes have another name, so it may be cached indefinitely."""
    return f"plotly-{script.etag}.js"
