"""The log of requests: what it tells of each, and how it is searched, bounded and read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Secret, Storage
from dragoman.edge.record import Record
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability.finished import FinishedRequest
from dragoman.observability.request_log.writing import RequestLog
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.bodies import BodyFiles
from dragoman.storage.encryption import AesGcmCipher
from dragoman.storage.request_log import (
    Dropped,
    Entry,
    Filters,
    LossCount,
    LossKey,
    RequestLogFiles,
)
from tests.gateway.administration import TOKEN, eventually
from tests.gateway.clients import body
from tests.gateway.conftest import config_for
from tests.gateway.http import call
from tests.gateway.sessions import ask, made

AGENT = {"user-agent": "claude-cli/2.0.1 (external, cli)"}


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    config = replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a store key"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as running:
        yield running


def rows(gateway: RunningGateway, query: str = "") -> list[dict[str, Any]]:
    answer = ask(gateway, "GET", f"/requests{query}", key=TOKEN)
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json["rows"]
    return found


def test_a_request_is_told_with_all_its_attempts(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    keys = ("sk-sim-a", "sk-sim-b")
    config = replace(
        config_for(simulator.base_url, keys=keys),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    limited = Fault("error", failure=Failure(status=429, retry_after="7"))
    simulator.app.keys.behaviours[keys[0]] = KeyBehaviour(limited)
    with running_gateway(config) as gateway:
        asked = body("messages", "chat/sim-text")
        answer = call(gateway.base_url, "POST", "/v1/messages", {**asked, "top_k": 4}, AGENT)
        assert answer.status == 200
        (row,) = eventually(lambda: rows(gateway, "?model=chat/sim-text"))
        assert (row["status"], row["key"], row["client"]) == (200, "tester", "Claude Code")
        assert (row["attempts"], row["upstream"], row["loss_kinds"]) == (2, "chat", ["knob"])
        detail = ask(gateway, "GET", f"/requests/{row['id']}", key=TOKEN).json
        first, last = detail["tried"]
        assert (first["status"], first["verdict"], first["rest_s"]) == (429, "cool", 7.0)
        assert (first["table"], first["row"] > 0, bool(first["why"])) == ("default", True, True)
        assert first["account"] != last["account"] == row["account"]
        assert first["start_ms"] <= first["end_ms"] <= last["start_ms"] + 1
        assert last["start_ms"] < detail["first_ms"] <= last["end_ms"] == row["ms"]
        assert detail["losses"] == [
            {"path": "top_k", "kind": "knob", "detail": detail["losses"][0]["detail"]}
        ]
        assert detail["usage"]["input"] > 0
        assert detail["address"] == "127.0.0.1"
        viewer = made(gateway, "eve", "viewer")
        assert ask(gateway, "GET", f"/requests/{row['id']}", key=viewer).json["address"] == ""
        # Filters, each of which leaves out one of the two.
        call(gateway.base_url, "POST", "/v1/chat/completions", {"model": "nothing"}, AGENT)
        eventually(lambda: len(rows(gateway)) == 2)
        for query, found in (
            (f"account={first['account']}", 1),
            ("loss=knob", 1),
            ("loss=content", 0),
            ("status=4xx", 1),
            ("status=200&client=Claude%20Code", 1),
            ("error=*", 1),
            ("key=tester", 2),
            ("min_ms=100000", 0),
            (f"to={row['at'] - 60}", 0),
        ):
            assert len(rows(gateway, f"?{query}")) == found, query
        lost = ask(gateway, "GET", "/losses?from=1h", key=TOKEN).json
        assert lost["requests"] == 1
        (one,) = lost["rows"]
        assert (one["client"], one["pair"]) == ("Claude Code", "anthropic_messages>openai_chat")
        assert (one["path"], one["kind"], one["requests"]) == ("top_k", "knob", 1)
        assert (one["share"], sum(one["series"]), one["example"]) == (1.0, 1, row["id"])
        samples = call(gateway.base_url, "GET", "/metrics").body.decode()
        assert 'dragoman_request_log_total{result="written"} 2' in samples
        assert ask(gateway, "GET", "/requests?status=abc", key=TOKEN).status == 400
        assert ask(gateway, "GET", "/requests?after=x:y", key=TOKEN).status == 400
        assert ask(gateway, "GET", "/requests/req_nothing", key=TOKEN).status == 404
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or b"sk-sim-a" not in path.read_bytes(), path


def entry(number: int, at: float, **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "at": at,
        "id": f"req_{number}",
        "key": "k",
        "model": "m",
        "upstream": "u",
        "accounts": ("a", "b"),
        "client": "c",
        "error": "",
        "status": 200,
        "ms": 1.0,
        "losses": (),
        "notable": False,
        "row": b"%d" % number,
        **more,
    }
    return Entry(**fields)


def test_the_log_is_searched_backwards_in_steps(tmp_path: Path) -> None:
    now = 1_000_000.0
    files = RequestLogFiles(tmp_path / "log", 8.0, 1 << 30, lambda: now)
    for day in range(3):
        now = 1_000_000.0 + day * 86_400 * 1.1
        batch = [
            entry(day * 5000 + n, now + n * 0.01, error="x" if n % 1000 == 0 else "")
            for n in range(5000)
        ]
        files.write(batch, {}, Dropped(now, now + 1, 3) if day == 1 else None)
    assert len(list((tmp_path / "log").glob("*.db"))) == 3
    end = now + 1000
    everything, after, pages = [], None, 0
    while True:
        found = files.search(Filters(), 0, end, after, 999, 10.0)
        everything += [int(row) for row in found.rows]
        pages += 1
        after = found.next
        if after is None:
            break
    assert everything == list(range(14_999, -1, -1))
    assert pages in (16, 17)
    assert found.dropped == [] or found.dropped[0].count == 3
    some = files.search(Filters(error="x"), 0, end, None, 100, 10.0)
    assert [int(row) for row in some.rows] == list(range(14_000, -1, -1000))
    assert [one.count for one in some.dropped] == [3]
    # It stops when its time is over, tells how far it got, and goes on from there.
    steps, after, ends = 0, None, list[float]()
    while True:
        found = files.search(Filters(account="b", min_ms=2.0), 0, end, after, 100, 0.0)
        ends.append(found.searched_to)
        steps += 1
        after = found.next
        if after is None:
            break
        assert steps < 20
    assert steps > 1
    assert ends == sorted(ends, reverse=True)
    second = 1_000_000.0 + 86_400 * 1.1
    between = files.search(Filters(), second + 1, second + 1.045, None, 100, 10.0)
    assert [int(row) for row in between.rows] == [5104, 5103, 5102, 5101, 5100]
    assert files.find("req_7001") == b"7001"
    assert files.find("req_x") is None
    files.close()


def test_the_log_is_bounded_and_shared(tmp_path: Path) -> None:
    now = [1_000_000.0]
    one, other = (RequestLogFiles(tmp_path / "log", 8.0, 4 << 20, lambda: now[0]) for _ in range(2))
    _, _, place = one.tail(Filters(), "", 10)
    one.write([entry(0, now[0])], {})
    _, _, place = one.tail(Filters(), place, 10)
    for number in range(60):
        now[0] += 1
        writer = one if number % 2 else other
        batch = [
            entry(number * 100 + n, now[0], row=b"x" * 2000 + b"%d" % n, notable=n == 7)
            for n in range(100)
        ]
        key = LossKey(0, "c", "a>b", "top_k", "knob", "u", "k")
        writer.write(batch, {key: LossCount(2, 0, now[0], now[0], "req")})
        writer.sweep()
        if number == 0:
            rows, seen, place = one.tail(Filters(), place, 3)
            assert (len(rows), seen) == (3, 100)
            assert any(row.endswith(b"x7") for row in rows)
        if number == 1:
            rows, seen, place = other.tail(Filters(key="else"), place, 3)
            assert (rows, seen) == ([], 0)
    total = sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
    assert 2 << 20 < total < 6 << 20
    found = other.search(Filters(), 0, 2e9, None, 1, 5.0)
    assert found.rows
    ((_, count),) = [(key, count) for key, count in one.losses(0, 100) if key.path][-1:]
    assert count.requests % 2 == 0
    now[0] += 9 * 86_400
    one.write([entry(1, now[0])], {})
    one.sweep()
    assert len(list((tmp_path / "log").glob("*.db"))) == 1
    assert other.tail(Filters(), place, 5)[1] <= 1
    one.close()
    other.close()


def test_what_an_account_was_chosen_from_is_told(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    config = config_for(simulator.base_url, keys=("sk-sim-a", "sk-sim-b", "sk-sim-c"))
    first, *others = config.accounts
    config = replace(
        config,
        accounts=(replace(first, max_concurrent=1), replace(others[0], models=("x",)), *others[1:]),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    upstream = first.upstream
    mine = [one.name for one in config.accounts if one.upstream == upstream]
    assert len(mine) == 3
    with running_gateway(config) as gateway:
        disabled = {"do": "disable", "names": [mine[2]], "reason": "a holiday"}
        assert ask(gateway, "POST", "/accounts/do", disabled, key=TOKEN).status == 200
        eventually(lambda: gateway.app.pool.state(mine[2]).disabled)
        asked = body("chat", f"{upstream}/sim-text")
        assert call(gateway.base_url, "POST", "/v1/chat/completions", asked).status == 200
        (row,) = eventually(lambda: rows(gateway))
        detail = ask(gateway, "GET", f"/requests/{row['id']}", key=TOKEN).json
    assert row["account"] == mine[0]
    assert detail["chosen_from"] == {
        "serving": 2,
        "could_serve": 1,
        "left_out": [["a holiday", 1]],
        "selection": "least_recently_used",
    }
    with running_gateway(replace(config, admin=Admin())) as gateway:
        call(gateway.base_url, "POST", "/v1/chat/completions", asked)
        exchange = gateway.app._current.generation.exchange
        assert not exchange.recording.explains  # who has no log pays nothing


def test_many_that_are_refused_alike_do_not_fill_the_log(gateway: RunningGateway) -> None:
    """A few a second are told, and the rest as a gap: of a key, and of all that have none."""
    asked = body("messages", "chat/sim-text")
    wrong = [f"sk-of-a-stranger-{number}" for number in range(60)]
    begun = time.time()
    statuses = {
        call(gateway.base_url, "POST", "/v1/messages", asked, {"x-api-key": key}).status
        for key in wrong
    }
    seconds = int(time.time()) - int(begun) + 1
    assert statuses == {401}

    def all_told() -> list[dict[str, Any]]:
        # Also while nothing else is asked: the gap comes after all that is written.
        found = ask(gateway, "GET", "/requests?limit=200", key=TOKEN).json
        left_out = sum(gap["count"] for gap in found["dropped"])
        told = [row for row in found["rows"] if row["status"] == 401]
        return told if len(told) + left_out == 60 else []

    told = eventually(all_told)
    assert 10 <= len(told) <= 10 * seconds


def test_a_gap_is_told_before_anything_else_is_written(tmp_path: Path) -> None:
    files = RequestLogFiles(tmp_path / "log", 8.0, 1 << 30)
    bodies = BodyFiles(tmp_path / "bodies", 8.0, 1 << 30, AesGcmCipher(None))
    counts, now = Counter[str](), time.time()
    log = RequestLog(files, bodies, {}, lambda what, n: counts.update({what: n}), lambda s: None)
    refused = FinishedRequest(
        Record(), now, 0.0, None, "r", "", "POST", b"", "/v1/messages", "/v1/messages", 401, b""
    )
    log.start()
    try:
        for _ in range(10):
            log.add(refused)
        eventually(lambda: counts["written"] == 10)
        log.add(refused)
        (gap,) = eventually(lambda: files.search(Filters(), 0, now + 1, None, 1, 1.0).dropped)
    finally:
        log.close()
    assert gap.count == 1
