"""The blocks of the service's web searches in an answer: its call opens what its result closes."""

from __future__ import annotations

from dragoman.canonical.blocks import UrlCitation, WebSearch
from dragoman.canonical.events import Annotated, Closed, Delta, Event, Opened
from dragoman.protocols.anthropic_messages import web_search
from dragoman.protocols.base import to_json_text
from dragoman.protocols.fields import JsonObject

_NO_INPUT = "{}"


def is_call(block: JsonObject) -> bool:
    """Whether a block is the call of a search."""
    return block.get("type") == web_search.CALL and block.get("name") == web_search.NAME


class SearchBlocks:
    """The searches of one answer."""

    __slots__ = ("_inputs", "_open")

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        """Numbers of the searches without a result, by their ids."""
        self._inputs: dict[int, str] = {}
        """Their inputs received so far, by number."""

    def begin(self, number: int, block: JsonObject) -> Event:
        """A search begins with its call."""
        self._open[str(block.get("id"))] = number
        self._inputs[number] = to_json_text(block.get("input") or {})
        return Opened(number, WebSearch())

    def add(self, number: int, piece: object) -> None:
        """A piece of its input."""
        if isinstance(piece, str) and number in self._inputs:
            before = self._inputs[number]
            # The start has an empty input, and its pieces follow.
            self._inputs[number] = piece if before == _NO_INPUT else before + piece

    def query(self, number: int) -> list[Event]:
        """The query, once the input is complete."""
        text = self._inputs.pop(number, None)
        query = "" if text is None else web_search.query_of_text(text)
        return [Delta(number, query)] if query else []

    def result(self, block: JsonObject) -> list[Event] | None:
        """The end of a search with its results. None for any other block."""
        if block.get("type") != web_search.RESULT:
            return None
        number = self._open.pop(str(block.get("tool_use_id")), None)
        if number is None:
            return None
        found = [UrlCitation(url=url) for url in web_search.sources_of(block.get("content"))]
        return [*(Annotated(number, source) for source in found), *self._end(number)]

    def end(self) -> list[Event]:
        """End the searches without a result at the end of the message."""
        return [event for number in self._open.values() for event in self._end(number)]

    def _end(self, number: int) -> list[Event]:
        return [*self.query(number), Closed(number)]
