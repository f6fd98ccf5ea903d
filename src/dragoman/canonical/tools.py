"""Tool calls of an upstream, turned back into the client's own tools as they stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.canonical.blocks import ToolCall
from dragoman.canonical.errors import Fault, FaultKind
from dragoman.canonical.escapes import Escapes
from dragoman.canonical.events import Closed, Delta, Event, Failed, Finished, Opened
from dragoman.canonical.finish import FinishReason
from dragoman.canonical.halves import MENDED
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.names import ToolNames
from dragoman.jsontext import JsonError, decode, object_of

CUSTOM_INPUT = "input"
"""Name of the one string argument of a function that emulates a custom tool."""

UNUSABLE_ARGUMENTS = "invalid_tool_arguments"
"""Code of the error for an answer whose tool arguments are not a JSON object."""

_NULL = "null"
"""Arguments that some servers have in the place of none."""

_ALIASES = ("input", "patch", "content", "text", "command")


class _Call:
    """What is known of a call while it streams. Its arguments are `held` as long as they are white
    space or a null, which may turn out to be all there is, or may not be that of JSON."""

    __slots__ = ("emulated", "escapes", "head", "held", "pieces", "properties")

    def __init__(self, head: ToolCall, emulated: bool, properties: Mapping[str, str]) -> None:
        self.escapes: Escapes | None = None
        """None before the first escape in arguments that are JSON."""
        self.head = head
        self.emulated = emulated
        self.held = emulated or not head.custom
        self.pieces: list[str] = []
        self.properties = properties
        """The client's names of properties that have others upstream, by these: then the arguments
        are held until they are whole."""


class ToolRestorer:
    """A stage between reader and sequencer.

    Restores names and namespaces, unwraps emulated custom tools (their input is held until it
    is whole), makes missing arguments and a null `{}`, and turns an answer whose arguments are
    not a JSON object into a failure, unless the output limit cut them, which their `Closed` tells.
    """

    __slots__ = ("_broken", "_calls", "_ledger", "_names")

    def __init__(self, names: ToolNames, ledger: Ledger | None = None) -> None:
        self._names = names
        self._ledger = ledger
        self._calls: dict[int, _Call] = {}
        self._broken: str | None = None

    def push(self, event: Event) -> tuple[Event, ...]:
        """Take one event; return what it becomes."""
        if type(event) is Opened:
            head = event.block
            return (self._opened(event, head) if type(head) is ToolCall else event,)
        if self._calls:
            if type(event) is Delta:
                call = self._calls.get(event.index)
                if call is not None:
                    if call.escapes is not None or "\\" in event.text:
                        event = _escaped(event, call)
                    call.pieces.append(event.text)
                    return self._more(event, call) if call.held else (event,)
            elif type(event) is Closed:
                call = self._calls.pop(event.index, None)
                if call is not None:
                    return self._closed(event, call)
        if (
            self._broken
            and type(event) is Finished
            and event.finish.reason is not FinishReason.LENGTH
        ):
            problem = f"the arguments of tool call {self._broken} are not a JSON object"
            message = f"The upstream's answer is unusable: {problem}"
            fault = Fault(FaultKind.UPSTREAM_FAILED, message, code=UNUSABLE_ARGUMENTS)
            return (Failed(fault),)
        return (event,)

    def passing(self, index: int) -> list[str] | None:
        """The pieces of a call of which further arguments without an escape pass as they are, once
        they are added to these; None of any other block."""
        call = self._calls.get(index)
        if call is None or call.held or (call.escapes is not None and call.escapes.waits):
            return None
        return call.pieces

    def _opened(self, event: Opened, head: ToolCall) -> Event:
        emulated, properties = False, _NOTHING_RENAMED
        known = self._names.inward(head.name) if head.namespace is None else None
        if known is not None:
            emulated = known.custom and not head.custom
            if known.properties:
                properties = {new: old for old, new in known.properties.items()}
            head = replace(
                head,
                name=known.name,
                namespace=known.namespace,
                custom=known.custom,
                form=known.form,
            )
        self._calls[event.index] = _Call(head, emulated, properties)
        return Opened(event.index, head)

    def _last(self, index: int, text: str, call: _Call) -> tuple[Event, ...]:
        """The last of the arguments of a call."""
        call.pieces.append(text)
        event = Delta(index, text)
        return self._more(event, call) if call.held else (event,)

    def _more(self, event: Delta, call: _Call) -> tuple[Event, ...]:
        """More of the arguments of a call that nothing was given of."""
        if call.emulated or call.properties:
            return ()
        said = "".join(call.pieces)
        if _NULL.startswith(said.strip()):
            return ()
        call.held = False
        return (Delta(event.index, said),)

    def _closed(self, event: Closed, call: _Call) -> tuple[Event, ...]:
        if call.escapes is not None:
            rest = call.escapes.flush()
            if call.escapes.mended and self._ledger is not None:
                self._ledger.add("arguments", LossKind.REPAIRED, MENDED)
            call.escapes = None
            if rest:
                return (*self._last(event.index, rest, call), *self._closed(event, call))
        text = "".join(call.pieces)
        if call.emulated:
            unwrapped = unwrap_custom(text)
            if unwrapped is None:
                return self._cut(event, call)
            return (Delta(event.index, unwrapped), event)
        if call.head.custom:
            return (event,)
        if text.strip() in ("", _NULL):
            return (Delta(event.index, "{}"), event)
        if call.properties and (value := object_of(text)) is not None:
            return (Delta(event.index, _renamed(value, call.properties)), event)
        return (event,) if is_json_object(text) else self._cut(event, call)

    def _cut(self, event: Closed, call: _Call) -> tuple[Event]:
        self._broken = call.head.name
        return (Closed(event.index, cut=True),)


def _escaped(event: Delta, call: _Call) -> Delta:
    """More of the arguments of a call, with whole escapes only."""
    if call.head.custom and not call.emulated:
        return event  # free text
    call.escapes = call.escapes or Escapes()
    return Delta(event.index, call.escapes.push(event.text), event.logprobs)


_NOTHING_RENAMED: Mapping[str, str] = {}


def _renamed(value: dict[str, Any], names: Mapping[str, str]) -> str:
    return msgspec.json.encode(with_renamed_keys(value, names)).decode()


def with_renamed_keys(value: Any, names: Mapping[str, str]) -> Any:
    """A JSON value with the members of its objects renamed, at any depth."""
    if type(value) is list:
        return [with_renamed_keys(element, names) for element in value]
    if type(value) is not dict:
        return value
    return {names.get(key, key): with_renamed_keys(inner, names) for key, inner in value.items()}


def is_json_object(text: str) -> bool:
    """Whether `text` is one JSON object."""
    return object_of(text) is not None


def wrap_custom(text: str) -> dict[str, Any]:
    """The arguments of the function that emulates a custom tool."""
    return {CUSTOM_INPUT: text}


def unwrap_custom(arguments: str) -> str | None:
    """The free text inside the arguments of an emulated custom tool.

    Models at times name the one argument after its content (`patch`, `content`); a single
    string is taken whatever its name. None if there is no such string.
    """
    try:
        value = decode(arguments) if arguments.strip() else {}
    except JsonError:
        return None
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    for name in _ALIASES:
        if isinstance(value.get(name), str):
            return str(value[name])
    strings = [item for item in value.values() if isinstance(item, str)]
    if len(strings) == 1:
        return strings[0]
    return "" if not value else None
