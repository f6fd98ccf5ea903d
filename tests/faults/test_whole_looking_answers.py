"""Answers that look whole and are not, and words in shapes of their own, over sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.server.testing import RunningGateway
from tests.faults.asking import AT, HALVES, KEY, ask, saying
from tests.faults.conftest import Over, rested
from tests.faults.upstream import Upstream, event, streamed, whole
from tests.gateway.clients import APIS, PATHS, body, completed, stream_error, streamed_text, text_of
from tests.gateway.http import call
from tests.protocols.openai_responses.upstream import events_of
from tests.tables.cells import (
    ROLE,
    STOP,
    chat_chunk,
    message_end,
    message_start,
    text_block,
    tool_block,
)
from tests.tables.odd_chat import whole_chunk
from tests.tables.odd_responses import HELLO, NAMELESS
from tests.upstream.servers import Call


@pytest.fixture(scope="module")
def gateway(over: Over) -> RunningGateway:
    return over(KEY)


Json = dict[str, Any]


ZEROED = [
    {name: 0 if name == "output_index" else value for name, value in made.items()}
    for made in events_of(NAMELESS)
]
SHARED: dict[str, tuple[str, list[Any]]] = {
    "items of one number": ("responses", ZEROED),
    "blocks of one number": (
        "messages",
        [
            message_start(),
            *text_block(0, "one"),
            *tool_block(0, 1, '{"a":1}', name="f"),
            *text_block(0, "two"),
            *tool_block(0, 2, '{"b":2}', name="h"),
            *message_end("tool_use"),
        ],
    ),
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("name", SHARED)
def test_what_shares_a_number_arrives(
    gateway: RunningGateway, upstream: Upstream, name: str, client: str
) -> None:
    target, events = SHARED[name]
    upstream.behaviours[KEY] = saying(*events)
    told = ask(gateway, client, target, stream=True)

    assert streamed_text(client, told.body) == "onetwo"
    assert completed(client, told.body)
    shown = told.body.decode().replace("\\", "")
    for piece in ('"f"', '"h"', '"a', '"b'):
        assert piece in shown


UNFINISHED: dict[str, tuple[str, list[Any]]] = {
    "messages without a reason": (
        "messages",
        [message_start(), *text_block(0, "Good"), {"type": "message_stop"}],
    ),
    "responses of an unknown status": (
        "responses",
        [
            *events_of(HELLO)[:-1],
            {"type": "response.completed", "response": {**HELLO, "status": "expired"}},
        ],
    ),
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("name", UNFINISHED)
def test_what_did_not_finish_fails(
    gateway: RunningGateway, upstream: Upstream, name: str, client: str
) -> None:
    target, events = UNFINISHED[name]
    upstream.behaviours[KEY] = saying(*events)
    told = ask(gateway, client, target, stream=True)

    assert stream_error(client, told.body) is not None
    assert not completed(client, told.body)


TIRED: dict[str, list[Any]] = {
    "chat": [ROLE, chat_chunk({"content": "Good"}), chat_chunk({}, "tired"), b"[DONE]"],
    "messages": [message_start(), *text_block(0, "Good"), *message_end("tired")],
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", TIRED)
def test_a_reason_that_nobody_knows_is_an_ordinary_end(
    gateway: RunningGateway, upstream: Upstream, target: str, client: str
) -> None:
    """A vendor's next word. A client of its protocol is shown the word itself."""
    made = json.loads(whole(target, "Good"))
    holder = made["choices"][0] if target == "chat" else made
    holder["finish_reason" if target == "chat" else "stop_reason"] = "tired"
    upstream.behaviours[KEY] = saying(*TIRED[target], body=json.dumps(made).encode())
    told = ask(gateway, client, target, stream=True)
    assert streamed_text(client, told.body) == "Good"
    assert stream_error(client, told.body) is None
    assert (b"tired" in told.body) is (client == target)
    answer = ask(gateway, client, target)
    assert text_of(client, answer) == "Good"
    assert ("reason:converted" in answer.headers.get("x-dragoman-losses", "")) is (client != target)


@pytest.mark.parametrize("client", APIS)
def test_an_end_that_nobody_knows_is_held_against_no_account(
    gateway: RunningGateway, upstream: Upstream, client: str
) -> None:
    """The answer was paid for: it is asked for once more, and no further."""
    made = {**HELLO, "status": "expired"}
    upstream.behaviours[KEY] = saying(body=json.dumps(made).encode())
    upstream.calls.clear()
    told = ask(gateway, client, "responses")

    assert told.status == 502
    assert b"expired" in told.body
    assert len(upstream.asked()) == 2
    (account,) = (one.name for one in gateway.app.pool.accounts() if one.upstream == "responses")
    state = gateway.app.pool.state(account)
    assert (state.cooling, state.exhausted, state.disabled) == ({}, None, "")


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", APIS)
def test_a_secret_in_pieces_that_are_joined(
    gateway: RunningGateway, upstream: Upstream, target: str, client: str
) -> None:
    """The upstream streams although it was not asked to."""
    pieces = "your " + KEY[:9], KEY[9:]
    halves = {
        "chat": [ROLE, *(chat_chunk({"content": piece}) for piece in pieces)],
        "messages": [message_start(), *text_block(0, *pieces)],
        "responses": [
            *events_of({**HELLO, "output": []})[:2],
            *({"type": "response.output_text.delta", **AT, "delta": piece} for piece in pieces),
        ],
    }

    async def handler(call: Call) -> None:
        await call.send(streamed([event(one) for one in (*halves[target], *ENDS[target])]))

    upstream.behaviours[KEY] = handler
    told = ask(gateway, client, target)
    assert told.status == 200
    assert text_of(client, told).startswith("your ")
    assert KEY.encode() not in told.body


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("stream", [True, False])
def test_completed_but_incomplete(
    gateway: RunningGateway, upstream: Upstream, client: str, stream: bool
) -> None:
    incomplete = {**HELLO, "status": "incomplete", "incomplete_details": {"reason": "max_tokens"}}
    last = {"type": "response.completed", "response": incomplete}
    given = json.dumps(incomplete).encode()
    upstream.behaviours[KEY] = saying(*events_of(HELLO)[:-1], last, body=given)
    told = ask(gateway, client, "responses", stream=stream).body.replace(b'": "', b'":"')

    word = {"chat": b'"length"', "messages": b'"max_tokens"', "responses": b'"incomplete"'}
    assert word[client] in told


@pytest.mark.parametrize("client", APIS)
def test_a_whole_completion_as_one_event(
    gateway: RunningGateway, upstream: Upstream, client: str
) -> None:
    made = whole_chunk({"role": "assistant", "content": "Good"}, "stop")
    upstream.behaviours[KEY] = saying(made, b"[DONE]")
    told = ask(gateway, client, "chat", stream=True).body

    assert streamed_text(client, told) == "Good"
    assert completed(client, told)


def test_a_choice_that_never_finished(gateway: RunningGateway, upstream: Upstream) -> None:
    second = chat_chunk({"content": "Go"})
    second["choices"][0]["index"] = 1
    for ending in ([], [b"[DONE]"]):
        upstream.behaviours[KEY] = saying(ROLE, second, STOP, *ending)
        told = ask(gateway, "chat", "chat", stream=True, n=2).body
        assert stream_error("chat", told) is not None

    done = json.loads(json.dumps(STOP))
    done["choices"][0]["index"] = 1
    upstream.behaviours[KEY] = saying(ROLE, second, STOP, done, b"[DONE]")
    assert stream_error("chat", ask(gateway, "chat", "chat", stream=True, n=2).body) is None


ENDS: dict[str, list[Any]] = {
    "chat": [STOP, b"[DONE]"],
    "messages": message_end(),
    "responses": [{"type": "response.completed", "response": {**HELLO, "output": []}}],
}


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", APIS)
def test_halves_of_characters(
    gateway: RunningGateway, upstream: Upstream, target: str, client: str
) -> None:
    raw = json.dumps(whole(target, "HERE").decode()).encode()  # a body of JSON text
    sliced = json.loads(raw).replace("HERE", "x\\ud83dy").encode()
    upstream.behaviours[KEY] = saying(*HALVES[target], *ENDS[target], body=sliced)

    told = ask(gateway, client, target, stream=True).body
    assert streamed_text(client, told) == "a\U0001f600b\ufffd!"
    assert completed(client, told)
    answer = ask(gateway, client, target)
    assert text_of(client, answer) == "x\ufffdy"
    assert "text:repaired" in answer.headers["x-dragoman-losses"]
    asked = json.dumps(body(client, f"{target}/m", "HERE")).replace("HERE", "x\\ud83dy")
    rested(gateway)
    upstream.calls.clear()
    assert call(gateway.base_url, "POST", PATHS[client], json.loads(asked)).status == 200
    assert "x\ufffdy" in json.dumps(json.loads(upstream.calls[-1].body), ensure_ascii=False)


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", APIS)
@pytest.mark.parametrize(
    "error",
    [
        {"detail": "no such thing"},
        {"message": "no such thing"},
        {"detail": [{"loc": ["body"], "msg": "no such thing"}]},
        {"error": "no such thing"},
        {"error": None, "message": "no such thing"},
        {"error": ["no such thing"]},
        {"error": [{"message": "no such thing"}, {"message": "nor this"}]},
        {"error": True, "message": "no such thing"},
        {"error": {"msg": "no such thing"}},
        {"error": {"detail": [{"msg": "no such thing"}]}},
        {"error": {"error": {"message": "no such thing"}}},
        {"error": {}, "message": "no such thing"},
        {"error": "odd", "error_description": "no such thing"},
        {"errors": ["no such thing"]},
        {"errors": [{"message": "no such thing"}]},
        {"errors": {"field": ["no such thing"]}},
        {"msg": "no such thing"},
        {"error_msg": "no such thing", "error_code": 17},
        {"error_message": "no such thing"},
        {"base_resp": {"status_code": 1004, "status_msg": "no such thing"}},
        {"ResponseMetadata": {"Error": {"Code": "Odd", "Message": "no such thing"}}},
        {"fault": {"faultstring": "no such thing"}},
        {"title": "no such thing"},
        {"type": "about:blank", "title": "no such thing", "status": 400},
        {"type": "https://odd.test/problems/1", "title": "Odd", "detail": "no such thing"},
    ],
)
def test_errors_of_any_shape(
    gateway: RunningGateway, upstream: Upstream, target: str, client: str, error: Json
) -> None:
    for status in (200, 400):
        upstream.behaviours[KEY] = saying(error, body=json.dumps(error).encode(), status=status)
        told = ask(gateway, client, target)
        assert told.status >= 400
        assert "no such thing" in json.dumps(told.json["error"]["message"])
        told = ask(gateway, client, target, stream=True)
        assert b"no such thing" in told.body
    named = f"event: error\ndata: {json.dumps(error)}\n\n"
    for last in (error, named):
        upstream.behaviours[KEY] = saying(*PIECES[target]("Good")[:-1], last)
        told = ask(gateway, client, target, stream=True)
        assert "no such thing" in json.dumps(stream_error(client, told.body))


SECRET = "sk-live-0123456789abcdefX"


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", APIS)
def test_the_key_is_hidden_however_it_is_written(
    over: Over, upstream: Upstream, target: str, client: str
) -> None:
    gateway = over(SECRET)
    escaped = SECRET.replace("-", "\\u002d")
    for written in (escaped, SECRET.replace("-", "%2D"), SECRET):
        text = f'{{"error": {{"message": "the key {written} is bad"}}}}'.encode()
        upstream.behaviours[SECRET] = saying(body=text, status=400)
        told = ask(gateway, client, target).body
        assert b"[hidden]" in told
        assert b"0123456789" not in told
    for cut in (1, 2, 3, 9, len(SECRET) - 1):
        events = PIECES[target](f"a {SECRET[:cut]}", f"{SECRET[cut:]} z")
        upstream.behaviours[SECRET] = saying(*events)
        told = ask(gateway, client, target, stream=True).body
        assert completed(client, told)
        said = streamed_text(client, told)
        assert said.startswith("a ")
        assert said.endswith("[hidden] z")
        assert "0123456789" not in said
    units = "".join(f"\\u{ord(character):04x}" for character in SECRET)
    upstream.behaviours[SECRET] = saying(*PIECES[target]("a ", *units, " z"))
    told = ask(gateway, client, target, stream=True).body
    assert streamed_text(client, told) == "a [hidden] z"


def _pieces(target: str, *texts: str) -> list[Any]:
    if target == "chat":
        return [ROLE, *(chat_chunk({"content": text}) for text in texts), *ENDS["chat"]]
    if target == "messages":
        return [message_start(), *text_block(0, *texts), *message_end()]
    deltas = ({"type": "response.output_text.delta", **AT, "delta": text} for text in texts)
    return [*events_of({**HELLO, "output": []})[:2], *deltas, *ENDS["responses"]]


PIECES = {target: (lambda *texts, target=target: _pieces(target, *texts)) for target in APIS}


@pytest.mark.parametrize("target", APIS)
def test_counts_that_are_none_do_not_spoil_the_metrics(
    gateway: RunningGateway, upstream: Upstream, target: str
) -> None:
    names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
    usage = dict.fromkeys(names, 1e308)
    made = {**json.loads(whole(target, "Good")), "usage": usage}
    upstream.behaviours[KEY] = saying(body=json.dumps(made).encode())
    for _ in range(3):
        for client in APIS:
            assert text_of(client, ask(gateway, client, target)) == "Good"
    told = call(gateway.base_url, "GET", "/metrics")
    assert told.status == 200
    assert b"dragoman_tokens_total" in told.body


@pytest.mark.parametrize("target", APIS)
def test_the_client_sees_the_name_it_asked_for(
    gateway: RunningGateway, upstream: Upstream, target: str
) -> None:
    """Also where the upstream tells a snapshot's, or sorts its keys."""
    events = [
        json.loads(json.dumps(made).replace('"model": "theirs"', '"model": "m-2026-01-01"'))
        for made in PIECES[target]("Good")
        if not isinstance(made, bytes)
    ]
    if target == "chat":
        events[1]["choices"][0]["delta"]["extra"] = {"model": "inner"}
    ordered = [json.loads(json.dumps(made, sort_keys=True)) for made in events]
    done = [b"[DONE]"] if target == "chat" else []
    upstream.behaviours[KEY] = saying(*ordered, *done)
    told = ask(gateway, target, target, stream=True).body

    assert b"m-2026-01-01" not in told
    assert b'"model":"%b/m"' % target.encode() in told.replace(b'": "', b'":"')
    assert target != "chat" or b"inner" in told


@pytest.mark.parametrize("client", APIS)
@pytest.mark.parametrize("target", APIS)
def test_a_whole_answer_has_the_name_that_was_asked_for(
    gateway: RunningGateway, upstream: Upstream, client: str, target: str
) -> None:
    made = {**json.loads(whole(target, "Good")), "model": "m-2026-01-01"}
    upstream.behaviours[KEY] = saying(body=json.dumps(made, sort_keys=True).encode())
    told = ask(gateway, client, target)
    assert told.json["model"] == f"{target}/m"
    assert b"m-2026-01-01" not in told.body
