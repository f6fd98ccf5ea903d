"""``python -m bench.lag``: for how long large bodies and answers keep everybody else waiting.

The gateway serves in the loop of this process, and beside it a callback that wants to be called
every millisecond. Clients and upstream are other processes. Told for each body is how late that
callback was:

- ``late``: at most, and in 99 of 100 calls, in milliseconds. What else the machine does is in it.
- ``own``: the CPU time that this process took, all threads together, between two calls, at most.
  Whatever else the machine does, it can have kept its own loop waiting for no longer than that.

``small`` is a request of 100 bytes, for comparison. The answers are streams for a Responses client,
whose last events repeat the text; that of each is one delta of 11 bytes after another.
"""

import argparse
import asyncio
import gzip
import http.client
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench import targets
from bench.answers import DELTA_TEXT, PATHS
from bench.targets import CLIENT_KEY, Cores
from dragoman.config import read_config
from dragoman.processes.listening import bind
from dragoman.server.allocation import configure_allocator
from dragoman.server.server import Server, build_app

TICK_S = 0.001
MODELS = ("bench-chat", "bench-messages")


def _body(messages: list[object], **more: object) -> bytes:
    return json.dumps({"max_tokens": 9, "messages": messages, **more}).encode()


def _text(text: str) -> bytes:
    return _body([{"role": "user", "content": text}])


_CODE = 'def f(x):\n    return {"a": "b"}\n' * 60


def _agent() -> bytes:
    """10 MB of an agent's work: 5,000 calls of tools and what came of them."""
    turns: list[object] = [{"role": "user", "content": "go on"}]
    for number in range(5000):
        call = {"id": f"t{number}", "name": "read", "input": {"path": "/a/b", "line": number}}
        said = [{"type": "text", "text": "Let me see."}, {"type": "tool_use", **call}]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": _CODE}
        turns += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": [result]},
        ]
    tool = {"name": "read", "input_schema": {"type": "object"}}
    return _body(turns, tools=[tool])


def _picture() -> bytes:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 3_800_000}
    return _body([{"role": "user", "content": [{"type": "image", "source": source}]}])


BODIES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "small": ("100 bytes", lambda: _text("hi")),
    "agent": ("agent's history, 10 MB", _agent),
    "picture": ("picture, 30 MB", _picture),
    "text": ("one text of code, 30 MB", lambda: _text(_CODE * 13_000)),
    "messages": (
        "700,000 messages, 24 MB",
        lambda: _body([{"role": "user", "content": "x"}] * 700_000),
    ),
    "lists": (
        "8 million lists, 24 MB",
        lambda: _text("").replace(b'""', b"[" + b"[]," * 8_000_000 + b"[]]"),
    ),
}


def _answer(megabytes: float, *, store: bool) -> bytes:
    deltas = int(megabytes * 1e6 / len(DELTA_TEXT))
    return json.dumps({"input": f"bench-e{deltas}-r0", "stream": True, "store": store}).encode()


ANSWERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "answer": ("answer, 1.5 MB", lambda: _answer(1.5, store=False)),
    "stored": ("the same, stored", lambda: _answer(1.5, store=True)),
    "long answer": ("answer, 6 MB", lambda: _answer(6, store=False)),
    "long stored": ("the same, stored", lambda: _answer(6, store=True)),
}


def ask(port: int, which: str, model: str, packed: bool) -> None:
    """In a process of its own: one request; tells its status and seconds."""
    data = (BODIES | ANSWERS)[which][1]()
    data = data.replace(b"{", b'{"model":"%b",' % model.encode(), 1)
    path = PATHS["openai_responses" if which in ANSWERS else "anthropic_messages"]
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"}
    if packed:
        data = gzip.compress(data, 1)
        headers["content-encoding"] = "gzip"
    sys.stdin.readline()
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", path, data, headers)
    answer = connection.getresponse()
    answer.read()
    sys.stdout.write(f"{answer.status} {time.perf_counter() - started}\n")


@dataclass
class Watch:
    """Notes how late the loop is."""

    late: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            wanted, used = time.perf_counter() + TICK_S, time.process_time()
            await asyncio.sleep(TICK_S)
            self.late.append(time.perf_counter() - wanted)
            self.own.append(time.process_time() - used)


async def measured(port: int, which: str, model: str, packed: bool) -> str:
    """A row of the table."""
    command = ["-m", "bench.lag", "--ask", str(port), which, model]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        *(["--packed"] if packed else []),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    await asyncio.sleep(2.0)  # It makes its body.
    watch = Watch()
    watching = asyncio.create_task(watch.run())
    told, _ = await process.communicate(b"\n")
    await asyncio.sleep(0.05)
    watching.cancel()
    status, seconds = told.split()
    late = sorted(watch.late)
    most, usual, own = late[-1], late[int(len(late) * 0.99)], max(watch.own)
    name = (BODIES | ANSWERS)[which][0] + (", as gzip" if packed else "")
    return (
        f"{name:32} {model:16} {status.decode():>6} {float(seconds):7.2f} s"
        f" {most * 1000:9.1f} {usual * 1000:7.1f} {own * 1000:7.1f}\n"
    )


async def run(config: Path, chosen: Sequence[str], rounds: int) -> None:
    """Serve as a worker of a gateway does, and measure each body."""
    configure_allocator()
    app = build_app(read_config(config).config, log=None)
    started = asyncio.Event()
    server = Server(app, started.set)
    with bind("127.0.0.1", 0) as sock:
        serving = asyncio.create_task(server.serve([sock]))
        await started.wait()
        port = sock.getsockname()[1]
        titles = f"{'body':32} {'to':16} {'status':>6} {'took':>9} {'late most':>9} {'p99':>7}"
        sys.stdout.write(f"{titles} {'own':>7}\n")
        for which in chosen:
            for model in MODELS + (("bench-chat-tls",) if which == "picture" else ()):
                for packed in (False, True) if which in ("messages", "picture") else (False,):
                    for _ in range(rounds):
                        sys.stdout.write(await measured(port, which, model, packed))
                        sys.stdout.flush()
        server.stop()
        await serving


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="bench.lag", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=(*BODIES, *ANSWERS), metavar="WHAT")
    parser.add_argument("--ask", nargs=3, metavar=("PORT", "BODY", "MODEL"), help="one request")
    parser.add_argument("--packed", action="store_true", help="as gzip")
    chosen = parser.parse_args()
    if chosen.ask:
        ask(int(chosen.ask[0]), chosen.ask[1], chosen.ask[2], chosen.packed)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with targets.upstreams(folder, Cores(None, None)) as up:
            os.environ["SSL_CERT_FILE"] = str(up.cert)
            config = folder / "dragoman.toml"
            made = targets.configuration(1, up) + f'[storage]\npath = "{folder}/stored.db"\n'
            # The bodies of many values are to be translated.
            config.write_text(
                made.replace("[server]", "[server]\nbody_limit_values = 100_000_000", 1)
            )
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(run(config, chosen.only or (*BODIES, *ANSWERS), chosen.rounds))


if __name__ == "__main__":
    main()
