"""A conversation with a gateway of several accounts, and which of them served it."""

from __future__ import annotations

from typing import Any

from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway
from tests.gateway.clients import PATHS, body
from tests.gateway.http import KEY, Answer, call

KEYS = ("sk-sim-org-a", "sk-sim-org-b", "sk-sim-org-c")
"""Accounts of different organisations: none can read another's reasoning."""

THINKING: dict[str, dict[str, Any]] = {
    "chat": {},
    "messages": {"thinking": {"type": "adaptive"}, "max_tokens": 4000},
    "responses": {
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    },
}


class Conversation:
    """A client that sends back all that it was given."""

    def __init__(self, gateway: RunningGateway, api: str, model: str, key: str = KEY) -> None:
        self.gateway, self.api, self.key = gateway, api, key
        self.made = body(api, model, **THINKING[api])
        self.list = "input" if api == "responses" else "messages"
        self.made[self.list] = []

    def say(
        self, text: str = "Hello", *, stream: bool = False, headers: dict[str, str] | None = None
    ) -> Answer:
        self.made[self.list].append({"role": "user", "content": text})
        made = {**self.made, "stream": stream}
        answer = call(self.gateway.base_url, "POST", PATHS[self.api], made, headers, key=self.key)
        assert answer.status == 200, answer.body
        if not stream:
            self.hear(answer.json)
        return answer

    def hear(self, value: Any) -> None:
        if self.api == "responses":
            self.made["input"] += value["output"]
        elif self.api == "chat":
            message = {"role": "assistant", "content": value["choices"][0]["message"]["content"]}
            self.made["messages"].append(message)
        else:
            self.made["messages"].append({"role": "assistant", "content": value["content"]})


def keys_of(simulator: RunningSimulator) -> list[str]:
    return [request.key for request in simulator.requests]


def rest(gateway: RunningGateway, simulator: RunningSimulator, key: str) -> None:
    """Have the account fail from now on."""
    fault = Fault("error", failure=Failure(status=429, retry_after="60"))
    simulator.app.keys.behaviours[key] = KeyBehaviour(fault)
