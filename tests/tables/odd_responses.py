"""Streams of Responses servers that read the protocol their own way."""

from __future__ import annotations

from tests.protocols.openai_responses.upstream import (
    call,
    custom_call,
    events_of,
    message,
    reasoning,
    refusal,
    response,
    text,
)

SPAN = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 3}
ANSWER = response(
    reasoning("First", "second", encrypted_content="E"),
    message(text("Hello", annotations=[SPAN]), refusal("no")),
    call('{"a":1}'),
    custom_call("free"),
)
EVENTS = events_of(ANSWER)

HELLO = response(message(text("Hello")))

NAMELESS = response(
    message(text("one"), id="msg_u1"),
    call('{"a":1}', id="fc_u1"),
    message(text("two"), id="msg_u2"),
    call('{"b":2}', id="fc_u2", call_id="call_9", name="h"),
)
