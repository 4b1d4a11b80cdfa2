"""nginx with the shipped configuration in front of a server, on loopback, with a temporary certificate."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.paths import ROOT
from support.ports import free_ports

CONFIGURATION = ROOT / "deploy" / "nginx.conf"

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")

HAVE_PROXY = NGINX is not None and STREAM_MODULE.exists() and shutil.which("openssl") is not None

needs_proxy = pytest.mark.skipif(
    not HAVE_PROXY and "CI" not in os.environ, reason="nginx, libnginx-mod-stream and openssl are not installed"
)
"""Mark of tests that need the proxy: skipped where it is not installed, except in CI."""


@dataclass(frozen=True)
class Proxy:
    """Running nginx.

    Attributes:
        process: its master process.
        address: host and port that clients connect to, by TLS.
        internal: URL of its server for monitoring.
        certificate: file with its certificate, for clients to trust.
        errors: its error log.
        log: its log of what it answered itself.
    """

    process: subprocess.Popen[bytes]
    address: tuple[str, int]
    internal: str
    certificate: Path
    errors: Path
    log: Path

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"https://127.0.0.1:{self.address[1]}"

    @property
    def trust(self) -> ssl.SSLContext:
        """TLS of a client that trusts its certificate alone."""
        return ssl.create_default_context(cafile=str(self.certificate))


def make_certificate(folder: Path) -> Path:
    """Make a key and a certificate for localhost, as ``tls.key`` and ``tls.crt``; return the certificate."""
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", "tls.key", "-out", "tls.crt", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "tls.crt"


def configuration(upstream: str, ports: list[int], **changes: str) -> str:
    """Return the shipped configuration with other addresses and further replacements, each of which must match."""
    public, tls, internal = ports
    places = {
        "darrm:8000": upstream,
        "listen 8443 ": f"listen 127.0.0.1:{public} ",
        "127.0.0.1:8444": f"127.0.0.1:{tls}",
        "127.0.0.1:8081": f"127.0.0.1:{internal}",
        **changes,
    }
    text = CONFIGURATION.read_text(encoding="utf-8")
    for old, new in places.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def proxying(url: str, changes: dict[str, str] | None = None) -> Iterator[Proxy]:
    """Run the proxy in front of a server; ``changes`` are replacements in the configuration."""
    assert NGINX is not None
    # Not in a test's own folder, into which nginx's worker processes, another user's, cannot look.
    with tempfile.TemporaryDirectory(prefix="darrm-proxy-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "run").mkdir()
        ports = free_ports(3)
        certificate = make_certificate(folder / "tls")
        text = configuration(urlsplit(url).netloc, ports, **changes or {})
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        errors, log = folder / "errors", folder / "log"
        with errors.open("wb") as stderr, log.open("wb") as stdout:
            process = subprocess.Popen(
                [NGINX, "-p", str(folder / "run"), "-c", str(folder / "nginx.conf")], stdout=stdout, stderr=stderr
            )
        try:
            proxy = Proxy(process, ("127.0.0.1", ports[0]), f"http://127.0.0.1:{ports[2]}", certificate, errors, log)
            _wait_until_it_listens(proxy)
            yield proxy
        finally:
            process.terminate()
            process.wait(timeout=60)


def _wait_until_it_listens(proxy: Proxy) -> None:
    end = time.monotonic() + 60
    while True:
        assert proxy.process.poll() is None, proxy.errors.read_text(encoding="utf-8")
        assert time.monotonic() < end, "nginx does not listen"
        with contextlib.suppress(OSError), socket.create_connection(proxy.address, timeout=5):
            return
        time.sleep(0.02)
