"""Requests on a socket: what they are to the gateway, and what becomes of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.config import Client, Config, OwnPrice, Secret, Storage, Upstream
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.responses.websocket import service
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.conftest import Start, config_for
from tests.gateway.http import KEY, call, events
from tests.gateway.odd_upstream import answering
from tests.websocket.client import (
    ENDS,
    PING,
    Closed,
    Socket,
    answer_id,
    frame,
    handshake,
    opened,
    text_of,
)
from tests.websocket.turns import KINDS, TOOL, outputs_for, said, settled


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_those_of_a_stream(gateway: RunningGateway, kind: str) -> None:
    """W6, W9: the same events in the same order as POST gives, each in a message; one terminal."""
    model = f"{kind}/sim-text?text=a+b&seed=7"
    body = {"model": model, "input": "hi", "stream": True, "store": False}
    posted = events(call(gateway.base_url, "POST", "/v1/responses", body).body)
    with opened(gateway) as sock:
        found = sock.turn(model)
    assert [event["type"] for event in found] == [name for name, _ in posted]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[-1]["response"].keys() == posted[-1][1]["response"].keys()
    assert all("stream_id" not in event for event in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("scenario", ["reasoning_tool", "parallel_tools"])
def test_a_conversation_reaches_the_upstream_as_by_post(
    simulator: RunningSimulator, tmp_path: Path, kind: str, scenario: str, stored: bool
) -> None:
    """W10, W13, W14, W28: ten turns of tools, reasoning and text, in which the client sends only
    what is new. Each body upstream is that of the same conversation by POST."""
    storage = Storage(path=str(tmp_path / "store.db"))
    config = replace(config_for(simulator.base_url), storage=storage)
    model = f'{kind}/sim-{scenario}?tool=look&args={{"at":"x"}}'
    settings: dict[str, Any] = {
        "tools": [TOOL],
        "instructions": "Be terse.",
        "reasoning": {"effort": "low", "summary": "auto"},
        "max_output_tokens": 4000,
    }

    def bodies() -> list[Any]:
        return [one.json for one in simulator.requests if one.method == "POST"]

    with running_gateway(config) as gateway:
        previous, given = None, [said("look")]
        for turn in range(10):
            asked = {"model": f"{model}&seed={turn}", "input": given, "stream": False, **settings}
            if previous:
                asked["previous_response_id"] = previous
            answer = call(gateway.base_url, "POST", "/v1/responses", asked)
            assert answer.status == 200, answer.body
            previous = answer.json["id"]
            given = outputs_for([{"response": answer.json}]) or [said(f"once more {turn}")]
        posted = bodies()
        simulator.app.clear()
        with opened(gateway) as sock:
            more: dict[str, Any] = dict(settings, store=stored, stream=True)
            given = [said("look")]
            for turn in range(10):
                found = sock.turn(f"{model}&seed={turn}", given, **more)
                more["previous_response_id"] = answer_id(found)
                given = outputs_for(found) or [said(f"once more {turn}")]
        over_socket = bodies()
    assert len(over_socket) == len(posted) == 10
    names = r'"(?:id|call_id|tool_call_id|tool_use_id)"\s*:\s*"([^"]+)"'
    ids = Counter(re.findall(names, simulator.last.body.decode()))
    assert max(ids.values()) == 2, "that of a call is that of its output, and of nothing else"
    for number, (sent, right) in enumerate(zip(over_socket, posted, strict=True)):
        assert settled(sent) == settled(right), number


@pytest.mark.parametrize("kind", KINDS)
def test_prewarming(gateway: RunningGateway, simulator: RunningSimulator, kind: str) -> None:
    """W12: an id, at any position; no call upstream, and `generate` never reaches one. W28: then
    an empty input."""
    model = f"{kind}/sim-text?text=warm"
    with opened(gateway) as sock:
        for _ in range(2):
            simulator.app.clear()
            found = sock.turn(model, "hello", generate=False, tools=[TOOL], instructions="Be.")
            assert [event["type"] for event in found] == ["response.created", "response.completed"]
            response = found[-1]["response"]
            assert (response["output"], response["usage"]["total_tokens"]) == ([], 0)
            assert (response["status"], response["instructions"]) == ("completed", "Be.")
            assert not simulator.requests
            turn = sock.turn(model, [], previous_response_id=response["id"])
            assert text_of(turn) == "warm"
            assert turn[-1]["response"]["previous_response_id"] == response["id"]
            assert "hello" in simulator.last.body.decode()
            assert "generate" not in simulator.last.json
    simulator.app.clear()
    with opened(gateway) as sock:
        [_, found_last] = sock.turn(model, "hello", prompt_cache_options={"prewarm": True})
        assert found_last["response"]["output"] == []
        assert not simulator.requests


def test_a_stored_prewarm_is_found_on_another_socket(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    """W12, and what is stored after it is found as well."""
    storage = Storage(path=str(tmp_path / "store.db"))
    gateway = start(replace(config_for(simulator.base_url), storage=storage))
    with opened(gateway) as sock:
        warm = answer_id(sock.turn("chat/sim-text", "first", store=True, generate=False))
        local = answer_id(sock.turn("chat/sim-text", "unstored", generate=False))
        after = answer_id(sock.turn("chat/sim-text", "on", store=True, previous_response_id=local))
    with opened(gateway) as sock:
        for previous, text in ((warm, "first"), (after, "unstored")):
            sock.turn("chat/sim-text", "second", previous_response_id=previous)
            said_so_far = [one["content"] for one in simulator.last.json["messages"]]
            assert (said_so_far[0], said_so_far[-1]) == (text, "second")
        lost = sock.turn("chat/sim-text", "second", previous_response_id=local)
        assert lost[-1]["error"]["code"] == "previous_response_not_found"


def test_a_parent_is_its_owners_alone(
    start: Start, simulator: RunningSimulator, tmp_path: Path
) -> None:
    """W5: another key's is not found, whether stored or remembered; its owner finds it on a new
    socket."""
    clients = tuple(Client(name=name, key=Secret(f"sk-test-{name}")) for name in ("one", "two"))
    settings = config_for(simulator.base_url, clients=clients)
    gateway = start(replace(settings, storage=Storage(path=str(tmp_path / "store.db"))))
    first, other = (
        Socket(gateway.base_url, handshake(authorization=f"Bearer sk-test-{name}"))
        for name in ("one", "two")
    )
    with first, other:
        stored = answer_id(first.turn("chat/sim-text", store=True))
        remembered = answer_id(first.turn("chat/sim-text"))
        for name in (stored, remembered):
            found = other.turn("chat/sim-text", previous_response_id=name)
            assert found[-1]["status"] == 400
            assert found[-1]["error"]["code"] == "previous_response_not_found"
            assert found[-1]["error"]["param"] == "previous_response_id"
        assert answer_id(first.turn("chat/sim-text", previous_response_id=stored))
    with Socket(gateway.base_url, handshake(authorization="Bearer sk-test-one")) as again:
        assert answer_id(again.turn("chat/sim-text", previous_response_id=stored))


def test_each_request_is_checked_and_counted(start: Start, simulator: RunningSimulator) -> None:
    """W4, W6: model permissions, usage, price and log of each, as of POST."""
    clients = (Client(name="tester", key=Secret(KEY), models=("chat/*",)),)
    lines: list[Any] = []
    config = config_for(simulator.base_url, clients=clients)
    config = replace(config, prices=(OwnPrice(model="*", input="1", output="2"),))
    with (
        running_gateway(config, lambda line: lines.append(msgspec.json.decode(line))) as gateway,
        opened(gateway) as sock,
    ):
        asked = {"input": 7, "output": 5}
        sock.turn("chat/sim-text?input=7&output=5")
        refused = sock.turn("messages/sim-text")
        assert refused[-1]["status"] == 404
        assert refused[-1]["error"]["code"] == "model_not_found"
        simulator.wait_for(lambda: len(lines) == 3)
    opening, first, second = lines
    assert (opening["route"], opening["status"]) == ("GET /v1/responses", 101)
    assert (first["route"], first["client"], first["stream"]) == (
        "POST /v1/responses",
        "tester",
        True,
    )
    assert {name: first["usage"][name] for name in asked} == asked
    assert first["cost_usd"] == "0.000017"
    assert (second["status"], second["error"]) == (404, "model_not_found")


def test_a_revoked_key_ends_the_connection(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W4: told in band, then closed with 1008."""
    gateway = start()
    with opened(gateway) as sock:
        sock.turn("chat/sim-text")
        ring = gateway.app._current.generation.keys.ring
        monkeypatch.setattr(ring, "_secrets", {})
        monkeypatch.setattr(ring, "_seen", {})
        [told] = sock.turn("chat/sim-text")
        assert (told["type"], told["status"]) == ("error", 401)
        assert told["error"]["code"] == "invalid_api_key"
        assert sock.closed().code == 1008


def test_errors_of_an_upstream_keep_their_names(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """W7, W8: its status, its words, and when to come again. Codes that clients act on are those of
    the upstream."""
    with opened(gateway) as sock:
        for code in ("previous_response_not_found", "websocket_connection_limit_reached"):
            [told] = sock.turn(f"responses/sim-error?status=400&code={code}")
            assert (told["status"], told["error"]["code"]) == (400, code)
        for kind in KINDS:
            model = f"{kind}/sim-error?status=400&message=no+way&code=string_above_max_length"
            [told] = sock.turn(model)
            assert (told["type"], told["status"]) == ("error", 400)
            assert "no way" in told["error"]["message"]
            assert isinstance(told["error"]["type"], str)
        [told] = sock.turn("responses/sim-error?status=429&retry_after=7")
        assert told["status"] in (429, 503)
        assert told["headers"]["retry-after"] == told["error"]["headers"]["retry-after"]
        assert int(told["headers"]["retry-after"]) <= 7


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"odd","type":"invalid_request_error","code":"c","resets_at":5}}',
        b'{"message":"odd","type":"invalid_request_error","code":"c"}',
    ],
    ids=["nested", "flat"],
)
def test_errors_in_odd_forms_are_read(start: Start, body: bytes) -> None:
    """W8"""
    with answering(400, "application/json", body) as base_url:
        gateway = start(base_url=base_url)
        with opened(gateway) as sock:
            [told] = sock.turn("responses/m")
    assert (told["status"], told["error"]["message"]) == (400, "odd")
    if b"resets_at" in body:
        assert told["error"]["resets_at"] == 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["truncate", "close", "reset", "error_in_stream"])
def test_a_broken_answer_has_one_terminal(gateway: RunningGateway, kind: str, fault: str) -> None:
    """W9, W10, W11: `response.failed` once the response has begun, nothing after it, and the socket
    goes on."""
    with opened(gateway) as sock:
        found = sock.turn(f"{kind}/sim-text?fault={fault}&after=6&words=30")
        assert found[-1]["type"] == "response.failed"
        assert found[-1]["response"]["error"]["code"]
        assert [event["type"] for event in found if event["type"] in ENDS] == ["response.failed"]
        numbers = [event["sequence_number"] for event in found]
        assert numbers == sorted(set(numbers))
        assert text_of(sock.turn(f"{kind}/sim-text?text=well")) == "well"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_cut_is_incomplete(gateway: RunningGateway, kind: str) -> None:
    """W11"""
    with opened(gateway) as sock:
        found = sock.turn(f"{kind}/sim-length")
        assert found[-1]["type"] == "response.incomplete"
        assert found[-1]["response"]["incomplete_details"]["reason"] == "max_output_tokens"
        previous = found[-1]["response"]["id"]
        assert text_of(sock.turn(f"{kind}/sim-text?text=on", previous_response_id=previous)) == "on"


def test_an_overloaded_account_is_followed_by_another(
    start: Start, simulator: RunningSimulator
) -> None:
    """W26: before the first event, as by POST, however the upstream is called. W24: what
    comes meanwhile is answered in its turn."""
    config = config_for(simulator.base_url, keys=("sk-sim-busy", "sk-sim-good"))
    for way in ("off", "on"):
        upstreams = tuple(replace(one, websocket=way) for one in config.upstreams)
        gateway = start(replace(config, upstreams=upstreams))
        busy = Fault("error", failure=Failure(503, code="server_is_overloaded"))
        simulator.app.keys.behaviours["sk-sim-busy"] = KeyBehaviour(busy)
        with opened(gateway) as sock:
            for number in range(6):
                sock.create(f"responses/sim-text?text=t{number}&first_ms=30&head_ms=30")
                sock.send({"type": "response.processed", "response_id": "resp_1"})
                sock.sock.sendall(frame(b"p", PING))
            assert [text_of(sock.events()) for _ in range(6)] == [f"t{n}" for n in range(6)]
        tried = {one.header("authorization") for one in simulator.requests}
        assert tried == {"Bearer sk-sim-busy", "Bearer sk-sim-good"}
        simulator.app.clear()


def test_nothing_is_sent_again_once_the_client_was_told_something(
    start: Start, simulator: RunningSimulator
) -> None:
    """W23: by POST; where the upstream is called over WebSocket, `test_socket_faults` has it."""
    gateway = start(keys=("sk-sim-one", "sk-sim-two"))
    with opened(gateway) as sock:
        for kind in KINDS:
            simulator.app.clear()
            found = sock.turn(f"{kind}/sim-text?fault=reset&after=6&words=30")
            assert found[-1]["type"] == "response.failed"
            assert len(simulator.requests) == 1


def _frames(*data: str) -> bytes:
    return "".join(f"{one}\n\n" for one in data).encode()


def test_finished_items_win_over_the_last_event(start: Start, simulator: RunningSimulator) -> None:
    """W15: what is remembered of an answer is what its events brought, with items that have no id
    of a call. W29: also where their JSON has line breaks."""
    call_item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "t"}
    item = {**call_item, "status": "completed", "input": "do"}
    response: dict[str, Any] = {"id": "resp_odd", "object": "response", "model": "m", "output": []}
    done = {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0}
    broken = json.dumps({**done, "item": item}, indent=1).replace("\n", "\ndata: ")
    both: dict[str, Any] = {"call_id": None, "execution": "server", "status": "completed"}
    search = {"type": "tool_search_call", "id": "tsc_1", "arguments": {}, **both}
    loaded = {"type": "tool_search_output", "id": "tso_1", "tools": [], **both}
    hosted = [
        json.dumps({**done, "sequence_number": place + 1, "output_index": place, "item": one})
        for place, one in enumerate((search, loaded), start=1)
    ]
    stream = _frames(
        'event: response.created\ndata: {"type":"response.created","sequence_number":0,'
        f'"response":{json.dumps({**response, "status": "in_progress"})}}}',
        f"event: response.output_item.done\ndata: {broken}",
        *(f"event: response.output_item.done\ndata: {one}" for one in hosted),
        'event: response.completed\ndata: {"type":"response.completed","sequence_number":4,'
        f'"response":{json.dumps({**response, "status": "completed"})}}}',
    )
    with answering(200, "text/event-stream", stream) as odd:
        config = config_for(simulator.base_url)
        strange = Upstream(name="odd", protocol="openai_responses", base_url=odd)
        account = replace(config.accounts[0], name="odd", upstream="odd")
        gateway = start(
            replace(
                config,
                upstreams=(*config.upstreams, strange),
                accounts=(*config.accounts, account),
            )
        )
        with opened(gateway) as sock:
            tools = [{"type": "custom", "name": "t", "description": "Does."}]
            found = sock.turn("odd/m", "go", tools=tools)
            items = [one["item"] for one in found if one["type"] == "response.output_item.done"]
            assert [items[0] | {"id": "ctc_1"}, *items[1:]] == [item, search, loaded]
            assert found[-1]["response"]["output"] == items
            output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
            more = {"tools": tools, "previous_response_id": "resp_odd"}
            assert answer_id(sock.turn("responses/sim-text", [output], **more))
    kinds = [one["type"] for one in simulator.last.json["input"]]
    assert kinds == [
        "message",
        "custom_tool_call",
        "tool_search_call",
        "tool_search_output",
        "custom_tool_call_output",
    ]
    assert simulator.last.json["input"][1]["input"] == "do"


def test_lanes(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    """W16: each event names its lane; lanes go side by side, one lane's requests after each other;
    a lane's name never reaches an upstream."""
    with opened(gateway) as sock:
        sock.create("chat/sim-text?text=slow+one&first_ms=400", stream_id="a")
        sock.create("chat/sim-text?text=second", stream_id="a")
        sock.create("messages/sim-text?text=quick", stream_id="b-1.x_")
        sock.create("responses/sim-text?text=plain")
        told: dict[str | None, list[dict[str, Any]]] = {}
        ends: list[str | None] = []
        while len(ends) < 4:
            event = sock.event()
            lane = event.get("stream_id")
            told.setdefault(lane, []).append(event)
            if event["type"] in ENDS:
                ends.append(lane)
        assert set(ends[:2]) == {None, "b-1.x_"}
        assert ends[2:] == ["a", "a"]
        kinds = [event["type"] for event in told["a"]]
        assert kinds.count("response.created") == 2
        assert kinds.index("response.completed") < len(kinds) - 1 - kinds[::-1].index(
            "response.created"
        )
    assert all("stream_id" not in one.json for one in simulator.requests)


def test_sixteen_at_once(gateway: RunningGateway, simulator: RunningSimulator) -> None:
    """W16: the seventeenth waits, and is answered."""
    with opened(gateway) as sock:
        for number in range(20):
            sock.create("chat/sim-text?text=x&head_ms=300", stream_id=f"lane{number}")
        simulator.wait_for(lambda: len(simulator.requests) == 16)
        ended = 0
        while ended < 20:
            ended += sock.event()["type"] == "response.completed"
    assert len(simulator.requests) == 20


def test_names_of_lanes(gateway: RunningGateway) -> None:
    """W16: bad ones are refused, and so is the thirty-third; the socket goes on."""
    with opened(gateway) as sock:
        for bad in ("", "a b", "x" * 257, "caf\xe9", 5):
            [told] = sock.turn("chat/sim-text", stream_id=bad)
            assert told["error"]["code"] == "invalid_stream_id"
            assert told["error"]["param"] == "stream_id"
            assert "stream_id" not in told
        for number in range(32):
            assert answer_id(sock.turn("chat/sim-text", stream_id=str(number)))
        [told] = sock.turn("chat/sim-text", stream_id="one more")
        assert told["error"]["code"] == "invalid_stream_id"
        [told] = sock.turn("chat/sim-text", stream_id="one-more")
        assert told["error"]["code"] == "websocket_stream_limit_reached"
        assert told["stream_id"] == "one-more"
        assert answer_id(sock.turn("chat/sim-text", stream_id="31"))
        assert answer_id(sock.turn("chat/sim-text"))


def test_a_lane_forgets_what_failed(gateway: RunningGateway) -> None:
    """The parent of a failed request of its lane is gone, a fork's is not; the next response of a
    lane takes the place of the one before."""
    with opened(gateway) as sock:

        def goes_on(previous: str, lane: str = "a") -> str:
            end = sock.turn("chat/sim-text", stream_id=lane, previous_response_id=previous)[-1]
            code = end.get("error", {}).get("code")
            return code or str(end["type"])

        first = answer_id(sock.turn("chat/sim-text", stream_id="a"))
        assert sock.turn("chat/sim-400", stream_id="fork", previous_response_id=first)[-1]["error"]
        assert goes_on(first, "fork") == "response.completed"
        assert sock.turn("chat/sim-400", stream_id="a", previous_response_id=first)[-1]["error"]
        assert goes_on(first) == "previous_response_not_found"
        second = answer_id(sock.turn("chat/sim-text", stream_id="a"))
        third = answer_id(sock.turn("chat/sim-text", stream_id="a"))
        assert goes_on(second) == "previous_response_not_found"
        third = answer_id(sock.turn("chat/sim-text", stream_id="a"))
        # It is there when its turn comes, whatever happens before.
        sock.create("chat/sim-text?head_ms=100", stream_id="a")
        sock.create("chat/sim-text", stream_id="a", previous_response_id=third)
        assert answer_id(sock.events())
        assert answer_id(sock.events())


def test_memory_is_bounded_and_given_back(
    start: Start, simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a connection remembers counts among the worker's memory, and goes with it."""
    monkeypatch.setattr(service, "MEMORY_BYTES", 100_000)
    gateway = start()
    budget = gateway.server.http.budget
    with opened(gateway) as sock:
        first = answer_id(sock.turn("chat/sim-text", "a" * 60_000, stream_id="a"))
        assert 60_000 <= budget.used <= 62_000
        second = answer_id(sock.turn("chat/sim-text", "b" * 60_000, stream_id="b"))
        assert 60_000 <= budget.used <= 62_000
        lost = sock.turn("chat/sim-text", "x", stream_id="a", previous_response_id=first)
        assert lost[-1]["error"]["code"] == "previous_response_not_found"
        assert answer_id(sock.turn("chat/sim-text", "x", previous_response_id=second))
        huge = answer_id(sock.turn("chat/sim-text", "c" * 100_001))
        lost = sock.turn("chat/sim-text", "x", previous_response_id=huge)
        assert lost[-1]["error"]["code"] == "previous_response_not_found"
    simulator.wait_for(lambda: not budget.used)


def test_steering_is_refused_in_its_own_words(gateway: RunningGateway) -> None:
    """W17: and never becomes a request."""
    with opened(gateway) as sock:
        sock.create("chat/sim-text?delay_ms=30&words=20", stream_id="a")
        begun = sock.event()["response"]["id"]
        item = {"role": "user", "content": "quick"}
        sock.send({"type": "response.steer", "previous_response_id": begun, "input": [item]})
        sock.send({"type": "response.steer", "previous_response_id": "resp_x", "input": "hurry"})
        sock.send({"type": "response.inject", "response_id": begun, "input": []})
        found = sock.events()
        steered, unknown, injected = [one for one in found if one["type"].endswith(".failed")]
        assert steered["type"] == unknown["type"] == "response.steer.failed"
        assert steered["steer"] == {"previous_response_id": begun, "input": [item]}
        assert steered["error"]["type"] == "invalid_request_error"
        assert steered["error"]["code"] == "steering_not_supported"
        assert steered["stream_id"] == "a"
        assert unknown["error"]["code"] == "response_not_found"
        assert unknown["steer"]["input"] == "hurry"
        assert injected["type"] == "response.inject.failed"
        assert injected["response_id"] == begun
        assert found[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("{", None),
        ("[]", None),
        ("7", None),
        ("{}", "type"),
        ('{"type": 5}', "type"),
        ('{"type":"session.update"}', "type"),
        ('{"type":"response.append","input":[]}', "type"),
        ('{"type":"response.create","input":"x"}', "model"),
        ('{"type":"response.create","model":"chat/sim-text","input":5}', "input"),
        ('{"type":"response.create","model":"m","background":true}', "background"),
        ('{"type":"response.create","model":"m","generate":"no"}', "generate"),
        ('{"type":"response.create","model":"m","stream":1}', "stream"),
    ],
)
def test_what_is_no_request_is_told_so(
    gateway: RunningGateway, message: str, param: str | None
) -> None:
    """W7, W11: a numeric status, a type and a message; the socket and what runs on it go on."""
    with opened(gateway) as sock:
        sock.send(message)
        told = sock.event()
        assert (told["type"], told["status"]) == ("error", 400)
        assert told["error"]["type"] == "invalid_request_error"
        assert told["error"]["message"]
        if param:
            assert told["error"]["param"].startswith(param)
        assert text_of(sock.turn("chat/sim-text?text=well")) == "well"


def test_fields_that_only_sockets_have(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """W28: taken, whatever they say, and not sent on; `response.processed` is answered by
    nothing."""
    with opened(gateway) as sock:
        metadata = {"thread_id": "t", "ws_request_header_x": "1"}
        more: dict[str, Any] = {
            "stream": True,
            "background": False,
            "client_metadata": metadata,
        }
        assert text_of(sock.turn("responses/sim-text?text=a&compatible=1", **more)) == "a"
        assert simulator.last.json["client_metadata"] == metadata
        assert not simulator.last.json.keys() & {"type", "stream_id", "generate", "background"}
        sock.send({"type": "response.processed", "response_id": "resp_1"})
        more = {"stream": False, "background": None, "generate": True, "stream_id": None}
        assert text_of(sock.turn("chat/sim-text?text=b", **more)) == "b"


def test_losses_are_told(gateway: RunningGateway) -> None:
    """What HTTP tells in a header stands in the first event."""
    with opened(gateway) as sock:
        found = sock.turn("messages/sim-text", top_logprobs=3)
        assert "top_logprobs:knob" in found[0]["headers"]["x-dragoman-losses"]
        assert "headers" not in sock.turn("messages/sim-text")[0]


def test_a_policy_of_the_handshake_holds_for_each_request(gateway: RunningGateway) -> None:
    """W6"""
    with opened(gateway, x_dragoman_policy="strict") as sock:
        [told] = sock.turn("messages/sim-text", top_logprobs=3)
        assert told["status"] == 400
        assert told["error"]["param"] == "top_logprobs"


def test_too_many_requests_wait(gateway: RunningGateway) -> None:
    with opened(gateway) as sock:
        for number in range(70):
            sock.create(f"chat/sim-text?head_ms={0 if number else 1000}&text=x")
        codes: list[str | None] = []
        while len(codes) < 70:
            event = sock.event()
            if event["type"] in ENDS:
                codes.append(event.get("error", {}).get("code"))
        assert codes.count("websocket_queue_full") == 5
        assert codes.count(None) == 65


def test_responses_that_the_upstream_keeps(start: Start, simulator: RunningSimulator) -> None:
    """Where storing is left to the service, it is; what is not to be stored is remembered here."""
    config: Config = config_for(simulator.base_url)
    upstreams = tuple(
        replace(one, stored_responses="pass") if one.name == "responses" else one
        for one in config.upstreams
    )
    gateway = start(replace(config, upstreams=upstreams))
    with opened(gateway) as sock:
        stored = answer_id(sock.turn("responses/sim-text", store=True))
        found = sock.turn("responses/sim-text", store=True, previous_response_id=stored)
        assert simulator.last.json["previous_response_id"] == stored
        assert answer_id(found)
        mine = answer_id(sock.turn("responses/sim-text", "one"))
        assert answer_id(sock.turn("responses/sim-text", "two", previous_response_id=mine))
        assert "previous_response_id" not in simulator.last.json
        assert [one.get("role") for one in simulator.last.json["input"]] == [
            "user",
            "assistant",
            "user",
        ]


def test_a_closed_socket_takes_nothing(gateway: RunningGateway) -> None:
    with opened(gateway) as sock:
        sock.close()
        with pytest.raises((Closed, OSError)):
            sock.turn("chat/sim-text")


def test_the_shape_of_all_that_is_sent_is_checked(
    gateway: RunningGateway, simulator: RunningSimulator
) -> None:
    """What goes on from an answer is checked by itself, what was only prepared once it is sent."""
    good = "responses/sim-text?compatible=1"
    with opened(gateway) as sock:
        first = answer_id(sock.turn(good))
        [told] = sock.turn(good, [said("x"), {"role": 5}], previous_response_id=first)
        assert (told["status"], told["error"]["param"]) == (400, "input[1].role")
        first = answer_id(sock.turn(good))
        [told] = sock.turn(good, "x", previous_response_id=first, temperature="warm")
        assert (told["status"], told["error"]["param"]) == (400, "temperature")
        simulator.app.clear()
        warm = answer_id(sock.turn(good, [{"role": 5}], generate=False))
        [told] = sock.turn(good, "x", previous_response_id=warm)
        assert (told["status"], told["error"]["param"]) == (400, "input[0].role")
        assert not simulator.requests
