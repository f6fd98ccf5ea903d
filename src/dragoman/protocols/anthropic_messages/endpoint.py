"""The endpoint of Messages: paths, headers, limits."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from msgspec import Raw
from msgspec.structs import replace

from dragoman.canonical.losses import Ledger, LossKind
from dragoman.canonical.options import Capabilities
from dragoman.jsontext import object_of
from dragoman.protocols.anthropic_messages.budgets import BUDGETS
from dragoman.protocols.anthropic_messages.purpose import purpose
from dragoman.protocols.anthropic_messages.refusals import ALL_BETAS, refits
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.anthropic_messages.wire import BETAS, NEGOTIATED, VERSION
from dragoman.protocols.base import Attribution, Counting, Endpoint, RateLimit, service_tier
from dragoman.protocols.caching import marked_writes
from dragoman.protocols.counting import read_count, without
from dragoman.protocols.hosts import host_of, is_below
from dragoman.protocols.limits import highest_of, lowered_to
from dragoman.protocols.model_lists import MODELS
from dragoman.protocols.raw import split_object, text_of
from dragoman.protocols.searches import asks_search
from dragoman.protocols.traced_settings import settings_at

LONGEST_WHOLE = 21_333
"""Output limit, in tokens, up to which the vendor's SDKs wait for a whole answer: ten minutes at
128,000 tokens an hour (_calculate_nonstreaming_timeout of anthropic's _base_client.py)."""


def completed(capabilities: Capabilities, base_url: str, model: str) -> Capabilities:
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
    return {VERSION: capabilities.of(MessagesCapabilities).anthropic_version}


def asked_tier(members: Mapping[str, Raw]) -> str | None:
    """The function behind `Endpoint.tier`: a fast answer has a price of its own, whatever the
    capacity it is made with."""
    return "fast" if text_of(members.get("speed")) == "fast" else service_tier(members)


def caches_unasked(capabilities: Capabilities) -> tuple[bool, bool]:
    """The function behind `Endpoint.caches_unasked`: with `auto_cache` the gateway marks what other
    clients send, for an hour where OpenAI's 30 minutes are one."""
    own = capabilities.of(MessagesCapabilities)
    return own.auto_cache, own.auto_cache and own.cache_ttl_30m_as == "1h"


def user_attribution(members: Mapping[str, Raw]) -> Attribution:
    """The user id in `metadata` without the session, of which one user has many. Claude Code writes
    `user_..._account_..._session_...`, later versions a JSON object."""
    user_id = text_of((split_object(members.get("metadata")) or {}).get("user_id"))
    if user_id.startswith("{") and (parts := object_of(user_id)) is not None:
        user = parts.get("account_uuid") or parts.get("device_id")
        return Attribution(user if isinstance(user, str) else "")
    return Attribution(user_id.partition("_session_")[0])


def limit_lines(limit: RateLimit) -> bytes:
    """The function behind `Endpoint.limit_lines`, as in the service's documentation of rate
    limits."""
    name = f"anthropic-ratelimit-{limit.name}"
    reset = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(limit.resets_at)))
    lines = f"{name}-limit: {limit.amount}\r\n{name}-remaining: %d\r\n{name}-reset: {reset}\r\n"
    return lines.encode()


def fitted_headers(
    headers: Mapping[str, str], capabilities: Capabilities, ledger: Ledger
) -> Mapping[str, str]:
    """The function behind `Endpoint.fitted_headers`: without the betas that the upstream does not
    take."""
    refused = capabilities.of(MessagesCapabilities).omit_betas
    if not refused or BETAS not in headers:
        return headers
    kept: list[str] = []
    for beta in betas_in(headers):
        if beta in refused or ALL_BETAS in refused:
            ledger.add(BETAS, LossKind.KNOB, f"the upstream does not know {beta[:60]}")
        else:
            kept.append(beta)
    others = {name: value for name, value in headers.items() if name != BETAS}
    return {**others, BETAS: ",".join(kept)} if kept else others


def betas_in(headers: Mapping[str, str]) -> list[str]:
    """The betas that a client names."""
    named = [beta.strip() for beta in headers.get(BETAS, "").split(",")]
    return [beta for beta in named if beta]


def counted_as(members: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """The function behind `Counting.completed`: a request for an answer needs an output limit."""
    return {"max_tokens": Raw(b"1"), **members}


PLAIN = Endpoint(
    path="/messages",
    id_prefix="msg_",
    key_headers=(b"x-api-key",),
    sign=b"anthropic-version",
    counting=Counting(
        path="/messages/count_tokens",
        # What message_count_tokens_params.py of anthropic does not have.
        write_request=without("max_tokens", "stream", "stop_sequences", "metadata", "service_tier"),
        completed=counted_as,
        read=read_count,
        write=lambda counted: {"input_tokens": counted},
    ),
    models=replace(MODELS, query="limit=1000"),
    settings=settings_at(
        {
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "top_k": "top_k",
            "output_config.effort": "reasoning.level",
        }
    ),
    capabilities=MessagesCapabilities,
    attributed_by=frozenset({"metadata"}),
    attribution=user_attribution,
    completed=completed,
    auth="x-api-key",
    headers=version_headers,
    forwarded=(VERSION, BETAS),
    fitted_headers=fitted_headers,
    refits=refits,
    limits=highest_of("max_tokens"),
    limited=lowered_to("max_tokens"),
    tier=asked_tier,
    names_no_model=frozenset(
        {
            *("messages", "system", "metadata", "model", "output_config"),
            *("max_tokens", "stream", "temperature", "thinking", "top_p"),
        }
    ),
    searches=asks_search,
    cache_writes=marked_writes,
    caches_unasked=caches_unasked,
    limit_names={
        "requests": "requests",
        "tokens": "tokens",
        "input_tokens": "input-tokens",
        "output_tokens": "output-tokens",
    },
    limit_lines=limit_lines,
    negotiated=NEGOTIATED,
    purpose=purpose,
    budgets=BUDGETS,
)
