"""Turns as the messages of a request."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    Opaque,
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
from dragoman.protocols.openai_chat.content_writer import PartWriter, bare_text, text_part
from dragoman.protocols.openai_chat.reasoning import (
    is_foreign_state,
    joined_text,
    replayed_details,
)
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.request_settings import GO_ON, GOES_ON
from dragoman.protocols.system_text import place_system_text


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
        written = len(writer.messages)
        writer.turn(turn)
        if outbound.unknown and len(writer.messages) > written:
            writer.messages[-1] = outbound.with_unknown(writer.messages[-1], turn.path)
    writer.parts.finish()
    if not outbound.capabilities.final_assistant:
        writer.go_on(request.turns[-1].path if request.turns else "")
    if not writer.messages:
        report_silence(request.turns, outbound.ledger)
    return writer.messages


class _Attachments(NamedTuple):
    """Images and files of one tool result, on their way to the user message after it."""

    call_id: str
    names: str
    parts: list[JsonObject]


class _MessagesWriter(Struct, eq=False):
    _outbound: Outbound
    parts: PartWriter
    _own: ChatCapabilities
    _call_id: Callable[[str], str]
    messages: list[JsonObject] = []
    _of_calls: list[JsonObject] = []
    """Entries with state of the calls of the current message."""
    _tool_of: dict[str, str] = {}

    def instructions(self, texts: Sequence[Text]) -> None:
        """The system texts given apart from the turns, as one leading message."""
        remaining = [text for text in texts if text.text]
        if remaining:
            parts = self.parts.all(remaining)
            is_joined = self._outbound.capabilities.late_system != "message" and _are_plain(parts)
            content = "\n\n".join([part["text"] for part in parts]) if is_joined else None
            self._append(self._own.system_role, content or _as_content(parts), None)

    def go_on(self, path: str) -> None:
        """Put a user message after the model's last words, which stand at `path`."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            self._lose(path, LossKind.REPAIRED, GOES_ON)
            self._append("user", GO_ON, None)

    def turn(self, turn: Turn) -> None:
        """The messages of one turn."""
        role = turn.role
        if role != "user" and role != "assistant":
            self._late_system(turn)
        elif not self._outbound.unknown and (text := bare_text(turn.blocks)):
            self._append(role, text, turn.name)
        elif role == "user":
            self._user(turn)
        else:
            self._assistant(turn)

    def _late_system(self, turn: Turn) -> None:
        role: str = turn.role
        if role == "developer" and self._own.system_role != "developer":
            role = "system"
        parts = self._texts_only(turn.blocks)
        if parts or not turn.blocks:
            self._append(role, _as_content(parts), turn.name)

    def _texts_only(self, blocks: Sequence[Block]) -> list[JsonObject]:
        """The parts of a text-only message; the rest is reported as lost content."""
        remaining: list[JsonObject] = []
        for block in blocks:
            for part in self.parts.parts(block):
                if part["type"] == "text":
                    remaining.append(part)
                else:
                    self._lose(block.path, LossKind.CONTENT, "has no place in this message")
        return remaining

    # --- user turns -----------------------------------------------------------------------------

    def _user(self, turn: Turn) -> None:
        attached: list[_Attachments] = []
        rest: list[Block] = []
        for block in turn.blocks:
            if type(block) is ToolResult:
                attached += self._tool_result(block)
            elif type(block) is Foreign and block.origin == wire.NAME:
                self.messages.append(block.raw)  # a whole message of the role `function`
            else:
                rest.append(block)
        parts: list[JsonObject] = []
        for result in attached:
            parts += [text_part(self._attachment_notice(result)), *result.parts]
        parts += self.parts.all(rest)
        if parts or not turn.blocks:
            self._append("user", _as_content(parts), turn.name)

    def _tool_result(self, block: ToolResult) -> list[_Attachments]:
        """Append a tool message; return the attachments for the user message after it."""
        if block.cache is None and not block.is_error:
            text = bare_text(block.content)
            if text is not None:
                self._answer(block, text)
                return []
        remaining: list[JsonObject] = []
        moved: list[JsonObject] = []
        separator = ""
        prefix = self._outbound.options.tool_error_prefix if block.is_error else ""
        if prefix:
            remaining.append(text_part(prefix))
        if block.is_error and block.path:
            kind = LossKind.CONVERTED if prefix else LossKind.KNOB
            self._lose(f"{block.path}.is_error", kind, "there is no field for it upstream")
        for inner in block.content:
            for part in self.parts.parts(inner):
                if part["type"] == "text":
                    remaining.append(part)
                    # Plain texts are pieces of one output; what was made into text stands apart.
                    separator = separator if isinstance(inner, Text) else "\n\n"
                elif self._own.tool_message_images:
                    remaining.append(part)
                else:
                    moved.append(part)
                    self._lose(inner.path, LossKind.CONVERTED, "moved to a user message")
        if block.cache is not None:
            self.parts.mark(remaining[-1] if remaining else None, block.cache, block.path)
        names = ", ".join(map(_part_name, moved))
        notice = f"[Attached in the next message: {names}]" if moved else ""
        content: Any
        if _are_plain(remaining):
            content = separator.join([part["text"] for part in remaining])
            if notice:
                content = f"{content}\n\n{notice}" if content else notice
        else:
            content = [*remaining, *([text_part(notice)] if notice else [])]
        self._answer(block, content)
        return [_Attachments(block.call_id, names, moved)] if moved else []

    def _answer(self, block: ToolResult, content: Any) -> None:
        call_id = self._call_id(block.call_id)
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        self.messages.append(self._outbound.with_unknown(message, block.path))

    def _attachment_notice(self, result: _Attachments) -> str:
        tool = self._tool_of.get(result.call_id)
        of_tool = f" of {tool}" if tool else ""
        return (
            f"[Attached by the result{of_tool} ({self._call_id(result.call_id)}): {result.names}]"
        )

    # --- assistant turns ------------------------------------------------------------------------

    def _assistant(self, turn: Turn) -> None:
        parts: list[JsonObject] = []
        refusals: list[str] = []
        calls: list[JsonObject] = []
        thoughts: list[Reasoning] = []
        message: JsonObject = {"role": "assistant", "content": None}
        for block in turn.blocks:
            if type(block) is ToolCall:
                calls.append(self._tool_call(block))
            elif type(block) is Reasoning:
                thoughts.append(block)
            elif type(block) is Refusal:
                refusals.append(block.text)
            elif type(block) is Foreign and block.origin == wire.NAME:
                message[block.type] = block.raw
            elif type(block) is not Text or block.text or block.cache is not None:
                if calls:
                    self._lose(turn.path, LossKind.CONVERTED, "text is put before tool calls")
                parts += self._texts_only((block,))
        if turn.name is not None:
            message["name"] = turn.name
        if thoughts:
            self._reasoning(thoughts, bool(calls), message)
        if calls and self._own.replay_reasoning != "never":
            # Servers that want the reasoning of calls refuse a message without the member.
            message.setdefault("reasoning_content", "")
        if parts:
            message["content"] = _as_content(parts)
        if refusals:
            message["refusal"] = "".join(refusals)
        if calls:
            if self._of_calls:
                ids = [block.id for block in turn.blocks if type(block) is ToolCall]
                put_back(self._of_calls, ids, calls)
            message["tool_calls"] = calls
        self._of_calls.clear()
        if len(message) == 2 and message["content"] is None:
            if turn.blocks:
                return
            message["content"] = ""
        self.messages.append(message)

    def _tool_call(self, block: ToolCall) -> JsonObject:
        name = self._outbound.names.outward(block.name, block.namespace)
        self._tool_of[block.id] = name
        if block.cache is not None:
            self._lose(
                f"{block.path}.{block.cache.member}", LossKind.KNOB, "the cache mark is not sent"
            )
        call_id = self._call_id(block.id)
        if not block.custom:
            # Some servers parse the arguments of earlier calls and fail on empty text.
            arguments = block.arguments if block.arguments.strip() else "{}"
            call = _function_call(call_id, name, arguments)
            if self._outbound.unknown:
                inner = self._outbound.with_unknown(call["function"], f"{block.path}.function")
                call = self._outbound.with_unknown({**call, "function": inner}, block.path)
            return call
        if self._own.custom_tools_native:
            custom = {"name": name, "input": block.arguments}
            return {"id": call_id, "type": "custom", "custom": custom}
        reject = self._outbound.options.custom_tools == "reject"
        kind = LossKind.CONTENT if reject else LossKind.CONVERTED
        self._lose(block.path, kind, "a free-text call, sent as a function call")
        return _function_call(call_id, name, to_json_text(wrap_custom(block.arguments)))

    def _reasoning(self, thoughts: list[Reasoning], calls: bool, message: JsonObject) -> None:
        shown = self._shows_reasoning(calls)
        text = joined_text(thoughts)
        if shown and text:
            message["reasoning_content"] = text
        details: list[Any] = []
        for block in thoughts:
            own = _is_own(block.opaque)
            if block.opaque is not None and own:
                own_details, of_calls = split_entries(replayed_details(block.opaque))
                details += own_details
                self._of_calls += of_calls
            lost_text = bool(block.parts) and not shown and not own
            lost_state = is_foreign_state(block.opaque) and not own
            if lost_text or lost_state:
                self._lose(block.path, LossKind.KNOB, "earlier reasoning is not sent")
        if details:
            message["reasoning_details"] = details

    def _shows_reasoning(self, calls: bool) -> bool:
        """Whether the upstream is sent the readable reasoning of a message, with or without
        calls."""
        replay, given = self._own.replay_reasoning, self._outbound.capabilities.given
        if self._outbound.same_protocol and "replay_reasoning" not in given:
            return True
        return replay == "always" or (replay == "tool_turns" and calls)

    # --------------------------------------------------------------------------------------------

    def _append(self, role: str, content: Any, name: str | None) -> None:
        if self._own.alternating_turns and role == "user" and self.messages:
            last = self.messages[-1]
            if last["role"] == "user":
                last["content"] = _joined(last["content"], content)
                return
            if last["role"] == "tool" and type(content) is str:
                last["content"] = _joined(last["content"], content)
                return
        message: JsonObject = {"role": role, "content": content}
        if name is not None:
            message["name"] = name
        self.messages.append(message)

    def _lose(self, path: str, kind: LossKind, detail: str) -> None:
        self._outbound.ledger.add(path, kind, detail)


def _joined(first: Any, second: Any) -> Any:
    """The contents of two messages as that of one."""
    if type(first) is str and type(second) is str:
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: Any) -> list[JsonObject]:
    return content if type(content) is list else [text_part(content)]


def _as_content(parts: list[JsonObject]) -> Any:
    """A plain string for a single unmarked text, as every server takes it; else the parts."""
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and _are_plain(parts) else parts


def _are_plain(parts: list[JsonObject]) -> bool:
    """Whether all parts are unmarked texts."""
    for part in parts:  # noqa: SIM110 - most often there is one, and a generator costs more
        if len(part) != 2 or part["type"] != "text":
            return False
    return True


def _function_call(call_id: str, name: str, arguments: str) -> JsonObject:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


def _short_id(value: str) -> str:
    """An id of nine letters or digits, the same for the same value."""
    if _SHORT_ID.fullmatch(value):
        return value
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _call_id(value: str) -> str:
    if "." in value and len(value) <= wire.MAX_CALL_ID and wire.READ_CALL_ID.fullmatch(value):
        return value
    return safe_id(value, wire.MAX_CALL_ID)


def _part_name(part: JsonObject) -> str:
    """The name of an attachment in the notice about it."""
    if part["type"] == "file":
        return str(part["file"].get("filename", "file"))
    return "image" if part["type"] == "image_url" else "audio"


def _is_own(opaque: Opaque | None) -> bool:
    return opaque is not None and opaque.origin == wire.NAME
