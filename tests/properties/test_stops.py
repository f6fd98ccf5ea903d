"""Emulated stop sequences in answers of any protocol, however they come."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import Text
from dragoman.canonical.events import Closed, Delta, Ended, Event, Finished, Opened, Started
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from dragoman.translation import Call
from tests.checkers import CHECKERS
from tests.folded import Response, fold
from tests.library import translate_request
from tests.losses.clients import asking
from tests.losses.requests import CHAT, MESSAGES, RESPONSES
from tests.properties import strategies as own
from tests.properties.cells import (
    read_stream,
    read_whole,
    write_stream,
    write_whole,
)

EMULATE = make_options(policy=Policy.LENIENT, stop_on_responses="emulate")
TAKEN = {CHAT: ["no", "nor", "never", "neither"], MESSAGES: ["no"], RESPONSES: []}
"""Sent upstream, so that all others are emulated."""

STOPS = {CHAT: "ab🙂\n", MESSAGES: " \n\t", RESPONSES: "ab🙂\n"}
"""What stop sequences are made of: Messages upstreams take all but blank ones."""

PAIRS = [(CHAT, MESSAGES), (CHAT, RESPONSES), (MESSAGES, CHAT), (MESSAGES, RESPONSES)]


def asked(client: str, upstream: str, stops: list[str], *, stream: bool) -> Call:
    name = "stop" if client == CHAT else "stop_sequences"
    body = {**asking(client, stream), name: [*TAKEN[upstream], *stops]}
    made = translate_request(client, upstream, msgspec.json.encode(body), options=EMULATE)
    assert any(loss.path == name for loss in made.losses)
    return made


def told(answer: Response) -> tuple[str, FinishReason, str | None]:
    """What of an answer is the same however it came."""
    text = "".join(block.text for block in answer.blocks if isinstance(block, Text))
    return text, answer.finish.reason, answer.finish.stop_sequence


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@given(data=st.data())
def test_however_the_answer_comes(client: str, upstream: str, data: st.DataObject) -> None:
    """Whole or streamed, cut anywhere, and as the upstream was asked or not: it ends at the same
    place."""
    alphabet = STOPS[upstream]
    text = "-" + data.draw(st.text("x" + alphabet, max_size=20))
    stop = st.text(alphabet, min_size=1, max_size=3)
    stops = data.draw(st.lists(stop, min_size=1, max_size=3, unique=True))
    events: list[Event] = [Started("a", "m"), Opened(0, Text(text=""))]
    events += [Delta(0, piece) for piece in data.draw(own.pieces(text))]
    events += [Closed(0), Finished(Finish(FinishReason.STOP)), Ended()]
    stream = write_stream(upstream, events)
    whole = msgspec.json.encode(write_whole(upstream, fold(events)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))

    translator = asked(client, upstream, stops, stream=True).open_stream()
    shown = b"".join(
        translator.feed(stream[start:end])
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    )
    shown += translator.finish()
    from_whole = asked(client, upstream, stops, stream=False).translate_response(whole)
    from_stream = asked(client, upstream, stops, stream=False).stream_as_response(stream)
    streamed = asked(client, upstream, stops, stream=True).response_as_stream(whole)

    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    kept = text[: min(places, default=len(text))]
    seen = {
        told(fold(read_stream(client, shown))),
        told(fold(read_stream(client, streamed))),
        told(read_whole(client, msgspec.json.decode(from_whole))),
        told(read_whole(client, msgspec.json.decode(from_stream))),
    }
    assert len(seen) == 1
    assert seen.pop()[0] == kept
    for written in (shown, streamed):
        verdict = CHECKERS[client](written)
        assert verdict.succeeded
        assert verdict.text == kept
