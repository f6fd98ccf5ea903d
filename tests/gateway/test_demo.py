"""The demo: what it prints works."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dragoman.config import Config
from dragoman.demo import ADMIN_KEY, KEY, demo_config, examples, reachable
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.facts import facts_of
from tests.gateway.clients import APIS, PATHS, body, completed, text_of
from tests.gateway.http import call
from tests.gateway.services import until


@pytest.fixture(scope="module")
def demo(
    _simulator: RunningSimulator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    store = tmp_path_factory.mktemp("demo") / "demo.db"
    with running_gateway(demo_config(_simulator.base_url, store=str(store))) as gateway:
        yield gateway


@pytest.mark.parametrize(("api", "upstream"), list(itertools.product(APIS, APIS)))
def test_three_clients_over_three_models(demo: RunningGateway, api: str, upstream: str) -> None:
    made = body(api, f"sim-{upstream}")
    answer = call(demo.base_url, "POST", PATHS[api], made, key=KEY)
    assert answer.status == 200
    assert "Hello" in text_of(api, answer)
    made["stream"] = True
    assert completed(api, call(demo.base_url, "POST", PATHS[api], made, key=KEY).body)


def test_its_answers_have_a_price(demo: RunningGateway) -> None:
    """So that the dashboard has a cost to show."""
    for upstream in APIS:
        made = body("chat", f"{upstream}/sim-text?words=90")
        assert call(demo.base_url, "POST", PATHS["chat"], made, key=KEY).status == 200

    def priced() -> bool:
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        path = "/admin/usage?by=upstream&key=demo"
        rows = call(demo.base_url, "GET", path, None, headers, key=None).json["rows"]
        costs = {row["by"]["upstream"]: float(row["cost_usd"]) for row in rows}
        return set(APIS) <= {name for name, cost in costs.items() if cost > 0}

    until(priced)


@pytest.mark.parametrize("upstream", APIS)
def test_responses_are_kept(demo: RunningGateway, upstream: str) -> None:
    asked = {"model": f"sim-{upstream}", "input": "Hi"}
    first = call(demo.base_url, "POST", "/v1/responses", asked, key=KEY).json
    asked["previous_response_id"] = first["id"]
    later = call(demo.base_url, "POST", "/v1/responses", asked, key=KEY)
    assert later.status == 200
    assert later.json["previous_response_id"] == first["id"]


def test_the_list_is_short(demo: RunningGateway) -> None:
    listed = call(demo.base_url, "GET", "/v1/models", key=KEY).json["data"]
    assert [model["id"] for model in listed] == [
        *("sim-chat", "sim-messages", "sim-responses", "sim-google", "sim-interactions")
    ]


@pytest.mark.parametrize(
    ("bound", "reached"),
    [
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "http://[::1]:8080"),
        ("http://192.0.2.7:8080", "http://192.0.2.7:8080"),
    ],
)
def test_its_examples_name_an_address_that_can_be_called(bound: str, reached: str) -> None:
    """In a container it listens at every address, which is none to call."""
    assert reachable(bound) == reached


def test_it_is_a_plain_configuration() -> None:
    assert isinstance(demo_config("http://127.0.0.1:1"), Config)


CURLS = re.findall(r"^curl .*?'$", examples("URL"), re.DOTALL | re.MULTILINE)
SCRIPTS = re.findall(r"<<'PY'\n(.*?)\nPY$", examples("URL"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(4))
def test_the_curl_examples(demo: RunningGateway, number: int) -> None:
    assert len(CURLS) == 4
    command = CURLS[number].replace("URL", demo.base_url)
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=20, check=False
    )
    if done.returncode == 127:
        pytest.skip("curl is not installed (apt install curl)")
    told = done.stdout.encode()
    if number == 3:
        assert facts_of()["google_generate_content"].ends(told)
    else:
        assert completed(APIS[number], told)


@pytest.mark.parametrize("number", range(2))
def test_the_python_examples(demo: RunningGateway, number: int) -> None:
    assert len(SCRIPTS) == 2
    script = SCRIPTS[number].replace("URL", demo.base_url)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Hello!" in done.stdout
