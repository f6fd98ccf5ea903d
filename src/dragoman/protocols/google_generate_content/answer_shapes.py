"""The objects of an answer, whole or streamed (`GenerateContentResponse` of google-genai 3.4.0)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from msgspec import Raw

from dragoman.protocols.google_generate_content.spelling import Message
from dragoman.protocols.reading import Reader

_Object: TypeAlias = dict[str, Any]


class Blob(Message):
    """Bytes that the model made."""

    mime_type: str | None = None
    data: str | None = None
    display_name: str | None = None


class Call(Message):
    """A call of a declared function."""

    name: str | None = None
    args: Raw = Raw()
    id: str | None = None
    partial_args: list[Any] | None = None
    will_continue: bool | None = None


def is_empty(call: Call) -> bool:
    """Whether a call says nothing: the end of one that came in pieces."""
    return not (call.name or call.id) and bytes(call.args) in (b"", b"null", b"{}")


class Part(Message):
    """One piece of content: one of the members of a kind, and what is said of it."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Call | None = None
    inline_data: Blob | None = None
    file_data: _Object | None = None
    executable_code: _Object | None = None
    code_execution_result: _Object | None = None
    tool_call: _Object | None = None
    tool_response: _Object | None = None
    audio_transcription: _Object | None = None
    media_resolution: Any = None
    part_metadata: Any = None
    speech_metadata: Any = None
    video_metadata: Any = None


class Content(Message):
    """What the model said."""

    parts: list[Part] | None = None
    role: str | None = None


class Candidate(Message):
    """One of the answers, or a piece of it."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    safety_ratings: Any = None
    citation_metadata: _Object | None = None
    grounding_metadata: _Object | None = None
    url_context_metadata: Any = None
    logprobs_result: _Object | None = None
    token_count: Any = None
    avg_logprobs: Any = None
    continuation_token: str | None = None


class Feedback(Message):
    """What a filter found in the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None
    safety_ratings: Any = None


class Answer(Message):
    """An answer, or one chunk of its stream."""

    candidates: list[Candidate] | None = None
    prompt_feedback: Feedback | None = None
    usage_metadata: _Object | None = None
    model_version: str | None = None
    response_id: str | None = None
    create_time: Any = None
    model_status: Any = None


ANSWER: Final = Reader(Answer)

FOREIGN: Final = {
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
"""Members of a part that no other protocol has, by their attributes."""
