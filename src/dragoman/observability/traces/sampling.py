"""Which requests are traced. It is decided when they have ended, so what went wrong is known."""

from __future__ import annotations

import logging
from collections.abc import Mapping

_log = logging.getLogger("dragoman.gateway")

_ALWAYS_PER_S = 100
"""Requests a second that are traced for what became of them; further ones have the chance of any
other: refusals come by the thousand when a client repeats them."""

_LOW = (1 << 64) - 1
"""The bits of an id that decide."""


class Sampling:
    """Which requests are traced in any case: a share, and what took so many seconds."""

    __slots__ = ("_below", "slow_s")

    def __init__(self, ratio: float, slow_s: float) -> None:
        """
        Args:
            ratio: the share, from 0 to 1.
            slow_s: seconds from which on a request is traced because it took so long; 0 for none.
        """
        self._below = int(ratio * (_LOW + 1))
        self.slow_s = slow_s

    def draws(self, trace_id: int) -> bool:
        """Whether a trace is among the share, by its id: all who ask about a trace, with the same
        share, find the same (`TraceIdRatioBased` of OpenTelemetry's SDK specification)."""
        return trace_id & _LOW < self._below


class Allowance:
    """Bounds what is traced for what became of it, by the second."""

    __slots__ = ("_left", "_second")

    def __init__(self) -> None:
        self._second = 0
        self._left = _ALWAYS_PER_S

    def take(self, now: float) -> bool:
        """Whether one more may be traced in the second of `now`."""
        second = int(now)
        if second != self._second:
            self._second, self._left = second, _ALWAYS_PER_S
        self._left -= 1
        return self._left >= 0


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether the standard variables switch all of it off: `OTEL_SDK_DISABLED`, or
    `OTEL_TRACES_EXPORTER` that is `none`."""
    if environ.get("OTEL_TRACES_EXPORTER", "").strip() == "none":
        return True
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def ratio_of(environ: Mapping[str, str], configured: float) -> float:
    """The share of requests to trace: that of the standard variables `OTEL_TRACES_SAMPLER` and
    `OTEL_TRACES_SAMPLER_ARG`, if they are set and say something that is known, else the configured
    one. What is not known is logged, and ignored, as the specification of the variables wants it.
    """
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").removeprefix("parentbased_")
    if not sampler:
        return configured
    if sampler in ("always_on", "always_off"):
        return 1.0 if sampler == "always_on" else 0.0
    if sampler != "traceidratio":
        _log.warning("OTEL_TRACES_SAMPLER: %r is not known here, and ignored", sampler)
        return configured
    argument = environ.get("OTEL_TRACES_SAMPLER_ARG", "1")
    try:
        ratio = float(argument)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        _log.warning("OTEL_TRACES_SAMPLER_ARG: %r is not from 0 to 1, and ignored", argument)
        return configured
    return ratio
