"""Answers of Chat upstreams to Chat clients that break off while the model thinks: what follows is
asked for again, and goes on in the same stream."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.conftest import Over, leased, rested
from tests.faults.upstream import LAST_CHUNK, Upstream, event, streamed
from tests.gateway.clients import PATHS, body
from tests.gateway.http import AUTH
from tests.tables.cells import chat_chunk
from tests.upstream.servers import Call, chunk

KEYS = ("key-1", "key-2")
THOUGHT = "reasoning_content"
FAILED = {"error": {"message": "it broke", "type": "server_error", "code": 500}}
LIMITED = {"error": {"message": "slow down", "type": "rate_limit_error", "code": 429}}
REFUSED = {"error": {"message": "not this", "type": "invalid_request_error", "code": 400}}


def named(number: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return chat_chunk(delta, finish) | {"id": f"chatcmpl-{number}", "created": number}


def begun(number: int, *deltas: dict[str, Any]) -> list[Any]:
    role = {"role": "assistant", "content": ""}
    return [named(number, role), *[named(number, delta) for delta in deltas]]


def ended(number: int) -> list[Any]:
    used = chat_chunk(None, usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
    return [named(number, {}, "stop"), used, b"[DONE]"]


class Script:
    """Answers one call after another, each with its events; then with the last again. The first
    goes on once the client has its first two."""

    def __init__(self, *answers: list[Any], end: bytes = LAST_CHUNK) -> None:
        self.answers = answers
        self.end = end
        self.calls = 0
        self.is_seen = threading.Event()
        """Whether the client has the beginning of the first answer."""

    async def __call__(self, asked: Call) -> None:
        number = min(self.calls, len(self.answers) - 1)
        self.calls += 1
        parts = list(map(event, self.answers[number]))
        if self.calls > 1:
            await asked.send(streamed(parts))
            return
        await asked.send(streamed(parts[:2], b""))
        await asyncio.to_thread(self.is_seen.wait, 20)
        await asked.send(b"".join(map(chunk, parts[2:])) + self.end)
        if not self.end:
            asked.reset()


THOUGHTS = begun(1, {THOUGHT: "I thi"}, {THOUGHT: "nk"})
GOOD = [*begun(2, {THOUGHT: "Aha."}, {"content": "Yes"}), *ended(2)]


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(*KEYS)


def ask(
    gateway: RunningGateway, upstream: Upstream, script: Script, **more: Any
) -> list[dict[str, Any]]:
    """The chunks of the answer; its last event is always the terminator."""
    rested(gateway)
    upstream.behaviours.update(dict.fromkeys(KEYS, script))
    made = json.dumps(body("chat", "chat/m", stream=True, **more))
    headers = {"content-type": "application/json", **AUTH}
    with closing(HTTPConnection("127.0.0.1", gateway.port, timeout=20)) as connection:
        connection.request("POST", PATHS["chat"], made, headers)
        answer = connection.getresponse()
        assert answer.status == 200
        lines = []
        for line in answer:
            if line.startswith(b"data: "):
                lines.append(line[6:].strip())
            if THOUGHT.encode() in line or b"reasoning_details" in line:
                script.is_seen.set()
    assert lines[-1] == b"[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def told(chunks: list[dict[str, Any]], name: str) -> str:
    deltas = [choice["delta"] for chunk in chunks for choice in chunk.get("choices", ())]
    return "".join([delta.get(name) or "" for delta in deltas])


@pytest.mark.parametrize(
    ("first", "end"),
    [
        (THOUGHTS, LAST_CHUNK),
        (THOUGHTS, b""),
        ([*THOUGHTS, FAILED], LAST_CHUNK),
        ([*THOUGHTS, LIMITED], LAST_CHUNK),
        ([*THOUGHTS, b"[DONE]"], LAST_CHUNK),
    ],
    ids=["ends", "reset", "failed", "limited", "done"],
)
def test_another_answer_goes_on_in_the_same_stream(
    gateway: RunningGateway, upstream: Upstream, first: list[Any], end: bytes
) -> None:
    script = Script(first, GOOD, end=end)
    chunks = ask(gateway, upstream, script)
    assert script.calls == 2
    assert told(chunks, THOUGHT) in ("I thinkAha.", "I thiAha.")
    assert told(chunks, "content") == "Yes"
    assert told(chunks, "role") == "assistant"
    assert {(chunk["id"], chunk["created"]) for chunk in chunks} == {("chatcmpl-1", 1)}
    assert not any("error" in chunk for chunk in chunks)
    assert not leased(gateway)


@pytest.mark.parametrize(
    "first",
    [
        [*THOUGHTS, named(1, {"content": "Y"}), FAILED],
        [*THOUGHTS, named(1, {"refusal": "N"}), FAILED],
        [
            *THOUGHTS,
            named(1, {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}),
            FAILED,
        ],
        [*begun(1, {"reasoning_details": [{"type": "reasoning.text", "text": "I"}]}), FAILED],
        [*THOUGHTS, REFUSED],
    ],
    ids=["text", "refusal", "call", "signed", "refused"],
)
def test_what_more_than_a_thought_was_sent_of_is_an_error(
    gateway: RunningGateway, upstream: Upstream, first: list[Any]
) -> None:
    script = Script(first, GOOD)
    chunks = ask(gateway, upstream, script)
    assert script.calls == 1
    assert "error" in chunks[-1]


def test_several_answers_in_one_are_not_asked_for_again(
    gateway: RunningGateway, upstream: Upstream
) -> None:
    script = Script([*THOUGHTS, FAILED], GOOD)
    assert "error" in ask(gateway, upstream, script, n=2)[-1]
    assert script.calls == 1


def test_it_is_asked_for_again_once(gateway: RunningGateway, upstream: Upstream) -> None:
    script = Script([*THOUGHTS, FAILED])
    chunks = ask(gateway, upstream, script)
    assert script.calls == 2
    assert "it broke" in chunks[-1]["error"]["message"]
    assert told(chunks, "role") == "assistant"
    assert not leased(gateway)


def test_whoever_is_left_goes_on(over: Over, upstream: Upstream) -> None:
    """Though it is the same account; and the client's own model name stays."""
    gateway = over("key-1")
    script = Script([*THOUGHTS, FAILED], GOOD)
    chunks = ask(gateway, upstream, script)
    assert told(chunks, "content") == "Yes"
    assert {chunk["model"] for chunk in chunks} == {"chat/m"}
