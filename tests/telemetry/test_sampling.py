"""Which requests are traced."""

from __future__ import annotations

import random

import pytest

from dragoman.observability.traces.sampling import Allowance, Sampling, is_disabled, ratio_of


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 1.0])
def test_the_share_of_traces(ratio: float) -> None:
    sampling, rng = Sampling(ratio), random.Random(7)
    drawn = sum(sampling.draws(rng.getrandbits(128)) for _ in range(20_000))
    assert drawn == pytest.approx(ratio * 20_000, abs=300)


def test_all_who_ask_find_the_same() -> None:
    """A smaller share is part of a larger one, as in OpenTelemetry's own sampler."""
    rng = random.Random(7)
    for _ in range(1000):
        trace_id = rng.getrandbits(128)
        if Sampling(0.1).draws(trace_id):
            assert Sampling(0.5).draws(trace_id)


def test_the_share_is_that_of_the_vendor_s_sampler() -> None:
    from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

    theirs, ours, rng = TraceIdRatioBased(0.3), Sampling(0.3), random.Random(7)
    for _ in range(1000):
        trace_id = rng.getrandbits(128)
        told = theirs.should_sample(None, trace_id, "name")
        assert (told.decision is Decision.RECORD_AND_SAMPLE) == ours.draws(trace_id)


def test_what_is_always_traced_is_bounded() -> None:
    allowance = Allowance()
    assert sum(allowance.take(10.0 + number / 1000) for number in range(999)) == 100
    assert allowance.take(11.0)


SAMPLERS = [
    ({}, 0.2),
    ({"OTEL_TRACES_SAMPLER": "always_on"}, 1.0),
    ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0.0),
    ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.75"}, 0.75),
    ({"OTEL_TRACES_SAMPLER": "traceidratio"}, 1.0),
    ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, 0.2),
    ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "x"}, 0.2),
    ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, 0.2),
]


@pytest.mark.parametrize(("environ", "ratio"), SAMPLERS)
def test_the_standard_variables(environ: dict[str, str], ratio: float) -> None:
    assert ratio_of(environ, 0.2) == ratio


def test_all_of_it_can_be_switched_off() -> None:
    assert is_disabled({"OTEL_SDK_DISABLED": "TRUE"})
    assert is_disabled({"OTEL_TRACES_EXPORTER": "none"})
    assert not is_disabled({"OTEL_SDK_DISABLED": "1", "OTEL_TRACES_EXPORTER": "otlp"})
    assert not is_disabled({})
