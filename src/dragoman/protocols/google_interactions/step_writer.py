"""Blocks as steps for an upstream; what cannot be written goes into the ledger.

Parts are content, and steps that are none; `steps_of` puts the content of each side into steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from dragoman.canonical.blocks import (
    Block,
    Document,
    Image,
    Reasoning,
    ToolCall,
    ToolResult,
)
from dragoman.canonical.losses import LossKind
from dragoman.protocols import google_wire
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_blocks import BlockWriter
from dragoman.protocols.google_conversation import WrittenTurn
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.tools import input_of


class StepWriter(BlockWriter):
    """Writes the blocks of one request."""

    __slots__ = ()

    origin: ClassVar[str] = wire.NAME

    def model(self, blocks: Sequence[Block]) -> list[JsonObject]:
        """The parts of the model's turn, with its thoughts where they were."""
        parts: list[JsonObject] = []
        for block in blocks:
            if type(block) is Reasoning:
                parts += self._thought(block)
            elif type(block) is ToolCall:
                parts.append(self._known(block, self._call(block)))
            else:
                parts += self._parts(block)
        return parts

    def unsigned(self, parts: list[JsonObject], placeholder: str) -> bool:
        """Whether no thought with a signature precedes the first call among the parts of a turn;
        one with the placeholder is put there."""
        kinds = [part["type"] for part in parts]
        if "function_call" not in kinds:
            return False
        place = kinds.index("function_call")
        if "thought" in kinds[:place]:
            return False
        if placeholder:
            parts.insert(place, {"type": "thought", "signature": placeholder})
        return True

    def _thought(self, block: Reasoning) -> Iterable[JsonObject]:
        """A thought; one without a signature is refused."""
        opaque = block.opaque
        if opaque is None or opaque.origin != wire.NAME:
            if block.parts or opaque is not None:
                self._lose(block, LossKind.KNOB, "reasoning of another model is not sent")
            return ()
        step: JsonObject = {
            "type": "thought",
            "signature": opaque.data.translate(google_wire.STANDARD),
        }
        if block.text:
            step["summary"] = [self.text_part(part) for part in block.parts if part]
        return (self._known(block, step),)

    def _call(self, block: ToolCall) -> JsonObject:
        name = self._called(block)
        arguments = input_of(block, name, self._outbound)
        return {"type": "function_call", "id": block.id, "name": name, "arguments": arguments}

    def _result(self, block: ToolResult, moved: list[JsonObject]) -> JsonObject:
        text, media = self._content_of(block)
        name = self._tool_of.get(block.call_id) or "tool"
        step: JsonObject = {"type": "function_result", "call_id": block.call_id, "name": name}
        if block.is_error and self._own.google_result_errors:
            step["is_error"] = True
        elif block.is_error:
            prefix = self._outbound.options.tool_error_prefix
            text = prefix + text
            kind = LossKind.CONVERTED if prefix else LossKind.KNOB
            detail = "there is no field for it upstream"
            self._outbound.ledger.add(f"{block.path}.is_error", kind, detail)
        step["result"] = text if not media else [*self._text(text), *media]
        return step

    # --- content --------------------------------------------------------------------------------

    def text_part(self, text: str) -> JsonObject:
        return {"type": "text", "text": text}

    def _inline(self, block: Block, media_type: str, data: str) -> JsonObject:
        inline = {"data": data.translate(google_wire.STANDARD), "mime_type": media_type}
        return {"type": _kind(block, media_type), **inline, **_resolution(block)}

    def _addressed(self, block: Block, media_type: str, uri: str) -> JsonObject:
        part: JsonObject = {"type": _kind(block, media_type), "uri": uri, **_resolution(block)}
        if media_type:
            part["mime_type"] = media_type
        return part

    def _plain(self, block: Document, text: str) -> Iterable[JsonObject]:
        self._lose(block, LossKind.CONVERTED, "the document is sent as text")
        return self._text(text)

    def _detail(self, block: Image) -> None:
        if block.detail not in (None, "auto", *_RESOLUTIONS):
            self._lose(block, LossKind.KNOB, "such image detail has no counterpart upstream")


_RESOLUTIONS = ("low", "high")


def _resolution(block: Block) -> JsonObject:
    if isinstance(block, Image) and block.detail in _RESOLUTIONS:
        return {"resolution": block.detail}
    return {}


def _kind(block: Block, media_type: str) -> str:
    """The type of content with a file."""
    if isinstance(block, Image):
        return "image"
    if isinstance(block, Document):
        return "document"
    family = media_type.partition("/")[0]
    return family if family in wire.MEDIA else "video"


def steps_of(turns: Iterable[WrittenTurn]) -> list[JsonObject]:
    """The steps of all turns."""
    steps: list[JsonObject] = []
    for turn in turns:
        content: list[JsonObject] = []
        for part in turn.parts:
            if part["type"] not in wire.CONTENTS:
                steps.append(part)
                content = []
                continue
            if not content:
                kind = "model_output" if turn.is_model else "user_input"
                steps.append({"type": kind, "content": content})
            content.append(part)
    return steps
