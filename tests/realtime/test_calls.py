"""Client secrets, and calls whose media go elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from msgspec.structs import replace

from dragoman.config import Secret, Storage
from dragoman.endpoints.realtime import calls
from dragoman.lab.simulator.realtime import Call as SimulatedCall
from dragoman.lab.simulator.realtime import Realtime
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.endpoints.serving import config, upstream
from tests.endpoints.serving import serving as endpoints
from tests.gateway.http import KEY, TRUSTS_NOBODY, Answer, call
from tests.gateway.limited import limit
from tests.gateway.odd_upstream import answering
from tests.realtime.serving import answers, fresh, gateway_over, session, turn, until
from tests.websocket.client import Socket, handshake, refused

SDP = "v=0\r\no=- 2 2 IN IP4 127.0.0.1\r\n"
SESSION = {"type": "realtime", "model": "voice", "instructions": "Be brief. \u00e9"}


@pytest.fixture
def serving(
    simulator: RunningSimulator, tmp_path: Path
) -> Iterator[tuple[RunningGateway, list[Any]]]:
    """A gateway with a store, over an upstream with two accounts."""
    fresh(simulator)
    with gateway_over(simulator, keys=("sk-one", "sk-two"), folder=tmp_path) as running:
        yield running


def client(gateway: RunningGateway, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=gateway.openai_base_url,
        api_key=key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=TRUSTS_NOBODY),
    )


def secret_of(gateway: RunningGateway, session: dict[str, Any] = SESSION) -> Any:
    asked: Any = session
    with client(gateway) as sdk:
        return sdk.realtime.client_secrets.create(session=asked)


def test_a_client_secret_is_the_gateways_own(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Client secrets: opaque, at most ten minutes, of one route, and with its session."""
    gateway, lines = serving
    answer = call(
        gateway.base_url,
        "POST",
        "/v1/realtime/client_secrets",
        {"expires_after": {"anchor": "created_at", "seconds": 7200}, "session": SESSION},
    )
    given = answer.json
    assert given["value"].startswith("ek_drg_")
    assert given["expires_at"] <= time.time() + 600
    assert answer.headers["x-dragoman-base-url"] == "http://localhost/v1"
    (vendors,) = simulator.app.realtime.secrets
    assert vendors not in answer.body.decode()
    asked = next(one for one in simulator.requests if one.path.endswith("client_secrets"))
    assert asked.json["session"] == {**SESSION, "model": "sim-voice"}
    # It opens a session without naming a model, and no other.
    for query in ("", "model=sim-other", "call_id=rtc_x"):
        offer = handshake(
            sec_websocket_protocol=f"realtime, openai-insecure-api-key.{given['value']}"
        )
        del offer["authorization"]
        with Socket(gateway.base_url, offer, path=f"/v1/realtime?{query}") as sock:
            shown = sock.event()["session"]
            assert (shown["model"], shown["instructions"]) == ("sim-voice", "Be brief. \u00e9")
            turn(sock)
    for asked_for, headers in simulator.app.realtime.handshakes:
        assert asked_for == {"model": "sim-voice"}
        assert headers["authorization"] == f"Bearer {vendors}"
    until(lambda: len(answers(lines)) == 3)
    assert {one["client"] for one in answers(lines)} == {"tester"}
    assert {one["account"] for one in answers(lines)} == {
        next(one["account"] for one in lines if "client_secrets" in one["route"])
    }


def test_a_client_secret_is_for_nothing_else(
    serving: tuple[RunningGateway, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client secrets: no other endpoint takes one, and none that has expired or was never given."""
    gateway, _ = serving
    value = secret_of(gateway).value
    for path, body in (
        ("/v1/realtime/client_secrets", {"session": SESSION}),
        ("/v1/chat/completions", {"model": "voice", "messages": []}),
    ):
        answer = call(
            gateway.base_url, "POST", path, body, headers={"authorization": f"Bearer {value}"}
        )
        assert answer.status == 401
    for wrong in (f"{value}x", "ek_drg_", "ek_sim_0"):
        offer = handshake(authorization=f"Bearer {wrong}")
        assert refused(gateway, offer, "/v1/realtime").status == 401
    monkeypatch.setattr(calls, "LIFE_S", 0.0)
    offer = handshake(authorization=f"Bearer {secret_of(gateway).value}")
    assert refused(gateway, offer, "/v1/realtime").status == 401


def test_client_secrets_are_shared_by_instances(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Client secrets: one that an instance gave is good at another with the same store, as long
    as its client may call."""
    fresh(simulator)
    with (
        gateway_over(simulator, folder=tmp_path) as (one, _),
        gateway_over(simulator, folder=tmp_path) as (other, _),
    ):
        value = secret_of(one).value
        with session(other, "", authorization=f"Bearer {value}") as sock:
            turn(sock)


def test_an_answer_that_breaks_off_is_the_upstreams_fault(tmp_path: Path) -> None:
    storage = Storage(path=str(tmp_path / "store.db"), key=Secret("key-of-the-store-16"))
    with answering(200, "application/json", b"{", missing=9) as base_url:
        made = replace(config(upstream("vendor", base_url)), storage=storage)
        asked = {"session": {**SESSION, "model": "my-model"}}
        with endpoints(made) as (gateway, lines):
            answer = call(gateway.base_url, "POST", "/v1/realtime/client_secrets", asked)
            assert answer.status in (502, 503)
            until(lambda: lines)
            assert lines[0]["at_fault"] == "upstream"


def test_secrets_need_a_store(simulator: RunningSimulator) -> None:
    fresh(simulator)
    with gateway_over(simulator) as (gateway, _), pytest.raises(openai.NotFoundError) as raised:
        secret_of(gateway)
    assert raised.value.code == "unsupported_endpoint"


def offers(gateway: RunningGateway, value: str) -> list[Answer]:
    """A call begun in each form: multipart by the SDK, raw by a key, and raw by a secret."""
    asked: Any = SESSION
    with client(gateway) as sdk:
        made = sdk.realtime.calls.with_raw_response.create(sdp=SDP, session=asked)
    found = [Answer(made.status_code, dict(made.headers), made.content)]
    for key, query in ((KEY, "?model=voice"), (value, "")):
        path, headers = f"/v1/realtime/calls{query}", {"content-type": "application/sdp"}
        found.append(call(gateway.base_url, "POST", path, SDP.encode(), headers, key=key))
    return found


def test_a_call_is_begun_in_every_form(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Calls: SDP both ways, `Location` of the gateway, and its usage by a second connection."""
    gateway, lines = serving
    vendor = simulator.app.realtime
    found = offers(gateway, secret_of(gateway).value)
    for number, answer in enumerate(found):
        assert answer.status == 201
        assert answer.body.startswith(b"v=0\r\n")
        assert answer.headers["content-type"] == "application/sdp"
        assert answer.headers["location"] == f"/v1/realtime/calls/rtc_sim{number}"
    asked = [one for one in simulator.requests if one.path == "/v1/realtime/calls"]
    assert b'"model":"sim-voice"' in asked[0].body.replace(b": ", b":")
    assert SDP.encode() in asked[0].body
    assert [one.query for one in asked] == ["", "model=sim-voice", ""]
    assert [one.body for one in asked[1:]] == [SDP.encode()] * 2
    assert asked[2].header("authorization") == f"Bearer {next(iter(vendor.secrets))}"
    for name, one in vendor.calls.items():
        (watching,) = one.watching
        watching.clock.loop.call_soon_threadsafe(watching.begin)
        watching.clock.loop.call_soon_threadsafe(watching.answer)
        assert {"call_id": name} in [query for query, _ in vendor.handshakes]
    until(lambda: len(answers(lines)) == 3)
    assert {one["usage"]["input"] for one in answers(lines)} == {150}


def test_what_is_asked_of_a_call_goes_to_its_account(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Calls: accept, reject, refer and hangup are bound to the account; others know of no call."""
    gateway, _ = serving
    vendor = simulator.app.realtime
    name = offers(gateway, secret_of(gateway).value)[1].headers["location"].rpartition("/")[2]
    with client(gateway) as sdk:
        asking = sdk.realtime.calls
        asking.accept(name, type="realtime", model="voice")
        asking.refer(name, target_uri="tel:+1")
        asking.reject(name)
        asking.hangup(name)
        for unknown in ("rtc_unknown", f"{name}x"):
            with pytest.raises(openai.NotFoundError):
                asking.hangup(unknown)
    assert vendor.calls[name].actions == ["accept", "refer", "reject", "hangup"]
    keys = {one.key for one in simulator.requests if f"/calls/{name}" in one.path}
    begun = [one.key for one in simulator.requests if one.path == "/v1/realtime/calls"][1]
    assert keys == {begun}
    with session(gateway, f"call_id={name}"):
        pass


def test_a_call_that_begins_at_the_vendor_is_counted_from_when_it_is_accepted(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Calls of SIP, where one client has one account; else nobody knows whose they are."""
    vendor = fresh(simulator)
    for name in ("rtc_sip", "rtc_busy"):
        vendor.calls[name] = SimulatedCall({"model": "sim-voice"})
    with (
        gateway_over(simulator, keys=("sk-one", "sk-two")) as (gateway, _),
        client(gateway) as sdk,
        pytest.raises(openai.NotFoundError, match="not known whose it is") as raised,
    ):
        sdk.realtime.calls.accept("rtc_sip", type="realtime", model="voice")
    assert raised.value.code == "call_id_not_found"
    assert not vendor.calls["rtc_sip"].actions
    with gateway_over(simulator, folder=tmp_path) as (gateway, lines), client(gateway) as sdk:
        sdk.realtime.calls.reject("rtc_busy", status_code=486)
        sdk.realtime.calls.accept("rtc_sip", type="realtime", model="voice")
        asked = next(one for one in simulator.requests if one.path.endswith("/accept"))
        assert asked.json["model"] == "sim-voice"
        (watching,) = vendor.calls["rtc_sip"].watching
        watching.clock.loop.call_soon_threadsafe(watching.begin)
        watching.clock.loop.call_soon_threadsafe(watching.answer)
        until(lambda: answers(lines))
        assert answers(lines)[0]["usage"]["input"] == 150
        sdk.realtime.calls.hangup("rtc_sip")
        with pytest.raises(openai.NotFoundError):
            sdk.realtime.calls.hangup("rtc_none")
    assert vendor.calls["rtc_busy"].actions == ["reject"]
    assert not vendor.calls["rtc_busy"].watching
    assert vendor.calls["rtc_sip"].actions[:2] == ["accept", "hangup"]


def test_a_call_ends_with_the_budget_and_with_the_gateway(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Calls: sideband usage; no call goes on that nobody counts."""
    vendor = fresh(simulator)
    asked: Any = SESSION
    budget = limit("cost", "0.02", "total")
    with gateway_over(simulator, limits=(budget,), folder=tmp_path) as (gateway, lines):
        with client(gateway) as sdk:
            sdk.realtime.calls.create(sdp=SDP, session=asked)
        (watching,) = vendor.calls["rtc_sim0"].watching

        def talk() -> None:
            for _ in range(9):
                watching.begin()
                watching.answer()

        watching.clock.loop.call_soon_threadsafe(talk)
        until(lambda: vendor.calls["rtc_sim0"].actions == ["hangup"])
        assert answers(lines)
    with gateway_over(simulator, folder=tmp_path) as (gateway, lines):
        with client(gateway) as sdk:
            sdk.realtime.calls.create(sdp=SDP, session=asked)
        assert not vendor.calls["rtc_sim1"].actions
    assert vendor.calls["rtc_sim1"].actions == ["hangup"]


def test_nothing_of_a_secret_can_be_read_in_the_store(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator, tmp_path: Path
) -> None:
    gateway, lines = serving
    value = secret_of(gateway).value
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for secret in (value, *simulator.app.realtime.secrets):
        assert secret.encode() not in kept
        assert secret not in json.dumps(lines)


def test_a_call_that_nobody_could_count_is_ended(
    serving: tuple[RunningGateway, list[Any]],
    simulator: RunningSimulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Calls: without its second connection a call does not go on, and its client is told."""
    gateway, _ = serving
    vendor = simulator.app.realtime
    monkeypatch.setattr(vendor, "handshake_fault", 500)
    asked: Any = SESSION
    with client(gateway) as sdk, pytest.raises(openai.APIStatusError) as raised:
        sdk.realtime.calls.create(sdp=SDP, session=asked)
    assert raised.value.status_code >= 500
    assert {tuple(one.actions) for one in vendor.calls.values()} == {("hangup",)}


def test_a_client_secret_that_the_vendor_refuses_is_no_fault_of_the_account(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Whoever has one, and comes late, must not put the account out of use for all."""
    vendor = fresh(simulator)
    with gateway_over(simulator, folder=tmp_path) as (gateway, _):
        value = secret_of(gateway).value
        vendor.secrets.clear()
        offer = handshake(authorization=f"Bearer {value}")
        assert refused(gateway, offer, "/v1/realtime").status == 401
        answer = call(
            gateway.base_url,
            "POST",
            "/v1/realtime/calls",
            SDP.encode(),
            {"content-type": "application/sdp"},
            key=value,
        )
        assert answer.status == 401
        with session(gateway) as sock:
            turn(sock)


def test_a_call_has_the_model_that_was_looked_up(
    serving: tuple[RunningGateway, list[Any]], simulator: RunningSimulator
) -> None:
    """Calls: no body names another model than the one whose route, price and right were found."""
    gateway, _ = serving
    name = offers(gateway, secret_of(gateway).value)[1].headers["location"].rpartition("/")[2]
    with client(gateway) as sdk:
        sdk.realtime.calls.accept(name, type="realtime", model="sim-dear")
    assert simulator.last.json == {"type": "realtime", "model": "sim-voice"}
    before = len(simulator.requests)
    for media, made in (
        ("application/json", {"sdp": SDP, "session": {"model": "sim-dear"}}),
        ("application/x-www-form-urlencoded", b"sdp=v%3D0&session=%7B%7D"),
        ("text/plain", SDP.encode()),
    ):
        path = "/v1/realtime/calls?model=voice"
        answer = call(gateway.base_url, "POST", path, made, {"content-type": media})
        assert answer.status == 415, media
    assert len(simulator.requests) == before


def test_a_vendors_secret_is_hidden_however_it_is_written(
    serving: tuple[RunningGateway, list[Any]],
    simulator: RunningSimulator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway, _ = serving

    async def answer(_: Any, context: Any, status: int, body: bytes, *others: Any) -> None:
        headers = [("content-type", "application/json"), *context.common_headers()]
        await context.reply.whole(status, headers, body.replace(b'"ek_', b'"\\u0065k_'))

    monkeypatch.setattr(Realtime, "_answer", answer)
    path = "/v1/realtime/client_secrets"
    given = call(gateway.base_url, "POST", path, {"session": SESSION}).json
    assert given["value"].startswith("ek_drg_")
    with session(gateway, "", authorization=f"Bearer {given['value']}") as sock:
        turn(sock)
