"""What a client may do with a stored response, and what it is told when it may not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.storage import opening
from tests.gateway.http import call
from tests.memory.asking import client, say
from tests.memory.conftest import KEY, OTHER_KEY, Start, Talk

Make = Callable[..., Talk]


def test_a_response_is_shown_as_it_was_given(start: Start) -> None:
    with client(start()) as me:
        made = me.responses.create(model="messages/sim-text", input="Hi", metadata={"a": "b"})
        shown = me.responses.retrieve(made.id)
    assert shown.to_dict() == made.to_dict()


def test_a_response_is_dropped(start: Start) -> None:
    gateway = start()
    with client(gateway) as me:
        made = me.responses.create(model="chat/sim-text", input="Hi")
        answer = call(gateway.base_url, "DELETE", f"/v1/responses/{made.id}", key=KEY)
        assert answer.json == {"id": made.id, "object": "response", "deleted": True}
        for again in (me.responses.retrieve, me.responses.delete, me.responses.input_items.list):
            with pytest.raises(openai.NotFoundError, match="not found"):
                again(made.id)


def test_the_input_is_listed_page_by_page(start: Start) -> None:
    """The whole that the model was given, the latest first unless asked otherwise."""
    with client(start()) as me:
        first = me.responses.create(
            model="chat/sim-text", input=[say("one"), say("two"), say("three")]
        )
        second = me.responses.create(
            model="chat/sim-text", input="four", previous_response_id=first.id
        )
        oldest = list(me.responses.input_items.list(second.id, order="asc", limit=2))
        texts = [item.to_dict()["content"][0]["text"] for item in oldest]  # type: ignore[index]
        assert texts[:3] == ["one", "two", "three"]
        assert texts[3] == first.output_text
        assert texts[4:] == ["four"]
        page = me.responses.input_items.list(second.id, limit=2)
        assert [item.id for item in page.data] == [item.id for item in reversed(oldest)][:2]
        assert page.has_more
        rest = me.responses.input_items.list(second.id, limit=100, after=str(page.data[-1].id))
        assert [item.id for item in rest.data] == [item.id for item in reversed(oldest)][2:]
        assert not rest.has_more
        assert len({item.id for item in oldest}) == 5


def test_input_is_referred_to_by_the_ids_it_is_listed_with(start: Start) -> None:
    """Also what came without one; by its own client alone, and as long as it is there."""
    gateway = start()
    with client(gateway) as me, client(gateway, OTHER_KEY) as you:
        given: Any = [
            say("one"),
            {**say("two"), "id": "msg_mine"},
            {"role": "user", "content": "3"},
        ]
        made = me.responses.create(model="chat/sim-text", input=given)
        listed = list(me.responses.input_items.list(made.id, order="asc"))
        assert listed == list(me.responses.input_items.list(made.id, order="asc"))
        names = [str(item.id) for item in listed]
        assert names[1] == "msg_mine"
        referred: Any = [{"type": "item_reference", "id": name} for name in names]
        again = me.responses.create(model="chat/sim-text", input=referred)
        shown = list(me.responses.input_items.list(again.id, order="asc"))
        assert [item.to_dict() for item in shown] == [item.to_dict() for item in listed]
        with pytest.raises(openai.NotFoundError):
            you.responses.create(model="chat/sim-text", input=referred)
        me.responses.delete(made.id)
        last = me.responses.create(model="chat/sim-text", input=referred)
        for response in (again, last):
            me.responses.delete(response.id)
        for name in (names[0], names[0][:-1] + "9"):
            missing: Any = [say("Hi"), {"type": "item_reference", "id": name}]
            with pytest.raises(openai.NotFoundError, match=name):
                me.responses.create(model="chat/sim-text", input=missing)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=two", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("order=up", "order"),
        ("after=msg_unknown", "after"),
    ],
)
def test_pages_that_there_are_not(start: Start, query: str, param: str) -> None:
    gateway = start()
    with client(gateway) as me:
        made = me.responses.create(model="chat/sim-text", input="Hi")
    answer = call(gateway.base_url, "GET", f"/v1/responses/{made.id}/input_items?{query}", key=KEY)
    assert answer.status == 400
    assert answer.json["error"]["param"] == param
    assert len(answer.body) < 1000


@pytest.mark.parametrize("key", [KEY, OTHER_KEY])
@pytest.mark.parametrize(
    ("method", "below"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "?stream=true"),
        ("GET", "/input_items"),
        ("POST", "/cancel"),
        ("POST", "/submit_tool_outputs"),
    ],
)
def test_responses_that_there_are_not(start: Start, key: str, method: str, below: str) -> None:
    gateway = start()
    with client(gateway) as me:
        made = me.responses.create(model="chat/sim-text", input="Hi")
    names = ["resp_unknown", "x" * 5000, "%27%20OR%201=1"]
    for name in names if key == KEY else [made.id, *names]:
        body: Any = {"tool_outputs": []} if method == "POST" else None
        answer = call(gateway.base_url, method, f"/v1/responses/{name}{below}", body, key=key)
        assert answer.status == 404
        assert "not found" in answer.json["error"]["message"]
        assert len(answer.body) < 1000


def test_a_synchronous_response_cannot_be_cancelled_or_followed(start: Start) -> None:
    with client(start()) as me:
        made = me.responses.create(model="chat/sim-text", input="Hi")
        with pytest.raises(openai.BadRequestError, match="Cannot cancel a synchronous response"):
            me.responses.cancel(made.id)
        with pytest.raises(openai.BadRequestError, match="background"):
            list(me.responses.retrieve(made.id, stream=True))
        with pytest.raises(openai.BadRequestError, match="store"):
            me.responses.create(model="chat/sim-text", input="Hi", background=True, store=False)


def test_what_fails_is_kept_as_failed(start: Start) -> None:
    """A stream that is cut short ends in a response that says so when asked later."""
    with client(start()) as me:
        model = "messages/sim-truncate?after=5"
        stream = me.responses.create(model=model, input="Hi", stream=True)
        name = next(stream).response.id  # type: ignore[union-attr]
        with pytest.raises(openai.APIError):
            list(stream)
        assert me.responses.retrieve(name).status == "failed"


@pytest.fixture
def stale(tmp_path: Path) -> Callable[[], None]:
    """Puts something else where the store is."""

    def spoil() -> None:
        for path in tmp_path.glob("store.db*"):
            path.unlink()
        (tmp_path / "store.db").write_bytes(os.urandom(10_000))

    return spoil


@pytest.mark.parametrize("mode", ["full", "helper"])
def test_a_store_that_is_gone_stops_only_who_needs_it(
    start: Start, talk: Make, stale: Callable[[], None], mode: str
) -> None:
    me = talk(start(), mode=mode)
    first = me.answered("chat/sim-text", input="Hi")
    stale()
    kept = me.answered("chat/sim-text", input="Hi", store=False)
    assert kept["store"] is False
    unkept = me.answered("chat/sim-text", input="Hi")
    assert unkept["status"] == "completed"
    assert unkept["store"] is False
    error = me.ask("chat/sim-text", input="Hi", previous_response_id=first["id"]).error
    assert error is not None
    assert error.status == 503
    assert "Stored responses" in error.message


@pytest.mark.parametrize("mode", ["full", "helper"])
def test_a_store_that_is_full_makes_room_or_says_so(
    start: Start, talk: Make, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(opening, "LARGEST_RESPONSE", 8000)
    me = talk(start(storage="responses_bytes = 20000"), mode=mode)
    made = [me.answered("chat/sim-text", input=f"{turn} " + "x" * 2000) for turn in range(12)]
    assert all(one["store"] for one in made)
    error = me.ask("chat/sim-text", input="Hi", previous_response_id=made[0]["id"]).error
    assert error is not None
    assert error.code == "previous_response_not_found"
    me.answered("chat/sim-text", input="Hi", previous_response_id=made[-1]["id"])
    large = me.answered("chat/sim-text", input="x" * 9000)
    assert large["store"] is False
