"""The endpoint of Messages: paths, headers, limits."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw
from msgspec.structs import replace

from dragoman.canonical.options import Capabilities
from dragoman.protocols.anthropic_messages.attribution import user_attribution
from dragoman.protocols.anthropic_messages.counting import COUNTING
from dragoman.protocols.anthropic_messages.limits import LIMIT_NAMES, limit_lines
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.base import Endpoint, service_tier
from dragoman.protocols.hosts import host_of, is_below
from dragoman.protocols.limits import highest_of, lowered_to
from dragoman.protocols.model_lists import MODELS
from dragoman.protocols.raw import text_of

LONGEST_WHOLE = 21_333
"""Output limit, in tokens, up to which the vendor's SDKs wait for a whole answer: ten minutes at
128,000 tokens an hour (_calculate_nonstreaming_timeout of anthropic's _base_client.py)."""


def completed(capabilities: Capabilities, base_url: str) -> Capabilities:
    """The capabilities with what follows from the protocol and the upstream's address."""
    own = capabilities.of(MessagesCapabilities)
    if own.billing_header is None and is_below(host_of(base_url), "anthropic.com"):
        own = replace(own, billing_header=True)
        capabilities = replace(capabilities, own={**capabilities.own, MessagesCapabilities: own})
    if capabilities.stream_above is None:
        capabilities = replace(capabilities, stream_above=LONGEST_WHOLE)
    return capabilities


def version_headers(capabilities: Capabilities) -> Mapping[str, str]:
    """The header that every request has: the version of the API."""
    return {"anthropic-version": capabilities.of(MessagesCapabilities).anthropic_version}


def asked_tier(members: Mapping[str, Raw]) -> str | None:
    """The function behind `Endpoint.tier`: a fast answer has a price of its own, whatever the
    capacity it is made with."""
    return "fast" if text_of(members.get("speed")) == "fast" else service_tier(members)


ENDPOINT = Endpoint(
    path="/messages",
    id_prefix="msg_",
    key_headers=(b"x-api-key",),
    sign=b"anthropic-version",
    counting=COUNTING,
    models=replace(MODELS, query="limit=1000"),
    settings={
        "max_tokens": "max_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "output_config": "reasoning.level",
    },
    capabilities=MessagesCapabilities,
    attributed_by=frozenset({"metadata"}),
    attribution=user_attribution,
    completed=completed,
    auth="x-api-key",
    headers=version_headers,
    forwarded=("anthropic-version", "anthropic-beta"),
    limits=highest_of("max_tokens"),
    limited=lowered_to("max_tokens"),
    tier=asked_tier,
    limit_names=LIMIT_NAMES,
    limit_lines=limit_lines,
)
