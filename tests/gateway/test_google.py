"""Clients and upstreams of Google's generateContent over real sockets: limits that are nested and
spelled in two ways, keys in the query, refusals, and streams that are left."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Account, Client, Config, Secret, Upstream
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.facts import Facts, facts_of
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import PROTOCOLS, TIMEOUTS, config_for
from tests.gateway.http import KEY, Answer, Connection, call
from tests.gateway.limited import PRICE, limit
from tests.gateway.odd_upstream import answering

GOOGLE = "google_generate_content"
FACTS = facts_of()[GOOGLE]
INTERACTIONS = facts_of()["google_interactions"]
CAPPED, CLAMPED = "sk-of-a-capped-client", "sk-of-a-clamped-client"
ACCOUNTS = ("sk-sim-google-0", "sk-sim-google-1")
MOST = 300
UPSTREAMS = (*PROTOCOLS, "google")


def configured(base_url: str) -> Config:
    """Four upstreams, of which Google's has two accounts, and clients with output limits."""
    made = config_for(base_url)
    google = Upstream(name="google", protocol=GOOGLE, base_url=base_url, timeouts=TIMEOUTS)
    accounts = (
        Account(name=f"google-{number}", upstream="google", key=Secret(key))
        for number, key in enumerate(ACCOUNTS)
    )
    per_minute = limit("output_tokens", MOST, clamp=True)
    return replace(
        made,
        upstreams=(*made.upstreams, google),
        accounts=(*made.accounts, *accounts),
        prices=(PRICE,),
        clients=(
            *made.clients,
            Client(name="capped", key=Secret(CAPPED), max_output_tokens=MOST),
            Client(name="clamped", key=Secret(CLAMPED), limits=(per_minute,)),
        ),
    )


@pytest.fixture(scope="module")
def _serving(_simulator: RunningSimulator) -> Iterator[tuple[RunningGateway, list[Any]]]:
    lines: list[Any] = []
    config = configured(_simulator.base_url)
    with running_gateway(config, lambda line: lines.append(json.loads(line))) as gateway:
        yield gateway, lines


@pytest.fixture
def serving(
    _serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> tuple[RunningGateway, list[Any]]:
    """The gateway and the lines of its log."""
    _serving[1].clear()
    return _serving


def generate(
    gateway: RunningGateway,
    model: str,
    *,
    key: str = KEY,
    stream: bool = False,
    facts: Facts = FACTS,
    **more: Any,
) -> Answer:
    made = {**facts.body(model, "Hello", stream), **more}
    headers = {"x-goog-api-key": key}
    return call(gateway.base_url, "POST", facts.path(model, stream), made, headers, key=None)


def limit_sent(simulator: RunningSimulator) -> Any:
    """The output limit in the request that the upstream got."""
    sent = json.loads(simulator.last.body)
    names = ("max_completion_tokens", "max_output_tokens", "max_tokens")
    config = sent.get("generationConfig") or sent.get("generation_config") or {}
    found = [sent[name] for name in names if name in sent]
    return [
        *found,
        *(config[one] for one in config if one.replace("_", "").lower() == "maxoutputtokens"),
    ]


LIMITS: dict[str, dict[str, Any]] = {
    "nested": {"generationConfig": {"maxOutputTokens": 100_000}},
    "snake case, digits": {"generation_config": {"max_output_tokens": "100000"}},
    "no number": {"generationConfig": {"maxOutputTokens": "9" * 5000}},
    "none": {},
}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("config", LIMITS.values(), ids=LIMITS)
def test_a_nested_limit_is_lowered(
    serving: tuple[RunningGateway, list[Any]],
    simulator: RunningSimulator,
    upstream: str,
    config: dict[str, Any],
) -> None:
    """In whichever way it is spelled, for a key's own limit and for what is left of a minute."""
    gateway, _ = serving
    for key in (CAPPED, CLAMPED):
        answer = generate(gateway, f"{upstream}/sim-text?words=1", key=key, **config)
        assert answer.status == 200, answer.body
        (sent,) = limit_sent(simulator)
        assert sent <= MOST
        assert answer.headers.get("x-dragoman-clamped", str(sent)) == str(sent)


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_limit_of_interactions_is_lowered(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator, upstream: str
) -> None:
    given: tuple[dict[str, Any], ...] = (
        {},
        {"generation_config": {"max_output_tokens": 100_000}},
    )
    for key, more in itertools.product((CAPPED, CLAMPED), given):
        model = f"{upstream}/sim-text?words=1"
        answer = generate(serving[0], model, key=key, facts=INTERACTIONS, **more)
        assert answer.status == 200, answer.body
        (sent,) = limit_sent(simulator)
        assert sent <= MOST
        assert answer.headers.get("x-dragoman-clamped", str(sent)) == str(sent)


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_who_is_clamped_thinks_no_longer_than_it_may_answer(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator, upstream: str
) -> None:
    config = {"maxOutputTokens": 60_000, "thinkingConfig": {"thinkingBudget": 20_000}}
    answer = generate(
        serving[0], f"{upstream}/sim-text?words=1", key=CAPPED, generationConfig=config
    )
    assert answer.status == 200, answer.body
    assert limit_sent(simulator) == [MOST]
    assert b"20000" not in simulator.last.body


def test_a_key_in_the_query_goes_no_further(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Neither to the upstream nor to the log, nor a key that is refused to an error."""
    gateway, lines = serving
    for key, status in ((KEY, 200), ("sk-of-nobody", 401)):
        for stream in (False, True):
            path = FACTS.path("google/sim-text", stream)
            path += ("&" if "?" in path else "?") + f"key={key}"
            made = FACTS.body("google/sim-text", "Hello", stream)
            answer = call(gateway.base_url, "POST", path, made, key=None)
            assert answer.status == status, answer.body
            assert key.encode() not in answer.body
    simulator.wait_for(lambda: len(lines) >= 2)
    assert "key=" not in json.dumps(lines)
    assert KEY not in json.dumps(lines)
    assert "sk-of-nobody" not in json.dumps(lines)
    for request in simulator.requests:
        assert KEY not in repr(request)


def test_a_signature_that_is_refused_is_replaced_once(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """And no account is blamed."""
    gateway, _ = serving
    said = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "Zm9yZWlnbg=="}
    result = {"functionResponse": {"name": "f", "response": {"output": "ok"}}}
    model = "google/gemini-3.8-flash"
    made = FACTS.body(model, "Hello", False)
    made["contents"] += [{"role": "model", "parts": [said]}, {"role": "user", "parts": [result]}]
    told = call(gateway.base_url, "POST", FACTS.path(model, False), made)
    assert told.status == 200, told.body
    signatures = [
        request.json["contents"][1]["parts"][0]["thoughtSignature"]
        for request in simulator.requests
    ]
    assert signatures == ["Zm9yZWlnbg==", "skip_thought_signature_validator"]
    states = [gateway.app.pool.state(f"google-{number}") for number in range(len(ACCOUNTS))]
    assert all((state.cooling, state.disabled) == ({}, "") for state in states)


def asked(api: str, model: str, stream: bool) -> tuple[str, dict[str, Any]]:
    """Path and body of a client's request."""
    if api == "google":
        return FACTS.path(model, stream), FACTS.body(model, "Hello", stream)
    more: dict[str, Any] = {"store": False} if api == "responses" else {}
    return PATHS[api], body(api, model, stream=stream, **more)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", [*APIS, "google"])
def test_a_request_that_is_at_fault_stays_a_400(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator, api: str, stream: bool
) -> None:
    """No other account is asked, and none pays for it."""
    gateway, _ = serving
    path, made = asked(api, "google/sim-error?status=400&message=Told", stream)
    answer = call(gateway.base_url, "POST", path, made)
    assert answer.status == 400
    assert "Told" in answer.json["error"]["message"]
    assert len(simulator.requests) == 1
    states = [gateway.app.pool.state(f"google-{number}") for number in range(len(ACCOUNTS))]
    assert all((state.cooling, state.disabled) == ({}, "") for state in states)


@pytest.mark.parametrize(
    ("api", "upstream"), [("google", "chat"), ("google", "google"), ("messages", "google")]
)
def test_a_client_that_leaves_pays_for_what_was_streamed(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator, api: str, upstream: str
) -> None:
    gateway, lines = serving
    path, made = asked(api, f"{upstream}/sim-text?delay_ms=20&words=5000", True)
    with Connection(gateway.base_url) as client:
        client.send("POST", path, made, {"authorization": f"Bearer {KEY}"})
        assert client.head().status == 200
        seen = b""
        while len(seen) < 5000:
            seen += client.chunk()
    simulator.wait_for(lambda: bool(lines))
    (line,) = lines
    assert line["error"] == "client_gone"
    assert line["usage"]["input"] > 0
    assert 10 < line["usage"]["output"] < 2000
    assert float(line["cost_usd"]) > 0


SECRET = "sk-sim-quoted-by-an-upstream"
QUOTING = {
    "error": {
        "code": 400,
        "message": f"Bad request with {SECRET}.",
        "status": "INVALID_ARGUMENT",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.DebugInfo",
                "detail": f"[ORIGINAL ERROR] x-goog-api-key: {SECRET} at internal.host",
            }
        ],
    }
}


def test_what_a_server_tells_of_itself_stays_here() -> None:
    """Its errors' internal details and the keys that they quote, for each client, also where errors
    of its own protocol pass."""
    stream = b"data: " + json.dumps(QUOTING).encode() + b"\n\n"
    lines: list[bytes] = []
    with (
        answering(400, "application/json", json.dumps(QUOTING).encode()) as refusing,
        answering(200, "text/event-stream", stream) as breaking,
    ):
        made = configured(refusing)
        google = made.upstreams[-1]
        made = replace(
            made,
            upstreams=(google, replace(google, name="other", base_url=breaking)),
            accounts=tuple(
                Account(name=f"one-{name}", upstream=name, key=Secret(SECRET))
                for name in ("google", "other")
            ),
        )
        with running_gateway(made, lines.append) as gateway:
            for api in (*APIS, "google"):
                for model, streamed in (("google/m", False), ("google/m", True), ("other/m", True)):
                    path, question = asked(api, model, streamed)
                    answer = call(gateway.base_url, "POST", path, question)
                    assert b"Bad request with" in answer.body, answer.body
                    for word in (SECRET.encode(), b"DebugInfo", b"internal.host"):
                        assert word not in answer.body
    assert SECRET.encode() not in b"".join(lines)
    assert b"internal.host" not in b"".join(lines)
