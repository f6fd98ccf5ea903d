"""Sampling of traces, decided when a request has ended, so its failures are known."""

from __future__ import annotations

import logging
from collections.abc import Mapping

_log = logging.getLogger("dragoman.gateway")

_ALWAYS_PER_S = 100
"""Requests a second that are traced because of their outcome; further ones are sampled like any
other: refusals come by the thousand when a client repeats them."""

_LOW = (1 << 64) - 1
"""The bits of a trace id that decide."""


class Sampling:
    """The share of requests that is traced, from 0 to 1."""

    __slots__ = ("_below",)

    def __init__(self, ratio: float) -> None:
        self._below = int(ratio * (_LOW + 1))

    def draws(self, trace_id: int) -> bool:
        """Whether a trace is in the share, by its id: the same for all samplers with the same
        share (`TraceIdRatioBased` of OpenTelemetry's SDK specification)."""
        return trace_id & _LOW < self._below


class Allowance:
    """A bound per second on requests traced because of their outcome."""

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
    """Whether the standard variables switch tracing off: `OTEL_SDK_DISABLED`, or
    `OTEL_TRACES_EXPORTER` that is `none`."""
    if environ.get("OTEL_TRACES_EXPORTER", "").strip() == "none":
        return True
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def ratio_of(environ: Mapping[str, str], configured: float) -> float:
    """The share of requests to trace: that of the standard variables `OTEL_TRACES_SAMPLER` and
    `OTEL_TRACES_SAMPLER_ARG`, if they are set to known values, else the configured
    one. An unknown value is logged and ignored, as the specification of the variables requires.
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
