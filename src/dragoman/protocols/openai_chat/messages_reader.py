"""The messages of a request as turns."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.blocks import Block, Foreign, Refusal, Text, ToolCall, ToolResult
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.requests import Extra, Role, Turn
from dragoman.protocols.fields import Fields
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.content_reader import (
    ASSISTANT_PARTS,
    TEXT_PARTS,
    TOOL_PARTS,
    USER_PARTS,
    needed,
    read_content,
)
from dragoman.protocols.openai_chat.reasoning import read_reasoning

_SPOKEN: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}
"""Roles of messages that may be mere text."""


class MessagesReader:
    """Reader of messages in order; it records which calls were to custom tools."""

    __slots__ = ("_custom_calls", "_extras", "_sealer")

    def __init__(self, sealer: Sealer, extras: list[Extra]) -> None:
        self._custom_calls: set[str] = set()
        self._extras = extras
        self._sealer = sealer

    def read(self, message: Any, path: str) -> Turn:
        """The turn for one message.

        Raises:
            InvalidRequest: naming the field at fault.
        """
        if type(message) is dict and len(message) == 2:
            role, content = message.get("role"), message.get("content")
            if type(content) is str and type(role) is str and role in _SPOKEN:
                # Nearly every message is one of these, or a tool's.
                has_text = role != "assistant" or content
                text = (Text(text=content, path=f"{path}.content"),) if has_text else ()
                return Turn(role=_SPOKEN[role], blocks=text, path=path)
        fields = Fields(message, path)
        role = fields.need_str("role")
        match role:
            case "user":
                turn = self._plain(fields, "user", USER_PARTS)
            case "assistant":
                turn = self._assistant(fields)
            case "tool":
                turn = self._tool(fields)
            case "system" | "developer":
                turn = self._plain(fields, role, TEXT_PARTS)
            case "function":
                # Answers a call without an id, which no other protocol can refer to.
                raw = Foreign(origin=wire.NAME, type="function", raw=message, path=path)
                return Turn(role="user", blocks=(raw,), path=path)
            case _:
                fields.fail("role", f"must be one of {', '.join(wire.ROLES)}")
        return turn

    def _plain(self, fields: Fields, role: Any, allowed: frozenset[str]) -> Turn:
        content = fields.take("content")
        if content is None or content == []:
            fields.fail("content", "is required" if content is None else "must not be empty")
        blocks = read_content(content, fields.at("content"), allowed, self._extras)
        turn = Turn(role=role, blocks=blocks, name=fields.take_str("name"), path=fields.path)
        fields.rest(self._extras)
        return turn

    def _assistant(self, fields: Fields) -> Turn:
        blocks: list[Block] = []
        blocks += read_reasoning(fields, self._sealer, self._extras)
        content = fields.take("content")
        if content is not None:
            path = fields.at("content")
            for block in read_content(content, path, ASSISTANT_PARTS, self._extras):
                # Clients send `content: ""` along with tool calls: it has no meaning.
                if type(block) is not Text or block.text or block.cache:
                    blocks.append(block)
        refusal = fields.take_str("refusal")
        if refusal:
            blocks.append(Refusal(text=refusal, path=fields.at("refusal")))
        for number, call in enumerate(fields.take_list("tool_calls") or ()):
            blocks.append(self._tool_call(call, f"{fields.path}.tool_calls[{number}]"))
        if fields.is_done():
            return Turn(role="assistant", blocks=tuple(blocks), path=fields.path)
        for name in ("function_call", "audio"):
            raw = fields.take_object(name)
            if raw is not None:
                blocks.append(Foreign(origin=wire.NAME, type=name, raw=raw, path=fields.at(name)))
        name_of_speaker = fields.take_str("name")
        fields.rest(self._extras, wire.ASSISTANT)
        return Turn(role="assistant", blocks=tuple(blocks), name=name_of_speaker, path=fields.path)

    def _tool_call(self, value: Any, path: str) -> ToolCall:
        fields = Fields(value, path)
        call_id = fields.need_str("id")
        kind = fields.take_choice("type", ("function", "custom")) or "function"
        inner = needed(fields, kind)
        custom = kind == "custom"
        if custom:
            self._custom_calls.add(call_id)
        call = ToolCall(
            id=call_id,
            name=inner.need_str("name"),
            arguments=inner.need_str("input" if custom else "arguments"),
            custom=custom,
            path=path,
        )
        inner.rest(self._extras)
        fields.take("index")  # left over from a stream that a client accumulated
        fields.rest(self._extras)
        return call

    def _tool(self, fields: Fields) -> Turn:
        call_id = fields.need_str("tool_call_id")
        content = fields.take("content")
        blocks: tuple[Block, ...] = ()
        if content is not None:
            blocks = read_content(content, fields.at("content"), TOOL_PARTS, self._extras)
        result = ToolResult(
            call_id=call_id,
            content=() if blocks and _is_empty(blocks) else blocks,
            custom=call_id in self._custom_calls,
            path=fields.path,
        )
        fields.rest(self._extras, wire.TOOL_MESSAGE)
        return Turn(role="user", blocks=(result,), path=fields.path)


def _is_empty(blocks: tuple[Block, ...]) -> bool:
    for block in blocks:
        if type(block) is not Text or block.text or block.cache is not None:
            return False
    return True
