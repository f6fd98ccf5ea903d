"""``python -m bench.accept``: how evenly workers take connections, and what a restart loses.

Bare servers on uvloop, without HTTP: it is the kernel and the loop that are compared. Workers share
one listening socket, or have one each on the same port (SO_REUSEPORT). A worker that ends closes
its socket, or leaves it open in the process that follows.
"""

import asyncio
import multiprocessing
import signal
import socket
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import cast

import uvloop

from dragoman.processes.listening import address_of, bind, deal

ROUNDS = 5
CONNECTIONS = 200
BACKLOG = 2048
CHURN_S = 3.0


class _Greeter(asyncio.Protocol):
    """Says a byte to whoever connects, as its number is asked for."""

    def __init__(self, number: int) -> None:
        self.number = number

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.WriteTransport, transport).write(bytes([self.number]))

    def data_received(self, data: bytes) -> None:
        return


def serve(number: int, sockets: list[socket.socket], ready: Connection) -> None:
    """One worker, until it is told to stop."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stopped.set)
        servers = [
            await loop.create_server(lambda: _Greeter(number), sock=sock, backlog=BACKLOG)
            for sock in sockets
        ]
        ready.send(number)
        await stopped.wait()
        for server in servers:
            server.close()
        for sock in sockets:
            sock.close()
        await asyncio.sleep(0.3)

    uvloop.run(main())


def start(dealt: list[list[socket.socket]]) -> list[ForkProcess]:
    """A worker for each list of sockets, all of which serve."""
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe()
    running = [
        context.Process(target=serve, args=(number, sockets, its))
        for number, sockets in enumerate(dealt)
    ]
    for process in running:
        process.start()
    for _ in running:
        mine.recv()
    return running


def stop(running: list[ForkProcess]) -> None:
    """End workers."""
    for process in running:
        process.terminate()
    for process in running:
        process.join()


async def burst(port: int) -> list[int]:
    """The workers that took connections made at the same time."""
    links = await asyncio.gather(*(_connect(port) for _ in range(CONNECTIONS)))
    return await _numbers(links)


async def paced(port: int) -> list[int]:
    """The workers that took connections made one after the other, all kept."""
    links = []
    for _ in range(CONNECTIONS):
        links.append(await _connect(port))
        await asyncio.sleep(0.001)
    return await _numbers(links)


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def _numbers(links: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> list[int]:
    numbers = [(await reader.readexactly(1))[0] for reader, _ in links]
    for _, writer in links:
        writer.close()
    return numbers


def evenness(count: int) -> None:
    """Print the share of the worker that took most, and of the one that took fewest."""
    for name in ("one socket for all", "a socket for each"):
        for pattern in (burst, paced):
            most, fewest = [], []
            for _ in range(ROUNDS):
                sockets = [bind("127.0.0.1", 0)]
                dealt = deal(sockets, count) if name == "a socket for each" else [sockets] * count
                running = start(dealt)
                numbers = uvloop.run(pattern(address_of(sockets[0])[1]))
                stop(running)
                for sock in sockets:
                    sock.close()
                taken = [numbers.count(number) / len(numbers) for number in range(count)]
                most.append(max(taken))
                fewest.append(min(taken))
            print(  # noqa: T201
                f"{count} workers, {name:18} {pattern.__name__:6} "
                f"most {statistics.median(most) * 100:3.0f} %, "
                f"fewest {statistics.median(fewest) * 100:3.0f} % of {CONNECTIONS}"
            )


async def churn(port: int, replace: Callable[[], None]) -> tuple[int, int, int]:
    """Connections made, refused, and reset before a byte came, while `replace` is called again and
    again."""
    made = refused = reset = 0
    end = time.monotonic() + CHURN_S

    async def client() -> None:
        nonlocal made, refused, reset
        while time.monotonic() < end:
            made += 1
            try:
                reader, writer = await _connect(port)
                try:
                    await reader.readexactly(1)
                finally:
                    writer.close()
            except ConnectionRefusedError:
                refused += 1
            except (OSError, asyncio.IncompleteReadError):
                reset += 1

    clients = asyncio.gather(*(client() for _ in range(64)))
    while not clients.done():
        await asyncio.sleep(0.3)
        await asyncio.to_thread(replace)
    await clients
    return made, refused, reset


def restarts(kept: bool) -> None:
    """Print what two workers lose that are replaced again and again, by others with the same
    sockets, or with sockets of their own on the port."""
    first = bind("127.0.0.1", 0)
    dealt = deal([first], 2)
    running = start(dealt)
    port = address_of(first)[1]

    def replace() -> None:
        nonlocal running, dealt
        following = dealt if kept else [[beside(some[0])] for some in dealt]
        after = start(following)
        if not kept:
            for some in dealt:
                some[0].close()
        stop(running)
        running, dealt = after, following

    made, refused, reset = uvloop.run(churn(port, replace))
    stop(running)
    name = "sockets handed over" if kept else "sockets bound anew (SO_REUSEPORT)"
    print(f"{name:35} {made} connections: {refused} refused, {reset} reset")  # noqa: T201


def beside(first: socket.socket) -> socket.socket:
    """A further socket on the address of `first`."""
    sock = socket.socket(first.family, first.type, first.proto)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(first.getsockname())
    return sock


def main() -> None:
    """Measure everything."""
    for count in (2, 4):
        evenness(count)
    for kept in (False, True):
        restarts(kept)


if __name__ == "__main__":
    main()
