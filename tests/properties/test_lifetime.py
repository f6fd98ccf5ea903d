"""What an open stream keeps in memory, and what an answer leaves behind."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator

import msgspec
import pytest

from dragoman.canonical.blocks import Block, Refusal, Text, ToolCall
from dragoman.canonical.events import Closed, Delta, Event, Opened, Started
from dragoman.canonical.requests import Request
from dragoman.protocols import CODECS
from dragoman.sse import Decoder
from tests.library import translate_request
from tests.losses.clients import asking
from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.properties.cells import CELLS, LATEST_CROSSINGS, inbound, reply, write_stream


def reachable(root: object) -> Iterator[object]:
    """Every object that `root` keeps alive, but for code."""
    code = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    seen, ahead = {id(root)}, [root]
    while ahead:
        found = ahead.pop()
        yield found
        held = gc.get_referents(found)
        if isinstance(found, msgspec.Struct):
            # Those that hold no container are not known to the collector.
            held += [getattr(found, name) for name in found.__struct_fields__]
        for item in held:
            if id(item) not in seen and not isinstance(item, code):
                seen.add(id(item))
                ahead.append(item)


@pytest.mark.parametrize(("client", "upstream"), [*CELLS, *LATEST_CROSSINGS])
def test_a_stream_does_not_hold_the_request(client: str, upstream: str) -> None:
    """A stream may be long, and a request large."""
    body = msgspec.json.encode(asking(client, stream=True))
    options = {"policy": "lenient"}
    stream = translate_request(client, upstream, body, options=options).open_stream()
    assert not [held for held in reachable(stream) if isinstance(held, Request)]


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_a_stream_does_not_hold_its_text(client: str) -> None:
    """What was sent is gone; Responses clients are sent all of it once more at the end."""
    writer = CODECS[client].translate.answer_writer(reply(client, stream=True), True)
    writer.write(Started("1", "m"))
    blocks: tuple[Block, ...] = (Text(text=""), ToolCall(id="c", name="f"), Refusal(text=""))
    for number, head in enumerate(blocks):
        for event in (Opened(number, head), Delta(number, "a needle"), Closed(number)):
            writer.write(event)
        held = [item for item in reachable(writer) if item == "a needle"]
        # Messages clients are told the words of a refusal once more.
        assert len(held) == (client == MESSAGES and type(head) is Refusal)


def test_a_responses_stream_holds_no_more_than_its_answer() -> None:
    """All of it is sent once more at the end, so it is kept, but not piece by piece."""
    writer = CODECS[RESPONSES].translate.answer_writer(reply(RESPONSES, stream=True), True)
    begun: tuple[Event, ...] = (Started("1", "m"), Opened(0, Text(text="")), Delta(0, "x"))
    for event in begun:
        writer.write(event)
    before = _size(writer)
    text = "".join([f"word{number} " for number in range(2000)])
    for word in text.split(" "):
        writer.write(Delta(0, word + " "))
    assert _size(writer) - before < 1.3 * len(text)
    for event in (Closed(0), Opened(1, ToolCall(id="c", name="f")), Delta(1, "{}"), Closed(1)):
        writer.write(event)
    assert _size(writer) - before < 1.3 * len(text) + 2000


def _size(root: object) -> int:
    """Bytes of all that `root` keeps alive."""
    return sum(
        len(bytes(held)) if isinstance(held, msgspec.Raw) else sys.getsizeof(held)
        for held in reachable(root)
    )


@pytest.mark.parametrize("upstream", CODECS)
def test_a_reader_dies_with_its_last_reference(upstream: str) -> None:
    """The collector, which would find cycles, rarely runs."""
    reader = CODECS[upstream].translate.stream_reader(inbound())
    begun = write_stream(upstream, [Started("1", "m"), Opened(0, Text(text="")), Delta(0, "Hi")])
    assert [event for frame in Decoder().feed(begun) for event in reader.read(frame)]
    holders = [held for held in reachable(reader) if _holds(held, reader)]
    assert not holders


def _holds(holder: object, held: object) -> bool:
    return any(item is held for item in gc.get_referents(holder))
