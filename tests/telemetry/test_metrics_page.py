"""What `/metrics` tells, read as Prometheus reads it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from dragoman.canonical.usage import Usage, consistent
from dragoman.config import (
    Admin,
    Client,
    Config,
    Fallback,
    OwnPrice,
    Route,
    Secret,
    Storage,
    Team,
)
from dragoman.config.limits import Limit
from dragoman.edge.record import FailedAttempt, Record
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability.metrics.board import read_counts, write_counts
from dragoman.observability.metrics.counts import Counts
from dragoman.observability.metrics.exposition import render
from dragoman.observability.metrics.families import FAMILIES, HistogramFamily, QuotaSample, Snapshot
from dragoman.observability.metrics.listed import listed_models
from dragoman.observability.metrics.metrics import MOST_ACCOUNTS, MOST_KEYS, MOST_MODELS, Metrics
from dragoman.prices.loading import load_prices
from dragoman.prices.lookup import Basis, Charge
from dragoman.protocols.numbers import MOST_TOKENS
from dragoman.protocols.openai_chat.usage import read_usage
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, KEY, Answer, Connection, call
from tests.gateway.services import until
from tests.telemetry.collector import Collector
from tests.telemetry.conftest import Trace

OPEN = {"accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3"}
KINDS = {family.name: family.kind for family in FAMILIES}
LISTED = "claude-opus-4"


def read(text: str, *, openmetrics: bool = False) -> dict[str, Metric]:
    """The families of a page, by the names of the table."""
    families = list((parse_openmetrics if openmetrics else parse_plain)(text))
    found = {one.name + "_total" * (one.type == "counter"): one for one in families}
    assert len(found) == len(families)
    assert {name: one.type for name, one in found.items()} == KINDS
    return found


def scrape(gateway: RunningGateway, *, openmetrics: bool = False) -> dict[str, Metric]:
    answer = call(gateway.base_url, "GET", "/metrics", headers=OPEN if openmetrics else None)
    assert answer.headers["content-type"].startswith(
        "application/openmetrics-text; version=1.0.0"
        if openmetrics
        else "text/plain; version=0.0.4"
    )
    return read(answer.body.decode(), openmetrics=openmetrics)


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    """The sum of all samples of a name with these labels."""
    family = next(one for key, one in found.items() if name.startswith(key))
    return sum(
        sample.value
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def ask(gateway: RunningGateway, api: str, model: str, **more: Any) -> Answer:
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, **more))


def with_prices(config: Config) -> Config:
    fallback = Fallback(upstream="messages", model="sim-text")
    return replace(
        config,
        prices=(
            OwnPrice(model="sim-text", input="1", output="10"),
            OwnPrice(model="sim-own-*", input="1", output="10"),
        ),
        routes=(Route(match="m", upstream="chat", model="sim-text", fallbacks=(fallback,)),),
    )


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_request_is_told_of(
    trace: Trace, simulator: RunningSimulator, collector: Collector, openmetrics: bool
) -> None:
    gateway = trace(with_prices)
    for api in APIS:
        assert ask(gateway, api, "chat/sim-text", stream=True).status == 200
        assert ask(gateway, api, "chat/sim-text").status == 200
    found = scrape(gateway, openmetrics=openmetrics)
    one = {"upstream": "chat", "model": "sim-text"}
    assert value(found, "dragoman_model_requests_total", **one) == 6
    assert value(found, "dragoman_model_errors_total", **one) == 0
    assert value(found, "dragoman_key_requests_total", key="tester") == 6
    tokens = {
        kind: value(found, "dragoman_model_tokens_total", kind=kind, **one)
        for kind in ("input", "output")
    }
    assert all(tokens.values())
    for kind, number in tokens.items():
        assert value(found, "dragoman_tokens_total", upstream="chat", kind=kind) == number
        assert value(found, "dragoman_key_tokens_total", key="tester", kind=kind) == number
    cost = (tokens["input"] + 10 * tokens["output"]) / 10**6
    assert value(found, "dragoman_cost_usd_total", **one) == pytest.approx(cost)
    assert value(found, "dragoman_key_cost_usd_total") == pytest.approx(cost)
    assert value(found, "dragoman_unpriced_requests_total") == 0
    assert value(found, "dragoman_time_to_first_token_seconds_count", **one) == 3
    assert value(found, "dragoman_time_per_output_token_seconds_count", **one) == 3
    assert value(found, "dragoman_upstream_duration_seconds_count", **one) == 6
    asked = value(found, "dragoman_request_duration_seconds_sum", upstream=one["upstream"])
    assert 0 < value(found, "dragoman_upstream_duration_seconds_sum", **one) < asked
    assert value(found, "dragoman_overhead_seconds_count") == 6
    assert 0 < value(found, "dragoman_overhead_seconds_sum") < 6
    assert value(found, "process_cpu_seconds_total") > 0
    assert value(found, "process_resident_memory_bytes") > 10_000_000
    assert 0 < value(found, "process_open_fds") < value(found, "process_max_fds")
    assert value(found, "process_start_time_seconds") > 1.7e9

    spans = {span.trace_id for span in collector.wait_for(12)}
    exemplars = [
        sample.exemplar for family in found.values() for sample in family.samples if sample.exemplar
    ]
    assert bool(exemplars) == openmetrics
    assert {exemplar.labels["trace_id"] for exemplar in exemplars} <= spans
    told = {
        sample.name
        for family in found.values()
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert told == (
        {
            "dragoman_request_duration_seconds_bucket",
            "dragoman_first_byte_seconds_bucket",
            "dragoman_time_to_first_token_seconds_bucket",
        }
        if openmetrics
        else set()
    )


def test_what_goes_wrong_is_told_of(trace: Trace, simulator: RunningSimulator) -> None:
    """A request that is not sampled leaves no exemplar."""
    keys = ("sk-sim-wrong-a", "sk-sim-wrong-b")
    gateway = trace(with_prices, keys, sample=0.0)
    for key in keys:
        simulator.app.keys.behaviours[key] = KeyBehaviour(
            Fault("error", failure=Failure(status=503), times=1)
        )
    assert ask(gateway, "chat", "m").status == 200
    for key in keys:
        simulator.app.keys.behaviours[key] = KeyBehaviour(Fault("reset", after=5))
    assert ask(gateway, "chat", "chat/sim-reasoning", stream=True).status == 200
    simulator.app.keys.behaviours.clear()
    assert ask(gateway, "chat", "messages/sim-reasoning").status == 200
    with Connection(gateway.base_url) as leaving:
        made = body("chat", "messages/sim-text?delay_ms=100", stream=True)
        leaving.send("POST", PATHS["chat"], made, AUTH)
        leaving.head()
    found = scrape(gateway, openmetrics=True)
    for _ in range(200):
        if value(found, "dragoman_stream_aborts_total", side="client"):
            break
        found = scrape(gateway, openmetrics=True)
    assert value(found, "dragoman_fallbacks_total", upstream="chat") == 1
    assert value(found, "dragoman_stream_aborts_total", upstream="chat", side="upstream") == 1
    assert value(found, "dragoman_stream_aborts_total", upstream="messages", side="client") == 1
    assert value(found, "dragoman_model_errors_total", upstream="chat", model="(other)") == 1
    assert value(found, "dragoman_unpriced_requests_total", upstream="messages") == 2


def test_what_is_left_of_budgets_is_told(simulator: RunningSimulator, tmp_path: Path) -> None:
    """The least of each window, of keys and of their team; of other limits nothing. And how the
    stores keep up."""
    team = Team(name="t", limits=(Limit(kind="cost", amount=2, window="month"),))
    limits = (
        Limit(kind="cost", amount=1, window="total"),
        Limit(kind="cost", amount=10, window="day", models=("none",)),
        Limit(kind="cost", amount=1, window="day"),
        Limit(kind="requests", amount=9, window="day"),
        Limit(kind="concurrent", amount=9),
    )
    clients = (
        Client(name="held", key=Secret(KEY), team="t", limits=limits),
        Client(name="idle", key=Secret("sk-of-whoever-is-idle"), team="t"),
        Client(name="free", key=Secret("sk-of-whoever-is-free")),
    )
    config = replace(
        config_for(simulator.base_url),
        prices=(OwnPrice(model="sim-*", input="1", output="10"),),
        teams=(team,),
        clients=clients,
        storage=Storage(path=str(tmp_path / "d.db"), sync_s=0.05),
        admin=Admin(key=Secret("the key of the administration")),
    )
    with running_gateway(config) as gateway:
        model = "chat/sim-cached_usage?input=100000&cached=0"
        assert ask(gateway, "chat", model).status == 200
        assert ask(gateway, "responses", "chat/sim-text").status == 200
        found = scrape(gateway)
        spent = value(found, "dragoman_key_cost_usd_total", key="held")
        assert spent > 0.1
        left = {
            tuple(sample.labels.values()): sample.value
            for sample in found["dragoman_budget_remaining_ratio"].samples
        }
        assert left == pytest.approx(
            {
                ("key", "held", "total"): 1 - spent,
                ("key", "held", "day"): 1 - spent,
                ("team", "t", "month"): 1 - spent / 2,
            }
        )
        resets = found["dragoman_budget_reset_timestamp_seconds"].samples
        assert {one.labels["window"] for one in resets} == {"day", "month"}
        assert all(one.value > time.time() for one in resets)
        assert value(found, "dragoman_limit_reserved_usd") == 0
        with Connection(gateway.base_url) as waiting:
            made = body("chat", "chat/sim-text?delay_ms=500", max_tokens=50_000, stream=True)
            waiting.send("POST", PATHS["chat"], made, AUTH)
            # At the key's two, and at its team's.
            until(lambda: value(scrape(gateway), "dragoman_limit_reserved_usd") > 1.5)
        until(lambda: value(scrape(gateway), "dragoman_limit_reserved_usd") == 0)
        until(
            lambda: all(
                value(scrape(gateway), "dragoman_store_write_seconds_count", signal=signal)
                for signal in ("usage", "responses", "requests")
            )
        )
        depth = scrape(gateway)["dragoman_store_queue_depth"].samples
        assert {one.labels["signal"] for one in depth} == {"responses", "requests"}


def record(model: str, caller: str = "c", account: str = "a", upstream: str = "chat") -> Record:
    made = Record(caller=caller, model=model, account=account, upstream=upstream, attempts=1)
    made.upstream_model, made.stream = model, True
    made.charge = Charge(Basis(), 5)
    return made


def count(counted: Metrics, made: Iterable[Record]) -> None:
    for one in made:
        counted.finished("/v1/messages", 200, one, Usage(input=3, output=5), 0.5, 0.1)


def series(counts: Counts, quotas: Iterable[QuotaSample] = ()) -> int:
    page = render(Snapshot(counts, {}, "1", tuple(quotas))).decode()
    return sum(len(family.samples) for family in read(page).values())


def test_invented_models_add_no_series(trace: Trace) -> None:
    config = with_prices(config_for("https://api.anthropic.com"))
    counted = Metrics()
    counted.set_listed(listed_models(config, load_prices(config)))
    count(counted, [record("sim-text"), record("invented"), record(LISTED), record("sim-own-1")])
    assert counted.counts.models.keys() == {
        f"chat {name}" for name in ("sim-text", "(other)", LISTED, "sim-own-*")
    }
    before = series(counted.counts)
    count(counted, map(record, (LISTED.upper(), f"{LISTED} ", "m*", "", "m\n", "(other)", "a b")))
    count(counted, (record(f"{name}-{one}") for one in range(5000) for name in ("any", "sim-own")))
    assert series(counted.counts) == before
    assert counted.counts.models["chat (other)"].requests == 1 + 6 + 5000
    assert counted.counts.models["chat sim-own-*"].requests == 5001

    gateway = trace(with_prices, sample=0.0)
    assert ask(gateway, "chat", "chat/sim-cached_usage?input=1").status == 200

    def shown() -> set[tuple[str, ...]]:
        return {
            (sample.name, *sample.labels.values())
            for family in scrape(gateway).values()
            for sample in family.samples
        }

    shown()  # from here on its own route is there
    names = shown()
    with Connection(gateway.base_url) as connection:
        for number in range(300):
            made = body("chat", f"chat/sim-cached_usage?input={number}")
            connection.send("POST", PATHS["chat"], made, AUTH)
            assert connection.answer().status == 200
    assert shown() == names


def test_the_number_of_series_is_bounded() -> None:
    """Whatever clients and the configuration name, at the worst of all of it."""
    counted = Metrics()
    counted.set_listed(lambda upstream, model: model)
    failed = FailedAttempt("chat", "a", "m", "rate_limited", 429, 0.0, 0.0)
    for number in range(5000):
        made = record(f"m{number}", f"c{number}", f"a{number}")
        made.attempts = 3
        made.failed = [
            replace(failed, account=f"a{number}", kind=kind) for kind in ("silent", "overloaded")
        ]
        count(counted, [made])
    counts = counted.counts
    assert len(counts.accounts) == MOST_ACCOUNTS + 1
    assert len(counts.models) == MOST_MODELS + 1
    assert len(counts.keys) == MOST_KEYS + 1
    assert sum(one.requests for one in counts.models.values()) == 5000
    assert sum(one.requests for one in counts.keys.values()) == 5000
    quotas = (QuotaSample("chat", f"a{one}", "5h", "", 0.5, 1.0) for one in range(2000))
    assert series(counts, quotas) <= 20_000
    # Several workers, each of which knows others, publish them all.
    other = Metrics()
    other.set_listed(lambda upstream, model: model)
    count(other, [record("m0", "c0"), record("m9999", "c9999")])
    counts.add(other.counts)
    assert counts.models["chat m0"].requests == 2
    assert counts.models["chat m0"].first_token.total == pytest.approx(0.2)
    assert counts.keys["c9999"].cost == 5


def test_every_family_is_described() -> None:
    for family in FAMILIES:
        assert family.text.endswith("."), family.name
        assert len(set(family.labels)) == len(family.labels)
        unit = family.name.removesuffix("_total").rsplit("_", 1)[-1]
        assert not isinstance(family, HistogramFamily) or unit == "seconds"


def test_counts_that_nobody_believes_break_no_page() -> None:
    """Nor a worker's word to the others."""
    counted = Metrics()
    for number in (MOST_TOKENS, MOST_TOKENS + 1, 10**400):
        read = {"prompt_tokens": number, "completion_tokens": number, "cached_tokens": number}
        usage = read_usage(read | {"reasoning_tokens": number})
        counted.finished("/v1/messages", 200, record("m"), consistent(usage), 0.5, 0.1)
    assert read_counts(write_counts(counted.counts)) == counted.counts
    assert series(counted.counts)
