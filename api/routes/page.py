"""Page at / and its files. A browser may load these and nothing else."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request, Response

from api.middleware.response_bodies import entity_tag, etag_matches
from darrm_opt.mechanisms import calibrated_names, mechanism_class

router = APIRouter(include_in_schema=False)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: nothing inline, nothing evaluated, nothing from elsewhere."""

MECHANISMS = "mechanisms.js"
"""The page's file that is made here: the parameter of each mechanism, by name, as the registry has them."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class PageFile(NamedTuple):
    """One file of the page."""

    content: bytes  # its bytes
    media_type: str  # what it is
    etag: str  # names these very bytes


# plain functions would be called in threads
@router.api_route("/", methods=["GET", "HEAD"])
async def get_page(request: Request) -> Response:
    """Return the page."""
    return _file_response(_file("index.html"), request)


@router.api_route("/llms.txt", methods=["GET", "HEAD"])
async def get_map(request: Request) -> Response:
    """Return the map of the API and the documentation for language models."""
    return _file_response(_file("llms.txt"), request)


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def get_page_file(name: str, request: Request) -> Response:
    """Return one of the page's own files."""
    if name not in _names():
        raise HTTPException(404)
    return _file_response(_file(name), request)


def _file_response(file: PageFile, request: Request) -> Response:
    headers = {
        "ETag": file.etag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    if etag_matches(request.headers.getlist("if-none-match"), file.etag):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


@cache
def _names() -> frozenset[str]:
    """Return the names of the page's own files except the page itself, which has its own address."""
    names = {file.name for file in files("api").joinpath("page").iterdir() if Path(file.name).suffix in TYPES}
    return frozenset(names - {"index.html"} | {MECHANISMS})


@cache
def _file(name: str) -> PageFile:
    if name == MECHANISMS:
        parameters = {mechanism: mechanism_class(mechanism).parameter for mechanism in calibrated_names()}
        content = f"export const MECHANISMS = {json.dumps(parameters)};\n".encode()
    else:
        content = files("api").joinpath("page", name).read_bytes()
    return PageFile(content, TYPES[Path(name).suffix], entity_tag(content))
