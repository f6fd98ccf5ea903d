"""What upstreams take of requests for a model, learnt from their refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from dragoman.protocols.settings import with_settings
from dragoman.serving.routing import Target
from dragoman.translation import CallSettings

_OF_A_REQUEST: Final = frozenset({"max_output_tokens"})
"""Capabilities that a refusal corrects for its own conversation alone."""
_MOST: Final = 1024
"""Models that are remembered. Once there are so many, all are forgotten."""


class Learnt:
    """Corrected capabilities by upstream and model, until the configuration changes."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Mapping[str, Any]] = {}

    def learn(self, target: Target, corrected: Mapping[str, Any]) -> None:
        """Remember what holds for other requests as well."""
        kept = {name: corrected[name] for name in corrected.keys() - _OF_A_REQUEST}
        if kept:
            if len(self._known) >= _MOST:
                self._known.clear()
            key = target.upstream.name, target.model
            self._known[key] = {**self._known.get(key, {}), **kept}

    def of(self, target: Target) -> Mapping[str, Any]:
        """What was learnt of a target."""
        return self._known.get((target.upstream.name, target.model), {}) if self._known else {}


def corrected(settings: CallSettings, values: Mapping[str, Any]) -> CallSettings:
    """The settings of a translation with other capabilities."""
    return replace(settings, capabilities=with_settings(settings.capabilities, values))
