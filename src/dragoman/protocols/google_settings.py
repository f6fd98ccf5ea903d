"""Settings of a request that both of Google's protocols have in common."""

from __future__ import annotations

import re
from typing import Final

from dragoman.protocols import google_wire
from dragoman.protocols.fields import JsonObject
from dragoman.protocols.request_settings import RequestSettings

_TIERS: Final = {tier: word for word, tier in google_wire.SERVICE_TIERS.items()}
_KNOWN_TIERS: Final = frozenset({*_TIERS, "auto"})
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")


def service_tier(settings: RequestSettings) -> str | None:
    """The service tier in the vendor's words."""
    tier = settings.service_tier(_KNOWN_TIERS)
    return _TIERS.get("priority" if tier == "fast" else tier or "")


def write_labels(body: JsonObject, settings: RequestSettings, *, takes_labels: bool) -> None:
    """`labels`, if the upstream takes any: the metadata and the end user, as far as they fit."""
    request = settings.request
    labels = {
        name: value
        for name, value in (request.metadata or {}).items()
        if takes_labels and _LABEL.fullmatch(name) and _LABEL.fullmatch(value)
    }
    if request.metadata and len(labels) < len(request.metadata):
        settings.drop("metadata")
    for name in ("user", "safety_identifier"):
        value = getattr(request, name)
        if value is None:
            continue
        if takes_labels and _LABEL.fullmatch(value) and "user" not in labels:
            labels["user"] = value
        elif labels.get("user") != value:
            settings.drop(name)
    if labels:
        body["labels"] = labels


def drop_the_rest(settings: RequestSettings) -> None:
    """Report the fields that the vendor has no place for at all."""
    request = settings.request
    if request.verbosity not in (None, "medium"):
        settings.drop("verbosity")
    for name in ("prompt_cache_key", "prompt_cache_retention", "moderation"):
        if getattr(request, name) not in (None, {}):
            settings.drop(name)
    if request.prompt_cache_options not in (None, {}, {"mode": "implicit"}):
        settings.drop("prompt_cache_options")
    if request.auto_cache is not None:
        settings.drop_automatic_cache()
    if request.store:
        settings.drop_store()
