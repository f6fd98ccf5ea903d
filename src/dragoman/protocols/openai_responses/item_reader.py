"""Reads the input items of a request into turns (types: response_input_item_param.py).

Neighbouring items of the model's side (messages, reasoning, calls) are one assistant turn in
their order, neighbouring tool outputs one user turn; every other message is a turn of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.canonical.envelope import MARKER, PREFIX, Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.losses import LossKind
from dragoman.canonical.requests import Extra, Tool, Turn
from dragoman.protocols.fields import Field, Fields, JsonObject, check_depth
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.content_reader import read_content
from dragoman.protocols.openai_responses.machine_tools import (
    MACHINE_CALLS,
    MACHINE_OUTPUTS,
    read_machine_call,
    read_machine_output,
)
from dragoman.protocols.openai_responses.tool_search import (
    is_clients_output,
    read_search_call,
    search_result,
)
from dragoman.protocols.openai_responses.tools import read_tools
from dragoman.protocols.openai_responses.unknown_items import Side, read_unknown_item
from dragoman.protocols.openai_responses.web_search import WEB_SEARCH, read_web_search
from dragoman.protocols.unknown_text import UNKNOWN_TYPE


class ItemReader:
    """The reader of items, one by one. `finish` returns the turns; `tools` and `updates` are the
    tools and settings in the items (`configuration_update` items, with their paths)."""

    __slots__ = ("_blocks", "_extras", "_path", "_sealer", "_side", "_turns", "tools", "updates")

    def __init__(self, sealer: Sealer, extras: list[Extra]) -> None:
        self._sealer = sealer
        self._extras = extras
        self._turns: list[Turn] = []
        self._side: Literal["assistant", "user"] | None = None
        self._blocks: list[Block] = []
        self._path = ""
        self.tools: list[Tool] = []
        self.updates: list[tuple[str, JsonObject]] = []

    def read(self, value: Any, path: str) -> None:
        """Take the next item.

        Raises:
            InvalidRequest: at the field at fault.
        """
        fields = Fields(value, path)
        kind = fields.take_str("type")
        if kind is None:
            # Both forms may leave their type out: easy messages and references.
            kind = "message" if fields.has("role") else "item_reference"
            if not fields.has("role") and not fields.has("id"):
                fields.fail("type", "is required")
        known = _READERS.get(kind)
        if known is not None:
            known(self, fields, kind)
        elif kind == "tool_search_call" and (search := read_search_call(fields)) is not None:
            self._rest(fields, wire.CALL)
            self._add("assistant", path, search)
        elif kind == "tool_search_output" and is_clients_output(value):
            self._search_output(fields)
        elif kind in MACHINE_CALLS:
            call = read_machine_call(MACHINE_CALLS[kind], fields)
            self._rest(fields, wire.CALL)
            self._add("assistant", path, call)
        elif kind in MACHINE_OUTPUTS:
            result = read_machine_output(MACHINE_OUTPUTS[kind], fields, self._extras)
            self._rest(fields, wire.OUTPUT)
            self._add("user", path, result)
        elif kind in wire.FOREIGN_ASSISTANT_ITEMS or kind in wire.FOREIGN_USER_ITEMS:
            check_depth(value, path)
            side: Literal["assistant", "user"] = (
                "assistant" if kind in wire.FOREIGN_ASSISTANT_ITEMS else "user"
            )
            means = (read_web_search(value),) if kind == WEB_SEARCH else None
            self._add(
                side, path, Foreign(origin=wire.NAME, type=kind, raw=value, means=means, path=path)
            )
        else:
            check_depth(value, path)
            self._extras.append(Extra(path, value, LossKind.KNOB, UNKNOWN_TYPE))
            self._add(*read_unknown_item(value, kind, path))

    def finish(self) -> tuple[Turn, ...]:
        """The turns of all items."""
        self._flush()
        return tuple(self._turns)

    def _add(self, side: Side, path: str, block: Block) -> None:
        if side != self._side:
            self._begin(side, path)
        self._blocks.append(block)

    def _begin(self, side: Literal["assistant", "user"], path: str) -> None:
        self._flush()
        self._side = side
        self._path = path

    def _flush(self) -> None:
        if self._side is not None and self._blocks:
            turn = Turn(role=self._side, blocks=tuple(self._blocks), path=self._path)
            self._turns.append(turn)
        self._side = None
        self._blocks = []

    def _rest(self, fields: Fields, table: dict[str, Field] = wire.ITEM) -> None:
        for name in wire.IGNORED:
            fields.take(name)
        fields.rest(self._extras, table)

    def _message(self, fields: Fields, kind: str) -> None:
        role = fields.take_choice("role", wire.ROLES)
        phase = fields.take_str("phase") if role == "assistant" else None
        content = fields.take("content")
        if content is None:
            fields.fail("content", "is required")
        blocks = read_content(content, fields.at("content"), self._extras, phase)
        if phase is not None and not any(isinstance(block, Text) for block in blocks):
            detail = "only text has a phase"
            self._extras.append(Extra(fields.at("phase"), phase, LossKind.KNOB, detail))
        self._rest(fields, wire.MESSAGE)
        if role == "assistant":
            if self._side != "assistant":
                self._begin("assistant", fields.path)
            self._blocks += blocks
            return
        self._flush()
        if role is None:
            fields.fail("role", "is required")
        if blocks:
            self._turns.append(_turn(role, blocks, fields.path))

    def _call(self, fields: Fields, kind: str) -> None:
        custom = kind == "custom_tool_call"
        call = ToolCall(
            id=_need_text(fields, "call_id"),
            name=_need_text(fields, "name"),
            arguments=fields.need_str("input" if custom else "arguments"),
            custom=custom,
            namespace=fields.take_str("namespace"),
            path=fields.path,
        )
        self._rest(fields, wire.CALL)
        self._add("assistant", fields.path, call)

    def _output(self, fields: Fields, kind: str) -> None:
        call_id = _need_text(fields, "call_id")
        output = fields.take("output")
        if output is None:
            fields.fail("output", "is required")
        content = read_content(output, fields.at("output"), self._extras) if output != "" else ()
        result = ToolResult(
            call_id=call_id,
            content=content,
            custom=kind == "custom_tool_call_output",
            path=fields.path,
        )
        self._rest(fields, wire.OUTPUT)
        self._add("user", fields.path, result)

    def _search_output(self, fields: Fields) -> None:
        fields.ignore("execution")
        call_id = _need_text(fields, "call_id")
        found = read_tools(fields.take_list("tools"), fields.at("tools"), self._extras)
        self._offer(found)
        self._rest(fields, wire.OUTPUT)
        self._add("user", fields.path, search_result(call_id, found, fields.path))

    def _offer(self, tools: Iterable[Tool]) -> None:
        """Add tools declared in items, without duplicates."""
        self.tools += (tool for tool in tools if not any(_same(tool, one) for one in self.tools))

    def _reasoning(self, fields: Fields, kind: str) -> None:
        item_id = fields.take_str("id")
        summary = _texts(fields, "summary")
        content = _texts(fields, "content")
        encrypted = fields.take_str("encrypted_content")
        if summary and content:
            detail = "only the summary of reasoning is carried beside its state"
            self._extras.append(Extra(fields.at("content"), content, LossKind.KNOB, detail))
        block = Reasoning(
            parts=summary or content,
            style="raw" if content and not summary else "summary",
            path=fields.path,
        )
        if encrypted:
            block = self._with_state(block, encrypted, item_id)
        self._rest(fields)
        self._add("assistant", fields.path, block)

    def _with_state(self, block: Reasoning, encrypted: str, item_id: str | None) -> Reasoning:
        if not encrypted.startswith(PREFIX):
            return replace(block, opaque=Opaque(wire.NAME, encrypted, item_id))
        opened = self._sealer.open(encrypted)
        if opened is None or opened.opaque is None:
            path = f"{block.path}.encrypted_content"
            detail = "not an intact envelope of this gateway"
            self._extras.append(Extra(path, encrypted, LossKind.KNOB, detail))
            return block
        if opened.opaque.origin == MARKER:
            return replace(block, opaque=opened.opaque)
        return replace(opened, path=block.path)

    def _additional_tools(self, fields: Fields, kind: str) -> None:
        fields.ignore("role")
        listed = fields.take_list("tools")
        self._offer(read_tools(listed, fields.at("tools"), self._extras))
        detail = "these tools are offered from the start of the conversation"
        self._extras.append(Extra(fields.path, listed, LossKind.CONVERTED, detail))
        self._rest(fields)

    def _configuration_update(self, fields: Fields, kind: str) -> None:
        update = {name: fields.take(name) for name in ("reasoning", "text")}
        self.updates.append((fields.path, update))
        detail = "these settings hold for the whole request"
        self._extras.append(Extra(fields.path, update, LossKind.CONVERTED, detail))
        self._rest(fields)

    def _item_reference(self, fields: Fields, kind: str) -> None:
        reference = fields.take("id")
        detail = "items are not stored here; send the item itself"
        self._extras.append(Extra(fields.path, reference, LossKind.CONTENT, detail))
        fields.rest(self._extras)


_READERS: dict[str, Callable[[ItemReader, Fields, str], None]] = {
    "message": ItemReader._message,
    "function_call": ItemReader._call,
    "custom_tool_call": ItemReader._call,
    "function_call_output": ItemReader._output,
    "custom_tool_call_output": ItemReader._output,
    "reasoning": ItemReader._reasoning,
    "additional_tools": ItemReader._additional_tools,
    "configuration_update": ItemReader._configuration_update,
    "item_reference": ItemReader._item_reference,
}


def _same(one: Tool, other: Tool) -> bool:
    """Whether two tools are equal except for their paths."""
    return type(one) is type(other) and replace(one, path="") == replace(other, path="")


def _turn(role: str, blocks: tuple[Block, ...], path: str) -> Turn:
    match role:
        case "system":
            return Turn(role="system", blocks=blocks, path=path)
        case "developer":
            return Turn(role="developer", blocks=blocks, path=path)
    return Turn(role="user", blocks=blocks, path=path)


def _need_text(fields: Fields, name: str) -> str:
    value = fields.take_str(name)
    if not value:
        fields.fail(name, "is required" if value is None else "must not be empty")
    return value


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    """The texts of a reasoning item's summary or content."""
    texts = []
    for number, part in enumerate(fields.take_list(name) or ()):
        path = f"{fields.at(name)}[{number}]"
        text = part.get("text") if type(part) is dict else None
        if type(text) is not str:
            raise InvalidRequest.at(f"{path}.text", "must be a string")
        texts.append(text)
    return tuple(texts)
