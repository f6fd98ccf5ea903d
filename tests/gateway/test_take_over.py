"""One gateway follows another on the same address, under load: nobody is refused or cut off."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.processes import take_over
from dragoman.processes.listening import address_of, bind, deal
from tests.gateway.clients import PATHS, body, completed, stream_error
from tests.gateway.http import AUTH, Connection, call
from tests.gateway.load import Load
from tests.gateway.processes import ASKED, GatewayProcess, gateway_process
from tests.gateway.services import START_S, Services, needs_linux, services, until
from tests.gateway.slow_upstream import slow_upstream

pytestmark = needs_linux

PATIENT = "shutdown_grace_s = 60"
"""Streams of a second end by themselves, on however busy a machine."""


@pytest.fixture
def running(tmp_path: Path, simulator: RunningSimulator) -> Iterator[Services]:
    with services(tmp_path, simulator.base_url) as found:
        yield found


def under_load(port: int, change: Callable[[Load], Awaitable[None]]) -> Counter[str]:
    """What became of the requests that were made while something changed."""

    async def run() -> Counter[str]:
        load = Load(port)
        load.start()
        await load.answered("opening", "keeping", "streaming")
        await change(load)
        await load.answered("opening", "keeping", "streaming")
        return await load.stop()

    return asyncio.run(run())


def all_ok(outcomes: Counter[str]) -> bool:
    return set(outcomes) == {"opening ok", "keeping ok", "streaming ok"}


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (1, 3)])
def test_nobody_is_refused_or_cut_off(running: Services, before: int, after: int) -> None:
    """With streams, kept and new connections under way. After one that has fewer workers comes one
    that has more, and after that the other way round."""

    async def change(load: Load) -> None:
        for number in range(1 if before == after else 2):
            old = running.started[-1]
            await asyncio.to_thread(
                running.start,
                workers=after if number % 2 == 0 else before,
                settings=PATIENT,
                serves="took over",
            )
            status = await asyncio.to_thread(old.process.wait, START_S)
            assert status == 0, old.log()
            assert "another gateway took over" in old.log()
            await load.answered("opening", "keeping")

    running.start(workers=before, settings=PATIENT)
    until(lambda: serves(running.url))
    outcomes = under_load(running.port, change)
    assert all_ok(outcomes), outcomes
    for service in running.started:
        assert "Traceback" not in service.log()


def serves(url: str) -> bool:
    try:
        return call(url, "GET", "/readyz").status == 200
    except OSError:
        return False


def test_one_that_cannot_start_takes_nothing_over(running: Services) -> None:
    """A program that asks for the sockets and dies is as if it had not been."""
    old = running.start(workers=2)
    until(lambda: serves(running.url))

    async def change(load: Load) -> None:
        for _ in range(3):
            found = take_over.ask(("127.0.0.1", running.port))
            assert found is not None
            assert found.pid == old.pid
            for sock in found.sockets:
                assert address_of(sock) == ("127.0.0.1", running.port)
                sock.close()
            found._link.close()
            await load.answered("opening", "keeping")

    outcomes = under_load(running.port, change)
    assert all_ok(outcomes), outcomes
    assert old.process.poll() is None
    assert "took over" not in old.log()


def test_another_configuration_takes_nothing_over_unless_told_to(running: Services) -> None:
    old = running.start()
    until(lambda: serves(running.url))
    other = running.start(serves="Error", options=())
    assert other.process.wait(START_S) == 1
    in_use = f"in use, by process {old.pid}, which serves {running.folder / 'gateway-0.toml'}"
    assert in_use in other.log()
    assert serves(running.url)
    assert "took over" not in old.log()
    again = [sys.executable, "-m", "dragoman", "serve", "--config"]
    log = running.folder / "again.log"
    with log.open("wb") as errors:
        process = subprocess.Popen([*again, str(running.folder / "gateway-0.toml")], stderr=errors)
    running.stack.callback(process.wait, 60)
    running.stack.callback(process.terminate)
    assert old.process.wait(START_S) == 0
    assert "another gateway took over" in old.log()
    running.start(serves="took over")
    assert process.wait(START_S) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user as well")
def test_whoever_has_the_name_keeps_nobody_from_serving(running: Services) -> None:
    """Anyone on the machine may bind it."""
    name = f"\0dragoman/take-over/127.0.0.1/{running.port}"
    code = (
        "import os, socket, sys, time\n"
        "os.setuid(65534)\n"
        "held = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"held.bind({name!r})\n"
        "held.listen()\n"
        "print('held', flush=True)\n"
        "time.sleep(600)\n"
    )
    squatter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    running.stack.callback(squatter.wait, 60)
    running.stack.callback(squatter.kill)
    assert squatter.stdout is not None
    with squatter.stdout as said:
        assert said.readline() == b"held\n"
    service = running.start()
    until(lambda: serves(running.url))
    assert "another user has the name" in service.log()
    assert "no other gateway can take over" in service.log()


def test_only_one_at_a_time_is_given_the_sockets(running: Services) -> None:
    running.start()
    until(lambda: serves(running.url))
    first = take_over.ask(("127.0.0.1", running.port))
    assert first is not None
    with pytest.raises(OSError, match="did not hand over"):
        take_over.ask(("127.0.0.1", running.port))
    first._link.close()
    for sock in first.sockets:
        sock.close()
    until(lambda: asks_again(running.port))


def asks_again(port: int) -> bool:
    try:
        found = take_over.ask(("127.0.0.1", port))
    except OSError:
        return False
    assert found is not None
    found._link.close()
    for sock in found.sockets:
        sock.close()
    return True


def test_other_users_are_given_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with bind("127.0.0.1", 0) as sock:
        address = address_of(sock)
        offer = take_over.Offer([sock], lambda: None)
        offer.open(address)
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            link.settimeout(5)
            link.connect(f"\0dragoman/take-over/{address[0]}/{address[1]}")
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
            monkeypatch.setattr(struct, "unpack", lambda *_: (1, 54321, 1))
            offer.work()
            assert link.recv(100) == b""
            assert take_over.ask(address) is None
        finally:
            link.close()
            offer.close()


@needs_linux
def test_several_may_ask_for_a_reload_while_another_takes_over() -> None:
    """And only one takes over at a time; those who never say what they want make room."""
    told: list[Callable[[bytes], None]] = []
    with bind("127.0.0.1", 0) as sock, ExitStack() as stack:
        address = address_of(sock)
        offer = take_over.Offer([sock], lambda: None, told.append)
        offer.open(address)
        stack.callback(offer.close)

        def connected() -> socket.socket:
            link = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            link.settimeout(5)
            link.connect(f"\0dragoman/take-over/{address[0]}/{address[1]}")
            offer.work()
            return link

        silent = [connected() for _ in range(20)]
        assert silent[0].recv(1) == b""
        taker, other, *asking = (connected() for _ in range(5))
        taker.send(take_over._ASK)
        for link in asking:
            link.send(take_over._RELOAD)
        other.send(take_over._ASK)
        for _ in range(5):
            offer.work()
        assert other.recv(1) == b""
        assert len(told) == len(asking)
        for answer in told:
            answer(b"done")
        assert [link.recv(100) for link in asking] == [b"done"] * 3
        _, files, *_ = socket.recv_fds(taker, 100, 10)
        assert len(files) == 1
        os.close(files[0])


def test_streams_of_the_old_one_end_in_their_time(running: Services) -> None:
    """In an error in their own words when that is over, while the new one serves."""
    old = running.start(workers=2, settings="shutdown_grace_s = 1")
    until(lambda: serves(running.url))
    with Connection(running.url) as connection:
        made = body("chat", "chat/sim-text?delay_ms=50&words=5000", stream=True)
        connection.send("POST", PATHS["chat"], made, AUTH)
        assert connection.head().status == 200
        running.start(workers=2, serves="took over")
        for _ in range(5):
            assert serves(running.url)
        stream = b"".join(iter(connection.chunk, b""))
    error = stream_error("chat", stream)
    assert error is not None
    assert "shutting down" in error["message"]
    assert not completed("chat", stream)
    assert old.process.wait(timeout=60) == 0
    assert serves(running.url)


def as_systemd(file: int) -> list[str]:
    """Begins a command that is given the listening socket `file` as systemd would."""
    code = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); "
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); "
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    return [sys.executable, "-c", code, str(file)]


@pytest.mark.parametrize("workers", [1, 2])
def test_restart_with_sockets_of_systemd(running: Services, workers: int) -> None:
    """They stay open when the gateway ends, so those who come meanwhile wait for the next."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen(1024)
        running.port = sock.getsockname()[1]

        def start() -> None:
            running.start(
                workers=workers,
                settings=PATIENT,
                pass_fds=[sock.fileno()],
                prefix=as_systemd(sock.fileno()),
            )

        async def change(_: Load) -> None:
            old = running.started[-1]
            old.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(old.process.wait, START_S) == 0
            await asyncio.to_thread(start)

        start()
        until(lambda: serves(running.url))
        outcomes = under_load(running.port, change)
        assert all_ok(outcomes), outcomes


def test_sockets_of_systemd_are_held_to_the_same_rule(tmp_path: Path) -> None:
    """Without client keys only loopback, whatever the configuration says of the address."""
    config = tmp_path / "dragoman.toml"
    config.write_text('[storage]\npath = ""\n')
    with socket.socket() as sock:
        sock.bind(("0.0.0.0", 0))
        gateway = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
        done = subprocess.run(
            [*as_systemd(sock.fileno()), *gateway],
            pass_fds=[sock.fileno()],
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert done.returncode == 1
    assert "loopback only" in done.stderr


def test_sockets_are_dealt_to_workers() -> None:
    """Each has one of its own on the address; those of a gateway with more workers are all kept."""
    with bind("127.0.0.1", 0) as first:
        sockets = [first]
        try:
            dealt = deal(sockets, 3)
            assert [len(some) for some in dealt] == [1, 1, 1]
            assert len({address_of(sock) for sock in sockets}) == 1
            assert [len(some) for some in deal(sockets, 2)] == [2, 1]
            assert {id(sock) for some in deal(sockets, 2) for sock in some} == {
                id(sock) for sock in sockets
            }
        finally:
            for sock in sockets[1:]:
                sock.close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        assert deal([other], 3) == [[other]] * 3


LIMITED = """
[[clients]]
name = "{name}"
key = "sk-of-the-{name}"
[[clients.limits]]
kind = "requests"
amount = 10
window = "{window}"
"""
WINDOWS = {"long": "total", "short": "30m"}
"""Rows of usage tell of the one, and of the other a file that a gateway writes when it ends."""


@pytest.mark.parametrize("workers", [1, 2])
def test_what_the_former_gateway_served_last_counts_once_it_has_ended(
    tmp_path: Path, workers: int
) -> None:
    """Though the new one has read before what was used of a limit."""
    limited = "".join(LIMITED.format(name=name, window=each) for name, each in WINDOWS.items())
    newcomer = '[[clients]]\nname = "newcomer"\nkey = "sk-of-the-newcomer"\n'

    def takes_all(url: str) -> bool:
        """Whether the gateway that takes over, which alone knows this key, gets all connections."""
        answers = (call(url, "GET", "/v1/key", key="sk-of-the-newcomer") for _ in range(10))
        return all(one.status == 200 for one in answers)

    def asked(url: str, name: str) -> int:
        return call(url, "POST", "/v1/chat/completions", ASKED, key=f"sk-of-the-{name}").status

    def used(url: str, name: str) -> int:
        found: int = call(url, "GET", "/v1/key", key=f"sk-of-the-{name}").json["limits"][0]["used"]
        return found

    with ExitStack() as stack:
        upstream = stack.enter_context(slow_upstream())
        upstream.takes_s = 0.0

        def started(name: str, port: int | None, tables: str) -> GatewayProcess:
            gateway = gateway_process(
                tmp_path,
                upstream.url,
                {"a": "sk-a"},
                workers=workers,
                tables=tables,
                name=name,
                port=port,
                grace_s=60,
            )
            return stack.enter_context(gateway)

        former = started("former", None, limited)
        assert [asked(former.url, name) for name in WINDOWS] == [200, 200]
        upstream.held = held = threading.Event()
        last = [stack.enter_context(Connection(former.url)) for _ in WINDOWS]
        for connection, name in zip(last, WINDOWS, strict=True):
            headers = {"authorization": f"Bearer sk-of-the-{name}"}
            connection.send("POST", "/v1/chat/completions", ASKED, headers)
        until(lambda: upstream.now == {"Bearer sk-a": 2})
        upstream.held = None
        other = started("other", int(former.url.rpartition(":")[2]), limited + newcomer)
        until(lambda: takes_all(other.url))
        assert [asked(other.url, name) for name in WINDOWS] == [200, 200]
        held.set()
        assert [connection.answer().status for connection in last] == [200, 200]
        former.process.communicate(timeout=60)  # it ends by itself
        until(lambda: [used(other.url, name) for name in WINDOWS] == [3, 3])
        for name in WINDOWS:
            assert [asked(other.url, name) for _ in range(8)] == [200] * 7 + [429], name
