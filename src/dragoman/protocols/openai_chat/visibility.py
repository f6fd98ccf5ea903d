"""The parts of an answer that a client is shown, and the report of the rest."""

from __future__ import annotations

from msgspec import Struct

from dragoman.canonical.blocks import Block, Foreign, ToolCall, UrlCitation
from dragoman.canonical.finish import Finish, FinishReason
from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Options
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat import wire
from dragoman.protocols.openai_chat.settings import ChatOptions

_PAUSE = FinishReason.PAUSE
_KNOB = LossKind.KNOB
_DETAIL = "has no counterpart downstream"


def reasoning_fields(options: Options) -> tuple[str, ...]:
    """The message fields in which the client is given reasoning text."""
    field = options.of(ChatOptions).reasoning_field
    return ("reasoning_content", "reasoning") if field == "both" else (field,)


def call_fields(call: ToolCall) -> tuple[str, str]:
    """The type of a tool call, and its field for the text."""
    return ("custom", "input") if call.custom else ("function", "arguments")


def call_head(call: ToolCall) -> JsonObject:
    """A tool call without its text. Chat has no namespaces: they are prefixed to the name."""
    kind, field = call_fields(call)
    name = f"{call.namespace}__{call.name}" if call.namespace else call.name
    return {"id": call.id, "type": kind, kind: {"name": name, field: ""}}


def tier_name(tier: str) -> str | None:
    """The tier by its name in Chat; None if it has none."""
    if tier in wire.SERVICE_TIERS:
        return tier
    return "priority" if tier == "ultrafast" else None


class Reporter(Struct, frozen=True):
    """The report, to the ledger, of parts of an answer that the client is not given."""

    ledger: Ledger

    def order(self) -> None:
        """Text after a tool call: a message does not keep their order."""
        self.ledger.add("content", LossKind.CONVERTED, "text is put before tool calls")

    def block(self, block: Block) -> None:
        """A block that a message has no field for."""
        kind, name = _KNOB, "content"
        if isinstance(block, Foreign):
            kind, name = block.loss, block.type
        self.ledger.add(block.path or name, kind, "has no place in a Chat message")

    def reasoning(self) -> None:
        """Reasoning that is not shown."""
        self.ledger.add("reasoning", _KNOB, "reasoning is not shown")

    def state(self) -> None:
        """Reasoning state, which the client cannot send back."""
        detail = "signatures and encrypted reasoning are not shown"
        self.ledger.add("reasoning", _KNOB, detail)

    def foreign_citation(self) -> None:
        """A citation of something without a URL."""
        self.ledger.add("annotations", _KNOB, "only citations of URLs can be shown")

    def citation(self, citation: UrlCitation) -> None:
        """What of a citation has no field."""
        if citation.cited_text is not None:
            self.ledger.add("annotations.cited_text", _KNOB, _DETAIL)

    def finish(self, finish: Finish) -> None:
        """What the finish reason does not express."""
        if finish.stop_sequence is not None and finish.reason is FinishReason.STOP_SEQUENCE:
            self.ledger.add("stop_sequence", _KNOB, "the matched stop sequence is not named")
        if finish.reason is _PAUSE:
            self.ledger.add("stop_reason", LossKind.CONVERTED, "the paused turn ends here")
        if finish.category is not None:
            self.ledger.add("stop_details.category", _KNOB, _DETAIL)

    def tier(self, has_name: bool, in_time: bool) -> None:
        """A service tier that has no name here, or was known too late to be shown."""
        if not has_name:
            self.ledger.add("service_tier", _KNOB, _DETAIL)
        elif not in_time:
            self.ledger.add("service_tier", _KNOB, "it was known only at the end")
