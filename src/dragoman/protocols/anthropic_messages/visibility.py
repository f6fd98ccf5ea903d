"""The parts of an answer that a client is shown."""

from __future__ import annotations

from msgspec import Struct

from dragoman.canonical.blocks import Reasoning, Text, ToolCall
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.names import safe_id
from dragoman.protocols.anthropic_messages import wire
from dragoman.protocols.base import Reply
from dragoman.protocols.fields import JsonObject


class Visibility(Struct, frozen=True):
    """The visibility settings of one client.

    `reasoning`: thinking blocks at all; `reasoning_text`: their text, not only the signature.
    `single_text`: the answer is to be JSON, and the official SDKs parse every text block by
    itself, so there may be only one.
    """

    reasoning: bool
    reasoning_text: bool
    single_text: bool

    @classmethod
    def of(cls, reply: Reply) -> Visibility:
        """The settings from the client's request and the route's options."""
        thinking = reply.request.thinking
        enabled = thinking is not None and thinking.mode in ("adaptive", "enabled")
        show = reply.options.show_reasoning
        return cls(
            reasoning=enabled if show == "auto" else show == "always",
            reasoning_text=thinking is None or thinking.display != "omitted",
            single_text=reply.request.output_format is not None,
        )

    def leaves_out(self, block: Text) -> bool:
        """Whether the text is a remark outside the JSON answer, which no client could parse."""
        return self.single_text and block.phase == "commentary"


def signature_of(block: Reasoning, sealer: Sealer) -> str:
    """The signature: Anthropic's own, or an envelope with another vendor's state."""
    if block.opaque is not None and block.opaque.origin == wire.NAME:
        return block.opaque.data
    return sealer.seal(block)


def is_redacted(block: Reasoning) -> bool:
    """Whether the block is Anthropic's own withheld thinking."""
    return block.redacted and block.opaque is not None and block.opaque.origin == wire.NAME


def tool_use_head(call: ToolCall) -> JsonObject:
    """A tool_use block without its input."""
    identifier = safe_id(call.id, wire.ID_LIMIT)
    return {"type": "tool_use", "id": identifier, "name": call.name, "input": {}}
