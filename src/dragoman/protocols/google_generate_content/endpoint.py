"""The endpoint of generateContent: paths, keys, limits.

The SDKs' default version is v1; Gemini CLI and older clients call v1beta, clients of Vertex AI
v1beta1, with a project and a publisher before the model. They all mean the same here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.errors import InvalidRequest
from dragoman.canonical.options import Capabilities
from dragoman.jsontext import JsonError, object_of
from dragoman.protocols import google_wire
from dragoman.protocols.base import Counting, Endpoint, Operation, quoted_for, to_json
from dragoman.protocols.fields import decode_object
from dragoman.protocols.google_capabilities import GoogleCapabilities, completed
from dragoman.protocols.google_generate_content import wire
from dragoman.protocols.google_generate_content.spelling import (
    both,
    inner,
    member,
    number,
    with_inner,
)
from dragoman.protocols.google_models import MODELS
from dragoman.protocols.json_array import ARRAY
from dragoman.protocols.numbers import token_count
from dragoman.protocols.raw import hides_words, text_of
from dragoman.protocols.traced_settings import settings_at

_CONFIG, _LIMIT = "generationConfig", "maxOutputTokens"
_NESTED = "generateContentRequest"

_PATH: Final = re.compile(
    r"(?:/projects/[^/]+/locations/[^/]+)?"
    r"(?:/publishers/[^/]+)?"
    r"/(?:models/(?P<model>.+)|(?P<tuned>(?:tunedModels|dynamic|endpoints)/[^/]+))"
    rf":(?P<verb>{google_wire.GENERATE}|{wire.STREAM}|{google_wire.COUNT})"
)


def read_path(path: str, query: str) -> Operation | None:
    """What a client asks for. The name of a model may have slashes and colons. A stream is an array
    unless the query asks for events."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    verb = found["verb"]
    asked = query.split("&")
    return Operation(
        name=f"/models:{verb}",
        counts=verb == google_wire.COUNT,
        model=found["model"] or found["tuned"],
        stream=verb == wire.STREAM,
        form=ARRAY if verb == wire.STREAM and not _EVENTS.intersection(asked) else None,
    )


_EVENTS = frozenset({"alt=sse", "$alt=sse", "%24alt=sse"})


def locate(model: str, stream: bool) -> str:
    """The path and query at which an upstream is asked."""
    verb = f"{wire.STREAM}?alt=sse" if stream else google_wire.GENERATE
    return f"/models/{model}:{verb}"


def _cloud_path(model: str, verb: str) -> str:
    """The path of a call below a project and location of Vertex AI. A name may have its publisher
    before it, or be that of an endpoint with a model of one's own."""
    publisher, slash, name = model.rpartition("%2F")
    if publisher == "endpoints":
        return f"/endpoints/{name}:{verb}"
    return f"/publishers/{publisher if slash else 'google'}/models/{name}:{verb}"


def locate_in_cloud(model: str, stream: bool) -> str:
    """As `locate`, below a project and location of Vertex AI."""
    return _cloud_path(model, f"{wire.STREAM}?alt=sse" if stream else google_wire.GENERATE)


# --- limits and prices ----------------------------------------------------------------------------


def limits(members: Mapping[str, Raw]) -> int | None:
    """The output limit, which may be a number or its digits; 0 is none."""
    return number(inner(members, _CONFIG, _LIMIT)) or None


def limited(members: Mapping[str, Raw], most: int) -> Mapping[str, Raw]:
    """The members with an output limit of at most `most` tokens."""
    given = limits(members)
    if given is not None and 0 < given <= most:
        return members
    return with_inner(members, _CONFIG, _LIMIT, Raw(b"%d" % most))


def asked_tier(members: Mapping[str, Raw]) -> str | None:
    """The service tier; None for the usual one."""
    tier = text_of(member(members, "serviceTier")).lower().removeprefix("service_tier_")
    return None if tier in ("", "standard", "unspecified") else tier


def asks_search(members: Mapping[str, Raw]) -> bool:
    """Whether a tool is a search of the web."""
    tools = bytes(members.get("tools", b""))
    return any(b'"%b"' % name.encode() in tools for name in _SEARCHES) or hides_words(tools)


_SEARCHES = both(*wire.SEARCHES)


# --- counting -------------------------------------------------------------------------------------


def counted(body: bytes, model: str) -> bytes:
    """The body of a count: the whole request, with its model."""
    request = {"model": f"models/{model}", **jsontext.members(body)}
    return to_json({_NESTED: request})


_COUNTED_IN_CLOUD = both("contents", "systemInstruction", "tools", _CONFIG)


def counted_in_cloud(body: bytes, model: str) -> bytes:
    """The body of a count by Vertex AI, which takes no nested request."""
    members = uncounted(jsontext.members(body))
    return to_json({name: raw for name, raw in members.items() if name in _COUNTED_IN_CLOUD})


def completed_in_cloud(capabilities: Capabilities, base_url: str, model: str) -> Capabilities:
    """As `completed`, for Vertex AI at whatever address."""
    capabilities = completed(capabilities, base_url, model)
    if "google_cloud" in capabilities.given:
        return capabilities
    own = replace(capabilities.of(GoogleCapabilities), google_cloud=True)
    return replace(capabilities, own={**capabilities.own, GoogleCapabilities: own})


def uncounted(members: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """A request to be counted as one to be answered: it may be nested, or be the contents alone.

    Raises:
        InvalidRequest: it is both, or no object.
    """
    nested = member(members, _NESTED)
    if nested is None:
        return members
    if "contents" in members:
        raise InvalidRequest.at("contents", f"cannot stand beside {_NESTED}")
    try:
        return jsontext.members(nested)
    except JsonError:
        decode_object(bytes(nested))
        raise InvalidRequest.at(_NESTED, "must be an object") from None


def read_count(body: bytes) -> int | None:
    """The number of tokens in an upstream's answer."""
    return token_count((object_of(body) or {}).get("totalTokens"))


_TRACED = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "stopSequences": "stop_sequences",
    "candidateCount": "choice.count",
    "thinkingConfig.thinkingLevel": "reasoning.level",
}
"""Settings, by their names in traces."""


def _in_both(paths: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, name in paths.items():
        spelled = [""]
        for step in (_CONFIG, *path.split(".")):
            spelled = [f"{outer}.{one}" for outer in spelled for one in both(step)]
        found |= {one.removeprefix("."): name for one in spelled}
    return found


COUNTING = Counting(
    path=f"/models:{google_wire.COUNT}",
    locate=lambda model: f"/models/{model}:{google_wire.COUNT}",
    write_request=counted,
    completed=uncounted,
    read=read_count,
    write=lambda count: {"totalTokens": count},
)

_PLAIN = Endpoint(
    path="/models",
    versions=("/v1beta", "/v1alpha", "/v1beta1"),
    read_path=read_path,
    locate=locate,
    id_prefix="",
    auth="x-goog-api-key",
    key_headers=(b"x-goog-api-key",),
    key_parameter="key",
    sign=b"x-goog-api-key",
    binds_reasoning=True,
    counting=COUNTING,
    models=MODELS,
    settings=settings_at(_in_both(_TRACED)),
    capabilities=GoogleCapabilities,
    completed=completed,
    limits=limits,
    limited=limited,
    tier=asked_tier,
    names_no_model=both(
        "contents",
        "systemInstruction",
        "safetySettings",
        "labels",
        "toolConfig",
        "serviceTier",
        "store",
        "cachedContent",
        "model",
    ),
    searches=asks_search,
)

_VERTEX = replace(
    _PLAIN,
    version="",
    locate=locate_in_cloud,
    quote=quoted_for("@"),
    completed=completed_in_cloud,
    lists_models=False,
    counting=replace(
        COUNTING,
        locate=lambda model: _cloud_path(model, google_wire.COUNT),
        write_request=counted_in_cloud,
    ),
)

ENDPOINT = replace(_PLAIN, services={"vertex": _VERTEX})
