"""Telemetry of agents: taken whatever becomes of it, and passed on as it came."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dragoman.config import Secret, Telemetry
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server import telemetry as module
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, KEY, Answer, Connection, call
from tests.gateway.posts import Post, Posts, posts
from tests.gateway.processes import until

PATHS = ("/v1/metrics", "/v1/logs", "/v1/traces")
JSON, PROTOBUF = "application/json", "application/x-protobuf"


@pytest.fixture
def collector() -> Iterator[Posts]:
    with posts() as running:
        yield running


@pytest.fixture
def gateway(_simulator: RunningSimulator, collector: Posts) -> Iterator[RunningGateway]:
    settings = Telemetry(forward_to=Secret(f"{collector.url}/of/agents/"))
    config = replace(config_for(_simulator.base_url), telemetry=settings)
    with running_gateway(config) as running:
        yield running


def send(
    gateway: RunningGateway, path: str, data: bytes, media: str = JSON, **headers: str
) -> Answer:
    own = {"content-type": media, **{name.replace("_", "-"): v for name, v in headers.items()}}
    return call(gateway.base_url, "POST", path, data, own)


def counted(gateway: RunningGateway, result: str) -> float:
    text = call(gateway.base_url, "GET", "/metrics", key=None).body.decode()
    start = f'dragoman_agent_telemetry_total{{result="{result}"}} '
    found = [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]
    return float(found[0]) if found else 0.0


@pytest.mark.parametrize("path", PATHS)
def test_it_is_passed_on_as_it_came(gateway: RunningGateway, collector: Posts, path: str) -> None:
    """JSON and protobuf, also compressed, without the client's key."""
    packed = gzip.compress(b"packed")
    for media, data, headers in (
        (JSON, b'{"resourceMetrics": []}', {}),
        (PROTOBUF, b"\x0a\x00", {}),
        (PROTOBUF, packed, {"content_encoding": "gzip"}),
    ):
        answer = send(gateway, path, data, media, **headers)
        assert answer.status == 200
        assert answer.headers["content-type"] == media
        assert answer.body == (b"{}" if media == JSON else b"")
    until(lambda: len(collector.got) == 3)
    assert sorted(post.body for post in collector.got) == sorted(
        [b'{"resourceMetrics": []}', b"\x0a\x00", packed]
    )
    for post in collector.got:
        assert post.path == f"/of/agents{path}"
        assert KEY not in str(post.headers)
        assert ("content-encoding" in post.headers) == (post.body == packed)
    until(lambda: counted(gateway, "sent") == 3)


def test_who_may_not_call_sends_none(gateway: RunningGateway, collector: Posts) -> None:
    """A key is needed; another content type, and what is too large, are refused."""
    answer = call(gateway.base_url, "POST", PATHS[0], b"{}", {"content-type": JSON}, key=None)
    assert answer.status == 401
    assert send(gateway, PATHS[0], b"{}", "text/plain").status == 415
    with Connection(gateway.base_url) as connection:
        length = {"content-type": JSON, "content-length": str(4 * 1024 * 1024 + 1)}
        connection.send("POST", PATHS[0], b"{", {**AUTH, **length})
        assert connection.answer().status == 413
    assert send(gateway, PATHS[0], b" " * (4 * 1024 * 1024)).status == 200
    until(lambda: len(collector.got) == 1)


@pytest.mark.parametrize(
    ("data", "media"), [(b" " * 2000, JSON), (b"", f"{JSON}; of={'x' * 2000}"), (b"", JSON)]
)
def test_a_collector_that_hangs_slows_nobody(
    gateway: RunningGateway,
    collector: Posts,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    media: str,
) -> None:
    """What does not fit into a bounded queue is dropped, and counted, whatever takes the room:
    a body, a header, or that there are many."""
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 50_000)
    released = threading.Event()

    def hang(post: Post) -> tuple[int, bytes]:
        released.wait(30)
        return 200, b""

    collector.answer = hang
    try:
        for _ in range(60):
            assert send(gateway, "/v1/logs", data, media).status == 200
        dropped = counted(gateway, "dropped")
        assert 5 < dropped < 60
    finally:
        released.set()
    until(lambda: counted(gateway, "sent") == 60 - dropped)


def test_without_a_collector_it_is_taken(
    gateway: RunningGateway, collector: Posts, simulator: RunningSimulator
) -> None:
    """With one that refuses, one that is away, and none."""
    collector.answer = lambda post: (503, b"")
    assert send(gateway, "/v1/logs", b"{}").status == 200
    until(lambda: counted(gateway, "failed") == 1)
    for settings in (Telemetry(), Telemetry(forward_to=Secret("http://127.0.0.1:9"))):
        config = replace(config_for(simulator.base_url), telemetry=settings)
        with running_gateway(config) as other:
            assert send(other, "/v1/traces", b"{}").status == 200
