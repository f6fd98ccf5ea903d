"""`python -m tools.money.reserved`: whether what is reserved for a request is at least what it is
billed then, for bodies that are damaged and spelled about.

Each body is read as the gateway reads it: it is refused, or something is reserved for it. What is
sent upstream is then read as a server does to which case makes no difference and of which the last
of several members counts, and billed by the simulator for the longest answer that it may have. No
socket is opened.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from dragoman.canonical.errors import DragomanError
from dragoman.config import Config, OwnPrice, Route, Upstream
from dragoman.config.limits import Limit
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.limits import within_limits
from dragoman.lab.simulator.reading import READERS
from dragoman.lab.simulator.script import Protocol, Scenario, Text
from dragoman.lab.simulator.usage import counts
from dragoman.lab.simulator.validation.chat import check_chat
from dragoman.lab.simulator.validation.messages import check_messages
from dragoman.lab.simulator.validation.responses import check_responses
from dragoman.lab.simulator.view import View
from dragoman.limits.estimates import FIRST_OUTPUT
from dragoman.limits.rules import Rule, Rules
from dragoman.prices.loading import load_prices
from dragoman.serving.limits.use import ExpectedUse, asked_output
from dragoman.serving.routing import Router
from dragoman.translation import Call, ClientRequest

PROTOCOLS: Final[Mapping[str, Protocol]] = {
    "openai_chat": "chat",
    "anthropic_messages": "messages",
    "openai_responses": "responses",
}
_CONFIG: Final = Config(
    upstreams=tuple(
        Upstream(name=name, protocol=protocol, base_url="http://127.0.0.1:9")
        for protocol, name in PROTOCOLS.items()
    ),
    routes=tuple(
        Route(match=f"{name}-*", upstream=name, model="sim") for name in PROTOCOLS.values()
    ),
    prices=(
        OwnPrice(model="sim", input="1", output="5"),
        OwnPrice(model="dear", input="9", output="9"),
    ),
)
_LIMITS: Final = (
    Limit(kind="tokens", amount=10**9, window="day"),
    Limit(kind="cost", amount="1000", window="day"),
)
_LONGEST: Final = Scenario((Text("x" * 400_000),))
"""An answer of 100,000 tokens, which is cut at the request's output limit."""


class Found(Struct):
    """What became of the bodies: how many were refused, and were billed, and the first that were
    billed more than was reserved."""

    refused: int = 0
    billed: int = 0
    leaks: list[str] = []


class Property:
    """The property, with everything that is made once."""

    def __init__(self) -> None:
        self._router, self._prices = Router(_CONFIG), load_prices(_CONFIG)
        self._rules = Rules([Rule(one, "k") for one in _LIMITS])
        self._expected = ExpectedUse()

    def check(self, client: str, upstream: str, body: bytes) -> str | None:
        """Why a body is billed more than was reserved for it, empty if it is not; None if it is
        refused."""
        try:
            request = ClientRequest(client, body)
            target = self._router.resolve(request.model)
            expected, _ = self._expected.of(self._rules, "k", request, target, self._prices, 2e9)
            call = Call(request, upstream, target.settings)
        except DragomanError:
            return None
        try:
            view = _as_read(upstream, call.body)
        except (ApiError, ArithmeticError, KeyError, LookupError, TypeError, ValueError):
            return None
        given, output = billed(view, asked_output(request))
        if view.model != target.model:
            return f"{view.model} is asked, {target.model} is charged"
        if view.protocol == "chat" and view.stream and not view.include_usage:
            return "no usage is told"
        if given > expected.input or output > expected.output:
            return f"{given} + {output} of {expected.input} + {expected.output}"
        return ""


def billed(view: View, asked: int | None) -> tuple[int, int]:
    """The tokens of input and output that the simulator bills at most. Without an output limit of
    the client an answer is as long as most are."""
    output = FIRST_OUTPUT
    if asked is not None:
        cut = within_limits(_LONGEST, replace(view, stop_sequences=()))
        output = counts(cut, 0).output
    return view.prompt_tokens, output * view.choices


def _as_read(upstream: str, body: bytes) -> View:
    protocol = PROTOCOLS[upstream]
    read = json.loads(body, object_pairs_hook=_folded)
    if protocol == "chat":
        most = read.pop("n_predict", None)
        if isinstance(most, int | float):
            # As llama.cpp reads it: before all others, and a negative one as none.
            read.pop("max_completion_tokens", None)
            read["max_tokens"] = int(most) if most >= 0 else None
        check_chat(read, compatible=True)
    elif protocol == "messages":
        check_messages(read, {"anthropic-version": "2026-10-21"}, "org", counting=False)
    else:
        check_responses(read, "org", frozenset(), compatible=True)
    return READERS[protocol](read, "org")


def _folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name.casefold(): value for name, value in pairs}


# --- bodies -------------------------------------------------------------------------------------


def bodies(rng: random.Random) -> tuple[str, bytes]:
    """The protocol of a client, and a body with something odd in it."""
    client = rng.choice(list(PROTOCOLS))
    upstream = rng.choice(list(PROTOCOLS.values()))
    request = _request(rng, client, f"{upstream}-m")
    for _ in range(rng.randint(0, 3)):
        rng.choice(_ODDITIES)(rng, client, request)
    text = _spelled(rng, request, rng.random() < 0.5)
    body = text.encode(errors="replace")
    return client, _damaged(rng, body) if rng.random() < 0.3 else body


_LIMIT_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "openai_chat": ("max_tokens", "max_completion_tokens"),
    "anthropic_messages": ("max_tokens",),
    "openai_responses": ("max_output_tokens",),
}
_WORDS: Final = ("word ", "base64 ", "\\u0041", "日本語", "{}", '"', "aGVsbG8", "\n", "0123456789")


def _text(rng: random.Random) -> str:
    return rng.choice(_WORDS) * int(10 ** rng.uniform(0, 3.3))


def _request(rng: random.Random, client: str, model: str) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    for _ in range(rng.randint(1, 3)):
        content: Any = _text(rng)
        if rng.random() < 0.5:
            content = [_part(rng, client) for _ in range(rng.randint(1, 3))]
        turns.append({"role": "user", "content": content})
    request: dict[str, Any] = {"model": model}
    if client == "openai_responses":
        request |= {"input": turns, "store": False}
    else:
        request |= {"messages": turns}
    if client == "anthropic_messages" or rng.random() < 0.7:
        request[rng.choice(_LIMIT_NAMES[client])] = int(10 ** rng.uniform(1.3, 4.5))
    if rng.random() < 0.4:
        request["stream"] = True
    if client == "openai_chat" and rng.random() < 0.3:
        request["n"] = rng.randint(1, 4)
    return request


def _part(rng: random.Random, client: str) -> dict[str, Any]:
    kind = rng.choice(("text", "text", "inline", "link"))
    if kind == "text":
        return {
            "type": "input_text" if client == "openai_responses" else "text",
            "text": _text(rng),
        }
    url = "http://a.example/b.png"
    data = "aGVsbG8h" * rng.randint(1, 2000)
    if client == "anthropic_messages":
        source: dict[str, Any] = {"type": "url", "url": url}
        if kind == "inline":
            source = {"type": "base64", "media_type": "image/png", "data": data}
        return {"type": "image", "source": source}
    place = url if kind == "link" else f"data:image/png;base64,{data}"
    if client == "openai_responses":
        return {"type": "input_image", "image_url": place}
    return {"type": "image_url", "image_url": {"url": place}}


def _higher(rng: random.Random, client: str, request: dict[str, Any]) -> None:
    """Another output limit, or one in other letters."""
    name = rng.choice(_LIMIT_NAMES[client])
    high = rng.choice((10**4, 60_000, 10**6, 10**30, 6e4, "60000", -1, None, 0))
    request[rng.choice((name, name.upper(), name.title(), f" {name}", "n_predict"))] = high


def _other_model(rng: random.Random, client: str, request: dict[str, Any]) -> None:
    request[rng.choice(("MODEL", "Model", "model "))] = "dear"


def _more_answers(rng: random.Random, client: str, request: dict[str, Any]) -> None:
    request[rng.choice(("n", "N"))] = rng.choice((2, 64, 128, 10**6, "4"))


def _no_usage(rng: random.Random, client: str, request: dict[str, Any]) -> None:
    request["stream"] = True
    request[rng.choice(("stream_options", "Stream_Options"))] = rng.choice(
        (
            {"include_usage": False},
            {"INCLUDE_USAGE": False},
            {"include_usage": True, "Include_Usage": False},
            None,
            {},
        )
    )


def _tools(rng: random.Random, client: str, request: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {_text(rng)[:50]: {"description": _text(rng)}}}
    if client == "anthropic_messages":
        tool: dict[str, Any] = {"name": "f", "input_schema": schema}
    elif client == "openai_chat":
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    else:
        tool = {"type": "function", "name": "f", "parameters": schema}
    request["tools"] = [tool] * rng.randint(1, 3)


def _unlimited(rng: random.Random, client: str, request: dict[str, Any]) -> None:
    for name in _LIMIT_NAMES[client]:
        request.pop(name, None)


_ODDITIES: Final = (_higher, _higher, _other_model, _more_answers, _no_usage, _tools, _unlimited)


def _spelled(rng: random.Random, value: Any, is_odd: bool) -> str:
    """JSON text, with blanks, escapes and members that are said twice where it `is_odd`."""
    if isinstance(value, dict):
        members = list(value.items())
        if is_odd and members and rng.random() < 0.1:
            name, _ = rng.choice(members)
            members.insert(rng.randrange(len(members) + 1), (name, rng.choice((1, 10**6, "x"))))
        parts = [
            f"{_name(rng, name, is_odd)}{_blanks(rng, is_odd)}:{_spelled(rng, inner, is_odd)}"
            for name, inner in members
        ]
        return "{" + ",".join(parts) + _blanks(rng, is_odd) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_spelled(rng, inner, is_odd) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def _name(rng: random.Random, name: str, is_odd: bool) -> str:
    if not is_odd or rng.random() < 0.8:
        return json.dumps(name)
    letters = [f"\\u{ord(one):04x}" if rng.random() < 0.3 else one for one in name]
    return f'"{"".join(letters)}"'


def _blanks(rng: random.Random, is_odd: bool) -> str:
    return " \n\t"[: rng.randint(0, 3)] if is_odd and rng.random() < 0.2 else ""


def _damaged(rng: random.Random, body: bytes) -> bytes:
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(body))
        cut = rng.choice((0, 1, 1, 3))
        body = (
            body[:at] + rng.choice((b"", b"0", b'"', b"}", b"[", b"\\", b"e9")) + body[at + cut :]
        )
    return body


def run(count: int, seed: int) -> Found:
    """Check so many bodies."""
    found, prove = Found(), Property()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        client, body = bodies(rng)
        try:
            model = ClientRequest(client, body).model
        except DragomanError:
            found.refused += 1
            continue
        spoken = model.partition("-")[0]
        upstream = next((one for one, name in PROTOCOLS.items() if name == spoken), client)
        leak = prove.check(client, upstream, body)
        if leak is None:
            found.refused += 1
            continue
        found.billed += 1
        if leak and len(found.leaks) < 20:
            found.leaks.append(f"{number} {client} to {upstream}: {leak}: {body[:400]!r}")
    return found


def main() -> int:
    """Check, and print what was found."""
    parser = argparse.ArgumentParser(prog="tools.money.reserved", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    found = run(chosen.count, chosen.seed)
    for leak in found.leaks:
        sys.stdout.write(f"{leak}\n")
    outcome = Counter(refused=found.refused, billed=found.billed, leaks=len(found.leaks))
    sys.stdout.write(f"{dict(outcome)}\n")
    return 1 if found.leaks else 0


if __name__ == "__main__":
    sys.exit(main())
