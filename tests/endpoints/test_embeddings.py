"""Embeddings: every encoding that clients ask for, whatever the upstream sends, and translation."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
from google import genai
from google.genai.types import EmbedContentConfig, HttpOptions
from msgspec.structs import replace

from dragoman.lab.simulator.endpoints import packed, vector
from dragoman.lab.simulator.testing import RunningSimulator
from tests.endpoints.serving import ALL, config, post, sdk, serving, upstream
from tests.gateway.http import KEY, TRUSTS_NOBODY

NODE = Path(__file__).parent.parent / "node"
TEXTS = ["one", "two \u00e9", "three"]
Format = Literal["float", "base64"]


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_every_input_and_encoding_by_the_sdk(
    simulator: RunningSimulator, encoding: Format | None
) -> None:
    fields: dict[str, Any] = {} if encoding is None else {"encoding_format": encoding}
    inputs: list[tuple[Any, int]] = [("one", 1), (TEXTS, 3), ([1, 2, 3], 1), ([[1, 2], [3]], 2)]
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, lines):
        client = sdk(gateway)
        for given, count in (*inputs, (["x"] * 2048, 2048)):
            answer = client.embeddings.create(
                model="my-model", input=given, dimensions=24, **fields
            )
            assert answer.model == "my-model"
            assert simulator.last.json["input"] == given
            assert len(answer.data) == count
            first = answer.data[-1].embedding
            assert isinstance(first, str) if encoding == "base64" else len(first) == 24
            assert lines[-1]["usage"]["input"] == answer.usage.prompt_tokens


@pytest.mark.parametrize("model", ["sim-model", "sim-floats", "sim-always-base64", "sim-no-base64"])
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("wanted", [None, "float", "base64"])
def test_a_client_has_the_encoding_that_it_asked_for(
    simulator: RunningSimulator, model: str, wanted: str | None, marked: bool
) -> None:
    fields = {} if wanted is None else {"encoding_format": wanted}
    up = upstream("sim", simulator.base_url, embeddings_base64=not marked)
    with serving(config(up)) as (gateway, lines):
        answer = post(
            gateway, "/v1/embeddings", {"model": f"sim/{model}", "input": TEXTS, **fields}
        )
    assert answer.status == 200
    sent = simulator.last.json
    assert ("encoding_format" in sent) == (wanted is not None), "it is never added"
    for text, one in zip(TEXTS, answer.json["data"], strict=True):
        expected = vector(text)
        assert one["embedding"] == (packed(expected) if wanted == "base64" else expected)
    assert lines[-1]["usage"]["input"] == answer.json["usage"]["prompt_tokens"]
    if marked and wanted == "base64":
        assert sent["encoding_format"] == "float"


@pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules/openai").exists(),
    reason="the SDK of Node is not installed",
)
def test_the_javascript_sdk_has_vectors_of_full_length(simulator: RunningSimulator) -> None:
    script = """
        import OpenAI from "openai";
        const client = new OpenAI({ apiKey: process.env.KEY, baseURL: process.env.URL });
        const answer = await client.embeddings.create({ model: "sim/sim-floats", input: "one" });
        console.log(JSON.stringify(answer.data[0].embedding));
    """
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, _):
        done = subprocess.run(
            ["node", "--input-type=module", "--eval", script],
            cwd=NODE,
            env={
                "PATH": "/usr/bin:/bin:/usr/local/bin",
                "KEY": KEY,
                "URL": gateway.openai_base_url,
            },
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == pytest.approx(vector("one"))


GOOGLE = "google_generate_content"


def translated(simulator: RunningSimulator, form: str) -> Any:
    if form == "google":
        return config(upstream("sim", simulator.base_url, GOOGLE))
    return config(upstream("sim", simulator.base_url, embeddings="cohere"))


@pytest.mark.parametrize("form", ["google", "cohere"])
@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_openai_embeddings_by_google_and_cohere(
    simulator: RunningSimulator, form: str, encoding: Format
) -> None:
    texts = [f"text {number}" for number in range(250)]
    with serving(translated(simulator, form)) as (gateway, lines):
        answer = sdk(gateway).embeddings.create(
            model="my-model", input=texts, dimensions=24, encoding_format=encoding, user="someone"
        )
    assert answer.model == "my-model"
    assert [one.index for one in answer.data] == list(range(250))
    for text, one in zip(texts, answer.data, strict=True):
        expected: Any = vector(text, 24)
        assert one.embedding == (packed(expected) if encoding == "base64" else expected)
    assert len(simulator.requests) == 3, "as many texts as one request may have"
    assert lines[-1]["usage"]["input"] == answer.usage.prompt_tokens
    assert "estimated" not in lines[-1]
    assert lines[-1]["losses"] == ["user:knob"]


def test_the_kind_of_an_embedding_may_be_named(simulator: RunningSimulator) -> None:
    for form, member in (("google", "task_type"), ("cohere", "input_type")):
        with serving(translated(simulator, form)) as (gateway, _):
            sdk(gateway).embeddings.create(
                model="my-model", input="one", extra_body={member: "search_query"}
            )
        sent = simulator.last.json
        given = sent["requests"][0]["taskType"] if form == "google" else sent["input_type"]
        assert given == "search_query"


@pytest.mark.parametrize("form", ["google", "cohere"])
@pytest.mark.parametrize("given", [[1, 2], [[1], [2]], [], None])
def test_what_is_no_text_is_refused_before_it_is_sent(
    simulator: RunningSimulator, form: str, given: Any
) -> None:
    with serving(translated(simulator, form)) as (gateway, _):
        answer = post(gateway, "/v1/embeddings", {"model": "my-model", "input": given})
    assert answer.status == 400
    assert answer.json["error"]["param"] == "input"
    assert not simulator.requests


def test_a_strict_client_is_told_what_would_be_lost(simulator: RunningSimulator) -> None:
    with serving(translated(simulator, "google")) as (gateway, _):
        body = {"model": "my-model", "input": "one", "user": "someone"}
        strict = {"x-dragoman-policy": "strict"}
        answer = post(gateway, "/v1/embeddings", body, headers=strict)
    assert answer.status == 400
    assert "user" in answer.json["error"]["message"]
    assert not simulator.requests


def test_one_vector_for_several_texts_is_a_failure(simulator: RunningSimulator) -> None:
    with serving(config(upstream("sim", simulator.base_url, GOOGLE))) as (gateway, _):
        body = {"model": "sim/sim-joins", "input": TEXTS}
        answer = post(gateway, "/v1/embeddings", body)
    assert answer.status == 502
    assert "1 vectors for 3 texts" in answer.json["error"]["message"]


def test_a_count_that_google_does_not_give_is_estimated(simulator: RunningSimulator) -> None:
    with serving(config(upstream("sim", simulator.base_url, GOOGLE))) as (gateway, lines):
        body = {"model": "sim/sim-no-usage", "input": TEXTS}
        assert post(gateway, "/v1/embeddings", body).json["usage"]["prompt_tokens"] > 0
    assert lines[-1]["estimated"] is True


@pytest.mark.parametrize(
    ("model", "method", "requests"),
    [
        ("text-embedding-005", "predict", 1),
        ("gemini-embedding-001", "predict", 3),
        ("gemini-embedding-2", "embedContent", 3),
    ],
)
def test_vertex_is_asked_as_each_model_wants_it(
    simulator: RunningSimulator, model: str, method: str, requests: int
) -> None:
    base = f"{simulator.base_url}/v1/projects/p/locations/l"
    up = upstream("sim", base, GOOGLE, service="vertex")
    with serving(config(up)) as (gateway, lines):
        answer = post(
            gateway, "/v1/embeddings", {"model": f"sim/{model}", "input": TEXTS, "dimensions": 24}
        )
    assert answer.status == 200, answer.body
    assert [one["embedding"] for one in answer.json["data"]] == [vector(one, 24) for one in TEXTS]
    assert len(simulator.requests) == requests
    assert (
        simulator.last.path
        == f"/v1/projects/p/locations/l/publishers/google/models/{model}:{method}"
    )
    assert lines[-1]["usage"]["input"] == answer.json["usage"]["prompt_tokens"]


@pytest.mark.parametrize("protocol", [GOOGLE, "openai_chat", "openai_responses"])
def test_google_clients_are_passed_and_translated(
    simulator: RunningSimulator, protocol: str
) -> None:
    """What Chat upstreams cannot count is estimated."""
    more = {} if protocol == GOOGLE else {"endpoints": ALL}
    up = upstream("sim", simulator.base_url, protocol, **more)
    with serving(config(up)) as (gateway, lines):
        client = genai.Client(
            api_key=KEY,
            vertexai=False,
            http_options=HttpOptions(
                base_url=gateway.base_url, client_args={"verify": TRUSTS_NOBODY}
            ),
        )
        answer = client.models.embed_content(
            model="my-model",
            contents=["one", "two"],
            config=EmbedContentConfig(output_dimensionality=24),
        )
        assert answer.embeddings is not None
        assert [one.values for one in answer.embeddings] == [vector("one", 24), vector("two", 24)]
        assert lines[-1]["usage"]["input"] > 0
        single = post(
            gateway,
            "/v1beta/models/my-model:embedContent",
            {"content": {"parts": [{"text": "one"}]}, "model": "models/my-model"},
        )
        assert single.json["embedding"]["values"] == vector("one")
        assert lines[-1]["upstream_model"] == "sim-model"
        asked = len(simulator.requests)
        counts = [
            client.models.count_tokens(model="sim/sim-text", contents="one " * size)
            for size in (100, 200)
        ]
        paths = [one.path for one in simulator.requests[asked:]]
    fewer, more_tokens = (one.total_tokens or 0 for one in counts)
    assert 50 < fewer < more_tokens < 400
    path = {
        GOOGLE: "/v1/models/sim-text:countTokens",
        "openai_responses": "/v1/responses/input_tokens",
    }.get(protocol)
    assert paths == ([] if path is None else [path] * 2)


def test_google_clients_and_cohere_is_a_404_in_the_clients_shape(
    simulator: RunningSimulator,
) -> None:
    with serving(translated(simulator, "cohere")) as (gateway, _):
        path = "/v1beta/models/my-model:embedContent"
        answer = post(gateway, path, {"content": {"parts": [{"text": "one"}]}})
    assert answer.status == 404
    assert answer.json["error"]["status"] == "NOT_FOUND"


def test_a_fallback_of_another_form_is_not_asked_for_what_it_does_not_take(
    simulator: RunningSimulator,
) -> None:
    from dragoman.config import Fallback, Route

    gone = upstream("gone", "http://127.0.0.1:1")
    google = upstream("google", simulator.base_url, GOOGLE)
    route = Route(match="e", upstream="gone", fallbacks=(Fallback(upstream="google"),))
    with serving(replace(config(gone, google), routes=(route,))) as (gateway, _):
        answer = post(gateway, "/v1/embeddings", {"model": "e", "input": "one"})
        assert answer.json["data"][0]["embedding"] == vector("one")
        refused = post(gateway, "/v1/embeddings", {"model": "e", "input": [1, 2]})
    assert refused.status == 502
