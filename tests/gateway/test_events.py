"""Time series, and what a page is told while it is open."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.admin.events import MOST_CONNECTIONS
from dragoman.admin.series import least_step
from dragoman.config import Admin, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability.metrics import series as series_module
from dragoman.observability.metrics.counts import LATENCIES
from dragoman.observability.metrics.outcomes import (
    ANSWERED,
    CLIENTS_FAULT,
    FAILED,
    LEFT,
    LIMITED,
    outcome_of,
)
from dragoman.observability.metrics.series import percentile, series
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage import sessions
from dragoman.storage.series import SeriesFile, Slot
from tests.gateway.administration import TOKEN, eventually
from tests.gateway.clients import body
from tests.gateway.conftest import config_for
from tests.gateway.http import Connection, call
from tests.gateway.sessions import ask, made, signed_in

BUCKETS = len(LATENCIES) + 1


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    config = replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a store key"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as running:
        yield running


def asked(gateway: RunningGateway, model: str = "chat/sim-text") -> int:
    return call(
        gateway.base_url, "POST", "/v1/chat/completions", body("chat", model), {"user-agent": "t/1"}
    ).status


class Page:
    """A page that reads events, in a thread."""

    def __init__(self, gateway: RunningGateway, query: str, headers: dict[str, str]) -> None:
        self.events: list[tuple[str, Any]] = []
        self.ids: list[str] = []
        self.connection = Connection(gateway.base_url)
        self.connection.send("GET", f"/admin/events?{query}", headers=headers)
        self.status = self.connection.head().status
        self.is_over = False
        if self.status == 200:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        text = b""
        try:
            while chunk := self.connection.chunk():
                text += chunk
                while b"\n\n" in text:
                    block, _, text = text.partition(b"\n\n")
                    fields = dict(
                        line.split(": ", 1) for line in block.decode().split("\n") if ": " in line
                    )
                    if "event" in fields:
                        self.events.append((fields["event"], json.loads(fields["data"])))
                    if "id" in fields:
                        self.ids.append(fields["id"])
            self.is_over = True
        except OSError:
            pass

    def of(self, name: str) -> list[Any]:
        return [data for found, data in list(self.events) if found == name]

    def close(self) -> None:
        self.connection.sock.close()


KEY = {"authorization": f"Bearer {TOKEN}"}


def test_a_page_is_told_what_happens(gateway: RunningGateway) -> None:
    page = Page(gateway, "topics=now,requests,accounts", KEY)
    failing = Page(gateway, "topics=requests&error=*", KEY)
    with closing(page), closing(failing):
        eventually(lambda: page.of("now"))
        time.sleep(0.6)
        assert [asked(gateway) for _ in range(30)] == [200] * 30
        assert asked(gateway, "nothing") == 404
        batches = eventually(
            lambda: page.of("requests") if sum(b["seen"] for b in page.of("requests")) == 31 else []
        )
        assert sum(batch["shown"] for batch in batches) < 31
        assert all(len(batch["rows"]) == batch["shown"] <= 5 for batch in batches)
        shown = [row["status"] for batch in batches for row in batch["rows"]]
        assert 404 in shown
        assert [row["status"] for row in eventually(lambda: failing.of("requests"))[0]["rows"]] == [
            404
        ]
        ask(
            gateway,
            "POST",
            "/accounts",
            {"name": "n", "upstream": "chat", "key": "x" * 20},
            key=TOKEN,
        )
        ask(gateway, "POST", "/accounts/chat-0/disable", key=TOKEN)
        eventually(
            lambda: {"n", "chat-0"} <= {one for e in page.of("accounts") for one in e["changed"]}
        )
        told = eventually(lambda: [one for one in page.of("now") if one.get("requests_s")])
        assert told[0]["failed_s"] == 0
        assert len(json.dumps(told[0])) <= 600
        # A page that comes again is told what it has missed.
        place = page.ids[-1]
        asked(gateway)
        time.sleep(0.6)
        again = Page(gateway, "topics=requests", {**KEY, "last-event-id": place})
        with closing(again):
            first = eventually(lambda: again.of("requests"))[0]
            assert first["seen"] == 1
    assert ask(gateway, "GET", "/events?topics=x", key=TOKEN).status == 400
    assert ask(gateway, "GET", "/events?topics=now&foo=1", key=TOKEN).status == 400


def test_a_session_lasts_while_a_page_is_told_of_events(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long nothing else is asked for; and it is over once the page is gone for long."""
    monkeypatch.setattr(sessions, "IDLE_S", idle_s := 1.5)
    headers = signed_in(gateway, made(gateway, "eve", "viewer"))
    with closing(Page(gateway, "topics=now", headers)) as page:
        begun = time.monotonic()
        eventually(lambda: len(page.of("now")) > 3 and time.monotonic() > begun + 2 * idle_s)
        assert "bye" not in dict(page.events)
    time.sleep(2 * idle_s)
    assert ask(gateway, "GET", "/health", headers=headers).status == 401


def test_a_page_is_sent_away(gateway: RunningGateway) -> None:
    """With its session, with the gateway, and when there are too many."""
    headers = signed_in(gateway, made(gateway, "eve", "viewer"))
    page = Page(gateway, "topics=now", headers)
    eventually(lambda: page.of("now"))
    ask(gateway, "POST", "/admins/eve/disable", key=TOKEN)
    eventually(lambda: page.is_over)
    assert page.events[-1] == ("bye", {"why": "signed out"})
    page.close()
    pages = [Page(gateway, "topics=now", KEY) for _ in range(MOST_CONNECTIONS + 1)]
    assert [one.status for one in pages].count(503) == 1
    for one in pages[2:]:
        one.close()
    gateway.app.draining = True
    eventually(lambda: pages[0].is_over)
    assert pages[0].events[-1] == ("bye", {"why": "stopping"})
    for one in pages[:2]:
        one.close()
    administration = gateway.app._services.administration
    assert administration is not None
    eventually(lambda: not administration.events.connections)
    gateway.app.draining = False


def test_what_was_counted_becomes_a_series(
    simulator: RunningSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series_module, "SLOT_S", 1)
    config = replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as gateway:
        time.sleep(1.1)
        assert [asked(gateway), asked(gateway, "nothing")] == [200, 404]
        assert asked(gateway, "chat/sim-error?status=503") >= 500
        call(gateway.base_url, "POST", "/v1/chat/completions", b"{}", key="wrong")

        def told(query: str = "") -> Any:
            answer = ask(gateway, "GET", f"/series{query}", key=TOKEN)
            assert answer.status == 200, answer.body
            return answer.json

        def sums(told: Any) -> list[int]:
            return [sum(n or 0 for n in told["requests"][o]) for o in series_module.OUTCOMES]

        eventually(lambda: sum(sums(told())) == 4)
        whole = told()
        assert sums(whole) == [1, 2, 0, 1, 0]
        assert sums(told("?upstream=chat"))[:2] == [1, 0]
        assert len(whole["requests"]["answered"]) == len(whole["cost_usd"]) <= 400
        assert whole["step_s"] == 10
        assert None in whole["requests"]["answered"]
        assert [one for one in whole["duration_s"]["p95"] if one]
        assert sum(n or 0 for n in whole["tokens"]["output"]) > 0
        assert sum(n or 0 for n in whole["unpriced"]) == 1
        assert whole["errors"]["caller"]["model_not_found"] == 1
        assert ask(gateway, "GET", "/series?step=7", key=TOKEN).status == 400
        assert ask(gateway, "GET", "/series?from=31d&step=3600", key=TOKEN).status == 400


def test_slots_become_longer_ones_and_outlive_the_gateway(tmp_path: Path) -> None:
    file = SeriesFile(tmp_path / "series")
    start = 1_000_000 * 3600
    one = [1] + [0] * (BUCKETS - 1)

    def slot(errors: dict[str, int]) -> Slot:
        return Slot([1, 0, 0, 0, 0], one, one, [1, 0, 0, 2, 0], 5 * 10**12, 0, errors)

    for number in range(0, 3 * 360, 2):  # every second slot is a gap
        file.write(start + number * 10, {"u": slot({"x": 1})})
        file.write(start + number * 10, {"": slot({})})  # of another gateway
    now = start + 3 * 3600
    file.mark(now - 5, "reload")
    for since in (0.0, now - 3600.0, now - 2 * 3600.0):
        told = list(file.read(since, now, now))
        kept = min(now - since, 3 * 3600.0) / 20
        assert sum(part["u"].requests[0] for _, part in told) == kept
        assert sum(part["u"].errors["x"] for _, part in told) == kept
    file.write(now + 600, {})
    late = list(file.read(0, now + 30 * 3600, now + 30 * 3600))
    assert [at for at, _ in late] == [start, start + 3600, start + 7200]
    assert [slots["u"].requests[0] for _, slots in late] == [180] * 3
    again = SeriesFile(tmp_path / "series")
    points: Any = series(again, now - 3600, now, 10, "u", now)
    assert points["requests"]["answered"][:4] == [1, None, 1, None]
    assert points["cost_usd"][0] in ("5", "5.0", "5.00", "5.000000")
    assert points["marks"] == [{"at": now - 5, "text": "reload"}]
    minutes: Any = series(again, now - 3600, now, 60, "", now)
    assert minutes["requests"]["answered"] == [6] * 60
    assert (tmp_path / "series").stat().st_size < 4 << 20
    assert least_step(now - 3600, now, now) == 10
    assert least_step(now - 86_400, now, now) == 240
    assert least_step(now - 31 * 86_400, now, now) == 7200


def test_outcomes_and_percentiles() -> None:
    assert outcome_of(200, "", "") == ANSWERED
    assert outcome_of(200, "upstream_failed", "upstream") == FAILED
    assert outcome_of(200, "client_gone", "caller") == LEFT
    assert outcome_of(429, "rate_limited", "caller") == LIMITED
    assert outcome_of(429, "rate_limited", "gateway") == FAILED
    assert outcome_of(403, "forbidden", "gateway") == FAILED
    assert outcome_of(400, "invalid_request", "caller") == CLIENTS_FAULT
    assert outcome_of(404, "", "") == CLIENTS_FAULT
    assert outcome_of(500, "", "") == FAILED
    buckets = [0] * BUCKETS
    assert percentile(buckets, 50) is None
    buckets[1] = 100  # from 0.05 to 0.1
    assert percentile(buckets, 50) == pytest.approx(0.075)
    buckets[-1] = 100
    assert percentile(buckets, 99) == LATENCIES[-1]


def test_events_end_with_the_key_that_asked_for_them(gateway: RunningGateway) -> None:
    """As they do with a session: disabled, or by another configuration."""
    secret = made(gateway, "eve", "viewer")
    page = Page(gateway, "topics=now", {"authorization": f"Bearer {secret}"})
    of_file = Page(gateway, "topics=now", KEY)
    with closing(page), closing(of_file):
        eventually(lambda: page.of("now") and of_file.of("now"))
        assert ask(gateway, "POST", "/admins/eve/disable", key=TOKEN).status == 200
        assert eventually(lambda: page.of("bye")) == [{"why": "signed out"}]
        assert not of_file.of("bye")
        app = gateway.app
        changed = replace(app.config, admin=Admin(key=Secret("another key of the file")))
        app._client.clock.loop.call_soon_threadsafe(app.adopt, app.prepare(changed, 2))
        assert eventually(lambda: of_file.of("bye")) == [{"why": "reloaded"}]
