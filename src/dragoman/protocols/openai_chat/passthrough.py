"""Pass-through between a client and an upstream that both speak Chat.

Values pass byte for byte; what changes is the model's name, limits that the upstream's model would
refuse, and that usage is asked for in streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from dragoman import jsontext
from dragoman.canonical.losses import Ledger
from dragoman.canonical.options import Capabilities
from dragoman.jsontext import JsonError
from dragoman.protocols.base import Passthrough, to_json
from dragoman.protocols.bound_ids import FILES, naming
from dragoman.protocols.fields import JsonObject, checker
from dragoman.protocols.limits import within
from dragoman.protocols.media import media_in
from dragoman.protocols.openai_chat.continuation import continuation
from dragoman.protocols.openai_chat.fitting import Checked, unfit
from dragoman.protocols.openai_chat.history import beginning, without_envelopes, without_reasoning
from dragoman.protocols.openai_chat.matcher import ChatMatcher, match_response
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.reading import Names


def fitted(
    members: Mapping[str, Raw],
    checked: Checked,
    capabilities: Capabilities,
    ledger: Ledger,
    is_lowered: bool,
) -> Mapping[str, Raw]:
    """The members with output limits that the upstream's model keeps."""
    names = "max_completion_tokens", "max_tokens", "n_predict"
    return within(members, names, capabilities.max_output_tokens, ledger)


def asks_usage(members: Mapping[str, Raw]) -> bool:
    """Whether the client asked for a usage chunk in its stream."""
    options = _value(members, "stream_options")
    return type(options) is dict and options.get("include_usage") is True


def choices_of(members: Mapping[str, Raw]) -> int:
    """How many choices the client asked for."""
    number = _value(members, "n") if "n" in members else None
    return min(number, _MOST_CHOICES) if type(number) is int and number > 1 else 1


_MOST_CHOICES = 128
"""The service takes no more."""


def forward_request(members: Mapping[str, Raw], model: str, capabilities: Capabilities) -> bytes:
    """The client's body with the model replaced and, for streams, usage asked for."""
    changed: JsonObject = {"model": model}
    if (
        "stream" in members
        and _value(members, "stream") is True
        and capabilities.of(ChatCapabilities).stream_usage
    ):
        options = _value(members, "stream_options")
        options = options if type(options) is dict else {}
        if options.get("include_usage") is not True:
            changed["stream_options"] = {**options, "include_usage": True}
    return to_json({**members, **changed})


def _value(members: Mapping[str, Raw], name: str) -> Any:
    raw = members.get(name)
    try:
        return None if raw is None else jsontext.decode(raw)
    except JsonError:
        return None


_NAMES = Names(
    {
        "audio": (),
        "fallbacks": (),
        "functions": (),
        "max_completion_tokens": (),
        "max_tokens": (),
        "messages": (),
        "modalities": (),
        "model": (),
        "models": (),
        "n": (),
        "n_predict": (),
        "plugins": (),
        "prediction": (),
        "provider": (),
        "reasoning": ("effort", "enabled", "max_tokens"),
        "reasoning_effort": (),
        "route": (),
        "service_tier": (),
        "stop": (),
        "stream": (),
        "stream_options": ("include_usage",),
        "tools": (),
        "web_search_options": (),
    }
)

PASSTHROUGH = Passthrough(
    check_names=_NAMES.check,
    bound_ids=naming({"messages": FILES}),
    has_media=media_in("messages", "image_url", "input_audio", "file"),
    check=checker(Checked),
    without_envelopes=without_envelopes,
    without_reasoning=without_reasoning,
    fitted=fitted,
    unfit=unfit,
    conversation="prompt_cache_key",
    beginning=beginning,
    forward_request=forward_request,
    match_response=match_response,
    least={"messages": [{"role": "user", "content": "."}]},
    asks_usage=asks_usage,
    choices=choices_of,
    matcher=ChatMatcher,
    continuation=continuation,
)
