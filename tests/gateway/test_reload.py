"""Another configuration, while requests are served."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.accounts.pool import AccountPool
from dragoman.audit import Line
from dragoman.config import Account, Admin, Config, Route, Secret, Storage, Upstream, read_config
from dragoman.config.changes import Changes
from dragoman.config.source import Snapshot, Source
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.link.messages import Handlers, Peer
from dragoman.link.owner import Owner
from dragoman.prices.rates import PER_MILLION, PICO, Price, dollars
from dragoman.prices.table import ModelPrices, Provider, make_table, write_table
from dragoman.processes.forks import Forks
from dragoman.processes.reload import (
    COMMIT,
    DROP,
    PREPARE,
    RELOAD,
    Commit,
    Committed,
    Drop,
    Prepare,
    Prepared,
    ReloadAsked,
    ReloadError,
    Report,
    WorkerReload,
)
from dragoman.processes.table import WorkerTable
from dragoman.server import reloading
from dragoman.server.reloading import Reload, ServedConfiguration
from dragoman.server.services import Generation
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.sqlite import SqliteStore
from tests.gateway.clients import PATHS, body, completed
from tests.gateway.conftest import config_for
from tests.gateway.http import AUTH, KEY, Connection, call
from tests.gateway.load import at_once
from tests.gateway.processes import STORE, gateway_process
from tests.gateway.services import Services, needs_linux, services, until
from tests.websocket.client import Socket

ADMIN = "sk-admin-token-of-tests"
RELOADS = 30

HEAD = """
[server]
port = {port}
workers = {workers}
shutdown_grace_s = 10
{server}
[admin]
key = "{admin}"
[storage]
path = ""
[[clients]]
name = "tester"
keys = ["{key}", "sk-tester-of-turn-{turn}"]
[[clients.limits]]
kind = "{limited}"
amount = 1000000000
window = "1h"
[[clients.limits]]
kind = "concurrent"
amount = 10{turn}
[[clients]]
name = "client-{turn}"
key = "sk-client-of-turn-{turn}"
"""
BODY = """
[[upstreams]]
name = "main"
protocol = "{protocol}"
base_url = "{base_url}"
[[accounts]]
name = "of-{turn}"
upstream = "main"
key = "sk-sim-account-{turn}"
[[accounts]]
name = "kept"
upstream = "main"
key = "sk-sim-account-{turn}"
max_concurrent = 3
[[upstreams]]
name = "spare-{turn}"
protocol = "openai_chat"
base_url = "{base_url}"
[[routes]]
match = "shared"
upstream = "main"
model = "sim-text?words=3"
[[accounts]]
name = "spare"
upstream = "spare-{turn}"
key = "sk-sim-account-{turn}"
[[routes]]
match = "route-{turn}"
upstream = "spare-{turn}"
model = "sim-text"
"""


@pytest.fixture
def running(tmp_path: Path, simulator: RunningSimulator) -> Iterator[Services]:
    with services(tmp_path, simulator.base_url) as found:
        yield found


class Turns:
    """Configurations that differ in all: where a model leads, and what that speaks; accounts and
    their keys; who may call."""

    def __init__(self, running: Services, bases: list[str], workers: int, server: str = "") -> None:
        self.running, self.bases, self.workers, self.server = running, bases, workers, server
        self.service = running.start(workers=workers)
        self.file = running.folder / "gateway-0.toml"
        self.number = 1
        self.served(1)

    def text(self, turn: int) -> str:
        protocols = ("openai_chat", "anthropic_messages")
        return (HEAD + BODY).format(
            port=self.running.port,
            workers=self.workers,
            server=self.server,
            admin=ADMIN,
            key=KEY,
            limited=("requests", "tokens")[turn],
            turn=turn,
            protocol=protocols[turn],
            base_url=self.bases[turn],
        )

    def served(self, number: int) -> None:
        """Wait until a configuration is served by all."""
        if number == 1:
            until(lambda: call_or_none(self.running.url) == 200)
        else:
            self.service.until_logged(f"reload: configuration {number} is served")

    def reload(self, turn: int) -> None:
        write(self.file, self.text(turn))
        self.service.process.send_signal(signal.SIGHUP)
        self.number += 1
        self.served(self.number)


def write(file: Path, text: str) -> None:
    """Put a text in place of another at once."""
    other = file.with_suffix(".next")
    other.write_text(text)
    os.replace(other, file)


def call_or_none(url: str) -> int | None:
    try:
        return call(url, "GET", "/healthz").status
    except OSError:
        return None


class Load:
    """Requests of all kinds, over and over: `wrong` has what should not have been."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        self._stop = threading.Event()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        kinds = [("whole", 0.0), ("stream", 0.0), ("late", 0.02), ("new", 0.0), ("rotated", 0.0)]
        threads = [
            threading.Thread(target=self._run, args=(api, *kind))
            for kind in kinds
            for api in ("chat", "messages")
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(30)

    def _run(self, api: str, kind: str, late: float) -> None:
        try:
            while not self._stop.is_set():
                with Connection(self.url) as connection:
                    for _ in range(1 if kind == "new" else 20):
                        self._ask(connection, api, kind, late)
        except Exception as error:
            self.wrong.append(f"{api} {kind}: {error!r}")

    def _ask(self, connection: Connection, api: str, kind: str, late: float) -> None:
        data = json.dumps(body(api, "shared", stream=kind == "stream")).encode()
        headers = {**AUTH, "content-type": "application/json"}
        if kind == "rotated":
            headers["authorization"] = "Bearer sk-tester-of-turn-0"
        if late:
            # The configuration is that of the head; the account is asked for much later.
            sized = {**headers, "content-length": str(len(data))}
            connection.send("POST", PATHS[api], None, sized)
            time.sleep(late)
            connection.sock.sendall(data)
        else:
            connection.send("POST", PATHS[api], data, headers)
        answer = connection.answer()
        if kind == "rotated":
            # It is the tester's in every other configuration.
            self.done[f"rotated {answer.status}"] += 1
            if answer.status == 401:
                time.sleep(0.005)
                return
        if answer.status != 200 or (kind == "stream" and not completed(api, answer.body)):
            self.wrong.append(f"{api} {kind}: {answer.status} {answer.body[:300]!r}")
        self.done[kind] += 1
        time.sleep(0.005)


@needs_linux
@pytest.mark.parametrize("workers", [1, 2])
def test_many_reloads_under_load(
    running: Services, simulator: RunningSimulator, workers: int
) -> None:
    """No request fails, and none is sent anywhere but where one of the configurations would: with
    the key, the model and the protocol that belong to that host. Who asks has other limits each
    time, and another of its two keys."""
    with running_simulator() as other:
        turns = Turns(running, [simulator.base_url, other.base_url], workers)
        turns.reload(0)
        simulator.app.requests.clear()
        load = Load(running.url)
        with load.going_on():
            for count in range(RELOADS):
                turns.reload((count + 1) % 2)
        assert not load.wrong, load.wrong[:5]
        assert min(load.done[kind] for kind in ("whole", "stream", "late", "new")) > 20
        assert min(load.done[f"rotated {status}"] for status in (200, 401)) > 20
        for turn, asked in enumerate((simulator, other)):
            assert len(asked.requests) > 20
            assert {one.key for one in asked.requests} == {f"sk-sim-account-{turn}"}
            assert {one.path for one in asked.requests} == {
                ("/v1/chat/completions", "/v1/messages")[turn]
            }
    health = call(running.url, "GET", "/admin/health", key=ADMIN).json
    assert health["configurations"] == [RELOADS + 2] * workers
    assert turns.service.stop() == 0
    log = turns.service.log()
    assert "never given back" not in log
    assert "Traceback" not in log


@needs_linux
@pytest.mark.parametrize("workers", [1, 2])
def test_what_each_way_of_reloading_says(
    running: Services, simulator: RunningSimulator, workers: int
) -> None:
    """By command and by the administration; a broken file changes nothing, and says why."""
    turns = Turns(running, [simulator.base_url] * 2, workers)
    turns.reload(0)

    def command(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dragoman", "reload", "--config", str(turns.file), *more],
            capture_output=True,
            text=True,
            timeout=60,
        )

    # More than is told to a worker at once.
    large = "# Nothing of it.\n" * 50_000
    more = "[[routes]]\nmatch = 'more'\nupstream = 'main'\nmodel = 'sim-text'\n"
    write(turns.file, turns.text(1) + large + more)
    done = command()
    assert done.returncode == 0, done.stderr
    assert "clients added: client-1\nclients removed: client-0\n" in done.stdout
    assert "upstreams added: spare-1" in done.stdout
    assert "accounts changed: kept, spare" in done.stdout
    assert "routes added: route-1, more" in done.stdout
    assert done.stdout.endswith("configuration 3 is served\n")
    assert ask(running.url, "more") == 200
    assert "nothing in it is different" in command().stdout
    assert "sk-" not in done.stdout

    def pending() -> dict[str, object]:
        answer = call(running.url, "GET", "/admin/config/pending", key=ADMIN)
        assert answer.status == 200
        told: dict[str, object] = answer.json
        return told

    def reload(digest: str = "") -> tuple[int, dict[str, object]]:
        more = f"?digest={digest}" if digest else ""
        answer = call(running.url, "POST", f"/admin/reload{more}", key=ADMIN)
        return answer.status, answer.json

    broken = {
        turns.text(1)[:-3]: "not TOML",
        turns.text(1) + "[server2]\nport = 1\n": "unknown key",
        turns.text(1).replace('"sk-sim-account-1"', '"env:NOT_THERE_AT_ALL"'): "is not set",
        turns.text(1).replace(
            'upstream = "main"\nmodel', 'upstream = "mian"\nmodel'
        ): "did you mean",
        turns.text(1).replace(
            "[[upstreams]]", "[pricing]\ntable = 'none.json'\n[[upstreams]]", 1
        ): "none.json",
        turns.text(1).replace("[admin]", "tls_certificate = 'none.pem'\n[admin]"): (
            ":7: server.tls_certificate: cannot read "
        ),
        turns.text(1).replace('"sk-sim-account-1"', '"file:~nobody-of-that-name/key"'): (
            "no home directory"
        ),
        turns.text(1) + "more = " + "[" * 20_000 + "]" * 20_000: "nested too deeply",
        "": "is empty",
    }
    for count, (text, told) in enumerate(broken.items(), 1):
        write(turns.file, text)
        assert told in str(pending()["problems"])
        status, error = reload()
        assert status == 400
        assert told in str(error), error
        turns.service.until_logged("reload: nothing was changed", count)
        assert ask(running.url, "more") == 200
        assert ask(running.url, "shared") == 200
    assert "NOT_THERE_AT_ALL" in turns.service.log()
    before = [4] * workers
    assert call(running.url, "GET", "/admin/health", key=ADMIN).json["configurations"] == before
    failed = command()
    assert failed.returncode == 1
    accounts = (
        f'[[accounts]]\nname = "more-{count}"\nupstream = "main"\nkey = "file:none-{count}"\n'
        for count in range(2000)
    )
    write(turns.file, turns.text(1) + "".join(accounts))
    many = command()
    assert many.returncode == 1
    assert "none-49:" in many.stderr
    assert "none-50:" not in many.stderr
    assert "and 1950 more\nnothing was changed: configuration 4 is served" in many.stderr

    write(turns.file, turns.text(0).replace("workers = ", "keepalive_s = 5\nworkers = 1"))
    found = pending()
    assert ask(running.url, "more") == 200  # nothing was changed by looking
    assert reload("0" * 12)[0] == 412
    assert ask(running.url, "more") == 200
    status, report = reload(str(found["digest"]))
    assert status == 200
    assert (report["digest"], report["changes"]) == (found["digest"], found["changes"])
    left = pending()["changes"]
    assert isinstance(left, dict)
    assert (left["restart"], "routes" in left) == (["server.workers"], False)
    assert report["configuration"] == 5
    changes = report["changes"]
    assert isinstance(changes, dict)
    assert changes["settings"] == ["server.keepalive_s"]
    assert changes["restart"] == ["server.workers"]
    assert changes["routes"]["removed"] == {"names": ["route-1", "more"]}
    assert ask(running.url, "more") == 404
    assert call(running.url, "POST", "/admin/reload", key=KEY).status == 401
    assert "sk-sim" not in turns.service.log()


def ask(url: str, model: str, key: str = KEY) -> int:
    return call(url, "POST", "/v1/chat/completions", body("chat", model), key=key).status


class Followers:
    """Workers of a gateway that do what they are told, and what they were told: `slow` are those
    that never make anything ready, `failing` those that cannot."""

    def __init__(self, file: Path, workers: int) -> None:
        file.write_text('[storage]\npath = ""\n')
        self.told: list[str] = []
        self.slow: set[int] = set()
        self.failing: set[int] = set()
        self.replaced: list[int] = []
        self.on_prepare: Callable[[], object] = lambda: None
        served = ServedConfiguration(read_config(file).config, Source(str(file)))
        owner = Owner()
        self.reload = Reload(served, owner, Forks(), self.replaced.append)
        self.links = [owner.join(self._handlers(number), number) for number in range(workers)]

    def _handlers(self, number: int) -> Handlers:
        handlers = Handlers()

        async def prepare(peer: Peer, asked: Prepare) -> Prepared:
            self.told.append(f"{number} prepares {asked.number}")
            self.on_prepare()
            if number in self.slow:
                await asyncio.sleep(60)
            return Prepared(("no",) if number in self.failing else ())

        def commit(peer: Peer, asked: Commit) -> Committed:
            self.told.append(f"{number} serves")
            return Committed(is_served=True)

        handlers.answer(PREPARE, prepare)
        handlers.answer(COMMIT, commit)
        handlers.receive(DROP, lambda peer, asked: self.told.append(f"{number} drops"))
        return handlers


async def test_who_asks_while_the_file_is_read_has_it_read_once_more(tmp_path: Path) -> None:
    """What was read may be what the file said before."""
    followers = Followers(tmp_path / "dragoman.toml", 1)
    link = followers.links[0]
    later: list[asyncio.Task[Report]] = []

    def ask_again() -> None:
        if not later:
            later.extend(asyncio.create_task(link.ask(RELOAD, ReloadAsked())) for _ in range(3))

    followers.on_prepare = ask_again
    assert (await link.ask(RELOAD, ReloadAsked())).configuration == 2
    assert [report.configuration for report in await asyncio.gather(*later)] == [3, 3, 3]
    assert followers.told == ["0 prepares 2", "0 serves", "0 prepares 3", "0 serves"]


async def test_a_configuration_is_served_by_all_or_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot make it ready, or not in time, keeps it from all; one that ends does not."""
    monkeypatch.setattr(reloading, "_ANSWER_S", 0.2)
    followers = Followers(tmp_path / "dragoman.toml", 3)
    followers.failing.add(1)
    assert (await followers.reload.begin()).problems == ("no",)
    await asyncio.sleep(0)
    assert sorted(followers.told) == sorted(
        f"{number} {what}" for number in range(3) for what in ("prepares 2", "drops")
    )
    followers.told.clear()
    followers.failing.clear()
    followers.slow.add(2)
    report = await followers.reload.begin()
    assert report.problems == ("worker 2 does not answer",)
    assert not [told for told in followers.told if "serves" in told]
    followers.slow.clear()
    followers.on_prepare = followers.links[1].close
    report = await followers.reload.begin()
    assert (report.problems, report.configuration) == ((), 2)
    assert {told for told in followers.told if "serves" in told} == {"0 serves", "2 serves"}
    assert not followers.replaced


def test_what_changes_while_a_gateway_starts_is_not_missed(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    text = "[server]\nwatch_config = true\n"
    file.write_text(text)
    read = read_config(file).config
    assert not ServedConfiguration(read, Source(str(file))).has_changed
    for other in (text + "cors = false\n", "broken ="):
        write(file, other)
        served = ServedConfiguration(read, Source(str(file)))
        until(lambda served=served: served.has_changed)  # type: ignore[misc]
        assert not served.has_changed


async def test_a_worker_that_was_too_slow_serves_what_comes_then() -> None:
    """And never what it has ready too late."""
    made = {text: asyncio.get_running_loop().create_future() for text in ("slow", "next")}
    adopted: list[str] = []

    async def prepare(snapshot: Snapshot, number: int) -> str:
        ready: str = await made[snapshot.text]
        return ready

    def asked(attempt: int, text: str) -> Prepare:
        return Prepare(attempt, Snapshot(Source("none.toml"), text, {}, {}), 2)

    owner = Owner()
    WorkerReload(owner.join(Handlers()), prepare, adopted.append)
    (worker,) = owner.peers
    slow = asyncio.create_task(worker.ask(PREPARE, asked(1, "slow")))
    await asyncio.sleep(0.01)
    worker.report(DROP, Drop(1))
    then = asyncio.create_task(worker.ask(PREPARE, asked(2, "next")))
    await asyncio.sleep(0.01)
    made["next"].set_result("next")
    assert await then == Prepared()
    made["slow"].set_result("slow")
    assert await slow == Prepared()
    assert await worker.ask(COMMIT, Commit(1)) == Committed(is_served=False)
    assert await worker.ask(COMMIT, Commit(2)) == Committed(is_served=True)
    assert adopted == ["next"]


def test_a_report_is_the_same_in_another_process() -> None:
    """What is left out of it by default is left out of what is told, too."""
    shown = replace(Report(7, "digest", warnings=("w",)), changes=Changes(settings=("a.b",)))
    for report in (Report(1), shown):
        found = msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=Report)
        assert msgspec.json.encode(found) == msgspec.json.encode(report)
        assert "clients" not in msgspec.json.encode(found).decode()


@needs_linux
def test_a_file_that_is_watched(tmp_path: Path, simulator: RunningSimulator) -> None:
    """Also behind a link that is led elsewhere, and a key in a file of its own."""

    def check(workers: int) -> None:
        (tmp_path / f"{workers}").mkdir()
        with services(tmp_path / f"{workers}", simulator.base_url) as running:
            is_watched(running, simulator, workers)

    at_once([(1,), (2,)], check)


def is_watched(running: Services, simulator: RunningSimulator, workers: int) -> None:
    turns = Turns(running, [simulator.base_url] * 2, workers, "watch_config = true")
    folder, secret = running.folder, running.folder / "client-key"
    secret.write_text("sk-first-of-the-file")
    for turn in (0, 1):
        (folder / f"data-{turn}").mkdir()
        named = f'[[clients]]\nname = "by-file"\nkey = "file:{secret}"\n'
        (folder / f"data-{turn}" / "gateway-0.toml").write_text(turns.text(turn) + named)
    (folder / "data").symlink_to("data-0")
    turns.file.unlink()
    turns.file.symlink_to("data/gateway-0.toml")
    turns.service.process.send_signal(signal.SIGHUP)
    turns.served(2)
    assert ask(running.url, "shared", "sk-client-of-turn-0") == 200
    (folder / "next").symlink_to("data-1")
    os.replace(folder / "next", folder / "data")
    turns.served(3)
    assert ask(running.url, "shared", "sk-client-of-turn-0") == 401
    assert ask(running.url, "shared", "sk-client-of-turn-1") == 200
    assert ask(running.url, "shared", "sk-first-of-the-file") == 200
    secret.write_text("sk-second-of-the-file")
    turns.served(4)
    for _ in range(4 * workers):
        assert ask(running.url, "shared", "sk-first-of-the-file") == 401
        assert ask(running.url, "shared", "sk-second-of-the-file") == 200
    (folder / "data" / "gateway-0.toml").write_text("broken = ")
    turns.service.until_logged("reload: nothing was changed")
    assert ask(running.url, "shared", "sk-second-of-the-file") == 200
    # A file that only the refused configuration names is watched, too: with it, that can be used.
    late = folder / "late-key"
    named = f'[[clients]]\nname = "by-file"\nkey = "file:{late}"\n'
    (folder / "data" / "gateway-0.toml").write_text(turns.text(1) + named)
    turns.service.until_logged("late-key")
    (folder / "next-key").write_text("sk-third-of-the-file")
    os.replace(folder / "next-key", late)
    turns.served(5)
    assert ask(running.url, "shared", "sk-third-of-the-file") == 200
    assert "of-the-file" not in turns.service.log()


@needs_linux
def test_a_worker_that_is_started_after_a_reload(
    running: Services, simulator: RunningSimulator
) -> None:
    """It serves what the others do, and so does one that dies while there is another reload."""
    turns = Turns(running, [simulator.base_url] * 2, 2)
    turns.reload(0)
    for count in range(4):
        until(lambda: len(turns.service.workers()) == 2)
        os.kill(turns.service.workers()[count % 2], signal.SIGKILL)
        turns.reload((count + 1) % 2)

    def configurations() -> list[int]:
        answer = call(running.url, "GET", "/admin/health", key=ADMIN)
        found: list[int] = answer.json["configurations"]
        return found

    until(lambda: configurations() == [turns.number] * 2)
    for _ in range(10):
        assert ask(running.url, "route-0") == 200


@needs_linux
def test_a_table_of_prices_is_that_of_the_configuration(
    running: Services, simulator: RunningSimulator
) -> None:
    """Also for a worker that is started later, whatever the file says by then."""
    turns = Turns(running, [simulator.base_url] * 2, 2)
    table = running.folder / "own.json"

    def put(rate: int) -> None:
        price = Price(0, "", 0, 0, 0, *[rate * PER_MILLION] * 6)
        models = [ModelPrices("own", ("sim-*",), (price,))]
        made = make_table("2026-11-25", (), [Provider("own", "https://own")], models)
        table.write_bytes(write_table(made))

    def cost() -> str:
        made = body("chat", "route-0")
        return call(running.url, "POST", PATHS["chat"], made).headers["x-dragoman-cost-usd"]

    priced = turns.text(0).replace('base_url = "', 'prices = "own"\nbase_url = "')
    priced += '[pricing]\ntable = "own.json"\nheader = true\n'
    put(1)
    write(turns.file, priced)
    turns.service.process.send_signal(signal.SIGHUP)
    turns.served(2)
    before = cost()
    put(2)
    for number in range(2):
        os.kill(turns.service.workers()[number], signal.SIGKILL)
        turns.service.until_logged("ended with SIGKILL", number + 1)
        until(lambda: len(turns.service.workers()) == 2)
        table.write_text("no table")
    assert {cost() for _ in range(10)} == {before}
    turns.service.process.send_signal(signal.SIGHUP)
    turns.service.until_logged("not a table of prices")
    assert cost() == before
    put(2)
    turns.service.process.send_signal(signal.SIGHUP)
    turns.service.until_logged("settings changed: pricing.table")
    assert {cost() for _ in range(10)} == {dollars(2 * round(float(before) * PICO))}


def test_a_stream_ends_on_what_it_began_with(simulator: RunningSimulator) -> None:
    """Though its upstream, its account and its client's key are gone; and nothing of it is kept
    then."""
    config = config_for(simulator.base_url)
    with running_gateway(config) as gateway, Connection(gateway.base_url) as connection:
        made = body("chat", "chat/sim-text?delay_ms=20&words=30", stream=True)
        connection.send("POST", PATHS["chat"], made, AUTH)
        assert connection.head().status == 200
        first = connection.chunk()
        adopt(gateway, replace(config, upstreams=(), accounts=(), clients=()))
        assert completed("chat", first + b"".join(iter(connection.chunk, b"")))
        assert call(gateway.base_url, "GET", "/v1/models", key=None).json["data"] == []


def test_a_message_may_be_as_large_as_a_body(simulator: RunningSimulator) -> None:
    """On sockets that are opened from then on."""
    config = config_for(simulator.base_url)
    small = replace(config, server=replace(config.server, body_limit_bytes=100_000))
    with running_gateway(small) as gateway:
        for served, told in ((small, "error"), (config, "response.completed")):
            adopt(gateway, served)
            with Socket(gateway.base_url) as sock:
                assert sock.turn("chat/sim-text", "x" * 300_000)[-1]["type"] == told


def test_former_configurations_are_freed(simulator: RunningSimulator) -> None:
    config = config_for(simulator.base_url)
    others = len(living_pools())
    with running_gateway(config) as gateway:
        before = 0
        for turn in range(40):
            more = Upstream(name=f"u{turn}", protocol="openai_chat", base_url="http://127.0.0.1:9")
            other = replace(
                config,
                upstreams=(*config.upstreams, more),
                accounts=(*config.accounts, Account(name="a", upstream=more.name)),
                routes=(Route(match=f"m{turn}", upstream="chat", model="sim-text"),),
            )
            adopt(gateway, other)
            assert ask(gateway.base_url, f"m{turn}") == 200
            if turn == 10:
                before = living()
        # The last request of each may still be ending.
        until(lambda: living() <= before)
        assert len(living_pools()) <= others + 3


def living_pools() -> list[AccountPool]:
    return [one for one in gc.get_objects() if isinstance(one, AccountPool)]


def living() -> int:
    gc.collect()
    gc.collect()  # what a finalizer of the first pass had to do with goes in the second
    kinds = (AccountPool, Generation, Config)
    return sum(isinstance(one, kinds) for one in gc.get_objects())


def adopt(gateway: RunningGateway, config: Config) -> None:
    """Serve another configuration, as a reload does."""
    done = threading.Event()
    prepared = gateway.server.prepare(config, gateway.app.number + 1)

    def work() -> None:
        gateway.server.adopt(prepared)
        done.set()

    gateway.app._client.clock.loop.call_soon_threadsafe(work)
    assert done.wait(5)


def test_the_table_tells_what_workers_serve() -> None:
    table = WorkerTable(2)
    assert table.configurations() == [0, 0]
    table.configured(1, 7)
    assert table.configurations() == [0, 7]
    table.started(1)
    assert table.configurations() == [0, 0]


def test_nobody_is_let_in_from_other_machines(tmp_path: Path) -> None:
    """Whatever the file says of where to listen: the gateway listens where it did."""
    file = tmp_path / "dragoman.toml"
    keyed = f'[[clients]]\nname = "me"\nkey = "{KEY}"\n'
    file.write_text('[server]\nhost = "0.0.0.0"\n' + keyed)
    served = ServedConfiguration(read_config(file).config, Source(str(file)))
    assert served.read().number == 2
    file.write_text('[server]\nhost = "127.0.0.1"\n')
    with pytest.raises(ReloadError, match="anyone who reaches this address"):
        served.read()
    # As with a socket of systemd, of which the file says nothing.
    file.write_text(keyed)
    given = ServedConfiguration(read_config(file).config, Source(str(file)), ("0.0.0.0",))
    assert given.read().number == 2
    file.write_text("[server]\nport = 0\n")
    with pytest.raises(ReloadError, match="without client keys"):
        given.read()


def test_accounts_of_the_store_stay(tmp_path: Path, simulator: RunningSimulator) -> None:
    """One of the file hides that of the store with the same name for as long as it is there."""
    config = replace(
        config_for(simulator.base_url),
        admin=Admin(key=Secret(ADMIN)),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("k" * 20), sync_s=0.05),
    )
    more = Upstream(name="more", protocol="openai_chat", base_url=simulator.base_url)
    fixed = Account(name="both", upstream="chat", key=Secret("sk-of-the-file"))

    def keys(gateway: RunningGateway) -> dict[str, str]:
        accounts = {one.name: one.key for one in gateway.app.pool.accounts()}
        names = ("both", "stored", "of-more")
        return {name: key.reveal() for name in names if (key := accounts.get(name)) is not None}

    both, stored = {"both": "sk-of-the-store"}, {"stored": "sk-stored"}
    with running_gateway(replace(config, upstreams=(*config.upstreams, more))) as gateway:
        for name, key in (both | stored).items():
            made = {"name": name, "upstream": "chat", "key": key}
            assert call(gateway.base_url, "POST", "/admin/accounts", made, key=ADMIN).status == 201
        made = {"name": "of-more", "upstream": "more", "key": "sk-more"}
        assert call(gateway.base_url, "POST", "/admin/accounts", made, key=ADMIN).status == 201
        all_stored = both | stored | {"of-more": "sk-more"}
        until(lambda: keys(gateway) == all_stored)
        adopt(gateway, replace(config, accounts=(*config.accounts, fixed)))
        assert keys(gateway) == {"both": "sk-of-the-file"} | stored
        time.sleep(0.3)
        assert keys(gateway) == {"both": "sk-of-the-file"} | stored
        adopt(gateway, replace(config, upstreams=(*config.upstreams, more)))
        until(lambda: keys(gateway) == all_stored)


@needs_linux
@pytest.mark.parametrize("workers", [1, 2])
def test_a_reload_is_written_down_once(
    tmp_path: Path, simulator: RunningSimulator, workers: int
) -> None:
    file = tmp_path / "one.toml"

    def reloads() -> list[Line]:
        store = SqliteStore(tmp_path / STORE)
        try:
            return [line for line in store.audit(50) if line.action == "reload"]
        finally:
            store.close()

    keys = {"one": "sk-sim-one"}
    with gateway_process(tmp_path, simulator.base_url, keys, workers=workers) as running:
        write(file, file.read_text() + '[[routes]]\nmatch = "more"\nupstream = "chat"\n')
        running.process.send_signal(signal.SIGHUP)
        until(lambda: len(reloads()) > 0)
        time.sleep(0.3)
        [line] = reloads()
    assert line.after is not None
    assert {name: told for name, told in line.after.items() if name != "version"} == {
        "routes": {"added": {"names": ["more"]}}
    }
    assert (line.kind, line.origin) == ("configuration", "gateway")
