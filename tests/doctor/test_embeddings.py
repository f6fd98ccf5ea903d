"""What the doctor finds of embeddings: of servers that ignore base64, and of the gateway."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.demo import KEY, demo_config
from dragoman.lab.doctor import State, examine_embeddings
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import running_gateway

ENCODED = "embeddings.base64"


@pytest.mark.parametrize(
    ("model", "broken"),
    [
        ("sim-model", set()),
        ("sim-floats", {ENCODED}),
        ("sim-no-base64", {ENCODED}),
        ("sim-always-base64", {"embeddings.numbers"}),
    ],
)
def test_a_server_is_found_out_and_the_gateway_before_it_is_well(
    model: str, broken: set[str]
) -> None:
    with (
        running_simulator() as simulator,
        running_gateway(demo_config(simulator.base_url), None) as gateway,
    ):
        for url, key, name, expected in (
            (simulator.base_url, "sk-sim-x", model, broken),
            (gateway.base_url, KEY, f"chat/{model}", set()),
        ):
            findings = asyncio.run(examine_embeddings(url, key, name))
            found = {one.check.id for one in findings if one.state is State.BROKEN}
            assert found == expected
            assert not any(one.state is State.NOT_SEEN for one in findings)


def test_the_command_checks_them_where_a_model_is_named() -> None:
    with running_simulator() as simulator:
        arguments = ["doctor", simulator.base_url, "--key", "sk-sim-x", "--model", "sim-text"]
        arguments += ["--protocol", "openai_chat", "--embeddings", "sim-floats", "--json"]
        done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    shown = json.loads(done.stdout)
    assert shown["broken"] is True
    assert ENCODED in [one["check"]["id"] for one in shown["checks"] if one["state"] == "BROKEN"]
