"""Whole messages in a stream: in place of deltas, or after them as a repetition."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from dragoman.canonical.errors import UpstreamError
from dragoman.jsontext import mended
from dragoman.protocols.openai_chat.shapes import Said
from dragoman.protocols.openai_chat.tool_fragments import ToolFragments


def numbered(message: Said) -> Said:
    """A whole message as a delta: whole calls have no index; their order is their index."""
    calls = message.tool_calls
    if not calls:
        return message
    pieces = [replace(call, index=number) for number, call in enumerate(calls)]
    return replace(message, tool_calls=pieces)


class Received(Struct, eq=False):
    """The content received in a stream, compared with whole messages that may come after its
    deltas, with each, or in their place.

    A delta is a piece of the answer; a message is the whole answer so far. What exceeds the content
    received is new, the rest is a repetition, and a message that does not begin with the content
    received is a contradiction, which fails the answer; so do deltas after a message with new
    content. Calls and annotations are matched by position."""

    text: list[str] = []
    refusal: list[str] = []
    reasoning: list[str] = []
    cited: int = 0
    """Annotations."""

    def __bool__(self) -> bool:
        """Whether any content was received."""
        return bool(self.text or self.refusal or self.reasoning)

    def rest(self, message: Said, delta: Said, calls: ToolFragments | None) -> Said:
        """The content of a message beyond what was received; `delta` is in the same chunk.

        Raises:
            UpstreamError: it contradicts what was received.
        """
        repeats_calls = message.tool_calls == delta.tool_calls
        pieces = [] if repeats_calls else numbered(message).tool_calls or []
        return Said(
            reasoning_content=_after(self.reasoning, message.thought, delta),
            content=_after(self.text, message.content, delta),
            refusal=_after(self.refusal, message.refusal, delta),
            annotations=(message.annotations or [])[self.cited :],
            tool_calls=pieces if calls is None else calls.after(pieces),
            reasoning_details=None if self.reasoning else message.reasoning_details,
            function_call=message.function_call if calls is None else None,
        )


def _after(received: list[str], whole: str | None, delta: Said) -> str:
    """The rest of a complete text after `received`. The complete text may be trimmed."""
    if not whole or whole in (delta.content, delta.refusal, delta.thought):
        return ""
    before, text = mended("".join(received)), mended(whole)
    if text.startswith(before):
        return text[len(before) :]
    if text.strip() == before.strip():
        return ""
    raise UpstreamError.unreadable("a whole message is not what its deltas said")
