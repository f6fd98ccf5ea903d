"""Rerank: three forms of clients over the forms of upstreams."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dragoman.lab.simulator.endpoints import score
from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.installed import FRAMEWORKS_PYTHON
from tests.endpoints.serving import config, post, serving, upstream
from tests.gateway.http import KEY

QUERY = "red apple"
DOCUMENTS = ["a green pear", "a red apple", "a red car"]
BEST = [1, 2, 0]
FORMS = ["cohere", "jina", "tei"]


def asked(client: str, **more: Any) -> tuple[str, dict[str, Any]]:
    if client == "tei":
        return "/rerank", {"query": QUERY, "texts": DOCUMENTS, **more}
    path = "/v2/rerank" if client == "cohere" else "/v1/rerank"
    return path, {"model": "my-model", "query": QUERY, "documents": DOCUMENTS, **more}


@pytest.mark.parametrize("client", FORMS)
@pytest.mark.parametrize("form", FORMS)
def test_every_client_with_every_upstream(
    simulator: RunningSimulator, client: str, form: str
) -> None:
    from dragoman.config import Route

    route = Route(match="rerank", upstream="sim")
    made = config(upstream("sim", simulator.base_url, rerank=form), routes=(route,))
    with serving(made) as (gateway, lines):
        path, body = asked(client)
        answer = post(gateway, path, body)
    assert answer.status == 200, answer.body
    results = answer.json if client == "tei" else answer.json["results"]
    assert [one["index"] for one in results] == BEST
    name = "score" if client == "tei" else "relevance_score"
    assert [one[name] for one in results] == [score(QUERY, DOCUMENTS[index]) for index in BEST]
    if client == "cohere":
        assert answer.json["meta"]["billed_units"]["search_units"] == 1 or form == "cohere"
        assert not any("document" in one for one in results)
    assert simulator.last.path == {"cohere": "/v2/rerank", "jina": "/v1/rerank"}.get(
        form, "/rerank"
    )
    assert lines[-1]["usage"]["searches"] == 1 or lines[-1]["usage"]["input"] > 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objects", [False, True])
def test_documents_are_returned_when_asked_and_the_best_are_cut(
    simulator: RunningSimulator, form: str, objects: bool
) -> None:
    documents = [{"text": one} for one in DOCUMENTS] if objects else DOCUMENTS
    with serving(config(upstream("sim", simulator.base_url, rerank=form))) as (gateway, _):
        path, body = asked("jina", top_n=2, return_documents=True)
        answer = post(gateway, path, {**body, "documents": documents})
    results = answer.json["results"]
    assert [one["index"] for one in results] == BEST[:2]
    assert [one["document"]["text"] for one in results] == [DOCUMENTS[one] for one in BEST[:2]]
    assert answer.json["model"] == "my-model"


@pytest.mark.parametrize("path", ["/rerank", "/v1/reranking"])
def test_other_paths_of_the_same(simulator: RunningSimulator, path: str) -> None:
    with serving(config(upstream("sim", simulator.base_url))) as (gateway, _):
        answer = post(gateway, path, asked("jina")[1])
    assert [one["index"] for one in answer.json["results"]] == BEST


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"query": 1}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": [1]}, "documents[0]"),
    ],
)
def test_what_is_no_request_is_refused_in_the_clients_shape(
    simulator: RunningSimulator, change: dict[str, Any], param: str
) -> None:
    with serving(config(upstream("sim", simulator.base_url, rerank="tei"))) as (gateway, _):
        for client in ("cohere", "jina"):
            path, body = asked(client)
            answer = post(gateway, path, body | change)
            assert answer.status == 400
            message = (
                answer.json["message"] if client == "cohere" else answer.json["error"]["param"]
            )
            assert message.startswith(param)
    assert not simulator.requests


SCRIPT = """
import json, sys
import cohere
client = cohere.ClientV2(api_key=sys.argv[2], base_url=sys.argv[1])
documents = json.loads(sys.argv[4])
answer = client.rerank(model="my-model", query=sys.argv[3], documents=documents, top_n=2)
found = [[one.index, one.relevance_score] for one in answer.results]
units = answer.meta.billed_units.search_units
try:
    client.rerank(model="other", query="q", documents=["d"])
except cohere.NotFoundError as error:
    print(json.dumps([found, units, error.body["message"]]))
"""


def test_the_sdk_of_cohere_reads_answers_and_errors(simulator: RunningSimulator) -> None:
    python = Path(FRAMEWORKS_PYTHON)
    if not list(python.parent.parent.glob("lib/python3*/site-packages/cohere")):
        pytest.skip("the SDK of Cohere is not installed")
    with serving(config(upstream("sim", simulator.base_url, rerank="jina"))) as (gateway, _):
        done = subprocess.run(
            [python, "-c", SCRIPT, gateway.base_url, KEY, QUERY, json.dumps(DOCUMENTS)],
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    found, units, message = json.loads(done.stdout)
    assert found == [[index, score(QUERY, DOCUMENTS[index])] for index in BEST[:2]]
    assert units == 1
    assert "other" in message
