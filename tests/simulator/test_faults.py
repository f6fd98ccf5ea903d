"""What goes wrong on purpose, seen from the client: by the SDKs and on the bare socket."""

from __future__ import annotations

import json
import socket

import anthropic
import openai
import pytest

from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.testing import RunningSimulator
from tests.simulator.grammar import STREAM_CHECKS, check_full, events
from tests.simulator.requests import PATHS, PROTOCOLS, JsonObject, headers_of, plain, post

STATUSES = (400, 401, 402, 403, 404, 413, 429, 500, 503, 529)
ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    529: "overloaded_error",
}
TERMINALS = {
    "chat": "[DONE]",
    "messages": "message_stop",
    "responses": "response.completed",
}


def _sent(simulator: RunningSimulator, protocol: Protocol, body: JsonObject) -> socket.socket:
    """A connection on which the request has been sent and nothing was read yet."""
    data = json.dumps(body).encode()
    lines = [f"POST {PATHS[protocol]} HTTP/1.1", "host: simulator", f"content-length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in headers_of(protocol).items()]
    sock = socket.create_connection(("127.0.0.1", simulator.port), timeout=10)
    sock.sendall("\r\n".join([*lines, "", ""]).encode() + data)
    return sock


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", STATUSES)
def test_openai_errors_reach_the_sdk_in_its_own_class(
    simulator: RunningSimulator, openai_client: openai.OpenAI, status: int, stream: bool
) -> None:
    for create in (
        lambda model: openai_client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "hi"}], stream=stream
        ),
        lambda model: openai_client.responses.create(model=model, input="hi", stream=stream),
    ):
        with pytest.raises(openai.APIStatusError) as caught:
            create(f"sim-{status}?message=as+told&code=of_my_own")
        assert caught.value.status_code == status
        assert caught.value.code == "of_my_own"
        assert "as told" in caught.value.message
        assert caught.value.request_id is not None


@pytest.mark.parametrize("status", STATUSES)
def test_anthropic_errors_reach_the_sdk_in_its_own_class(
    simulator: RunningSimulator, anthropic_client: anthropic.Anthropic, status: int
) -> None:
    with pytest.raises(anthropic.APIStatusError) as caught:
        anthropic_client.messages.create(
            model=f"sim-{status}", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
    assert caught.value.status_code == status
    assert caught.value.type == ANTHROPIC_TYPES[status]
    assert caught.value.request_id is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_says_when_to_come_back(simulator: RunningSimulator, protocol: Protocol) -> None:
    answer = post(simulator, protocol, plain(protocol, "sim-429?retry_after=7"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("estimated_cost", "estimated cost"),
        ("insufficient_tokens", "insufficient tokens"),
        ("upgrade", "upgrade your plan"),
        ("limit", "limit reached"),
    ],
)
def test_a_403_carries_the_named_text(
    simulator: RunningSimulator, protocol: Protocol, name: str, words: str
) -> None:
    answer = post(simulator, protocol, plain(protocol, f"sim-403?message={name}"))
    assert answer.status == 403
    assert words in answer.json["error"]["message"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fault_passes_after_so_many_times(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    request = plain(protocol, "sim-error?status=503&times=2")
    statuses = [post(simulator, protocol, request).status for _ in range(4)]
    assert statuses == [503, 503, 200, 200]


@pytest.mark.parametrize("after", [0, 1, 4])
def test_chat_raises_on_an_error_in_the_stream(
    simulator: RunningSimulator, openai_client: openai.OpenAI, after: int
) -> None:
    model = f"sim-error_in_stream?after={after}&message=boom"
    stream = openai_client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "hi"}], stream=True
    )
    seen: list[object] = []
    with pytest.raises(openai.APIError, match="boom"):
        seen.extend(stream)
    assert len(seen) == after


@pytest.mark.parametrize("after", [0, 1, 4])
def test_messages_raises_on_an_error_in_the_stream(
    simulator: RunningSimulator, anthropic_client: anthropic.Anthropic, after: int
) -> None:
    with (
        pytest.raises(anthropic.APIStatusError, match="boom") as caught,
        anthropic_client.messages.stream(
            model=f"sim-error_in_stream?after={after}&status=529&message=boom",
            max_tokens=99,
            messages=[{"role": "user", "content": "hi"}],
        ) as stream,
    ):
        for _ in stream:
            pass
    assert caught.value.type == "overloaded_error"


@pytest.mark.parametrize("after", [1, 4])
def test_responses_raises_on_an_error_in_the_stream(
    simulator: RunningSimulator, openai_client: openai.OpenAI, after: int
) -> None:
    model = f"sim-error_in_stream?after={after}&message=boom"
    with (
        pytest.raises(openai.APIError, match="boom"),
        openai_client.responses.stream(model=model, input="hi") as stream,
    ):
        for _ in stream:
            pass
    answer = post(simulator, "responses", plain("responses", model, stream=True))
    found = events(answer.body)
    assert [name for name, _ in found][after:] == ["error", "response.failed"]
    assert [f'"sequence_number":{n}' in data for n, (_, data) in enumerate(found)] == [True] * (
        after + 2
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_never_follows_the_end(simulator: RunningSimulator, protocol: Protocol) -> None:
    model = "sim-error_in_stream?after=999"
    STREAM_CHECKS[protocol](post(simulator, protocol, plain(protocol, model, stream=True)).body)


@pytest.mark.parametrize(
    ("quirk", "names"),
    [("error_only", ["error"]), ("failed_only", ["response.failed"])],
)
def test_responses_fails_in_one_event_where_told(
    simulator: RunningSimulator, quirk: str, names: list[str]
) -> None:
    model = f"sim-error_in_stream?after=2&quirks={quirk},flat_error"
    answer = post(simulator, "responses", plain("responses", model, stream=True))
    assert [name for name, _ in events(answer.body)][2:] == names


def test_a_full_responses_answer_fails_with_200(
    simulator: RunningSimulator, openai_client: openai.OpenAI
) -> None:
    response = openai_client.responses.create(model="sim-error_in_stream?status=429", input="hi")
    assert response.status == "failed"
    assert response.error is not None
    assert response.error.code == "rate_limit_exceeded"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_200_can_carry_an_error(
    simulator: RunningSimulator, protocol: Protocol, stream: bool
) -> None:
    answer = post(simulator, protocol, plain(protocol, "sim-error_200", stream=stream))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert "message" in answer.json["error"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("after", [0, 2, 5])
def test_a_truncated_stream_ends_cleanly_without_its_terminal(
    simulator: RunningSimulator, protocol: Protocol, after: int
) -> None:
    request = plain(protocol, f"sim-truncate?after={after}", stream=True)
    answer = post(simulator, protocol, request)
    assert not answer.broken
    assert answer.body.count(b"\n\n") == after
    assert TERMINALS[protocol].encode() not in answer.body


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_closed_connection_breaks_the_body(
    simulator: RunningSimulator, protocol: Protocol, stream: bool
) -> None:
    answer = post(simulator, protocol, plain(protocol, "sim-close", stream=stream))
    assert answer.status == 200
    assert answer.broken
    assert answer.body
    simulator.wait_for(lambda: simulator.last.status == 200)
    assert not simulator.last.finished
    assert not simulator.last.disconnected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reset_comes_after_the_events(simulator: RunningSimulator, protocol: Protocol) -> None:
    received: list[bytes] = []
    request = plain(protocol, "sim-reset?after=2", stream=True)
    with _sent(simulator, protocol, request) as sock, pytest.raises(ConnectionResetError):
        received.extend(iter(lambda: sock.recv(65536), b""))
    assert b"".join(received).count(b"\n\n\r\n") == 2
    assert not simulator.last.finished
    assert not simulator.last.disconnected


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_silence_only_delays_the_answer(
    simulator: RunningSimulator, protocol: Protocol, stream: bool
) -> None:
    silent = post(simulator, protocol, plain(protocol, "sim-silence?ms=30&seed=1", stream=stream))
    usual = post(simulator, protocol, plain(protocol, "sim-text?seed=1", stream=stream))
    assert silent.body.replace(b"sim-silence?ms=30&seed=1", b"sim-text?seed=1") == usual.body


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "options", ["head_ms=20", "first_ms=20", "slow_head_ms=20", "delay_ms=1", "cut=7"]
)
def test_pace_changes_no_byte(
    simulator: RunningSimulator, protocol: Protocol, stream: bool, options: str
) -> None:
    usual = post(simulator, protocol, plain(protocol, "sim-text?seed=1", stream=stream))
    paced = post(simulator, protocol, plain(protocol, f"sim-text?seed=1&{options}", stream=stream))
    assert paced.status == 200
    assert paced.body.replace(f"&{options}".encode(), b"") == usual.body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cut_stream_comes_in_pieces_that_split_characters(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    post(simulator, protocol, plain(protocol, "sim-multibyte?cut=3", stream=True))
    simulator.wait_for(lambda: simulator.last.finished)
    assert simulator.last.writes == -(-simulator.last.bytes_sent // 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_escaped_text_is_the_same_text(simulator: RunningSimulator, protocol: Protocol) -> None:
    raw = post(simulator, protocol, plain(protocol, "sim-multibyte?seed=1", stream=True)).body
    escaped = post(
        simulator, protocol, plain(protocol, "sim-multibyte?seed=1&escape=1", stream=True)
    ).body
    assert "\u2028".encode() in raw
    if protocol != "responses":  # only its done events repeat the text unescaped
        assert escaped.isascii()
    assert b"\\u2028" in escaped


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("stream", [False, True])
def test_answers_that_are_none(
    simulator: RunningSimulator, protocol: Protocol, stream: bool
) -> None:
    page = post(simulator, protocol, plain(protocol, "sim-html?status=524", stream=stream))
    assert (page.status, page.headers["content-type"]) == (524, "text/html; charset=utf-8")
    assert page.body.startswith(b"<html>")
    noise = post(simulator, protocol, plain(protocol, "sim-not_json", stream=stream))
    assert noise.status == 200
    assert b"not JSON" in noise.body
    nothing = post(simulator, protocol, plain(protocol, "sim-empty", stream=stream))
    assert (nothing.status, nothing.body) == (200, b"")
    text = post(simulator, protocol, plain(protocol, "sim-wrong_content_type", stream=stream))
    assert (text.status, text.headers["content-type"]) == (200, "text/plain; charset=utf-8")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_protocol_answers(simulator: RunningSimulator, protocol: Protocol) -> None:
    other: Protocol = {"chat": "messages", "messages": "responses", "responses": "chat"}[protocol]  # type: ignore[assignment]
    streamed = post(simulator, protocol, plain(protocol, "sim-wrong_protocol", stream=True))
    STREAM_CHECKS[other](streamed.body)
    full = post(simulator, protocol, plain(protocol, "sim-wrong_protocol"))
    check_full(other, full.json)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_full_body_answers_a_request_for_a_stream(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    answer = post(simulator, protocol, plain(protocol, "sim-full_body", stream=True))
    assert answer.headers["content-type"] == "application/json"
    check_full(protocol, answer.json)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_leaves_is_noticed(simulator: RunningSimulator, protocol: Protocol) -> None:
    request = plain(protocol, "sim-text?delay_ms=2000", stream=True)
    with _sent(simulator, protocol, request) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        simulator.wait_for(lambda: simulator.last.writes >= 1)
        assert not simulator.last.disconnected
    simulator.wait_for(lambda: simulator.last.disconnected)
    assert not simulator.last.finished


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_leaves_before_the_head_is_noticed(
    simulator: RunningSimulator, protocol: Protocol
) -> None:
    for model in ("sim-text?head_ms=5000", "sim-error?head_ms=5000"):
        simulator.app.clear()
        with _sent(simulator, protocol, plain(protocol, model)):
            simulator.wait_for(lambda: bool(simulator.requests) and simulator.last.model != "")
        simulator.wait_for(lambda: simulator.last.disconnected)
        assert not simulator.last.finished


def test_a_slow_reader_holds_a_flood_back(simulator: RunningSimulator) -> None:
    request = plain("chat", "sim-flood?events=4000&bytes=8000", stream=True)
    with _sent(simulator, "chat", request) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        simulator.wait_for(lambda: simulator.last.writes > 10)
        # 32 MB don't fit in the sockets' buffers: without a reader the flood stands still.
        assert not simulator.last.finished
        assert simulator.last.bytes_sent < 30_000_000
    simulator.wait_for(lambda: simulator.last.disconnected)


def test_a_flood_arrives_whole(simulator: RunningSimulator) -> None:
    answer = post(simulator, "messages", plain("messages", "sim-flood?events=5000", stream=True))
    assert answer.body.count(b"text_delta") == 5000
