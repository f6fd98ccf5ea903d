"""The contents of a Google request and their parts.

Shapes: ``Content`` and ``Part`` of the google-genai package. The order of the turns, that calls and
results meet, and where a signature has to be, are the service's own rules.
"""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.lab.simulator.reading.google import DUMMIES, signed_content
from dragoman.lab.simulator.seals import open_signature
from dragoman.lab.simulator.validation.refusals import Refusal
from dragoman.lab.simulator.validation.shapes import Maybe, NonEmpty, Shape, shape
from dragoman.lab.simulator.view import JsonObject

_TYPES = ("image/", "audio/", "video/", "text/", "application/pdf", "application/json")
_NO_TYPES = ("image/jpg", "image/gif", "image/svg+xml")


class Message(Shape, rename="camel"):
    """An object whose members have the names of JSON."""


class Blob(Message, kw_only=True):
    mime_type: NonEmpty
    data: NonEmpty
    display_name: str | None = None

    def __post_init__(self) -> None:
        kind = self.mime_type.partition(";")[0]
        if kind in _NO_TYPES or not kind.startswith(_TYPES):
            raise Refusal(f"Unsupported MIME type: {self.mime_type[:60]}", "mimeType")
        if not is_base64(self.data):
            raise Refusal("Base64 decoding failed", "data")


FileData = shape(base=Message, file_uri=NonEmpty, mime_type=str | None, display_name=str | None)
ResponsePart = shape(base=Message, inline_data=Blob | None, file_data=FileData | None)


class FunctionCall(Message, kw_only=True):
    name: NonEmpty
    args: dict[str, Any] | None = None
    id: NonEmpty | None = None


class FunctionResponse(Message, kw_only=True):
    name: NonEmpty
    response: dict[str, Any]
    id: NonEmpty | None = None
    parts: list[ResponsePart] | None = None
    scheduling: str | None = None
    will_continue: bool | None = None


ExecutableCode = shape(language=Literal["PYTHON"], code=str, id=str | None)
CodeResult = shape(
    outcome=Literal["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"],
    output=str | None,
    id=str | None,
)
ToolPart = shape(None, "args? response?", base=Message, id=str | None, tool_type=str)
_DATA = (
    *("text", "inline_data", "file_data", "function_call", "function_response"),
    *("executable_code", "code_execution_result", "tool_call", "tool_response"),
)


class Part(Message, kw_only=True):
    text: str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeResult | None = None
    tool_call: ToolPart | None = None
    tool_response: ToolPart | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    video_metadata: Maybe = None
    media_resolution: Maybe = None
    media_processing: Maybe = None
    document_metadata: Maybe = None
    spreadsheet_metadata: Maybe = None
    audio_metadata: Maybe = None
    speech_metadata: Maybe = None
    part_metadata: Maybe = None

    def __post_init__(self) -> None:
        found = [name for name in _DATA if getattr(self, name) is not None]
        if not found:
            raise Refusal("required oneof field 'data' must have one initialized field")
        if len(found) > 1:
            text = f"oneof field 'data' is already set. Cannot set '{found[1]}'"
            raise Refusal(text, found[1])
        signature = self.thought_signature
        if signature is not None and signature not in DUMMIES and not is_base64(signature):
            raise Refusal("Base64 decoding failed", "thoughtSignature")

    def as_json(self) -> JsonObject:
        """The text or call, and what is bound to a signature."""
        call = self.function_call
        if call is not None:
            return {"functionCall": {"name": call.name, "args": call.args}}
        return {"text": self.text}


class Content(Message, kw_only=True):
    parts: list[Part]
    role: str | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise Refusal("contents.parts must not be empty.", "parts")

    def results(self) -> list[FunctionResponse]:
        return [part.function_response for part in self.parts if part.function_response is not None]


def is_base64(text: str) -> bool:
    """Whether the text is base64 of either alphabet."""
    standard = text.replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


@dataclass(slots=True)
class _Turn:
    """Neighbouring contents of one side, which the service takes for one turn."""

    is_model: bool
    at: int
    parts: list[tuple[int, int, Part]] = field(default_factory=list)

    def calls(self) -> list[FunctionCall]:
        return [part.function_call for *_, part in self.parts if part.function_call is not None]

    def has_words(self) -> bool:
        """Whether the user speaks here, and gives not only the results of calls."""
        has_result = any(part.function_response is not None for *_, part in self.parts)
        return not has_result and any(part.text is not None for *_, part in self.parts)


def check_contents(contents: list[Content], organization: str, *, signed: bool) -> None:
    """Check the order of the turns, that each call has its result, and the signatures.

    ``signed``: the first call of each of the model's turns since the user's last words needs one.

    Raises:
        Refusal: a rule is broken.
    """
    if not contents:
        raise Refusal("contents is not specified", "contents")
    turns = _turns(contents)
    if turns[0].is_model:
        raise Refusal("Please ensure that multiturn requests start with a user turn.", "contents")
    open_calls: list[FunctionCall] = []
    for turn in turns:
        if turn.is_model:
            _check_model(turn, organization)
        else:
            _check_user(contents, turn, open_calls)
        open_calls = turn.calls()
    if open_calls:
        raise _uneven(turns[-1].at)
    if signed:
        _check_signed(turns)


def _turns(contents: list[Content]) -> list[_Turn]:
    turns: list[_Turn] = []
    for index, content in enumerate(contents):
        if content.role not in (None, "user", "model", "function"):
            text = "Please use a valid role: user, model."
            raise Refusal(text, "contents", index, "role")
        is_model = content.role == "model"
        if not turns or turns[-1].is_model != is_model:
            turns.append(_Turn(is_model, index))
        turns[-1].parts += [(index, number, part) for number, part in enumerate(content.parts)]
    return turns


def _uneven(at: int) -> Refusal:
    return Refusal(
        "Please ensure that the number of function response parts is equal to the number of "
        "function call parts of the function call turn.",
        "contents",
        at,
    )


def _check_model(turn: _Turn, organization: str) -> None:
    for index, number, part in turn.parts:
        at = ("contents", index, "parts", number)
        if part.function_response is not None:
            raise Refusal("A function response is part of a user turn.", *at)
        signature = part.thought_signature
        if signature is None or signature in DUMMIES:
            continue
        if open_signature(signed_content(part.as_json()), signature, organization) is None:
            raise Refusal("Corrupted thought signature.", *at)


def _check_user(contents: list[Content], turn: _Turn, open_calls: list[FunctionCall]) -> None:
    for index, number, part in turn.parts:
        at = ("contents", index, "parts", number)
        if part.function_call is not None:
            raise Refusal("A function call is part of a model turn.", *at)
        if part.thought_signature is not None or part.thought:
            raise Refusal("Corrupted thought signature.", *at)
    with_results = [
        index
        for index in range(turn.at, turn.parts[-1][0] + 1)
        if any(part.function_response is not None for part in contents[index].parts)
    ]
    if with_results and (not open_calls or with_results[0] != turn.at):
        text = "Please ensure that function response turn comes immediately after a function "
        raise Refusal(f"{text}call turn.", "contents", with_results[0])
    results = contents[turn.at].results()
    if len(with_results) > 1 or len(results) != len(open_calls):
        raise _uneven(turn.at)
    by_id = {call.id: call for call in open_calls if call.id is not None}
    for result, call in zip(results, open_calls, strict=True):
        answered = by_id.get(result.id or "", call)
        if result.name != answered.name:
            text = f"Function response '{result.name}' answers a call of '{answered.name}'."
            raise Refusal(text, "contents", turn.at)


def _check_signed(turns: list[_Turn]) -> None:
    spoken = [number for number, turn in enumerate(turns) if turn.has_words()]
    for turn in turns[spoken[-1] if spoken else 0 :]:
        calls = [part for *_, part in turn.parts if part.function_call is not None]
        if not calls or calls[0].thought_signature is not None:
            continue
        name = turn.calls()[0].name
        raise Refusal(
            "Function call is missing a thought_signature in functionCall parts. This is "
            "required for tools to work correctly. Additional data, function call "
            f"`default_api:{name}`, position {turn.at + 1}.",
            "contents",
            turn.at,
        )
