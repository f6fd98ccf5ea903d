"""The protocols dragoman speaks: one package each, one line each in the registry."""

from __future__ import annotations

from typing import Literal

from dragoman.protocols.anthropic_messages import CODEC as _ANTHROPIC_MESSAGES
from dragoman.protocols.base import Codec
from dragoman.protocols.openai_chat import CODEC as _OPENAI_CHAT
from dragoman.protocols.openai_responses import CODEC as _OPENAI_RESPONSES

ProtocolName = Literal["openai_chat", "anthropic_messages", "openai_responses"]
"""The protocols that are here to begin with."""

CODECS: dict[str, Codec] = {}
"""Every protocol by its name in the configuration."""


def register(codec: Codec) -> None:
    """Make a protocol known, before a configuration is read that names it.

    Raises:
        ValueError: there is one of that name already.
    """
    if codec.name in CODECS:
        raise ValueError(f"there is a protocol {codec.name!r} already")
    CODECS[codec.name] = codec


def unregister(name: str) -> None:
    """Forget a protocol, as if it had never been registered."""
    del CODECS[name]


for _codec in (_OPENAI_CHAT, _ANTHROPIC_MESSAGES, _OPENAI_RESPONSES):
    register(_codec)
