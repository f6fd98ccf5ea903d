"""The protocols dragoman speaks: one package each, one line each in the registry."""

from __future__ import annotations

from dragoman.protocols.anthropic_messages import CODEC as _ANTHROPIC_MESSAGES
from dragoman.protocols.base import Codec
from dragoman.protocols.openai_chat import CODEC as _OPENAI_CHAT
from dragoman.protocols.openai_responses import CODEC as _OPENAI_RESPONSES

CODECS: dict[str, Codec] = {
    codec.name: codec for codec in (_OPENAI_CHAT, _ANTHROPIC_MESSAGES, _OPENAI_RESPONSES)
}
"""Every protocol by its name in the configuration."""
