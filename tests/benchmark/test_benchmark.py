"""The benchmark measures what it says: its load is valid, complete, and counted right."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from math import nan

import pytest

from bench import bodies, instructions, measure, targets
from bench.answers import ANSWERS, DELTA_TEXT
from bench.load_client import LoadError, checked, close, connect
from bench.plan import PROTOCOLS, Extremes, Figures, Results, Row
from bench.report import as_markdown, as_text, budgets, tables
from tests.checkers import CHECKERS

LOAD = measure.Load(requests=30, streams=4, rate=100, seconds=0.3, lone_requests=5)


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[targets.Target]:
    folder = tmp_path_factory.mktemp("bench")
    cores = targets.Cores(None, None)
    with targets.upstreams(folder, cores) as up, targets.relay(folder, cores, up) as target:
        yield target


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[targets.Target]:
    folder = tmp_path_factory.mktemp("bench")
    cores = targets.Cores(None, None)
    with targets.upstreams(folder, cores) as up, targets.dragoman(folder, cores, up) as target:
        yield target


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_load_upstreams_streams_keep_the_protocols_grammar(protocol: str) -> None:
    answers = ANSWERS[protocol]
    deltas = b"".join(answers.delta(number) for number in range(3))
    verdict = CHECKERS[protocol](answers.head + deltas + answers.tail(3))
    assert verdict.text == DELTA_TEXT * 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agents_request_is_large_and_valid(protocol: str) -> None:
    body = bodies.agent(protocol, "m")
    assert 100_000 < len(body) < 140_000
    assert json.loads(body)["model"] == "m"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_event_of_a_stream_is_counted(relay: targets.Target, protocol: str) -> None:
    links = await connect(relay.port, 2, measure.MARK)
    request = measure.Cell(protocol, protocol).request(deltas=20, rate=200)
    for answer in await asyncio.gather(*(link.send(request) for link in links)):
        # A Responses stream repeats the whole text at its end.
        assert answer.marks == (20 if protocol != "openai_responses" else 100)
        assert 0 < answer.first_mark < answer.total
    close(links)


async def test_the_measurements_see_the_work(relay: targets.Target) -> None:
    cell = measure.Cell("openai_chat", "openai_chat")
    small = await measure.request_cost(relay, cell.request(stream=False), LOAD.requests)
    large = await measure.request_cost(relay, cell.image(4_000_000), 3, connections=1)
    assert 0 < small < large
    assert await measure.event_cost(relay, cell, LOAD) > 0
    assert len(await measure.first_token(relay, cell, LOAD.lone_requests)) == LOAD.lone_requests
    assert await measure.long_stream_cost(relay, cell, 2000) > 0


async def test_an_answer_that_is_not_a_success_is_no_measurement(relay: targets.Target) -> None:
    with pytest.raises(LoadError, match="status 404"):
        await measure.request_cost(
            relay, b'POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{"model":"m"}', 1
        )


async def test_fewer_events_than_were_asked_for_are_no_success(relay: targets.Target) -> None:
    links = await connect(relay.port, 1, measure.MARK)
    answer = await links[0].send(measure.Cell("openai_chat", "openai_chat").request(deltas=3))
    assert checked(answer, 3) is answer
    with pytest.raises(LoadError, match="3 of 4 events"):
        checked(answer, 4)
    close(links)


def results(request: float, nginx: float) -> Results:
    target = targets.Target("dragoman", 1, os.getpid(), 0.1)
    floor = targets.Target("nginx", 2, os.getpid(), 0.1)
    same = measure.Cell("openai_chat", "openai_chat")
    cell = measure.Cell("anthropic_messages", "openai_chat")
    rows = [
        (Row("nginx: chat", "floor", floor, same, "nginx: chat"), Figures(request=[nginx])),
        (
            Row("dragoman: messages → chat", "translated", target, cell, "nginx: chat"),
            Figures(request=[request]),
        ),
    ]
    return Results(rows, [], {"dragoman": Extremes(idle=50e6, failures=["", "it broke"])})


@pytest.mark.parametrize(("request_us", "met"), [(90, True), (151, False)])
def test_a_missed_budget_is_named(request_us: int, met: bool) -> None:
    checked_budgets = {found.what: found for found in budgets(results(request_us * 1e-6, 20e-6))}
    assert checked_budgets["small request, translated"].met is met
    assert checked_budgets["request against nginx"].worst == pytest.approx(request_us / 20)
    assert checked_budgets["idle"].met


def test_the_tables_show_what_failed_and_what_is_not_known() -> None:
    found = tables(results(100e-6, nan))
    text, page = as_text(found), as_markdown(found, "by a test")
    for shown in (text, page):
        assert "it broke" in shown
        assert "dragoman: messages → chat" in shown
    assert "nan" not in text + page


@pytest.mark.parametrize("upstream", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
async def test_the_gateway_takes_the_whole_load(
    gateway: targets.Target, client: str, upstream: str
) -> None:
    """A benchmark of refused requests would look very good."""
    cell = measure.Cell(client, upstream)
    links = await connect(gateway.port, 1, measure.MARK)
    for request in (cell.request(stream=False), cell.agent(), cell.image(10_000)):
        assert checked(await links[0].send(request)).size > 400
    checked(await links[0].send(cell.request(deltas=50)), 50)
    close(links)


def test_cells_are_named_by_client_and_upstream() -> None:
    cells = [instructions.cell_of(name) for name in instructions.CELLS]
    assert cells[0] == measure.Cell("anthropic_messages", "openai_chat")
    for wrong in ("chat", "chat:", ":chat", "chat:gemini"):
        with pytest.raises(ValueError, match="CLIENT:UPSTREAM"):
            instructions.cell_of(wrong)
