"""The tool calls of an answer: their ids, and the inputs in their starts."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.blocks import ToolCall
from dragoman.canonical.call_ids import CallIds
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.events import Event, Opened
from dragoman.canonical.losses import LossKind
from dragoman.protocols.anthropic_messages.loose import object_of
from dragoman.protocols.base import Inbound, to_json_text
from dragoman.protocols.fields import JsonObject

NO_INPUT = "{}"
"""The input in a call's start, which its pieces repeat."""


class CallBlocks:
    """The calls of one answer."""

    __slots__ = ("_given", "_ids", "_inbound", "_inputs", "_message_id")

    def __init__(self, inbound: Inbound, message_id: str) -> None:
        self._inbound = inbound
        self._message_id = message_id
        self._ids = CallIds("toolu_")
        self._inputs: dict[int, str] = {}
        """The inputs of calls without pieces, by number."""
        self._given: dict[int, tuple[Any, list[str]]] = {}
        """Inputs in the starts of calls, and the pieces that repeat them, by number."""

    def begin(self, number: int, block: JsonObject) -> Event:
        """A call begins, with the start `block`.

        Raises:
            UpstreamError: it has no name.
        """
        given = object_of(block.get("input"))
        if given:
            self._given[number] = given, []
        self._inputs[number] = to_json_text(given or {})
        return self.open(number, block.get("name"), block.get("id"))

    def open(self, number: int, name: Any, identifier: Any) -> Event:
        """The beginning of a call.

        Raises:
            UpstreamError: it has no name.
        """
        if not isinstance(name, str) or not name:
            raise UpstreamError.unreadable("a tool call has no name")
        if not isinstance(identifier, str) or not identifier:
            identifier = f"toolu_{self._message_id}_{number}"
        call_id = self._ids.take(identifier, f"{self._message_id}:{number}")
        if call_id != identifier:
            self._inbound.ledger.add(
                f"content[{number}].id", LossKind.REPAIRED, "two calls had one id"
            )
        return Opened(number, ToolCall(id=call_id, name=name))

    def lacks_input(self, number: int) -> bool:
        """Whether its start had no input and it has no piece."""
        return self._inputs.get(number) == NO_INPUT

    def give(self, number: int, value: Any) -> None:
        """All of its input, if it has no piece."""
        self._inputs[number] = to_json_text(object_of(value))

    def is_given(self, number: int) -> bool:
        """Whether its start had its input."""
        return number in self._given

    def add(self, number: int, piece: str) -> None:
        """A piece of its input: the first, or any one if the start had the input."""
        self._inputs.pop(number, None)
        if number in self._given:
            self._given[number][1].append(piece)

    def end(self, number: int) -> str:
        """The part of its input to pass on at its end.

        Raises:
            UpstreamError: its pieces contradict its start.
        """
        given, pieces = self._given.pop(number, (None, []))
        if pieces and object_of("".join(pieces)) != object_of(given):
            problem = "the pieces of a tool call are not the input that its start has"
            raise UpstreamError.unreadable(problem)
        return self._inputs.pop(number, "")
