"""What upstreams take of requests for a model, learnt from their refusals."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from dragoman.protocols.settings import with_settings
from dragoman.serving.routing import Target
from dragoman.translation import CallSettings

_OF_A_REQUEST: Final = frozenset({"max_output_tokens"})
"""Capabilities that a refusal corrects for its own conversation alone."""
_MOST: Final = 1024
"""Models that are remembered, those of all callers; for another, the first one is forgotten."""
_KEPT_S: Final = 3600.0
"""Seconds after which an upstream is asked again as it is configured."""
OMITTED: Final = frozenset({"omit_betas", "omit_fields"})
"""Capabilities that list what is left out of requests."""
_LASTING: Final = OMITTED | {"client_versions"}
_LASTING_S: Final = 24 * 3600.0
"""The same where a service does not know what others of its protocol have: it is slow to learn."""

Corrected: TypeAlias = Mapping[tuple[str, str], Mapping[str, Any]]
"""Capabilities that refusals have corrected, by upstream and model."""
NOTHING: Final[Mapping[Any, Any]] = {}

_log = logging.getLogger("dragoman.gateway")


class Learnt:
    """Corrected capabilities by caller, upstream and model, until the configuration changes. What
    one caller has upstreams refuse changes no request of another."""

    __slots__ = ("_clock", "_known")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str, str], tuple[float, Mapping[str, Any]]] = {}

    def learn(self, caller: str, accepted: Corrected) -> None:
        """Remember what holds for other requests of the caller as well: one was accepted so."""
        for (upstream, model), corrected in accepted.items():
            kept = {name: corrected[name] for name in corrected.keys() - _OF_A_REQUEST}
            key = caller, upstream, model
            known = self._of(key)
            if kept.items() <= known.items():
                continue
            self._known.pop(key, None)
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            now_known = {**known, **kept}
            kept_s = _LASTING_S if now_known.keys() <= _LASTING else _KEPT_S
            self._known[key] = self._clock() + kept_s, now_known
            _log.info("%s takes of %r, asked by %s: %s", upstream, model, caller or "anyone", kept)

    def of(self, caller: str, target: Target) -> Mapping[str, Any]:
        """What was learnt of a target from requests of the caller."""
        return self._of((caller, *key_of(target))) if self._known else NOTHING

    def _of(self, key: tuple[str, str, str]) -> Mapping[str, Any]:
        until, known = self._known.get(key, (0.0, NOTHING))
        return known if until > self._clock() else NOTHING


def key_of(target: Target) -> tuple[str, str]:
    """A target's upstream and model."""
    return target.upstream.name, target.model


def corrected(settings: CallSettings, values: Mapping[str, Any]) -> CallSettings:
    """The settings of a translation with other capabilities."""
    return replace(settings, capabilities=with_settings(settings.capabilities, values))
