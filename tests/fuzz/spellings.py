"""Streams that say the same in other shapes: those of servers that read a protocol their own way.

What a stream says stays with its events, so each shape has to be read as the stream before it, or
to fail. `respell` gives a stream one of them.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fuzz.readings import CALL, REASONING, TEXT, Step, Told, parts_of
from tests.losses.requests import CHAT, GOOGLE, MESSAGES, RESPONSES

Json = dict[str, Any]
Spelling = Callable[[random.Random, list[Step]], list[Step]]


def respell(rng: random.Random, protocol: str, steps: list[Step]) -> list[Step]:
    """A copy of a stream in another shape."""
    return rng.choice(SPELLINGS[protocol])(rng, copy.deepcopy(steps))


def _silent_error(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Errors that say nothing, where an answer has none."""
    error: Json = rng.choice(({}, {"code": None, "message": None}, {"type": "", "message": ""}))
    for step in steps:
        if isinstance(step.event, dict):
            holder = step.event.get("response", step.event)
            if not holder.keys().isdisjoint(("choices", "output", "candidates")):
                holder["error"] = error
    return steps


def _indexes_as_texts(rng: random.Random, steps: list[Step]) -> list[Step]:
    events = [step.event for step in steps if isinstance(step.event, dict)]
    for one in (*events, *(one for event in events for one in event.get("candidates", ()))):
        if type(one.get("index")) is int:
            one["index"] = str(one["index"])
    return steps


# --- Chat -----------------------------------------------------------------------------------------


def _choices(steps: list[Step]) -> Iterator[tuple[Step, Json]]:
    for step in steps:
        for choice in step.event["choices"] if isinstance(step.event, dict) else ():
            yield step, choice


def _said(steps: list[Step], kind: str) -> str:
    """All the text of a kind that a stream of pieces says."""
    return "".join(told.text for step in steps for told in step.told if told.kind == kind)


def _is_plain(steps: list[Step]) -> bool:
    return not any(
        told.kind == CALL or (told.owner == "refusal" and told.text)
        for step in steps
        for told in step.told
    )


def _message_of(steps: list[Step]) -> Json:
    said = {"reasoning_content": _said(steps, REASONING), "content": _said(steps, TEXT)}
    return {name: text for name, text in said.items() if text}


def _messages_in_place_of_deltas(rng: random.Random, steps: list[Step]) -> list[Step]:
    """All so far in each chunk, or a piece."""
    if not _is_plain(steps):
        return steps
    so_far = rng.random() < 0.5
    for number, (_, choice) in enumerate(list(_choices(steps))):
        choice["message"] = _message_of(steps[: number + 1]) if so_far else choice["delta"]
        choice["delta"] = {}
    return steps


def _whole_at_the_end(rng: random.Random, steps: list[Step]) -> list[Step]:
    """A whole message beside the finish reason, or in each chunk from some place on."""
    if not _is_plain(steps):
        return steps
    found = list(_choices(steps))
    first = rng.randrange(len(found)) if rng.random() < 0.5 else len(found) - 1
    for number, (_, choice) in enumerate(found):
        if number >= first:
            choice["message"] = _message_of(steps[: number + 1])
    return steps


def _reasoning_elsewhere(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Reasoning under another name, or as an object or parts."""
    name = rng.choice(("reasoning", "thinking", "reasoning_text", "reasoning_content"))
    member = rng.choice(("text", "content", ""))
    many = rng.random() < 0.5
    for _, choice in _choices(steps):
        text = choice["delta"].pop("reasoning_content", None)
        if text:
            shown: Any = {member: text} if member else text
            choice["delta"][name] = [shown] if many else shown
    return steps


def _call_again(rng: random.Random, steps: list[Step]) -> list[Step]:
    """A call whole, once more, behind its last piece."""
    heads: dict[int, Json] = {}
    pieces: dict[int, str] = {}
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for told in step.told:
            if told.kind == CALL:
                pieces[told.owner] = pieces.get(told.owner, "") + told.text
                last[told.owner] = number
        for choice in step.event["choices"] if isinstance(step.event, dict) else ():
            for call in choice["delta"].get("tool_calls") or ():
                if call.get("id"):
                    heads[call["index"]] = call
    if not last:
        return steps
    at = rng.choice(list(last))
    whole = copy.deepcopy(heads[at])
    body = whole.get("function") or whole["custom"]
    body["arguments" if "function" in whole else "input"] = pieces[at]
    event = copy.deepcopy(steps[last[at]].event)
    event["choices"][0]["delta"] = {"tool_calls": [whole]}
    event["choices"][0]["finish_reason"] = None
    told = Told(CALL, at, pieces[at], whole=True, name=body["name"])
    steps.insert(last[at] + 1, Step(event, (told,), again=True))
    return steps


def _placeholder(rng: random.Random, steps: list[Step]) -> list[Step]:
    """`{}` as the arguments before the first piece of them."""
    for _, choice in _choices(steps):
        for call in choice["delta"].get("tool_calls") or ():
            body = call.get("function") or {}
            if call.get("id") and body.get("arguments") == "":
                body["arguments"] = "{}"
    return steps


def _calls_in_another_choice(rng: random.Random, steps: list[Step]) -> list[Step]:
    """The calls in a second choice, which ends as the first does, before it or after it."""
    ends = [at for at, step in enumerate(steps) if isinstance(step.event, dict) and _ends(step)]
    if not ends:
        return steps
    for step, choice in _choices(steps):
        others = choice["delta"].keys() - {"role", "tool_calls", "function_call"}
        if any(told.kind == CALL for told in step.told) and not others:
            choice["index"] = 1
    end = copy.deepcopy(steps[ends[0]])
    for choice in end.event["choices"]:
        choice |= {"index": 1, "delta": {}}
    steps.insert(ends[0] + rng.randrange(2), replace(end, told=()))
    return steps


def _ends(step: Step) -> bool:
    return any(choice.get("finish_reason") for choice in step.event["choices"])


def _a_reason_in_each(rng: random.Random, steps: list[Step]) -> list[Step]:
    """A finish reason in every chunk."""
    for _, choice in _choices(steps):
        choice["finish_reason"] = choice.get("finish_reason") or "stop"
    return steps


def _in_the_choice(rng: random.Random, steps: list[Step]) -> list[Step]:
    """What deltas say, in the choice itself, or in both."""
    both = rng.random() < 0.3
    for _, choice in _choices(steps):
        said = {name: value for name, value in choice["delta"].items() if name != "role" and value}
        choice |= said
        if not both:
            choice["delta"] = {}
    return steps


def _twins(rng: random.Random, steps: list[Step]) -> list[Step]:
    """One call in both members that have calls: in pieces, or whole behind the last of them."""
    calls = [
        (number, call)
        for number, step in enumerate(steps)
        if isinstance(step.event, dict)
        for choice in step.event["choices"]
        for call in choice["delta"].get("tool_calls") or ()
    ]
    if len({call["index"] for _, call in calls}) != 1 or any("custom" in call for _, call in calls):
        return steps
    in_pieces = rng.random() < 0.5
    made = list(steps)
    whole = {"name": "", "arguments": ""}
    for number, call in reversed(calls):
        body = call.get("function") or {}
        for name in whole:
            whole[name] = (body.get(name) or "") + whole[name]
        if in_pieces and any(body.values()):
            made.insert(number + 1, _calling(steps[number], {**body}))
    if not in_pieces:
        made.insert(calls[-1][0] + 1, _calling(steps[calls[-1][0]], whole))
    return made


def _calling(step: Step, function: Json) -> Step:
    """A chunk like this with a call in the older member."""
    event = copy.deepcopy(step.event)
    event["choices"][0] |= {"delta": {"function_call": function}, "finish_reason": None}
    event.pop("usage", None)
    told = tuple(one._replace(whole=True) for one in step.told if one.kind == CALL)
    return Step(event, told, again=True)


# --- Messages -------------------------------------------------------------------------------------


def _at_the_stop(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Blocks whose end has all of them: after their pieces, or in place of all or the last."""
    blocks = _blocks(steps)
    how = rng.choice(("after", "instead", "beyond"))
    kept: list[Step] = []
    for step in steps:
        index, kind = _place(step)
        if index in blocks and kind == "content_block_delta" and step.told:
            pieces = blocks[index].pieces
            count = {"after": len(pieces), "instead": 0, "beyond": len(pieces) // 2}[how]
            if all(step is not piece for piece in pieces[:count]):
                blocks[index].left += step.told
                continue
        if index in blocks and kind == "content_block_stop":
            step.event["content_block"] = blocks[index].whole()
            step = replace(step, told=blocks[index].told())
        kept.append(step)
    return kept


def _in_the_last_event(rng: random.Random, steps: list[Step]) -> list[Step]:
    """All blocks in the message's end, of which the last may stand nowhere else."""
    blocks = _blocks(steps)
    last = max(blocks)
    alone = rng.random() < 0.5
    kept: list[Step] = []
    for step in steps:
        index, kind = _place(step)
        if alone and index == last:
            blocks[last].left += step.told
            continue
        if kind == "message_stop":
            step.event["message"] = {"content": [block.whole() for block in blocks.values()]}
            step = replace(step, told=blocks[last].told())
        kept.append(step)
    return kept


@dataclass
class _Block:
    head: Json
    pieces: list[Step] = field(default_factory=list)
    left: list[Told] = field(default_factory=list)
    """What its pieces do not say, but the whole of it."""

    def whole(self) -> Json:
        """The block with all that its pieces say."""
        member = _MEMBERS[self.head["type"]]
        text = "".join(one.text for step in self.pieces for one in step.told)
        return {**self.head, member: json.loads(text or "{}") if member == "input" else text}

    def told(self) -> tuple[Told, ...]:
        """What the whole of it alone says."""
        return tuple(one._replace(name=self.head.get("name", "")) for one in self.left)


def _place(step: Step) -> tuple[int, str]:
    """The index and the type of an event."""
    event = step.event if isinstance(step.event, dict) else {}
    return event.get("index", -1), event.get("type", "")


def _blocks(steps: list[Step]) -> dict[int, _Block]:
    """The texts, the thinking and the calls of a stream, by index."""
    found: dict[int, _Block] = {}
    for step in steps:
        index, kind = _place(step)
        if kind == "content_block_start" and step.event["content_block"]["type"] in _MEMBERS:
            found[index] = _Block(step.event["content_block"])
        elif index in found and kind == "content_block_delta" and step.told:
            found[index].pieces.append(step)
    return found


_MEMBERS = {"text": "text", "thinking": "thinking", "tool_use": "input"}


def _empty_input_first(rng: random.Random, steps: list[Step]) -> list[Step]:
    """`{}` as the first piece of calls, of any protocol with events."""
    found: list[Step] = []
    begun: set[Any] = set()
    for step in steps:
        event = step.event if isinstance(step.event, dict) else {}
        kind, delta = event.get("type"), event.get("delta")
        place = event.get("index", event.get("output_index"))
        is_piece = kind == "response.function_call_arguments.delta" or (
            isinstance(delta, dict) and delta.get("type") == "input_json_delta"
        )
        if is_piece and place not in begun:
            begun.add(place)
            empty = {**delta, "partial_json": "{}"} if isinstance(delta, dict) else "{}"
            found.append(Step({**event, "delta": empty}, ()))
        found.append(step)
    return found


def _full_starts(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Blocks that begin with all of their text or input, which their pieces say again."""
    for step in steps:
        event = step.event if isinstance(step.event, dict) else {}
        block = event.get("content_block")
        if block is None or rng.random() < 0.3:
            continue
        own = [
            told.text
            for other in steps
            if isinstance(other.event, dict) and other.event.get("index") == event["index"]
            for told in other.told
        ]
        if block["type"] == "tool_use":
            block["input"] = json.loads("".join(own) or "{}")
        elif block["type"] in ("text", "thinking"):
            block[block["type"]] = "".join(own)
    return steps


def _first_piece_in_start(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Blocks that begin with their first piece, which no delta says."""
    starts: dict[int, tuple[int, Json]] = {}
    kept: list[Step] = []
    for step in steps:
        event = step.event if isinstance(step.event, dict) else {}
        block, delta = event.get("content_block"), event.get("delta") or {}
        if block is not None and block["type"] in ("text", "thinking"):
            starts[event["index"]] = len(kept), block
        elif event.get("index") in starts and event["type"] == "content_block_delta":
            at, head = starts.pop(event["index"])
            kind = head["type"]
            if delta.get(kind):
                head[kind] += delta[kind]
                kept[at] = replace(kept[at], told=step.told)
                continue
        kept.append(step)
    return kept


def _blocks_of_others(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Blocks of a service's own tools before the first."""
    first = next(
        at
        for at, step in enumerate(steps)
        if isinstance(step.event, dict) and step.event["type"] == "content_block_start"
    )
    block = rng.choice(
        (
            {"type": "x_search_tool_use", "id": "s", "name": "x_search", "input": {"q": 1}},
            {"type": "x_search_tool_result", "tool_use_id": "s", "content": []},
        )
    )
    for step in steps:
        if isinstance(step.event, dict) and type(step.event.get("index")) is int:
            step.event["index"] += 1
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    added = [Step(start, ()), Step({"type": "content_block_stop", "index": 0}, ())]
    return [*steps[:first], *added, *steps[first:]]


# --- Responses ------------------------------------------------------------------------------------


def _full_parts(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Parts that are announced with all of their text, or its first piece."""
    begun = rng.random() < 0.5
    for number, step in enumerate(steps):
        event = step.event if isinstance(step.event, dict) else {}
        if event.get("type") != "response.content_part.added" or rng.random() < 0.3:
            continue
        place = event["output_index"], event["content_index"]
        pieces = [
            told.text
            for other in steps[number:]
            for told in other.told
            if told.kind == TEXT and told.owner == place and not told.whole
        ]
        if "text" in event["part"]:
            event["part"]["text"] = (pieces[:1] or [""])[0] if begun else "".join(pieces)
    return steps


def _items_of_others(rng: random.Random, steps: list[Step]) -> list[Step]:
    """What others said, and what a service's own tools did, among the output items."""
    item = rng.choice(
        (
            {"type": "message", "role": "user", "id": "o", "content": [{"text": "Hi"}]},
            {"type": "search_results", "id": "o", "content": [{"type": "text", "text": "page"}]},
            {"type": "x_search_call", "id": "o", "call_id": "c", "name": "x", "arguments": "{}"},
        )
    )
    for step in steps:
        if isinstance(step.event, dict) and step.event.get("response", {}).get("output"):
            step.event["response"]["output"].append(item)
    event = {"type": "response.output_item.done", "output_index": 90, "item": item}
    steps.insert(len(steps) - 1, Step(event, ()))
    return steps


def _ended_by_done(rng: random.Random, steps: list[Step]) -> list[Step]:
    """An end as the Realtime API calls it."""
    for step in steps:
        if isinstance(step.event, dict) and step.event.get("type") == "response.completed":
            step.event["type"] = "response.done"
    return steps


def _text_beside(rng: random.Random, steps: list[Step]) -> list[Step]:
    """Messages whose text stands in the item itself, once all of it is there."""
    name = rng.choice(("text", "output_text"))
    for step in steps:
        event = step.event if isinstance(step.event, dict) else {}
        output = event.get("response", {}).get("output") or [event.get("item")]
        for item in output:
            parts = item.get("content") if isinstance(item, dict) else None
            if parts and item["type"] == "message" and len(parts) == 1 and "text" in parts[0]:
                item[name] = parts[0]["text"]
                if rng.random() < 0.7:
                    item["content"] = []
    return steps


# --- generateContent ------------------------------------------------------------------------------


def _candidates(steps: list[Step]) -> Iterator[Json]:
    for step in steps:
        yield from step.event["candidates"]


def _stopped_in_each(rng: random.Random, steps: list[Step]) -> list[Step]:
    for candidate in _candidates(steps):
        candidate["finishReason"] = "STOP"
    return steps


def _defaults_left_out(rng: random.Random, steps: list[Step]) -> list[Step]:
    """No index of 0 and no role."""
    for candidate in _candidates(steps):
        del candidate["index"], candidate["content"]["role"]
    return steps


def _calls_without_ids(rng: random.Random, steps: list[Step]) -> list[Step]:
    for part in (part for step in steps for part in parts_of(step.event)):
        part.get("functionCall", {}).pop("id", None)
    return steps


def _nothing_last(rng: random.Random, steps: list[Step]) -> list[Step]:
    """A last chunk with the reason alone, or a further one with the usage."""
    last = steps[-1].event
    (candidate,) = last["candidates"]
    candidate["content"] = rng.choice((None, {}, {"role": "model"}, {"parts": []}))
    usage = {"usageMetadata": last.pop("usageMetadata"), "modelVersion": "gemini-3.8-flash"}
    return [*steps, Step(usage, ())]


def _all_in_one(rng: random.Random, steps: list[Step]) -> list[Step]:
    """All parts in the last chunk."""
    last = steps[-1]
    last.event["candidates"][0]["content"]["parts"] = [
        part for step in steps for part in parts_of(step.event)
    ]
    return [replace(last, told=tuple(told for step in steps for told in step.told))]


SPELLINGS: dict[str, tuple[Spelling, ...]] = {
    CHAT: (
        _silent_error,
        _messages_in_place_of_deltas,
        _whole_at_the_end,
        _reasoning_elsewhere,
        _call_again,
        _placeholder,
        _indexes_as_texts,
        _calls_in_another_choice,
        _a_reason_in_each,
        _in_the_choice,
        _twins,
    ),
    MESSAGES: (
        _indexes_as_texts,
        _full_starts,
        _first_piece_in_start,
        _blocks_of_others,
        _empty_input_first,
        _at_the_stop,
        _in_the_last_event,
    ),
    RESPONSES: (
        _silent_error,
        _full_parts,
        _items_of_others,
        _empty_input_first,
        _ended_by_done,
        _text_beside,
    ),
    GOOGLE: (
        _silent_error,
        _indexes_as_texts,
        _stopped_in_each,
        _defaults_left_out,
        _calls_without_ids,
        _nothing_last,
        _all_in_one,
    ),
}
