"""What is kept of a stream is bounded by the memory budget: an upstream that goes on and on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import APIS, PATHS, body, completed, error_of, stream_error
from tests.gateway.conftest import PROTOCOLS, SERVER, config_for
from tests.gateway.growing_upstream import KINDS, NOTHING, Growing, growing
from tests.gateway.http import KEY, call
from tests.gateway.processes import gateway_process, until
from tests.websocket.client import opened

BUDGET = 12_000_000
UPSTREAM = """
[[upstreams]]
name = "{name}"
protocol = "{protocol}"
base_url = "{url}"
[[accounts]]
name = "{name}-1"
upstream = "{name}"
key = "sk-{name}"
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[Growing]:
    with growing() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def small(upstream: Growing) -> Iterator[RunningGateway]:
    """A gateway with little memory."""
    server = replace(SERVER, body_limit_bytes=1_000_000, memory_limit_bytes=BUDGET)
    with running_gateway(config_for(upstream.url, server=server)) as gateway:
        yield gateway


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("api", APIS)
def test_a_stream_ends_in_an_error_before_the_budget_is_passed(
    small: RunningGateway, upstream: Growing, api: str, name: str, kind: str
) -> None:
    """What is translated is charged for the copies that its end would make; what passes as it is,
    of which nothing is kept, for what came."""
    upstream.kind = kind
    upstream.size = BUDGET if api == name else BUDGET // 2
    answer = call(
        small.base_url, "POST", PATHS[api], body(api, f"{name}/m", stream=True, store=False)
    )
    assert answer.status == 200
    if api == name:
        assert answer.body.count(b"x" * 4096) >= BUDGET // 5000
    else:
        assert not completed(api, answer.body)
        error = stream_error(api, answer.body)
        assert error is not None
        assert "out of memory" in error["message"]
        assert len(answer.body) < 2 * BUDGET
    until(lambda: small.server.http.budget.used == 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_so_does_one_over_a_websocket(
    small: RunningGateway, upstream: Growing, name: str, kind: str
) -> None:
    upstream.kind, upstream.size = kind, BUDGET if name == "responses" else BUDGET // 2
    with opened(small, authorization=f"Bearer {KEY}") as socket:
        socket.create(f"{name}/m")
        *events, last = socket.events()
        came = sum(len(json.dumps(event)) for event in events)
        if name == "responses":
            assert came >= BUDGET // 2
        else:
            assert last["type"] in ("error", "response.failed")
            error = last.get("error") or last["response"]["error"]
            assert "out of memory" in error["message"]
            assert came < 2 * BUDGET
    until(lambda: small.server.http.budget.used == 0)


def test_what_is_held_back_before_an_answer_begins_is_charged(
    small: RunningGateway, upstream: Growing
) -> None:
    upstream.kind, upstream.size = NOTHING, 2 * BUDGET
    answer = call(
        small.base_url, "POST", PATHS["responses"], body("responses", "responses/m", stream=True)
    )
    assert answer.status == 503
    assert "out of memory" in error_of("responses", answer)["message"]
    until(lambda: small.server.http.budget.used == 0)


def test_hundreds_of_megabytes_of_arguments(upstream: Growing, tmp_path: Path) -> None:
    """347 MB for a Responses client whose answer is stored, with the default of 512 MB: it is told
    that this cannot be, and the worker's memory stays far below what came."""
    upstream.kind, upstream.size = "arguments", 347_000_000
    tables = UPSTREAM.format(name="own", protocol="anthropic_messages", url=upstream.url)
    with gateway_process(tmp_path, upstream.url, {"a": "sk-a"}, tables=tables) as running:
        answer = call(
            running.url,
            "POST",
            PATHS["responses"],
            body("responses", "own/m", stream=True, store=True),
        )
        error = stream_error("responses", answer.body)
        assert error is not None
        assert "out of memory" in error["message"]
        (worker,) = running.workers() or [running.process.pid]
        status = Path(f"/proc/{worker}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        assert int(peak.split()[1]) < 300_000
        assert upstream.sent < 100_000_000
