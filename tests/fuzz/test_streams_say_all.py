"""Whatever an upstream's stream holds, its text, calls and reasoning arrive, or it fails openly.

Real streams have their indexes, ids, names and terminators damaged; no piece of what the model said
is touched. DRAGOMAN_FUZZ_STREAMS sets how many are tried.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from tests.checkers import CHECKERS
from tests.fuzz.counts import STREAMS
from tests.library import translate_request
from tests.losses.clients import asking
from tests.losses.requests import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.protocols.openai_responses.upstream import events_of
from tests.tables.cells import ROLE, STOP, block, chat_chunk, chat_stream, text_block, tool_block
from tests.tables.test_odd_streams_from_chat import TWO
from tests.tables.test_odd_streams_from_messages import BEGIN, ENDING
from tests.tables.test_odd_streams_from_responses import EVENTS, NAMELESS

Json = dict[str, Any]

BATCHES = 4
LENIENT = make_options(policy=Policy.LENIENT)
GOLDEN = Path(__file__).parent.parent / "golden"

INDEXES = ("index", "output_index", "content_index", "summary_index")
IDS = ("id", "item_id", "call_id")
TERMINALS = ("message_stop", "response.completed", "response.incomplete")
ENDS = ("stop", "done", "completed", "incomplete", "message_delta", "finish", "[DONE]")


def decoded(stream: bytes) -> list[Any]:
    """The data of a stream's events; text that is no JSON as it is."""
    found: list[Any] = []
    for frame in stream.split(b"\n\n"):
        data = b"".join(line[6:] for line in frame.split(b"\n") if line.startswith(b"data: "))
        if data:
            found.append("[DONE]" if data == b"[DONE]" else msgspec.json.decode(data))
    return found


THINKING = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "let me"},
    {"type": "thinking_delta", "thinking": " think"},
    {"type": "signature_delta", "signature": "S"},
)
CORPUS: dict[str, list[list[Any]]] = {
    CHAT: [
        decoded((GOLDEN / "chat.sse").read_bytes()),
        decoded(TWO),
        decoded(
            chat_stream(
                ROLE,
                *(chat_chunk({"reasoning_content": piece}) for piece in ("hm", "so", "then")),
                *(chat_chunk({"content": piece}) for piece in ("one ", "two ", "three")),
                STOP,
            )
        ),
    ],
    MESSAGES: [
        decoded((GOLDEN / "messages.sse").read_bytes()),
        [
            BEGIN,
            *THINKING,
            *text_block(1, "one ", "two ", "three"),
            *tool_block(2, 1, '{"a":', '"first"}'),
            *tool_block(3, 2, '{"b":', '"second"}'),
            *text_block(4, "four"),
            *ENDING,
        ],
    ],
    RESPONSES: [
        decoded((GOLDEN / "responses.sse").read_bytes()),
        list(EVENTS),
        events_of(NAMELESS),
    ],
}


def told(events: list[Any]) -> dict[str, list[str]]:
    """The pieces of texts, reasoning and arguments in a stream of any protocol, up to its end."""
    found: dict[str, list[str]] = {"text": [], "reasoning": [], "arguments": []}

    def note(kind: str, piece: object) -> None:
        if isinstance(piece, str) and piece.strip():
            found[kind].append(piece)

    for event in events:
        if not isinstance(event, dict) or event.get("type") in TERMINALS:
            break
        for choice in event.get("choices", ()):
            delta = choice.get("delta") or {}
            note("text", delta.get("content"))
            note("text", delta.get("refusal"))
            note("reasoning", delta.get("reasoning_content"))
            for call in delta.get("tool_calls") or ():
                note(
                    "arguments", (call.get("function") or call.get("custom") or {}).get("arguments")
                )
                note("arguments", (call.get("custom") or {}).get("input"))
        kind, delta = str(event.get("type")), event.get("delta")
        if kind == "content_block_delta" and isinstance(delta, dict):
            note("text", delta.get("text"))
            note("reasoning", delta.get("thinking"))
            note("arguments", delta.get("partial_json"))
        elif kind.endswith(".delta"):
            of_reasoning = "reasoning" in kind
            of_call = "arguments" in kind or "input" in kind
            note("reasoning" if of_reasoning else "arguments" if of_call else "text", delta)
    return found


def objects(value: Any) -> list[Json]:
    """All objects in a value."""
    if isinstance(value, dict):
        return [value, *(inner for item in value.values() for inner in objects(item))]
    if isinstance(value, list):
        return [inner for item in value for inner in objects(item)]
    return []


def damage(rng: random.Random, events: list[Any]) -> tuple[list[Any], bool]:
    """A damaged copy of a stream, and whether its events keep their names."""
    made: list[Any] = msgspec.json.decode(msgspec.json.encode(events))
    named = True
    for _ in range(rng.randint(1, 3)):
        match rng.randrange(7):
            case 0:  # every index of one kind the same
                name = rng.choice(INDEXES)
                for item in objects(made):
                    if name in item:
                        item[name] = 0
            case 1:
                named_items = [item for item in objects(made) if not IDS_OF.isdisjoint(item)]
                for item in named_items if rng.random() < 0.5 else _some(rng, named_items):
                    _spoil(rng, item, rng.choice(IDS), rng.choice(("x_0", "", None, 5)))
            case 2:
                for item in _some(rng, objects(made)):
                    _spoil(rng, item, rng.choice(INDEXES), rng.choice((0, 1, 2, 7, None, "0")))
            case 3:
                name = rng.choice((*INDEXES, *IDS, "sequence_number"))
                for item in objects(made):
                    item.pop(name, None)
            case 4:
                named = False
            case 5:  # without ends of one kind, or with one of them once more
                ends = [number for number, event in enumerate(made) if _is_end(event)]
                if ends:
                    at = rng.choice(ends)
                    if rng.random() < 0.5:
                        del made[at]
                    else:
                        made.insert(rng.randrange(len(made)), copy.deepcopy(made[at]))
            case _:
                for item in _some(rng, objects(made)):
                    word = rng.choice(("stop_reason", "finish_reason", "status", "name"))
                    _spoil(rng, item, word, rng.choice((None, "", "strange", "in_progress")))
    return made, named


IDS_OF = frozenset(IDS)


def _some(rng: random.Random, items: list[Json]) -> list[Json]:
    return rng.sample(items, min(len(items), rng.randint(1, 4)))


def _spoil(rng: random.Random, item: Json, name: str, value: Any) -> None:
    if name in item:
        item[name] = value


def _is_end(event: Any) -> bool:
    kind = event if isinstance(event, str) else str(event.get("type"))
    return any(word in kind for word in ENDS) or '"finish_reason": "' in json.dumps(event)


def encoded(events: list[Any], *, named: bool) -> bytes:
    """The bytes of a stream."""
    written = []
    for event in events:
        if isinstance(event, str):
            written.append(f"data: {event}\n\n")
            continue
        name = f"event: {event['type']}\n" if named and "type" in event else ""
        data = msgspec.json.encode(event).decode()
        written.append(f"{name}data: {data}\n\n")
    return "".join(written).encode()


def check(client: str, upstream: str, stream: bytes, said: dict[str, list[str]]) -> bool:
    """Whether the stream succeeded; if it did, all that it said has arrived."""
    body = asking(client, stream=True)
    made = translate_request(client, upstream, msgspec.json.encode(body), options=LENIENT)
    translator = made.open_stream()
    shown = translator.feed(stream) + translator.finish()
    verdict = CHECKERS[client](shown)
    assert translator.over
    if not verdict.succeeded:
        return False
    arrived = {kind: "".join(pieces) for kind, pieces in told(decoded(shown)).items()}
    for kind, pieces in said.items():
        for piece in pieces:
            assert piece in arrived[kind], f"{piece!r} of {kind} is lost: {arrived}"
    return True


@pytest.mark.parametrize("batch", range(BATCHES))
def test_all_that_is_said_arrives_or_the_answer_fails(batch: int) -> None:
    rng = random.Random(batch)
    outcomes = {True: 0, False: 0}
    for number in range(STREAMS // BATCHES):
        upstream = PROTOCOLS[number % 3]
        events, named = damage(rng, rng.choice(CORPUS[upstream]))
        stream, said = encoded(events, named=named), told(events)
        for client in PROTOCOLS:
            if client == upstream:
                continue
            try:
                outcomes[check(client, upstream, stream, said)] += 1
            except AssertionError as error:
                pytest.fail(f"{upstream} to {client}: {error} of {stream.decode()}")

    assert min(outcomes.values()) > STREAMS // BATCHES // 10, "the damage is too small or too great"


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_the_streams_themselves_arrive(upstream: str) -> None:
    for events in CORPUS[upstream]:
        for client in PROTOCOLS:
            if client != upstream:
                assert check(client, upstream, encoded(events, named=True), told(events))
