"""Page at / and its files. A browser may load these and nothing else."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request, Response

from api.middleware.response_cache import etag_matches

router = APIRouter(include_in_schema=False)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: nothing inline, nothing evaluated, nothing from elsewhere."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class PageFile(NamedTuple):
    """One file in its sent form.

    Attributes:
        content: its bytes.
        packed: the same, compressed; empty where that was not worth it.
        media_type: what it is.
        etag: names these very bytes.
    """

    content: bytes
    packed: bytes
    media_type: str
    etag: str


@router.api_route("/", methods=["GET", "HEAD"])
def get_page(request: Request) -> Response:
    """Return the page."""
    return _file_response(_file("index.html"), request)


@router.api_route("/llms.txt", methods=["GET", "HEAD"])
def get_map(request: Request) -> Response:
    """Return the map of the API and the documentation for language models."""
    return _file_response(_file("llms.txt"), request)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
def get_page_file(name: str, request: Request) -> Response:
    """Return one of the page's own files."""
    if name not in _names():
        raise HTTPException(404)
    return _file_response(_file(name), request)


def _file_response(file: PageFile, request: Request) -> Response:
    packed = bool(file.packed) and "gzip" in request.headers.get("accept-encoding", "")
    etag = f'"{file.etag}-gzip"' if packed else f'"{file.etag}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "no-cache",
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


def _page_file(content: bytes, kind: str) -> PageFile:
    packed = gzip.compress(content, mtime=0)
    worth = packed if len(packed) < len(content) else b""
    return PageFile(content, worth, TYPES[kind], hashlib.sha256(content).hexdigest()[:32])


@cache
def _names() -> frozenset[str]:
    """Return the names of the page's own files except the page itself, which has its own address."""
    found = {file.name for file in files("api").joinpath("page").iterdir() if Path(file.name).suffix in TYPES}
    return frozenset(found - {"index.html"})


@cache
def _file(name: str) -> PageFile:
    return _page_file(files("api").joinpath("page", name).read_bytes(), Path(name).suffix)
