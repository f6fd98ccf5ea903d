"""Tool calls that a server without a parser for them leaves in the text of an answer, in tags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from dragoman.canonical.blocks import Text, ToolCall
from dragoman.canonical.events import Closed, Delta, Event, Finished, Opened
from dragoman.canonical.finish import FinishReason
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.jsontext import JsonError, decode, object_of

_TAGS: Final = {"<tool_call>": "</tool_call>", "<function=": "</function>"}
_FUNCTION = re.compile(r"\s*<function=([^>\s]+)>(.*?)(?:</function>)?\s*", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)

_LEFT: Final = (
    "a tool call was left as text: the server lacks its parser (vLLM --enable-auto-tool-choice and"
    ' --tool-call-parser, SGLang --tool-call-parser, llama.cpp --jinja), or set tool_text = "parse"'
)
_PARSED: Final = "a tool call in the text became a call"


class TaggedCalls:
    """A stage behind a reader that finds whole calls of known tools in an answer's text, as the
    chat templates of Hermes and Qwen have them, whole or streamed. Each becomes a call if `mint`,
    which makes its id, is given, and is reported. Text is held back only as far as it may still be
    one.

    `others` are the properties of each known tool, by its name upstream, that are no texts.
    """

    __slots__ = ("_called", "_head", "_held", "_ledger", "_mint", "_others", "over")

    def __init__(
        self,
        others: Mapping[str, frozenset[str]],
        ledger: Ledger,
        mint: Callable[[str], str] | None,
    ) -> None:
        self._others = others
        self._ledger = ledger
        self._mint = mint
        self._head: Opened | None = None
        """The open text block."""
        self._held = ""
        self._called = 0
        self.over = not others

    def push(self, event: Event) -> Sequence[Event]:
        """Take one event; return what it becomes."""
        if type(event) is Opened and type(event.block) is Text:
            self._head = event
        elif type(event) is Finished and self._called and event.finish.reason is FinishReason.STOP:
            return (Finished(replace(event.finish, reason=FinishReason.TOOL_CALLS)),)
        elif self._head is not None and getattr(event, "index", None) == self._head.index:
            if type(event) is Delta and (self._held or "<" in event.text):
                self._held += event.text
                return self._next()
            if type(event) is Closed:
                rest, self._head = self._rest(), None
                return [*rest, event]
        return (event,)

    def _next(self) -> list[Event]:
        """What of the text held can be passed on."""
        passed: list[Event] = []
        while (at := self._held.find("<")) >= 0:
            passed += self._text(self._held[:at])
            self._held = held = self._held[at:]
            tag = next((tag for tag in _TAGS if tag.startswith(held[: len(tag)])), None)
            if tag is None:
                passed += self._text("<")
                self._held = held[1:]
                continue
            end = held.find(_TAGS[tag]) if len(held) >= len(tag) else -1
            if end < 0:
                return passed
            end += len(_TAGS[tag])
            passed += self._call(held[:end])
            self._held = held[end:]
        return [*passed, *self._rest()]

    def _text(self, text: str) -> list[Event]:
        assert self._head is not None
        return [Delta(self._head.index, text)] if text else []

    def _rest(self) -> list[Event]:
        held, self._held = self._held, ""
        return self._text(held)

    def _call(self, text: str) -> list[Event]:
        """The events of a text in tags: those of a call, or of text if it is none."""
        found = self._read(text)
        if found is None or self._mint is None:
            if found is not None:
                self._ledger.add("tools", LossKind.CONVERTED, _LEFT)
            return self._text(text)
        self._ledger.add("tools", LossKind.CONVERTED, _PARSED)
        self._called += 1
        index = -1 - self._called
        name, arguments = found
        head = ToolCall(id=self._mint("call_"), name=name)
        return [Opened(index, head), Delta(index, arguments), Closed(index)]

    def _read(self, text: str) -> tuple[str, str] | None:
        """Name and arguments of a call of a known tool."""
        inner = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
        found = _FUNCTION.fullmatch(inner)
        if found is None:
            value = object_of(inner) or {}
            name, arguments = value.get("name"), value.get("arguments", {})
            given = object_of(arguments) if isinstance(arguments, str) else arguments
            if not isinstance(name, str) or name not in self._others or type(given) is not dict:
                return None
            return name, json.dumps(given)
        name = found[1]
        if name not in self._others:
            return None
        given = dict(_PARAMETER.findall(found[2]))
        others = self._others[name]
        return name, json.dumps(
            {key: _value(text) if key in others else text for key, text in given.items()}
        )


def _value(text: str) -> object:
    try:
        return decode(text)
    except JsonError:
        return text
