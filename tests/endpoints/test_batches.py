"""Batches: made, polled, cancelled and read by the vendors' SDKs, and counted once."""

from __future__ import annotations

import errno
import io
import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from dragoman.endpoints import batches
from dragoman.endpoints.batch_lines import LONGEST_LINE, Results
from dragoman.endpoints.uploads import Spool
from dragoman.lab.simulator.errors import ApiError
from dragoman.lab.simulator.holdings import Asked, Given
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.serving import bound_notes
from tests.endpoints.bound import (
    BUDGET,
    KEYS,
    ME,
    PRICES,
    SAID,
    TOKENS,
    YOU,
    Gateways,
    batch_lines,
    gateways,
    limit_of,
    used,
)
from tests.endpoints.takers import FORM, form, part
from tests.gateway.administration import eventually
from tests.gateway.http import AUTH, KEY, call
from tests.gateway.processes import STORE, connection_of_each, gateway_process


def make(client: openai.OpenAI, *models: str, most: int | None = 100) -> Any:
    """A batch with a request for each of these models."""
    file = ("in.jsonl", io.BytesIO(batch_lines(*models, most=most)))
    made = client.files.create(file=file, purpose="batch")
    return client.batches.create(
        input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
    )


def requests(*models: str) -> Any:
    """The requests of a message batch."""
    return [
        {
            "custom_id": f"r{number}",
            "params": {"model": model, "max_tokens": 100,
                       "messages": [{"role": "user", "content": "é"}]},
        }
        for number, model in enumerate(models)
    ]  # fmt: skip


def test_a_batch_has_the_clients_names_of_models(opened: Gateways) -> None:
    """In it are those of the upstream; out of it come the client's, and the lines as they were."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.openai(gateway)
    batch = make(mine, "my-model", "my-model", "my-other")
    (sent,) = [
        one for one in service.app.holdings.held.values() if one.shown.get("purpose") == "batch"
    ]
    expected = batch_lines("my-model", "my-model", "my-other")
    for name in (b"my-model", b"my-other"):
        expected = expected.replace(name, b"sim-text")
    assert sent.content == expected
    assert mine.files.content(batch.input_file_id).read().count(b"my-") == 3
    ended = mine.batches.retrieve(batch.id)
    assert ended.status == "completed"
    assert ended.output_file_id is not None
    lines = mine.files.content(ended.output_file_id).read().splitlines()
    answers = [json.loads(line) for line in lines]
    assert [one["custom_id"] for one in answers] == ["r0", "r1", "r2"]
    assert {one["response"]["body"]["model"] for one in answers} <= {"my-model", "my-other"}
    assert [one.id for one in mine.batches.list()] == [batch.id]
    assert [one.id for one in mine.files.list(purpose="batch_output")] == [ended.output_file_id]
    you = opened.openai(gateway, YOU)
    assert not list(you.batches.list())
    for ask in (you.batches.retrieve, you.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            ask(batch.id)
    with pytest.raises(openai.NotFoundError):
        you.batches.create(
            input_file_id=batch.input_file_id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
        )


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (("my-model", "no-such"), "line 2: .*'no-such'"),
        (("my-model", "claude-x"), "line 2: .*'claude-x'"),
        ((), "no requests"),
    ],
)
def test_what_cannot_be_sent_is_told_with_its_line(
    opened: Gateways, models: tuple[str, ...], said: str
) -> None:
    mine = opened.openai(opened.open())
    file = ("in.jsonl", io.BytesIO(batch_lines(*models) or b"\n"))
    with pytest.raises(openai.BadRequestError, match=said):
        mine.files.create(file=file, purpose="batch")
    broken = ("in.jsonl", io.BytesIO(batch_lines("my-model") + b"{]"))
    with pytest.raises(openai.BadRequestError, match="line 2"):
        mine.files.create(file=broken, purpose="batch")
    assert not opened.simulator.requests


@pytest.mark.parametrize(
    ("way", "stores"),
    [
        ("asked", "postgres"),
        ("unasked", "postgres"),
        ("cancelled", "sqlite"),
        ("expired", "sqlite"),
        ("restarted", "sqlite"),
    ],
    indirect=["stores"],
)
def test_what_a_batch_came_to_is_counted_once(
    service: RunningSimulator, tmp_path: Path, stores: str, way: str
) -> None:
    """Whoever sees its end first, of two gateways; and after a restart, if nobody did."""
    service.app.holdings.ending = "expired" if way == "expired" else "completed"
    more = PRICES.format(upstream="chat")
    with gateways(service, tmp_path, stores) as opened:
        first = opened.open(BUDGET, more)
        mine = opened.openai(first)
        batch = make(mine, *["my-model"] * 4)
        if way == "restarted":
            first.stop()
        second = opened.open(BUDGET, more)
        elsewhere = opened.openai(second)
        if way == "cancelled":
            elsewhere.batches.cancel(batch.id)
        elif way in ("asked", "expired"):
            for client in (elsewhere, mine, elsewhere):
                client.batches.retrieve(batch.id)
        else:
            opened.make_due()
        done = 4 if way in ("asked", "unasked", "restarted") else 1
        assert eventually(lambda: used(second) == done * TOKENS)
        assert sum(service.app.holdings.used.values()) == done * TOKENS
        ended = elsewhere.batches.retrieve(batch.id)
        if done < 4:
            assert ended.error_file_id is not None
            errors = elsewhere.files.content(ended.error_file_id).read().splitlines()
            assert [json.loads(one)["custom_id"] for one in errors] == ["r1", "r2", "r3"]
            with pytest.raises(openai.NotFoundError):
                opened.openai(first, YOU).files.content(ended.error_file_id)
        opened.make_due()
        assert used(second) == done * TOKENS
        cost = done * (20 * 1e-6 + 5 * 10e-6) / 2
        assert eventually(lambda: float(limit_of(second)["used"]) == pytest.approx(cost))
        assert eventually(lambda: limit_of(second)["reserved"] == "0")


def test_a_batch_that_a_team_shares_is_counted_for_the_key_that_made_it(opened: Gateways) -> None:
    team = PRICES.format(upstream="chat") + '[[teams]]\nname = "t"\nshare = "team"\n'
    rules = f'team = "t"{BUDGET}'
    gateway = opened.open(rules, team, yours='team = "t"')
    batch = make(opened.openai(gateway), "my-model")
    assert float(limit_of(gateway)["reserved"]) > 0
    yours = opened.openai(gateway, YOU)
    assert [one.id for one in yours.batches.list()] == [batch.id]
    assert eventually(lambda: yours.batches.retrieve(batch.id).status == "completed")
    assert eventually(lambda: used(gateway) == TOKENS)
    assert eventually(lambda: limit_of(gateway)["reserved"] == "0")
    assert call(gateway.base_url, "GET", "/v1/usage", key=YOU).json["total"]["input_tokens"] == 0


def test_a_batch_is_refused_by_the_budget_that_it_may_exceed(opened: Gateways) -> None:
    """What running ones may cost is reserved, by the price of batches, half of the usual one."""
    gateway = opened.open(BUDGET, PRICES.format(upstream="chat"))
    mine = opened.openai(gateway)
    running = make(mine, *["my-model"] * 10)
    reserved = float(limit_of(gateway)["reserved"])
    assert reserved == pytest.approx(10 * 100 * 10e-6 / 2, rel=0.2)
    with pytest.raises(openai.RateLimitError) as caught:
        make(mine, *["my-model"] * 20)
    assert caught.value.type == "insufficient_quota"
    mine.batches.cancel(running.id)
    assert eventually(lambda: limit_of(gateway)["reserved"] == "0")
    make(mine, *["my-model"] * 15)


def test_message_batches_are_read_at_the_gateway(opened: Gateways) -> None:
    """Its results are where the gateway is, not at the service, and count as they are."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.anthropic(gateway)
    made = mine.messages.batches.create(requests=requests("claude-x", "claude-y"))
    held = service.app.holdings.held[made.id]
    assert b"claude" not in held.content
    assert [one.id for one in mine.messages.batches.list()] == [made.id]
    ended = mine.messages.batches.retrieve(made.id)
    assert ended.results_url == f"{gateway.base_url}/v1/messages/batches/{made.id}/results"
    results = list(mine.messages.batches.results(made.id))
    assert [one.custom_id for one in results] == ["r0", "r1"]
    for one in results:
        assert one.result.type == "succeeded"
        assert one.result.message.model.startswith("claude-")
    assert eventually(lambda: used(gateway) == 2 * TOKENS)
    with pytest.raises(anthropic.NotFoundError, match="not found"):
        opened.anthropic(gateway, YOU).messages.batches.retrieve(made.id)
    with pytest.raises(anthropic.BadRequestError, match=r"requests\.1: .*'no-such'"):
        mine.messages.batches.create(requests=requests("claude-x", "no-such"))
    assert mine.messages.batches.delete(made.id).id == made.id
    assert not list(mine.messages.batches.list())


def test_workers_share_files_and_a_batch_outlives_them(
    service: RunningSimulator, tmp_path: Path
) -> None:
    """All are killed at once: the next gateway sees it end. Each worker knows of files what
    another has taken and deleted."""
    upstream = 'endpoints = ["files", "batches"]\n'
    start = partial(
        gateway_process,
        tmp_path,
        service.base_url,
        {"one": KEYS[0], "two": KEYS[1]},
        upstream=upstream,
    )
    with start(workers=2) as killed:
        with openai.OpenAI(base_url=f"{killed.url}/v1", api_key=KEY, max_retries=0) as client:
            batch = make(client, *["chat/sim-text"] * 3)
        killed.kill_all()
    with closing(sqlite3.connect(tmp_path / STORE)) as store, store:
        store.execute("UPDATE kept_elsewhere SET due = 1")
    with start(workers=2) as running:
        total = eventually(
            lambda: call(running.url, "GET", "/v1/usage", key=KEY).json["total"]["input_tokens"]
        )
        assert total == 3 * 20
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key=KEY, max_retries=0) as client:
            assert client.batches.retrieve(batch.id).status == "completed"
        assert call(running.url, "GET", "/v1/usage", key=KEY).json["total"]["output_tokens"] == 15
        with connection_of_each(running) as (one, other):
            body = form(part("purpose", b"user_data"), part("file", b"one\r\n--\0", "a.txt"))
            one.send("POST", "/v1/files", body, {**AUTH, **FORM})
            name = one.answer().json["id"]
            other.send("GET", f"/v1/files/{name}/content", headers=AUTH)
            assert other.answer().body == b"one\r\n--\0"
            other.send("DELETE", f"/v1/files/{name}", headers=AUTH)
            assert other.answer().json["deleted"]
            one.send("GET", f"/v1/files/{name}", headers=AUTH)
            assert one.answer().status == 404


def test_nobody_has_a_batch_use_what_is_anothers(opened: Gateways) -> None:
    """Nor an earlier answer of another's."""
    gateway, service = opened.open(), opened.simulator
    yours, mine = opened.openai(gateway, YOU), opened.openai(gateway)
    name = yours.files.create(file=b"x", purpose="user_data").id
    asked = len(service.requests)
    part = {"type": "file", "file": {"file_id": name}}
    for more in (
        {"messages": [{"role": "user", "content": [part]}]},
        {"input": "Hi", "previous_response_id": "resp_of_another"},
        {"input": [{"type": "item_reference", "id": "msg_of_another"}]},
    ):
        line = {"custom_id": "a", "method": "POST", "url": "/v1", "body": {"model": "my-m", **more}}
        file = ("in.jsonl", io.BytesIO(json.dumps(line).encode()))
        with pytest.raises(openai.NotFoundError):
            mine.files.create(file=file, purpose="batch")
    other = opened.anthropic(gateway, YOU).files.upload(file=("b.txt", b"x")).id
    source: Any = {"type": "document", "source": {"type": "file", "file_id": other}}
    made = requests("claude-x")
    made[0]["params"]["messages"][0]["content"] = [source]
    with pytest.raises(anthropic.NotFoundError):
        opened.anthropic(gateway).messages.batches.create(requests=made)
    assert len(service.requests) == asked + 1
    assert opened.anthropic(gateway, YOU).messages.batches.create(requests=made).id


def test_a_batch_is_counted_before_it_is_deleted(opened: Gateways) -> None:
    gateway = opened.open()
    mine = opened.anthropic(gateway)
    made = mine.messages.batches.create(requests=requests("claude-x"))
    mine.messages.batches.delete(made.id)
    assert eventually(lambda: used(gateway) == TOKENS)


def test_a_batch_takes_nothing_of_limits_of_the_moment(opened: Gateways) -> None:
    """It runs for hours, beside other requests."""
    rules = "".join(
        f'[[clients.limits]]\nkind = "{kind}"\namount = {amount}\n{window}\n'
        for kind, amount, window in (
            ("concurrent", 1, ""),
            ("tokens", 50, 'window = "1m"'),
            ("tokens", 10_000, 'window = "30d"'),
        )
    )
    gateway = opened.open(rules)
    mine = opened.openai(gateway)
    make(mine, *["my-model"] * 4)
    limits = call(gateway.base_url, "GET", "/v1/key", key=ME).json["limits"]
    assert [one["reserved"] for one in limits[:2]] == [0, 0]
    assert limits[2]["reserved"] >= 400


def test_no_second_member_hides_a_model_or_a_file(opened: Gateways) -> None:
    """A service may read either of two members of one name."""
    gateway, service = opened.open(), opened.simulator
    yours, mine = opened.openai(gateway, YOU), opened.openai(gateway)
    name = yours.files.create(file=b"x", purpose="user_data").id
    line = b'{"custom_id":"a","method":"POST","url":"/v1","body":{"model":"%b"},"body":%b}\n'
    hidden = b'{"model":"a","m\\u006fdel":"my-model","messages":[]}'
    file = ("in.jsonl", io.BytesIO(line % (b"sim-secret", hidden)))
    made = mine.files.create(file=file, purpose="batch")
    sent = service.app.holdings.held[made.id].content
    assert sent.count(b"sim-text") == 4
    assert b"secret" not in sent
    twice = b'{"input_file_id":"%b","input_file_id":"%b","endpoint":"/v1/chat/completions"}'
    body = twice % (name.encode(), made.id.encode())
    headers = {"content-type": "application/json"}
    answer = call(gateway.base_url, "POST", "/v1/batches", body, key=ME, headers=headers)
    assert answer.status == 404


def test_a_form_has_no_other_file_than_the_one_that_is_read(opened: Gateways) -> None:
    """Which of two the service takes is not known: one may have any models."""
    gateway, service = opened.open(), opened.simulator
    good, bad = batch_lines("my-model"), batch_lines("sim-secret")

    def part(name: str, file: str, content: bytes) -> bytes:
        head = f'--B\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        return head.encode() + content + b"\r\n"

    named = '; filename="a.jsonl"'
    purpose = part("purpose", "", b"batch")
    headers = {"content-type": "multipart/form-data; boundary=B"}
    for parts in (
        part("decoy", named, good) + part("file", named, bad),
        part("file", named, good) + part("file", named, bad),
        part("file", named, good) + part("file", "", bad),
        part("file", "", bad) + part("file", named, good),
        part("other", named, good),
    ):
        body = purpose + parts + b"--B--\r\n"
        answer = call(gateway.base_url, "POST", "/v1/files", body, key=ME, headers=headers)
        assert answer.status == 400
        assert b"file" in answer.body
    assert not service.requests
    body = purpose + part("file", named, good) + part("note", "", b"x") + b"--B--\r\n"
    assert call(gateway.base_url, "POST", "/v1/files", body, key=ME, headers=headers).status == 200


def test_results_that_are_refused_are_asked_for_again(
    opened: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is settled by an answer that is not them."""
    gateway, holdings = opened.open(), opened.simulator.app.holdings
    mine = opened.anthropic(gateway)
    made = mine.messages.batches.create(requests=requests("claude-x", "claude-y"))
    answer, refused = holdings.answer, []

    def refuses(asked: Asked) -> Given | None:
        if asked.parts[-1] == "results":
            refused.append(asked)
            raise ApiError(503, "Later.", code="later")
        return answer(asked)

    with monkeypatch.context() as patch:
        patch.setattr(holdings, "answer", refuses)
        mine.messages.batches.retrieve(made.id)
        assert refused
        assert used(gateway) == 0
    mine.messages.batches.retrieve(made.id)
    assert eventually(lambda: used(gateway) == 2 * TOKENS)


def test_results_that_are_refused_to_the_end_count_as_all_that_was_reserved(
    opened: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_notes, "_BATCH_KEPT_S", 0.01)
    more = PRICES.format(upstream="messages")
    gateway, holdings = opened.open(BUDGET, more), opened.simulator.app.holdings
    answer = holdings.answer

    def refuses(asked: Asked) -> Given | None:
        if asked.parts[-1] == "results":
            raise ApiError(503, "Later.", code="later")
        return answer(asked)

    monkeypatch.setattr(holdings, "answer", refuses)
    opened.anthropic(gateway).messages.batches.create(requests=requests("claude-x", "claude-y"))
    reserved = limit_of(gateway)["reserved"]
    opened.make_due()
    assert float(reserved) > 0
    assert eventually(lambda: limit_of(gateway)["used"] == reserved)
    assert limit_of(gateway)["reserved"] == "0"


@pytest.mark.parametrize("endless", ["_RESULT_BYTES", "_READ_S", "a line"])
def test_results_without_end_count_as_all_that_was_reserved(
    opened: Gateways, monkeypatch: pytest.MonkeyPatch, endless: str
) -> None:
    """Once, and marked as estimated."""
    more = PRICES.format(upstream="messages")
    gateway, holdings = opened.open(BUDGET, more), opened.simulator.app.holdings
    mine = opened.anthropic(gateway)
    made = mine.messages.batches.create(requests=requests("claude-x", "claude-y"))
    reserved = limit_of(gateway)["reserved"]
    answer = holdings.answer

    def answers(asked: Asked) -> Given | None:
        found = answer(asked)
        if asked.parts[-1] == "results" and endless == "a line":
            found = Given(None, b" " * (LONGEST_LINE + 1), "application/x-jsonl")
        return found

    monkeypatch.setattr(holdings, "answer", answers)
    if endless != "a line":
        monkeypatch.setattr(batches, endless, 1e-4)
    for _ in range(2):
        mine.messages.batches.retrieve(made.id)
    assert float(reserved) > 0
    assert eventually(lambda: limit_of(gateway)["used"] == reserved)
    assert limit_of(gateway)["reserved"] == "0"


def line_for(url: Any, **more: Any) -> bytes:
    """A line of a batch's file."""
    line = {"custom_id": "a", "method": "POST", "url": url, "body": {"model": "my-model", **more}}
    return json.dumps(line).encode() + b"\n"


def send(client: openai.OpenAI, *lines: bytes) -> Any:
    """A batch's file of these lines."""
    return client.files.create(file=("in.jsonl", b"".join(lines)), purpose="batch")


CHAT: Any = "/v1/chat/completions"
RESPONSES: Any = "/v1/responses"
EMBEDDINGS = "/v1/embeddings"


def test_a_batch_calls_no_path_that_its_key_may_not(opened: Gateways) -> None:
    gateway = opened.open(
        f'paths = ["/v1/files*", "/v1/batches", "/v1/messages/*", "{EMBEDDINGS}"]'
    )
    mine = opened.openai(gateway)
    good = line_for(EMBEDDINGS, input="a")
    for url in (CHAT, "/chat/completions", RESPONSES):
        with pytest.raises(openai.BadRequestError, match=f"line 1.*not be used for .*{url}"):
            send(mine, line_for(url, messages=SAID))
    for url in (f"{EMBEDDINGS}/../chat/completions", f"https://a{CHAT}", "/a" * 40, None, 1):
        with pytest.raises(openai.BadRequestError, match=r"line 2.*path"):
            send(mine, good, line_for(url, messages=SAID))
    with pytest.raises(openai.BadRequestError, match=r"line 2.*the requests before"):
        send(mine, good, line_for(CHAT, messages=SAID))
    with pytest.raises(anthropic.BadRequestError, match=r"requests\.0.*/v1/messages"):
        opened.anthropic(gateway).messages.batches.create(requests=requests("claude-x"))
    assert not opened.simulator.requests
    assert send(mine, good).id


def test_a_batch_is_for_the_endpoint_of_its_lines(opened: Gateways) -> None:
    """And for one that its maker may call now. No second member hides either."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.openai(gateway)
    hidden = line_for(CHAT, messages=SAID).replace(b'"url"', b'"url": "/v1/responses", "url"')
    made = send(mine, hidden)
    assert b"responses" not in service.app.holdings.held[made.id].content
    with pytest.raises(openai.BadRequestError, match=f"endpoint.*for {CHAT}"):
        mine.batches.create(input_file_id=made.id, endpoint=RESPONSES, completion_window="24h")
    narrowed = opened.openai(opened.open('paths = ["/v1/batches"]'))
    with pytest.raises(openai.BadRequestError, match=r"endpoint.*not be used"):
        narrowed.batches.create(input_file_id=made.id, endpoint=CHAT, completion_window="24h")
    body = b'{"input_file_id":"%b","endpoint":"/v1/responses","endpoint":"/v1/chat/completions",'
    body = body % made.id.encode() + b'"completion_window":"24h"}'
    headers = {"content-type": "application/json"}
    answer = call(gateway.base_url, "POST", "/v1/batches", body, key=ME, headers=headers)
    assert answer.status == 200
    assert b"responses" not in service.requests[-1].body


@pytest.mark.parametrize(
    ("url", "given", "sent"),
    [
        (CHAT, {"max_tokens": 5, "max_completion_tokens": 500},
         {"max_tokens": 5, "max_completion_tokens": 50}),
        (CHAT, {}, {"max_completion_tokens": 50}),
        (CHAT, {"max_tokens": 5}, {"max_tokens": 5}),
        (RESPONSES, {"max_tokens": 5}, {"max_tokens": 5, "max_output_tokens": 50}),
        ("/v1/completions", {"max_tokens": 500}, {"max_tokens": 50}),
        (EMBEDDINGS, {}, {}),
    ],
)  # fmt: skip
def test_the_answers_of_a_batch_are_as_long_as_its_key_may_have(
    opened: Gateways, url: str, given: dict[str, int], sent: dict[str, int]
) -> None:
    mine = opened.openai(opened.open("max_output_tokens = 50"))
    file = ("in.jsonl", line_for(url, **given))
    answer = mine.files.with_raw_response.create(file=file, purpose="batch")
    held = opened.simulator.app.holdings.held[answer.parse().id]
    assert json.loads(held.content)["body"] == {"model": "sim-text", **sent}
    assert answer.headers.get("x-dragoman-clamped") == (None if sent == given else "50")


def test_the_answers_of_a_message_batch_are_as_long_as_its_key_may_have(opened: Gateways) -> None:
    mine = opened.anthropic(opened.open("max_output_tokens = 50"))
    made = mine.messages.batches.create(requests=requests("claude-x"))
    (sent,) = json.loads(opened.simulator.app.holdings.held[made.id].content)["requests"]
    assert sent["params"]["max_tokens"] == 50


def test_no_batch_has_longer_answers_than_its_key_may_have(opened: Gateways) -> None:
    """Neither by a second member of one name, nor by a file that was sent under other rules, nor at
    a path whose limits are not known."""
    free, service = opened.openai(opened.open()), opened.simulator
    made = send(free, line_for(CHAT, messages=SAID, max_tokens=500))
    mine = opened.openai(opened.open("max_output_tokens = 50"))
    with pytest.raises(openai.BadRequestError, match=r"input_file_id.*longer"):
        mine.batches.create(input_file_id=made.id, endpoint=CHAT, completion_window="24h")
    twice = line_for(CHAT, max_tokens=5)
    made = send(mine, twice.replace(b'"max_tokens"', b'"max_tokens": 500, "max_tokens"'))
    assert b"500" not in service.app.holdings.held[made.id].content
    assert mine.batches.create(input_file_id=made.id, endpoint=CHAT, completion_window="24h").id
    with pytest.raises(openai.BadRequestError, match=r"line 1.*cannot be limited"):
        send(mine, line_for("/v1/else"))


@pytest.mark.parametrize("unread", ["results", "batch"])
def test_a_batch_that_cannot_be_counted_is_not_deleted(
    opened: Gateways, monkeypatch: pytest.MonkeyPatch, unread: str
) -> None:
    """What it came to would never be known."""
    gateway, holdings = opened.open(), opened.simulator.app.holdings
    mine = opened.anthropic(gateway)
    made = mine.messages.batches.create(requests=requests("claude-x"))
    answer = holdings.answer

    def refuses(asked: Asked) -> Given | None:
        if asked.method == "GET" and asked.parts[-1] == (made.id if unread == "batch" else unread):
            raise ApiError(503, "Later.", code="later")
        return answer(asked)

    with monkeypatch.context() as patch:
        patch.setattr(holdings, "answer", refuses)
        with pytest.raises(anthropic.APIStatusError, match="delete it later") as caught:
            mine.messages.batches.delete(made.id)
        assert caught.value.status_code == 529, "this protocol's 503"
    assert made.id in holdings.held
    mine.messages.batches.delete(made.id)
    assert eventually(lambda: used(gateway) == TOKENS)


@pytest.mark.parametrize("full", ["made", "written"])
def test_a_batch_that_there_is_no_room_for_is_refused_for_the_moment(
    opened: Gateways, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    mine = opened.openai(opened.open())

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = ("in.jsonl", batch_lines("my-model"))
    with monkeypatch.context() as patch:
        patch.setattr(Spool, "__init__" if full == "made" else "write", fails)
        with pytest.raises(openai.InternalServerError, match="no room") as caught:
            mine.files.create(file=file, purpose="batch")
    assert caught.value.status_code == 503
    assert mine.files.create(file=file, purpose="batch").id


def test_a_route_that_has_no_batches_is_in_none(opened: Gateways) -> None:
    more = '[[routes]]\nmatch = "only-*"\nupstream = "chat"\nendpoints = ["embeddings"]\n'
    mine = opened.openai(opened.open(more=more))
    with pytest.raises(openai.BadRequestError, match=r"line 2: .*'only-x'.*no batches"):
        make(mine, "my-model", "only-x")
    assert not opened.simulator.requests


def test_all_answers_of_a_request_are_reserved_for(opened: Gateways) -> None:
    gateway = opened.open(BUDGET, PRICES.format(upstream="chat"))
    body = {"model": "my-model", "messages": SAID, "n": 10}
    limits = {"max_completion_tokens": 1, "max_tokens": 100}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}
    mine = opened.openai(gateway)
    file = ("in.jsonl", json.dumps({**line, "body": {**body, **limits}}).encode())
    made = mine.files.create(file=file, purpose="batch")
    mine.batches.create(
        input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    assert float(limit_of(gateway)["reserved"]) >= 10 * 100 * 10e-6 / 2


def test_results_are_counted_for_models_of_the_batch_alone() -> None:
    """Whatever names a service answers by, all have the price of one that was asked for."""
    results = Results({"first": "a", "second": "b"})
    usage = {"prompt_tokens": 2, "completion_tokens": 1}
    for model in ("second-2026-01-01", "first", "strange", "stranger", ""):
        body = {"model": model, "usage": usage}
        results.lines.feed(json.dumps({"response": {"body": body}}).encode() + b"\n")
    assert results.counts == {"second": 1, "first": 4}
    assert results.usage["first"].input == 8


def test_a_batch_is_made_with_models_that_its_maker_may_use_now(opened: Gateways) -> None:
    """Whatever could be used when its file was sent."""
    sent = opened.openai(opened.open()).files.create(
        file=("in.jsonl", batch_lines("my-model")), purpose="batch"
    )
    asked = len(opened.simulator.requests)
    narrowed = opened.openai(opened.open('models = ["my-other"]'))
    with pytest.raises(openai.NotFoundError, match="my-model"):
        narrowed.batches.create(
            input_file_id=sent.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
    assert len(opened.simulator.requests) == asked
