"""``python -m bench.traces``: what traces cost a request, in CPU time of the whole process.

The parts that a gateway calls for each request are called here alone, many times: with traces off,
on and not sampled, sampled at 10 %, and all of them, with a collector in another process that takes
what it is sent. What the thread does is in it, to the last that it sends.
"""

import argparse
import http.server
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from bench.processes import free_port
from dragoman.canonical.usage import Usage
from dragoman.config import Config, Traces, Upstream
from dragoman.edge.incoming import IncomingRequest
from dragoman.edge.record import Record
from dragoman.observability.finished import finished_request
from dragoman.observability.traces.exporting import SpanExporter
from dragoman.observability.traces.spans import TracedRequest
from dragoman.observability.traces.traces import Traces as Tracing
from dragoman.observability.traces.traces import peers_of
from dragoman.protocols import CODECS
from dragoman.translation import ClientRequest

PROTOCOL = "anthropic_messages"
BODY = b'{"model":"m","max_tokens":500,"temperature":1,"messages":[{"role":"user","content":"hi"}]}'


def collect(port: int) -> None:
    """In a process of its own: take what is sent, and forget it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the name is the library's
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def requests(tracing: Tracing | None, count: int, pause_s: float) -> Callable[[], None]:
    """A function that does what a gateway does for so many requests."""
    asked = ClientRequest(PROTOCOL, BODY)
    incoming = cast(
        "IncomingRequest",
        SimpleNamespace(
            headers={b"user-agent": b"bench/1"},
            path="/v1/messages",
            method="POST",
            status=200,
            request_id="req_0123456789",
            codec=CODECS[PROTOCOL],
        ),
    )
    usage = Usage(input=200, output=50, cached=64)

    def run() -> None:
        for number in range(count):
            record = Record()
            record.caller, record.model = "someone", "m"
            if tracing is not None:
                tracing.begin(incoming, record, asked.members)
            record.upstream = record.upstream_model = record.account = "up"
            record.attempts, record.usage = 1, usage
            if tracing is not None:
                now = time.time()
                ended = finished_request(incoming, record, now, 0.001, 0.0005, "/v1/messages")
                tracing.end(incoming, ended)
            if pause_s and not number % 100:
                time.sleep(100 * pause_s)

    return run


def traced(
    config: Config, sending: SpanExporter, results: dict[str, int], count: int, pause_s: float
) -> Callable[[], None]:
    """A function that traces so many requests, and waits until what is sampled is sent: that is
    counted in `results`."""
    added = 0

    def add(finished: TracedRequest) -> None:
        nonlocal added
        added += 1
        sending.add(finished)

    ask = requests(Tracing(config, add), count, pause_s)

    def run() -> None:
        nonlocal added
        added = sum(results.values())
        ask()
        while sum(results.values()) < added:
            time.sleep(0.05)

    return run


def microseconds(run: Callable[[], None], count: int, rounds: int) -> float:
    """CPU time of the process for one request."""
    found = []
    for _ in range(rounds):
        before = time.process_time()
        run()
        found.append((time.process_time() - before) / count * 1e6)
    return statistics.median(found)


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="bench.traces", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="requests in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--collect", type=int, metavar="PORT", help="only be a collector there")
    chosen = parser.parse_args()
    if chosen.collect:
        collect(chosen.collect)
        return
    port = free_port()
    command = [sys.executable, "-m", "bench.traces", "--collect", str(port)]
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command) as collector:
        try:
            time.sleep(1.0)
            _measure(chosen.count, chosen.rounds)
        finally:
            collector.terminate()


def _measure(count: int, rounds: int) -> None:
    upstream = Upstream(name="up", protocol=PROTOCOL, base_url="http://127.0.0.1:1")
    results: dict[str, int] = {}

    def note(result: str, number: int) -> None:
        results[result] = results.get(result, 0) + number

    bare = microseconds(requests(None, count, 0.0), count, rounds)
    for name, sample in (("not sampled", 0.0), ("sampled at 10 %", 0.1), ("all sampled", 1.0)):
        config = Config(upstreams=(upstream,), traces=Traces(enabled=True, sample=sample))
        sending = SpanExporter(peers_of(config), "both", note)
        sending.start()
        # Slow enough for the thread, as a gateway is.
        number, pause_s = (count, 0.0) if not sample else (count // 5, 0.0005 * sample)
        run = traced(config, sending, results, number, pause_s)
        found = microseconds(run, number, rounds)
        sending.close()
        sys.stdout.write(f"{name:16} {found - bare:6.2f} us a request\n")
    told: dict[str, Any] = dict(sorted(results.items()))
    sys.stdout.write(f"requests: {told}\n")


if __name__ == "__main__":
    main()
