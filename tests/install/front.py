"""nginx as `deploy/compose` has it, before gateways on this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cli.serving import eventually, free_port
from tests.clients.installed import missing
from tests.gateway.http import call
from tests.install.sources import ROOT

NGINX = ROOT / "deploy/compose/nginx.conf"


def program(name: str) -> str:
    """The path of an installed program; skips or fails the test where it is not there."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        missing(name, "install it from the distribution")
        raise AssertionError  # not reached: skipped or failed
    return found


@contextmanager
def nginx(
    gateways: Sequence[int], folder: Path, *, headers: str = "", page: int | None = None
) -> Iterator[str]:
    """nginx with the file of Compose, but for its names and places, before gateways on these
    ports; `headers` are directives for answers, `page` is the port for operators. Yields its base
    URL."""
    port = free_port()
    page = free_port() if page is None else page
    text = NGINX.read_text()
    first, second = (f"        server gateway-{number}:8080" for number in (1, 2))
    rest = text.partition(first)[2].partition(";")[0]
    servers = [f"        server 127.0.0.1:{gateway}{rest}" for gateway in gateways]
    of_page = [servers[0], *(f"{server} backup" for server in servers[1:])]
    for old, new in (
        (f"{first}{rest};\n{second}{rest} backup", ";\n".join(of_page)),
        (f"{first}{rest};\n{second}{rest}", ";\n".join(servers)),
        ("listen 8080;", f"listen 127.0.0.1:{port}; {headers}"),
        ("listen 8081;", f"listen 127.0.0.1:{page};"),
        ("/tmp/", f"{folder}/"),
        ("/dev/stderr", f"{folder}/error.log"),
        ("worker_processes auto", "worker_processes 1"),
        ("worker_rlimit_nofile 65536;", ""),
        ("worker_connections 16384", "worker_connections 2048"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    file = folder / "nginx.conf"
    file.write_text(text)
    folder.chmod(0o755)
    words = [program("nginx"), "-c", str(file), "-p", str(folder), "-e", f"{folder}/error.log"]
    subprocess.run([*words, "-t"], check=True, capture_output=True)
    process = subprocess.Popen([*words, "-g", "daemon off;"])
    try:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: call(url, "GET", "/healthz", key=None).status == 200)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)
