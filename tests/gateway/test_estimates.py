"""What an upstream did for a request without telling of it is estimated: for answers that were left
by their client, that broke off, or whose upstream tells no usage."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.store import UsageCount
from dragoman.config import Config, OwnPrice, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.opening import store_for
from tests.gateway.clients import APIS, PATHS, body, streamed_text
from tests.gateway.conftest import PROTOCOLS, config_for
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.odd_upstream import answering

PRICE = OwnPrice(model="*", input="1", output="10")
SLOW = "sim-text?delay_ms=20&words=5000"
PAIRS = list(itertools.product(APIS, PROTOCOLS))


@contextmanager
def serving(config: Config, tmp_path: Path) -> Iterator[tuple[RunningGateway, list[Any]]]:
    """A gateway that writes down what was used, and the lines of its log."""
    lines: list[Any] = []
    kept = Storage(path=str(tmp_path / "kept.db"), sync_s=0.05)
    config = replace(config, storage=kept, prices=(PRICE,))
    with running_gateway(config, lambda line: lines.append(json.loads(line))) as gateway:
        yield gateway, lines


def counted(tmp_path: Path) -> tuple[UsageCount, int]:
    """All that was used, and what it cost."""
    store = store_for(Config(storage=Storage(path=str(tmp_path / "kept.db"))))
    assert store is not None
    try:
        sums = store.sums(0, 2**40)[()]
        return sums.usage, sums.charged.cost
    finally:
        store.close()


def ask(api: str, model: str, text: str = "Hello", **more: Any) -> dict[str, Any]:
    return body(api, model, text, **({"store": False} if api == "responses" else {}), **more)


@pytest.mark.parametrize(("api", "upstream"), PAIRS)
def test_a_client_that_leaves_pays_for_what_was_streamed(
    simulator: RunningSimulator, tmp_path: Path, api: str, upstream: str
) -> None:
    with serving(config_for(simulator.base_url), tmp_path) as (gateway, lines):
        with Connection(gateway.base_url) as client:
            made = ask(api, f"{upstream}/{SLOW}", "word " * 400, stream=True)
            client.send("POST", PATHS[api], made, AUTH)
            assert client.head().status == 200
            seen = b""
            while len(streamed_text(api, seen[: seen.rfind(b"\n\n") + 2])) < 100:
                seen += client.chunk()
        simulator.wait_for(lambda: bool(lines))
    [line] = lines
    assert (line["error"], line["estimated"]) == ("client_gone", True)
    usage = line["usage"]
    told = upstream == "messages"
    assert usage["input"] == pytest.approx(503 if told else 630, rel=0.1)
    # 100 letters are some 25 tokens, and a few more may have come before it was seen.
    assert 17 < usage["output"] < 75
    sums, cost = counted(tmp_path)
    assert (sums.requests, sums.errors, sums.unmetered, sums.estimated) == (1, 0, 0, 1)
    assert (sums.input, sums.output) == (usage["input"], usage["output"])
    assert cost == usage["input"] * 10**6 + usage["output"] * 10**7


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_before_the_answer_pays_for_its_prompt(
    simulator: RunningSimulator, tmp_path: Path, stream: bool
) -> None:
    with serving(config_for(simulator.base_url), tmp_path) as (gateway, lines):
        with Connection(gateway.base_url) as client:
            client.send(
                "POST",
                PATHS["chat"],
                ask("chat", "chat/sim-text?head_ms=20000", stream=stream),
                AUTH,
            )
            simulator.wait_for(lambda: bool(simulator.requests))
        simulator.wait_for(lambda: bool(lines))
    [line] = lines
    assert line["estimated"]
    assert (line["usage"]["output"], line["error"]) == (0, "client_gone")
    assert 10 < line["usage"]["input"] < 60
    assert counted(tmp_path)[0].estimated == 1


def test_nothing_is_charged_where_no_upstream_got_the_request(tmp_path: Path) -> None:
    """The connection is never accepted, and the client leaves meanwhile."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        with ExitStack() as others:
            for _ in range(4):
                waiting = others.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(address)
            config = config_for(f"http://127.0.0.1:{address[1]}")
            with (
                serving(config, tmp_path) as (gateway, lines),
                Connection(gateway.base_url) as client,
            ):
                client.send("POST", PATHS["chat"], ask("chat", "chat/m"), AUTH)
                client.sock.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    client.head()
                client.sock.close()
    [line] = lines
    assert "usage" not in line
    assert "estimated" not in line
    assert counted(tmp_path)[0].input == 0


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_a_failed_attempt_is_not_estimated(
    simulator: RunningSimulator, tmp_path: Path, api: str
) -> None:
    with serving(config_for(simulator.base_url), tmp_path) as (gateway, lines):
        answer = call(gateway.base_url, "POST", PATHS[api], ask(api, "chat/sim-500"))
        assert answer.status >= 500
    assert "usage" not in lines[0]
    sums, cost = counted(tmp_path)
    assert (sums.estimated, sums.input, sums.output, cost) == (0, 0, 0, 0)


WHOLE: dict[str, Any] = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "word " * 80},
        }
    ],
}
CHUNK = WHOLE | {
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}],
}
LAST = CHUNK | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_an_upstream_that_tells_no_usage(tmp_path: Path, api: str, stream: bool) -> None:
    media = "text/event-stream" if stream else "application/json"
    frames = [f"data: {json.dumps(data)}\n\n" for data in [*[CHUNK] * 80, LAST]]
    told = "".join([*frames, "data: [DONE]\n\n"]) if stream else json.dumps(WHOLE)
    with (
        answering(200, media, told.encode()) as base_url,
        serving(config_for(base_url), tmp_path) as (gateway, lines),
    ):
        made = ask(api, "chat/m", stream=stream)
        assert call(gateway.base_url, "POST", PATHS[api], made).status == 200
    [line] = lines
    assert line["estimated"]
    # Where texts pass through, what the last event adds tells how much the others do.
    assert line["usage"]["output"] == pytest.approx(100, abs=20 if stream and api == "chat" else 3)
    sums, cost = counted(tmp_path)
    assert (sums.unmetered, sums.estimated) == (0, 1)
    assert cost > 0


FAILED: list[dict[str, Any]] = [
    {"type": "response.created", "sequence_number": 0, "response": {
        "id": "r", "object": "response", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {
        "type": "message", "id": "i", "role": "assistant", "status": "in_progress",
        "content": []}},
    {"type": "response.content_part.added", "sequence_number": 2, "output_index": 0,
        "content_index": 0, "item_id": "i", "part": {
            "type": "output_text", "text": "", "annotations": []}},
    {"type": "response.output_text.delta", "sequence_number": 3, "output_index": 0,
        "content_index": 0, "item_id": "i", "delta": "word " * 80},
    {"type": "response.failed", "sequence_number": 4, "response": {
        "id": "r", "object": "response", "status": "failed", "output": [],
        "error": {"code": "server_error", "message": "No."},
        "usage": {"input_tokens": 7, "output_tokens": 90, "total_tokens": 97}}},
]  # fmt: skip


@pytest.mark.parametrize(("api", "told"), [*((api, False) for api in APIS), ("responses", True)])
def test_an_answer_that_fails_counts_as_told_if_it_is(tmp_path: Path, api: str, told: bool) -> None:
    last = FAILED[-1]["response"] if told else {**FAILED[-1]["response"], "usage": None}
    frames = [*FAILED[:-1], {**FAILED[-1], "response": last}]
    text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in frames)
    with (
        answering(200, "text/event-stream", text.encode()) as base_url,
        serving(config_for(base_url), tmp_path) as (gateway, lines),
    ):
        call(gateway.base_url, "POST", PATHS[api], ask(api, "responses/m", stream=True))
    [line] = lines
    assert line.get("estimated", False) is not told
    assert line["usage"]["output"] == (90 if told else pytest.approx(100, abs=2))
    if told:
        assert line["usage"]["input"] == 7
