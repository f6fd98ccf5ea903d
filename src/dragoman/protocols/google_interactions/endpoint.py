"""The endpoint of the Interactions API: paths, keys, limits.

The newest SDKs call v1, others v1beta; clients of the Agent Platform call v1beta1, most of them
with a project before the path. They all mean the same here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from dragoman.canonical.errors import InvalidRequest
from dragoman.protocols.base import Endpoint, Operation
from dragoman.protocols.google_capabilities import GoogleCapabilities, completed
from dragoman.protocols.google_interactions import wire
from dragoman.protocols.google_interactions.stored import STORED
from dragoman.protocols.google_models import MODELS
from dragoman.protocols.limits import whole
from dragoman.protocols.raw import hides_words, join_object, split_object, text_of
from dragoman.protocols.traced_settings import settings_at

_CONFIG: Final = "generation_config"
_LIMIT: Final = "max_output_tokens"
_PATH: Final = re.compile(
    rf"(?:/projects/[^/]+/locations/[^/]+)?{wire.PATH}(?:/(?P<id>[^/]+)(?:/(?P<below>cancel))?)?"
)
_OLD_CLIENT: Final = re.compile(rb"GeminiNextGenAPIClient/\S+ 1\.")


def read_path(path: str, query: str) -> Operation | None:
    """What a client asks for: an answer, whose model is in the body, or one that is stored."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    if found["id"] is None:
        return Operation(name=wire.PATH)
    below = found["below"] or ""
    name = f"{wire.PATH}/{{id}}" + (f"/{below}" if below else "")
    return Operation(name=name, answer=found["id"], below=below)


def check_client(headers: Mapping[bytes, bytes]) -> None:
    """Refuse clients of the schema before `steps`, who would read an answer as something else.

    Raises:
        InvalidRequest: naming the schema.
    """
    revision = headers.get(b"api-revision", b"").decode("latin-1")
    agent = headers.get(b"user-agent", b"")
    if (revision and revision < wire.REVISION) or _OLD_CLIENT.search(agent):
        raise InvalidRequest.at(
            "Api-Revision",
            f"only the schema with `steps` is served, of revision {wire.REVISION} and later: "
            "use version 2 or later of the SDK",
        )


def limits(members: Mapping[str, Raw]) -> int | None:
    """The output limit."""
    return whole((split_object(members.get(_CONFIG)) or {}).get(_LIMIT)) or None


def limited(members: Mapping[str, Raw], most: int) -> Mapping[str, Raw]:
    """The members with an output limit of at most `most` tokens."""
    given = limits(members)
    if given is not None and 0 < given <= most:
        return members
    config = split_object(members.get(_CONFIG)) or {}
    return {**members, _CONFIG: join_object({**config, _LIMIT: Raw(b"%d" % most)})}


def asked_tier(members: Mapping[str, Raw]) -> str | None:
    """The service tier; None for the usual one."""
    tier = text_of(members.get("service_tier"))
    return None if tier in ("", "standard") else tier


def asks_search(members: Mapping[str, Raw]) -> bool:
    """Whether a tool is a search of the web."""
    tools = bytes(members.get("tools", b""))
    return b'"%b"' % wire.SEARCH.encode() in tools or hides_words(tools)


ENDPOINT = Endpoint(
    path=wire.PATH,
    versions=("/v1beta", "/v1beta1"),
    read_path=read_path,
    check_client=check_client,
    unserved="Interactions are not listed.",
    id_prefix="v1_",
    model_prefix="models/",
    auth="x-goog-api-key",
    key_headers=(b"x-goog-api-key",),
    key_parameter="key",
    headers=lambda capabilities: {"api-revision": wire.REVISION},
    binds_reasoning=True,
    stored=STORED,
    models=MODELS,
    settings=settings_at(
        {
            f"{_CONFIG}.{_LIMIT}": "max_tokens",
            f"{_CONFIG}.temperature": "temperature",
            f"{_CONFIG}.top_p": "top_p",
            f"{_CONFIG}.seed": "seed",
            f"{_CONFIG}.stop_sequences": "stop_sequences",
            f"{_CONFIG}.thinking_level": "reasoning.level",
            "previous_interaction_id": "previous_response.id",
            "service_tier": "service_tier",
        }
    ),
    capabilities=GoogleCapabilities,
    completed=completed,
    limits=limits,
    limited=limited,
    tier=asked_tier,
    names_no_model=frozenset(
        {
            *("model", "input", "system_instruction", "generation_config", "response_format"),
            *("response_mime_type", "response_modalities", "safety_settings", "labels"),
            *("service_tier", "store", "stream", "background", "previous_interaction_id"),
            *("continuation_token", "cached_content", "webhook_config"),
        }
    ),
    searches=asks_search,
)
