"""Where and how Chat Completions are called."""

from __future__ import annotations

from dragoman.protocols.base import Endpoint
from dragoman.protocols.model_lists import MODELS
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.openai_limits import limit_lines

ENDPOINT = Endpoint(
    path="/chat/completions",
    unserved="This gateway does not store chat completions.",
    id_prefix="chatcmpl-",
    models=MODELS,
    forwarded=("openai-beta",),
    idempotency_key="idempotency-key",
    capabilities=ChatCapabilities,
    output_limits=("max_completion_tokens", "max_tokens"),
    choices="n",
    limit_lines=limit_lines,
)
