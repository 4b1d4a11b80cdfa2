"""What is left of bodies that were refused: nothing."""

from __future__ import annotations

import gc

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.routes import requests
from api.settings import Settings

REFUSED = {
    "too many entries": b'{"K": 3, "m": 1, "epsilon": 0.1, "gamma": [' + b",".join(5000 * [b'"x"']) + b"]}",
    "a wrong field": b'{"K": "many", "m": 1, "epsilon": 0.1, "gamma": [0.1]}',
    "no JSON": b'{"K": 3',
    "no UTF-8": b"\xff\xfe{\x00}\x00",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_body_is_freed_without_garbage_collection(kind: str) -> None:
    with TestClient(create_app(Settings(cache_url="memory", rate=0.0))) as client:
        headers = {"Content-Type": "application/json"}
        assert client.post("/v1/verify", content=REFUSED[kind], headers=headers).status_code == 422
        gc.collect()
        before = {id(each) for each in gc.get_objects() if isinstance(each, requests._StrictRequest)}
        gc.disable()
        try:
            for _ in range(5):
                assert client.post("/v1/verify", content=REFUSED[kind], headers=headers).status_code == 422
            kept = [
                each
                for each in gc.get_objects()
                if isinstance(each, requests._StrictRequest) and id(each) not in before
            ]
        finally:
            gc.enable()
        assert kept == []
