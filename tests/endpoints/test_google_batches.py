"""Google's batches by its own SDK: made of requests and of files, and counted once."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import Client
from google.genai.errors import ClientError
from google.genai.types import BatchJob, InlinedRequest, UploadFileConfig

from dragoman.lab.simulator.google_holdings import GRANULARITY
from dragoman.lab.simulator.testing import RunningSimulator
from tests.endpoints.bound import (
    BUDGET,
    ME,
    PRICES,
    TOKENS,
    YOU,
    Gateways,
    gateways,
    limit_of,
    used,
)
from tests.endpoints.google import begun, named, piece
from tests.gateway.administration import eventually
from tests.gateway.http import call


def lines(count: int, **more: Any) -> bytes:
    """The file of a batch of so many requests."""
    request = {
        "contents": [{"parts": [{"text": "é"}]}],
        "generationConfig": {"maxOutputTokens": 100},
        **more,
    }
    return b"".join(
        json.dumps({"key": f"r{number}", "request": request}).encode() + b"\n"
        for number in range(count)
    )


def sent(client: Client, content: bytes, media: str = "application/jsonl") -> str:
    config = UploadFileConfig(mime_type=media)
    return str(client.files.upload(file=io.BytesIO(content), config=config).name)


def make(client: Client, count: int, way: str = "inlined") -> BatchJob:
    if way == "file":
        return client.batches.create(model="gemini-x", src=sent(client, lines(count)))
    config: Any = {"max_output_tokens": 100}
    requests = [InlinedRequest(contents="é", config=config) for _ in range(count)]
    return client.batches.create(model="gemini-x", src=requests)  # type: ignore[arg-type, unused-ignore]


def state(job: BatchJob) -> str:
    return "" if job.state is None else job.state.value


@pytest.mark.parametrize("way", ["inlined", "file"])
def test_a_batch_has_the_clients_names_of_models(opened: Gateways, way: str) -> None:
    gateway, service = opened.open(), opened.simulator
    mine, yours = opened.google(gateway), opened.google(gateway, YOU)
    made = make(mine, 2, way)
    name = str(made.name)
    held = service.app.holdings.held[name]
    assert (made.model, held.shown["metadata"]["model"]) == ("models/gemini-x", "models/sim-text")
    ended = mine.batches.get(name=name)
    assert (ended.model, state(ended)) == ("models/gemini-x", "JOB_STATE_SUCCEEDED")
    assert ended.dest is not None
    if way == "file":
        results = mine.files.download(file=str(ended.dest.file_name))
        answers = [json.loads(line) for line in results.splitlines()]
        assert [one["key"] for one in answers] == ["r0", "r1"]
        assert {one["response"]["modelVersion"] for one in answers} == {"gemini-x"}
        assert ended.dest.file_name in named(mine.files.list())
        with pytest.raises(ClientError, match="permission"):
            yours.files.download(file=str(ended.dest.file_name))
    else:
        versions = [one.response and one.response.model_version
                    for one in ended.dest.inlined_responses or ()]  # fmt: skip
        assert versions == ["gemini-x", "gemini-x"]
    (listed,) = mine.batches.list()
    assert (listed.name, listed.model, state(listed)) == (name, "models/gemini-x", state(ended))
    assert not list(yours.batches.list())
    for ask in (yours.batches.get, yours.batches.cancel, yours.batches.delete):
        with pytest.raises(ClientError) as caught:
            ask(name=name)
        assert caught.value.code == 404
    mine.batches.delete(name=name)
    assert not list(mine.batches.list())


@pytest.mark.parametrize(
    ("way", "of", "stores"),
    [
        ("asked", "file", "postgres"),
        ("unasked", "inlined", "sqlite"),
        ("cancelled", "inlined", "sqlite"),
        ("restarted", "file", "sqlite"),
    ],
    indirect=["stores"],
)
def test_what_a_batch_came_to_is_counted_once(
    service: RunningSimulator, tmp_path: Path, stores: str, way: str, of: str
) -> None:
    """Whoever sees its end first, of two gateways; and after a restart, if nobody did."""
    more = PRICES.format(upstream="google")
    with gateways(service, tmp_path, stores) as opened:
        first = opened.open(BUDGET, more)
        mine = opened.google(first)
        name = str(make(mine, 4, of).name)
        assert float(limit_of(first)["reserved"]) == pytest.approx(4 * 100 * 10e-6 / 2, rel=0.2)
        if way == "restarted":
            first.stop()
        second = opened.open(BUDGET, more)
        elsewhere = opened.google(second)
        if way == "cancelled":
            elsewhere.batches.cancel(name=name)
        if way in ("asked", "cancelled"):
            for client in (elsewhere, mine, elsewhere):
                client.batches.get(name=name)
        else:
            opened.make_due()
        done = 1 if way == "cancelled" else 4
        assert eventually(lambda: used(second) == done * TOKENS)
        assert sum(service.app.holdings.used.values()) == done * TOKENS
        elsewhere.batches.get(name=name)
        opened.make_due()
        assert used(second) == done * TOKENS
        cost = done * (20 * 1e-6 + 5 * 10e-6) / 2
        assert eventually(lambda: float(limit_of(second)["used"]) == pytest.approx(cost))
        assert eventually(lambda: limit_of(second)["reserved"] == "0")


def test_what_cannot_be_sent_is_refused(opened: Gateways) -> None:
    """With the number of its line, and before the service has anything of it."""
    gateway, service = opened.open(BUDGET, PRICES.format(upstream="google")), opened.simulator
    mine, yours = opened.google(gateway), opened.google(gateway, YOU)
    theirs = f"https://generativelanguage.googleapis.com/v1beta/{sent(yours, b'x', 'text/plain')}"
    part = {"fileData": {"fileUri": theirs}}
    plain = sent(mine, lines(1), "text/plain")
    asked = len(service.requests)
    for model, problem in (("no-such", "no-such"), ("my-model", "makes no batches")):
        with pytest.raises(ClientError, match=problem):
            mine.batches.create(model=model, src=plain)
    with pytest.raises(ClientError, match="not counted"):
        mine.batches.create(model="gemini-x", src=plain)
    with pytest.raises(ClientError, match="RESOURCE_EXHAUSTED"):
        make(mine, 30)
    path = "/v1beta/models/gemini-x:batchGenerateContent"
    inlined = {"requests": {"requests": [{"request": {"contents": [{"parts": [part]}]}}]}}
    for source, status in ((inlined, 403), ({}, 400), ({**inlined, "fileName": plain}, 400)):
        body = {"batch": {"inputConfig": source}}
        assert call(gateway.base_url, "POST", path, body, key=ME).status == status
    assert len(service.requests) == asked
    for content, problem in (
        (b"", "no requests"),
        (lines(1) + b"{]", "line 2"),
        (lines(1, model="models/sim-secret"), "line 1.*model"),
        (lines(1).replace(b'"contents"', b'"contents": [], "contents"'), "line 1.*once"),
        (lines(1, contents=[{"parts": [part]}]), "permission"),
    ):
        # It may be for something else.
        file = sent(mine, content)
        assert service.app.holdings.held[file].content == content
        with pytest.raises(ClientError, match=problem):
            mine.batches.create(model="gemini-x", src=file)
    assert not any(one.path.endswith("batchGenerateContent") for one in service.requests)


def test_the_answers_of_a_batch_are_as_long_as_its_key_may_have(opened: Gateways) -> None:
    free, service = opened.google(opened.open()), opened.simulator
    before = sent(free, lines(1))
    mine = opened.google(opened.open("max_output_tokens = 50"))
    made = make(mine, 1)
    kept = json.loads(service.app.holdings.held[str(made.name)].content)
    assert kept["lines"][0]["request"]["generationConfig"]["maxOutputTokens"] == 50
    with pytest.raises(ClientError, match=r"line 1.*at most 50"):
        mine.batches.create(model="gemini-x", src=sent(mine, lines(1)))
    with pytest.raises(ClientError, match="longer"):
        mine.batches.create(model="gemini-x", src=before)
    short = sent(mine, lines(1, generationConfig={"max_output_tokens": 5}))
    assert mine.batches.create(model="gemini-x", src=short).name


def test_a_file_that_comes_in_pieces_is_counted_unless_it_broke_off(opened: Gateways) -> None:
    first = opened.open()
    mine = opened.google(first)
    content = lines(1, systemInstruction={"parts": [{"text": "x" * GRANULARITY}]}) * 3
    for again in (False, True):
        url = begun(first.base_url, len(content), "application/jsonl")
        assert piece(url, "upload", 0, content[:GRANULARITY]).status == 200
        if again:
            # As after a configuration was read, or at another instance.
            url = f"{opened.open().base_url}/{url.split('/', 3)[3]}"
        answer = piece(url, "upload, finalize", GRANULARITY, content[GRANULARITY:])
        assert piece(url, "query").json == answer.json
        name = answer.json["file"]["name"]
        if again:
            with pytest.raises(ClientError, match="without a break"):
                mine.batches.create(model="gemini-x", src=name)
        else:
            job = mine.batches.create(model="gemini-x", src=name)
            assert mine.batches.get(name=str(job.name)).dest
            assert eventually(lambda: used(first) == 3 * TOKENS)


def test_a_batch_has_the_requests_that_were_counted(opened: Gateways) -> None:
    """Not those of a piece that was refused, or of a file that had the same name before."""
    gateway, service = opened.open(), opened.simulator
    mine = opened.google(gateway)
    dear = lines(1, systemInstruction={"parts": [{"text": "x" * GRANULARITY}]}) * 2
    cheap = b"\n" * GRANULARITY + dear[GRANULARITY:]
    url = begun(gateway.base_url, len(dear), "application/jsonl")
    assert piece(url, "upload", 0, dear[:GRANULARITY]).status == 200
    assert piece(url, "upload", 0, cheap[:GRANULARITY]).status == 400
    answer = piece(url, "upload, finalize", GRANULARITY, dear[GRANULARITY:])
    swapped = answer.json["file"]["name"]
    deleted = sent(mine, lines(1))
    held = service.app.holdings.held[deleted]
    held.key, key = "sk-sim-other", held.key
    with pytest.raises(ClientError, match="permission"):
        mine.files.delete(name=deleted)
    held.key = key
    for name in (swapped, deleted):
        mine.files.get(name=name)
        with pytest.raises(ClientError, match="not counted"):
            mine.batches.create(model="gemini-x", src=name)


def test_a_batch_that_runs_is_not_deleted(opened: Gateways) -> None:
    """Its service would go on with it, and nobody would know what it came to."""
    opened.simulator.app.holdings.polls = 3
    try:
        mine = opened.google(opened.open())
        name = str(make(mine, 1).name)
        with pytest.raises(ClientError, match="cancel it first"):
            mine.batches.delete(name=name)
        for _ in range(3):
            mine.batches.get(name=name)
        mine.batches.delete(name=name)
    finally:
        opened.simulator.app.holdings.polls = 1
