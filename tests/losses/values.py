"""Valid values for the fields of the SDKs' types, each recognisable at the other side.

A field needs an entry only where any text, number or object will not do.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Literal

NEEDLE = "zq7needle"
"""The text that is looked for at the other side; it occurs nowhere else."""

FILLER = "filler"
KEY = "some_key"
"""The key of an entry in an object with free keys."""

_ENCODED = "zq7needleAAA"
"""Base64 text that holds the needle as it is."""

_TEXT = base64.b64encode(f"text {NEEDLE} text".encode()).decode()


@dataclass(frozen=True)
class Owner:
    """Where a value stands: the record and field it belongs to, and the fields above."""

    record: str = ""
    name: str = ""
    above: tuple[str, ...] = ()

    def field(self, record: str, name: str) -> Owner:
        """The owner of the values of a field below."""
        return Owner(record, name, (*self.above, name))

    @property
    def label(self) -> str:
        """`Record.field`."""
        return f"{self.record}.{self.name}"

    @property
    def dotted(self) -> str:
        """The names of all fields on the way."""
        return ".".join(self.above)


@dataclass(frozen=True)
class Sample:
    """A value to be tested; see `walker.Probe`. `filler` is what stands there otherwise."""

    value: Any
    needle: str | None = NEEDLE
    rivals: tuple[Any, ...] = ()
    filler: Any = None


def samples(
    owner: Owner, kind: Literal["str", "int", "float", "bool", "any"]
) -> tuple[Sample, ...]:
    """The values of a scalar field that needs nothing special."""
    match kind:
        case "str" | "any":
            return (Sample(NEEDLE, filler=FILLER),)
        case "int":
            return (Sample(7, None, (5,), filler=5),)
        case "float":
            return (Sample(0.75, None, (0.5,), filler=0.5),)
        case "bool":
            return (Sample(True, None, (False,), filler=True),)


def known(owner: Owner) -> tuple[Sample, ...] | None:
    """The values of a field that has an entry here; the first one is also its filler."""
    for pattern, fixed in _BY_PATH:
        if pattern.search(owner.dotted):
            return fixed
    found = _BY_FIELD.get(owner.label, _BY_NAME.get(owner.name))
    return found or None


def _schema(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"}},
        "required": [name],
        "additionalProperties": False,
    }


_FILLER_SCHEMA = Sample(_schema(FILLER), rivals=(_schema("other"),), needle=None)
_SCHEMAS = (_FILLER_SCHEMA, Sample(_schema(NEEDLE)))
_URLS = (
    Sample("https://example.com/filler.png", None, ("https://example.com/other.png",)),
    Sample(f"https://example.com/{NEEDLE}.png"),
)
_IMAGES = (*_URLS, Sample(f"data:image/png;base64,{_ENCODED}", _ENCODED))
_BASE64 = (Sample("ZmlsbGVy", None, ("b3RoZXIx",)), Sample(_ENCODED, _ENCODED))
_PDF = f"data:application/pdf;base64,{_ENCODED}"
_FILES = (
    Sample("data:application/pdf;base64,ZmlsbGVy", None, ("data:application/pdf;base64,b3RoZXIx",)),
    Sample(_PDF, _ENCODED),
    Sample(f"data:text/plain;base64,{_TEXT}", None, ("data:text/plain;base64,b3RoZXIx",)),
)
_ARGUMENTS = (
    Sample("{}", None, ('{"b":1}',)),
    Sample(f'{{"a":"{NEEDLE}"}}'),
)
_DATES = (Sample("2026-01-02T03:04:05Z", "2026-01-02T03:04:05"),)
_DECLARED_NAMES = (Sample("declared_one", None, ("declared_two",)),)
"""Names that have to be those of declared tools; the declaration itself holds them too."""

_LIMITS = (Sample(50_000, None, (40_000,)),)


def _allowed(name: str) -> list[dict[str, Any]]:
    """A list of allowed tools that both OpenAI protocols can read."""
    return [{"type": "function", "name": name, "function": {"name": name}}]


_BY_PATH: tuple[tuple[re.Pattern[str], tuple[Sample, ...]], ...] = (
    (re.compile(r"^tool_choice\..*\bname$"), _DECLARED_NAMES),
    (
        re.compile(r"^tool_choice\b.*\btools$"),
        (Sample(_allowed("declared_one"), None, (_allowed("declared_two"),)),),
    ),
    (re.compile(r"^max_(completion_|output_)?tokens$"), _LIMITS),
)

_BY_NAME: dict[str, tuple[Sample, ...]] = {
    "url": _URLS,
    "file_url": _URLS,
    "server_url": _URLS,
    "image_url": _IMAGES,
    "file_data": _FILES,
    "parameters": _SCHEMAS,
    "input_schema": _SCHEMAS,
    "output_schema": _SCHEMAS,
    "schema": _SCHEMAS,
    "logit_bias": (Sample({"1234": 7}, None, ({"1234": 5},)),),
    "budget_tokens": (Sample(1500, None, (9000,)),),
}

_BY_FIELD: dict[str, tuple[Sample, ...]] = {
    "ChatCompletionContentPartImageParam.image_url": (),
    "InputAudio.data": _BASE64,
    "Function.arguments": _ARGUMENTS,
    "FunctionCall.arguments": _ARGUMENTS,
    "ResponseFunctionToolCallParam.arguments": _ARGUMENTS,
    "ResponseFunctionToolCall.arguments": _ARGUMENTS,
    "ChoiceDeltaToolCallFunction.arguments": _ARGUMENTS,
    "ChoiceDeltaFunctionCall.arguments": _ARGUMENTS,
    "ResponseFunctionCallArgumentsDeltaEvent.delta": _ARGUMENTS,
    "ResponseFunctionCallArgumentsDoneEvent.arguments": _ARGUMENTS,
    **{
        # Opaque state travels inside an envelope, in which no text can be recognised.
        name: (Sample(NEEDLE, None, (FILLER,)),)
        for name in (
            "ThinkingBlock.signature",
            "ThoughtStepParam.signature",
            "SignatureDelta.signature",
            "RedactedThinkingBlock.data",
            "ResponseReasoningItem.encrypted_content",
        )
    },
    "InputTokensDetails.cached_tokens": (Sample(0, None, (1,)),),
    "InputTokensDetails.cache_write_tokens": (Sample(0, None, (1,)),),
    "Choice.index": (Sample(0, None, (1,)),),
    "AnnotationURLCitation.start_index": (Sample(1, None, (2,)),),
    "AnnotationURLCitation.end_index": (Sample(3, None, (4,)),),
    "AnnotationURLCitation.url": _URLS,
    "InlineSkillSourceParam.data": _BASE64,
    "Blob.data": _BASE64,
    "FunctionResponseBlob.data": _BASE64,
    **{f"{kind}ContentParam.data": _BASE64 for kind in ("Audio", "Document", "Image", "Video")},
    "Blob.mimeType": (Sample("image/png", None, ("image/webp",)),),
    "FunctionResponseBlob.mimeType": (Sample("image/png", None, ("image/webp",)),),
    "GroundingSupport.groundingChunkIndices": (Sample([0], None, ([7],)),),
    "Segment.startIndex": (Sample(1, None, (0,)),),
    "Segment.endIndex": (Sample(3, None, (5,)),),
    "Segment.text": (Sample(FILLER, None, (FILLER[:3],)),),
    "Citation.startIndex": (Sample(1, None, (0,)),),
    "Citation.endIndex": (Sample(3, None, (5,)),),
    "FunctionCall.args": (Sample({}, None, ({"b": 1},)), Sample({"a": NEEDLE})),
    "FunctionResponse.response": (
        Sample({"output": FILLER}, None, ({"output": "other"},)),
        Sample({"output": NEEDLE}),
    ),
    "FunctionDeclaration.parametersJsonSchema": _SCHEMAS,
    "FunctionDeclaration.responseJsonSchema": _SCHEMAS,
    "FunctionDeclaration.name": (Sample(FILLER, None, ("other",)), Sample(NEEDLE)),
    "Part.thoughtSignature": (Sample("c2ln", None, ("b3Ro",)),),
    "Content.role": (Sample("user", None, ("model",)),),
    **{
        f"{prefix}Base64{kind}.data": _BASE64
        for prefix in ("", "Beta")
        for kind in ("ImageSource", "ImageSourceParam", "PDFSource", "PDFSourceParam", "PDFBlock")
    },
}
"""An empty entry says that the field is walked although its name has an entry above."""

COMPANIONS: dict[str, dict[str, Any]] = {
    "FileFile": {"file_data": _FILES[0].value, "filename": "filler.pdf"},
    "ResponseInputFileParam": {"file_data": _FILES[0].value, "filename": "filler.pdf"},
    "ResponseInputFileContentParam": {"file_data": _FILES[0].value, "filename": "filler.pdf"},
    "ResponseInputImageParam": {"image_url": _URLS[0].value},
    "ResponseInputImageContentParam": {"image_url": _URLS[0].value},
    "ResponseComputerToolCallOutputScreenshotParam": {"image_url": _URLS[0].value},
    "ChatCompletionAssistantMessageParam": {"content": FILLER},
    "JSONSchema": {"schema": _FILLER_SCHEMA.value},
    "FunctionCallOutput": {"call_id": FILLER},
    **{
        name: {"tools": [{"type": "function", "name": FILLER, "strict": False}]}
        for name in ("NamespaceToolParam", "ToolSearchOutputNamespaceToolParam", "AdditionalTools")
    },
    "ChoiceDelta": {"content": FILLER},
    "ChoiceDeltaToolCall": {
        "id": FILLER,
        "type": "function",
        "function": {"name": FILLER, "arguments": "{}"},
    },
    "ChoiceDeltaToolCallFunction": {"name": FILLER, "arguments": "{}"},
    "ChoiceDeltaFunctionCall": {"name": FILLER, "arguments": "{}"},
    "Candidate": {
        "content": {"role": "model", "parts": [{"text": FILLER}]},
        "finishReason": "STOP",
    },
    "Citation": {"uri": "https://example.com/filler.png", "endIndex": 4},
    "Segment": {"endIndex": 4},
    "GroundingMetadata": {
        "groundingChunks": [{"web": {"uri": "https://example.com/filler.png", "title": FILLER}}],
        "groundingSupports": [
            {"segment": {"startIndex": 0, "endIndex": 3}, "groundingChunkIndices": [0]}
        ],
    },
    "GroundingSupport": {"segment": {"startIndex": 0, "endIndex": 3}, "groundingChunkIndices": [0]},
    **{
        f"GroundingChunk{kind}": {"uri": "https://example.com/filler.png"}
        for kind in ("Web", "Maps", "RetrievedContext")
    },
    "GroundingChunkImage": {"sourceUri": "https://example.com/filler.png"},
    "LogprobsResult": {"chosenCandidates": [{"token": FILLER, "logProbability": -0.5}]},
    "LogprobsResultCandidate": {"token": FILLER, "logProbability": -0.5},
    "GenerateContentResponseUsageMetadata": {
        "promptTokenCount": 50,
        "candidatesTokenCount": 5,
        "totalTokenCount": 55,
    },
    "Part": {"text": FILLER},
    "Content": {"parts": [{"text": FILLER}]},
    "Blob": {"mimeType": "image/png", "data": "ZmlsbGVy"},
    "FunctionResponseBlob": {"mimeType": "image/png", "data": "ZmlsbGVy"},
    "FileData": {"fileUri": "https://example.com/filler.png", "mimeType": "image/png"},
    "FunctionResponseFileData": {"fileUri": "https://example.com/a.png", "mimeType": "image/png"},
    "FunctionResponsePart": {
        "inlineData": {"mimeType": "image/png", "data": "ZmlsbGVy"},
    },
    "FunctionParam": {"name": FILLER},
    "UserInputStepParam": {"content": [{"type": "text", "text": FILLER}]},
    **{
        f"{name}ContentParam": {"data": "ZmlsbGVy", "mime_type": media_type}
        for name, media_type in (
            ("Audio", "audio/wav"),
            ("Document", "application/pdf"),
            ("Image", "image/png"),
            ("Video", "video/mp4"),
        )
    },
    "FunctionCall": {"name": FILLER},
    "FunctionResponse": {"name": FILLER, "response": {"output": FILLER}},
    "FunctionDeclaration": {"name": FILLER},
    "SafetySetting": {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"},
}
"""Optional fields without which a record says nothing, or is refused by its own vendor."""


OFTEN_EMPTY = frozenset({"annotations", "logprobs", "top_logprobs", "tools"})
"""Required lists that are empty in an ordinary answer."""


def excluded(record: str, name: str) -> frozenset[str]:
    """The fields of a record that may not stand beside `name`."""
    groups = (group for group in _EITHER if name in group)
    return frozenset().union(*groups) - {name}


_EITHER = (
    frozenset({"file_data", "file_id", "file_url"}),
    frozenset({"image_url", "file_id"}),
    frozenset({"tool_calls", "function_call"}),
    frozenset({"parameters", "parametersJsonSchema"}),
    frozenset(
        {
            *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
            *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
            "audioTranscription",
        }
    ),
)
