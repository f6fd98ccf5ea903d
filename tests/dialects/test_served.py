"""Dialects over real sockets: each seed's contract from its client's side."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import read_config
from dragoman.lab.simulator import Failure, Fault
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.dialects.conftest import Start
from tests.dialects.serving import NAMES, events_of, post
from tests.gateway.http import Answer, Connection, call
from tests.matrix.judges import find_node
from tests.memory.conftest import KEY, UPSTREAM

TOOLS = [
    {
        "type": "function",
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    {
        "type": "function",
        "name": "time",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
]


@pytest.mark.parametrize("by", ["route", "client"])
@pytest.mark.parametrize("upstream", NAMES)
def test_antwort(start: Start, upstream: str, by: str) -> None:
    """req: 12, 115, 117, 152, 153, 154"""
    gateway = start("antwort", by)
    body = {"model": f"{upstream}/sim-text", "input": "Hi", "stream": True}
    *events, done = events_of(post(gateway, "/v1/responses", body))
    assert done == "[DONE]"
    assert events[-1]["type"] == "response.completed"
    body["model"] = f"{upstream}/sim-truncate?after=8"
    *events, done = events_of(post(gateway, "/v1/responses", body))
    assert done == "[DONE]"
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["type"] == "model_error"
    assert not any(event["type"] == "error" for event in events)
    failed = post(gateway, "/v1/responses", {"model": f"{upstream}/sim-500", "input": "Hi"})
    assert (failed.status, failed.json["error"]["type"]) == (500, "model_error")
    limited = post(gateway, "/v1/responses", {"model": f"{upstream}/sim-400", "input": "Hi"})
    assert (limited.status, limited.json["error"]["type"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "kind"),
    [
        ("POST", "/v1/responses", b'{"input": "Hi"}', {}, 400, "invalid_request"),
        ("POST", "/v1/responses", b"{", {}, 400, "invalid_request"),
        ("GET", "/v1/responses/resp_none", None, {}, 404, "not_found"),
        ("POST", "/v1/responses", b'{"model": "none", "input": "x"}', {}, 404, "not_found"),
        ("PUT", "/v1/responses", b"{}", {}, 405, "invalid_request"),
        ("POST", "/v1/responses", b"x" * 70_000, {}, 413, "invalid_request"),
        ("POST", "/v1/responses", b"<a/>", {"content-type": "text/xml"}, 415, "invalid_request"),
    ],
)
def test_the_errors_of_antwort(
    start: Start,
    method: str,
    path: str,
    body: bytes,
    headers: dict[str, str],
    status: int,
    kind: str,
) -> None:
    """Its table of statuses, for a client that speaks it. req: 12, 152, 153, 154"""
    gateway = start("antwort", "client", "[server]\nbody_limit_bytes = 65536")
    own = {"content-type": "application/json", "authorization": f"Bearer {KEY}", **headers}
    with Connection(gateway.base_url) as connection:
        connection.send(method, path, body, own)
        answer = connection.answer()
    assert answer.status == status
    assert answer.json["error"]["type"] == kind
    assert answer.json["error"]["message"]
    if body == b'{"input": "Hi"}':
        assert answer.json["error"]["param"] == "model"


def outputs(response: dict[str, Any], text: str = "done") -> list[dict[str, Any]]:
    calls = response["required_action"]["submit_tool_outputs"]["tool_calls"]
    return [
        {"tool_call_id": called["id"], "output": f"{text} {n}"} for n, called in enumerate(calls)
    ]


@pytest.mark.parametrize("scenario", ["sim-tool", "sim-parallel_tools"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("upstream", NAMES)
def test_tokligence_end_to_end(
    start: Start, simulator: RunningSimulator, upstream: str, stream: bool, scenario: str
) -> None:
    """Call, required_action, submit_tool_outputs, answer. req: 11, 114, 162"""
    gateway = start("tokligence")
    asked = {
        "model": f"{upstream}/{scenario}",
        "input": "Weather, and the time?",
        "instructions": "Use tools.",
        "tools": TOOLS,
        "stream": stream,
    }
    response = final(post(gateway, "/v1/responses", asked), stream)
    assert response["status"] == "incomplete"
    path = f"/v1/responses/{response['id']}/submit_tool_outputs"
    given = outputs(response)
    assert len(given) == (2 if scenario == "sim-parallel_tools" else 1)
    answer = post(gateway, path, {"tool_outputs": given, "stream": stream})
    done = final(answer, stream)
    assert done["status"] == "completed"
    assert done["previous_response_id"] == response["id"]
    told = json.dumps(simulator.last.json)
    for output in given:
        assert output["output"] in told
    assert "Use tools." in told
    assert "Weather, and the time?" in told
    again = post(gateway, path, {"tool_outputs": given, "stream": stream})
    assert again.status == 409
    assert again.json["error"]["code"] == "already_submitted"
    late = post(gateway, f"/v1/responses/{done['id']}/submit_tool_outputs", {"tool_outputs": given})
    assert late.status == 400
    assert "does not wait" in late.json["error"]["message"]


def final(answer: Answer, stream: bool) -> dict[str, Any]:
    assert answer.status == 200, answer.body
    if not stream:
        whole: dict[str, Any] = answer.json
        return whole
    events = events_of(answer)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    response: dict[str, Any] = events[-1]["response"]
    return response


def test_outputs_that_do_not_fit(start: Start) -> None:
    """Named, and they may be submitted again as they should be."""
    gateway = start("tokligence")
    asked = {"model": "chat/sim-parallel_tools", "input": "Both!", "tools": TOOLS}
    response = final(post(gateway, "/v1/responses", asked), False)
    path = f"/v1/responses/{response['id']}/submit_tool_outputs"
    given = outputs(response)
    wrong = post(gateway, path, {"tool_outputs": given[:1]})
    assert wrong.status == 400
    assert wrong.json["error"]["param"] == "tool_outputs"
    assert final(post(gateway, path, {"tool_outputs": given}), False)["status"] == "completed"


def test_large_outputs_are_counted_before_they_are_decoded(start: Start) -> None:
    gateway = start("tokligence")
    asked = {"model": "chat/sim-tool", "input": "Go.", "tools": TOOLS}
    response = final(post(gateway, "/v1/responses", asked), False)
    path = f"/v1/responses/{response['id']}/submit_tool_outputs"
    with Connection(gateway.base_url) as client:
        client.sock.settimeout(90)
        many = {"tool_outputs": outputs(response), "x": [{}] * 60_000}
        client.send("POST", path, many, {"authorization": f"Bearer {KEY}"})
        assert client.answer().status == 413
    [output] = outputs(response)
    given = [{**output, "output": "word " * 150_000}]
    assert final(post(gateway, path, {"tool_outputs": given}), False)["status"] == "completed"


def test_outputs_may_be_submitted_again_when_the_upstream_failed(
    start: Start, simulator: RunningSimulator
) -> None:
    gateway = start("tokligence")
    asked = {"model": "chat/sim-tool", "input": "Go.", "tools": TOOLS}
    response = final(post(gateway, "/v1/responses", asked), False)
    path = f"/v1/responses/{response['id']}/submit_tool_outputs"
    fault = Fault("error", failure=Failure(status=500))
    simulator.app.keys.behaviours["sk-sim-account"] = KeyBehaviour(fault)
    try:
        failed = post(gateway, path, {"tool_outputs": outputs(response)})
    finally:
        simulator.app.keys.behaviours.clear()
    assert failed.status >= 500
    done = post(gateway, path, {"tool_outputs": outputs(response)})
    assert final(done, False)["status"] == "completed"


@pytest.mark.parametrize("upstream", NAMES)
def test_tokligence_counts_its_pings(start: Start, upstream: str) -> None:
    gateway = start("tokligence", server="[server]\nkeepalive_s = 0.05")
    body = {
        "model": f"{upstream}/sim-text?words=2&delay_ms=100",
        "input": "Hi",
        "stream": True,
    }
    events = events_of(post(gateway, "/v1/responses", body))
    assert "ping" in [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


PYTHON_PARSER = """
    import json, sys
    for line in sys.stdin.buffer.read().decode().split("\\n"):
        if not line or not line.startswith("data: "):
            continue
        payload = line.removeprefix("data: ")
        if payload == "[DONE]":
            break
        chunk = json.loads(payload)
        if "error" in chunk:
            raise RuntimeError(chunk["error"]["message"])
        delta = chunk["choices"][0]["delta"]
        if "content" in delta:
            print(delta["content"], end="")
"""
NODE_PARSER = """
    let buf = "";
    process.stdin.setEncoding("utf8");
    process.stdin.on("data", (piece) => { buf += piece; });
    process.stdin.on("end", () => {
      let at;
      while ((at = buf.indexOf("\\n\\n")) !== -1) {
        const event = buf.slice(0, at);
        buf = buf.slice(at + 2);
        const payload = event.slice(event.indexOf(":") + 1).trim();
        if (payload === "[DONE]") return;
        const chunk = JSON.parse(payload);
        if (chunk.error) throw new Error(chunk.error.message);
        process.stdout.write(chunk.choices[0].delta.content ?? "");
      }
    });
"""


def parsed(language: str, stream: bytes) -> subprocess.CompletedProcess[bytes]:
    if language == "python":
        command = [sys.executable, "-c", textwrap.dedent(PYTHON_PARSER)]
    else:
        command = [find_node(), "--input-type=module", "-e", textwrap.dedent(NODE_PARSER)]
    return subprocess.run(command, input=stream, capture_output=True, timeout=30)


@pytest.mark.parametrize("language", ["python", "node"])
@pytest.mark.parametrize("upstream", NAMES)
def test_shroud_is_read_by_parsers_of_ten_lines(start: Start, upstream: str, language: str) -> None:
    """No comments, no named events, one blank line, and an error that is followed by the end.
    req: 155, 163, 164
    """
    gateway = start("shroud", server="[server]\nkeepalive_s = 0.05\ncommit_after_s = 0.05")
    body = {
        "model": f"{upstream}/sim-multibyte?head_ms=150&delay_ms=80&chunks=3",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }
    answer = post(gateway, "/v1/chat/completions", body)
    for line in answer.body.decode().split("\n"):
        assert not line or line.startswith("data: "), line
    assert answer.body.endswith(b"}\n\ndata: [DONE]\n\n")
    assert b'"usage":{' not in answer.body
    read = parsed(language, answer.body)
    assert read.returncode == 0, read.stderr
    at_once = {**body, "model": f"{upstream}/sim-multibyte", "stream": False}
    full = post(gateway, "/v1/chat/completions", at_once)
    assert read.stdout.decode() == full.json["choices"][0]["message"]["content"]
    body["model"] = f"{upstream}/sim-truncate?after=6"
    cut = post(gateway, "/v1/chat/completions", body)
    *_, told, done = events_of(cut)
    assert set(told["error"]) >= {"message", "type", "code"}
    assert done == "[DONE]"
    assert parsed(language, cut.body).returncode != 0
    body |= {"model": f"{upstream}/sim-text", "stream_options": {"include_usage": True}}
    *_, usage, done = events_of(post(gateway, "/v1/chat/completions", body))
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("upstream", NAMES)
def test_the_fields_of_sop(start: Start, upstream: str, stream: bool) -> None:
    """The 22 fields, whole and streamed. req: 105, 106, 161"""
    gateway = start("sop")
    body = {"model": f"{upstream}/sim-text", "input": "Hi", "stream": stream}
    response = final(post(gateway, "/v1/responses", body), stream)
    assert len(response) == 22
    assert response["reasoning"] == {"effort": None, "summary": None}
    assert response["store"] is True


def test_dialects_are_told_apart_by_route(simulator: RunningSimulator, tmp_path: Path) -> None:
    text = f'[[clients]]\nname = "me"\nkey = "{KEY}"\n'
    text += UPSTREAM.format(name="u", protocol="openai_chat", base_url=simulator.base_url)
    for name, dialect in (("a", "antwort"), ("b", "official"), ("c", "sop")):
        text += f'[[routes]]\nmatch = "{name}"\nupstream = "u"\nmodel = "sim-text"\n'
        text += f'dialect = "{dialect}"\n'
    file = tmp_path / "dragoman.toml"
    file.write_text(text)
    with running_gateway(read_config(file)) as gateway:
        last = {
            name: events_of(
                post(gateway, "/v1/responses", {"model": name, "input": "Hi", "stream": True})
            )[-1]
            for name in "abc"
        }
    assert last["a"] == "[DONE]"
    assert len(last["b"]["response"]) > 22
    assert len(last["c"]["response"]) == 22


@pytest.mark.parametrize("upstream", NAMES)
def test_tokligence_in_the_background(start: Start, upstream: str) -> None:
    """What was made without its client waits for its tools like any other. req: 11"""
    gateway = start("tokligence")
    asked = {
        "model": f"{upstream}/sim-tool",
        "input": "Weather?",
        "tools": TOOLS,
        "background": True,
    }
    queued = post(gateway, "/v1/responses", asked).json
    assert queued["status"] == "queued"
    path = f"/v1/responses/{queued['id']}"
    early = post(gateway, f"{path}/submit_tool_outputs", {"tool_outputs": []})
    assert early.status == 400
    deadline = time.monotonic() + 20
    while (made := call(gateway.base_url, "GET", path, key=KEY).json)["status"] in (
        "queued",
        "in_progress",
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert made["status"] == "incomplete"
    assert made["required_action"]
    told = events_of(call(gateway.base_url, "GET", f"{path}?stream=true", key=KEY))
    assert "response.required_action" in [event["type"] for event in told]
    done = post(gateway, f"{path}/submit_tool_outputs", {"tool_outputs": outputs(made)}).json
    assert done["status"] == "completed"
    assert done["previous_response_id"] == made["id"]


@pytest.mark.parametrize("by", ["route", "client"])
def test_what_is_followed_ends_as_the_dialect_has_it(start: Start, by: str) -> None:
    """req: 117"""
    gateway = start("antwort", by)
    asked = {"model": "chat/sim-text", "input": "Hi", "background": True, "stream": True}
    *events, done = events_of(post(gateway, "/v1/responses", asked))
    assert done == "[DONE]"
    path = f"/v1/responses/{events[0]['response']['id']}?stream=true&starting_after=1"
    later = events_of(call(gateway.base_url, "GET", path, key=KEY))
    assert later == [*events[2:], "[DONE]"]
