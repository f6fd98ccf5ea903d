"""A client of an upstream that answers with given bytes."""

from __future__ import annotations

from typing import Any

from dragoman.server.testing import RunningGateway
from tests.faults.conftest import rested
from tests.faults.upstream import answer, event, is_streamed, streamed
from tests.gateway.clients import PATHS, body
from tests.gateway.http import call
from tests.protocols.openai_responses.upstream import events_of
from tests.tables.cells import (
    ROLE,
    chat_chunk,
    message_start,
    text_block,
)
from tests.tables.odd_responses import HELLO
from tests.upstream.servers import Call, Handler

KEY = "key-of-the-one-account"


def saying(*events: Any, body: bytes = b"", status: int = 200) -> Handler:
    """Answers with these events (a text as it stands) where a stream is asked for, else `body`."""

    async def handler(call: Call) -> None:
        if is_streamed(call) and status == 200:
            await call.send(streamed([written(value) for value in events]))
        else:
            await call.send(answer(body, status))

    def written(value: Any) -> bytes:
        return value.encode() if isinstance(value, str) else event(value)

    return handler


def ask(gateway: RunningGateway, client: str, target: str, **more: Any) -> Any:
    rested(gateway)
    return call(gateway.base_url, "POST", PATHS[client], body(client, f"{target}/m", **more))


AT = {"output_index": 0, "content_index": 0}
HALVES = {
    "chat": [ROLE, chat_chunk({"content": "a\ud83d"}), chat_chunk({"content": "\ude00b\ud83d!"})],
    "messages": [message_start(), *text_block(0, "a\ud83d", "\ude00b\ud83d!")],
    "responses": [
        *events_of({**HELLO, "output": []})[:2],
        *(
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "delta": d,
            }
            for d in ("a\ud83d", "\ude00b\ud83d!")
        ),
    ],
}
