"""The benchmark measures what it says: its load is valid, complete, and counted right."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from math import nan
from pathlib import Path

import pytest

from bench import bodies, compare, instructions, measure, targets
from bench import page as page_module
from bench.answers import ANSWERS, DELTA_TEXT
from bench.budgets import budgets
from bench.load_client import LoadError, checked, close, connect
from bench.page import BY_HAND, MAIN, POOL, TERMS, write_main, write_pool, write_terms
from bench.plan import PROTOCOLS, Extremes, Figures, Results, Row, in_turn, rows_of
from bench.report import as_markdown, as_text, tables
from bench.terms import Terms, at_rate, longest_gap
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
    assert json.loads(body).get("model", "m") == "m"


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


@pytest.mark.parametrize(("request_us", "verdict"), [(119, "met"), (121, "MISSED")])
def test_a_missed_budget_is_named(request_us: int, verdict: str) -> None:
    checked_budgets = {found.what: found for found in budgets(results(request_us * 1e-6, 20e-6))}
    against_nginx = checked_budgets["translated, request against nginx"]
    assert against_nginx.verdict == verdict
    assert against_nginx.worst == pytest.approx(request_us / 20)
    assert against_nginx.absolute == f"{request_us} µs"
    assert checked_budgets["idle"].verdict == "MISSED"
    assert checked_budgets["translated, request against agentgateway"].verdict == "not measured"


def test_a_budget_against_a_peer_is_of_the_same_cell() -> None:
    found = with_peer("agentgateway", 80e-6)
    checked_budgets = {budget.what: budget for budget in budgets(found)}
    against_peer = checked_budgets["translated, request against agentgateway"]
    assert against_peer.worst == pytest.approx(100 / 80)
    assert against_peer.verdict == "MISSED"
    assert checked_budgets["passed through, request against agentgateway"].verdict == "not measured"


def with_peer(name: str, request: float) -> Results:
    found = results(100e-6, 20e-6)
    target = targets.Target(name, 3, os.getpid(), nan)
    cell = measure.Cell("anthropic_messages", "openai_chat")
    row = Row(f"{name}: messages → chat", "translated", target, cell, "nginx: chat")
    found.rows.append((row, Figures(request=[request], no_stream="no such thing")))
    found.extremes[name] = Extremes()
    found.caveats[name] = ["It was built without care."]
    return found


def test_a_peer_is_shown_beside_ours_with_its_caveats() -> None:
    found = tables(with_peer("other", 150e-6))
    for shown in (as_text(found), as_markdown(found, "by a test")):
        assert "150 (1.5)" in shown
        assert "100 (1)" in shown
        assert "It was built without care." in shown
        assert "no such thing" in shown
    assert not any("Other gateways" in table.title for table in tables(results(1e-4, 1e-5)))


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
    cells = [measure.cell_of(name) for name in instructions.CELLS]
    assert cells[0] == measure.Cell("anthropic_messages", "openai_chat")
    for wrong in ("chat", "chat:", ":chat", "chat:gemini"):
        with pytest.raises(ValueError, match="CLIENT:UPSTREAM"):
            measure.cell_of(wrong)


def test_instructions_are_compared_by_cell_and_as_a_sum() -> None:
    counted = [
        instructions.Counted("chat -> chat", "request", 1019, 1000),
        instructions.Counted("chat -> chat", "stream", 900, 1000),
        instructions.Counted("messages -> chat", "request", 3000, 3000),
    ]
    assert {row.kind: round(row.ratio, 3) for row in instructions.sums(counted)} == {
        "request": 1.005,
        "stream": 0.9,
        "all": 0.984,
    }
    assert "kept (worst: chat -> chat, request: 1.019)" in instructions.verdict(counted)
    counted.append(instructions.Counted("responses -> chat", "agent", 1021, 1000))
    assert "MISSED (worst: responses -> chat, agent: 1.021)" in instructions.verdict(counted)
    assert instructions.line(counted[-1]).endswith("DEARER\n")


def test_rounds_measure_what_is_compared_together_and_in_both_directions() -> None:
    known = {name: targets.Target(name, 1, 1, nan) for name in ("nginx", "dragoman", "other")}
    cells = [measure.Cell("openai_chat", "openai_chat")]
    rows = rows_of(known, None, {"other": cells}, only=cells)
    assert [row.name for row in in_turn(rows, 0)][:5] == [
        "nginx: messages",
        "nginx: google",
        "nginx: chat",
        "dragoman: chat → chat",
        "other: chat → chat",
    ]
    assert in_turn(rows, 1) == in_turn(rows, 0)[::-1]
    assert [row.name for row in rows if row.target.name == "dragoman"] == ["dragoman: chat → chat"]


def test_the_page_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"rules\n{TERMS}\nold{MAIN}\nold{BY_HAND}\nby hand\n{POOL}\nold\n")
    write_main("new figures\n", page)
    write_pool("new pool\n", page)
    write_terms("new terms\n", page)
    assert page.read_text() == (
        f"rules\n{TERMS}\nnew terms\n{MAIN}\nnew figures\n{BY_HAND}\nby hand\n{POOL}\nnew pool\n"
    )
    for heading in (TERMS, MAIN, BY_HAND, POOL):
        assert page_module.PAGE.read_text().count(heading) == 1


def test_gateways_are_compared_with_ours_and_with_the_direct_call() -> None:
    """Ratios are to our figures for the same cell; without a pid there is no CPU time."""
    cell = measure.cell_of("chat:chat")

    def terms(name: str, pid: int, alone: float, cpu: float) -> Terms:
        found = Terms(targets.Target(name, 1, pid, nan), cell, alone=[[alone] * 100])
        if pid:
            found.cpu = {size: [cpu] for size in ("small", "120 KB", "1 MB")}
        return found

    direct = terms("direct", 0, 0.001, nan)
    every = [
        direct,
        terms("dragoman", 2, 0.0015, 100e-6),
        terms("other", 3, 0.003, 250e-6),
        terms("far", 0, 0.004, nan),
    ]
    every[3].failure = "it broke"
    cpu, seen = compare.tables(every)
    assert cpu.rows[2] == ["other: chat → chat", *["0.25 (2.5 x)"] * 3]
    assert cpu.rows[3] == ["far: chat → chat", "-", "-", "-"]
    assert [row[1] for row in seen.rows[1:]] == ["0", "0.5", "2", "3"]
    assert seen.notes == ["far: chat → chat failed: it broke"]


async def test_requests_are_sent_when_they_are_due(relay: targets.Target) -> None:
    """And streams are watched for the longest gap."""
    cell = measure.cell_of("chat:chat")
    assert len(await at_rate(relay.port, cell.request(stream=False), 100.0, 0.2)) == 20
    assert await longest_gap(relay, cell, 2, 0.1) > 0
