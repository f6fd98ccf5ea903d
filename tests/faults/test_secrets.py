"""An upstream that quotes what it was sent: keys, organisations, headers, prompts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.conftest import Over, rested
from tests.faults.upstream import (
    Upstream,
    answer,
    api_of,
    event,
    events,
    good,
    is_streamed,
    key_of,
    streamed,
)
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.http import KEY, Answer, call
from tests.upstream.servers import Call, Handler

SECRET = 'zebra!"quagga/account=='
PROMPT = "Aardvarks-in-the-prompt"
QUOTED = ("quagga", "sk-proj-abc123", "org-Abc123", KEY)


def quoting(call: Call, api: str) -> dict[str, Any]:
    key = key_of(call)
    message = f"Bad key {key}, sk-proj-abc123456789 of org-Abc123Def; you said {PROMPT}"
    error = {"type": "invalid_request_error", "code": key, "param": key, "message": message}
    if api == "responses" and is_streamed(call):
        return {**error, "type": "error", "sequence_number": 9, "error": error}
    return {"type": "error", "error": error, "debug": dict(call.headers)}


def refusing(status: int) -> Handler:
    async def handler(call: Call) -> None:
        await call.send(answer(json.dumps(quoting(call, api_of(call))).encode(), status))

    return handler


def plain(status: int) -> Handler:
    async def handler(call: Call) -> None:
        told = f"Unauthorized: {key_of(call)}".encode()
        await call.send(answer(told, status, content_type="text/plain"))

    return handler


def failing_after(count: int, step: int | None = None) -> Handler:
    """After so many events an error event; cut into chunks of `step` bytes."""

    async def handler(call: Call) -> None:
        if not is_streamed(call):
            await good(call)
            return
        api = api_of(call)
        failure = event(quoting(call, api))
        if api == "chat":
            failure = failure.removeprefix(b"event: error\n")
        data = b"".join([*events(api, "Go", "od")[:count], failure])
        step_ = step or len(data)
        await call.send(streamed([data[at : at + step_] for at in range(0, len(data), step_)]))

    return handler


async def unknown_event(call: Call) -> None:
    if not is_streamed(call):
        await good(call)
        return
    unknown = event({"type": "invented", "key": key_of(call)})
    first, *rest = events(api_of(call), "Good")
    await call.send(streamed([first, unknown, *rest]))


async def failed_response(call: Call) -> None:
    """A Responses answer that says it failed, quoting the key."""
    if api_of(call) != "responses":
        await good(call)
        return
    value = json.loads(events("responses", "x")[-1].partition(b"data: ")[2])
    error = {"code": "server_error", "message": f"no {key_of(call)}"}
    value["response"] |= {"status": "failed", "error": error, "output": []}
    value["type"] = "response.failed"
    if is_streamed(call):
        await call.send(streamed([*events("responses", "x")[:3], event(value)]))
    else:
        await call.send(answer(json.dumps(value["response"]).encode()))


WAYS: dict[str, Handler] = {
    **{f"status {status}": refusing(status) for status in (200, 400, 401, 403, 404, 429, 500, 600)},
    **{f"plain {status}": plain(status) for status in (400, 401, 500)},
    **{f"error after {count} events": failing_after(count) for count in (0, 1, 3)},
    "error in pieces": failing_after(3, step=7),
    "failed": failed_response,
    "unknown event": unknown_event,
}


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(SECRET)


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Every record of every logger, as text."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(logging.Formatter().format(record))

    root, listener = logging.getLogger(), Listener()
    before = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(listener)
    yield lines
    root.removeHandler(listener)
    root.setLevel(before)


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_reaches_client_or_log(
    gateway: RunningGateway, upstream: Upstream, log: list[str], way: str
) -> None:
    upstream.behaviours[SECRET] = WAYS[way]
    for client in APIS:
        for target in APIS:
            for stream in (False, True):
                rested(gateway)
                made = body(client, f"{target}/m", PROMPT, stream=stream)
                told = call(gateway.base_url, "POST", PATHS[client], made)
                for word in QUOTED:
                    assert word not in shown(told), (client, target, stream)
    assert SECRET in upstream.asked()
    assert log
    for line in log:
        for word in (*QUOTED, PROMPT):
            assert word not in line


def shown(answer: Answer) -> str:
    return f"{answer.headers}{answer.body.decode()}"
