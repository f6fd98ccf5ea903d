"""All that can go wrong at once, under load: four processes, 200 clients, accounts that fail in
every way, proxies that die, a worker that is killed. And of all of it, no secret anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.processes.listening import bind
from dragoman.storage.sqlite import SqliteStore
from tests.faults.load import Load, Outcome, cell, made
from tests.faults.relays import Relays, running_relays
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import PROTOCOLS
from tests.gateway.http import Answer, call
from tests.gateway.processes import START_S, GatewayProcess, connection_of_each, until

CLIENTS = 150
STEP = 110
"""Requests that end between one fault and the next."""
RESTORED_S = 60.0
MOST_RESIDENT = 120 * 1024 * 1024
"""Bytes of one worker: what an idle one has, and room for 50 streams and some 40 accounts."""

MARK = "quagga"
"""Is in every secret, and nowhere else."""
CLIENT_KEY = f"sk-{MARK}-client"
LATER_KEY = f"sk-{MARK}-later"
TOKEN = f"token-of-the-{MARK}-admin"
STORE_KEY = f"{MARK} store key, long enough"
ENVELOPE_KEY = f"{MARK}-envelope-key-long-enough"
PASSWORD = f"{MARK}-password"
PROMPT = "Aardvark in the prompt"

GOOD = (0, 1)
OWN_PROXY = (2, 3)
LIMITED = (4, 5)
OUT_OF_QUOTA = (6, 7)
REVOKED = (8, 9)
BREAKING = (10, 11, 12)
OVERLOADED = (13,)
COUNT = 14
FROM_STORE = range(9, 14)
"""Accounts of each upstream by what will happen to them."""

DEAD = ("turn 0", "turn 1", "chat-2", "messages-2")
"""Proxies that are killed."""

CONFIG = """
[server]
port = {port}
workers = 4
shutdown_grace_s = 5
commit_after_s = 60
keepalive_s = 2
log_level = "debug"
envelope_key = "{envelope_key}"
[admin]
key = "{token}"
[storage]
path = "kept.db"
sync_s = 0.1
key = "env:STORE_KEY"
[[clients]]
name = "load"
key = "{client_key}"
[[clients]]
name = "later"
key = "{later_key}"
"""
UPSTREAM = """
[[upstreams]]
name = "{name}"
protocol = "{protocol}"
base_url = "{base_url}"
attempts = 40
{more}
timeouts = {{ connect_s = 5, first_byte_s = 20, idle_s = 5 }}
probe = {{ model = "sim-text", every_s = 1 }}
"""
ACCOUNT = """
[[accounts]]
name = "{name}"
upstream = "{upstream}"
key = "{key}"
{more}
"""


def key_of(upstream: str, index: int) -> str:
    return f"sk-sim-{MARK}-{upstream}-{index}"


@dataclass
class Scene:
    """All that takes part. `seen` is all that anybody was told, with where it was told."""

    simulator: RunningSimulator
    relays: Relays
    gateway: GatewayProcess
    folder: Path
    seen: list[tuple[str, bytes]] = field(default_factory=list)

    def behave(self, indices: tuple[int, ...], fault: Fault | None, upstream: str = "") -> None:
        """From now on these accounts, of every upstream unless one is named, fail so."""
        for name in (upstream,) if upstream else APIS:
            for index in indices:
                self.simulator.app.keys.behaviours[key_of(name, index)] = KeyBehaviour(fault)

    def admin(self, method: str, path: str, value: Any = None) -> Any:
        """Ask the administration; the answer's JSON."""
        answer = call(self.gateway.url, method, f"/admin{path}", value, key=TOKEN)
        self.seen.append((f"{method} {path}", shown(answer)))
        return answer.json

    def admin_of_each(self, path: str) -> Iterator[Any]:
        """The same question to every worker."""
        auth = {"authorization": f"Bearer {TOKEN}"}
        with connection_of_each(self.gateway) as connections:
            for connection in connections:
                connection.send("GET", f"/admin{path}", None, auth)
                answer = connection.answer()
                self.seen.append((path, shown(answer)))
                yield answer.json

    def metric(self, name: str) -> float:
        answer = call(self.gateway.url, "GET", "/metrics")
        self.seen.append(("/metrics", shown(answer)))
        lines = answer.body.decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def look_at_files(self, when: str) -> None:
        """Note what is in the store's files now."""
        for path in filter(Path.is_file, self.folder.rglob("*.db*")):
            self.seen.append((f"{path.name} {when}", path.read_bytes()))

    def log(self) -> str:
        return (self.folder / "log").read_text()


def shown(answer: Answer) -> bytes:
    return f"{answer.status} {answer.headers}\n".encode() + answer.body


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Four workers with a store over three upstreams; a part of the accounts is in the store, some
    are behind proxies of their own, and all Responses accounts behind three in turn."""
    with running_simulator() as simulator, running_relays() as relays:
        turns = [relays.add(f"turn {n}", ("socks5", "http")[n % 2], PASSWORD) for n in range(3)]
        with bind("127.0.0.1", 0) as plug:
            port = plug.getsockname()[1]
        values = {"token": TOKEN, "client_key": CLIENT_KEY, "later_key": LATER_KEY}
        text = CONFIG.format(port=port, envelope_key=ENVELOPE_KEY, **values)
        stored = []
        for name, protocol in PROTOCOLS.items():
            more = f"proxies = {json.dumps(turns)}" if name == "responses" else ""
            text += UPSTREAM.format(
                name=name, protocol=protocol, base_url=simulator.base_url, more=more
            )
            for index in range(COUNT):
                called, key = f"{name}-{index}", key_of(name, index)
                more = ""
                if index in OWN_PROXY and name != "responses":
                    scheme = "http" if index == OWN_PROXY[0] else "socks5"
                    more = f'proxy = "{relays.add(called, scheme, PASSWORD)}"'
                if index in FROM_STORE:
                    stored.append({"name": called, "upstream": name, "key": key})
                else:
                    text += ACCOUNT.format(name=called, upstream=name, key=key, more=more)
        file = folder / "gateway.toml"
        file.write_text(text)
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dragoman", "serve", "--config", str(file)],
                stdout=log,
                stderr=log,
                text=True,
                env={**os.environ, "STORE_KEY": STORE_KEY},
            )
        gateway = GatewayProcess(process, f"http://127.0.0.1:{port}", folder / "kept.db")
        running = Scene(simulator, relays, gateway, folder)
        try:
            until(lambda: serves(running), START_S)
            added = running.admin("POST", "/accounts/import", {"accounts": stored})
            assert added["added"] == len(stored), added
            until(
                lambda: all(
                    page["total"] == 3 * COUNT for page in running.admin_of_each("/accounts")
                )
            )
            yield running
        finally:
            if process.poll() is None:
                gateway.stop()


def serves(running: Scene) -> bool:
    assert running.gateway.process.poll() is None, running.log()
    try:
        return call(running.gateway.url, "GET", "/readyz").status == 200
    except OSError:
        return False


def quoting(status: int, key: str = "", **more: Any) -> Fault:
    """An error that repeats what it should not: a key, and a prompt."""
    message = f"No. Your key was {key or key_of('chat', 0)}; you said: {PROMPT}."
    return Fault("error", failure=Failure(status, message, **more))


async def faults(running: Scene, load: Load) -> set[int]:
    """One fault after another, each while others go on; in the end all are over. Gives the ports
    of the clients whose worker was killed."""
    steps = iter(range(1, 100))

    async def others() -> None:
        await load.so_far(next(steps) * STEP)

    await others()
    behave, relays = running.behave, running.relays
    behave(LIMITED[:1], quoting(429, retry_after="1"))
    behave(LIMITED[1:], quoting(429))
    await others()
    behave(OUT_OF_QUOTA[:1], quoting(402))
    behave(OUT_OF_QUOTA[1:], quoting(429, code="insufficient_quota", type="insufficient_quota"))
    await others()
    for name in APIS:
        for index in REVOKED:
            behave((index,), quoting(401, key_of(name, index)), name)
    await others()
    for index, kind in zip(BREAKING, ("reset", "truncate", "silence"), strict=True):
        behave((index,), Fault(kind, after=5, ms=120_000))  # type: ignore[arg-type]
    await others()
    overloaded = {"messages": 529, "chat": 503, "responses": 503}
    for name, status in overloaded.items():
        behave(OVERLOADED, Fault("error_in_stream", after=1, failure=Failure(status)), name)
    behave(BREAKING[:1], Fault("close", after=7))
    await others()
    behave(LIMITED, None)
    for name in DEAD:
        await asyncio.to_thread(relays.kill, name)
    await others()
    ports = await asyncio.to_thread(kill_one, running)
    await others()
    behave((*BREAKING, *OVERLOADED), None)
    for name in DEAD:
        await asyncio.to_thread(relays.start, name)
    await others()
    behave((*OUT_OF_QUOTA, *REVOKED), None)
    await others()
    return ports


def kill_one(running: Scene) -> set[int]:
    """Kill a worker; gives the ports of the clients that it was serving."""
    pid = running.gateway.workers()[1]
    os.kill(pid, signal.SIGSTOP)
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        inodes.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
    own = int(running.gateway.url.rpartition(":")[2])
    ports = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and int(fields[1].partition(":")[2], 16) == own:
            ports.add(int(fields[2].partition(":")[2], 16))
    os.kill(pid, signal.SIGKILL)
    return ports


def resident(running: Scene) -> list[int]:
    """Bytes of memory of each worker."""
    page = os.sysconf("SC_PAGESIZE")
    pids = running.gateway.workers()
    return [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page for pid in pids]


def test_everything_fails_at_once(tmp_path: Path) -> None:
    """Every client gets a whole answer or an explicit error, and an error only where the answer
    had begun; nothing is left of it afterwards. req: 130, 136, 140, 141, 142"""
    with scene(tmp_path) as running:

        async def run() -> tuple[list[Outcome], set[int]]:
            port = int(running.gateway.url.rpartition(":")[2])
            load = Load(port, CLIENT_KEY, lambda number: made(number, PROMPT), CLIENTS)
            ports = await faults(running, load)
            return await load.stop(), ports

        outcomes, ports = asyncio.run(run())
        verdicts = Counter(outcome.verdict() for outcome in outcomes)
        refused = [outcome for outcome in outcomes if outcome.verdict() == "refused"]
        assert not refused, (verdicts, refused[0])
        broken = [outcome for outcome in outcomes if outcome.verdict() == "broken"]
        assert {outcome.port for outcome in broken} <= ports
        failed = [outcome for outcome in outcomes if outcome.verdict() == "failed after content"]
        assert failed
        assert all(outcome.stream for outcome in failed)
        assert verdicts["good"] > len(outcomes) // 2
        good = [outcome for outcome in outcomes if outcome.verdict() == "good"]
        assert len({(*cell(outcome.number), outcome.stream) for outcome in good}) == 18

        no_leases_are_left(running)
        assert max(resident(running)) < MOST_RESIDENT
        running.look_at_files("after the load")
        restore(running)
        faults_were_met(running)
        everything_is_served(running)
        no_leases_are_left(running)
        keep_a_response(running)
        for path in ("/accounts?limit=1000", "/usage?by=account,client", "/health"):
            running.admin("GET", path)
        for index in range(COUNT):
            running.admin("GET", f"/accounts/chat-{index}")
        running.metric("dragoman")
        running.look_at_files("at work")
        running.gateway.stop()
        running.look_at_files("at the end")

        usage_is_whole(running, outcomes, ports)
        log = running.log()
        assert log.count(" ended with SIGKILL") == 1
        assert "Traceback" not in log
        assert "never given back" not in log
        no_secret_was_told(running, outcomes)


def no_leases_are_left(running: Scene) -> None:
    """Not in the accounts as any worker knows them, not in the metrics, not in the store."""

    def none() -> bool:
        pages = running.admin_of_each("/accounts?limit=1000")
        if any(account["in_flight"] for page in pages for account in page["accounts"]):
            return False
        return running.metric("dragoman_queue_length") == 0

    until(none, RESTORED_S)
    until(lambda: leases_of(running) == 0, RESTORED_S)
    # The question itself is one.
    assert running.metric("dragoman_in_flight") <= 1


def leases_of(running: Scene) -> int:
    with closing(sqlite3.connect(running.gateway.store)) as store:
        rows = store.execute("SELECT leases FROM workers").fetchall()
    return sum(sum(json.loads(leases).values()) for (leases,) in rows)


def restore(running: Scene) -> None:
    """All accounts come back by themselves but those that were revoked: these when a person enables
    them, or gives them another key."""
    revoked = {f"{name}-{index}" for name in APIS for index in REVOKED}

    def out() -> set[str]:
        pages = running.admin_of_each("/accounts?limit=1000")
        return {
            account["name"]
            for page in pages
            for account in page["accounts"]
            if account["state"] != "active"
        }

    until(lambda: out() == revoked, RESTORED_S)
    for name in APIS:
        by_hand, by_key = (f"{name}-{index}" for index in REVOKED)
        running.admin("POST", f"/accounts/{by_hand}/test")
        running.admin("POST", f"/accounts/{by_hand}/enable")
        running.admin("PATCH", f"/accounts/{by_key}", {"key": f"{key_of(name, 9)}-new"})
    until(lambda: not out(), RESTORED_S)


def faults_were_met(running: Scene) -> None:
    """What was to happen to accounts did, and is in their history; proxies that died are told."""
    for indices, change in (
        (LIMITED, "cooled"),
        (OUT_OF_QUOTA, "exhausted"),
        (REVOKED, "disabled"),
        (OVERLOADED, "cooled"),
    ):
        for name in APIS:
            for index in indices:
                history = running.admin("GET", f"/accounts/{name}-{index}")["history"]
                assert change in {entry["change"] for entry in history}, (name, index)
    for name in APIS:
        for index in (*GOOD, *BREAKING):
            history = running.admin("GET", f"/accounts/{name}-{index}")["history"]
            assert history == [], (name, index)
    log = running.log()
    for name in DEAD:
        assert f"proxy 127.0.0.1:{running.relays.port(name)} failed" in log, name


def everything_is_served(running: Scene) -> None:
    """Every account has its turn again, and all that is asked is answered."""
    used = running.simulator.app.keys.requests
    before = used.copy()
    wanted = {key_of(name, index) for name in APIS for index in range(COUNT) if index != 9}
    wanted |= {f"{key_of(name, 9)}-new" for name in APIS}
    deadline = time.monotonic() + RESTORED_S
    number = 0
    while any(used[key] == before[key] for key in wanted):
        assert time.monotonic() < deadline, [key for key in wanted if used[key] == before[key]]
        api, target = APIS[number % 3], APIS[number // 3 % 3]
        asked = body(api, f"{target}/sim-text", PROMPT, **({} if api != "responses" else UNKEPT))
        assert call(running.gateway.url, "POST", PATHS[api], asked, key=LATER_KEY).status == 200
        number += 1


UNKEPT = {"store": False}


def keep_a_response(running: Scene) -> None:
    """What a client wants kept is kept: the only prompt that is in the store."""
    asked = body("responses", "responses/sim-text", f"{KEPT_PROMPT}, to be kept", store=True)
    answer = call(running.gateway.url, "POST", PATHS["responses"], asked, key=LATER_KEY)
    path = f"{PATHS['responses']}/{answer.json['id']}/input_items"
    told = call(running.gateway.url, "GET", path, key=LATER_KEY)
    assert KEPT_PROMPT.encode() in told.body


KEPT_PROMPT = "Platypus in the prompt"


def usage_is_whole(running: Scene, outcomes: list[Outcome], ports: set[int]) -> None:
    """Whatever went through workers that were not killed is counted."""
    with closing(SqliteStore(running.gateway.store)) as store:
        usage = store.usage(0, time.time() + 1)
    counted = sum(count.requests for key, count in usage.items() if key.client == "load")
    assert sum(outcome.port not in ports for outcome in outcomes) <= counted <= len(outcomes)


def no_secret_was_told(running: Scene, outcomes: list[Outcome]) -> None:
    """Not in a log, an error, a metric, an answer of the administration, nor in the store."""
    told = [("the log", running.log().encode()), *running.seen]
    told += [(f"answer {one.number}", shown(one.answer)) for one in outcomes]
    files = [(where, data) for where, data in told if where.startswith("kept.db")]
    assert len(files) >= 3
    secrets = {
        *(key_of(name, index) for name in APIS for index in range(COUNT)),
        *(CLIENT_KEY, LATER_KEY, TOKEN, STORE_KEY, ENVELOPE_KEY, PASSWORD, MARK, PROMPT),
    }
    for where, data in told:
        for secret in secrets:
            assert secret.encode() not in data, (where, secret)
    for where, data in told:
        assert (KEPT_PROMPT.encode() in data) <= where.startswith("kept.db"), where
    assert any(KEPT_PROMPT.encode() in data for _, data in files)
