"""The messages of a request as turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from dragoman.protocols.fields import JsonObject, check_depth
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

    def read(self, messages: Iterable[shapes.Message]) -> tuple[Turn, ...]:
        """The turns for the messages.

        Raises:
            InvalidRequest: naming the member at fault.
        """
        return tuple(
            [
                _READERS[type(message)](self, message, f"messages[{number}]")
                for number, message in enumerate(messages)
            ]
        )

    def _plain(self, message: shapes.UserMessage | shapes.SystemMessage, path: str) -> Turn:
        """A turn of a user, or of the system."""
        blocks = read_content(message.content, path)
        role: Any = message.__struct_config__.tag
        return Turn(role=role, blocks=blocks, name=message.name, path=path)

    def _other(self, message: shapes.OtherMessage, path: str) -> Turn:
        if message.kind != "function":
            raise InvalidRequest.at(f"{path}.role", f"must be one of {', '.join(wire.ROLES)}")
        # Answers a call without an id, which no other protocol can refer to.
        raw = Foreign(origin=wire.NAME, type="function", raw=message.value, path=path)
        return Turn(role="user", blocks=(raw,), path=path)

    def _assistant(self, message: shapes.AssistantMessage, path: str) -> Turn:
        blocks: list[Block] = []
        if message.reasoning_content or message.reasoning or message.reasoning_details:
            blocks += read_reasoning(message, path, self._sealer, self._extras)
        # Clients send `content: ""` along with tool calls: it has no meaning.
        if message.content:
            read = read_content(message.content, path)
            blocks += read if type(message.content) is str else filter(_has_meaning, read)
        if message.refusal:
            blocks.append(Refusal(text=message.refusal, path=f"{path}.refusal"))
        for number, call in enumerate(message.tool_calls or ()):
            at = f"{path}.tool_calls[{number}]"
            if call.extra_content is not None:
                self._call_state(call.extra_content, f"{at}.{CONTENT}", blocks)
            blocks.append(self._tool_call(call, at))
        if message.function_call is not None:
            blocks.append(_foreign("function_call", message.function_call, path))
        if message.audio is not None:
            blocks.append(_foreign("audio", message.audio, path))
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
        custom = call.type == "custom"
        if call.function is not None and call.custom is not None:
            report_other(call, path, self._extras)
        if custom:
            self._custom_calls.add(call.id)
            if call.custom is None:
                raise InvalidRequest.at(f"{path}.custom", "is required")
            name, arguments = call.custom.name, call.custom.input
        else:
            if call.function is None:
                raise InvalidRequest.at(f"{path}.function", "is required")
            name, arguments = call.function.name, call.function.arguments
        return ToolCall(id=call.id, name=name, arguments=arguments, custom=custom, path=path)

    def _tool(self, message: shapes.ToolMessage, path: str) -> Turn:
        blocks: tuple[Block, ...] = ()
        if message.content:
            blocks = read_content(message.content, path)
            if type(message.content) is not str and not any(map(_has_meaning, blocks)):
                blocks = ()
        result = ToolResult(
            call_id=message.tool_call_id,
            content=blocks,
            custom=message.tool_call_id in self._custom_calls,
            path=path,
        )
        if message.name is not None:
            report_lost(message, path, self._extras)
        return Turn(role="user", blocks=(result,), path=path)


_READERS: dict[type[Struct], Callable[[MessagesReader, Any, str], Turn]] = {
    shapes.AssistantMessage: MessagesReader._assistant,
    shapes.DeveloperMessage: MessagesReader._plain,
    shapes.OtherMessage: MessagesReader._other,
    shapes.SystemMessage: MessagesReader._plain,
    shapes.ToolMessage: MessagesReader._tool,
    shapes.UserMessage: MessagesReader._plain,
}


def _has_meaning(block: Block) -> bool:
    """Whether a block is more than an empty text."""
    return type(block) is not Text or bool(block.text) or block.cache is not None


def _foreign(name: str, value: JsonObject, path: str) -> Foreign:
    """The member `name` of a message, which other protocols do not have."""
    at = f"{path}.{name}"
    check_depth(value, at)
    return Foreign(origin=wire.NAME, type=name, raw=value, path=at)
