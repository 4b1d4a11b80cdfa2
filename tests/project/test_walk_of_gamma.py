"""The walk of `POST /v1/gamma` through the files, nothing stored: how many files, and how often from one to another."""

from __future__ import annotations

import json
import subprocess
import sys

from support.paths import ROOT

MAX_FILES = 38
"""Files of the product that one request enters in the process that serves; those of its solver process not counted."""

MAX_MOVES = 185
"""Calls from a file of the product into another, without the resumptions of coroutines: some 175. What the service does
beside the request, each second or each tenth of one, adds to them: so the least of some requests counts."""

PROGRAM = """
import json, sys, threading
ROOT, SHARES = sys.argv[1] + "/", ("api/", "darrm_opt/", "solver_cache/", "darrm_client/", "darrm/")
counting, files, moves, walks = False, set(), 0, []

def product_file(frame):
    name = frame.f_code.co_filename
    return name[len(ROOT):] if name.startswith(tuple(ROOT + share for share in SHARES)) else None

def count(frame, event, _):
    global moves
    if not counting or event != "call" or (name := product_file(frame)) is None:
        return
    files.add(name)
    resumed = frame.f_code.co_flags & 0x2A0 and frame.f_lasti > 6  # a generator or coroutine that goes on
    caller = frame.f_back
    while caller is not None and product_file(caller) is None:
        caller = caller.f_back
    moves += not resumed and caller is not None and product_file(caller) != name

threading.setprofile(count)
sys.setprofile(count)
from fastapi.testclient import TestClient
from api.app import create_app
from api.settings import Settings

with TestClient(create_app(Settings(cache_url="memory", solvers=1, wait_seconds=60, rate=0, prestart=True))) as client:
    def ask(K):
        return client.post("/v1/gamma", json={"K": K, "m": 3, "epsilon": 0.1, "Delta": 0, "delta": 1e-5})
    ask(7)  # imports, and the process
    for K in range(9, 25, 2):
        files, moves, counting = set(), 0, True
        answer = ask(K)
        counting = False
        assert (answer.status_code, answer.json()["cached"]) == (200, False)
        walks.append((len(files), moves, sorted(files)))
print(json.dumps({"files": min(walks)[2], "moves": min(moves for _, moves, _ in walks)}))
"""


def test_one_gamma_walks_through_so_many_files() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    walk = json.loads(done.stdout)
    assert "api/tasks/design.py" in walk["files"]
    assert len(walk["files"]) <= MAX_FILES, walk["files"]
    assert walk["moves"] <= MAX_MOVES
