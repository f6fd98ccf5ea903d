"""Agents that keep their history as clients of each protocol do, and send all of it every time."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.losses.requests import CHAT, MESSAGES, RESPONSES

JsonObject = dict[str, Any]

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
TOOLS = ("read_file", "run")


class Called(NamedTuple):
    """A call of the model."""

    id: str
    name: str


def image(mark: str) -> str:
    """A picture like no other, in base64."""
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + mark.encode()).decode()


class Agent(ABC):
    """One conversation. Every text in it holds a mark that occurs nowhere else."""

    def __init__(self) -> None:
        self.history: list[JsonObject] = []

    @abstractmethod
    def body(self, model: str) -> JsonObject:
        """The whole conversation as a request."""

    @abstractmethod
    def say(self, text: str) -> None:
        """The user speaks."""

    @abstractmethod
    def remind(self, text: str) -> None:
        """System text in the middle of the conversation."""

    @abstractmethod
    def take(self, answer: JsonObject) -> list[Called]:
        """Keep the model's answer; returns its calls."""

    @abstractmethod
    def give(self, calls: list[Called], mark: str) -> None:
        """The results of the calls; that of the first one has a picture."""


class ChatAgent(Agent):
    def body(self, model: str) -> JsonObject:
        functions = [{"name": name, "parameters": SCHEMA} for name in TOOLS]
        return {
            "model": model,
            "reasoning_effort": "low",
            "messages": [{"role": "system", "content": "mark-system"}, *self.history],
            "tools": [{"type": "function", "function": function} for function in functions],
        }

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def remind(self, text: str) -> None:
        self.history.append({"role": "system", "content": text})

    def take(self, answer: JsonObject) -> list[Called]:
        message = answer["choices"][0]["message"]
        kept = ("role", "content", "tool_calls", "reasoning_content", "reasoning_details")
        self.history.append({name: message[name] for name in kept if message.get(name)})
        calls = message.get("tool_calls") or []
        return [Called(call["id"], call["function"]["name"]) for call in calls]

    def give(self, calls: list[Called], mark: str) -> None:
        for number, call in enumerate(calls):
            content = [{"type": "text", "text": f"{mark}-result-{number}"}]
            self.history.append({"role": "tool", "tool_call_id": call.id, "content": content})
        url = f"data:image/png;base64,{image(mark)}"
        shown = {"type": "image_url", "image_url": {"url": url}}
        self.history.append({"role": "user", "content": [shown]})


class MessagesAgent(Agent):
    def body(self, model: str) -> JsonObject:
        return {
            "model": model,
            "max_tokens": 32000,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "system": [{"type": "text", "text": "mark-system"}],
            "messages": self.history,
            "tools": [{"name": name, "input_schema": SCHEMA} for name in TOOLS],
        }

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def remind(self, text: str) -> None:
        self.history.append({"role": "system", "content": text})

    def take(self, answer: JsonObject) -> list[Called]:
        blocks = answer["content"]
        self.history.append({"role": "assistant", "content": blocks})
        return [
            Called(block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"
        ]

    def give(self, calls: list[Called], mark: str) -> None:
        content: list[JsonObject] = []
        source = {"type": "base64", "media_type": "image/png", "data": image(mark)}
        for number, call in enumerate(calls):
            result: list[JsonObject] = [{"type": "text", "text": f"{mark}-result-{number}"}]
            if not number:
                result.append({"type": "image", "source": source})
            content.append({"type": "tool_result", "tool_use_id": call.id, "content": result})
        content.append({"type": "text", "text": f"{mark}-beside"})
        self.history.append({"role": "user", "content": content})


class ResponsesAgent(Agent):
    def body(self, model: str) -> JsonObject:
        return {
            "model": model,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto"},
            "instructions": "mark-system",
            "input": self.history,
            "tools": [
                {"type": "function", "name": name, "parameters": SCHEMA, "strict": False}
                for name in TOOLS
            ],
        }

    def say(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        self.history.append({"type": "message", "role": "user", "content": content})

    def remind(self, text: str) -> None:
        self.history.append({"role": "developer", "content": text})

    def take(self, answer: JsonObject) -> list[Called]:
        self.history += answer["output"]
        return [
            Called(item["call_id"], item["name"])
            for item in answer["output"]
            if item["type"] == "function_call"
        ]

    def give(self, calls: list[Called], mark: str) -> None:
        url = f"data:image/png;base64,{image(mark)}"
        for number, call in enumerate(calls):
            output: list[JsonObject] = [{"type": "input_text", "text": f"{mark}-result-{number}"}]
            if not number:
                output.append({"type": "input_image", "image_url": url, "detail": "auto"})
            self.history.append(
                {"type": "function_call_output", "call_id": call.id, "output": output}
            )


AGENTS: dict[str, type[Agent]] = {
    CHAT: ChatAgent,
    MESSAGES: MessagesAgent,
    RESPONSES: ResponsesAgent,
}


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a body with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from texts(inner, f"{path}[{number}]")
