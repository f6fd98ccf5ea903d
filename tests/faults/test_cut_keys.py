"""An upstream that quotes its account's key in pieces, over sockets, in every pair: nothing of the
key reaches the client, whatever comes between its pieces and however they are escaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from dragoman.canonical.masking import Mask
from dragoman.protocols.settings import make_options
from dragoman.server.testing import RunningGateway
from dragoman.translation import Call as Translated
from dragoman.translation import CallSettings, ClientRequest
from tests.faults.conftest import Over, rested
from tests.faults.upstream import Upstream, answer, event, is_streamed, streamed
from tests.gateway.clients import APIS, PATHS, body, completed, streamed_text
from tests.gateway.http import call
from tests.tables.cells import ROLE, STOP, chat_chunk, message_end, message_start, text_block
from tests.upstream.servers import Call, Handler

SECRET = "sk-live-zGthJvkLmw"
SHOWN = re.compile(r"a s?k?\[hidden\] z")
SPELLINGS = {
    "plain": SECRET,
    "percent": SECRET.replace("-", "%2D"),
    "partly percent": SECRET.replace("-", "%2d", 1),
    "unit": SECRET.replace("-", "\\u002d"),
}
RESPONSE = {"id": "resp_u1", "object": "response", "created_at": 7, "model": "m", "output": []}


def pieces(target: str, texts: list[str], between: str) -> list[Any]:
    """An answer that says the texts, with something else between them."""
    noise = [] if between == "nothing" else NOISE[target][between]
    said: list[Any] = []
    for text in texts:
        said += [*noise, *DELTAS[target](text)] if said else DELTAS[target](text)
    if target == "chat":
        return [ROLE, *said, STOP, b"[DONE]"]
    if target == "messages":
        start, end = text_block(0)
        other = text_block(1, "live-")
        return [message_start(), start, other[0], *said, other[-1], end, *message_end()]
    done = {**RESPONSE, "status": "completed"}
    return [
        {"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}},
        *said,
        {"type": "response.completed", "response": done},
    ]


def responses_delta(text: str, index: int = 0) -> list[Any]:
    place = {"output_index": index, "content_index": 0, "item_id": f"msg_{index}"}
    return [{"type": "response.output_text.delta", **place, "delta": text}]


DELTAS: dict[str, Callable[[str], list[Any]]] = {
    "chat": lambda text: [chat_chunk({"content": text})],
    "messages": lambda text: text_block(0, text)[1:-1],
    "responses": responses_delta,
}
COMMENT = b": and so on\n\n"
NOISE: dict[str, dict[str, list[Any]]] = {
    "chat": {
        "comment": [COMMENT],
        "empty": [chat_chunk({"content": ""}), chat_chunk({})],
        "another": [chat_chunk({"reasoning_content": "live-"})],
    },
    "messages": {
        "comment": [COMMENT, {"type": "ping"}],
        "empty": text_block(0, "")[1:-1],
        "another": text_block(1, "live-")[1:-1],
    },
    "responses": {
        "comment": [COMMENT, {"type": "response.in_progress", "response": RESPONSE}],
        "empty": responses_delta(""),
        "another": responses_delta("live-", 1),
    },
}


def saying(events: list[Any]) -> Handler:
    async def handler(call: Call) -> None:
        if is_streamed(call):
            parts = [one if one is COMMENT else event(one) for one in events]
            await call.send(streamed(parts))
        else:
            await call.send(answer(b"{}", 500))

    return handler


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(SECRET)


def told(gateway: RunningGateway, upstream: Upstream, pair: str, events: list[Any]) -> str:
    """The text that the client of a pair is streamed, without that of other blocks."""
    client, target = pair.split(" of ")
    upstream.behaviours[SECRET] = saying(events)
    rested(gateway)
    made = body(client, f"{target}/m", stream=True)
    stream = call(gateway.base_url, "POST", PATHS[client], made).body
    assert completed(client, stream)
    assert b"zGthJ" not in stream
    assert b"vkLmw" not in stream
    return streamed_text(client, stream).replace("live-", "")


PAIRS = [f"{client} of {target}" for client in APIS for target in APIS]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_cut_at_any_byte(
    gateway: RunningGateway, upstream: Upstream, pair: str, spelling: str
) -> None:
    target = pair.split(" of ")[1]
    written = SPELLINGS[spelling]
    for cut in range(1, len(written)):
        between = ["nothing", *NOISE[target]][cut % (1 + len(NOISE[target]))]
        parts = [f"a {written[:cut]}", f"{written[cut:]} z"]
        said = told(gateway, upstream, pair, pieces(target, parts, between))
        assert SHOWN.fullmatch(said), (between, parts, said)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_key_in_three_pieces_with_anything_between(
    gateway: RunningGateway, upstream: Upstream, pair: str
) -> None:
    target = pair.split(" of ")[1]
    cuts = list(combinations(range(1, len(SECRET)), 2))
    for number, (first, second) in enumerate(cuts[::3]):
        between = sorted(NOISE[target])[number % len(NOISE[target])]
        parts = [f"a {SECRET[:first]}", SECRET[first:second], f"{SECRET[second:]} z"]
        said = told(gateway, upstream, pair, pieces(target, parts, between))
        assert SHOWN.fullmatch(said), (between, parts, said)


def test_no_numbered_keepalive_precedes_what_waits() -> None:
    asked = ClientRequest("openai_responses", b'{"model":"m","stream":true,"input":"hi"}')
    options = make_options(keepalive="numbered")
    translated = Translated(asked, "openai_chat", CallSettings(options=options))
    translated.mask = Mask([SECRET])
    stream = translated.open_stream()
    stream.feed(event(ROLE) + event(chat_chunk({"content": "a"})))
    assert b"sequence_number" in stream.keepalive()
    assert not stream.waits
    assert stream.feed(event(chat_chunk({"content": SECRET[:5]}))) == b""
    assert stream.waits
    assert SECRET[:5].encode() in stream.finish()
