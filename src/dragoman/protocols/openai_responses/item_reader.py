"""Reads the input items of a request into turns (types: response_input_item_param.py).

Neighbouring items of the model's side (messages, reasoning, calls) are one assistant turn in
their order, neighbouring tool outputs one user turn; every other message is a turn of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias

from msgspec import Raw, Struct
from msgspec.structs import astuple, fields, replace

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
    text,
)
from dragoman.protocols.unknown_text import unknown_block

Role: TypeAlias = Literal["assistant", "user", "system", "developer", "tool"]
"""Whose an item is; what answers a call is the `tool`'s, in a turn of the user."""
_Read: TypeAlias = tuple[Role, Sequence[Block]] | None
"""The blocks of an item; None for one that is no part of the conversation."""
_USERS: Final = ("user", "system", "developer")


class ItemReader(Struct, eq=False):
    """The reader of the items of a request. `tools` and `updates` are the tools and settings in the
    items (`configuration_update` items, with their paths); `compacts` is whether the last one asks
    for a compaction."""

    _sealer: Sealer
    _extras: list[Extra]
    _last: str = ""
    """The path of the last item."""
    compacts: bool = False
    tools: list[Tool] = []
    updates: list[tuple[str, shapes.Item]] = []

    def read(self, items: Sequence[Any]) -> tuple[Turn, ...]:
        """The turns of all items, which are decoded one by one if they are not.

        Raises:
            InvalidRequest: at the field at fault.
        """
        self._last = f"input[{len(items) - 1}]"
        turns: list[Turn] = []
        side: Role = "user"
        blocks: list[Block] = []
        begun = ""
        for position, item in enumerate(self._decoded(items) if type(items[0]) is Raw else items):
            path = f"input[{position}]"
            kind = _KINDS.get(item.type) or _kind_of(item, path)
            read = kind.read(self, item, path)
            if kind.unread(astuple(item)) != kind.absent:
                self._report(item, kind, path)
            if read is None:
                continue
            role, found = read
            if role == side and role not in _USERS:
                blocks += found
                continue
            if blocks:
                whose = side if side != "tool" else "user"
                turns.append(Turn(role=whose, blocks=tuple(blocks), path=begun))
            side, blocks, begun = role, [*found], path
        if blocks:
            whose = side if side != "tool" else "user"
            turns.append(Turn(role=whose, blocks=tuple(blocks), path=begun))
        return tuple(turns)

    def _decoded(self, items: Iterable[Raw]) -> Iterator[shapes.Item]:
        for position, raw in enumerate(items):
            yield _item.read(raw, self._extras, f"input[{position}]")

    def _report(self, item: shapes.Item, kind: _Kind, path: str) -> None:
        """Account for the members of an item that its reader does not read."""
        for value, (name, lost) in zip(astuple(item), _MEMBERS, strict=True):
            if value is None or name in kind.members or is_neutral(value, lost.neutral):
                continue
            self._extras.append(Extra(f"{path}.{name}", value, lost.kind, lost.detail, lost.code))

    def _carried(self, item: shapes.Item, path: str) -> _Read:
        """An item that is not read by its members."""
        kind, value = str(item.type), item.carried or _whole(item)
        if kind == "shell_call_output":
            output = _shell_output.convert(value, path, self._extras)
            report_lost(output, path, self._extras)
            return "tool", (read_shell_output(output, path),)
        check_depth(value, path)
        if kind == COMPACTION and str(value.get("encrypted_content")).startswith(PREFIX):
            return "user", (read_compaction(value, path, self._sealer),)
        if kind == TRIGGER:
            return self._trigger(value, path)
        if kind in wire.FOREIGN_ASSISTANT_ITEMS or kind in wire.FOREIGN_USER_ITEMS:
            means = (read_web_search(value),) if kind == WEB_SEARCH else None
            known = Foreign(origin=wire.NAME, type=kind, raw=value, means=means, path=path)
            return "assistant" if kind in wire.FOREIGN_ASSISTANT_ITEMS else "tool", (known,)
        # A conversation has the items that the vendor adds for ever, so they never refuse a
        # request: other upstreams are given the text in them.
        block = unknown_block(wire.NAME, kind, value, path, self._extras, LossKind.KNOB)
        is_users = value.get("role") in _USERS or kind.endswith(("_output", "_result"))
        return "tool" if is_users else "assistant", (block,)

    def _trigger(self, value: JsonObject, path: str) -> _Read:
        """The request for a compaction."""
        for name in value.keys() - {"type"}:
            self._extras.append(Extra(f"{path}.{name}", value[name], LossKind.KNOB))
        if path != self._last:
            detail = "a compaction is asked for by the last item only"
            self._extras.append(Extra(path, TRIGGER, LossKind.KNOB, detail))
            return None
        self.compacts = True
        return "tool", (Foreign(origin=wire.NAME, type=TRIGGER, raw=value, text=ASK, path=path),)

    def _message(self, item: shapes.Item, path: str) -> _Read:
        role, content, phase = item.role, item.content, item.phase
        if content is None:
            raise InvalidRequest.at(f"{path}.content", "is required")
        own = phase if role == "assistant" else None
        blocks = read_content(content, f"{path}.content", self._extras, own)
        if phase is not None and not (own and any(isinstance(block, Text) for block in blocks)):
            detail = (
                "only text has a phase" if own else "only the model's own messages have a phase"
            )
            self._extras.append(Extra(f"{path}.phase", phase, LossKind.KNOB, detail))
        if role is None:
            raise InvalidRequest.at(f"{path}.role", "is required")
        return role, blocks

    def _call(self, item: shapes.Item, path: str) -> _Read:
        custom = item.type == "custom_tool_call"
        given, member = (item.input, "input") if custom else (item.arguments, "arguments")
        call = ToolCall(
            id=item.call_id or needed(item.call_id, path, "call_id"),
            name=item.name or needed(item.name, path, "name"),
            arguments=given if type(given) is str else text(given, path, member),
            custom=custom,
            namespace=item.namespace,
            path=path,
        )
        return "assistant", (call,)

    def _search_call(self, item: shapes.Item, path: str) -> _Read:
        return "assistant", (read_search_call(item, path),)

    def _machine_call(self, item: shapes.Item, path: str) -> _Read:
        return "assistant", (read_machine_call(item, path),)

    def _output(self, item: shapes.Item, path: str) -> _Read:
        call_id, output = item.call_id or needed(item.call_id, path, "call_id"), item.output
        if output is None:
            raise InvalidRequest.at(f"{path}.output", "is required")
        content = read_content(output, f"{path}.output", self._extras) if output != "" else ()
        custom = item.type == "custom_tool_call_output"
        return "tool", (ToolResult(call_id=call_id, content=content, custom=custom, path=path),)

    def _machine_output(self, item: shapes.Item, path: str) -> _Read:
        return "tool", (read_machine_output(item, path),)

    def _search_output(self, item: shapes.Item, path: str) -> _Read:
        found = read_tools(item.tools, f"{path}.tools", self._extras)
        self._offer(found)
        return "tool", (search_result(item.call_id or "", found, path),)

    def _offer(self, tools: Iterable[Tool]) -> None:
        """Add tools declared in items, without duplicates."""
        self.tools += (tool for tool in tools if not any(_same(tool, one) for one in self.tools))

    def _reasoning(self, item: shapes.Item, path: str) -> _Read:
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
        return "assistant", (block,)

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

    def _additional_tools(self, item: shapes.Item, path: str) -> _Read:
        self._offer(read_tools(item.tools, f"{path}.tools", self._extras))
        detail = "these tools are offered from the start of the conversation"
        self._extras.append(Extra(path, item.tools, LossKind.CONVERTED, detail))
        return None

    def _configuration_update(self, item: shapes.Item, path: str) -> _Read:
        self.updates.append((path, item))
        detail = "these settings hold for the whole request"
        self._extras.append(Extra(path, item, LossKind.CONVERTED, detail))
        return None

    def _item_reference(self, item: shapes.Item, path: str) -> _Read:
        detail = "items are not stored here; send the item itself"
        self._extras.append(Extra(path, item.id, LossKind.CONTENT, detail))
        return None


_item = Reader(shapes.Item)
_shell_output = Reader(shapes.ShellOutput)
_MEMBERS: Final = [
    (member.encode_name, lost_in(member) or UNKNOWN) for member in fields(shapes.Item)
]
"""The members of items, with what losing each means."""


class _Kind:
    """A type of items: its reader, and the members that this reads. `unread` takes the others from
    the values of all, `absent` is what it takes where there are none."""

    __slots__ = ("absent", "members", "read", "unread")

    def __init__(
        self, read: Callable[[ItemReader, shapes.Item, str], _Read], *members: str
    ) -> None:
        self.read = read
        self.members = ("type", "id", *members)
        known = [at for at, (name, _) in enumerate(_MEMBERS) if name in self.members]
        # Members that stand together are taken together.
        gaps = zip([-1, *known], [*known, len(_MEMBERS)], strict=True)
        runs = [slice(one + 1, other) for one, other in gaps if other - one > 1]
        self.unread: Callable[[tuple[Any, ...]], Any] = itemgetter(*(runs or [slice(0)]))
        self.absent = self.unread((None,) * len(_MEMBERS))


_CALL = ("call_id", "name", "namespace")
_KINDS: Final[dict[str | None, _Kind]] = {
    "message": _Kind(ItemReader._message, "role", "content", "phase"),
    "function_call": _Kind(ItemReader._call, *_CALL, "arguments"),
    "custom_tool_call": _Kind(ItemReader._call, *_CALL, "input"),
    "function_call_output": _Kind(ItemReader._output, "call_id", "output"),
    "custom_tool_call_output": _Kind(ItemReader._output, "call_id", "output"),
    "reasoning": _Kind(ItemReader._reasoning, "summary", "content", "encrypted_content"),
    "shell_call": _Kind(ItemReader._machine_call, "call_id", "action"),
    "local_shell_call": _Kind(ItemReader._machine_call, "call_id", "action"),
    "apply_patch_call": _Kind(ItemReader._machine_call, "call_id", "operation"),
    "local_shell_call_output": _Kind(ItemReader._machine_output, "output"),
    "apply_patch_call_output": _Kind(ItemReader._machine_output, "call_id", "status", "output"),
    "additional_tools": _Kind(ItemReader._additional_tools, "role", "tools"),
    "configuration_update": _Kind(ItemReader._configuration_update, "reasoning", "text"),
    "item_reference": _Kind(ItemReader._item_reference),
}
_SEARCHES: Final = {
    "tool_search_call": _Kind(ItemReader._search_call, "call_id", "execution", "arguments"),
    "tool_search_output": _Kind(ItemReader._search_output, "call_id", "execution", "tools"),
}
_CARRIED: Final = _Kind(ItemReader._carried, *[name for name, _ in _MEMBERS])


def _kind_of(item: shapes.Item, path: str) -> _Kind:
    """The kind of an item of another type, or without one.

    Raises:
        InvalidRequest: it must have one.
    """
    if item.type is not None:
        is_clients = item.execution == "client" and item.call_id
        return _SEARCHES.get(item.type, _CARRIED) if is_clients else _CARRIED
    # Both forms may leave their type out: easy messages and references.
    if item.role is None and item.id is None:
        raise InvalidRequest.at(f"{path}.type", "is required")
    return _KINDS["item_reference" if item.role is None else "message"]


def _whole(item: shapes.Item) -> JsonObject:
    """All of an item that has no unusual members."""
    members = zip(item.__struct_encode_fields__, astuple(item), strict=True)
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
