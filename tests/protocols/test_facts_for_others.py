"""What the rest of the gateway asks a protocol about its own bodies."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.jsontext import members
from dragoman.protocols import CODECS
from dragoman.protocols.base import AnswerNames, Endpoint
from dragoman.protocols.caching import marked_writes
from dragoman.protocols.json_array import ARRAY
from dragoman.serving.affinity import names_in
from dragoman.sse import encode

NAMES = {"id": "a1", "model": "m"}


@pytest.mark.parametrize(
    ("protocol", "event"),
    [
        ("openai_chat", NAMES),
        ("anthropic_messages", {"type": "message_start", "message": NAMES}),
        ("openai_responses", {"type": "response.created", "response": NAMES}),
    ],
)
def test_what_an_answer_is_known_by(protocol: str, event: dict[str, Any]) -> None:
    codec = CODECS[protocol]
    assert names_in(codec, msgspec.json.encode(NAMES)) == AnswerNames("a1", "m")
    stream = b"event: first\ndata: %b\n\n" % msgspec.json.encode(event)
    assert names_in(codec, stream) == AnswerNames("a1", "m")
    for odd in (b"", b"{}", b"[]", b"data: [DONE]\n\n", b'{"id":1,"model":[]}', b"{"):
        assert names_in(codec, odd) == AnswerNames()


@pytest.mark.parametrize(
    ("protocol", "body", "found"),
    [
        (
            "openai_chat",
            {"n": 2, "response_format": {"type": "json_schema", "json_schema": {"a": "b" * 999}}},
            {"choice.count": b"2", "output.type": b'"json_schema"'},
        ),
        ("anthropic_messages", {"output_config": {"effort": "low"}}, {"reasoning.level": b'"low"'}),
        ("openai_responses", {"conversation": "c1"}, {"conversation.id": b'"c1"'}),
        ("openai_responses", {"conversation": {"id": "c1"}}, {"conversation.id": b'"c1"'}),
        (
            "openai_responses",
            {"text": {"format": {"type": "text"}}, "reasoning": 1},
            {"output.type": b'"text"'},
        ),
    ],
)
def test_settings_for_traces(protocol: str, body: Any, found: dict[str, bytes]) -> None:
    settings = CODECS[protocol].endpoint.settings(members(msgspec.json.encode(body)))
    assert {name: bytes(raw) for name, raw in settings.items()} == found


@pytest.mark.parametrize(
    ("body", "writes"),
    [
        (b"{}", (False, False)),
        (b'{"cache_control":{}}', (True, False)),
        (b'{"cache_control":{"ttl":"1h"}}', (True, True)),
        (b'{"cache\\u005fcontrol":{}}', (True, True)),
    ],
)
def test_writes_to_a_cache(body: bytes, writes: tuple[bool, bool]) -> None:
    assert marked_writes(body) == writes


@pytest.mark.parametrize("missing", ["limits", "limited"])
def test_there_is_no_endpoint_without_output_limits(missing: str) -> None:
    """Else limits of keys would not hold for its clients, and nothing would say so."""
    known = CODECS["openai_chat"].endpoint
    fields = {name: getattr(known, name) for name in known.__struct_fields__}
    assert Endpoint(**fields) == replace(known)
    del fields[missing]
    with pytest.raises(TypeError, match=f"Missing required argument '{missing}'"):
        Endpoint(**fields)


def test_streams_as_one_array() -> None:
    framing = ARRAY.framing()
    events = [encode(b'{"a":1}'), encode(b'{"b":2}') + encode(b"[3]"), b": keepalive\n\n", b""]
    written = b"".join(map(framing.write, events)) + framing.end()
    assert msgspec.json.decode(written) == [{"a": 1}, {"b": 2}, [3]]
    assert ARRAY.framing().end() == b"[]"
    assert ARRAY.framing().write(b"\n") == b"\n"
