"""Pass-through between a client and an upstream that both speak Chat.

Values pass byte for byte; what changes is the model's name, limits that the upstream's model would
refuse, and that usage is asked for in streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from dragoman import jsontext
from dragoman.canonical.errors import UpstreamError
from dragoman.canonical.losses import Ledger
from dragoman.canonical.options import Capabilities
from dragoman.canonical.usage import Usage
from dragoman.jsontext import JsonError
from dragoman.protocols.base import NOTHING, Passthrough, to_json
from dragoman.protocols.error_body import stray_error
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.finish_words import failure, is_failure
from dragoman.protocols.limits import within
from dragoman.protocols.openai_chat.history import beginning, without_envelopes, without_reasoning
from dragoman.protocols.openai_chat.joined import joined
from dragoman.protocols.openai_chat.relay import ChatRelay
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.protocols.openai_errors import fault_of
from dragoman.protocols.raw import text_pattern

# --- requests -----------------------------------------------------------------------------------


class _Message(Struct):
    role: Literal["developer", "system", "user", "assistant", "tool", "function"]


class _Shape(Struct):
    """What must be right of a body that is passed through: the types of well-known fields.

    Vocabularies that grow (parts, tools, models' limits) are the upstream's to judge.
    """

    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    tools: list[dict[str, Raw]] | None = None
    tool_choice: str | dict[str, Raw] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None


def fitted(
    members: Mapping[str, Raw], capabilities: Capabilities, ledger: Ledger, is_lowered: bool
) -> Mapping[str, Raw]:
    """The members with output limits that the upstream's model keeps."""
    return within(
        members, ("max_completion_tokens", "max_tokens"), capabilities.max_output_tokens, ledger
    )


class _StreamOptions(Struct):
    include_usage: bool | None = None


_stream_options = jsontext.decoder(_StreamOptions)


def asks_usage(members: Mapping[str, Raw]) -> bool:
    """Whether the client asked for a usage chunk in its stream."""
    options = members.get("stream_options")
    if options is None:
        return False
    try:
        return _stream_options(options).include_usage is True
    except JsonError:
        return False


def choices_of(members: Mapping[str, Raw]) -> int:
    """How many choices the client asked for."""
    number = _value(members, "n")
    return min(number, _MOST_CHOICES) if type(number) is int and number > 1 else 1


_MOST_CHOICES = 128
"""The service takes no more."""


def forward_request(members: Mapping[str, Raw], model: str, capabilities: Capabilities) -> bytes:
    """The client's body with the model replaced and, for streams, usage asked for."""
    changed: JsonObject = {"model": model}
    if capabilities.of(ChatCapabilities).stream_usage and _value(members, "stream") is True:
        options = _value(members, "stream_options")
        options = options if type(options) is dict else {}
        if options.get("include_usage") is not True:
            changed["stream_options"] = {**options, "include_usage": True}
    return to_json({**members, **changed})


def _value(members: Mapping[str, Raw], name: str) -> Any:
    raw = members.get(name)
    if raw is None:
        return None
    try:
        return jsontext.decode(raw)
    except JsonError:
        return None


# --- whole answers ------------------------------------------------------------------------------


def forward_response(
    body: bytes, model: str, shown: Mapping[str, Any] = NOTHING
) -> tuple[bytes, Usage | None, str]:
    """A whole answer under the client's name of the model, its usage, and the word
    for why it ended, of several choices the last.

    Raises:
        UpstreamError: it is an error, or not a finished answer.
    """
    try:
        members = jsontext.members(body)
        answer = jsontext.decode(body)
    except JsonError:
        raise UpstreamError.unreadable("it is not a JSON object") from None
    if (error := stray_error(answer, "choices")) is not None:
        raise UpstreamError(fault_of(error))
    choices = answer.get("choices")
    if type(choices) is not list or not choices:
        raise UpstreamError.unreadable("it has no choices")
    for choice in choices:
        _check_finished(choice)
    told = choices[-1].get("finish_reason")
    reason = told if type(told) is str else ""
    usage = answer.get("usage")
    tier = answer.get("service_tier")
    counted = read_usage(usage, tier=tier) if type(usage) is dict else None
    if answer.get("model") == model:
        return body, counted, reason
    return to_json({**members, "model": model}), counted, reason


def _check_finished(choice: Any) -> None:
    reason = choice.get("finish_reason") if type(choice) is dict else None
    if (type(reason) is not str and type(reason) is not dict) or reason == "null":
        raise UpstreamError.unreadable("it ends before the model finished")
    if type(reason) is str and is_failure(reason):
        raise UpstreamError(failure(reason))
    if type(choice.get("message")) is not dict:
        raise UpstreamError.unreadable("its choice has no message")


PASSTHROUGH = Passthrough(
    shape=jsontext.decoder(_Shape),
    without_envelopes=without_envelopes,
    without_reasoning=without_reasoning,
    fitted=fitted,
    conversation="prompt_cache_key",
    beginning=beginning,
    forward_request=forward_request,
    forward_response=forward_response,
    asks_usage=asks_usage,
    choices=choices_of,
    relay=ChatRelay,
    joined=joined,
    spoken=text_pattern("content", "reasoning_content", "reasoning", "arguments", "refusal"),
)
