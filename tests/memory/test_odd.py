"""Stored responses in odd circumstances."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.storage import opening
from tests.checkers.framing import frames
from tests.gateway.http import Connection, call
from tests.gateway.processes import until
from tests.memory.asking import client, say
from tests.memory.background import SLOW, finished
from tests.memory.conftest import KEY, Start, Talk

Make = Callable[..., Talk]
UPSTREAMS = ["chat", "messages", "responses"]
AUTH = {"authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("stream", [False, True])
def test_odd_text_comes_back_as_it_was(start: Start, upstream: str, stream: bool) -> None:
    """Line separators, controls, astral characters, numbers of any form, members nobody knows."""
    text = "a\u2028b\u2029c\u0085d\x00e\U0001f600\u007f" + "é" * 100
    gateway = start()
    item = {"role": "user", "content": [{"type": "input_text", "text": text}]}
    body = {"model": f"{upstream}/sim-echo", "input": [item], "stream": stream}
    answer = call(gateway.base_url, "POST", "/v1/responses", body, key=KEY)
    made = json.loads(frames(answer.body)[-1].data)["response"] if stream else answer.json
    shown = call(gateway.base_url, "GET", f"/v1/responses/{made['id']}", key=KEY).json
    assert shown == made
    listed = call(gateway.base_url, "GET", f"/v1/responses/{made['id']}/input_items", key=KEY).json
    assert listed["data"][0]["content"][0]["text"] == text
    body = {"model": f"{upstream}/sim-text", "input": "?", "previous_response_id": made["id"]}
    assert call(gateway.base_url, "POST", "/v1/responses", body, key=KEY).status == 200


def test_half_a_character_names_nothing(start: Start) -> None:
    gateway = start()
    for body in (
        b'{"model":"chat/sim-text","input":"x","previous_response_id":"\\udfff"}',
        b'{"model":"responses/sim-text","input":[{"type":"item_reference","id":"\\ud800"}]}',
    ):
        with Connection(gateway.base_url) as connection:
            headers = {**AUTH, "content-type": "application/json"}
            connection.send("POST", "/v1/responses", body, headers)
            assert connection.head().status in (400, 404)


def test_a_picture_is_kept_as_it_came(start: Start, simulator: RunningSimulator) -> None:
    url = (
        "data:image/png;base64,"
        + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk" * 2000
    )
    parts = [{"type": "input_image", "image_url": url, "detail": "auto"}]
    with client(start()) as me:
        image: Any = [{"role": "user", "content": parts}]
        first = me.responses.create(model="responses/sim-text", input=image)
        me.responses.create(model="responses/sim-text", input="And?", previous_response_id=first.id)
        assert simulator.last.json["input"][0]["content"] == parts
        listed = list(me.responses.input_items.list(first.id))
        assert listed[0].to_dict()["content"] == parts


@pytest.mark.parametrize(
    "name",
    [
        "%2e%2e%2fmodels",
        "resp_%00",
        "resp_%0a",
        "resp_%ff%fe",
        "resp_%F0%9F%98%80",
        "resp_%22;drop",
        "%20",
        "resp_" + "%41" * 2000,
    ],
)
def test_names_that_are_none(start: Start, name: str) -> None:
    gateway = start()
    for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("HEAD", "")):
        with Connection(gateway.base_url) as connection:
            connection.send(method, f"/v1/responses/{name}{below}", headers=AUTH)
            assert connection.head().status in (400, 404)


def test_only_the_head_is_given_where_only_that_is_asked_for(start: Start) -> None:
    gateway = start()
    with client(gateway) as me:
        made = me.responses.create(model="chat/sim-text", input="Hi")
    with Connection(gateway.base_url) as connection:
        connection.send("HEAD", f"/v1/responses/{made.id}", headers=AUTH)
        assert connection.head().status == 200
        connection.send("GET", "/healthz")
        assert connection.head().status == 200


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_count_is_of_the_whole_conversation(
    start: Start, simulator: RunningSimulator, upstream: str
) -> None:
    with client(start()) as me:
        long = "word " * 500
        first = me.responses.create(model=f"{upstream}/sim-text", input=long)
        alone = me.responses.input_tokens.count(model=f"{upstream}/sim-text", input="More")
        both = me.responses.input_tokens.count(
            model=f"{upstream}/sim-text", input="More", previous_response_id=first.id
        )
        assert both.input_tokens > alone.input_tokens + 300
        with pytest.raises(openai.BadRequestError) as caught:
            me.responses.input_tokens.count(
                model=f"{upstream}/sim-text", input="More", previous_response_id="resp_unknown"
            )
        assert caught.value.code == "previous_response_not_found"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_conversation_objects_are_not_kept(start: Start, upstream: str) -> None:
    """Which is said, rather than to forget what was said."""
    with client(start()) as me:
        objects: tuple[Any, ...] = ("conv_1", {"id": "conv_1"})
        for conversation in objects:
            with pytest.raises(openai.BadRequestError, match="previous_response_id") as caught:
                me.responses.create(
                    model=f"{upstream}/sim-text", input="Hi", conversation=conversation
                )
            assert caught.value.param == "conversation"


@pytest.mark.parametrize("upstream", ["chat", "messages"])
def test_templates_are_not_kept(start: Start, upstream: str) -> None:
    with client(start()) as me:
        with pytest.raises(openai.BadRequestError) as caught:
            me.responses.create(model=f"{upstream}/sim-text", prompt={"id": "pmpt_1"})
        assert caught.value.param == "prompt"


def test_a_native_service_is_asked_to_keep_nothing(
    start: Start, simulator: RunningSimulator
) -> None:
    """And for reasoning in a form that can be sent back to it."""
    with client(start()) as me:
        me.responses.create(model="responses/sim-text", input="Hi")
        sent = simulator.last.json
        assert sent["store"] is False
        assert sent["include"] == ["reasoning.encrypted_content"]
        me.responses.create(
            model="responses/sim-text", input="Hi", include=["reasoning.encrypted_content"]
        )
        assert simulator.last.json["include"] == ["reasoning.encrypted_content"]
    gateway = start(storage="responses = false")
    with client(gateway) as me:
        made = me.responses.create(model="responses/sim-text", input="Hi")
        assert simulator.last.json["store"] is False
        assert made.to_dict()["store"] is False
        with pytest.raises(openai.BadRequestError, match="stores responses"):
            me.responses.create(model="responses/sim-text", input="Hi", background=True)


def test_equal_names_of_a_careless_service_are_no_matter(start: Start, talk: Make) -> None:
    """Every response has a name of ours."""
    by_id = talk(start())
    names = {by_id.answered("responses/sim-text", input="Hi")["id"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("resp_") and len(name) == 29 for name in names)


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_what_ends_early_is_kept_as_it_ended(start: Start, upstream: str) -> None:
    with client(start()) as me:
        made = me.responses.create(
            model=f"{upstream}/sim-text?words=100", input="Hi", max_output_tokens=16
        )
        assert made.status == "incomplete"
        assert me.responses.retrieve(made.id).to_dict() == made.to_dict()
        again = me.responses.create(
            model=f"{upstream}/sim-text", input="Go on", previous_response_id=made.id
        )
        assert again.status == "completed"
        refused = me.responses.create(model=f"{upstream}/sim-refusal", input="Hi")
        assert me.responses.retrieve(refused.id).to_dict() == refused.to_dict()
        later = me.responses.create(
            model=f"{upstream}/sim-text", input="Go on", previous_response_id=refused.id
        )
        assert later.status == "completed"


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_client_that_leaves_takes_its_response_along(
    start: Start, simulator: RunningSimulator, upstream: str
) -> None:
    """As at the official service: the model stops, and there is nothing to come back to."""
    with client(start()) as me:
        stream = me.responses.create(model=f"{upstream}/{SLOW}", input="Hi", stream=True)
        name = next(iter(stream)).response.id  # type: ignore[union-attr]
        stream.close()
        until(lambda: simulator.last.disconnected)
        with pytest.raises(openai.NotFoundError):
            me.responses.retrieve(name)


def test_what_is_still_being_made_cannot_be_gone_on_from(start: Start) -> None:
    with client(start()) as me:
        made = me.responses.create(model=f"chat/{SLOW}", input="Hi", background=True)
        with pytest.raises(openai.BadRequestError, match="still being made"):
            me.responses.create(model="chat/sim-text", input="?", previous_response_id=made.id)
        me.responses.cancel(made.id)


def test_two_workers_go_on_from_the_same_response_at_once(start: Start) -> None:
    """Each has a conversation of its own from there."""
    with client(start()) as me, client(start()) as elsewhere:
        root = me.responses.create(model="chat/sim-text", input="root")
        made: dict[int, Any] = {}

        def go_on(number: int) -> None:
            worker = (me, elsewhere)[number % 2]
            made[number] = worker.responses.create(
                model="chat/sim-text?delay_ms=5",
                input=f"branch {number}",
                previous_response_id=root.id,
            )

        threads = [threading.Thread(target=go_on, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, response in made.items():
            items = list(elsewhere.responses.input_items.list(response.id, order="asc"))
            texts = [item.to_dict()["content"][0]["text"] for item in items]  # type: ignore[index]
            assert texts == ["root", root.output_text, f"branch {number}"]


def test_a_response_is_dropped_while_its_input_is_listed(start: Start) -> None:
    with client(start()) as me:
        items: Any = [say(f"item {number}") for number in range(30)]
        made = me.responses.create(model="chat/sim-text", input=items)
        page = me.responses.input_items.list(made.id, limit=10)
        me.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            page.get_next_page()


@pytest.mark.parametrize("after", [10_000, 2**53])
def test_there_is_nothing_after_the_end(start: Start, after: int) -> None:
    """A client that has seen everything sees nothing again, and no end that was none."""
    gateway = start()
    with client(gateway) as me:
        made = me.responses.create(model="chat/sim-text", input="Hi", background=True, stream=True)
        events = list(made)
        name = events[0].response.id  # type: ignore[union-attr]
        assert list(me.responses.retrieve(name, stream=True, starting_after=after)) == []
        last = events[-1].sequence_number
        assert list(me.responses.retrieve(name, stream=True, starting_after=last)) == []
        [end] = me.responses.retrieve(name, stream=True, starting_after=last - 1)
        assert end.to_dict() == events[-1].to_dict()


def test_all_followers_see_the_same_end_of_what_was_cancelled(start: Start) -> None:
    with client(start()) as me, client(start()) as elsewhere:
        stream = me.responses.create(model=f"chat/{SLOW}", input="Hi", background=True, stream=True)
        events = iter(stream)
        name = next(events).response.id  # type: ignore[union-attr]
        for _ in range(5):
            next(events)
        me.responses.cancel(name)
        list(events)
        told = [
            [event.to_dict() for event in one.responses.retrieve(name, stream=True)]
            for one in (me, elsewhere)
        ]
        assert told[0] == told[1]
        assert [event["sequence_number"] for event in told[0]] == list(range(len(told[0])))
        assert told[0][-1]["response"]["status"] == "cancelled"  # type: ignore[index]


def test_whoever_sees_the_end_sees_all_that_was_said(start: Start) -> None:
    """Followers at other workers, however the end and the events before it fall together."""
    with client(start()) as me, client(start()) as elsewhere:
        for words in range(1, 9):
            made = me.responses.create(
                model=f"chat/sim-text?words={words}&delay_ms=3", input="Hi", background=True
            )
            events = list(elsewhere.responses.retrieve(made.id, stream=True))
            numbers = [event.sequence_number for event in events]
            assert numbers == list(range(len(events)))
            assert events[-1].type == "response.completed"
            again = list(me.responses.retrieve(made.id, stream=True))
            assert [event.to_dict() for event in again] == [event.to_dict() for event in events]


def test_cancel_and_the_end_meet(start: Start) -> None:
    """Whichever is first, it stays so."""
    with client(start()) as me, client(start()) as elsewhere:
        ends = []
        for turn in range(12):
            made = me.responses.create(
                model=f"chat/sim-text?words={turn}&delay_ms=2", input="Hi", background=True
            )
            try:
                told = (me, elsewhere)[turn % 2].responses.cancel(made.id).status
            except openai.BadRequestError:
                told = "completed"
            assert finished(me, made.id).status == told
            assert finished(elsewhere, made.id).status == told
            ends.append(told)
        assert set(ends) <= {"cancelled", "completed"}


def test_too_large_for_the_background(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what is asked nor what is answered can be polled if it cannot be kept."""
    monkeypatch.setattr(opening, "LARGEST_RESPONSE", 20_000)
    with client(start()) as me:
        with pytest.raises(openai.BadRequestError, match="may be stored"):
            me.responses.create(model="chat/sim-text", input="x" * 30_000, background=True)
        made = me.responses.create(model="chat/sim-echo", input="x" * 12_000, background=True)
        ended = finished(me, made.id)
        assert ended.status == "failed"
        assert ended.error is not None
        assert "stored" in ended.error.message


def test_only_so_many_are_made_in_the_background(start: Start, simulator: RunningSimulator) -> None:
    gateway = start(clients="[server]\nmax_concurrent = 2\n")
    with client(gateway) as me:
        made = [
            me.responses.create(model=f"chat/{SLOW}", input="Hi", background=True).id
            for _ in range(2)
        ]
        with pytest.raises(openai.InternalServerError, match="background"):
            me.responses.create(model="chat/sim-text", input="Hi", background=True)
        for name in made:
            me.responses.cancel(name)
        until(lambda: simulator.last.disconnected)
        again = me.responses.create(model="chat/sim-text", input="Hi", background=True)
        assert finished(me, again.id).status == "completed"


FALLBACK = """
[[routes]]
match = "sim-*"
upstream = "{first}"
[[routes.fallbacks]]
upstream = "{second}"
model = "sim-text"
"""


@pytest.mark.parametrize(("first", "second"), [("chat", "responses"), ("responses", "messages")])
def test_a_fallback_keeps_no_more_than_the_first(
    start: Start, simulator: RunningSimulator, first: str, second: str
) -> None:
    """Nor less: the gateway has it."""
    with client(start(routes=FALLBACK.format(first=first, second=second))) as me:
        made = me.responses.create(model="sim-500", input="Hi")
        if second == "responses":
            assert simulator.last.json["store"] is False
        assert made.to_dict()["store"] is True
        assert me.responses.retrieve(made.id).to_dict() == made.to_dict()
        me.responses.create(model="sim-500", input="More", previous_response_id=made.id)
        assert "Hi" in str(simulator.last.json)
