"""Reads the input items of a request into turns (types: response_input_item_param.py).

Neighbouring items of the model's side (messages, reasoning, calls) are one assistant turn in
their order, neighbouring tool outputs one user turn; every other message is a turn of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, structs
from msgspec.structs import replace

from dragoman import jsontext
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
from dragoman.protocols.base import to_json
from dragoman.protocols.fields import JsonObject, check_depth
from dragoman.protocols.openai_responses import shapes, wire
from dragoman.protocols.openai_responses.client_tools import (
    read_machine_call,
    read_machine_output,
    read_search_call,
    read_shell_output,
    search_result,
)
from dragoman.protocols.openai_responses.compaction import (
    ASK,
    COMPACTION,
    TRIGGER,
    read_compaction,
)
from dragoman.protocols.openai_responses.content_reader import read_content
from dragoman.protocols.openai_responses.tools import read_tools
from dragoman.protocols.openai_responses.web_search import WEB_SEARCH, read_web_search
from dragoman.protocols.reading import (
    UNKNOWN,
    Reader,
    is_neutral,
    lost_in,
    needed,
    report_lost,
    taker,
    text,
)
from dragoman.protocols.unknown_text import UNKNOWN_TYPE, text_in

Side: TypeAlias = Literal["assistant", "user"]
_USERS: Final = ("user", "system", "developer")


class ItemReader(Struct, eq=False):
    """The reader of items, one by one. `finish` returns the turns; `tools` and `updates` are the
    tools and settings in the items (`configuration_update` items, with their paths); `compacts` is
    whether one asks for a compaction."""

    _sealer: Sealer
    _extras: list[Extra]
    _turns: list[Turn] = []
    _side: Side | None = None
    _blocks: list[Block] = []
    _path: str = ""
    _trigger: Foreign | None = None
    """A request for a compaction, if the latest item is one."""
    compacts: bool = False
    tools: list[Tool] = []
    updates: list[tuple[str, shapes.Item]] = []

    def read(self, item: shapes.Item, path: str) -> None:
        """Take the next item.

        Raises:
            InvalidRequest: at the field at fault.
        """
        if self._trigger is not None:
            detail = "a compaction is asked for by the last item only"
            self._extras.append(Extra(self._trigger.path, TRIGGER, LossKind.KNOB, detail))
            self._trigger = None
        kind = item.type
        if kind is None:
            # Both forms may leave their type out: easy messages and references.
            kind = "item_reference" if item.role is None else "message"
            if item.role is None and item.id is None:
                raise InvalidRequest.at(f"{path}.type", "is required")
        known = _KINDS.get(kind)
        if item.carried is not None:
            self._carry(kind, item.carried, path)
            return
        if known is None or kind in shapes.SEARCH_TYPES:
            value = _whole(item)
            if known is None or not shapes.is_clients_search(value):
                self._carry(kind, value, path)
                return
        known.read(self, item, path)
        unread = known.unread(structs.astuple(item))
        if unread != known.absent:
            self._report(unread, known, path)

    def _report(self, unread: tuple[Any, ...], kind: _Kind, path: str) -> None:
        """Account for the members of an item that its reader does not read."""
        for value, (name, lost) in zip(unread, kind.lost, strict=True):
            if value is not None and not is_neutral(value, lost.neutral):
                where = f"{path}.{name}"
                self._extras.append(Extra(where, value, lost.kind, lost.detail, lost.code))

    def _carry(self, kind: str, value: JsonObject, path: str) -> None:
        """Take an item that is not read by its members."""
        if kind == "shell_call_output":
            output = _shell_output.convert(value, path, self._extras)
            self._add("user", read_shell_output(output, path))
            report_lost(output, path, self._extras)
            return
        check_depth(value, path)
        if kind == COMPACTION and str(value.get("encrypted_content")).startswith(PREFIX):
            self._flush()
            self._turns.append(read_compaction(value, path, self._sealer))
            return
        if kind == TRIGGER:
            for name in value.keys() - {"type"}:
                self._extras.append(Extra(f"{path}.{name}", value[name], LossKind.KNOB))
            self._trigger = Foreign(origin=wire.NAME, type=kind, raw=value, text=ASK, path=path)
            return
        if kind in wire.FOREIGN_ASSISTANT_ITEMS or kind in wire.FOREIGN_USER_ITEMS:
            side: Side = "assistant" if kind in wire.FOREIGN_ASSISTANT_ITEMS else "user"
            means = (read_web_search(value),) if kind == WEB_SEARCH else None
            block = Foreign(origin=wire.NAME, type=kind, raw=value, means=means, path=path)
        else:
            # A conversation has the items that the vendor adds for ever, so they never refuse a
            # request: other upstreams are given the text in them.
            self._extras.append(Extra(path, value, LossKind.KNOB, UNKNOWN_TYPE))
            is_users = value.get("role") in _USERS or kind.endswith(("_output", "_result"))
            side = "user" if is_users else "assistant"
            block = Foreign(
                origin=wire.NAME,
                type=kind[:64],
                raw=value,
                loss=LossKind.KNOB,
                text=text_in(value),
                path=path,
            )
        self._add(side, block)

    def finish(self) -> tuple[Turn, ...]:
        """The turns of all items."""
        if self._trigger is not None:
            self.compacts = True
            self._add("user", self._trigger)
        self._flush()
        return tuple(self._turns)

    def _add(self, side: Side, block: Block) -> None:
        if side != self._side:
            self._begin(side, block.path)
        self._blocks.append(block)

    def _begin(self, side: Side, path: str) -> None:
        self._flush()
        self._side = side
        self._path = path

    def _flush(self) -> None:
        if self._side is not None and self._blocks:
            turn = Turn(role=self._side, blocks=tuple(self._blocks), path=self._path)
            self._turns.append(turn)
        self._side = None
        self._blocks = []

    def _message(self, item: shapes.Item, path: str) -> None:
        role, content, phase = item.role, item.content, item.phase
        if content is None:
            raise InvalidRequest.at(f"{path}.content", "is required")
        assistant_phase = phase if role == "assistant" else None
        blocks = read_content(content, f"{path}.content", self._extras, assistant_phase)
        if phase is not None and not (
            assistant_phase and any(isinstance(block, Text) for block in blocks)
        ):
            detail = (
                "only text has a phase"
                if assistant_phase
                else "only the model's own messages have a phase"
            )
            self._extras.append(Extra(f"{path}.phase", phase, LossKind.KNOB, detail))
        if role == "assistant":
            if self._side != "assistant":
                self._begin("assistant", path)
            self._blocks += blocks
            return
        self._flush()
        if role is None:
            raise InvalidRequest.at(f"{path}.role", "is required")
        if blocks:
            self._turns.append(Turn(role=role, blocks=blocks, path=path))

    def _call(self, item: shapes.Item, path: str) -> None:
        custom = item.type == "custom_tool_call"
        given, member = (item.input, "input") if custom else (item.arguments, "arguments")
        call = ToolCall(
            id=needed(item.call_id, path, "call_id"),
            name=needed(item.name, path, "name"),
            arguments=text(given, path, member),
            custom=custom,
            namespace=item.namespace,
            path=path,
        )
        self._add("assistant", call)

    def _search_call(self, item: shapes.Item, path: str) -> None:
        self._add("assistant", read_search_call(item, path))

    def _machine_call(self, item: shapes.Item, path: str) -> None:
        self._add("assistant", read_machine_call(item, path))

    def _output(self, item: shapes.Item, path: str) -> None:
        call_id, output = needed(item.call_id, path, "call_id"), item.output
        if output is None:
            raise InvalidRequest.at(f"{path}.output", "is required")
        content = read_content(output, f"{path}.output", self._extras) if output != "" else ()
        custom = item.type == "custom_tool_call_output"
        self._add("user", ToolResult(call_id=call_id, content=content, custom=custom, path=path))

    def _machine_output(self, item: shapes.Item, path: str) -> None:
        self._add("user", read_machine_output(item, path))

    def _search_output(self, item: shapes.Item, path: str) -> None:
        found = read_tools(item.tools, f"{path}.tools", self._extras)
        self._offer(found)
        self._add("user", search_result(item.call_id or "", found, path))

    def _offer(self, tools: Iterable[Tool]) -> None:
        """Add tools declared in items, without duplicates."""
        self.tools += (tool for tool in tools if not any(_same(tool, one) for one in self.tools))

    def _reasoning(self, item: shapes.Item, path: str) -> None:
        summary = tuple([part.text for part in item.summary or ()])
        content = _thoughts(item.content, f"{path}.content")
        if summary and content:
            detail = "only the summary of reasoning is carried beside its state"
            self._extras.append(Extra(f"{path}.content", content, LossKind.KNOB, detail))
        block = Reasoning(
            parts=summary or content,
            style="raw" if content and not summary else "summary",
            path=path,
        )
        if item.encrypted_content:
            if type(item.id) not in (str, type(None)):
                raise InvalidRequest.at(f"{path}.id", "must be a string")
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

    def _additional_tools(self, item: shapes.Item, path: str) -> None:
        self._offer(read_tools(item.tools, f"{path}.tools", self._extras))
        detail = "these tools are offered from the start of the conversation"
        self._extras.append(Extra(path, item.tools, LossKind.CONVERTED, detail))

    def _configuration_update(self, item: shapes.Item, path: str) -> None:
        self.updates.append((path, item))
        detail = "these settings hold for the whole request"
        self._extras.append(Extra(path, item, LossKind.CONVERTED, detail))

    def _item_reference(self, item: shapes.Item, path: str) -> None:
        detail = "items are not stored here; send the item itself"
        self._extras.append(Extra(path, item.id, LossKind.CONTENT, detail))


_shell_output = Reader(shapes.ShellOutput)


class _Kind:
    """A type of items: its reader, and the members that this reads."""

    __slots__ = ("absent", "lost", "read", "unread")

    def __init__(
        self,
        read: Callable[[ItemReader, shapes.Item, str], None],
        *members: str,
    ) -> None:
        self.read = read
        others = [
            (at, member)
            for at, member in enumerate(structs.fields(shapes.Item))
            if member.name not in ("type", "id", *members)
        ]
        self.unread = taker([at for at, _ in others])
        """Takes the values of the other members from those of all."""
        self.absent = (None,) * len(others)
        """The values of the other members, where they are absent."""
        self.lost = [(member.encode_name, lost_in(member) or UNKNOWN) for _, member in others]


_CALL = ("call_id", "name", "namespace")
_KINDS: Final = {
    "message": _Kind(ItemReader._message, "role", "content", "phase"),
    "function_call": _Kind(ItemReader._call, *_CALL, "arguments"),
    "custom_tool_call": _Kind(ItemReader._call, *_CALL, "input"),
    "function_call_output": _Kind(ItemReader._output, "call_id", "output"),
    "custom_tool_call_output": _Kind(ItemReader._output, "call_id", "output"),
    "reasoning": _Kind(ItemReader._reasoning, "summary", "content", "encrypted_content"),
    "tool_search_call": _Kind(ItemReader._search_call, "call_id", "execution", "arguments"),
    "tool_search_output": _Kind(ItemReader._search_output, "call_id", "execution", "tools"),
    "shell_call": _Kind(ItemReader._machine_call, "call_id", "action"),
    "local_shell_call": _Kind(ItemReader._machine_call, "call_id", "action"),
    "apply_patch_call": _Kind(ItemReader._machine_call, "call_id", "operation"),
    "local_shell_call_output": _Kind(ItemReader._machine_output, "output"),
    "apply_patch_call_output": _Kind(ItemReader._machine_output, "call_id", "status", "output"),
    "additional_tools": _Kind(ItemReader._additional_tools, "role", "tools"),
    "configuration_update": _Kind(ItemReader._configuration_update, "reasoning", "text"),
    "item_reference": _Kind(ItemReader._item_reference),
}


def _whole(item: shapes.Item) -> JsonObject:
    """All of an item that has no unusual members."""
    members = zip(item.__struct_encode_fields__, structs.astuple(item), strict=True)
    whole: JsonObject = jsontext.decode(
        to_json({name: value for name, value in members if value is not None})
    )
    return whole


def _thoughts(content: shapes.Content | None, path: str) -> tuple[str, ...]:
    """The texts of readable reasoning."""
    if isinstance(content, str):
        raise InvalidRequest.at(path, "must be an array")
    texts = []
    for number, part in enumerate(content or ()):
        if not isinstance(part, shapes.ReasoningText | shapes.TextPart):
            raise InvalidRequest.at(f"{path}[{number}].type", "must be reasoning_text")
        texts.append(part.text)
    return tuple(texts)


def _same(one: Tool, other: Tool) -> bool:
    """Whether two tools are equal except for their paths."""
    return type(one) is type(other) and replace(one, path="") == replace(other, path="")
