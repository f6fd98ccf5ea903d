"""Turns as the messages of a request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.canonical.losses import LossKind
from dragoman.canonical.names import safe_id
from dragoman.canonical.pairing import pair_tools, report_silence
from dragoman.canonical.requests import Request, Turn
from dragoman.canonical.tools import wrap_custom
from dragoman.protocols.base import Outbound, to_json_text
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.call_state import put_back, split_entries
from dragoman.protocols.openai_chat.content_writer import PartWriter, Piece, as_part
from dragoman.protocols.openai_chat.reasoning import (
    is_foreign_state,
    joined_text,
    replayed_details,
)
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.request_settings import GO_ON, GOES_ON
from dragoman.protocols.system_text import place_system_text

_BEFORE_CALLS: Final = "text is put before tool calls"


def write_messages(request: Request, outbound: Outbound) -> list[JsonObject]:
    """The messages of a request: system texts first, then the turns, every call answered.

    What a message cannot carry goes into the ledger.
    """
    request = place_system_text(request, outbound)
    own = outbound.capabilities.of(ChatCapabilities)
    call_id = _short_id if own.short_call_ids else _call_id
    writer = _MessagesWriter(outbound, PartWriter(outbound), own, call_id)
    writer.instructions(request.instructions)
    for turn in pair_tools(request.turns, outbound.options, outbound.ledger):
        if turn.role == "user":
            writer.user(turn)
        elif turn.role == "assistant":
            writer.assistant(turn)
        else:
            writer.late_system(turn)
    writer.parts.finish()
    if not outbound.capabilities.final_assistant:
        writer.go_on(request.turns[-1].path if request.turns else "")
    if not writer.messages:
        report_silence(request.turns, outbound.ledger)
    return writer.messages


class _MessagesWriter(Struct, eq=False):
    _outbound: Outbound
    parts: PartWriter
    _own: ChatCapabilities
    _call_id: Callable[[str], str]
    messages: list[JsonObject] = []
    _calls: dict[str, JsonObject] = {}
    """The calls that were written, by the client's ids."""

    def instructions(self, texts: Sequence[Text]) -> None:
        """The system texts given apart from the turns, as one leading message."""
        pieces = [self.parts.text(text) for text in texts if text.text]
        if pieces:
            content = _as_content(pieces)
            if self._outbound.capabilities.late_system != "message":
                content = _joined(pieces, "\n\n")
            self._append(self._own.system_role, content)

    def go_on(self, path: str) -> None:
        """Put a user message after the model's last words, which stand at `path`."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            self._lose(path, LossKind.REPAIRED, GOES_ON)
            self._append("user", GO_ON)

    def late_system(self, turn: Turn) -> None:
        """A message of system text inside the conversation."""
        role: str = turn.role
        if role == "developer" and self._own.system_role != "developer":
            role = "system"
        pieces: list[Piece] = []
        for block in turn.blocks:
            pieces += self._texts_only(block)
        if pieces or not turn.blocks:
            self._append(role, _as_content(pieces), turn.name, turn.path)

    def _texts_only(self, block: Block) -> list[Piece]:
        """The pieces of a block in a text-only message; the rest is reported as lost content."""
        pieces = self.parts.pieces(block)
        texts = [piece for piece in pieces if _is_text(piece)]
        if len(texts) < len(pieces):
            self._lose(block.path, LossKind.CONTENT, "has no place in this message")
        return texts

    # --- user turns -----------------------------------------------------------------------------

    def user(self, turn: Turn) -> None:
        """The tool messages and the user message of a turn."""
        attached: list[Piece] = []
        pieces: list[Piece] = []
        for block in turn.blocks:
            if type(block) is ToolResult:
                self._tool_result(block, attached)
            elif type(block) is Foreign and block.origin == wire.NAME:
                self.messages.append(block.raw)  # a whole message of the role `function`
            else:
                pieces += self.parts.pieces(block)
        if pieces or attached or not turn.blocks:
            self._append("user", _as_content(attached + pieces), turn.name, turn.path)

    def _tool_result(self, block: ToolResult, attached: list[Piece]) -> None:
        """Append a tool message. What it cannot have is added to the pieces that are `attached` to
        the user message after it."""
        pieces: list[Piece] = []
        moved: list[JsonObject] = []
        separator = ""
        if block.is_error:
            prefix = self._outbound.options.tool_error_prefix
            if prefix:
                pieces.append(prefix)
            if block.path:
                kind = LossKind.CONVERTED if prefix else LossKind.KNOB
                self._lose(f"{block.path}.is_error", kind, "there is no field for it upstream")
        for inner in block.content:
            if type(inner) is Text:
                pieces.append(self.parts.text(inner))
                continue
            for piece in self.parts.pieces(inner):
                if _is_text(piece):
                    pieces.append(piece)
                    # Plain texts are pieces of one output; what was made into text stands apart.
                    separator = "\n\n"
                elif self._own.tool_message_images:
                    pieces.append(piece)
                else:
                    moved.append(as_part(piece))
                    self._lose(inner.path, LossKind.CONVERTED, "moved to a user message")
        if block.cache is not None:
            self.parts.mark(pieces, block.cache, block.path)
        content = _joined(pieces, separator)
        call = self._calls[block.call_id]
        if moved:
            names = ", ".join(map(_part_name, moved))
            notice = f"[Attached in the next message: {names}]"
            if type(content) is str:
                content = f"{content}\n\n{notice}" if content else notice
            else:
                content = [*content, as_part(notice)]
            tool = call[call["type"]]["name"]
            of_tool = f" of {tool}" if tool else ""
            about = f"[Attached by the result{of_tool} ({call['id']}): {names}]"
            attached += [about, *moved]
        message = {"role": "tool", "tool_call_id": call["id"], "content": content}
        if self._outbound.unknown:
            message = self._outbound.with_unknown(message, block.path)
        self.messages.append(message)

    # --- assistant turns ------------------------------------------------------------------------

    def assistant(self, turn: Turn) -> None:
        """The message of the model's turn."""
        pieces: list[Piece] = []
        refusals: list[str] = []
        calls: list[JsonObject] = []
        thoughts: list[Reasoning] = []
        message: JsonObject = {"role": "assistant", "content": None}
        for block in turn.blocks:
            if type(block) is ToolCall:
                calls.append(self._tool_call(block))
            elif type(block) is Text:
                if block.text or block.cache is not None:
                    if calls:
                        self._lose(turn.path, LossKind.CONVERTED, _BEFORE_CALLS)
                    pieces.append(self.parts.text(block))
            elif type(block) is Reasoning:
                thoughts.append(block)
            elif type(block) is Refusal:
                refusals.append(block.text)
            elif type(block) is Foreign and block.origin == wire.NAME:
                message[block.type] = block.raw
            else:
                if calls:
                    self._lose(turn.path, LossKind.CONVERTED, _BEFORE_CALLS)
                pieces += self._texts_only(block)
        if turn.name is not None:
            message["name"] = turn.name
        of_calls = self._reasoning(thoughts, bool(calls), message) if thoughts else ()
        if pieces:
            message["content"] = _as_content(pieces)
        if refusals:
            message["refusal"] = "".join(refusals)
        if calls:
            if self._own.replay_reasoning != "never":
                # Servers that want the reasoning of calls refuse a message without the member.
                message.setdefault("reasoning_content", "")
            if of_calls:
                ids = [block.id for block in turn.blocks if type(block) is ToolCall]
                put_back(of_calls, ids, calls)
            message["tool_calls"] = calls
        if len(message) == 2 and message["content"] is None:
            if turn.blocks:
                return
            message["content"] = ""
        if self._outbound.unknown:
            message = self._outbound.with_unknown(message, turn.path)
        self.messages.append(message)

    def _tool_call(self, block: ToolCall) -> JsonObject:
        name = self._outbound.names.outward(block.name, block.namespace)
        if block.cache is not None:
            path = f"{block.path}.{block.cache.member}"
            self._lose(path, LossKind.KNOB, "the cache mark is not sent")
        call_id = self._call_id(block.id)
        if block.custom:
            call = self._custom_call(block, call_id, name)
        else:
            # Some servers parse the arguments of earlier calls and fail on empty text.
            arguments = block.arguments if block.arguments.strip() else "{}"
            function = {"name": name, "arguments": arguments}
            if self._outbound.unknown:
                function = self._outbound.with_unknown(function, f"{block.path}.function")
            call = {"id": call_id, "type": "function", "function": function}
            if self._outbound.unknown:
                call = self._outbound.with_unknown(call, block.path)
        self._calls[block.id] = call
        return call

    def _custom_call(self, block: ToolCall, call_id: str, name: str) -> JsonObject:
        if self._own.custom_tools_native:
            custom = {"name": name, "input": block.arguments}
            return {"id": call_id, "type": "custom", "custom": custom}
        reject = self._outbound.options.custom_tools == "reject"
        kind = LossKind.CONTENT if reject else LossKind.CONVERTED
        self._lose(block.path, kind, "a free-text call, sent as a function call")
        arguments = to_json_text(wrap_custom(block.arguments))
        function = {"name": name, "arguments": arguments}
        return {"id": call_id, "type": "function", "function": function}

    def _reasoning(
        self, thoughts: list[Reasoning], calls: bool, message: JsonObject
    ) -> list[JsonObject]:
        """Add the reasoning to a message. Returns the entries with state of its calls."""
        shown = self._shows_reasoning(calls)
        text = joined_text(thoughts)
        if shown and text:
            message["reasoning_content"] = text
        details: list[Any] = []
        of_calls: list[JsonObject] = []
        for block in thoughts:
            opaque = block.opaque
            if opaque is not None and opaque.origin == wire.NAME:
                entries = split_entries(replayed_details(opaque))
                details += entries[0]
                of_calls += entries[1]
            elif (block.parts and not shown) or is_foreign_state(opaque):
                self._lose(block.path, LossKind.KNOB, "earlier reasoning is not sent")
        if details:
            message["reasoning_details"] = details
        return of_calls

    def _shows_reasoning(self, calls: bool) -> bool:
        """Whether the upstream is sent the readable reasoning of a message, with or without
        calls."""
        replay, given = self._own.replay_reasoning, self._outbound.capabilities.given
        if self._outbound.same_protocol and "replay_reasoning" not in given:
            return True
        return replay == "always" or (replay == "tool_turns" and calls)

    # --------------------------------------------------------------------------------------------

    def _append(self, role: str, content: Any, name: str | None = None, path: str = "") -> None:
        if self._own.alternating_turns and role == "user" and self.messages:
            last = self.messages[-1]
            if last["role"] == "user" or (last["role"] == "tool" and type(content) is str):
                last["content"] = _put_together(last["content"], content)
                return
        message: JsonObject = {"role": role, "content": content}
        if name is not None:
            message["name"] = name
        if self._outbound.unknown:
            message = self._outbound.with_unknown(message, path)
        self.messages.append(message)

    def _lose(self, path: str, kind: LossKind, detail: str) -> None:
        self._outbound.ledger.add(path, kind, detail)


def _put_together(first: Any, second: Any) -> Any:
    """The contents of two messages as that of one."""
    if type(first) is str and type(second) is str:
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: Any) -> list[JsonObject]:
    return content if type(content) is list else [as_part(content)]


def _as_content(pieces: list[Piece]) -> Any:
    """A plain string for a single text, as every server takes it; else parts."""
    if len(pieces) == 1 and type(pieces[0]) is str:
        return pieces[0]
    return list(map(as_part, pieces)) or ""


def _joined(pieces: list[Any], separator: str) -> Any:
    """Texts alone as one; else parts."""
    if dict in map(type, pieces):
        return list(map(as_part, pieces))
    return separator.join(pieces)


def _is_text(piece: Piece) -> bool:
    return isinstance(piece, str) or piece["type"] == "text"


_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


def _short_id(value: str) -> str:
    """An id of nine letters or digits, the same for the same value."""
    if _SHORT_ID.fullmatch(value):
        return value
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _call_id(value: str) -> str:
    if len(value) <= wire.MAX_CALL_ID and wire.CALL_ID.fullmatch(value):
        return value
    return safe_id(value, wire.MAX_CALL_ID)


def _part_name(part: JsonObject) -> str:
    """The name of an attachment in the notice about it."""
    if part["type"] == "file":
        return str(part["file"].get("filename", "file"))
    return "image" if part["type"] == "image_url" else "audio"
