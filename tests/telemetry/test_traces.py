"""What a collector is sent of requests."""

from __future__ import annotations

import itertools
import json
import logging
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from dragoman.canonical.usage import Usage
from dragoman.config import Client, Config, OwnPrice, Route, Secret
from dragoman.config.settings import Fallback
from dragoman.edge.record import Record
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.observability.finished import FinishedRequest
from dragoman.observability.traces import exporting
from dragoman.observability.traces.spans import Peer, TracedRequest, spans_of
from dragoman.processes.listening import bind
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import APIS, PATHS, body
from tests.gateway.conftest import PROTOCOLS
from tests.gateway.http import AUTH, KEY, Answer, Connection, call
from tests.telemetry.collector import Collector, Received
from tests.telemetry.conftest import Trace

CELLS = list(itertools.product(APIS, APIS, (False, True)))
LIMITS = {
    "chat": {"max_completion_tokens": 77},
    "messages": {"max_tokens": 77},
    "responses": {"max_output_tokens": 77},
}
IDS = {"chat": "chatcmpl-", "messages": "msg_", "responses": "resp_"}
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def ask(gateway: RunningGateway, api: str, model: str, stream: bool = False, **more: Any) -> Answer:
    return call(gateway.base_url, "POST", PATHS[api], body(api, model, stream=stream, **more))


def ask_within(gateway: RunningGateway, flags: str, key: str = KEY) -> None:
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-{flags}", "authorization": f"Bearer {key}"}
    with Connection(gateway.base_url) as connection:
        connection.send("POST", PATHS["chat"], body("chat", "chat/sim-text"), headers)
        assert connection.answer().status == 200


def of_kind(spans: list[Received], kind: str) -> Received:
    (found,) = (span for span in spans if span.kind == kind)
    return found


@pytest.mark.parametrize(("client", "upstream", "stream"), CELLS)
def test_a_request_is_two_spans(
    trace: Trace, collector: Collector, client: str, upstream: str, stream: bool
) -> None:
    """Tokens are the same whoever counts them: of these vendors one counts without the cache."""
    gateway = trace()
    model = f"{upstream}/sim-cached_usage?input=200&output=50&cached=64&written=32"
    assert ask(gateway, client, model, stream, **LIMITS[client]).status == 200
    spans = collector.wait_for(2)
    assert len(spans) == 2
    server, called = of_kind(spans, "server"), of_kind(spans, "client")
    assert server.name == f"POST {PATHS[client]}"
    assert not server.parent_id
    assert called.parent_id == server.span_id
    assert called.trace_id == server.trace_id
    assert not server.failed
    assert not called.failed
    assert 0 < called.seconds <= server.seconds
    assert server.attributes["http.request.method"] == "POST"
    assert server.attributes["http.route"] == server.attributes["url.path"] == PATHS[client]
    assert server.attributes["http.response.status_code"] == 200
    assert server.attributes["dragoman.client.protocol"] == PROTOCOLS[client]
    assert server.attributes["dragoman.key.id"] == "tester"
    assert server.attributes["url.scheme"] == "http"
    assert server.attributes["server.address"] == "localhost"
    assert 0 < server.attributes["dragoman.overhead.ms"] < server.seconds * 1000
    found = called.attributes
    name = model.partition("/")[2]
    assert called.name == f"chat {name}"
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == upstream
    assert found["gen_ai.request.model"] == name
    assert found["server.address"] == "127.0.0.1"
    assert found["server.port"] > 0
    assert found["dragoman.upstream.protocol"] == PROTOCOLS[upstream]
    assert found["dragoman.account.id"] == f"{upstream}-0"
    assert found["gen_ai.response.finish_reasons"] == ["stop"]
    assert found["gen_ai.usage.input_tokens"] == 200
    assert found["gen_ai.usage.output_tokens"] == 50
    assert found["gen_ai.usage.cache_read.input_tokens"] == 64
    assert found.get("gen_ai.request.stream") == (True if stream else None)
    assert ("gen_ai.response.time_to_first_chunk" in found) == stream
    assert found["gen_ai.request.max_tokens"] == 77
    assert found["gen_ai.response.id"].startswith(IDS[upstream])
    assert found["gen_ai.response.model"] == name


def test_what_an_agent_asks_for(trace: Trace, collector: Collector) -> None:
    headers = {
        "x-claude-code-request-class": "subagent",
        "x-claude-code-agent-type": "general-purpose",
        "x-claude-code-prompt-id": "5f0c",
    }
    made = body("messages", "chat/sim-text")
    assert call(trace().base_url, "POST", PATHS["messages"], made, headers).status == 200
    found = of_kind(collector.wait_for(2), "server").attributes
    assert found["dragoman.request.class"] == "subagent"
    assert found["gen_ai.agent.name"] == "general-purpose"
    assert found["dragoman.prompt.id"] == "5f0c"
    assert "gen_ai.agent.id" not in found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_why_it_ended(trace: Trace, collector: Collector, api: str, stream: bool) -> None:
    """In the same words for what is passed through as for what is translated."""
    gateway = trace()
    for asked, reason in (("sim-tool", "tool_calls"), ("sim-text?finish=length", "length")):
        for upstream in (api, "messages" if api == "chat" else "chat"):
            collector.spans.clear()
            tools = {"tools": [TOOLS[api]]} if asked == "sim-tool" else {}
            assert ask(gateway, api, f"{upstream}/{asked}", stream, **tools).status == 200
            found = of_kind(collector.wait_for(2), "client").attributes
            assert found["gen_ai.response.finish_reasons"] == [reason], (upstream, asked)


_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"type": "function", "function": {"name": "look", "parameters": _NO_ARGUMENTS}},
    "messages": {"name": "look", "input_schema": _NO_ARGUMENTS},
    "responses": {"type": "function", "name": "look", "parameters": _NO_ARGUMENTS},
}
SCHEMA = {"name": "n", "schema": {"type": "object", "properties": {"p" * 200: {}}}}


@pytest.mark.parametrize(
    ("client", "asked", "told"),
    [
        ("chat", {"response_format": {"type": "json_object"}}, "json"),
        ("chat", {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}, "json"),
        ("responses", {"text": {"format": {"type": "text"}, "verbosity": "low"}}, "text"),
        ("responses", {"text": {"format": {"type": "json_schema", **SCHEMA}}}, "json"),
        ("responses", {"text": {"verbosity": "low"}}, None),
    ],
)
def test_the_format_that_is_asked_for(
    trace: Trace, collector: Collector, client: str, asked: dict[str, Any], told: str | None
) -> None:
    made = body(client, f"{client}/sim-text?compatible=1", "JSON", service_tier="flex")
    assert call(trace().base_url, "POST", PATHS[client], made | asked).status == 200
    found = of_kind(collector.wait_for(2), "client").attributes
    assert found.get("gen_ai.output.type") == told
    assert not [name for name in found if name.startswith("openai.")], "it is not OpenAI"


@pytest.mark.parametrize(
    ("protocol", "kind"), [("openai_chat", "chat_completions"), ("openai_responses", "responses")]
)
def test_what_openai_itself_is_told_of(protocol: str, kind: str) -> None:
    record = Record()
    record.upstream = record.account = "up"
    record.upstream_model, record.attempts = "m", 1
    record.settings = {"service_tier": Raw(b'"flex"')}
    record.usage = Usage(input=1, output=1, tier="priority")
    finished = FinishedRequest(
        record,
        at=10.0**9,
        seconds=1.0,
        first_byte_s=None,
        request_id="r",
        protocol=protocol,
        method="POST",
        host=b"gateway.example:8443",
        route="/v1/x",
        path="/v1/x",
        status=200,
        user_agent=b"",
    )
    traced = TracedRequest(finished, "https", trace_id=1, span_id=2, parent_id=0, call_id=3)
    peers = {"up": Peer(protocol, "openai", "api.openai.com", 443)}
    server, called = spans_of(traced, peers, "both")
    found = called.attributes
    assert {name: found[name] for name in found if name.startswith("openai.")} == {
        "openai.api.type": kind,
        "openai.request.service_tier": "flex",
        "openai.response.service_tier": "priority",
    }
    told = [server.attributes[f"server.{one}"] for one in ("address", "port")]
    assert told == ["gateway.example", 8443]


def test_names_of_before_and_of_now(trace: Trace, collector: Collector) -> None:
    written = "gen_ai.usage.cache_write.input_tokens"
    before = "gen_ai.usage.cache_creation.input_tokens"
    for conventions in ("main", "v1_41", "both"):
        gateway = trace(conventions=conventions)
        ask(gateway, "messages", "messages/sim-cached_usage?input=200&written=32")
        found = of_kind(collector.wait_for(2), "client").attributes
        assert found.get(written) == (None if conventions == "v1_41" else 32)
        assert found.get(before) == (None if conventions == "main" else 32)
        collector.spans.clear()


@pytest.mark.parametrize(("client", "upstream", "stream"), CELLS)
def test_every_attempt_of_several_is_a_span(
    trace: Trace,
    collector: Collector,
    simulator: RunningSimulator,
    client: str,
    upstream: str,
    stream: bool,
) -> None:
    failure = Fault("error", failure=Failure(500))
    simulator.app.keys.behaviours["sk-sim-a"] = KeyBehaviour(failure)
    simulator.app.keys.behaviours["sk-sim-b"] = KeyBehaviour(failure)
    gateway = trace(keys=("sk-sim-a", "sk-sim-b", "sk-sim-c"), sample=0.0)
    while True:
        answer = ask(gateway, client, f"{upstream}/sim-text", stream=stream)
        assert answer.status == 200
        if collector.spans or _samples(gateway).get('dragoman_traces_total{result="sent"}'):
            break
    trace_id = collector.wait_for(4)[0].trace_id
    spans = [span for span in collector.spans if span.trace_id == trace_id]
    server = of_kind(spans, "server")
    (called,) = (span for span in spans if span.parent_id == server.span_id)
    assert called.kind == "client"
    attempts = [span for span in spans if span.parent_id == called.span_id]
    assert [span.name for span in attempts] == ["POST"] * len(attempts)
    assert called.attributes["dragoman.attempts"] == len(attempts) >= 2
    *failed, good = attempts
    for number, span in enumerate(failed):
        assert span.failed
        assert span.attributes["http.response.status_code"] == 500
        assert span.attributes["error.type"]
        assert span.attributes.get("http.request.resend_count", 0) == number
    assert not good.failed
    assert good.attributes["http.request.resend_count"] == len(failed)
    accounts = [span.attributes["dragoman.account.id"] for span in attempts]
    assert len(set(accounts)) == len(accounts)
    assert sum(span.seconds for span in attempts) <= called.seconds + 0.05


@pytest.mark.parametrize(("client", "upstream", "stream"), CELLS)
def test_what_failed_is_always_traced(
    trace: Trace, collector: Collector, client: str, upstream: str, stream: bool
) -> None:
    gateway = trace(sample=0.0)
    assert ask(gateway, client, f"{upstream}/sim-text", stream).status == 200
    torn = ask(gateway, client, f"{upstream}/sim-text?words=20&fault=truncate&after=9", stream)
    assert torn.status == (200 if stream else 502)
    spans = collector.wait_for(2)
    called = next(span for span in spans if span.name.startswith("chat "))
    assert called.failed
    assert called.attributes["error.type"]
    assert called.attributes["gen_ai.response.finish_reasons"] == ["error"]
    assert len({span.trace_id for span in spans}) == 1
    server = of_kind(spans, "server")
    assert (called.kind, called.parent_id, server.parent_id) == ("client", server.span_id, "")
    assert server.name == f"POST {PATHS[client]}"


def test_a_refusal_is_traced_without_a_call(trace: Trace, collector: Collector) -> None:
    gateway = trace(sample=0.0)
    assert ask(gateway, "chat", "no-such-model").status == 404
    (server,) = collector.wait_for(1)
    assert server.kind == "server"
    assert not server.failed
    assert server.attributes["http.response.status_code"] == 404
    assert server.attributes["dragoman.error"] == "model_not_found"


@pytest.mark.parametrize(
    ("path", "asked", "operation"),
    [
        ("/v1/embeddings", {"input": "one"}, "embeddings"),
        ("/v1/completions", {"prompt": "one"}, "text_completion"),
        ("/v1/rerank", {"query": "one", "documents": ["one"]}, "rerank"),
    ],
)
def test_what_is_no_answer_is_named_by_its_operation(
    trace: Trace, collector: Collector, path: str, asked: dict[str, Any], operation: str
) -> None:
    gateway = trace()
    request = {"model": "chat/sim-model", **asked}
    assert call(gateway.base_url, "POST", path, request).status == 200
    called = of_kind(collector.wait_for(2), "client")
    assert called.name == f"{operation} sim-model"
    assert called.attributes["gen_ai.operation.name"] == operation
    assert called.attributes["gen_ai.usage.input_tokens"] > 0
    assert "openai.api.type" not in called.attributes


def test_a_fallback_is_traced(trace: Trace, collector: Collector) -> None:
    def change(config: Config) -> Config:
        route = Route(
            match="m",
            upstream="chat",
            model="sim-text?fault=error&status=500",
            fallbacks=(Fallback(upstream="messages", model="sim-text"),),
        )
        return replace(config, routes=(route,))

    gateway = trace(change, sample=0.0)
    assert ask(gateway, "chat", "m").status == 200
    called = next(span for span in collector.wait_for(4) if span.name.startswith("chat "))
    assert called.attributes["dragoman.fallback.from"] == "chat"
    assert called.attributes["dragoman.upstream"] == "messages"
    assert not called.failed


def test_what_is_asked_often_is_not_traced(trace: Trace, collector: Collector) -> None:
    gateway = trace()
    for path in ("/healthz", "/readyz", "/metrics"):
        assert call(gateway.base_url, "GET", path).status == 200
    assert ask(gateway, "chat", "chat/sim-text").status == 200
    assert len(collector.wait_for(2)) == 2


def test_a_client_s_trace_goes_on(trace: Trace, collector: Collector) -> None:
    gateway = trace()
    ask_within(gateway, "00")
    server = of_kind(collector.wait_for(2), "server")
    assert (server.trace_id, server.parent_id) == (TRACE, SPAN)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_name_their_trace(trace: Trace, collector: Collector, stream: bool) -> None:
    gateway = trace()
    told = ask(gateway, "messages", "chat/sim-text", stream).headers["x-trace-id"]
    assert told == collector.wait_for(2)[-1].trace_id
    failed = ask(gateway, "responses", "chat/sim-error?status=400", stream).headers["x-trace-id"]
    assert len(failed) == 32
    assert failed != told


def test_only_who_is_trusted_decides_what_is_traced(trace: Trace, collector: Collector) -> None:
    def change(config: Config) -> Config:
        other = Client(name="other", key=Secret("sk-the-other-client"))
        return replace(config, clients=(*config.clients, other))

    gateway = trace(change, sample=0.0, trusted_clients=("tester",))
    ask_within(gateway, "01", key="sk-the-other-client")
    ask_within(gateway, "00")
    ask_within(gateway, "01")
    spans = collector.wait_for(2)
    assert of_kind(spans, "server").attributes["dragoman.key.id"] == "tester"
    assert len(spans) == 2


@pytest.mark.parametrize("told", [False, True])
def test_upstreams_are_told_where_they_are_to_be(
    trace: Trace, collector: Collector, simulator: RunningSimulator, told: bool
) -> None:
    def change(config: Config) -> Config:
        upstreams = (replace(one, propagate_trace=told) for one in config.upstreams)
        return replace(config, upstreams=tuple(upstreams))

    ask_within(trace(change), "01")
    called = of_kind(collector.wait_for(2), "client")
    sent = dict(simulator.last.headers).get("traceparent")
    assert sent == (f"00-{TRACE}-{called.span_id}-01" if told else None)


def test_the_log_names_the_trace(
    trace: Trace, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "dragoman.requests"):
        ask(trace(), "chat", "chat/sim-text")
        trace_id = collector.wait_for(2)[0].trace_id
    lines = [json.loads(text) for text in caplog.messages if text.startswith("{")]
    assert trace_id in [line.get("trace_id") for line in lines]


def test_the_cost_is_told(trace: Trace, collector: Collector) -> None:
    def change(config: Config) -> Config:
        price = OwnPrice(model="sim-*", input="1.00", output="2.00")
        return replace(config, prices=(price,))

    ask(trace(change), "chat", "chat/sim-cached_usage?input=1000&output=500&cached=0&written=0")
    found = of_kind(collector.wait_for(2), "client").attributes
    assert found["dragoman.cost.usd"] == found["gen_ai.usage.cost"] == pytest.approx(0.002)


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_secret_is_sent(trace: Trace, collector: Collector, stream: bool) -> None:
    """No text, no key, no hash of one: of any pair, answered or failed."""
    gateway = trace()
    asked = 0
    for api in APIS:
        for upstream in PROTOCOLS:
            for steering in (
                "text=PRIVATE-ANSWER",
                "scenario=error status=400 message=PRIVATE-ERROR",
            ):
                made = body(api, f"{upstream}/sim-text", f"PRIVATE-PROMPT [[sim: {steering}]]")
                made |= {"stream": stream, **_PRIVATE[api]}
                told = call(gateway.base_url, "POST", PATHS[api], made)
                words = b"PRIVATE-ANSWER" if "text" in steering else b"PRIVATE-ERROR"
                assert words in told.body, "the client itself is told"
                asked += 1
    collector.wait_for(2 * asked)
    sent = b"".join(collector.raw)
    assert b"PRIVATE" not in sent
    assert KEY.encode() not in sent
    assert b"sk-sim" not in sent


_PRIVATE: dict[str, dict[str, Any]] = {
    "chat": {"stop": ["PRIVATE-STOP"], "user": "PRIVATE-USER"},
    "messages": {"stop_sequences": ["PRIVATE-STOP"], "metadata": {"user_id": "PRIVATE-USER"}},
    "responses": {"instructions": "PRIVATE-STOP", "safety_identifier": "PRIVATE-USER"},
}


def test_who_sends_is_named(
    trace: Trace, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(trace(), "chat", "chat/sim-text")
    first = collector.wait_for(2)[0].resource
    assert first["service.name"] == "dragoman"
    assert first["service.version"]
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    ask(trace(), "chat", "chat/sim-text")
    second = collector.wait_for(4)[-1].resource
    assert second["service.name"] == "ours"
    assert second["deployment.environment.name"] == "test"
    assert first["service.instance.id"]


def test_variables_win_over_the_share(
    trace: Trace, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1.0")
    ask(trace(sample=0.0), "chat", "chat/sim-text")
    collector.wait_for(2)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    gateway = trace()
    ask(gateway, "chat", "chat/sim-text")
    assert gateway.app._services.exporting is None


def test_a_collector_that_is_away_holds_up_nobody(
    trace: Trace, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are answered, what waits is bounded, and what is not sent is counted."""
    monkeypatch.setattr(exporting, "_MOST_WAITING", 20)
    collector.status = 400
    gateway = trace()
    for _ in range(60):
        assert ask(gateway, "chat", "chat/sim-text").status == 200
    while collector.refused < 2:
        assert ask(gateway, "chat", "chat/sim-text").status == 200
    waiting = gateway.app._services.exporting
    assert waiting is not None
    assert waiting.waiting <= 20
    counted = _samples(gateway)
    assert counted['dragoman_traces_total{result="failed"}'] >= 2
    collector.status = 200
    ask(gateway, "chat", "chat/sim-text")
    collector.wait_for(2)


@pytest.mark.parametrize("listens", [True, False])
def test_a_collector_that_says_nothing_holds_up_nobody(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    """Nobody is there, or takes what is sent and never answers: for as long as it may be."""
    monkeypatch.setattr(exporting, "_MOST_WAITING", 20)
    with bind("127.0.0.1", 0) as silent:
        if listens:
            silent.listen()
        port = silent.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        gateway = trace()
        for _ in range(60):
            assert ask(gateway, "chat", "chat/sim-text").status == 200
        waiting = gateway.app._services.exporting
        assert waiting is not None
        assert waiting.waiting <= 20
        # What is being sent is in none of these yet.
        counted = _samples(gateway)
        names = [f'dragoman_traces_total{{result="{name}"}}' for name in ("dropped", "failed")]
        assert sum(counted.get(name, 0) for name in names) >= 20
        gateway.stop()


def test_what_waits_is_sent_at_the_end(trace: Trace, collector: Collector) -> None:
    gateway = trace()
    for _ in range(5):
        ask(gateway, "chat", "chat/sim-text")
    gateway.stop()
    assert len(collector.wait_for(10)) == 10


def _samples(gateway: RunningGateway) -> dict[str, float]:
    text = call(gateway.base_url, "GET", "/metrics", key=AUTH["authorization"]).body.decode()
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}
