"""One request for every field and union member of the SDKs' request types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
from anthropic.types import message_create_params as messages
from anthropic.types.beta import message_create_params as beta
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses

from tests.losses.shapes import Choice, FieldShape, Many, Record, fields_of
from tests.losses.values import FILLER, Owner
from tests.losses.walker import ABSENT, Path, Probe, path_text, walk

CHAT = "openai_chat"
MESSAGES = "anthropic_messages"
RESPONSES = "openai_responses"
GOOGLE = "google_generate_content"
PROTOCOLS = (CHAT, MESSAGES, RESPONSES)


@dataclass(frozen=True)
class Case:
    """A request that contains one value under test, of the type's root `source`."""

    source: str
    client: str
    path: Path
    probe: Probe
    build: Callable[[Any], dict[str, Any]]

    @property
    def id(self) -> str:
        """A readable name: the type, the union members on the way, the path, the word."""
        turns = "".join(f"<{turn}>" for turn in self.probe.turns)
        return f"{self.source}-{path_text(self.path)}{turns}-{self.probe.label}"

    def body(self, *value: Any) -> dict[str, Any]:
        """The request; with another value in the place of the one under test, if one is given."""
        document = self.probe.with_value(value[0]) if value else self.probe.document
        return self.build(document)


@dataclass(frozen=True, eq=False)
class Root:
    """The parameters of one SDK call, and the fields that a conversation is made of."""

    source: str
    client: str
    type: Any
    turns: str
    base: dict[str, Any]


ROOTS = (
    Root("chat", CHAT, chat.CompletionCreateParamsBase, "messages", {"model": FILLER}),
    Root("responses", RESPONSES, responses.ResponseCreateParamsBase, "input", {"model": FILLER}),
    Root(
        "messages",
        MESSAGES,
        messages.MessageCreateParamsBase,
        "messages",
        {"model": FILLER, "max_tokens": 50_000},
    ),
    Root(
        "beta",
        MESSAGES,
        beta.MessageCreateParamsBase,
        "messages",
        {"model": FILLER, "max_tokens": 50_000},
    ),
)

USER = {"role": "user", "content": FILLER}
ASSISTANT = {"role": "assistant", "content": FILLER}

_DECLARED: dict[str, list[dict[str, Any]]] = {
    CHAT: [
        {"type": kind, kind: {"name": name}}
        for kind, name in (("function", "declared_one"), ("function", "declared_two"))
    ],
    MESSAGES: [
        {"name": name, "input_schema": {"type": "object"}}
        for name in ("declared_one", "declared_two")
    ],
    RESPONSES: [
        {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}
        for name in ("declared_one", "declared_two")
    ],
}

_BESIDE: dict[str, Callable[[Root], dict[str, Any]]] = {
    "tool_choice": lambda root: {"tools": _DECLARED[root.client]},
    "parallel_tool_calls": lambda root: {"tools": _DECLARED[root.client]},
    "stream_options": lambda root: {"stream": True},
    "top_logprobs": lambda root: (
        {"include": ["message.output_text.logprobs"]}
        if root.client == RESPONSES
        else {"logprobs": True}
    ),
    "audio": lambda root: {"modalities": ["text", "audio"]},
    "function_call": lambda root: {"functions": [{"name": FILLER}, {"name": "declared_one"}]},
}
"""What a top-level field needs beside it to be valid."""


@cache
def cases(roots: tuple[Root, ...] = ()) -> tuple[Case, ...]:
    """All cases of the roots (by default `ROOTS`); a beta request that the stable API has too is
    listed once."""
    seen: set[tuple[str, bytes, str]] = set()
    found: list[Case] = []
    for root in roots or ROOTS:
        for case in _cases(root):
            key = (case.client, msgspec.json.encode(case.body()), path_text(case.path))
            if key not in seen:
                seen.add(key)
                found.append(case)
    return tuple(found)


def _cases(root: Root) -> Iterator[Case]:
    record = Record(root.type)
    for field in fields_of(record):
        owner = Owner().field(record.name, field.name)
        if field.name == root.turns:
            yield from _conversation(root, field, owner)
            continue
        for probe in walk(field.shape, owner):
            if not probe.path and not field.required:
                probe = replace(probe, rivals=(ABSENT, *probe.rivals))
            yield Case(
                root.source, root.client, (field.name, *probe.path), probe, _top(root, field)
            )


def _top(root: Root, field: FieldShape) -> Callable[[Any], dict[str, Any]]:
    beside = _BESIDE[field.name](root) if field.name in _BESIDE else {}

    def build(value: Any) -> dict[str, Any]:
        if field.name == "tools" and isinstance(value, list):
            value = value + _DECLARED[root.client]
        body = {**root.base, root.turns: [USER], **beside, field.name: value}
        if value is ABSENT:
            del body[field.name]
        return body

    return build


def _conversation(root: Root, field: FieldShape, owner: Owner) -> Iterator[Case]:
    """Probes of single turns, each put into a conversation in which it is legal."""
    shape = field.shape
    for member in shape.members if isinstance(shape, Choice) else (shape,):
        if not isinstance(member, Many):
            yield from _whole_input(root, member, owner)
            continue
        for probe in walk(member.item, owner):
            place = _place(root)
            yield Case(root.source, root.client, (root.turns, 2, *probe.path), probe, place)


def _whole_input(root: Root, member: Any, owner: Owner) -> Iterator[Case]:
    for probe in walk(member, owner):
        build = lambda value: {**root.base, root.turns: value}  # noqa: E731
        yield Case(root.source, root.client, (root.turns, *probe.path), probe, build)


def _place(root: Root) -> Callable[[Any], dict[str, Any]]:
    def build(turn: Any) -> dict[str, Any]:
        if turn is ABSENT:
            return {**root.base, root.turns: [USER, ASSISTANT]}
        before, after = _SURROUNDINGS[root.client](turn)
        return {**root.base, root.turns: [USER, before, turn, *after]}

    return build


def _around_chat(turn: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The message before and those after one of a Chat conversation."""
    if turn.get("role") == "tool":
        call = {"name": FILLER, "arguments": "{}"}
        calls = [{"id": turn.get("tool_call_id", FILLER), "type": "function", "function": call}]
        return {"role": "assistant", "content": None, "tool_calls": calls}, []
    if turn.get("role") == "assistant":
        results = [
            {"role": "tool", "tool_call_id": call.get("id", FILLER), "content": FILLER}
            for call in turn.get("tool_calls", ())
        ]
        return USER, [*results, USER]
    return ASSISTANT, []


def _around_messages(turn: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The message before and those after one of a Messages conversation."""
    content = turn.get("content")
    blocks = content if isinstance(content, list) else []
    if turn.get("role") == "user":
        calls = [
            {
                "type": "tool_use",
                "id": block.get("tool_use_id", FILLER),
                "name": FILLER,
                "input": {},
            }
            for block in blocks
            if block["type"] == "tool_result"
        ]
        return ({"role": "assistant", "content": calls} if calls else ASSISTANT), []
    if turn.get("role") == "assistant":
        results = [
            {"type": "tool_result", "tool_use_id": block.get("id", FILLER), "content": FILLER}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        return USER, [{"role": "user", "content": results or FILLER}]
    return USER, []


def _around_responses(turn: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The item before and those after one of a Responses conversation."""
    kind = turn.get("type")
    call_id = turn.get("call_id", FILLER)
    if kind == "function_call":
        output = {"type": "function_call_output", "call_id": call_id, "output": FILLER}
        return USER, [output]
    if kind == "custom_tool_call":
        output = {"type": "custom_tool_call_output", "call_id": call_id, "output": FILLER}
        return USER, [output]
    if kind == "function_call_output":
        call = {"type": "function_call", "call_id": call_id, "name": FILLER, "arguments": "{}"}
        return call, []
    if kind == "custom_tool_call_output":
        call = {"type": "custom_tool_call", "call_id": call_id, "name": FILLER, "input": FILLER}
        return call, []
    if turn.get("role") == "assistant":
        return USER, [USER]
    return (ASSISTANT if turn.get("role") == "user" else USER), []


_SURROUNDINGS = {
    CHAT: _around_chat,
    MESSAGES: _around_messages,
    RESPONSES: _around_responses,
}
