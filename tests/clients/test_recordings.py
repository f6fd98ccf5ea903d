"""The recorded requests of real clients, through the translation."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.bodies import agent
from dragoman.canonical.losses import LossKind
from tests.clients import recordings as recordings_module
from tests.clients.filler import Filler
from tests.clients.prefixes import broken_prefix
from tests.clients.recordings import PROTOCOLS, Recording, recordings
from tests.library import translate_request
from tools.pages import client_losses

CELLS = [
    pytest.param(recording, upstream, id=f"{recording.name}-{upstream}")
    for recording in recordings()
    for upstream in PROTOCOLS.values()
]
BILLED = ("claude-code", "claude-code-other-model")
"""Recordings that begin with a text for Anthropic's invoice."""

MOVES_MARKS = frozenset({*BILLED, "opencode-messages", "pi-messages", "qwen-code-messages"})
"""Clients that move their cache marks from turn to turn, and write texts now so, now so."""

_LARGE = 25_000
"""Bytes of a request whose size is the agent's own."""


@pytest.mark.parametrize(("recording", "upstream"), CELLS)
def test_no_request_is_refused(recording: Recording, upstream: str) -> None:
    """Every turn translates in the balanced policy; its own protocol loses nothing."""
    for turn in recording.turns:
        call = translate_request(recording.protocol, upstream, turn.encoded, model="theirs")

        assert json.loads(call.body)["model"] == "theirs"
        assert LossKind.CONTENT not in {loss.kind for loss in call.losses}
        if upstream == recording.protocol:
            body = turn.body
            if recording.name in BILLED:
                # Kept only for the vendor's own service, as the route's capabilities tell.
                assert [loss.path for loss in call.losses] == ["system[0]"]
                body = {**body, "system": body["system"][1:]}
            else:
                assert call.losses == ()
            assert json.loads(call.body) == {**body, "model": "theirs", **_asked(body)}


def _asked(body: dict[str, object]) -> dict[str, object]:
    """Streams of Chat upstreams are asked for usage, whatever the client wants."""
    wanted = body.get("stream") and "messages" in body and "max_tokens" not in body
    return {"stream_options": {"include_usage": True}} if wanted else {}


@pytest.mark.parametrize(("recording", "upstream"), CELLS)
def test_a_turn_repeats_the_turn_before(recording: Recording, upstream: str) -> None:
    """What the upstream received before is the beginning of what it receives next, so that its
    prompt cache finds it: byte for byte, where the client itself does not move its cache marks.
    """
    calls = [
        translate_request(recording.protocol, upstream, turn.encoded)
        for turn in recording.conversation
    ]
    assert len(calls) >= 2
    moved = recording.name in MOVES_MARKS and upstream == recording.protocol

    for earlier, later in pairwise(json.loads(call.body) for call in calls):
        assert broken_prefix(upstream, earlier, later, exact=not moved) == ""


@pytest.mark.parametrize("name", BILLED)
def test_the_nonce_of_the_billing_header_reaches_no_other_vendor(name: str) -> None:
    recording = next(one for one in recordings() if one.name == name)
    body = recording.turns[0].body
    assert body["system"][0]["text"].startswith("x-anthropic-billing-header:")

    for upstream in ("openai_chat", "openai_responses"):
        call = translate_request(recording.protocol, upstream, recording.turns[0].encoded)
        assert b"billing-header" not in call.body


def test_there_is_a_recording_of_each_kind() -> None:
    assert {recording.api for recording in recordings()} == {"chat", "messages", "responses"}
    assert all(len(recording.turns) >= 2 for recording in recordings())
    sizes = [len(turn.encoded) for one in recordings() for turn in one.turns]
    assert max(sizes) > 80_000, "an agent's request is large"


def test_the_page_is_up_to_date() -> None:
    assert client_losses.PAGE.read_text() == client_losses.page(), (
        "run python -m tools.pages.client_losses"
    )


def test_the_agent_of_the_benchmark_is_no_lighter() -> None:
    """The request whose cost has a budget is at least what real agents send in size, JSON objects
    and turns, and in tools what the large ones do: cline sends more, but short ones."""
    made = agent("anthropic_messages", "theirs")
    real = [turn.encoded for one in recordings() for turn in one.turns]

    assert len(made) >= max(map(len, real))
    for weight, least in ((_objects, 0), (_turns, 0), (_tools, _LARGE)):
        bodies = [json.loads(encoded) for encoded in real if len(encoded) >= least]
        assert weight(json.loads(made)) >= max(map(weight, bodies))


def _tools(body: dict[str, Any]) -> int:
    return len(body.get("tools") or ())


def _turns(body: dict[str, Any]) -> int:
    return len(body.get("messages") or body["input"])


def _objects(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_objects, value.values()))
    return sum(map(_objects, value)) if isinstance(value, list) else 0


# The measure and the filler -------------------------------------------------------------------


def test_a_broken_prefix_is_found() -> None:
    """Another first word, an item left out, another order of tools; marks only where exact."""
    said = {"role": "user", "content": "Hello"}
    marked = {
        "role": "user",
        "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}],
    }
    more = [said, {"role": "assistant", "content": "Hi"}]

    def broken(*messages: object, exact: bool = False) -> str:
        bodies = [{"messages": one} for one in messages]
        return broken_prefix("anthropic_messages", *bodies, exact=exact)

    assert broken([said], more) == ""
    assert broken([said], more, exact=True) == ""
    assert broken([marked], more) == ""
    assert "messages" in broken([marked], more, exact=True)
    assert "messages" in broken(more, [said])
    assert "messages" in broken([{**said, "content": "hello"}], more)
    tools = [{"name": "a"}, {"name": "b"}]
    earlier, later = {"tools": tools, "messages": []}, {"tools": tools[::-1], "messages": []}
    assert "tools" in broken_prefix("openai_chat", earlier, later)


def test_a_recording_is_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns are stored by their differences, also where one is shorter than the one before."""
    bodies: list[dict[str, Any]] = [
        {"model": "a", "messages": [1, 2], "tools": [{"name": "x"}]},
        {"model": "a", "messages": [], "thinking": {"type": "adaptive"}},
        {"model": "b", "messages": [1, 2, 3], "tools": [{"name": "x"}, {"name": "y"}]},
        {"model": "b", "messages": [1, 4], "instructions": "Long. " * 20},
        {"model": "b", "messages": [1, 4], "instructions": "Long. " * 20},
    ]
    turns = tuple(recordings_module.Turn("/v1/messages", {"accept": "x"}, body) for body in bodies)
    made = Recording("made", "a client 1", "messages", turns)
    monkeypatch.setattr(recordings_module, "FOLDER", tmp_path)

    recordings_module.write(made)
    recordings.cache_clear()
    try:
        assert recordings() == (made,)
    finally:
        recordings.cache_clear()


def test_filler_keeps_shapes_and_no_words() -> None:
    body = {
        "model": "gpt-5.5",
        "input": [
            {"type": "message", "id": "msg_0a1b-2c", "role": "user", "content": "Secret words 12"},
            {"type": "function_call", "name": "write", "arguments": '{"path":"/home/me/x.txt"}'},
        ],
        "tools": [
            {
                "type": "function",
                "name": "write",
                "description": "Writes it.",
                "parameters": {
                    "type": "object",
                    "description": "What",
                    "properties": {"description": {"type": "string", "enum": ["big"]}},
                    "required": ["description"],
                },
            }
        ],
    }

    filled = Filler(b"secret").body(body)
    text = json.dumps(filled)

    assert not [word for word in ("Secret", "home", "Writes", "What", "0a1b") if word in text]
    assert len(text) == len(json.dumps(body))
    assert filled["input"][0]["id"].startswith("msg_")
    assert filled["input"][0]["role"] == "user"
    assert json.loads(filled["input"][1]["arguments"]).keys() == {"path"}
    schema = filled["tools"][0]["parameters"]
    assert schema["properties"] == body["tools"][0]["parameters"]["properties"]  # type: ignore[index]
    assert schema["required"] == ["description"]


def test_filler_keeps_beginnings() -> None:
    """A text that goes on where another one ends still does; numbers stay apart."""
    filler = Filler(b"secret")
    first, second = filler.text("one two"), filler.text("one two three")

    assert second.startswith(first)
    assert filler.text("nonce 12345678") != filler.text("nonce 87654321")
    assert filler.text("one two") == first
