"""Reads the input items of a request into turns (types: response_input_item_param.py).

Neighbouring items of the model's side (messages, reasoning, calls) are one assistant turn in
their order, neighbouring tool outputs one user turn; every other message is a turn of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Raw
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
from dragoman.protocols.fields import JsonObject, check_depth
from dragoman.protocols.openai_responses import shapes, wire
from dragoman.protocols.openai_responses.content_reader import read_content
from dragoman.protocols.openai_responses.machine_tools import (
    MachineCall,
    MachineOutput,
    read_machine_call,
    read_machine_output,
)
from dragoman.protocols.openai_responses.tool_search import read_search_call, search_result
from dragoman.protocols.openai_responses.tools import read_tools
from dragoman.protocols.openai_responses.web_search import WEB_SEARCH, read_web_search
from dragoman.protocols.reading import REFUSED, Reader, report_lost


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
        self.updates: list[tuple[str, shapes.ConfigurationUpdate]] = []

    def read(self, raw: Raw, path: str) -> None:
        """Take the next item.

        Raises:
            InvalidRequest: at the field at fault.
        """
        item: shapes.AnyItem
        try:
            # Many clients leave the type of messages out.
            is_message = bytes(memoryview(raw)[:7]) == b'{"role"'
            item = (_message if is_message else _item).decode(raw)
        except REFUSED:
            item = _item.read(raw, self._extras, path)
        if isinstance(item, shapes.UnknownItem):
            kind, value = item.kind, item.value
            if kind not in _SEARCHES or not _is_clients(value):
                self._foreign(kind, value, path)
                return
            known: shapes.Item = _SEARCHES[kind].convert(value, path, self._extras)
        else:
            known = item
        _READERS[type(known)](self, known, path)
        report_lost(known, path, self._extras)

    def _foreign(self, kind: str, value: JsonObject, path: str) -> None:
        side: Literal["assistant", "user"]
        if kind in wire.FOREIGN_ASSISTANT_ITEMS:
            side = "assistant"
        elif kind in wire.FOREIGN_USER_ITEMS:
            side = "user"
        else:
            raise InvalidRequest.at(f"{path}.type", f"unknown item type {kind!r}")
        check_depth(value, path)
        means = (read_web_search(value),) if kind == WEB_SEARCH else None
        block = Foreign(origin=wire.NAME, type=kind, raw=value, means=means, path=path)
        self._add(side, block)

    def finish(self) -> tuple[Turn, ...]:
        """The turns of all items."""
        self._flush()
        return tuple(self._turns)

    def _add(self, side: Literal["assistant", "user"], block: Block) -> None:
        if side != self._side:
            self._begin(side, block.path)
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

    def _message(self, item: shapes.Message, path: str) -> None:
        role, phase = item.role, item.phase
        if phase is not None and role != "assistant":
            detail = "only the model's own messages have a phase"
            self._extras.append(Extra(f"{path}.phase", phase, LossKind.KNOB, detail))
            phase = None
        blocks = read_content(item.content, f"{path}.content", self._extras, phase)
        if phase is not None and not any(isinstance(block, Text) for block in blocks):
            detail = "only text has a phase"
            self._extras.append(Extra(f"{path}.phase", phase, LossKind.KNOB, detail))
        if role == "assistant":
            if self._side != "assistant":
                self._begin("assistant", path)
            self._blocks += blocks
            return
        self._flush()
        if blocks:
            self._turns.append(Turn(role=role, blocks=blocks, path=path))

    def _call(self, item: shapes.FunctionCall, path: str) -> None:
        call = ToolCall(
            id=item.call_id,
            name=item.name,
            arguments=item.arguments,
            namespace=item.namespace,
            path=path,
        )
        self._add("assistant", call)

    def _custom_call(self, item: shapes.CustomCall, path: str) -> None:
        call = ToolCall(
            id=item.call_id,
            name=item.name,
            arguments=item.input,
            custom=True,
            namespace=item.namespace,
            path=path,
        )
        self._add("assistant", call)

    def _search_call(self, item: shapes.SearchCall, path: str) -> None:
        self._add("assistant", read_search_call(item, path))

    def _machine_call(self, item: MachineCall, path: str) -> None:
        self._add("assistant", read_machine_call(item, path))

    def _output(self, item: shapes.FunctionOutput | shapes.CustomOutput, path: str) -> None:
        content: tuple[Block, ...] = ()
        if item.output != "":
            content = read_content(item.output, f"{path}.output", self._extras)
        custom = type(item) is shapes.CustomOutput
        self._add(
            "user", ToolResult(call_id=item.call_id, content=content, custom=custom, path=path)
        )

    def _machine_output(self, item: MachineOutput, path: str) -> None:
        self._add("user", read_machine_output(item, path))

    def _search_output(self, item: shapes.SearchOutput, path: str) -> None:
        found = read_tools(item.tools, f"{path}.tools", self._extras)
        self._offer(found)
        self._add("user", search_result(item.call_id, found, path))

    def _offer(self, tools: Iterable[Tool]) -> None:
        """Add tools declared in items, without duplicates."""
        self.tools += (tool for tool in tools if not any(_same(tool, one) for one in self.tools))

    def _reasoning(self, item: shapes.ReasoningItem, path: str) -> None:
        summary = tuple([part.text for part in item.summary or ()])
        content = tuple([part.text for part in item.content or ()])
        if summary and content:
            detail = "only the summary of reasoning is carried beside its state"
            self._extras.append(Extra(f"{path}.content", content, LossKind.KNOB, detail))
        block = Reasoning(
            parts=summary or content,
            style="raw" if content and not summary else "summary",
            path=path,
        )
        if item.encrypted_content:
            block = self._with_state(block, item.encrypted_content, item.id)
        self._add("assistant", block)

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

    def _additional_tools(self, item: shapes.AdditionalTools, path: str) -> None:
        self._offer(read_tools(item.tools, f"{path}.tools", self._extras))
        detail = "these tools are offered from the start of the conversation"
        self._extras.append(Extra(path, item.tools, LossKind.CONVERTED, detail))

    def _configuration_update(self, item: shapes.ConfigurationUpdate, path: str) -> None:
        self.updates.append((path, item))
        detail = "these settings hold for the whole request"
        self._extras.append(Extra(path, item, LossKind.CONVERTED, detail))

    def _item_reference(self, item: shapes.ItemReference, path: str) -> None:
        detail = "items are not stored here; send the item itself"
        self._extras.append(Extra(path, item.id, LossKind.CONTENT, detail))


_item: Reader[shapes.AnyItem] = Reader(shapes.AnyItem)  # type: ignore[arg-type]
_message = Reader(shapes.Message)
_SEARCHES: dict[str, Reader[Any]] = {
    "tool_search_call": Reader(shapes.SearchCall),
    "tool_search_output": Reader(shapes.SearchOutput),
}

_READERS: dict[type[shapes.Item], Callable[[ItemReader, Any, str], None]] = {
    shapes.Message: ItemReader._message,
    shapes.FunctionCall: ItemReader._call,
    shapes.CustomCall: ItemReader._custom_call,
    shapes.SearchCall: ItemReader._search_call,
    shapes.ShellCall: ItemReader._machine_call,
    shapes.LocalShellCall: ItemReader._machine_call,
    shapes.PatchCall: ItemReader._machine_call,
    shapes.FunctionOutput: ItemReader._output,
    shapes.CustomOutput: ItemReader._output,
    shapes.SearchOutput: ItemReader._search_output,
    shapes.ShellOutput: ItemReader._machine_output,
    shapes.LocalShellOutput: ItemReader._machine_output,
    shapes.PatchOutput: ItemReader._machine_output,
    shapes.ReasoningItem: ItemReader._reasoning,
    shapes.AdditionalTools: ItemReader._additional_tools,
    shapes.ConfigurationUpdate: ItemReader._configuration_update,
    shapes.ItemReference: ItemReader._item_reference,
}


def _is_clients(value: JsonObject) -> bool:
    """Whether an item is of a search for tools that the client carries out."""
    return value.get("execution") == "client" and bool(value.get("call_id"))


def _same(one: Tool, other: Tool) -> bool:
    """Whether two tools are equal except for their paths."""
    return type(one) is type(other) and replace(one, path="") == replace(other, path="")
