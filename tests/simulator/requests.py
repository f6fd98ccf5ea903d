"""Requests in each protocol that let every scenario speak, and a plain HTTP client."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

from dragoman.lab.simulator.script import Protocol
from dragoman.lab.simulator.testing import RunningSimulator

JsonObject = dict[str, Any]

KEY = "sk-sim-tests"
PROTOCOLS: tuple[Protocol, ...] = ("chat", "messages", "responses")
PATHS: dict[Protocol, str] = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
FREE_TEXT: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer. ``broken`` says that the body ended before its time."""

    status: int
    headers: dict[str, str]
    body: bytes
    broken: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def chat(model: str, question: str = "Say it.", **more: Any) -> JsonObject:
    return {"model": model, "messages": [{"role": "user", "content": question}], **more}


def messages(model: str, question: str = "Say it.", **more: Any) -> JsonObject:
    turn = {"role": "user", "content": question}
    return {"model": model, "max_tokens": 4096, "messages": [turn], **more}


def responses(model: str, question: str = "Say it.", **more: Any) -> JsonObject:
    return {"model": model, "input": question, **more}


PLAIN = {"chat": chat, "messages": messages, "responses": responses}


def plain(protocol: Protocol, model: str, question: str = "Say it.", **more: Any) -> JsonObject:
    """A request with nothing but a question."""
    return PLAIN[protocol](model, question, **more)


def rich(protocol: Protocol, model: str, **more: Any) -> JsonObject:
    """A request that offers tools, asks for reasoning and gives stop sequences."""
    if protocol == "chat":
        functions: list[JsonObject] = [
            {"type": "function", "function": {"name": name, "parameters": CITY}}
            for name in ("get_weather", "get_time")
        ]
        tools: list[JsonObject] = [
            *functions,
            {"type": "custom", "custom": {"name": "apply_patch"}},
        ]
        options: JsonObject = (
            {"stream_options": {"include_usage": True}} if more.get("stream") else {}
        )
        return chat(model, tools=tools, stop=["STOP"], reasoning_effort="low", **options, **more)
    if protocol == "messages":
        schemas = {"get_weather": CITY, "get_time": CITY, "apply_patch": FREE_TEXT}
        tools = [{"name": name, "input_schema": schema} for name, schema in schemas.items()]
        tools.append({"type": "web_search_20260318", "name": "web_search"})
        thinking = {"type": "adaptive"}
        return messages(model, tools=tools, stop_sequences=["STOP"], thinking=thinking, **more)
    functions = [
        {"type": "function", "name": name, "parameters": CITY, "strict": True}
        for name in ("get_weather", "get_time")
    ]
    inner: list[JsonObject] = [{"type": "function", "name": "search", "parameters": CITY}]
    namespace: JsonObject = {
        "type": "namespace",
        "name": "web",
        "description": "The web.",
        "tools": inner,
    }
    tools = [*functions, {"type": "custom", "name": "apply_patch"}, namespace]
    tools.append({"type": "web_search"})
    return responses(model, tools=tools, reasoning={"summary": "auto"}, **more)


def headers_of(protocol: Protocol, key: str = KEY) -> dict[str, str]:
    """The headers that the vendor's SDK sends."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    if protocol == "messages":
        headers["anthropic-version"] = "2026-10-21"
    return headers


def call(
    simulator: RunningSimulator,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One HTTP request; a body that breaks off is returned as far as it came."""
    connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=10)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers or {})
        response = connection.getresponse()
        broken = False
        try:
            content = response.read()
        except http.client.IncompleteRead as error:
            content, broken = error.partial, True
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, content, broken)
    finally:
        connection.close()


def post(
    simulator: RunningSimulator, protocol: Protocol, body: Any, key: str = KEY, **headers: str
) -> Answer:
    """A request to the protocol's own endpoint."""
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return call(simulator, "POST", PATHS[protocol], body, {**headers_of(protocol, key), **extra})
