"""The parts of an answer that a client is shown, and the report of the rest."""

from __future__ import annotations

from msgspec import Struct

from dragoman.canonical.blocks import (
    Block,
    Foreign,
    Reasoning,
    Text,
    ToolCall,
)
from dragoman.canonical.envelope import Sealer
from dragoman.canonical.losses import Ledger, LossKind
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


class Reporter(Struct, frozen=True):
    """The report, to the ledger, of parts of an answer that the client is not given."""

    ledger: Ledger

    def remark(self) -> None:
        """A remark outside a JSON answer, which is left out."""
        self._lose("content", "remarks beside the JSON answer were left out")

    def citation(self) -> None:
        """A citation of another vendor: this protocol's citations have an index only its maker can
        write."""
        self._lose("annotations", "citations of another vendor were left out")

    def logprobs(self) -> None:
        """Token probabilities."""
        self._lose("logprobs", "token probabilities have no counterpart for the client")

    def reasoning(self) -> None:
        """Reasoning that is not shown."""
        self._lose("reasoning", "reasoning is not shown")

    def call(self, head: ToolCall) -> None:
        """Properties of a tool call that the client's tools lack: a namespace, free text."""
        if head.namespace is not None:
            self._lose("namespace", "namespaces of tools have no counterpart for the client")
        if head.custom:
            detail = "the text of a free-text call became its one argument"
            self.ledger.add("content", LossKind.CONVERTED, detail)

    def moderation(self) -> None:
        """Moderation results."""
        self._lose("moderation", "moderation has no counterpart for the client")

    def tier(self, has_name: bool, in_time: bool) -> None:
        """A service tier that has no name here, or was known too late to be shown."""
        if not has_name:
            self._lose("service_tier", "the service tier has no counterpart for the client")
        elif not in_time:
            self._lose("service_tier", "the service tier was known only at the end")

    def cut(self) -> None:
        """Arguments cut by the output limit: clients read the valid part."""
        detail = "the output limit cut the arguments of a tool call"
        self.ledger.add("content", LossKind.REPAIRED, detail)

    def block(self, block: Block) -> None:
        """A block that has no form in an answer."""
        name = block.type if isinstance(block, Foreign) else type(block).__name__.lower()
        kind = block.loss if isinstance(block, Foreign) else LossKind.CONTENT
        self.ledger.add("content", kind, f"a block of type {name} cannot be shown to the client")

    def _lose(self, path: str, detail: str) -> None:
        self.ledger.add(path, LossKind.KNOB, detail)
