"""A validated request as the simulated model sees it, whatever its protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.lab.simulator.script import Protocol

JsonObject = dict[str, Any]
"""A decoded JSON object."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model may call. ``schema`` is None for a ``custom`` (free text) tool."""

    name: str
    kind: Literal["function", "custom"]
    schema: Mapping[str, Any] | None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Media:
    """An image, document or audio clip that arrived.

    ``size`` and ``digest`` (the first 16 hex digits of SHA-256) are those of the decoded bytes,
    and None when only a reference arrived. ``where`` is "user" or "tool_result".
    """

    kind: Literal["image", "document", "audio"]
    source: Literal["base64", "url", "file", "text"]
    media_type: str | None
    size: int | None
    digest: str | None
    where: Literal["user", "tool_result"] = "user"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered; ``text`` joins its text parts."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """The request.

    ``tools`` are those that the client carries out, ``hosted`` the types of the vendor's own.
    ``turns`` counts the assistant's turns so far.
    ``results`` are the tool results since the last user text and ``rounds`` the tool rounds they
    came in. ``forced`` is the tool that the request demands by name. ``schema`` is that of the
    structured output asked for (``{}`` for a free JSON object). ``reasoning_asked`` is true if the
    request asks for reasoning in the protocol's own way, ``thinking`` that its text may be shown
    and ``thinking_hidden`` that it is shown empty. ``returned`` are the texts of reasoning that
    came back and was found genuine. ``prompt_tokens`` is the simulator's estimate of the prompt.
    ``request`` is the body itself. ``array`` is true if a stream is one array of JSON (Google).
    """

    protocol: Protocol
    model: str
    stream: bool
    user_text: str
    system_text: str
    tools: tuple[OfferedTool, ...]
    hosted: tuple[str, ...]
    tool_choice: Literal["auto", "none", "required"]
    forced: str | None
    parallel: bool
    results: tuple[ToolResult, ...]
    rounds: int
    turns: int
    media: tuple[Media, ...]
    schema: Mapping[str, Any] | None
    stop_sequences: tuple[str, ...]
    max_tokens: int | None
    reasoning_asked: bool
    thinking: bool
    thinking_hidden: bool
    returned: tuple[str, ...]
    logprobs: int | None
    choices: int
    include_usage: bool
    prompt_tokens: int
    request: JsonObject
    array: bool = False
