"""More input for a response under way, over an upstream's WebSocket: what follows an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from dragoman.protocols.openai_responses.additions import Addition
from dragoman.protocols.openai_responses.matcher import ResponsesMatcher
from dragoman.sse import Decoder
from dragoman.upstream import UpstreamClient, sockets
from dragoman.upstream.request import SocketUse
from tests.upstream.peers import USER, Peer, asked, serving

STEER = Addition("steer", "r1", Raw(b'"on"'))
USAGE = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}


def ended(name: str, status: str = "completed") -> dict[str, Any]:
    response = {"id": name, "status": status, "output": [], "usage": USAGE}
    return {"type": f"response.{status}", "sequence_number": 3, "response": response}


def created(name: str) -> dict[str, Any]:
    return {"type": "response.created", "sequence_number": 0, "response": {"id": name}}


def told(kind: str, name: str = "") -> dict[str, Any]:
    steer = {"id": name} if name else {}
    return {"type": f"response.steer.{kind}", "steer": steer, "error": {"code": "c"}}


LATE: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "refused as it was over": (
        [ended("r1"), told("failed")],
        ["created", "steer.failed", "completed"],
    ),
    "accepted after the end": (
        [ended("r1"), told("accepted", "s"), created("r2"), ended("r2")],
        ["created", "steer.accepted", "completed", "created", "completed"],
    ),
    "returned after the end": (
        [told("accepted", "s"), ended("r1"), told("failed", "s")],
        ["created", "steer.accepted", "completed", "steer.failed"],
    ),
    "waits for the next request": (
        [told("accepted", "s"), ended("r1"), told("pending", "s")],
        ["created", "steer.accepted", "completed", "steer.pending"],
    ),
    "followed by a response": (
        [told("accepted", "s"), ended("r1", "incomplete"), created("r2"), ended("r2")],
        ["created", "steer.accepted", "incomplete", "created", "completed"],
    ),
    "not known": (
        [{"type": "error", "status": 400, "error": {"message": "what?"}}, ended("r1")],
        ["created", "steer.failed", "completed"],
    ),
    "nothing is told of it": ([ended("r1")], ["created", "steer.failed", "completed"]),
    "nothing follows": (
        [told("accepted", "s"), ended("r1", "incomplete")],
        ["created", "steer.accepted", "incomplete", "steer.failed"],
    ),
}


@pytest.mark.parametrize("case", LATE)
async def test_the_last_event_is_the_last(
    client: UpstreamClient, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """A connection feeds the stream until it is settled what was added, and no longer; who relays
    the stream agrees on its end, and counts all of it. What is not told in time is returned."""
    monkeypatch.setattr(sockets, "_FOLLOWING_S", 0.2)
    sent, expected = LATE[case]
    sends: list[Callable[[bytes], bool]] = []
    turns: list[Any] = []

    def begun(turn: Any, send: Callable[[bytes], bool]) -> None:
        turns.append(turn)
        sends.append(send)

    def script(peer: Peer, message: dict[str, Any], number: int) -> None:
        if message["type"] == "response.create":
            peer.send(created("r1"))
        else:
            assert message == {
                "type": "response.steer",
                "previous_response_id": "r1",
                "input": "on",
            }
            for event in sent:
                peer.send(event)

    async with serving(script) as (server, url), asyncio.timeout(30):
        request = asked(url, [USER])
        assert request.socket is not None
        use = SocketUse(b"thread", request.socket.call, on_begin=begun)
        async with await client.send(replace(request, socket=use)) as answer:
            assert turns[0].add(sends[0], STEER)
            body = await answer.read(1 << 20)
        frames = Decoder().feed(body)
        kinds = [frame.event.decode().removeprefix("response.") for frame in frames]
        assert kinds == expected
        matcher = ResponsesMatcher(None, False)
        ends = []
        for frame in frames:
            matcher.match(frame)
            ends.append(matcher.ended)
        assert ends == [False] * (len(frames) - 1) + [True]
        assert matcher.usage is not None
        ends_of = [kind for kind in kinds if kind in ("completed", "incomplete")]
        assert matcher.usage.output == 5 * len(ends_of)
        if "nothing" in case:
            returned = next(frame for frame in frames if frame.event.endswith(b"steer.failed"))
            assert json.loads(returned.data)["steer"]["input"] == "on"
        # What the connection holds is not known then: the next request is sent whole.
        await whole_again(client, request)
        assert server.messages[-1].get("previous_response_id") is None


async def whole_again(client: UpstreamClient, request: Any) -> None:
    """Ask again, and leave when the request has come."""
    async with await client.send(request):
        pass
