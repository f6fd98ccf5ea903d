"""Counts of workers, and their text form."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping

from dragoman.canonical.losses import Loss, LossKind
from dragoman.canonical.usage import Usage
from dragoman.edge.record import FailedAttempt, Record
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from dragoman.observability.metrics.board import (
    COLLECT,
    PUBLISH,
    Board,
    Collect,
    Publish,
    read_counts,
    write_counts,
)
from dragoman.observability.metrics.counts import LATENCIES, Counts
from dragoman.observability.metrics.exposition import render as render_snapshot
from dragoman.observability.metrics.families import Snapshot
from dragoman.observability.metrics.metrics import Metrics

SAMPLE = re.compile(
    r'^(?:dragoman|process)_[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\[\\"n])*"(,[a-z]+="[^"]*")*\})? \S+$'
)


def one(upstream: str = "up", attempts: int = 1, error: str = "", *losses: Loss) -> Record:
    record = Record()
    record.upstream, record.attempts, record.error, record.losses = (
        upstream,
        attempts,
        error,
        losses,
    )
    failed = FailedAttempt(upstream, "a", "m", "rate_limited", 429, 0.0, 0.0)
    record.failed = (failed,) * (attempts - 1)
    return record


def render(counts: Counts, accounts: Mapping[tuple[str, str], int], version: str) -> bytes:
    return render_snapshot(Snapshot(counts, accounts, version))


def samples(text: bytes) -> dict[str, float]:
    found = {}
    for line in text.decode().splitlines():
        if not line.startswith("#"):
            assert SAMPLE.match(line), line
            name, _, value = line.rpartition(" ")
            assert name not in found
            found[name] = float(value)
    return found


def test_every_kind_of_count() -> None:
    counted = Metrics()
    usage = Usage(input=10, output=4, cached=3, cache_write=2, reasoning=1)
    loss = Loss("top_k", LossKind.KNOB, "not known")
    counted.finished("/v1/messages", 200, one("up", 3, "", loss, loss), usage, 0.3, 0.05)
    counted.finished("/v1/messages", 429, one("up", 1, "rate_limited"), None, 700.0, None)
    counted.finished("/v1/messages", 404, one("", 0, "model_not_found"), None, 0.01, 0.01)
    counted.probed("up", came_back=False)
    text = render(counted.counts, {("up", "active"): 2, ("up", "disabled"): 1}, "1.2")
    found = samples(text)
    route = 'route="/v1/messages"'
    assert {
        f'dragoman_requests_total{{{route},status="2xx",upstream="up"}}': 1.0,
        f'dragoman_requests_total{{{route},status="4xx",upstream="up"}}': 1.0,
        f'dragoman_requests_total{{{route},status="4xx",upstream=""}}': 1.0,
        'dragoman_errors_total{upstream="up",fault="gateway",kind="rate_limited"}': 1.0,
        'dragoman_errors_total{upstream="",fault="caller",kind="model_not_found"}': 1.0,
        'dragoman_attempts_total{upstream="up"}': 4.0,
        'dragoman_retries_total{upstream="up"}': 2.0,
        'dragoman_tokens_total{upstream="up",kind="input"}': 10.0,
        'dragoman_tokens_total{upstream="up",kind="reasoning"}': 1.0,
        f'dragoman_request_duration_seconds_bucket{{{route},upstream="up",le="0.25"}}': 0.0,
        f'dragoman_request_duration_seconds_bucket{{{route},upstream="up",le="0.5"}}': 1.0,
        f'dragoman_request_duration_seconds_bucket{{{route},upstream="up",le="600"}}': 1.0,
        f'dragoman_request_duration_seconds_bucket{{{route},upstream="up",le="+Inf"}}': 2.0,
        f'dragoman_request_duration_seconds_sum{{{route},upstream="up"}}': 700.3,
        f'dragoman_request_duration_seconds_count{{{route},upstream="up"}}': 2.0,
        f'dragoman_first_byte_seconds_count{{{route},upstream="up"}}': 1.0,
        'dragoman_losses_total{kind="knob"}': 2.0,
        'dragoman_probes_total{upstream="up",result="failed"}': 1.0,
        'dragoman_accounts{upstream="up",state="disabled"}': 1.0,
        'dragoman_build_info{version="1.2"}': 1.0,
    }.items() <= found.items()


def test_attempts_are_those_of_the_upstream_that_was_asked() -> None:
    """Not of the fallback that answered."""
    counted = Metrics()
    record = one("main", 3)
    record.upstream, record.account = "fallback", "f"
    counted.finished("/v1/messages", 200, record, None, 0.3, 0.05)
    found = samples(render(counted.counts, {}, "1"))
    assert {
        'dragoman_attempts_total{upstream="main"}': 2.0,
        'dragoman_attempts_total{upstream="fallback"}': 1.0,
        'dragoman_retries_total{upstream="main"}': 2.0,
        'dragoman_retries_total{upstream="fallback"}': 0.0,
        'dragoman_requests_total{route="/v1/messages",status="2xx",upstream="fallback"}': 1.0,
    }.items() <= found.items()


def test_each_family_is_told_once_and_named_as_it_should_be() -> None:
    counted = Metrics()
    counted.finished("/v1/messages", 200, one("a"), None, 0.1, 0.1)
    counted.finished("/v1/responses", 500, one("b"), None, 0.1, 0.1)
    kinds: dict[str, str] = {}
    told: dict[str, int] = defaultdict(int)
    for line in render(counted.counts, {}, "1").decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        elif line.startswith("# HELP "):
            told[line.split(" ")[2]] += 1
    assert told == dict.fromkeys(kinds, 1)
    for name, kind in kinds.items():
        assert name.endswith("_total") == (kind == "counter"), name


def test_a_value_on_a_bound_is_in_its_bucket() -> None:
    counted = Metrics()
    for bound in LATENCIES:
        counted.finished("/v1/messages", 200, one(), None, bound, None)
    (series,) = counted.counts.series.values()
    assert series.latency.buckets == [1] * len(LATENCIES) + [0]


def test_many_requests_are_counted_by_their_buckets_whenever_somebody_asks() -> None:
    counted, expected = Metrics(), [0] * (len(LATENCIES) + 1)
    for number in range(1000):
        seconds = 700.0 * (number % 97) / 97
        expected[bisect_left(LATENCIES, seconds)] += 1
        record = one("up" if number % 3 else "other", error="" if number % 5 else "x")
        counted.finished("/v1/messages", 200, record, Usage(input=1), seconds, None)
        if number % 300 == 0:
            assert sum(series.requests for series in counted.counts.series.values()) == number + 1
    buckets = [series.latency.buckets for series in counted.counts.series.values()]
    assert list(map(sum, zip(*buckets, strict=True))) == expected
    assert counted.counts.errors == {"up upstream x": 133, "other upstream x": 67}
    assert counted.counts.keys[""].input == 1000


async def test_workers_are_summed_and_one_that_died_is_not_forgotten() -> None:
    owner = Owner()
    board = Board(owner.handlers)
    links = [owner.join(Handlers(), number) for number in range(3)]
    counted = Metrics()
    for _ in range(5):
        counted.finished("/v1/messages", 200, one("up", 2, "x"), Usage(input=1), 0.1, 0.1)
    counted.counts.gauges["in_flight"] = 4.0
    links[1].report(PUBLISH, Publish(write_counts(counted.counts)))
    links[1].close()
    mine = Metrics()
    mine.finished("/v1/messages", 200, one("up"), Usage(input=1), 0.1, 0.1)
    mine.counts.gauges["in_flight"] = 1.0
    links[0].report(PUBLISH, Publish(write_counts(mine.counts)))
    collected = await links[0].ask(COLLECT, Collect())
    total = Counts()
    for counts in (mine.counts, *map(read_counts, collected.counts)):
        total.add(counts)
    assert total.series["/v1/messages 2xx up"].requests == 6
    assert total.models["up (other)"].tokens[0] == 6
    assert total.errors == {"up upstream x": 5}
    assert total.gauges["in_flight"] == 5.0
    assert mine.counts.series["/v1/messages 2xx up"].requests == 1
    assert board.of(2) is None
    heir = Metrics(board.of(1))
    heir.finished("/v1/messages", 200, one("up"), None, 0.1, 0.1)
    assert heir.counts.series["/v1/messages 2xx up"].requests == 6
    assert heir.counts.gauges == {}


def test_names_are_escaped() -> None:
    text = render(Counts(losses={'a"b\\c\nd': 1}), {}, "1")
    assert rb'dragoman_losses_total{kind="a\"b\\c\nd"} 1' in text
