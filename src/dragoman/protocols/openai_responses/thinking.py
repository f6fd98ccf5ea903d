"""Reasoning effort and its display, for a Responses upstream: `reasoning`."""

from __future__ import annotations

from dragoman.canonical.options import Options
from dragoman.canonical.requests import Thinking
from dragoman.protocols.efforts import effort_of
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.request_settings import RequestSettings


def write_reasoning(body: JsonObject, settings: RequestSettings) -> None:
    """`reasoning`: the effort and the summary that the client requests."""
    thinking = settings.request.thinking
    if thinking is None:
        return
    reasoning: JsonObject = {}
    effort = settings.effort(*effort_of(thinking))
    if effort is not None:
        reasoning["effort"] = effort
    settings.check_display(thinking)
    summary = thinking.summary
    if summary is None and not settings.same_protocol:
        summary = _summary(thinking, effort, settings.options)
    if summary is not None:
        reasoning["summary"] = summary
    if reasoning:
        body["reasoning"] = reasoning


def _summary(thinking: Thinking, effort: str | None, options: Options) -> str | None:
    """The summary to request for a client of another protocol: no readable reasoning comes back
    unless requested."""
    hidden = (
        options.show_reasoning == "never"
        or thinking.display == "omitted"
        or thinking.mode in ("disabled", "between_tools")
        or "none" in (thinking.effort, effort)
    )
    return None if hidden else "auto"


def shows_thinking(thinking: Thinking | None, options: Options) -> bool:
    """Whether the client is shown thinking blocks, which it sends back."""
    if options.show_reasoning != "auto":
        return options.show_reasoning == "always"
    return thinking is not None and thinking.mode in ("adaptive", "enabled")
