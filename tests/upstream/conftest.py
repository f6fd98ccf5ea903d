"""Every test here runs on both event loops: uvloop, which serves, and the standard one."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
import uvloop

from dragoman.upstream import UpstreamClient


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[UpstreamClient]:
    async with UpstreamClient() as started:
        yield started


class Authority(NamedTuple):
    """A self-signed certificate: what shows it, and what trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def self_signed(folder: Path, names: str) -> Authority:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.fail("the TLS tests make their certificates with the openssl command")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
        f" -subj /CN=test -addext subjectAltName={names} -keyout {key} -out {cert}".split(),
        check=True,
        capture_output=True,
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return Authority(server, ssl.create_default_context(cafile=str(cert)))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return self_signed(tmp_path_factory.mktemp("tls"), "DNS:localhost,IP:127.0.0.1")


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate for another host than the one it is shown on."""
    return self_signed(tmp_path_factory.mktemp("tls"), "DNS:elsewhere.example")


@pytest.fixture(scope="session")
def server_tls(authority: Authority) -> ssl.SSLContext:
    """What a server of the tests shows its certificate with."""
    return authority.server


@pytest.fixture(scope="session")
def client_tls(authority: Authority) -> ssl.SSLContext:
    """Trusts the servers of the tests."""
    return authority.client
