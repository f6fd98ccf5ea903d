"""The endpoint of Chat Completions: paths, headers, limits."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.protocols.attribution import MEMBERS, openai_attribution
from dragoman.protocols.base import Endpoint, quoted_for
from dragoman.protocols.caching import marked_writes
from dragoman.protocols.limits import highest_of, lowered_to
from dragoman.protocols.model_lists import TYPED_MODELS
from dragoman.protocols.openai_chat.settings import ChatCapabilities
from dragoman.protocols.openai_limits import LIMIT_NAMES, limit_lines
from dragoman.protocols.searches import asks_search
from dragoman.protocols.traced_settings import settings_at

_PLAIN = Endpoint(
    path="/chat/completions",
    unserved="This gateway does not store chat completions.",
    id_prefix="chatcmpl-",
    # The SDKs of Azure and Google.
    cloud_key_headers=(b"api-key", b"x-goog-api-key"),
    models=TYPED_MODELS,
    attributed_by=MEMBERS,
    attribution=openai_attribution,
    forwarded=("openai-beta",),
    idempotency_key="idempotency-key",
    settings=settings_at(
        {
            "max_tokens": "max_tokens",
            "max_completion_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "frequency_penalty": "frequency_penalty",
            "presence_penalty": "presence_penalty",
            "seed": "seed",
            "n": "choice.count",
            "reasoning_effort": "reasoning.level",
            "response_format.type": "output.type",
            "service_tier": "service_tier",
        }
    ),
    capabilities=ChatCapabilities,
    # What llama.cpp calls `n_predict` counts there more than the others.
    limits=highest_of("max_completion_tokens", "max_tokens", also=("n_predict",)),
    limited=lowered_to("max_completion_tokens", "max_tokens", also=("n_predict",)),
    names_no_model=frozenset(
        {
            *("messages", "metadata", "model", "response_format"),
            *("max_completion_tokens", "max_tokens", "n", "reasoning_effort", "store", "stream"),
            *("stream_options", "temperature", "top_p"),
        }
    ),
    searches=asks_search,
    cache_writes=marked_writes,
    limit_names=LIMIT_NAMES,
    limit_lines=limit_lines,
)

_AZURE = replace(
    _PLAIN,
    version="",
    locate=lambda model, stream: f"/deployments/{model}{_PLAIN.path}",
    quote=quoted_for(""),
    auth="api-key",
    lists_models=False,
)

_VERTEX = replace(
    _PLAIN,
    version="",
    locate=lambda model, stream: f"/endpoints/openapi{_PLAIN.path}",
    lists_models=False,
)

ENDPOINT = replace(_PLAIN, services={"azure_deployments": _AZURE, "vertex": _VERTEX})
