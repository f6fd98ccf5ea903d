"""The invented protocol through the real gateway, in every pair with the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import Struct
from msgspec.structs import replace

from dragoman import offline
from dragoman.admin.workbench.translations import translations
from dragoman.config import (
    Account,
    Admin,
    Client,
    Config,
    Route,
    Secret,
    Storage,
    Upstream,
    parse_config,
)
from dragoman.config.limits import Limit
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.observability.recorder import is_charged
from dragoman.protocols import CODECS, register, unregister
from dragoman.protocols.settings import make_capabilities, make_options, setting
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.translation import ClientRequest
from tests.facts import facts_of
from tests.gateway.conftest import PROTOCOLS, SERVER, TIMEOUTS
from tests.gateway.http import KEY, Answer, call
from tests.invented import facts as parley_facts
from tests.invented import parley
from tests.invented.service import REFUSED, Service, parley_service

ASKED = "What is the weather in Paris?"
GOOD = "pk-good-account-0000000002"

CLIENTS = ("chat", "messages", "responses")


@pytest.fixture(scope="module")
def protocol() -> Iterator[None]:
    """The protocol, registered with one call."""
    register(parley.CODEC)
    yield
    unregister(parley.NAME)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with parley_service() as running:
        yield running


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(
    protocol: None, service: Service, simulator: RunningSimulator
) -> Iterator[RunningGateway]:
    upstreams = [
        Upstream(name=name, protocol=spoken, base_url=simulator.base_url, timeouts=TIMEOUTS)
        for name, spoken in PROTOCOLS.items()
    ]
    own = Upstream(name="own", protocol=parley.NAME, base_url=service.base_url, timeouts=TIMEOUTS)
    accounts = [
        Account(name=f"{name}-0", upstream=name, key=Secret("sk-sim-account")) for name in PROTOCOLS
    ]
    accounts += [
        Account(name="own-refused", upstream="own", key=Secret(REFUSED), priority=-1),
        Account(name="own-good", upstream="own", key=Secret(GOOD)),
    ]
    config = Config(
        server=SERVER,
        clients=(Client(name="tester", key=Secret(KEY)),),
        upstreams=(*upstreams, own),
        accounts=tuple(accounts),
    )
    with running_gateway(config) as running:
        yield running


def ask_parley(
    gateway: RunningGateway, model: str, body: dict[str, Any], verb: str = "answer", key: str = KEY
) -> Answer:
    """Call as a Parley client does."""
    headers = {"x-parley-key": key}
    path = f"/p1/models/{model}:{verb}{'?as=frames' if verb == 'pieces' else ''}"
    return call(gateway.base_url, "POST", path, body, headers, key=None)


def human(text: str = "Hello") -> dict[str, Any]:
    return {"lines": [{"from": "human", "text": text}]}


def pieces_of(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n") if line]


def pieces(body: bytes) -> list[dict[str, Any]]:
    """What a Parley stream said; it must end with the final frame, and hold nothing but data."""
    assert parley_facts.FACTS.ends(body)
    return pieces_of(body)


def whole(gateway: RunningGateway, model: str, body: dict[str, Any], *, stream: bool) -> Any:
    """The answer that a Parley client puts together."""
    if not stream:
        answer = ask_parley(gateway, model, body)
        assert answer.status == 200, answer.body
        return answer.json
    answer = ask_parley(gateway, model, body, "pieces")
    assert answer.headers["content-type"].startswith("text/event-stream")
    joined: dict[str, Any] = {"says": []}
    for frame in pieces(answer.body):
        joined["says"] += frame.pop("says", [])
        joined |= frame
    return joined


def said(answer: Any) -> str:
    return parley_facts.FACTS.text_of(answer)


PATHS = {"chat": "/chat/completions", "messages": "/messages", "responses": "/responses"}
FACTS = {name: facts_of()[protocol] for name, protocol in PROTOCOLS.items()}


def vendor_body(
    client: str, text: str, *, model: str, stream: bool = False, **more: Any
) -> dict[str, Any]:
    return {**FACTS[client].body(model, text, stream), **more}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("upstream", CLIENTS)
def test_its_clients_are_answered_by_every_other(
    gateway: RunningGateway, upstream: str, stream: bool
) -> None:
    answer = whole(gateway, f"{upstream}%2Fsim-text", human(), stream=stream)
    assert said(answer)
    assert answer["end"] == "done"
    assert answer["title"] == f"{upstream}/sim-text"
    assert answer["spent"]["out"] > 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("upstream", CLIENTS)
def test_its_clients_call_tools_of_every_other(
    gateway: RunningGateway, upstream: str, stream: bool
) -> None:
    body: dict[str, Any] = {**human(ASKED), "tools": [parley_facts.FACTS.tool]}
    answer = whole(gateway, f"{upstream}%2Fsim-tool", body, stream=stream)
    assert answer["end"] == "tools"
    (called,) = [piece["call"] for piece in answer["says"] if "call" in piece]
    assert called["tool"] == "get_weather"
    body["lines"] += [
        {"from": "machine", "calls": [called]},
        {"from": "tool", "tool": called["tool"], "result": "Sunny"},
    ]
    assert whole(gateway, f"{upstream}%2Fsim-text", body, stream=stream)["end"] == "done"


@pytest.mark.parametrize("stream", [False, True])
def test_within_the_protocol_answers_pass_through(
    gateway: RunningGateway, service: Service, stream: bool
) -> None:
    body = {**human(), "unheard": {"of": 1}}
    answer = whole(gateway, "own%2Ftalker", body, stream=stream)
    assert said(answer) == "You said: Hello"
    assert answer["title"] == "own/talker"
    path, headers, received = service.asked[-1]
    assert path == ("/p1/models/talker:pieces?as=frames" if stream else "/p1/models/talker:answer")
    assert headers["x-parley-key"] == GOOD
    assert received == body


@pytest.mark.parametrize("client", CLIENTS)
def test_every_other_client_is_answered_by_it(
    gateway: RunningGateway, service: Service, client: str
) -> None:
    body = vendor_body(client, "Hello", model="own/talker")
    answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    assert answer.status == 200, answer.body
    assert FACTS[client].text_of(answer.json) == "You said: Hello"
    assert answer.json["model"] == "own/talker"
    _, headers, received = service.asked[-1]
    assert headers[parley.EDITION] == "second"
    assert received["lines"] == [{"from": "human", "text": "Hello"}]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_other_client_is_streamed_its_answers(gateway: RunningGateway, client: str) -> None:
    body = vendor_body(client, "Hello", model="own/talker", stream=True)
    answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert b"You said: " in answer.body
    assert b"Hello" in answer.body
    assert FACTS[client].ends(answer.body)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
def test_every_other_client_calls_its_tools(
    gateway: RunningGateway, client: str, stream: bool
) -> None:
    body = vendor_body(client, ASKED, model="own/talker", stream=stream, tools=[FACTS[client].tool])
    answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    assert answer.status == 200, answer.body
    assert b"get_weather" in answer.body
    assert b"Paris" in answer.body


def test_an_account_that_is_refused_is_followed_by_the_next(
    gateway: RunningGateway, service: Service
) -> None:
    gateway.app.pool.enable("own-refused")
    assert said(whole(gateway, "own%2Ftalker", human("Once"), stream=False)) == "You said: Once"
    keys = [headers["x-parley-key"] for _, headers, _ in service.asked[-2:]]
    assert keys == [REFUSED, GOOD]
    assert said(whole(gateway, "own%2Ftalker", human("Twice"), stream=False)) == "You said: Twice"
    assert service.asked[-2][1]["x-parley-key"] == GOOD


@pytest.mark.parametrize("verb", ["answer", "pieces"])
def test_a_key_that_the_service_quotes_is_hidden(gateway: RunningGateway, verb: str) -> None:
    answer = ask_parley(gateway, "own%2Fquoting", human(), verb)
    assert answer.status == 400
    assert answer.json["trouble"]["kind"] == "nonsense"
    assert GOOD not in answer.body.decode()
    assert "[hidden]" in answer.json["trouble"]["words"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_failure_with_status_200_is_none_to_others(gateway: RunningGateway, client: str) -> None:
    gateway.app.pool.enable("own-good")
    body = vendor_body(client, "Hello", model="own/broken")
    answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    assert answer.status >= 500
    assert "fell over" in answer.json["error"]["message"]
    gateway.app.pool.enable("own-good")


def test_counting(gateway: RunningGateway, service: Service) -> None:
    asked = {"weighed": human()}
    own = ask_parley(gateway, "own%2Ftalker", asked, "weigh")
    assert own.json == {"weight": len(json.dumps(human()))}
    translated = ask_parley(gateway, "messages%2Fsim-text", asked, "weigh")
    assert translated.json["weight"] > 0
    assert "x-dragoman-estimate" not in translated.headers
    body = vendor_body("messages", "Hello", model="own/talker", **FACTS["messages"].prompt)
    counted = call(gateway.base_url, "POST", "/v1/messages/count_tokens", body)
    assert counted.json["input_tokens"] > 0
    assert "x-dragoman-estimate" not in counted.headers
    weighed = service.asked[-1][2]["weighed"]
    assert weighed["rules"] == "Be kind."
    assert [tool["name"] for tool in weighed["tools"]] == ["get_weather"]
    assert not is_charged("/p1/models:weigh")
    assert is_charged("/p1/models:answer")


@pytest.mark.parametrize("path", ["/p1/models/own%2Ftalker:answer", "/p0/models/own/talker:pieces"])
def test_a_key_in_the_query_is_one_that_nobody_sees(
    gateway: RunningGateway, service: Service, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for query in (f"?pass={KEY}&as=frames", f"?as=frames&p%61ss={quote(KEY)}"):
        answer = call(gateway.base_url, "POST", path + query, human(), key=None)
        assert answer.status == 200, answer.body
        assert KEY not in json.dumps(service.asked[-1])
    wrong = call(gateway.base_url, "POST", f"{path}?pass=wrong&as=frames", human(), key=None)
    assert (wrong.status, wrong.json["trouble"]["kind"]) == (401, "stranger")
    first = call(gateway.base_url, "POST", f"{path}?pass=wrong&as=frames", human())
    assert first.status == 200
    assert KEY not in caplog.text
    listed = call(gateway.base_url, "GET", f"/p0/titles?pass={KEY}", key=None)
    assert listed.status == 200


def test_a_stream_is_an_array_where_no_events_are_asked_for(gateway: RunningGateway) -> None:
    for model in ("own%2Ftalker", "chat%2Fsim-text", "own%2Farray"):
        path = f"/p1/models/{model}:pieces?pass={KEY}"
        answer = call(gateway.base_url, "POST", path, human(), key=None)
        assert answer.headers["content-type"] == "application/json"
        frames = answer.json
        assert "title" in frames[0]
        assert "end" in frames[-1]
        assert "".join(map(said, frames)) == said(whole(gateway, model, human(), stream=False))


@pytest.mark.parametrize("client", CLIENTS)
def test_an_array_from_upstream_is_a_stream_to_others(gateway: RunningGateway, client: str) -> None:
    body = vendor_body(client, "Hello", model="own/array", stream=True)
    answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    assert FACTS[client].ends(answer.body)
    assert b"Hello" in answer.body


@pytest.mark.parametrize("client", [*CLIENTS, "own"])
def test_json_without_a_field_is_the_error_that_ends_a_stream(
    gateway: RunningGateway, client: str
) -> None:
    if client == "own":
        answer = ask_parley(gateway, "own%2Fbare", human(), "pieces")
    else:
        body = vendor_body(client, "Hello", model="own/bare", stream=True)
        answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    assert b"no more" in answer.body
    assert b"You said" in answer.body


def results_in_messages(body: dict[str, Any], answer: Any) -> list[str]:
    """Add an answer of Messages to a conversation, with results of its calls. Returns their ids."""
    calls = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": f"result {number}"}
        for number, name in enumerate(calls)
    ]
    body["messages"] += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": results},
    ]
    return calls


def results_in_responses(body: dict[str, Any], answer: Any) -> list[str]:
    """As `results_in_messages`."""
    calls = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
    body["input"] += answer["output"] + [
        {"type": "function_call_output", "call_id": name, "output": f"result {number}"}
        for number, name in enumerate(calls)
    ]
    return calls


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_signatures_come_back_to_the_parts_that_had_them(
    gateway: RunningGateway, service: Service, client: str
) -> None:
    """On a thought, a call and a text, through clients with one place for all of them; and calls
    of one tool without ids have their results in order."""
    add = {"messages": results_in_messages, "responses": results_in_responses}[client]
    body = vendor_body(client, ASKED, model="own/talker", tools=[FACTS[client].tool])
    if client == "messages":
        body["thinking"] = {"type": "adaptive"}  # else its clients are shown no thoughts
    answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    assert answer.status == 200, answer.body
    calls = add(body, answer.json)
    assert len(set(calls)) == 2
    answer = call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    _, said, *results = service.asked[-1][2]["lines"]
    assert said["thought"] == {"text": "I shall look.", "proof": "proof-of-thought"}
    assert [one.get("proof") for one in said["calls"]] == ["proof-of-call", None]
    assert [one["with"]["city"] for one in said["calls"]] == ["Paris", "Rome"]
    assert results == [
        {"from": "tool", "tool": "get_weather", "result": f"result {number}"} for number in (0, 1)
    ]
    add(body, answer.json)
    call(gateway.base_url, "POST", f"/v1{PATHS[client]}", body)
    lines = service.asked[-1][2]["lines"]
    assert [line.get("proof") for line in lines if line.get("text")] == [None, "proof-of-text"]


def test_what_has_no_request_and_no_path_knows_the_model_in_it(protocol: None) -> None:
    """The workbench, and answers that are translated from files."""
    made, _ = translations(json.dumps(human()).encode(), "parley", None, b"")  # type: ignore[arg-type]
    assert [one.protocol for one in made] == [name for name in CODECS if name != parley.NAME]
    assert all(one.body is not None and "Hello" in one.body for one in made)
    answer = {
        "id": "a",
        "model": "m",
        "choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}],
    }
    request = json.dumps(human()).encode()
    read, _ = offline.answer(json.dumps(answer).encode(), "openai_chat", "parley", request=request)
    assert said(json.loads(read)) == "Yes"


def test_the_workbench_sends_it(gateway: RunningGateway, tmp_path: Path) -> None:
    config = replace(
        gateway.app.config,
        storage=Storage(path=str(tmp_path / "store.db")),
        admin=Admin(key=Secret("admin-token-of-the-test")),
    )
    asked = {"from": parley.NAME, "body": json.dumps(human())}
    with running_gateway(config) as running:
        for place in (
            {"model": "own/talker"},
            {"model": "chat/sim-text"},
            {"scenario": "text", "to": "anthropic_messages"},
        ):
            answer = call(
                running.base_url,
                "POST",
                "/admin/workbench/send",
                {**asked, **place},
                key="admin-token-of-the-test",
            )
            frames = pieces_of(answer.body)
            assert frames[-1]["status"] == 200, frames
            shown = [frame["raw"] for frame in frames if frame["event"] == "client"]
            assert parley_facts.FACTS.ends("".join(shown).encode())


def test_models(gateway: RunningGateway) -> None:
    listed = call(
        gateway.base_url, "GET", "/p1/titles", headers={"x-parley-key": KEY}, key=None
    ).json
    assert {"title": "own/talker", "house": "own"} in listed["titles"]
    shown = call(gateway.base_url, "GET", "/p1/titles/own/talker").json
    assert shown == {"title": "own/talker", "house": "own"}
    vendors = call(gateway.base_url, "GET", "/v1/models").json["data"]
    assert "own/talker" in [model["id"] for model in vendors]


def test_errors_are_told_in_its_words(gateway: RunningGateway) -> None:
    unknown = ask_parley(gateway, "nobody", human())
    assert (unknown.status, unknown.json["trouble"]["kind"]) == (404, "unknown")
    stranger = ask_parley(gateway, "own%2Ftalker", human(), key="wrong")
    assert (stranger.status, stranger.json["trouble"]["kind"]) == (401, "stranger")
    bad = ask_parley(gateway, "chat%2Fsim-text", {"lines": [{"from": "nobody"}]})
    assert (bad.status, bad.json["trouble"]["kind"]) == (400, "nonsense")
    assert "lines[0].from" in bad.json["trouble"]["words"]
    no_json = call(
        gateway.base_url,
        "POST",
        "/p1/models/own%2Ftalker:answer",
        b"{",
        {
            "x-parley-key": KEY,
            "content-type": "application/json",
        },
    )
    assert (no_json.status, no_json.json["trouble"]["kind"]) == (400, "nonsense")
    elsewhere = call(gateway.base_url, "GET", "/nowhere", headers={parley.EDITION: "second"})
    assert "trouble" in elsewhere.json


def test_errors_of_arrays_are_arrays(gateway: RunningGateway) -> None:
    path = "/p1/models/nobody:pieces"
    answer = call(gateway.base_url, "POST", path, human(), {"x-parley-key": KEY}, key=None)
    assert answer.status == 404
    assert [one["trouble"]["kind"] for one in answer.json] == ["unknown"]


def test_what_is_lost_is_told(gateway: RunningGateway) -> None:
    body = {**human(), "unheard": 1}
    answer = ask_parley(gateway, "chat%2Fsim-text", body)
    assert answer.headers["x-dragoman-losses"] == "unheard:knob; total=1"
    there = vendor_body("chat", "Hello", model="own/talker", top_p=0.5)
    answer = call(gateway.base_url, "POST", "/v1/chat/completions", there)
    assert answer.headers["x-dragoman-losses"] == "top_p:knob, reasoning:knob; total=2"


def test_capabilities_of_a_route_are_sent(protocol: None, service: Service) -> None:
    config = Config(
        server=SERVER,
        upstreams=(Upstream(name="own", protocol=parley.NAME, base_url=service.base_url),),
        accounts=(Account(name="a", upstream="own", key=Secret(GOOD)),),
        routes=(Route(match="*", upstream="own", capabilities=make_capabilities(edition="third")),),
    )
    with running_gateway(config) as running:
        body = vendor_body("chat", "Hello", model="talker")
        assert call(running.base_url, "POST", "/v1/chat/completions", body).status == 200
        assert service.asked[-1][1][parley.EDITION] == "third"
        assert ask_parley(running, "talker", human()).status == 200
        assert service.asked[-1][1][parley.EDITION] == "third"


def test_capabilities_follow_from_the_generation_of_a_model(
    gateway: RunningGateway, service: Service
) -> None:
    for model, edition in (("talker", "second"), ("old-talker", "first")):
        body = vendor_body("chat", "Hello", model=f"own/{model}")
        assert call(gateway.base_url, "POST", "/v1/chat/completions", body).status == 200
        assert service.asked[-1][1][parley.EDITION] == edition


def test_content_names_no_models(protocol: None) -> None:
    called = {"from": "machine", "calls": [{"tool": "ask", "with": {"model": "dear"}}]}
    body = {"lines": [called], "asides": {"model": "other"}}
    operation = parley.CODEC.endpoint.operation_for("m", stream=False)
    request = ClientRequest(parley.NAME, json.dumps(body).encode(), operation=operation)
    assert request.named_models() == ("other",)


@pytest.mark.parametrize("verb", ["answer", "pieces"])
def test_a_name_of_a_model_is_one_segment_of_the_path(
    gateway: RunningGateway, service: Service, verb: str
) -> None:
    body = vendor_body("chat", "Hello", model="own/a/../x?y=1#z", stream=verb == "pieces")
    assert call(gateway.base_url, "POST", "/v1/chat/completions", body).status == 200
    path, _, _ = service.asked[-1]
    assert path.partition(":")[0] == "/p1/models/a%2F..%2Fx%3Fy%3D1%23z"


def test_its_settings_have_names_of_their_own() -> None:
    class Clashing(Struct, frozen=True):
        images: int = 0

    endpoint = replace(parley.CODEC.endpoint, capabilities=Clashing)
    with pytest.raises(ValueError, match="a setting that there is: images"):
        register(replace(parley.CODEC, name="clashing", endpoint=endpoint))


def test_models_in_paths_come_before_lists_of_models(protocol: None, service: Service) -> None:
    """Also below the version and the list of the vendors' protocols."""
    first = CODECS["openai_chat"].endpoint
    endpoint = replace(parley.CODEC.endpoint, version="/v1", models=first.models, capabilities=None)
    translate = replace(parley.CODEC.translate, options=None)
    codec = replace(parley.CODEC, name="parley-v1", endpoint=endpoint, translate=translate)
    register(codec)
    try:
        config = Config(
            server=SERVER,
            upstreams=(Upstream(name="own", protocol=parley.NAME, base_url=service.base_url),),
            accounts=(Account(name="a", upstream="own", key=Secret(GOOD)),),
            routes=(Route(match="*", upstream="own"),),
        )
        with running_gateway(config) as running:
            answer = call(running.base_url, "POST", "/v1/models/talker:answer", human())
            assert said(answer.json) == "You said: Hello"
    finally:
        unregister(codec.name)


def test_metrics_name_its_paths_without_models(gateway: RunningGateway) -> None:
    assert ask_parley(gateway, "own%2Ftalker", human()).status == 200
    page = call(gateway.base_url, "GET", "/metrics").body.decode()
    assert 'dragoman_requests_total{route="/p1/models:answer",status="2xx",upstream="own"}' in page
    assert "talker" not in page


def test_its_settings_are_part_of_a_configuration(protocol: None, service: Service) -> None:
    text = f"""
        [[upstreams]]
        name = "own"
        protocol = "parley"
        base_url = "{service.base_url}"
        [upstreams.capabilities]
        edition = "third"

        [options]
        farewell = false
    """
    config = parse_config(text).config
    (upstream,) = config.upstreams
    assert upstream.auth_style == "x-parley-key"
    assert setting(upstream.capabilities, "edition") == "third"
    assert not setting(config.options, "farewell")
    with pytest.raises(ValueError, match="no such setting: farewel"):
        make_options(farewel=True)


@pytest.mark.parametrize("verb", ["answer", "pieces", "weigh"])
def test_the_model_in_a_path_is_held_to_the_clients_list(
    gateway: RunningGateway, service: Service, verb: str
) -> None:
    client = Client(name="some", key=Secret(KEY), models=("free-*",))
    routes = tuple(Route(match=name, upstream="own") for name in ("talker", "free-talker"))
    config = replace(gateway.app.config, clients=(client,), routes=routes)
    with running_gateway(config) as held:
        service.asked.clear()
        for model in ("talker", "free-x%2Ftalker", "own%2Ftalker", "free-x%2Fown%2Ftalker"):
            assert ask_parley(held, model, human(), verb).status == 404
        assert not service.asked
        assert ask_parley(held, "free-talker", human(), verb).status == 200


@pytest.mark.parametrize("verb", ["answer", "pieces"])
@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"max_output_tokens": 400}, 400),
        ({"limits": (Limit(kind="output_tokens", amount=300, window="day", clamp=True),)}, 300),
        ({"limits": (Limit(kind="output_tokens", amount=300, window="day"),)}, None),
    ],
    ids=["capped", "clamped", "refused"],
)
def test_its_nested_output_limit_is_held_to_limits(
    gateway: RunningGateway, service: Service, fields: dict[str, Any], most: int | None, verb: str
) -> None:
    client = Client(name="some", key=Secret(KEY), **fields)
    with running_gateway(replace(gateway.app.config, clients=(client,))) as held:
        service.asked.clear()
        body = {**human(), "bounds": {"most": 100_000}}
        answer = ask_parley(held, "own%2Ftalker", body, verb)
        asked = [body["bounds"]["most"] for _, headers, body in service.asked]
    assert asked[-1:] == ([] if most is None else [most])
    assert answer.status == (429 if most is None else 200), answer.body


def test_nothing_is_left_of_it_when_it_is_gone() -> None:
    codec = replace(parley.CODEC, name="parley-again")
    register(codec)
    try:
        with pytest.raises(ValueError, match="already"):
            register(codec)
        assert ClientRequest(codec.name, b'{"model": "m", "lines": []}').model == "m"
    finally:
        unregister(codec.name)
    assert codec.name not in CODECS
