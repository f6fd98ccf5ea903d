"""Which endpoints an upstream has, unless its configuration says so."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, get_args

from dragoman.config import Config, EndpointName, Upstream
from dragoman.protocols.base import Codec
from dragoman.protocols.hosts import host_of, is_below

_OPENAI: Final[frozenset[EndpointName]] = frozenset(get_args(EndpointName)) - {
    *("rerank", "fim", "infill", "caches")
}
_UNKNOWN: Final[frozenset[EndpointName]] = frozenset({"embeddings", "completions", "rerank"})
_GOOGLE: Final = "google_generate_content"
_INTERACTIONS: Final = "google_interactions"
_COHERE: Final = ("cohere.com", "cohere.ai")
_OPENAIS: Final = ("openai_chat", "openai_responses")

_BY_HOST: Final[tuple[tuple[tuple[str, ...], frozenset[EndpointName]], ...]] = (
    (("api.openai.com",), _OPENAI),
    (("openai.azure.com", "ai.azure.com"), _OPENAI - {"moderations", "containers"}),
    (
        ("mistral.ai",),
        frozenset({"embeddings", "fim", "moderations", "transcriptions", "files", "batches"}),
    ),
    (("deepseek.com",), frozenset({"fim"})),
    (_COHERE, frozenset({"embeddings", "rerank"})),
)
"""Endpoints of services that speak OpenAI's protocols, by the domains of their hosts."""

_BY_PROTOCOL: Final[dict[str, frozenset[EndpointName]]] = {
    "anthropic_messages": frozenset({"files", "batches"}),
    _GOOGLE: frozenset({"embeddings", "files", "caches", "batches"}),
    _INTERACTIONS: frozenset({"files"}),
}
_KEPT: Final[frozenset[EndpointName]] = frozenset({"files", "caches", "batches"})
"""What Vertex AI has elsewhere: in buckets, and below projects."""


def endpoints_of(upstream: Upstream) -> frozenset[EndpointName]:
    """The endpoints of an upstream: those that its configuration names, else those of its vendor,
    else those that most servers of open models have."""
    if upstream.endpoints is not None:
        return frozenset(upstream.endpoints)
    known = _known(upstream.protocol, upstream.base_url)
    is_vertex = upstream.protocol == _GOOGLE and upstream.service == "vertex"
    return known - _KEPT if is_vertex else known


def embeddings_of(upstream: Upstream) -> Literal["openai", "cohere", "google"]:
    """The form in which an upstream takes embeddings."""
    if upstream.protocol == _GOOGLE:
        return "google"
    if upstream.embeddings is not None:
        return upstream.embeddings
    base_url = upstream.base_url
    return "cohere" if _is_cohere(base_url) and "/compatibility" not in base_url else "openai"


def rerank_of(upstream: Upstream) -> Literal["cohere", "jina", "tei"]:
    """The form in which an upstream takes rerank."""
    if upstream.rerank is not None:
        return upstream.rerank
    return "cohere" if _is_cohere(upstream.base_url) else "jina"


@lru_cache(maxsize=1024)
def _is_cohere(base_url: str) -> bool:
    return is_below(host_of(base_url), *_COHERE)


@lru_cache(maxsize=1024)
def _known(protocol: str, base_url: str) -> frozenset[EndpointName]:
    if protocol not in _OPENAIS:
        return _BY_PROTOCOL.get(protocol, frozenset())
    host = host_of(base_url)
    for hosts, known in _BY_HOST:
        if is_below(host, *hosts):
            return known
    return _UNKNOWN


def is_spoken(codec: Codec, upstream: Upstream) -> bool:
    """Whether an upstream takes files and batches in the form of the protocol `codec`: Anthropic's,
    Google's or OpenAI's."""
    return _vendor(codec) == _vendor(upstream.codec) and upstream.service == "plain"


def _vendor(codec: Codec) -> str:
    return _VENDORS.get(codec.name, "openai")


_VENDORS: Final = {"anthropic_messages": "anthropic", _GOOGLE: "google", _INTERACTIONS: "google"}
_BOUND: Final[frozenset[EndpointName]] = frozenset(
    {"files", "caches", "conversations", "vector_stores", "containers"}
)


def holding(config: Config) -> frozenset[str]:
    """The names of the upstreams that hold what requests of clients may name. Without a store
    nothing is known of it."""
    if config.storage.place is None:
        return frozenset()
    return frozenset(one.name for one in config.upstreams if endpoints_of(one) & _BOUND)
