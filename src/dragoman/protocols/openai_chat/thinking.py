"""The reasoning effort toward a Chat upstream: `reasoning_effort`, or the members of compatible
servers in its place."""

from __future__ import annotations

from dragoman.canonical.losses import LossKind
from dragoman.protocols.efforts import effort_of
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.request_settings import RequestSettings


def write_thinking(body: JsonObject, settings: RequestSettings, own: ChatCapabilities) -> None:
    """Ask for the effort that the client wishes; `body` has its tools already."""
    thinking = settings.request.thinking
    effort, converted, adaptive = None, None, False
    if thinking is not None:
        effort, converted = effort_of(thinking)
        adaptive = effort is None and thinking.mode == "adaptive"
        settings.check_display(thinking)
    if body.get("tools") and not own.reasoning_with_tools:
        # Also for clients without a setting: such models reason by default.
        if effort != "none":
            settings.lose_thinking(LossKind.KNOB, "the upstream does not reason beside tools")
        effort, converted, adaptive = "none", None, False
    match own.effort:
        case "effort":
            effort = settings.effort(effort, converted)
            if effort is not None:
                body["reasoning_effort"] = effort
        case "none":
            if effort is not None or adaptive:
                settings.lose_thinking(LossKind.KNOB, "the upstream cannot be asked to think")
        case style:
            if adaptive:
                detail = "how much to think is left to the upstream"
                settings.lose_thinking(LossKind.KNOB, detail)
            if effort is not None:
                _switch(body, settings, style, effort, converted)


def _switch(
    body: JsonObject, settings: RequestSettings, style: str, effort: str, converted: str | None
) -> None:
    """Turn thinking on or off, for servers without levels."""
    on = effort != "none"
    if style == "enable_thinking":
        body["enable_thinking"] = on
    else:
        body["chat_template_kwargs"] = {"enable_thinking": on}
    if on:
        converted = "thinking can only be on or off upstream"
    if converted is not None:
        settings.lose_thinking(LossKind.CONVERTED, converted)
