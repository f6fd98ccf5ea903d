"""Limits that several instances hold together in one PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

from tests.gateway.http import call
from tests.gateway.limit_saturation import CLIENTS, KEY, Hammered
from tests.gateway.load import at_once
from tests.gateway.processes import ASKED, GatewayProcess, gateway_process, until
from tests.gateway.slow_upstream import Upstream, slow_upstream
from tests.storage.cluster import Cluster, running_cluster

LIMITED = """
[[clients]]
name = "limited"
key = "{key}"
[[clients.limits]]
{limit}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as found:
        yield found


@contextmanager
def instances(
    folder: Path, cluster: Cluster, limit: str, *, count: int = 3, workers: int = 2
) -> Iterator[tuple[Upstream, list[GatewayProcess]]]:
    """So many instances that share one database, each with a store of its own."""
    with ExitStack() as stack:
        upstream = stack.enter_context(slow_upstream())
        upstream.takes_s = 0.001
        made = [
            stack.enter_context(
                gateway_process(
                    folder,
                    upstream.url,
                    {"a": "sk-a"},
                    workers=workers,
                    name=f"instance{number}",
                    store=f"{number}.db",
                    storage=f'url = "{cluster.url}"',
                    tables=LIMITED.format(key=KEY, limit=limit),
                )
            )
            for number in range(count)
        ]
        yield upstream, made


async def hammer(ports: Sequence[int], seconds: float, clients: int = CLIENTS) -> Hammered:
    """Let clients ask all instances; who is refused asks again, who is cut off asks another."""
    found = Hammered()
    data = json.dumps(ASKED).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    ).encode()
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        while time.monotonic() < end:
            number += 1
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", ports[number % len(ports)]
                )
            except OSError:
                await asyncio.sleep(0.05)
                continue
            try:
                while (sent := time.monotonic()) < end:
                    writer.write(head + data)
                    answer = await reader.readuntil(b"\r\n\r\n")
                    length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                    await reader.readexactly(length)
                    status = int(answer[9:12])
                    found.statuses[status] += 1
                    if status == 200:
                        found.sent.append(sent)
                        found.admitted.append(time.monotonic())
                    else:
                        await asyncio.sleep(0.05)
            except (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return found


def port_of(gateway: GatewayProcess) -> int:
    return int(gateway.url.rpartition(":")[2])


def test_three_instances_hold_to_a_rate_though_one_is_killed(
    tmp_path: Path, cluster: Cluster
) -> None:
    limit = 'kind = "requests"\namount = 100\nwindow = "3s"'
    with instances(tmp_path, cluster, limit) as (_, gateways):

        async def run() -> Hammered:
            hammering = asyncio.create_task(hammer([port_of(one) for one in gateways], 5.8))
            await asyncio.sleep(3.2)
            await asyncio.to_thread(gateways[0].kill_all)
            return await hammering

        found = asyncio.run(run())
    assert set(found.statuses) == {200, 429}
    assert found.most_in(3.0, 100) <= 100
    # What the killed one held of the second window counts as used.
    assert found.statuses[200] >= 100 + 0.6 * 100


def test_requests_at_one_time_are_counted_over_all_instances(
    tmp_path: Path, cluster: Cluster
) -> None:
    limit = 'kind = "concurrent"\namount = 6\nqueue_s = 5'
    with instances(tmp_path, cluster, limit) as (upstream, gateways):
        upstream.takes_s = 0.25
        found = asyncio.run(hammer([port_of(one) for one in gateways], 4.0, clients=30))
    assert max(upstream.most.values()) <= 6
    # Half of what six slots that are never free could do, though slots move between instances.
    assert found.statuses[200] >= 0.5 * 6 * 4.0 / 0.25


ADMIN = """
[[clients.limits]]
kind = "requests"
amount = 100
window = "total"
when_away = "{away}"
[[clients]]
name = "operator"
key = "sk-of-nobody"
[admin]
key = "{token}"
"""
TOKEN = "admin-token-of-the-test"

LATE = """
[[clients]]
name = "late"
key = "{key}"
[[clients.limits]]
kind = "requests"
amount = 1000
window = "day"
when_away = "{away}"
"""
LATE_KEY = "sk-of-whoever-comes-while-the-database-is-away"


def test_what_holds_while_the_database_is_away(tmp_path: Path) -> None:
    def check(away: str) -> None:
        (tmp_path / away).mkdir()
        holds_while_away(tmp_path / away, away)

    at_once([("closed",), ("share",)], check)


def holds_while_away(folder: Path, away: str) -> None:
    limit = 'kind = "requests"\namount = 1000\nwindow = "day"'
    limit += f'\nwhen_away = "{away}"'
    limit += ADMIN.format(away=away, token=TOKEN) + LATE.format(key=LATE_KEY, away=away)
    with (
        running_cluster() as own,
        instances(folder, own, limit, count=2, workers=1) as (_, gateways),
    ):

        def shared(gateway: GatewayProcess) -> dict[str, Any]:
            answer = call(gateway.url, "GET", "/admin/limits", key=TOKEN)
            (found,) = (one for one in answer.json["limits"] if one["name"].endswith("total"))
            return {**found, "away_since": answer.json["away_since"]}

        def health(gateway: GatewayProcess) -> str:
            return str(call(gateway.url, "GET", "/admin/health", key=TOKEN).json["limits"])

        def ask(gateway: GatewayProcess, key: str = KEY) -> int:
            return call(gateway.url, "POST", "/v1/chat/completions", ASKED, key=key).status

        for _ in range(3):  # so that each knows of the other
            assert [ask(one) for one in gateways] == [200, 200]
            time.sleep(1.2)
        assert [ask(one) for one in gateways] == [200, 200]
        assert [health(one) for one in gateways] == ["shared", "shared"]
        # One is gone, and the other takes what it is sent and answers nothing.
        own.stop() if away == "closed" else own.freeze()
        try:
            until(lambda: [health(one) for one in gateways] == ["away", "away"], 10)
            before = [shared(one) for one in gateways]
            told = [call(one.url, "GET", "/healthz") for one in gateways]
            assert [(one.status, one.json["limits"]) for one in told] == [(200, "away")] * 2
            assert all(one["away_since"] and one["instances"] == 2 for one in before), before
            begun = time.monotonic()
            assert ask(gateways[0], LATE_KEY) == (429 if away == "closed" else 200)
            assert time.monotonic() - begun < 5, "it waits for a database that is away"
            statuses = [[ask(one) for _ in range(60)] for one in gateways]
            counts = [one.count(200) for one in statuses]
            refused = call(gateways[0].url, "POST", "/v1/chat/completions", ASKED, key=KEY)
            assert refused.status == 429
            assert refused.headers["x-dragoman-limit"] == "key:requests:total"
            if away == "closed":
                assert 0 < sum(counts) <= 5, counts
                assert refused.headers["retry-after"] == "1"
            else:
                assert 80 <= sum(counts) <= 92, counts
                assert {one["holds"] for one in map(shared, gateways)} == {"share"}
        finally:
            own.start() if away == "closed" else own.freeze(thaw=True)
        until(lambda: [health(one) for one in gateways] == ["shared", "shared"], 10)
        time.sleep(1.5)  # until both have told what they used meanwhile
        left = [ask(gateways[number % 2]) for number in range(110)].count(200)
        assert 8 + sum(counts) + left == 100


def test_what_is_listed_is_what_all_instances_have_used(tmp_path: Path, cluster: Cluster) -> None:
    """Right after the last of it, at each of them, though none has admitted all."""
    limit = 'kind = "requests"\namount = 20\nwindow = "day"'
    with instances(tmp_path, cluster, limit, count=2, workers=2) as (_, gateways):

        def listed(number: int) -> str:
            config = str(tmp_path / f"instance{number}.toml")
            command = ["-m", "dragoman", "limit", "list", "limited", "--json", "--config", config]
            done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return str(json.loads(done.stdout)[0]["state"]["used"])

        statuses = [
            call(gateways[number < 10].url, "POST", "/v1/chat/completions", ASKED, key=KEY).status
            for number in range(21)
        ]
        assert statuses == [200] * 20 + [429]
        assert [listed(number) for number in (0, 1)] == ["20", "20"]
