"""The services that offer Messages in a form of their own: `invoke` of Amazon Bedrock, and
`rawPredict` of Vertex AI. What they take is as AnthropicBedrock and AnthropicVertex of anthropic
send it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Raw
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.canonical.options import Capabilities
from dragoman.protocols.anthropic_messages import endpoint
from dragoman.protocols.anthropic_messages.endpoint import PLAIN, betas_in
from dragoman.protocols.anthropic_messages.invoke import MEDIA, InvokeDecoder
from dragoman.protocols.anthropic_messages.settings import MessagesCapabilities
from dragoman.protocols.anthropic_messages.wire import BETAS, VERSION
from dragoman.protocols.base import Counting, Endpoint, quoted_for, to_json
from dragoman.protocols.model_lists import MODELS, read_profiles
from dragoman.protocols.numbers import token_count

_DATES: Final = frozenset({"2026-10-21"})
"""API versions of clients that the services take as they are."""
_SET: Final = "anthropic_version"

Moved = Callable[[Mapping[str, Any], Mapping[str, str], Capabilities], Mapping[str, Any]]


def _completed(documented: str) -> Callable[[Capabilities, str, str], Capabilities]:
    """The function behind `Endpoint.completed` of a service with this version of the API."""

    def completed(capabilities: Capabilities, base_url: str, model: str) -> Capabilities:
        capabilities = endpoint.completed(capabilities, base_url, model)
        if _SET in capabilities.given:
            return capabilities
        own = replace(capabilities.of(MessagesCapabilities), anthropic_version=documented)
        return replace(capabilities, own={**capabilities.own, MessagesCapabilities: own})

    return completed


def _version(headers: Mapping[str, str], capabilities: Capabilities) -> str:
    """The version of the API for a body: the configured one, else that of the client."""
    own = capabilities.of(MessagesCapabilities)
    asked = headers.get(VERSION)
    if _SET not in capabilities.given and own.client_versions and asked in _DATES:
        return asked
    return own.anthropic_version


def _without(
    *names: str,
) -> Callable[[Mapping[str, Any], Mapping[str, str], Capabilities], dict[str, Any]]:
    def moved(
        members: Mapping[str, Any], headers: Mapping[str, str], capabilities: Capabilities
    ) -> dict[str, Any]:
        made = {name: value for name, value in members.items() if name not in names}
        made[_SET] = _version(headers, capabilities)
        return made

    return moved


_invoked = _without("model", "stream")


def _to_invoke(
    members: Mapping[str, Any], headers: Mapping[str, str], capabilities: Capabilities
) -> Mapping[str, Any]:
    """The function behind `Endpoint.moved`: the betas of clients are in the body, beside those
    that the configuration has there."""
    made = _invoked(members, headers, capabilities)
    given = made.get("anthropic_beta", [])
    given = jsontext.decode(given) if isinstance(given, Raw) else given
    betas = [*(given if isinstance(given, list) else []), *betas_in(headers)]
    if betas:
        made["anthropic_beta"] = list(dict.fromkeys(betas))
    return made


def _count_by_invoke(body: bytes, model: str) -> bytes:
    return to_json({"input": {"invokeModel": {"body": b64encode(body).decode()}}})


def _read_invoke_count(body: bytes) -> int | None:
    return token_count((jsontext.object_of(body) or {}).get("inputTokens"))


def _count_by_prediction(body: bytes, model: str) -> bytes:
    """The body of a count has the model, since its path does not."""
    return _uncounted(to_json({"model": model, **jsontext.members(body)}), model)


_plain: Final = PLAIN.counting
assert _plain is not None
_uncounted: Final = _plain.write_request

_BEDROCK: Final = replace(
    PLAIN,
    version="",
    locate=lambda model, stream: (
        f"/model/{model}/{'invoke-with-response-stream' if stream else 'invoke'}"
    ),
    quote=quoted_for(":;"),
    auth="bearer",
    headers=lambda capabilities: {"accept": "application/json"},
    forwarded=(),
    moved=_to_invoke,
    completed=_completed("bedrock-2023-05-31"),
    media=MEDIA,
    decoder=InvokeDecoder,
    lists_models=False,
    models=replace(
        MODELS,
        path="/inference-profiles",
        query="maxResults=1000",
        base_url=lambda base_url: base_url.replace("://bedrock-runtime", "://bedrock", 1),
        read=read_profiles,
    ),
    counting=Counting(
        path="/count-tokens",
        locate=lambda model: f"/model/{model}/count-tokens",
        write_request=_count_by_invoke,
        completed=_plain.completed,
        read=_read_invoke_count,
        write=_plain.write,
    ),
)

_PUBLISHED = "/publishers/anthropic/models"

_VERTEX: Final = replace(
    PLAIN,
    version="",
    locate=lambda model, stream: (
        f"{_PUBLISHED}/{model}:{'streamRawPredict' if stream else 'rawPredict'}"
    ),
    quote=quoted_for("@"),
    auth="bearer",
    headers=lambda capabilities: {},
    forwarded=(BETAS,),
    moved=_without("model"),
    completed=_completed("vertex-2023-10-16"),
    lists_models=False,
    counting=replace(
        _plain,
        path=f"{_PUBLISHED}/count-tokens:rawPredict",
        write_request=_count_by_prediction,
    ),
)

ENDPOINT: Final[Endpoint] = replace(PLAIN, services={"bedrock_invoke": _BEDROCK, "vertex": _VERTEX})
