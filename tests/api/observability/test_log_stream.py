"""An unread log blocks no one; lost lines are counted."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import httpx
import pytest
from support.darrm_runner import start

from api.observability.logs import PIPE_BUF, LogStream

PIPE = 65536  # the capacity of a pipe


def log_line(number: int) -> str:
    return f"{number} dropped\n"


def read_all(descriptor: int) -> bytes:
    found = b""
    while piece := os.read(descriptor, PIPE):
        found += piece
    return found


def test_lines_arrive_complete_and_in_order() -> None:
    out, into = os.pipe()
    lines = LogStream(into, log_line)
    for i in range(500):
        lines.write(f"{i} é\n")
    assert lines.drain(30)
    os.close(into)
    assert read_all(out).decode().splitlines() == [f"{i} é" for i in range(500)]
    os.close(out)


def test_logging_never_blocks_and_losses_are_counted() -> None:
    out, into = os.pipe()
    lines = LogStream(into, log_line, max_lines=50)
    line = "x" * (PIPE_BUF - 1) + "\n"
    began, written = time.monotonic(), 0
    while time.monotonic() - began < 0.5 or written < 500:  # the pipe holds 16 of them, the queue 50
        lines.write(line)
        written += 1
        time.sleep(0.0005)
    assert not lines.drain(0.05)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(read_all(out)))
    reader.start()
    assert lines.drain(30)
    os.close(into)
    reader.join()
    os.close(out)
    *whole, last = found[0].decode().splitlines(keepends=True)
    assert set(whole) == {line}
    lost = int(last.removesuffix(" dropped\n"))
    assert lost > 0
    assert len(whole) + lost == written


def test_a_closed_reader_is_not_an_error() -> None:
    out, into = os.pipe()
    os.close(out)
    lines = LogStream(into, log_line)
    lines.write("to nobody\n")
    assert lines.drain(30)
    os.close(into)


@pytest.mark.slow
def test_an_unread_log_does_not_block_the_server(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    process = start("serve", "--port", "0", "--json", cwd=tmp_path, DARRM_CACHE_URL=url)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        base = json.loads(process.stdout.readline())["url"]
        path = "/healthz?" + "x" * 10
        with httpx.Client(base_url=base, timeout=120) as client:
            for _ in range(600):  # 150 bytes a line: more than a pipe holds
                assert client.get(path).status_code == 200
        process.terminate()
        log = process.stderr.read()
        assert process.wait(120) == 0
        assert log.count("path=") + log.count("dropped") > 0
    finally:
        process.kill()
        process.communicate()
