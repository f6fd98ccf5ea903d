"""What is known of upstreams by their address and by the names of their models."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from dragoman.canonical.options import Capabilities
from dragoman.protocols import CODECS
from dragoman.protocols.hosts import host_of, is_below
from dragoman.protocols.settings import with_settings

CHAT: Final = "openai_chat"


class Known(Struct, frozen=True, kw_only=True):
    """Capabilities of the upstreams of `protocol` whose host is in one of the domains `hosts`
    (empty: any) and in none of `other_than`, with models that match one of the patterns `models`,
    in lower case."""

    protocol: str
    capabilities: Mapping[str, Any]
    hosts: tuple[str, ...] = ()
    other_than: tuple[str, ...] = ()
    models: tuple[str, ...] = ("*",)


OPENAI: Final = ("openai.com", "openai.azure.com")
"""Domains of the hosts on which OpenAI's models are served by its own Chat protocol."""

KNOWN: Final = (
    # Templates of Qwen 3.5 to 3.8 and of Mistral Medium 3.5 refuse a later system message; those of
    # gpt-oss and MiniMax M2 leave it out, that of DeepSeek V4 puts it into the user's text.
    Known(
        protocol=CHAT,
        other_than=OPENAI,
        capabilities={"late_system": "user", "custom_tools_native": False},
    ),
)
"""In this order; later ones take precedence."""


def completed(
    capabilities: Capabilities, protocol: str, base_url: str, model: str = ""
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
    return CODECS[protocol].endpoint.completed(capabilities, base_url)


@lru_cache(maxsize=4096)
def _known(protocol: str, host: str, model: str) -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    for known in KNOWN:
        if (
            known.protocol == protocol
            and (not known.hosts or is_below(host, *known.hosts))
            and not is_below(host, *known.other_than)
            and any(fnmatchcase(model, pattern) for pattern in known.models)
        ):
            values |= known.capabilities
    return values
