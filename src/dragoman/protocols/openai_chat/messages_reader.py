"""The messages of a request as turns."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.requests import Extra, Turn
from dragoman.protocols.fields import check_depth
from dragoman.protocols.openai_chat import shapes, wire
from dragoman.protocols.openai_chat.call_state import CONTENT, signature_in
from dragoman.protocols.openai_chat.content_reader import read_content, report_other
from dragoman.protocols.openai_chat.reasoning import read_reasoning
from dragoman.protocols.reading import UNKNOWN, report_lost


class MessagesReader(Struct, eq=False):
    """Reader of messages in order; it records which calls were to custom tools."""

    _sealer: Sealer
    _extras: list[Extra]
    _custom_calls: set[str] = set()

    def read(self, message: shapes.Message, path: str) -> Turn:
        """The turn for one message.

        Raises:
            InvalidRequest: naming the member at fault.
        """
        match message:
            case shapes.AssistantMessage():
                return self._assistant(message, path)
            case shapes.ToolMessage():
                return self._tool(message, path)
            case shapes.UserMessage() | shapes.SystemMessage():
                blocks = read_content(message.content, f"{path}.content")
                role: Any = message.__struct_config__.tag
                return Turn(role=role, blocks=blocks, name=message.name, path=path)
        if message.kind != "function":
            raise InvalidRequest.at(f"{path}.role", f"must be one of {', '.join(wire.ROLES)}")
        # Answers a call without an id, which no other protocol can refer to.
        raw = Foreign(origin=wire.NAME, type="function", raw=message.value, path=path)
        return Turn(role="user", blocks=(raw,), path=path)

    def _assistant(self, message: shapes.AssistantMessage, path: str) -> Turn:
        blocks: list[Block] = []
        blocks += read_reasoning(message, path, self._sealer, self._extras)
        if message.content is not None:
            for block in read_content(message.content, f"{path}.content"):
                # Clients send `content: ""` along with tool calls: it has no meaning.
                if type(block) is not Text or block.text or block.cache:
                    blocks.append(block)
        if message.refusal:
            blocks.append(Refusal(text=message.refusal, path=f"{path}.refusal"))
        for number, call in enumerate(message.tool_calls or ()):
            at = f"{path}.tool_calls[{number}]"
            if call.extra_content is not None:
                self._call_state(call.extra_content, f"{at}.{CONTENT}", blocks)
            blocks.append(self._tool_call(call, at))
        foreign = {"function_call": message.function_call, "audio": message.audio}
        for name, raw in foreign.items():
            if raw is not None:
                at = f"{path}.{name}"
                check_depth(raw, at)
                blocks.append(Foreign(origin=wire.NAME, type=name, raw=raw, path=at))
        if message.annotations is not None:
            report_lost(message, path, self._extras)
        return Turn(role="assistant", blocks=tuple(blocks), name=message.name, path=path)

    def _call_state(self, content: Any, path: str, blocks: list[Block]) -> None:
        """State of a call, before it; the same may be among the message's reasoning."""
        sealed = self._sealer.open(signature_in(content))
        if sealed is None:
            self._extras.append(Extra(path, content, UNKNOWN.kind, UNKNOWN.detail))
            return
        blocks[:] = [
            block
            for block in blocks
            if type(block) is not Reasoning or block.opaque != sealed.opaque
        ]
        blocks.append(replace(sealed, path=path))

    def _tool_call(self, call: shapes.ToolCall, path: str) -> ToolCall:
        report_other(call, path, self._extras)
        if call.type == "custom":
            self._custom_calls.add(call.id)
            if call.custom is None:
                raise InvalidRequest.at(f"{path}.custom", "is required")
            name, arguments = call.custom.name, call.custom.input
        else:
            if call.function is None:
                raise InvalidRequest.at(f"{path}.function", "is required")
            name, arguments = call.function.name, call.function.arguments
        custom = call.type == "custom"
        return ToolCall(id=call.id, name=name, arguments=arguments, custom=custom, path=path)

    def _tool(self, message: shapes.ToolMessage, path: str) -> Turn:
        blocks: tuple[Block, ...] = ()
        if message.content is not None:
            blocks = read_content(message.content, f"{path}.content")
        result = ToolResult(
            call_id=message.tool_call_id,
            content=() if blocks and _is_empty(blocks) else blocks,
            custom=message.tool_call_id in self._custom_calls,
            path=path,
        )
        if message.name is not None:
            report_lost(message, path, self._extras)
        return Turn(role="user", blocks=(result,), path=path)


def _is_empty(blocks: tuple[Block, ...]) -> bool:
    for block in blocks:
        if type(block) is not Text or block.text or block.cache is not None:
            return False
    return True
