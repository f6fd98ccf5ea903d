"""Names of attributes, by OpenTelemetry's conventions for generative AI.

They are in development, and names have changed: `main` is the repository
`open-telemetry/semantic-conventions-genai` at schema 1.42.0-dev, `v1_41` the last release in which
they were part of the general conventions. What is not in a table has the same name in both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from dragoman.config.settings import Conventions

OPERATION = "gen_ai.operation.name"
CHAT = "chat"
OPERATIONS = {
    "embeddings": "embeddings",
    "embedContent": "embeddings",
    "batchEmbedContents": "embeddings",
    "completions": "text_completion",
    "infill": "text_completion",
    "rerank": "rerank",
    "moderations": "moderation",
    "generations": "generate_content",
    "edits": "generate_content",
    "variations": "generate_content",
    "speech": "generate_content",
    "transcriptions": "generate_content",
    "translations": "generate_content",
}
"""Operations, by the last word of the route, where it is not that of an answer."""
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
OUTPUT_TYPE = "gen_ai.output.type"
API_TYPE = "openai.api.type"
REQUEST_TIER = "openai.request.service_tier"
RESPONSE_TIER = "openai.response.service_tier"
COST = "dragoman.cost.usd"

API_TYPES: Mapping[tuple[str, str], str] = {
    ("openai", "openai_chat"): "chat_completions",
    ("openai", "openai_responses"): "responses",
}
"""By who serves and the protocol, what the conventions call an API of OpenAI's own, of which they
have further attributes."""

_BEFORE = {
    CACHE_WRITE: "gen_ai.usage.cache_creation.input_tokens",
    COST: "gen_ai.usage.cost",
}
"""Names of `main` with those of before. The cost has no name in the conventions; the older one is
that of other gateways."""


def named(name: str, conventions: Conventions) -> tuple[str, ...]:
    """The names that an attribute called `name` by `main` has in `conventions`."""
    before = _BEFORE.get(name)
    if before is None or conventions == "main":
        return (name,)
    return (before,) if conventions == "v1_41" else (name, before)


_PROVIDERS: Mapping[str, str] = {
    "openai.com": "openai",
    "anthropic.com": "anthropic",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "cohere.com": "cohere",
    "deepseek.com": "deepseek",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "moonshot.ai": "moonshot_ai",
    "moonshot.cn": "moonshot_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
}
"""Hosts, and what ends in them, with the conventions' names of who serves there."""


def provider_of(host: str, otherwise: str) -> str:
    """The conventions' name of who serves at `host`; `otherwise` for a host that they do not
    name, for any other text may stand there."""
    for suffix in _suffixes(host.lower()):
        if suffix in _PROVIDERS:
            return _PROVIDERS[suffix]
        if suffix == "amazonaws.com" and host.startswith("bedrock"):
            return "aws.bedrock"
    return otherwise


def _suffixes(host: str) -> Iterable[str]:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        parts = host.split(".")
        return (".".join(parts[start:]) for start in range(len(parts)))
    return ()
