"""The placement of a request's turns as the service requires it.

Source of the placement rules: the service's documentation. Leading system text belongs in
`system`; a later system message follows a user turn and is last or precedes an assistant turn;
the first message is the user's; a final assistant message is a prefill.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.canonical.blocks import Text
from dragoman.canonical.losses import LossKind
from dragoman.canonical.pairing import pair_tools, report_silence
from dragoman.canonical.requests import Request, Role
from dragoman.protocols.anthropic_messages.caching import Marks
from dragoman.protocols.anthropic_messages.content_writer import BlockWriter
from dragoman.protocols.anthropic_messages.settings import MessagesOptions
from dragoman.protocols.base import Outbound
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.request_settings import GO_ON
from dragoman.protocols.system_text import SYSTEM_ROLES, lose_name, place_system_text

_THINKING = ("thinking", "redacted_thinking")
_OPENING = "(The conversation begins with the assistant.)"


class _Message(Struct, gc=False):
    """A message under construction; `path` is that of the first turn in it."""

    role: Role
    content: list[JsonObject]
    path: str


class Conversation(Struct):
    """`system` and `messages` of a request; `last_path` is that of the last message."""

    system: list[JsonObject]
    messages: list[JsonObject]
    last_path: str = ""

    @property
    def in_unthought_loop(self) -> bool:
        """Whether the last assistant turn before the end made tool calls without thinking."""
        for message in reversed(self.messages[:-1]):
            if message["role"] == "assistant":
                kinds = {block["type"] for block in message["content"]}
                return "tool_use" in kinds and kinds.isdisjoint(_THINKING)
        return False

    def put_thinking_first(self) -> None:
        """With a token budget, an assistant turn that calls tools must begin with its thinking."""
        for message in self.messages:
            content = message["content"]
            kinds = [block["type"] for block in content]
            if message["role"] == "assistant" and "tool_use" in kinds:
                content.sort(key=lambda block: block["type"] not in _THINKING)

    def settle_prefill(self, outbound: Outbound, *, possible: bool) -> None:
        """A final assistant message is a prefill. Where the service refuses it, with thinking or an
        answer schema, a user message follows, as with other services."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            return
        reject = outbound.options.of(MessagesOptions).trailing_assistant == "reject"
        if possible:
            kind = LossKind.CONTENT if reject else LossKind.CONVERTED
            detail = "a final assistant message becomes a prefill"
            self._trim_prefill(outbound)
        else:
            kind = LossKind.CONTENT if reject else LossKind.REPAIRED
            detail = "a user message was put after the last turn, for nothing can be prefilled"
            self.messages.append({"role": "user", "content": [{"type": "text", "text": GO_ON}]})
        outbound.ledger.add(self.last_path, kind, detail)

    def _trim_prefill(self, outbound: Outbound) -> None:
        """Trim a prefill: the service refuses trailing white space."""
        content = self.messages[-1]["content"]
        last = content[-1]
        if last["type"] == "text" and last["text"] != last["text"].rstrip():
            content[-1] = {**last, "text": last["text"].rstrip()}
            detail = "white space at the end of a prefill was left out"
            outbound.ledger.add(self.last_path, LossKind.REPAIRED, detail)


def write_conversation(request: Request, outbound: Outbound, marks: Marks) -> Conversation:
    """Place all instructions and turns."""
    return _Placement(place_system_text(request, outbound), outbound, marks).place()


class _Placement:
    __slots__ = ("_messages", "_outbound", "_request", "_system", "_writer")

    def __init__(self, request: Request, outbound: Outbound, marks: Marks) -> None:
        self._request = request
        self._outbound = outbound
        self._writer = BlockWriter(outbound, marks)
        self._system: list[JsonObject] = []
        self._messages: list[_Message] = []

    def place(self) -> Conversation:
        request = self._request
        self._system += self._writer.turn(request.instructions, "system")
        leading = 0
        while leading < len(request.turns) and request.turns[leading].role in SYSTEM_ROLES:
            turn = request.turns[leading]
            lose_name(turn, self._outbound)
            self._system += self._writer.turn(turn.blocks, "system")
            leading += 1
        ledger, is_late = self._outbound.ledger, False
        for turn in pair_tools(request.turns[leading:], self._outbound.options, ledger):
            role = turn.role
            if role in SYSTEM_ROLES:
                role, is_late = "system", True
            if turn.name is not None:
                lose_name(turn, self._outbound)
            self._append(_Message(role, self._writer.turn(turn.blocks, role), turn.path))
        if self._writer.thinks:
            self._drop_idle_thinking()
        if is_late:
            self._settle_system()
        self._open(leading)
        messages: list[JsonObject] = [
            {"role": message.role, "content": message.content} for message in self._messages
        ]
        last_path = self._messages[-1].path if self._messages else ""
        return Conversation(self._system, messages, last_path)

    def _append(self, message: _Message) -> None:
        """Add a message; neighbours of one role are one message."""
        if not message.content:
            return
        if self._messages and self._messages[-1].role == message.role:
            self._messages[-1].content.extend(message.content)
        else:
            self._messages.append(message)

    def _drop_idle_thinking(self) -> None:
        """Leave out thinking at the end of a turn: the service refuses it there."""
        placed, self._messages = self._messages, []
        for message in placed:
            if message.role == "assistant" and message.content[-1]["type"] in _THINKING:
                detail = "the service takes no thinking back that led to nothing"
                self._outbound.ledger.add(message.path, LossKind.KNOB, detail)
                while message.content and message.content[-1]["type"] in _THINKING:
                    message.content.pop()
            self._append(message)

    def _settle_system(self) -> None:
        """Keep late system messages where they may stand, or move them behind the user's turn that
        follows: there they stay as the conversation grows, so that its beginning is the same each
        time. The others move to the front."""
        placed, self._messages = self._messages, []
        waiting: list[_Message] = []
        for number, message in enumerate(placed):
            following = placed[number + 1].role if number + 1 < len(placed) else "assistant"
            if message.role != "system":
                self._append(message)
            elif following == "user":
                detail = "a late system message moved behind the user's turn"
                self._outbound.ledger.add(message.path, LossKind.CONVERTED, detail)
                waiting.append(message)
            elif self._messages and self._messages[-1].role == "user":
                waiting.append(message)
            else:
                self._hoist(message)
            if following == "assistant":
                for late in waiting:
                    self._append(late)
                waiting.clear()

    def _hoist(self, message: _Message) -> None:
        ledger = self._outbound.ledger
        ledger.add(message.path, LossKind.CONVERTED, "a late system message moved to the front")
        texts = [block for block in message.content if block["type"] == "text"]
        if len(texts) < len(message.content):
            ledger.add(message.path, LossKind.KNOB, "changes of tools have no place at the front")
        self._system += texts

    def _open(self, leading: int) -> None:
        """Make the user speak first."""
        ledger = self._outbound.ledger
        if not self._messages and self._system:
            path = self._request.path_of("instructions")
            if leading:
                path = self._request.turns[leading - 1].path
            ledger.add(path, LossKind.CONVERTED, "system text alone became user text")
            self._append(_Message("user", [self._system.pop()], path))
        elif not self._messages:
            report_silence(self._request.turns, ledger)
        elif self._messages[0].role == "assistant":
            path = self._messages[0].path
            ledger.add(path, LossKind.REPAIRED, "a user message was put before the first turn")
            opening = self._writer.turn((Text(text=_OPENING),), "user")
            self._messages.insert(0, _Message("user", opening, path))
