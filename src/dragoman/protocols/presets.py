"""What is known of upstreams by their address and by the names of their models.

A setting of the configuration takes precedence over all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from dragoman.canonical.options import Capabilities
from dragoman.protocols import CODECS
from dragoman.protocols.base import PLAIN
from dragoman.protocols.hosts import host_of, is_below
from dragoman.protocols.settings import with_settings

CHAT: Final = "openai_chat"
GOOGLE: Final = ("google_generate_content", "google_interactions")


class Known(Struct, frozen=True, kw_only=True):
    """Capabilities of the upstreams of `protocols` whose host is in one of the domains `hosts`
    (empty: any) and in none of `other_than`, with models that match one of the patterns `models`,
    in lower case. `source` is where that is from."""

    protocols: tuple[str, ...] = (CHAT,)
    capabilities: Mapping[str, Any]
    hosts: tuple[str, ...] = ()
    other_than: tuple[str, ...] = ()
    models: tuple[str, ...] = ("*",)
    source: str


OPENAI: Final = ("openai.com", "openai.azure.com")
"""Domains of the hosts on which OpenAI's models are served by its own Chat protocol."""

KNOWN: Final = (
    Known(
        other_than=OPENAI,
        capabilities={
            "late_system": "user",
            "custom_tools_native": False,
            "reasoning_in": "auto",
            "web_search": False,
        },
        source="chat templates: those of Qwen 3.5 to 3.8 and Mistral refuse later system messages,"
        " those of gpt-oss and MiniMax M2 leave them out, that of DeepSeek V4 gives them as user"
        " text; custom tools are OpenAI's own; servers without a parser of reasoning leave it in"
        " the text",
    ),
    Known(
        hosts=(
            "deepseek.com",
            "moonshot.ai",
            "moonshot.cn",
            "z.ai",
            "bigmodel.cn",
            "minimax.io",
            "minimaxi.com",
            "mistral.ai",
            "aliyuncs.com",
        ),
        capabilities={"max_tokens_field": "max_tokens"},
        source="the vendors' references of their APIs",
    ),
    Known(
        models=("*deepseek-v4*", "*deepseek-reasoner*", "*kimi-k2*", "*kimi-k3*"),
        other_than=OPENAI,
        capabilities={"replay_reasoning": "tool_turns"},
        source="the vendors refuse a message with calls that has no `reasoning_content`",
    ),
    Known(
        models=("*qwen3.8*", "*qwen-3.8*"),
        other_than=OPENAI,
        capabilities={"efforts": ("low", "medium", "xhigh")},
        source="the model's chat template refuses all other words",
    ),
    Known(
        models=("*gpt-oss*",),
        other_than=OPENAI,
        capabilities={"efforts": ("low", "medium", "high")},
        source="the model's format of conversations has these three",
    ),
    Known(
        models=("*mistral*", "*ministral*", "*magistral*"),
        other_than=OPENAI,
        capabilities={"alternating_turns": True, "short_call_ids": True},
        source="the models' chat templates refuse anything else",
    ),
    Known(
        models=("*hy3*",),
        other_than=OPENAI,
        capabilities={"efforts": ("low", "high")},
        source="the model's chat template refuses all other words",
    ),
    Known(
        hosts=("mistral.ai",),
        capabilities={"short_call_ids": True, "alternating_turns": True},
        source="the vendor's service refuses other ids",
    ),
    Known(
        protocols=("anthropic_messages",),
        hosts=("anthropic.com",),
        capabilities={"auto_cache": True},
        source="the vendor caches nothing unasked, and clients of OpenAI's protocols cannot ask",
    ),
    Known(
        protocols=GOOGLE,
        capabilities={"efforts": ("minimal", "low", "medium", "high")},
        source="Google's guide to thinking has these levels",
    ),
    Known(
        protocols=GOOGLE,
        models=("*pro*", "*gemini-3.7-flash*"),
        capabilities={"efforts": ("low", "medium", "high")},
        source="these models refuse the level `minimal`",
    ),
    Known(
        protocols=GOOGLE,
        models=("*gemini-3-pro*",),
        capabilities={"efforts": ("low", "high")},
        source="the first models of the generation have these two levels",
    ),
    Known(
        protocols=GOOGLE,
        models=("*gemini-3.[6-9]*", "*gemini-[4-9]*"),
        capabilities={"sampling": False},
        source="the models ignore temperature, topP and topK; refusing them is announced",
    ),
    Known(
        models=("gpt-6-astra*",),
        hosts=OPENAI,
        capabilities={"tools_without_reasoning": False},
        source="the vendor refuses tools with and without reasoning there",
    ),
)
"""In this order; later ones take precedence."""


def completed(
    capabilities: Capabilities,
    protocol: str,
    base_url: str,
    model: str = "",
    service: str = PLAIN,
) -> Capabilities:
    """The capabilities with what is known of the upstream at `base_url` and of its `model`, where
    they were not set."""
    values = {
        name: value
        for name, value in _known(protocol, host_of(base_url), model.lower()).items()
        if name not in capabilities.given
    }
    if values:
        capabilities = with_settings(capabilities, values)
    return CODECS[protocol].endpoint.at(service).completed(capabilities, base_url, model)


@lru_cache(maxsize=4096)
def _known(protocol: str, host: str, model: str) -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    for known in KNOWN:
        if (
            protocol in known.protocols
            and (not known.hosts or is_below(host, *known.hosts))
            and not is_below(host, *known.other_than)
            and any(fnmatchcase(model, pattern) for pattern in known.models)
        ):
            values |= known.capabilities
    return values
