"""A service that stores responses itself and makes them in the background: what it streams later
passes, and what it says of an account never does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from dragoman.config import read_config
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.http import call
from tests.memory.asking import client
from tests.memory.conftest import CLIENTS, KEY, OTHER_KEY
from tests.memory.upstreams import ACCOUNT, UPSTREAM
from tests.small_servers import Handler, handling

QUEUED = {"id": "resp_theirs", "object": "response", "status": "queued", "output": []}
DONE = {**QUEUED, "status": "completed", "output": [{"type": "message", "id": "msg_theirs"}]}
EVENTS = [
    {"type": "response.created", "sequence_number": 0, "response": QUEUED},
    {"type": "response.output_text.delta", "sequence_number": 1, "delta": "Hi"},
    {"type": "response.completed", "sequence_number": 2, "response": DONE},
]


class Service(Handler):
    """Knows one response, and one key that is out."""

    def post(self) -> None:
        self.taken()
        if self.path == "/v1/responses":
            self._say(200, QUEUED)
        elif self.path == "/v1/responses/resp_theirs/cancel":
            self._say(200, {**QUEUED, "status": "cancelled"})
        else:
            self._say(404, {"error": {"message": "no"}})

    def get(self) -> None:
        if "stream=true" in self.path:
            frames = [
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS[1:]
            ]
            self._say(200, "".join(frames).encode(), "text/event-stream")
        else:
            key = self.headers["authorization"]
            self._say(401, {"error": {"message": f"key {key} is out"}})

    def _say(self, status: int, body: object, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.reply(data, status=status, content_type=kind)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    with handling(Service) as url:
        text = CLIENTS + UPSTREAM.format(base_url=url) + ACCOUNT.format(key="sk-very-secret")
        file = tmp_path / "dragoman.toml"
        file.write_text(text)
        with running_gateway(read_config(file)) as running:
            yield running


def test_what_a_service_makes_in_the_background(gateway: RunningGateway) -> None:
    with client(gateway) as me, client(gateway, OTHER_KEY) as you:
        made = me.responses.create(model="native/any", input="Hi", background=True)
        assert made.status == "queued"
        with pytest.raises(openai.NotFoundError):
            list(you.responses.retrieve(made.id, stream=True))
        told = list(me.responses.retrieve(made.id, stream=True, starting_after=0))
        assert [event.sequence_number for event in told] == [1, 2]
        assert me.responses.cancel(made.id).status == "cancelled"
        with pytest.raises(openai.NotFoundError):
            you.responses.cancel(made.id)


def test_an_account_that_is_out_is_not_told_of(gateway: RunningGateway) -> None:
    with client(gateway) as me:
        made = me.responses.create(model="native/any", input="Hi", background=True)
    answer = call(gateway.base_url, "GET", f"/v1/responses/{made.id}", key=KEY)
    assert answer.status >= 500
    assert b"secret" not in answer.body
