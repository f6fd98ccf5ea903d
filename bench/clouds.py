"""``python -m bench.clouds``: what the credentials and the framing of clouds cost, in CPU time.

- Building the request of an account and rendering its head: with a key, with a token that is
  obtained, and signed (Signature Version 4), for a small body and for one of 120 KB.
- An event of Messages that is passed on to a client: one of an event stream of AWS, and one of
  server-sent events.

Each figure is the least of several rounds, taken in turns, in microseconds.
"""

import argparse
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman import sse
from dragoman.accounts.credentials.account_credentials import Credentials
from dragoman.accounts.credentials.decide.refreshing import Credential
from dragoman.accounts.credentials.messages import Known, Obtain
from dragoman.accounts.credentials.place import Place, place_of
from dragoman.config import Account, parse_config
from dragoman.lab.simulator.clouds import event_message
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from dragoman.protocols import ProtocolName
from dragoman.serving.upstream_requests import UpstreamDefaults, UpstreamRequestBuilder
from dragoman.translation.library import translate_request
from dragoman.upstream.request import prepared, render_head

ACCOUNT = """
[[upstreams]]
name = "cloud"
protocol = "anthropic_messages"
base_url = "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic"
[[accounts]]
name = "one"
upstream = "cloud"
"""
AUTHORISED = {
    "key": 'key = "sk-of-the-account"',
    "token": 'credentials = { kind = "command", command = ["program"] }',
    "signed": 'credentials = { kind = "aws", access_key_id = "AKIDEXAMPLE", '
    'secret_access_key = "secret-of-the-account" }',
}
BODIES = {"small": b"x" * 100, "120 KB": b"x" * 120_000}
LIMITS_US = {
    ("token", "small"): 1.0,
    ("token", "120 KB"): 1.0,
    ("signed", "small"): 25.0,
    ("signed", "120 KB"): 130.0,
}
"""More than with a key, at most."""
LIMIT_RATIO = 1.4
"""An event of AWS to one of server-sent events, at most, both without what sockets take."""
EVENTS = 2000
CALLS = 2000
PROTOCOL: ProtocolName = "anthropic_messages"
ASKED = {
    "model": "m",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": "Hi"}],
}
CHUNK = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
BEGINNING: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)


async def _obtain(account: Account, place: Place, asked: Obtain) -> Credential:
    raise AssertionError("it is there already")


def builder(authorised: str) -> UpstreamRequestBuilder:
    """What builds the requests of an account, all that it needs at hand."""
    config = parse_config(ACCOUNT + authorised).config
    account, upstream = config.accounts[0], config.upstreams[0]
    held = Credentials(Owner().join(Handlers()), _obtain, lambda entry: None)
    entry = held.of(account, place_of(account, upstream))
    token = (("authorization", "Bearer a-token-that-was-obtained"),)
    entry.learn(Known(entry.id, Credential(time.time(), headers=token)))
    return UpstreamRequestBuilder(UpstreamDefaults(upstream), account, held)


def building(authorised: str, body: bytes) -> Callable[[], None]:
    """Builds requests."""
    made = builder(authorised)

    def build() -> None:
        for _ in range(CALLS):
            request = made.post("/messages", body, None, stream=True)
            render_head(request, prepared(request).lines)

    return build


def streaming(service: str) -> Callable[[], None]:
    """Passes events of a stream on to a client of Messages."""
    delta = {"type": "text_delta", "text": "of some words that a model has written"}
    frames = []
    for event in (*BEGINNING, {"type": "content_block_delta", "index": 0, "delta": delta}):
        text = msgspec.json.encode(event)
        payload = msgspec.json.encode({"bytes": b64encode(text).decode(), "p": "abcdefghijklm"})
        frame = sse.encode(text, str(event["type"]).encode())
        frames.append(frame if service == "plain" else event_message(CHUNK, payload))

    def stream() -> None:
        call = translate_request(PROTOCOL, PROTOCOL, ASKED, service=service)
        answer = call.open_stream()
        for frame in frames[:-1]:
            answer.feed(frame)
        for _ in range(EVENTS):
            answer.feed(frames[-1])

    return stream


def least(works: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The least CPU seconds of each, taken in turns."""
    found = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            began = time.process_time()
            work()
            found[name] = min(found[name], time.process_time() - began)
    return found


def main() -> int:
    """Print the figures; the status is 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    over = False
    write = sys.stdout.write
    for size, body in BODIES.items():
        works = {name: building(account, body) for name, account in AUTHORISED.items()}
        found = {name: seconds / CALLS * 1e6 for name, seconds in least(works, rounds).items()}
        write(f"request, {size}: with a key {found['key']:.1f} us")
        for name in ("token", "signed"):
            more = found[name] - found["key"]
            over |= more > LIMITS_US[name, size]
            write(f", {name} {more:+.1f} (at most {LIMITS_US[name, size]:+.0f})")
        write("\n")
    found = least({name: streaming(name) for name in ("plain", "bedrock_invoke")}, rounds)
    plain, aws = (seconds / EVENTS * 1e6 for seconds in found.values())
    over |= aws > LIMIT_RATIO * plain
    write(f"event: {plain:.2f} us, of an event stream {aws:.2f} us")
    write(f", {aws / plain:.2f} times (at most {LIMIT_RATIO})\n")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
