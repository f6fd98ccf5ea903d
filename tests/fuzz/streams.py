"""Streams as their events, and pieces to make them of."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from dragoman.canonical.losses import Policy
from dragoman.protocols.settings import make_options
from tests.fuzz.readings import Reading, Step, Told, says_the_same, steps_of
from tests.fuzz.spellings import respell
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES
from tests.protocols.openai_responses.upstream import events_of
from tests.tables.cells import ROLE, STOP, block, chat_chunk, chat_stream, text_block, tool_block
from tests.tables.odd_chat import TWO
from tests.tables.odd_messages import BEGIN, ENDING
from tests.tables.odd_responses import EVENTS, NAMELESS

Json = dict[str, Any]


def decoded(stream: bytes) -> list[Any]:
    """The data of a stream's events; text that is no JSON as it is."""
    found: list[Any] = []
    for frame in stream.replace(b"\r", b"").split(b"\n\n"):
        data = b"".join(line[6:] for line in frame.split(b"\n") if line.startswith(b"data: "))
        if data:
            found.append("[DONE]" if data == b"[DONE]" else msgspec.json.decode(data))
    return found


def fragment(at: int, text: str, **head: Any) -> Json:
    """A fragment of a tool call in a chunk of its own."""
    function = {"arguments": text, **({"name": head.pop("name")} if head else {})}
    return chat_chunk({"tool_calls": [{"index": at, **head, "function": function}]})


BATCHES = 4
LENIENT = make_options(policy=Policy.LENIENT)
GOLDEN = Path(__file__).parent.parent / "golden"
INDEXES = ("index", "output_index", "content_index", "summary_index")
IDS = ("id", "item_id", "call_id")
ENDS = ("stop", "done", "completed", "incomplete", "message_delta", "finish", "[DONE]")
THINKING = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "let me"},
    {"type": "thinking_delta", "thinking": " think"},
    {"type": "signature_delta", "signature": "S"},
)


def unlisted(events: list[Any]) -> list[Any]:
    """A stream whose last event repeats nothing of it, as those of bridges."""
    *body, terminal = events
    return [*body, {**terminal, "response": {**terminal["response"], "output": []}}]


CORPUS: dict[str, list[list[Any]]] = {
    CHAT: [
        decoded((GOLDEN / "chat.sse").read_bytes()),
        decoded(TWO),
        decoded(
            chat_stream(
                ROLE,
                fragment(0, "", id="call_1", type="function", name="f"),
                fragment(0, '{"a":'),
                fragment(0, '"first"}'),
                fragment(1, '{"b":', id="call_2", type="function", name="g"),
                fragment(1, '"second"}'),
                chat_chunk({}, "tool_calls"),
            )
        ),
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
        unlisted(events_of(NAMELESS)),
        unlisted(EVENTS),
    ],
    GOOGLE: [
        decoded((GOLDEN / "google_calls.sse").read_bytes()),
        decoded((GOLDEN / "google_signed_text.sse").read_bytes()),
    ],
}
STEPS = {
    protocol: [steps_of(protocol, events) for events in streams]
    for protocol, streams in CORPUS.items()
}


def objects(value: Any) -> list[Json]:
    """All objects in a value."""
    if isinstance(value, dict):
        return [value, *(inner for item in value.values() for inner in objects(item))]
    if isinstance(value, list):
        return [inner for item in value for inner in objects(item)]
    return []


@dataclass
class Damaged:
    """A damaged stream: `named` is whether its events keep their names, `ordered` whether they keep
    their order, `placed` whether they keep the numbers of what they belong to."""

    steps: list[Step]
    named: bool = True
    ordered: bool = True
    placed: bool = True

    def objects(self) -> list[Json]:
        """All objects in its events."""
        return objects([step.event for step in self.steps])


def damage(rng: random.Random, protocol: str, steps: list[Step]) -> Damaged:
    """A damaged copy of a stream, or one in other shapes, or both. What says things again does
    so in order and in their place, and under one name."""
    spelled = rng.random() < 0.4
    made = Damaged(respell(rng, protocol, steps) if spelled else copy.deepcopy(steps))
    kinds = IN_ORDER if spelled else DAMAGES
    if protocol == GOOGLE:  # whose indexes say which answer a piece is of
        kinds = tuple(one for one in kinds if one is not _indexes)
    if spelled and any(step.again for step in made.steps):
        kinds = tuple(one for one in kinds if one is not _renamed)
    for _ in range(rng.randint(0 if spelled else 1, 3)):
        rng.choice(kinds)(rng, made)
    return made


def _index_zero(rng: random.Random, made: Damaged) -> None:
    """Every index of one kind the same."""
    name = rng.choice(INDEXES)
    for item in made.objects():
        _spoil(item, name, 0)


def _ids(rng: random.Random, made: Damaged) -> None:
    made.placed = False
    items = [item for item in made.objects() if not IDS_OF.isdisjoint(item)]
    for item in items if rng.random() < 0.5 else _some(rng, items):
        _spoil(item, rng.choice(IDS), rng.choice(("x_0", "", None, 5)))


def _indexes(rng: random.Random, made: Damaged) -> None:
    made.placed = False
    for item in _some(rng, made.objects()):
        _spoil(item, rng.choice(INDEXES), rng.choice((0, 1, 2, 7, None, "0")))


def _left_out(rng: random.Random, made: Damaged) -> None:
    """No member of one name anywhere."""
    name = rng.choice((*INDEXES, *IDS, "sequence_number"))
    made.placed = False
    for item in made.objects():
        item.pop(name, None)


def _unnamed(rng: random.Random, made: Damaged) -> None:
    made.named = False


def _words(rng: random.Random, made: Damaged) -> None:
    """Words for the end that say nothing, or what nobody knows; clients of generateContent are told
    those."""
    for item in _some(rng, made.objects()):
        word = rng.choice(("stop_reason", "finish_reason", "status"))
        _spoil(item, word, rng.choice((None, "", "strange", "in_progress")))
        _spoil(item, "finishReason", rng.choice((None, "")))


def _missing(rng: random.Random, made: Damaged) -> None:
    """Without an event that is not the only one to say something, or without all of its type."""
    steps = made.steps
    spare = [step for step in steps if _is_end(step.event) or not any(map(_is_piece, step.told))]
    if spare:
        lost = rng.choice(spare)
        alike = rng.random() < 0.5
        made.steps = [
            step
            for step in steps
            if step is not lost and not (alike and step in spare and _kind(step) == _kind(lost))
        ]


def _kind(step: Step) -> str:
    return str(step.event.get("type", step.event)) if isinstance(step.event, dict) else ""


def _is_piece(told: Told) -> bool:
    return bool(told.text) and not told.whole


def _twice(rng: random.Random, made: Damaged) -> None:
    """An event once more, right after itself or anywhere."""
    steps = made.steps
    at = rng.randrange(len(steps))
    place = at + 1 if rng.random() < 0.5 else rng.randrange(len(steps) + 1)
    steps.insert(place, replace(copy.deepcopy(steps[at]), again=True))
    made.ordered = made.ordered and place > at
    made.placed = made.placed and place == at + 1


def _swapped(rng: random.Random, made: Damaged) -> None:
    at = rng.randrange(len(made.steps) - 1)
    made.steps[at : at + 2] = reversed(made.steps[at : at + 2])
    made.ordered = False


def _renamed(rng: random.Random, made: Damaged) -> None:
    """Another name of a tool in some of the events that have it."""
    named = [at for at, step in enumerate(made.steps) if any(told.name for told in step.told)]
    for at in rng.sample(named, min(len(named), rng.randint(1, 3))):
        step = made.steps[at]
        name = rng.choice(("", "strange", "f", "other"))
        old = next(told.name for told in step.told if told.name)
        for item in objects(step.event):
            if item.get("name") == old:
                item["name"] = name
        told = tuple(one._replace(name=name) if one.name == old else one for one in step.told)
        made.steps[at] = replace(step, told=told)


DAMAGES = (
    _index_zero,
    _ids,
    _indexes,
    _left_out,
    _unnamed,
    _words,
    _missing,
    _twice,
    _swapped,
    _renamed,
)
IN_ORDER = tuple(one for one in DAMAGES if one not in (_indexes, _twice, _swapped))
IDS_OF = frozenset(IDS)


def _some(rng: random.Random, items: list[Json]) -> list[Json]:
    return rng.sample(items, min(len(items), rng.randint(1, 4)))


def _spoil(item: Json, name: str, value: Any) -> None:
    if name in item:
        item[name] = value


def _is_end(event: Any) -> bool:
    kind = event if isinstance(event, str) else str(event.get("type"))
    reasons = ('"finish_reason": "', '"finishReason": "')
    text = json.dumps(event)
    return any(word in kind for word in ENDS) or any(word in text for word in reasons)


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


def is_told(found: Reading, made: Damaged) -> bool:
    """Whether an answer says what a damaged stream says."""
    return says_the_same(found, made.steps, ordered=made.ordered, placed=made.placed)
