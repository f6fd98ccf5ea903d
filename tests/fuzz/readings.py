"""What a stream says, read naively: from what its pieces are when it is exact.

Before a stream is damaged each event is read for what it says, and of which text or call. That goes
with the event through the damage, so nothing here has to find out what damaged ids mean.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.losses.requests import CHAT, GOOGLE, MESSAGES

Json = dict[str, Any]

TEXT, REASONING, CALL = "text", "reasoning", "call"
CALLS = ("function_call", "custom_tool_call")
"""Items that are calls for the client."""


class Told(NamedTuple):
    """A piece of a text, of reasoning or of a call's arguments, or (`whole`) all of it; `owner` is
    which one."""

    kind: str
    owner: Any
    text: str = ""
    whole: bool = False
    name: str = ""


@dataclass(frozen=True)
class Step:
    """An event, what it says, and whether it is there once more."""

    event: Any
    told: tuple[Told, ...]
    again: bool = False


def steps_of(protocol: str, events: Sequence[Any]) -> list[Step]:
    """The events of an exact stream."""
    read = {CHAT: _chat, MESSAGES: _messages, GOOGLE: _google}.get(protocol, _responses)
    alone = json.loads(json.dumps(events))  # no two share an object
    return [Step(event, tuple(read(event)) if isinstance(event, dict) else ()) for event in alone]


def _chat(event: Json) -> Iterator[Told]:
    for choice in event["choices"]:
        delta = choice["delta"]
        yield Told(TEXT, "text", delta.get("content") or "")
        yield Told(TEXT, "refusal", delta.get("refusal") or "")
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        yield Told(REASONING, "reasoning", thought or "")
        for call in delta.get("tool_calls") or ():
            body = call.get("function") or call.get("custom") or {}
            text = body.get("arguments") or body.get("input") or ""
            yield Told(CALL, call["index"], text, name=body.get("name") or "")


def _messages(event: Json) -> Iterator[Told]:
    kind, owner = event["type"], event.get("index")
    block, delta = event.get("content_block") or {}, event.get("delta") or {}
    if kind == "content_block_start" and block["type"] == "tool_use":
        given = json.dumps(block["input"]) if block["input"] else ""
        yield Told(CALL, owner, given, name=block["name"])
    elif kind == "content_block_start":
        yield Told(TEXT, owner, block.get("text") or "")
        yield Told(REASONING, owner, block.get("thinking") or "")
    elif kind == "content_block_delta":
        yield Told(TEXT, owner, delta.get("text") or "")
        yield Told(REASONING, owner, delta.get("thinking") or "")
        if "partial_json" in delta:
            yield Told(CALL, owner, delta["partial_json"])


def _google(event: Json) -> Iterator[Told]:
    for part in parts_of(event):
        kind = REASONING if part.get("thought") else TEXT
        yield Told(kind, kind, part.get("text") or "")
        if (call := part.get("functionCall")) is not None:
            arguments = json.dumps(call.get("args") or {})
            yield Told(CALL, id(call), arguments, name=call["name"])


def parts_of(event: Json) -> Iterator[Json]:
    """The parts in a chunk of generateContent."""
    for candidate in event.get("candidates", ()):
        yield from (candidate.get("content") or {}).get("parts") or ()


def _responses(event: Json) -> Iterator[Told]:
    kind, at = event["type"], event.get("output_index")
    if kind.endswith((".delta", "text.done", "arguments.done", "input.done", "refusal.done")):
        what = REASONING if "reasoning" in kind else TEXT
        if "arguments" in kind or "input" in kind:
            what = CALL
        values = (event.get(name) for name in ("delta", "text", "refusal", "arguments", "input"))
        text = next((value for value in values if value), "")
        place = event.get("content_index", event.get("summary_index"))
        owner = at if what is CALL else (at, place)
        yield Told(what, owner, text, whole=kind.endswith("done"), name=event.get("name") or "")
    elif "part" in event:
        what = REASONING if "reasoning" in kind else TEXT
        place = at, event.get("content_index", event.get("summary_index"))
        yield Told(what, place, _text(event["part"]), whole=True)
    elif "item" in event:
        yield from _item(event["item"], at)
    elif kind in ("response.completed", "response.incomplete"):
        for number, item in enumerate(event["response"]["output"]):
            yield from _item(item, number)


def _item(item: Json, at: int | None) -> Iterator[Told]:
    if item["type"] in CALLS:
        text = item.get("arguments") or item.get("input") or ""
        yield Told(CALL, at, text, whole=True, name=item["name"])
        return
    what = REASONING if item["type"] == "reasoning" else TEXT
    for place, part in enumerate(item.get("summary") or item.get("content") or ()):
        yield Told(what, (at, place), _text(part), whole=True)


def _text(part: Json) -> str:
    return str(part.get("text") or part.get("refusal") or "")


@dataclass
class Reading:
    """What an answer says: its texts and its reasoning without white space, and its calls."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    """Ids of the calls, None for one without: generateContent needs none."""


def reading_of(protocol: str, events: Sequence[Any]) -> Reading:
    """What the stream of a client says, which is exact."""
    owners = _owners(step for step in steps_of(protocol, events))
    found = Reading()
    for owner in owners:
        content = "".join(owner.pieces)
        if owner.kind == CALL:
            found.calls.append((owner.names[0], _arguments(content)))
        elif owner.kind == TEXT:
            found.text += _squeezed(content)
        else:
            found.reasoning += _squeezed(content)
    for value in events:
        found.ids += _ids(value) if isinstance(value, dict) else ()
    return found


def _ids(event: Json) -> list[str | None]:
    """The ids of the calls that begin in an event."""
    calls = [one.get("id") or None for part in parts_of(event) if (one := part.get("functionCall"))]
    found = [event.get("content_block") or {}]
    if event.get("type") == "response.output_item.added" and event["item"]["type"] in CALLS:
        found.append(event["item"])
    for choice in event.get("choices", ()):
        found += choice["delta"].get("tool_calls") or ()
    named = [one for one in found if "call_id" in one or _is_call(one)]
    return [*calls, *(one.get("call_id", one["id"]) for one in named)]


def _is_call(value: Json) -> bool:
    return "id" in value and value.get("type") in ("tool_use", "function", "custom")


@dataclass
class _Owner:
    kind: str
    pieces: list[str] = field(default_factory=list)
    wholes: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def contents(self) -> set[str]:
        """What may be all of it: the pieces, or what it is as a whole."""
        form = _arguments if self.kind == CALL else _squeezed
        said = [*([text] if (text := "".join(self.pieces)) else ()), *filter(None, self.wholes)]
        return {form(text) for text in said} or {form("")}

    def parts(self, placed: bool) -> list[set[str]]:
        """What may be all of it, or each piece."""
        whole = "".join(self.pieces)
        if placed or not whole or any(_squeezed(whole) != _squeezed(one) for one in self.wholes):
            return [self.contents()]
        return [{_squeezed(piece)} for piece in self.pieces]

    def called(self) -> set[str]:
        """What it may be called: a name, or what its names are fragments of."""
        return {*self.names, "".join(dict.fromkeys(self.names))}


def _owners(steps: Iterator[Step]) -> list[_Owner]:
    """The texts, the reasoning and the calls of a stream, in the order in which they came up."""
    found: dict[Any, _Owner] = {}
    for step in steps:
        for told in step.told:
            if not told.text and told.kind != CALL:
                continue
            owner = found.setdefault((told.kind, told.owner), _Owner(told.kind))
            (owner.wholes if told.whole else owner.pieces).append(told.text)
            if told.name:
                owner.names.append(told.name)
    return list(found.values())


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _arguments(text: str) -> str:
    try:
        return json.dumps(json.loads(text or "{}"))
    except ValueError:  # the input of a custom tool, which clients without them see in an object
        return json.dumps({"input": text})


def says_the_same(
    found: Reading, steps: Sequence[Step], *, ordered: bool, placed: bool = True
) -> bool:
    """Whether an answer says what a damaged stream says up to its end, all of it and nothing else.

    Every text, all reasoning and every call arrives once, calls under a name that the stream gives
    them, with their arguments, and in the order in which they came up if they are `ordered`. Pieces
    of texts keep together if they are `placed` in blocks that still are what they were. What is
    there once more is a repetition, more of the same, or new; then what follows may be of it.
    """
    is_chat = any("choices" in step.event for step in steps)
    ends = (at for at, step in enumerate(steps) if _is_last(step.event, is_chat=is_chat))
    steps = steps[: next(ends, len(steps)) + 1]
    twice = [number for number, step in enumerate(steps) if step.again]
    for chosen in itertools.product("-+*>", repeat=len(twice)):
        meant = list(steps)
        for number, choice in zip(twice, chosen, strict=True):
            if choice == "-":
                meant[number] = replace(meant[number], told=())
            elif choice != "+":
                owners = {(told.kind, told.owner) for told in meant[number].told}
                for at in range(number, number + 1 if choice == "*" else len(meant)):
                    meant[at] = _moved(meant[at], owners, number)
        if _agrees(found, _owners(iter(meant)), ordered=ordered, placed=placed):
            return True
    return False


def _is_last(event: Any, *, is_chat: bool) -> bool:
    if isinstance(event, str):
        return is_chat
    return event.get("type") in ("message_stop", "response.completed", "response.incomplete")


def _moved(step: Step, owners: set[tuple[str, Any]], number: int) -> Step:
    """An event whose texts and calls are others, made of `number`."""
    told = (
        one._replace(owner=(one.owner, number)) if (one.kind, one.owner) in owners else one
        for one in step.told
    )
    return replace(step, told=tuple(told))


def _agrees(found: Reading, owners: list[_Owner], *, ordered: bool, placed: bool) -> bool:
    calls = [owner for owner in owners if owner.kind == CALL]
    texts = [part for owner in owners if owner.kind == TEXT for part in owner.parts(placed)]
    thoughts = [part for owner in owners if owner.kind == REASONING for part in owner.parts(placed)]
    return (
        _is_made_of(found.text, texts)
        and _is_made_of(found.reasoning, thoughts)
        and len(found.calls) == len(calls)
        and any(
            all(
                name in owner.called() and arguments in owner.contents()
                for (name, arguments), owner in zip(order, calls, strict=True)
            )
            for order in ([found.calls] if ordered else itertools.permutations(found.calls))
        )
    )


def _is_made_of(text: str, parts: list[set[str]]) -> bool:
    """Whether a text is one of each of the parts, in any order."""
    if not parts:
        return not text
    return any(
        text.startswith(start) and _is_made_of(text[len(start) :], parts[:at] + parts[at + 1 :])
        for at, starts in enumerate(parts)
        for start in starts
    )
