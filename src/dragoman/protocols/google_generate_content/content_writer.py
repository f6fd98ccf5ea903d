"""Blocks as the parts of contents; what cannot be written goes into the ledger.

Source: `Part` of google-genai 3.4.0; guides "Function calling" and "Thought signatures"."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from dragoman.canonical.blocks import Block, Document, Opaque, Reasoning, ToolCall, ToolResult
from dragoman.canonical.losses import LossKind
from dragoman.protocols import google_wire
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.google_blocks import BlockWriter
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.tools import input_of

SIGNATURE: Final = "thoughtSignature"


class PartWriter(BlockWriter):
    """Writes the blocks of one request."""

    __slots__ = ()

    origin: ClassVar[str] = wire.NAME

    def model(self, blocks: Sequence[Block]) -> list[JsonObject]:
        """The parts of the model's turn, each with the signature that it came with."""
        parts: list[JsonObject] = []
        waiting: list[Opaque] = []
        """Signatures of calls that follow."""
        late: list[Opaque] = []
        """Signatures of texts whose place is unknown."""
        for block in blocks:
            if type(block) is Reasoning:
                self._reasoning(block, parts, waiting, late)
            elif type(block) is ToolCall:
                part = self._known(block, self._call(block))
                if waiting:
                    part[SIGNATURE] = _signature(waiting.pop(0))
                parts.append(part)
            else:
                parts += self._parts(block)
        for opaque in late:
            last = parts[-1] if parts else {}
            if last.get("text") and SIGNATURE not in last and not last.get("thought"):
                last[SIGNATURE] = _signature(opaque)
            else:
                parts.append(_signed_nothing(opaque))
        parts += map(_signed_nothing, waiting)
        return parts

    def unsigned(self, parts: list[JsonObject], placeholder: str) -> bool:
        """Whether the first call among the parts of a turn has no signature; it is given the
        placeholder."""
        for part in parts:
            if "functionCall" in part:
                is_signed = SIGNATURE in part
                if placeholder and not is_signed:
                    part[SIGNATURE] = placeholder
                return not is_signed
        return False

    # --- reasoning ------------------------------------------------------------------------------

    def _reasoning(
        self,
        block: Reasoning,
        parts: list[JsonObject],
        waiting: list[Opaque],
        late: list[Opaque],
    ) -> None:
        opaque = block.opaque
        if opaque is None or opaque.origin != wire.NAME:
            if block.parts or opaque is not None:
                # Thoughts without a signature tell the model nothing.
                self._lose(block, LossKind.KNOB, "reasoning of another model is not sent")
        elif opaque.anchor == "next":
            waiting.append(opaque)
        elif opaque.anchor == "previous" and not parts:
            late.append(opaque)
        elif opaque.anchor == "previous" and SIGNATURE not in parts[-1]:
            parts[-1][SIGNATURE] = _signature(opaque)
        elif block.text and not opaque.anchor:
            parts.append({"text": block.text, "thought": True, SIGNATURE: _signature(opaque)})
        else:
            parts.append(_signed_nothing(opaque))

    # --- calls and results ----------------------------------------------------------------------

    def _call(self, block: ToolCall) -> JsonObject:
        name = self._called(block)
        call: JsonObject = {"name": name, "args": input_of(block, name, self._outbound)}
        if self._own.takes_call_ids:
            call["id"] = block.id
        return {"functionCall": call}

    def _result(self, block: ToolResult, moved: list[JsonObject]) -> JsonObject:
        name = self._tool_of.get(block.call_id) or "tool"
        text, media = self._content_of(block)
        failed = block.is_error is True
        result: JsonObject = {"name": name, "response": {"error" if failed else "output": text}}
        if self._own.takes_call_ids:
            result["id"] = block.call_id
        if media and self._own.is_signed:
            result["parts"] = media
        elif media:
            self._lose(block, LossKind.CONVERTED, "media of a tool's result are put after it")
            moved += [{"text": f"[Attached by the result of {name}:]"}, *media]
        return {"functionResponse": result}

    # --- files ----------------------------------------------------------------------------------

    def text_part(self, text: str) -> JsonObject:
        return {"text": text}

    def _inline(self, block: Block, media_type: str, data: str) -> JsonObject:
        return {
            "inlineData": {"mimeType": media_type, "data": data.translate(google_wire.STANDARD)}
        }

    def _addressed(self, block: Block, media_type: str, uri: str) -> JsonObject:
        data: JsonObject = {"fileUri": uri}
        if media_type:
            data["mimeType"] = media_type
        return {"fileData": data}

    def _plain(self, block: Document, text: str) -> Iterable[JsonObject]:
        data = base64.b64encode(text.encode("utf-8", "replace")).decode()
        return (self._inline(block, "text/plain", data),)

    def _named(self, block: Document, part: JsonObject) -> None:
        if not self._own.google_cloud:
            super()._named(block, part)
            return
        (inner,) = part.values()
        inner["displayName"] = block.title


def _signature(opaque: Opaque) -> str:
    """A signature in the alphabet in which the service wrote it: SDKs send it back in another."""
    return opaque.data.translate(google_wire.STANDARD)


def _signed_nothing(opaque: Opaque) -> JsonObject:
    """The part of a signature that stands on no other."""
    return {"text": "", SIGNATURE: _signature(opaque)}
