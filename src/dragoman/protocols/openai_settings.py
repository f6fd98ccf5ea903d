"""Settings that OpenAI's two protocols have in common, by the same names."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter

from dragoman.canonical.losses import LossKind
from dragoman.canonical.names import safe_id
from dragoman.canonical.requests import JsonSchema
from dragoman.protocols.fields import (
    JsonObject,
    check_depth,
)
from dragoman.protocols.openai_schemas import is_strict
from dragoman.protocols.reading import Shape
from dragoman.protocols.request_settings import NO_SCHEMA, UNNAMED, RequestSettings


class Labels(Shape):
    """The members of a request about the end user, caching and serving."""

    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None
    moderation: JsonObject | None = None
    store: bool | None = None


_LABELS = Labels.__struct_fields__
_labels = attrgetter(*_LABELS)


def read_labels(request: Labels) -> JsonObject:
    """The labels of a request, by their canonical names.

    Raises:
        InvalidRequest: what is only carried is nested too deeply.
    """
    check_depth(request.moderation, "moderation")
    labels = dict(zip(_LABELS, _labels(request), strict=True))
    labels["metadata"] = request.metadata or None
    return labels


LONGEST_USER_ID = 128
"""Characters of a `safety_identifier` (response_create_params.py)."""
_LONGEST_FORMAT_NAME = 64
"""Characters of a schema's name, of `[A-Za-z0-9_-]`."""


def write_schema(asked: JsonSchema, settings: RequestSettings) -> JsonObject | None:
    """The members of a schema for the answer; None if the upstream takes none."""
    if not settings.capabilities.structured_output:
        settings.lose("output_format", LossKind.CONTENT, NO_SCHEMA)
        return None
    name = UNNAMED if asked.name is None else safe_id(asked.name, _LONGEST_FORMAT_NAME)
    written: JsonObject = {"name": name}
    if asked.description is not None:
        written["description"] = asked.description
    written["schema"] = asked.schema
    strict = asked.strict
    if asked.name is None and strict is None:
        # Only Messages leaves the name out, and always enforces a schema; this protocol enforces
        # a subset of schemas only.
        strict = is_strict(asked.schema)
        if not strict:
            detail = "the schema is not enforced upstream: strict mode would refuse it"
            settings.lose("output_format", LossKind.CONVERTED, detail)
    if strict is not None:
        written["strict"] = strict
    return written


def write_sampling(body: JsonObject, settings: RequestSettings) -> None:
    """`temperature` and `top_p`."""
    request = settings.request
    if request.temperature is not None or request.top_p is not None:
        for name in ("temperature", "top_p"):
            value = settings.sampling(name, getattr(request, name))
            if value is not None:
                body[name] = value


def write_labels(body: JsonObject, settings: RequestSettings, tiers: Collection[str]) -> None:
    """Write the members about the end user, caching and serving; the upstream knows `tiers`."""
    request = settings.request
    if request.metadata:
        body["metadata"] = request.metadata
    if request.user is not None:
        body["user"] = settings.user_id("user", request.user, LONGEST_USER_ID)
    if request.safety_identifier is not None:
        name = "safety_identifier"
        body[name] = settings.user_id(name, request.safety_identifier, LONGEST_USER_ID)
    if request.prompt_cache_key is not None:
        body["prompt_cache_key"] = request.prompt_cache_key
    if request.prompt_cache_retention is not None:
        body["prompt_cache_retention"] = request.prompt_cache_retention
    if request.moderation is not None:
        body["moderation"] = request.moderation
    if request.auto_cache is not None:
        settings.drop_automatic_cache()
    if request.service_tier is not None or request.speed is not None:
        tier = settings.service_tier(tiers)
        if tier is not None:
            body["service_tier"] = tier
