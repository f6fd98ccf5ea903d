"""Writes the turns of a conversation as input items.

Items have no ids, since nothing is stored upstream, with one exception: reasoning sent back to its
maker needs its original id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    UrlCitation,
)
from dragoman.canonical.losses import LossKind
from dragoman.canonical.names import safe_id
from dragoman.canonical.requests import Role, Turn
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_responses import wire
from dragoman.protocols.openai_responses.content_writer import PartWriter, write_annotation
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.openai_responses.web_search import sent_search
from dragoman.protocols.request_settings import GO_ON, GOES_ON


class ItemWriter(Struct, eq=False):
    """The writer of turns, one after another, into `items`. `parts` writes all parts of the
    request: it counts their cache marks."""

    _outbound: Outbound
    parts: PartWriter
    items: list[JsonObject] = []
    _reasoned: set[str] = set()

    def write(self, turns: Iterable[Turn]) -> None:
        """Add the items of turns; what they cannot express goes into the ledger."""
        for turn in turns:
            if turn.name is not None:
                detail = "speakers have no names"
                self._outbound.ledger.add(f"{turn.path}.name", LossKind.KNOB, detail)
            if turn.role == "assistant":
                self._write_assistant(turn.blocks)
            else:
                self._write_side(turn.role, turn.blocks)

    def go_on(self, path: str) -> None:
        """Put a user message after the model's last words, which stand at `path`."""
        if self.items and self.items[-1].get("role") == "assistant":
            self._outbound.ledger.add(path, LossKind.REPAIRED, GOES_ON)
            self.items.append({"type": "message", "role": "user", "content": GO_ON})

    def message(self, role: Role, parts: list[JsonObject]) -> None:
        """Add a message of input parts."""
        self.items.append({"type": "message", "role": role, "content": _easy(parts)})

    @property
    def _knows_trigger(self) -> bool:
        return self._outbound.capabilities.of(ResponsesCapabilities).compaction

    def _write_side(self, role: Role, blocks: Iterable[Block]) -> None:
        """A turn of the user, the system or the developer."""
        parts: list[JsonObject] = []
        for block in blocks:
            if type(block) is ToolResult:
                if parts:
                    self.message(role, parts)
                    parts = []
                self._write_result(block)
            elif type(block) is not Foreign or block.origin != wire.NAME:
                parts += self.parts.of((block,))
            elif block.text and not self._knows_trigger:
                parts += self.parts.of((Text(text=block.text, path=block.path),))
            else:
                if parts:
                    self.message(role, parts)
                    parts = []
                self.items.append(block.raw)
        if parts:
            self.message(role, parts)

    def _write_assistant(self, blocks: Iterable[Block]) -> None:
        run: list[Text | Refusal] = []
        reasoned: list[str] = []
        for block in blocks:
            if type(block) is ToolCall:
                if run:
                    self._write_message(run)
                self._write_call(block)
                continue
            if type(block) is Foreign and block.origin != wire.NAME and block.text:
                detail = f"the text of {block.type} is sent"
                self._outbound.ledger.add(block.path, LossKind.CONVERTED, detail)
                block = Text(text=block.text, path=block.path)
            if type(block) is Text or type(block) is Refusal:
                if run and _phase([block, *run]) != _phase(run):
                    self._write_message(run)
                run.append(block)
                continue
            if run:
                self._write_message(run)
            if type(block) is Reasoning:
                reasoned += self._write_reasoning(block)
            else:
                self._write_other(block)
        if run:
            self._write_message(run)
        while reasoned and self.items[-1]["type"] == "reasoning":
            self._reasoned.discard(self.items.pop().get("id", ""))
            detail = "the service takes no reasoning back that led to nothing"
            self._outbound.ledger.add(reasoned.pop(), LossKind.KNOB, detail)

    def _write_other(self, block: Block) -> None:
        """Write a block of the model other than text, calls and reasoning: hosted tools."""
        if not isinstance(block, Foreign):
            detail = "the model's own messages hold text only"
            self._outbound.ledger.add(block.path, LossKind.CONTENT, detail)
        elif block.origin == wire.NAME:
            self.items.append(block.raw)
        else:
            detail = "only its own service can express it"
            self._outbound.ledger.add(block.path, block.loss_on(self._outbound.options), detail)
            if block.means and self._outbound.options.hosted_tools == "map":
                self.items += map(sent_search, block.means)

    def _write_message(self, run: list[Text | Refusal]) -> None:
        """Write a run of texts, which is empty then, as one message: in the easy form when it is
        plain text, else in the form of an answer."""
        spoken = []
        for block in run:
            if block.cache is not None:
                detail = "the model's own messages take no cache breakpoint"
                self._outbound.ledger.add(block.path, LossKind.KNOB, detail)
            if block.text:
                spoken.append(block)
        run.clear()
        if not spoken:
            return
        message: JsonObject = {"type": "message", "role": "assistant"}
        first = spoken[0]
        if type(first) is Text and len(spoken) == 1 and not (first.annotations or first.logprobs):
            message["content"] = first.text
        else:
            # This form needs an id. The position makes it unique and keeps it the same in
            # every later request of the conversation.
            message["id"] = f"msg_{len(self.items)}"
            message["status"] = "completed"
            message["content"] = [self._output_part(block) for block in spoken]
        phase = first.phase if type(first) is Text else _phase(spoken)
        if phase is not None:
            message["phase"] = phase
        self.items.append(message)

    def _output_part(self, block: Text | Refusal) -> JsonObject:
        if isinstance(block, Refusal):
            return {"type": "refusal", "refusal": block.text}
        annotations = []
        for annotation in block.annotations:
            written = write_annotation(annotation, 0, len(block.text))
            if written is None:
                detail = "this citation has no counterpart upstream"
                self._outbound.ledger.add(block.path, LossKind.KNOB, detail)
                continue
            if isinstance(annotation, UrlCitation) and annotation.cited_text is not None:
                detail = "citations do not quote"
                self._outbound.ledger.add(block.path, LossKind.KNOB, detail)
            annotations.append(written)
        part: JsonObject = {"type": "output_text", "text": block.text, "annotations": annotations}
        if block.logprobs is not None:
            part["logprobs"] = list(block.logprobs)
        return part

    def _write_reasoning(self, block: Reasoning) -> tuple[str, ...]:
        """Write reasoning. Returns its path, if there is an item of it."""
        opaque = block.opaque
        if opaque is None or opaque.origin != wire.NAME:
            detail = "only the service that reasoned can take its reasoning back"
            self._outbound.ledger.add(block.path, LossKind.KNOB, detail)
            return ()
        item: JsonObject = {"type": "reasoning"}
        if opaque.id is not None:
            if opaque.id in self._reasoned:
                detail = "the service takes the same reasoning only once"
                self._outbound.ledger.add(block.path, LossKind.KNOB, detail)
                return ()
            self._reasoned.add(opaque.id)
            item["id"] = opaque.id
        raw = block.style == "raw"
        item["summary"] = [] if raw else _texts("summary_text", block.parts)
        if raw:
            item["content"] = _texts("reasoning_text", block.parts)
        item["encrypted_content"] = opaque.data
        self.items.append(item)
        return (block.path,)

    def _write_call(self, call: ToolCall) -> None:
        item: JsonObject = {
            "type": "function_call",
            "call_id": safe_id(call.id, wire.CALL_ID_LIMIT),
            "name": self._outbound.names.outward(call.name),
        }
        if call.namespace is not None:
            item["namespace"] = call.namespace
        if call.custom:
            item["type"] = "custom_tool_call"
            item["input"] = call.arguments
        else:
            item["arguments"] = call.arguments if call.arguments.strip() else "{}"
        if call.cache is not None:
            detail = "tool calls take no cache breakpoint"
            self._outbound.ledger.add(call.path, LossKind.KNOB, detail)
        self.items.append(item)

    def _write_result(self, result: ToolResult) -> None:
        parts = self.parts.of(result.content)
        if result.is_error:
            self._mark_failed(result, parts)
        if result.cache is not None:
            self.parts.mark(result, parts)
        self.items.append(
            {
                "type": "custom_tool_call_output" if result.custom else "function_call_output",
                "call_id": safe_id(result.call_id, wire.CALL_ID_LIMIT),
                "output": _easy(parts) or "",
            }
        )

    def _mark_failed(self, result: ToolResult, parts: list[JsonObject]) -> None:
        """Write a tool result. There is no flag for a failed tool (`status: incomplete` means
        something else)."""
        prefix = self._outbound.options.tool_error_prefix
        if prefix:
            if parts and parts[0]["type"] == "input_text":
                parts[0]["text"] = prefix + parts[0]["text"]
            else:
                parts.insert(0, {"type": "input_text", "text": prefix})
        if result.path:
            kind = LossKind.CONVERTED if prefix else LossKind.KNOB
            self._outbound.ledger.add(result.path, kind, "tool outputs have no error flag")


_PLAIN = frozenset({"type", "text"})
"""Members of a part that is nothing but text."""


def _easy(parts: list[JsonObject]) -> Any:
    """The parts, or the text of a single one that is nothing but text."""
    return parts[0]["text"] if len(parts) == 1 and parts[0].keys() == _PLAIN else parts


def _phase(run: list[Text | Refusal]) -> str | None:
    """The phase of the message that a run is, or of its first block: a refusal fits any phase."""
    for block in run:
        if type(block) is Text:
            return block.phase
    return None


def _texts(kind: str, parts: Iterable[str]) -> list[JsonObject]:
    return [{"type": kind, "text": text} for text in parts]
