"""Responses that the upstream stores itself: each is its client's, and with one account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.config import read_config
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.http import call
from tests.memory.asking import client, say
from tests.memory.conftest import CLIENTS, KEY, OTHER_KEY
from tests.memory.upstreams import ACCOUNT, UPSTREAM

KEYS = ("sk-one", "sk-two", "sk-three")
Open = Callable[..., RunningGateway]


@pytest.fixture
def opened(simulator: RunningSimulator, tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def one(
            clients: str = CLIENTS,
            storage: str = 'path = "store.db"',
            keys: tuple[str, ...] = KEYS,
            upstream: str = "",
        ) -> RunningGateway:
            accounts = "".join(ACCOUNT.format(key=key) for key in keys)
            made = UPSTREAM.format(base_url=simulator.base_url) + upstream
            file = tmp_path / "dragoman.toml"
            file.write_text(f"[storage]\n{storage}\n{clients}{made}{accounts}")
            return stack.enter_context(running_gateway(read_config(file)))

        yield one


def account_of(simulator: RunningSimulator) -> str:
    """The key of the account that was asked last."""
    return simulator.last.key


@pytest.mark.parametrize("affinity", ["conversation", "off"])
@pytest.mark.parametrize("storage", ['path = "store.db"', 'path = ""'])
def test_each_is_asked_for_at_its_account(
    opened: Open, simulator: RunningSimulator, affinity: str, storage: str
) -> None:
    """Gone on from, shown, listed and deleted: wherever it was made."""
    gateway = opened(storage=storage, upstream=f'affinity = "{affinity}"\n')
    with client(gateway) as me:
        made: list[tuple[str, str]] = []
        for turn in range(6):
            response = me.responses.create(model="native/sim-text", input=f"turn {turn}")
            made.append((response.id, account_of(simulator)))
        assert len({account for _, account in made}) == 3
        for name, account in reversed(made):
            later = me.responses.create(
                model="native/sim-text", input="More", previous_response_id=name
            )
            assert account_of(simulator) == account
            assert me.responses.retrieve(later.id).id == later.id
            assert account_of(simulator) == account
            items = list(me.responses.input_items.list(name))
            assert account_of(simulator) == account
            assert items
            me.responses.delete(name)
            assert account_of(simulator) == account
            with pytest.raises(openai.NotFoundError):
                me.responses.retrieve(name)


def test_a_stream_is_known_from_its_first_event_and_at_every_worker(
    opened: Open, simulator: RunningSimulator
) -> None:
    """Also after a restart, and when the client left in the middle."""
    first = opened()
    with client(first) as me:
        stream = me.responses.create(
            model="native/sim-text?words=50&delay_ms=20", input="Hi", stream=True
        )
        name = next(iter(stream)).response.id  # type: ignore[union-attr]
        account = account_of(simulator)
        with client(opened()) as elsewhere:
            answer = call(first.base_url, "POST", f"/v1/responses/{name}/cancel", {}, key=KEY)
            assert answer.status == 404
            assert account_of(simulator) == account
            assert [event.type for event in stream][-1] == "response.completed"
            assert elsewhere.responses.retrieve(name).id == name
            assert account_of(simulator) == account
        first.stop()
    with client(opened()) as me:
        me.responses.create(model="native/sim-text", input="Go on", previous_response_id=name)
        assert account_of(simulator) == account


def test_nobody_has_what_is_anothers(opened: Open, simulator: RunningSimulator) -> None:
    """The service knows no clients, and would show it."""
    gateway = opened()
    with client(gateway) as me, client(gateway, OTHER_KEY) as you:
        made = me.responses.create(model="native/sim-text", input="My secret")
        sent = len(simulator.requests)
        with pytest.raises(openai.BadRequestError) as caught:
            you.responses.create(
                model="native/sim-text", input="Tell", previous_response_id=made.id
            )
        assert caught.value.code == "previous_response_not_found"
        for again in (you.responses.retrieve, you.responses.delete, you.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                again(made.id)
        with pytest.raises(openai.NotFoundError):
            list(you.responses.input_items.list(made.id))
        referred: Any = [say("Tell"), {"type": "item_reference", "id": made.output[0].id}]
        with pytest.raises(openai.NotFoundError):
            you.responses.create(model="native/sim-text", input=referred)
        with pytest.raises(openai.BadRequestError, match="Conversations"):
            you.responses.create(model="native/sim-text", input="Hi", conversation="conv_1")
        with pytest.raises(openai.BadRequestError) as caught:
            you.responses.input_tokens.count(
                model="native/sim-text", input="Tell", previous_response_id=made.id
            )
        assert caught.value.code == "previous_response_not_found"
        assert len(simulator.requests) == sent
        me.responses.create(model="native/sim-text", input=referred)
        assert me.responses.retrieve(made.id).id == made.id


def test_where_there_is_one_client_the_service_says_what_there_is(
    opened: Open, simulator: RunningSimulator
) -> None:
    """What was made before this gateway was there can be gone on from."""
    gateway = opened(clients="", keys=KEYS[:1])
    with client(gateway) as me:
        direct = openai.OpenAI(base_url=f"{simulator.base_url}/v1", api_key=KEYS[0])
        before = direct.responses.create(model="sim-text", input="Hi")
        direct.close()
        assert me.responses.retrieve(before.id).id == before.id
        me.responses.create(model="native/sim-text", input="More", previous_response_id=before.id)
        with pytest.raises(openai.NotFoundError, match="not found"):
            me.responses.retrieve("resp_unknown")
        with pytest.raises(openai.NotFoundError):
            me.responses.retrieve("..%2Fmodels")


def test_an_account_that_is_out_is_waited_for_not_gone_around(
    opened: Open, simulator: RunningSimulator
) -> None:
    gateway = opened(upstream="attempts = 3\n")
    with client(gateway) as me:
        made = me.responses.create(model="native/sim-text", input="Hi")
        account = account_of(simulator)
        with pytest.raises(openai.APIStatusError) as caught:
            me.responses.create(model="native/sim-429", input="Hi", previous_response_id=made.id)
        assert caught.value.status_code in (429, 503)
        asked = [one.key for one in simulator.requests]
        assert set(asked[1:]) == {account}
        assert caught.value.response.headers["retry-after"]


def test_nothing_of_what_is_said_is_kept_here(
    opened: Open, simulator: RunningSimulator, tmp_path: Path
) -> None:
    gateway = opened()
    with client(gateway) as me:
        me.responses.create(model="native/sim-echo", input="the cat is called Schnurrli")
        assert simulator.last.json.get("store") is not False
    gateway.stop()
    for path in tmp_path.iterdir():
        assert b"Schnurrli" not in path.read_bytes()
