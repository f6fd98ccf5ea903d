"""The protocols dragoman speaks: one package each, one line each in the registry."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.canonical.options import Capabilities, Options
from dragoman.protocols.anthropic_messages import CODEC as _ANTHROPIC_MESSAGES
from dragoman.protocols.base import Codec
from dragoman.protocols.google_generate_content import CODEC as _GOOGLE_GENERATE_CONTENT
from dragoman.protocols.google_interactions import CODEC as _GOOGLE_INTERACTIONS
from dragoman.protocols.openai_chat import CODEC as _OPENAI_CHAT
from dragoman.protocols.openai_responses import CODEC as _OPENAI_RESPONSES

ProtocolName = Literal[
    "openai_chat",
    "anthropic_messages",
    "openai_responses",
    "google_generate_content",
    "google_interactions",
]
"""The built-in protocols."""

CODECS: dict[str, Codec] = {}
"""Every protocol by its name in the configuration."""


def register(codec: Codec) -> None:
    """Register a protocol, before a configuration is read that names it.

    Raises:
        ValueError: the name is taken, or it declares a setting with an existing name.
    """
    if codec.name in CODECS:
        raise ValueError(f"there is a protocol {codec.name!r} already")
    for kind, declared in _settings(codec):
        taken = set(kind.__struct_fields__)
        for other in CODECS.values():
            known = dict(_settings(other))[kind]
            if known is not None and known is not declared:
                taken.update(known.__struct_fields__)
        for name in () if declared is None else declared.__struct_fields__:
            if name in taken:
                raise ValueError(f"{codec.name} declares a setting that there is: {name}")
    CODECS[codec.name] = codec


def _settings(codec: Codec) -> tuple[tuple[type[Struct], type[Struct] | None], ...]:
    return (Options, codec.translate.options), (Capabilities, codec.endpoint.capabilities)


def unregister(name: str) -> None:
    """Forget a protocol, as if it had never been registered."""
    del CODECS[name]


for _codec in (
    _OPENAI_CHAT,
    _ANTHROPIC_MESSAGES,
    _OPENAI_RESPONSES,
    _GOOGLE_GENERATE_CONTENT,
    _GOOGLE_INTERACTIONS,
):
    register(_codec)
