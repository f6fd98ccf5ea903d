"""`python -m tools.load.silence`: upstreams that say nothing for ten minutes within an answer,
while clients wait over WebSocket and over POST, all with the settings that are the default.

Over WebSocket an upstream that answers pings may think for so long; over POST nothing tells it from
one that is gone, so that its answer ends as an error after `timeouts.idle_s`, however it is asked.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.gateway.http import KEY, events
from tests.gateway.processes import gateway_process, simulator_process
from tests.websocket.client import Socket

_TABLES = """
[[upstreams]]
name = "sockets"
protocol = "openai_responses"
base_url = "{upstream}/v1"
websocket = "on"
[[upstreams]]
name = "responses"
protocol = "openai_responses"
base_url = "{upstream}/v1"
[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{upstream}"
[[accounts]]
name = "s"
upstream = "sockets"
key = "sk-sim-s"
[[accounts]]
name = "r"
upstream = "responses"
key = "sk-sim-r"
[[accounts]]
name = "m"
upstream = "messages"
key = "sk-sim-m"
"""
UPSTREAMS = ("sockets", "responses", "messages", "chat")


class Waited(NamedTuple):
    """How an answer ended, how many seconds after the request, and for how long nothing came at
    most."""

    end: str
    seconds: float
    silent_s: float


def over_socket(url: str, model: str) -> Waited:
    """Wait as Codex does."""
    began = last = time.monotonic()
    silent_s = 0.0
    with Socket(url) as sock:
        sock.sock.settimeout(700)
        sock.create(model)
        while True:
            event = sock.event()
            now = time.monotonic()
            silent_s, last = max(silent_s, now - last), now
            if event["type"] in ("response.completed", "response.failed", "error"):
                return Waited(event["type"], now - began, silent_s)


def over_post(url: str, model: str) -> Waited:
    """Wait as an SDK does that was told to."""
    began = last = time.monotonic()
    silent_s, seen = 0.0, b""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=700)
    body = json.dumps({"model": model, "input": "hi", "stream": True, "store": False})
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    connection.request("POST", "/v1/responses", body, headers)
    answer = connection.getresponse()
    while data := answer.read1(65536):
        now = time.monotonic()
        silent_s, last = max(silent_s, now - last), now
        seen += data
    return Waited(events(seen)[-1][1]["type"], time.monotonic() - began, silent_s)


def main() -> int:
    """Wait, and print how each answer ended; the status is 1 if one did not as it should."""
    parser = argparse.ArgumentParser(prog="tools.load.silence", description=__doc__)
    parser.add_argument("--seconds", type=float, default=605.0, help="of silence")
    seconds = parser.parse_args().seconds
    found: dict[tuple[str, str], Waited] = {}
    with tempfile.TemporaryDirectory() as folder, simulator_process() as (upstream, _):
        tables = _TABLES.format(upstream=upstream)
        with gateway_process(
            Path(folder), f"{upstream}/v1", {"c": "sk-sim-c"}, tables=tables
        ) as gateway:

            def wait(client: str, name: str) -> None:
                ask = over_socket if client == "websocket" else over_post
                model = f"{name}/sim-text?fault=silence&after=8&ms={seconds * 1000:.0f}"
                found[client, name] = ask(gateway.url, model)

            threads = [
                threading.Thread(target=wait, args=(client, name))
                for client in ("websocket", "post")
                for name in UPSTREAMS
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    wrong = 0
    for (client, name), waited in sorted(found.items()):
        goes_on = name == "sockets" or seconds < 600
        wrong += (waited.end == "response.completed") is not goes_on
        sys.stdout.write(
            f"{client} to {name}: {waited.end} after {waited.seconds:.0f} s, "
            f"at most {waited.silent_s:.0f} s between two messages\n"
        )
    return int(bool(wrong) or len(found) < 2 * len(UPSTREAMS))


if __name__ == "__main__":
    sys.exit(main())
