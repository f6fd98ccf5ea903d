"""The steps of an interaction and their contents.

Shapes: the members of ``Step`` and ``Content`` in the google-genai package. That calls and results
meet, and that a thought with its signature precedes a call, are the service's own rules.
"""

from typing import Any, Literal

from dragoman.lab.simulator.reading.google import DUMMIES
from dragoman.lab.simulator.reading.interactions import shown_of
from dragoman.lab.simulator.seals import open_signature
from dragoman.lab.simulator.validation.google_contents import is_base64
from dragoman.lab.simulator.validation.refusals import Refusal
from dragoman.lab.simulator.validation.shapes import NonEmpty, Shape, convert, one_of, shape
from dragoman.lab.simulator.view import JsonObject

_DOCUMENTS = ("application/pdf", "text/csv", "application/vnd.", "application/msword")
_TYPES = {"image": ("image/",), "audio": ("audio/",), "video": ("video/",), "document": _DOCUMENTS}
_Resolution = Literal["low", "medium", "high", "ultra_high"]


class Media(Shape, kw_only=True):
    """A file: its bytes, or where they are."""

    data: NonEmpty | None = None
    uri: NonEmpty | None = None
    mime_type: NonEmpty | None = None
    processing: Any = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.uri is None):
            raise Refusal("Exactly one of data and uri must be set.", "data")
        if self.data is not None and not is_base64(self.data):
            raise Refusal("Base64 decoding failed.", "data")
        if self.data is not None and self.mime_type is None:
            raise Refusal("mime_type is required with data.", "mime_type")
        kinds = _TYPES[str(self.__struct_config__.tag)]
        if self.mime_type is not None and not self.mime_type.startswith(kinds):
            raise Refusal(f"Unsupported MIME type: {self.mime_type[:60]}", "mime_type")


TextContent = shape("text", "annotations?", text=str)
ImageContent = shape("image", base=Media, resolution=_Resolution | None)
Content = one_of(
    TextContent,
    ImageContent,
    shape("audio", base=Media, channels=int | None, sample_rate=int | None),
    shape("document", base=Media, resolution=_Resolution | None),
    shape("video", base=Media, resolution=_Resolution | None, name=str | None),
)
CONTENTS = ("text", "image", "audio", "document", "video")
"""Types of contents; all others are those of steps."""


class Thought(Shape, tag="thought", kw_only=True):
    signature: str | None = None
    summary: list[TextContent | ImageContent] | None = None

    def __post_init__(self) -> None:
        if not self.signature:
            raise Refusal("A thought step must have a signature.", "signature")
        if self.signature not in DUMMIES and not is_base64(self.signature):
            raise Refusal("Base64 decoding failed.", "signature")


UserInput = shape("user_input", content=list[Content])
ModelOutput = shape("model_output", "error?", content=list[Content] | None)
FunctionCall = shape("function_call", id=NonEmpty, name=NonEmpty, arguments=dict[str, Any])
FunctionResult = shape(
    "function_result",
    call_id=NonEmpty,
    name=NonEmpty,
    result=str | dict[str, Any] | list[Content],
    is_error=bool | None,
)


def _hosted(name: str, call: str, result: str) -> tuple[Any, Any]:
    """A call of a tool of the service's own, and its result."""
    return (
        shape(f"{name}_call", call, id=NonEmpty, signature=str | None),
        shape(f"{name}_result", result, call_id=NonEmpty, signature=str | None),
    )


Step = one_of(
    UserInput,
    ModelOutput,
    Thought,
    FunctionCall,
    FunctionResult,
    *_hosted("google_search", "arguments search_type?", "result is_error?"),
    *_hosted("url_context", "arguments", "result is_error?"),
    *_hosted("code_execution", "arguments", "result is_error?"),
    *_hosted("google_maps", "arguments?", "result"),
    *_hosted("file_search", "", ""),
    *_hosted("retrieval", "arguments retrieval_type?", "is_error?"),
    *_hosted("tool_search", "arguments", "result?"),
    *_hosted("processing", "", ""),
    *_hosted("mcp_server_tool", "name server_name arguments", "result name? server_name?"),
)


def check_steps(steps: list[JsonObject], organization: str) -> None:
    """Check the steps one by one, then that calls and results meet.

    Raises:
        Refusal: a rule is broken.
    """
    read = [_converted(step, index) for index, step in enumerate(steps)]
    spoken = max((n for n, step in enumerate(read) if isinstance(step, UserInput)), default=-1)
    open_calls: dict[str, str] = {}
    ids: set[str] = set()
    is_signed = False
    for index, step in enumerate(read):
        at = ("input", index)
        if isinstance(step, FunctionResult):
            _check_result(step, open_calls, *at)
            is_signed = False
            continue
        if open_calls and isinstance(step, UserInput):
            raise Refusal(f"No result for the function call {next(iter(open_calls))}.", *at)
        if isinstance(step, Thought):
            _check_signature(step, steps[index], organization, *at)
            is_signed = True
        elif isinstance(step, FunctionCall):
            name, call_id = getattr(step, "name"), getattr(step, "id")  # noqa: B009
            if call_id in ids:
                raise Refusal(f"Duplicate function call id {call_id}.", *at, "id")
            if index > spoken and not is_signed:
                text = f"Function call `{name}` is missing a thought signature before it."
                raise Refusal(text, *at)
            ids.add(call_id)
            open_calls[call_id] = name
        elif isinstance(step, UserInput):
            is_signed = False
    if open_calls:
        raise Refusal(f"No result for the function call {next(iter(open_calls))}.", "input")
    if read and not isinstance(read[-1], UserInput | FunctionResult):
        raise Refusal("The input must end with user_input or function_result.", "input")


def _converted(step: JsonObject, index: int) -> Any:
    if "type" not in step:
        text = "Expected a step with a type: turns of the former schema are not read."
        raise Refusal(text, "input", index, "type")
    return convert(step, Step, "input", index)


def _check_result(step: Any, open_calls: dict[str, str], *at: str | int) -> None:
    name = open_calls.pop(step.call_id, None)
    if name is None:
        raise Refusal(f"No function call for the result of {step.call_id}.", *at, "call_id")
    if step.name != name:
        raise Refusal(f"Function result '{step.name}' answers a call of '{name}'.", *at, "name")


def _check_signature(step: Thought, given: JsonObject, organization: str, *at: str | int) -> None:
    signature = step.signature or ""
    if signature in DUMMIES:
        return
    if open_signature(shown_of(given), signature, organization) is None:
        raise Refusal("Corrupted thought signature.", *at, "signature")
