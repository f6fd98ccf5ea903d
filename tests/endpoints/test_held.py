"""Endpoints with held bodies: what is counted, what is sent again, and how streams end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman import jsontext
from dragoman.config import Fallback, OwnPrice, Route
from dragoman.config.limits import Limit
from dragoman.endpoints.exchange import answers_of
from dragoman.endpoints.members import Members
from dragoman.endpoints.table import ROWS
from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Failure, Fault
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.upstream.urls import unversioned
from tests.endpoints.serving import REQUESTS, config, post, sdk, serving, upstream
from tests.gateway.http import events

PRICE = OwnPrice(model="*", input="1", output="2")


EMBED = "/v1/embeddings"
REPEATED = {row.path for row in ROWS if row.repeat == "any_failure"}


def test_completions_whole_and_streamed_are_counted_alike(simulator: RunningSimulator) -> None:
    made = config(upstream("sim", simulator.base_url), prices=(PRICE,))
    with serving(made) as (gateway, lines):
        client = sdk(gateway)
        whole = client.completions.create(model="my-model", prompt="one two")
        assert whole.model == "my-model"
        stream = client.completions.create(model="my-model", prompt="one two", stream=True)
        chunks = list(stream)
        asked = client.completions.create(
            model="my-model",
            prompt="one two",
            stream=True,
            stream_options={"include_usage": True},
        )
        last = list(asked)[-1]
    assert all(chunk.choices and chunk.usage is None for chunk in chunks), "it was not asked for"
    assert {chunk.model for chunk in chunks} == {"my-model"}
    assert last.usage is not None
    for line, usage in zip(lines, (whole.usage, last.usage, last.usage), strict=True):
        assert usage is not None
        assert line["usage"]["input"] == usage.prompt_tokens
        assert line["usage"]["output"] == usage.completion_tokens
        assert "estimated" not in line
        cost = (usage.prompt_tokens + 2 * usage.completion_tokens) / 10**6
        assert float(line["cost_usd"]) == pytest.approx(cost)


@pytest.mark.parametrize("path", ["/v1/fim/completions", "/beta/completions", "/infill"])
@pytest.mark.parametrize("stream", [False, True])
def test_infilling_is_passed_to_the_path_of_its_vendor(
    simulator: RunningSimulator, path: str, stream: bool
) -> None:
    with serving(config(upstream("sim", simulator.openai_base_url))) as (gateway, lines):
        answer = post(gateway, path, {**REQUESTS[path], "stream": stream})
    assert answer.status == 200
    assert simulator.last.path == path
    assert simulator.last.json["input_suffix" if path == "/infill" else "suffix"] == "two"
    assert lines[-1]["usage"]["input"] > 0
    assert lines[-1]["usage"]["output"] > 0
    assert "estimated" not in lines[-1]


def test_a_suffix_is_refused_where_the_upstream_has_none(simulator: RunningSimulator) -> None:
    """It is not left out: what is filled in would be another text. No account is blamed."""
    made = config(upstream("sim", simulator.base_url), keys=("sk-first", "sk-second"))
    with serving(made) as (gateway, _):
        body = {"model": "sim/no-suffix", "prompt": "one"}
        answer = post(gateway, "/v1/completions", {**body, "suffix": "two"})
        assert post(gateway, "/v1/completions", body).status == 200
        states = [gateway.app.pool.state(name) for name in ("sim-0", "sim-1")]
    assert answer.status == 400
    assert answer.json["error"]["param"] == "suffix"
    assert answer.json["error"]["message"] == "suffix is not supported."
    assert len(simulator.requests) == 2
    assert not any(one.cooling or one.disabled or one.exhausted for one in states)


def test_a_usage_that_nobody_reports_is_estimated(simulator: RunningSimulator) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, lines):
        for stream in (False, True):
            body = {"model": "sim/sim-no-usage", "prompt": "one two three", "stream": stream}
            assert post(gateway, "/v1/completions", body).status == 200
            assert lines[-1]["estimated"] is True
            assert lines[-1]["usage"]["input"] > 0


def test_a_moderation_without_a_model_has_the_default_one_and_is_free(
    simulator: RunningSimulator,
) -> None:
    route = Route(match="omni-*", upstream="sim")
    made = config(upstream("sim", simulator.base_url), routes=(route,))
    with serving(made) as (gateway, lines):
        answer = sdk(gateway).moderations.create(input="violence")
    assert answer.results[0].flagged
    assert simulator.last.json["model"] == "omni-moderation-latest"
    assert lines[-1]["cost_usd"] == "0"


def test_speech_is_passed_in_pieces_and_as_events(simulator: RunningSimulator) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, lines):
        speech = sdk(gateway).audio.speech
        with speech.with_streaming_response.create(
            model="my-model", input="Hello there", voice="alloy", response_format="opus"
        ) as answer:
            assert answer.headers["content-type"] == "audio/opus"
            pieces = list(answer.iter_bytes(1))
        assert len(b"".join(pieces)) == len("Hello there")
        body = {**REQUESTS["/v1/audio/speech"], "stream_format": "sse"}
        streamed = events(post(gateway, "/v1/audio/speech", body).body)
    assert [name for name, _ in streamed][-1] == "speech.audio.done"
    assert lines[-1]["usage"]["output"] == streamed[-1][1]["usage"]["output_tokens"]


def test_images_are_streamed_with_partial_ones(simulator: RunningSimulator) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, lines):
        images = sdk(gateway).images
        whole = images.generate(model="my-model", prompt="a cat", n=2)
        assert whole.data is not None
        assert len(whole.data) == 2
        assert whole.usage is not None
        assert lines[-1]["usage"]["output"] == whole.usage.output_tokens
        stream = images.generate(model="my-model", prompt="a cat", stream=True, partial_images=2)
        kinds = [event.type for event in stream]
    assert kinds == ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
    assert lines[-1]["usage"]["output"] == 272


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("kind", ["429", "401", "500", "503", "close"])
def test_what_may_be_sent_again_is_and_what_may_not_never_is(
    simulator: RunningSimulator, path: str, kind: str
) -> None:
    broken = Fault("close") if kind == "close" else None
    failing = broken or Fault("error", failure=Failure(status=int(kind)))
    simulator.app.keys.behaviours["sk-first"] = KeyBehaviour(failing)
    first = replace(upstream("sim", simulator.base_url), selection="round_robin")
    with serving(config(first, keys=("sk-first", "sk-second"))) as (gateway, lines):
        answers = [post(gateway, path, REQUESTS[path]) for _ in range(2)]
    repeats = path in REPEATED or kind in ("429", "401")
    assert any("failed" in line for line in lines), "the first key was tried"
    failed = next(line for line in lines if "failed" in line)
    keys = [request.key for request in simulator.requests]
    if repeats:
        assert {answer.status for answer in answers} == {200}
        assert failed["attempts"] == 2
    else:
        assert failed["attempts"] == 1
        assert len(keys) == 2
        error = next(answer for answer in answers if answer.status != 200)
        assert kind != "close" or "may have been carried out" in error.body.decode()


def test_the_limits_of_an_account_hold_for_endpoints(simulator: RunningSimulator) -> None:
    made = config(upstream("sim", simulator.base_url), keys=("sk-first", "sk-second"))
    few = (Limit(kind="requests", amount=1, window="1m"),)
    made = replace(made, accounts=tuple(replace(one, limits=few) for one in made.accounts))
    with serving(made) as (gateway, _):
        answers = [post(gateway, EMBED, REQUESTS[EMBED]) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert {request.key for request in simulator.requests} == {"sk-first", "sk-second"}


def test_paths_beside_a_version_are_found_from_any_base_url() -> None:
    for base, expected in (
        ("https://h/v1", "https://h"),
        ("https://h/proxy/v1/", "https://h/proxy"),
        ("https://api.cohere.com/compatibility/v1", "https://api.cohere.com"),
        ("https://h", "https://h"),
    ):
        assert unversioned(base) == expected


def test_a_fallback_answers_and_is_named(simulator: RunningSimulator) -> None:
    there, gone = upstream("there", simulator.base_url), upstream("gone", "http://127.0.0.1:1")
    route = Route(match="e", upstream="gone", fallbacks=(Fallback(upstream="there", model="sim"),))
    lacking = replace(there, name="lacking", endpoints=())
    past = Route(match="p", upstream="lacking", fallbacks=(Fallback(upstream="there"),))
    with serving(config(gone, there, lacking, routes=(route, past))) as (gateway, lines):
        answer = post(gateway, "/v1/embeddings", {"model": "e", "input": "one"})
        assert answer.json["model"] == "e"
        assert answer.headers["x-dragoman-upstream"] == "there"
        assert lines[-1]["upstream_model"] == "sim"
        assert post(gateway, "/v1/embeddings", {"model": "p", "input": "one"}).status == 200
        assert lines[-1]["attempts"] == 1, "what lacks the endpoint is not asked"


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/images/generations"])
def test_a_stream_that_breaks_off_ends_with_an_error(
    simulator: RunningSimulator, path: str
) -> None:
    simulator.app.keys.behaviours["sk-sim-account"] = KeyBehaviour(Fault("close", after=1))
    body: dict[str, Any] = {**REQUESTS[path], "stream": True, "partial_images": 3}
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, lines):
        answer = post(gateway, path, body)
        seen = events(answer.body)
    assert answer.status == 200
    assert seen[-1][1]["error"]["message"]
    assert seen[-1][0] == ("error" if "images" in path else "")
    assert lines[-1]["error"]


@pytest.mark.parametrize(("given", "sent"), [(None, 5), (3, 3), (100, 5), (0, 5)])
def test_an_answer_is_as_long_as_its_key_may_have_it(
    simulator: RunningSimulator, given: int | None, sent: int
) -> None:
    body = REQUESTS["/v1/completions"] | ({} if given is None else {"max_tokens": given})
    made = config(upstream("sim", simulator.base_url), max_output_tokens=5)
    with serving(made) as (gateway, _):
        answer = post(gateway, "/v1/completions", body)
    assert simulator.last.json["max_tokens"] == sent
    assert answer.headers.get("x-dragoman-clamped") == (None if given == 3 else "5")


def test_a_model_that_a_request_names_besides_must_be_allowed(simulator: RunningSimulator) -> None:
    made = config(upstream("sim", simulator.base_url), models=("my-model",))
    with serving(made) as (gateway, _):
        for path in REQUESTS:
            body = {**REQUESTS[path], "models": ["other"]}
            assert post(gateway, path, body).status == 404
    assert not simulator.requests


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json", "content-encoding": "br"}, 415),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    simulator: RunningSimulator, headers: dict[str, str], status: int
) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, _):
        answer = post(gateway, "/v1/embeddings", b'{"model":"my-model"}', headers=headers)
    assert answer.status == status
    assert not simulator.requests


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        ({}, 1),
        ({"prompt": "x", "n": 3}, 3),
        ({"prompt": "x", "n": 1, "best_of": 20}, 20),
        ({"prompt": ["x", "y", "z"], "n": 2}, 6),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"prompt": [], "n": "many"}, 1),
    ],
)
def test_all_answers_that_a_completion_makes_are_reserved_for(
    asked: dict[str, Any], answers: int
) -> None:
    assert answers_of(Members(jsontext.members(json.dumps(asked)))) == answers
