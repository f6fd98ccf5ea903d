"""Chunks before the answer begins."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Over
from tests.faults.upstream import Upstream, event, streamed
from tests.gateway.clients import PATHS, body, streamed_text
from tests.gateway.http import call, events
from tests.tables.cells import chat_chunk
from tests.upstream.servers import Call

KEY = "key-of-a-filtering-service"
FILTERED = {
    "id": "",
    "model": "",
    "object": "",
    "created": 0,
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
}


@pytest.mark.parametrize("client", PATHS)
def test_the_report_of_a_filter_is_not_the_first_chunk(
    client: str, over: Over, upstream: Upstream
) -> None:
    async def filtering(call: Call) -> None:
        chunks = [chat_chunk({"role": "assistant", "content": "Hi"}), chat_chunk({}, "stop")]
        parts = [event(FILTERED), *map(event, chunks), b"data: [DONE]\n\n"]
        await call.send(streamed(parts))

    upstream.behaviours[KEY] = filtering
    asked = body(client, "chat/m", stream=True)
    told = call(over(KEY).base_url, "POST", PATHS[client], asked)
    assert streamed_text(client, told.body) == "Hi"
    if client == "chat":
        first, second = [data for _, data in events(told.body)][:2]
        assert first["id"]
        assert first["model"]
        assert first["choices"]
        assert second["prompt_filter_results"]
