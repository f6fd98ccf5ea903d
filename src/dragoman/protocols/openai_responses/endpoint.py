"""The endpoint of the Responses API: paths, headers, limits."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.protocols.attribution import MEMBERS, openai_attribution
from dragoman.protocols.base import Counting, Endpoint
from dragoman.protocols.caching import marked_writes
from dragoman.protocols.counting import read_count, without
from dragoman.protocols.limits import highest_of, lowered_to
from dragoman.protocols.model_lists import TYPED_MODELS
from dragoman.protocols.openai_limits import LIMIT_NAMES, limit_lines
from dragoman.protocols.openai_responses.budgets import BUDGETS
from dragoman.protocols.openai_responses.settings import ResponsesCapabilities
from dragoman.protocols.openai_responses.stored import STORED
from dragoman.protocols.openai_responses.upstream_websocket import socket_turn
from dragoman.protocols.searches import asks_search
from dragoman.protocols.traced_settings import settings_at

_COUNTING = Counting(
    path="/responses/input_tokens",
    write_request=without(
        "include",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
        "user",
    ),
    read=read_count,
    write=lambda counted: {"object": "response.input_tokens", "input_tokens": counted},
)
"""Members that are not counted: input_token_count_params.py of openai."""

_PLAIN = Endpoint(
    path="/responses",
    id_prefix="resp_",
    counting=_COUNTING,
    models=TYPED_MODELS,
    attributed_by=MEMBERS,
    attribution=openai_attribution,
    forwarded=("openai-beta",),
    idempotency_key="idempotency-key",
    settings=settings_at(
        {
            "max_output_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "reasoning.effort": "reasoning.level",
            "previous_response_id": "previous_response.id",
            "conversation": "conversation.id",
            "conversation.id": "conversation.id",
            "text.format.type": "output.type",
            "service_tier": "service_tier",
        }
    ),
    binds_reasoning=True,
    stores_responses=True,
    stored=STORED,
    socket_turn=socket_turn,
    capabilities=ResponsesCapabilities,
    limits=highest_of("max_output_tokens"),
    limited=lowered_to("max_output_tokens"),
    names_no_model=frozenset(
        {
            *("client_metadata", "input", "instructions", "metadata", "model", "prompt", "text"),
            *("max_output_tokens", "store", "stream", "temperature", "top_p"),
        }
    ),
    searches=asks_search,
    cache_writes=marked_writes,
    limit_names=LIMIT_NAMES,
    limit_lines=limit_lines,
    budgets=BUDGETS,
)

_AZURE = replace(_PLAIN, version="", auth="api-key", socket_turn=None, lists_models=False)

ENDPOINT = replace(_PLAIN, services={"azure_deployments": _AZURE})
