"""Instances on several machines that have one PostgreSQL for their store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from tests.gateway.http import AUTH, call
from tests.gateway.processes import ASKED, GatewayProcess, gateway_process, simulator_process
from tests.storage.cluster import Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as found:
        yield found


def instances(
    stack: ExitStack, folder: Path, cluster: Cluster, upstream: str, count: int
) -> list[GatewayProcess]:
    return [
        stack.enter_context(
            gateway_process(
                folder,
                upstream,
                {"a": "sk-a"},
                workers=2,
                name=f"instance{number}",
                store="",
                storage=f'url = "{cluster.url}"',
            )
        )
        for number in range(count)
    ]


def answered(gateway: GatewayProcess, text: str, previous: str | None) -> tuple[int, str]:
    asked = {"model": ASKED["model"], "input": text, "previous_response_id": previous}
    answer = call(gateway.url, "POST", "/v1/responses", asked, AUTH)
    return answer.status, str(answer.json.get("id"))


def test_a_conversation_goes_on_at_whichever_instance(tmp_path: Path, cluster: Cluster) -> None:
    with ExitStack() as stack:
        upstream, _ = stack.enter_context(simulator_process())
        made = instances(stack, tmp_path, cluster, f"{upstream}/v1", 3)
        previous: str | None = None
        for turn in range(6):
            status, previous = answered(made[turn % 3], f"turn {turn}", previous)
            assert status == 200
        # Without the database nothing goes on from what is in it; everything else does.
        cluster.stop()
        try:
            for _ in range(20):
                time.sleep(0.1)
                for gateway in made:
                    assert (
                        call(gateway.url, "POST", "/v1/chat/completions", ASKED, AUTH).status == 200
                    )
                    assert call(gateway.url, "GET", "/readyz", None, {}).status == 200
            assert answered(made[0], "away", previous)[0] == 503
        finally:
            cluster.start()
        end = time.monotonic() + 10
        while answered(made[1], "back", previous)[0] != 200:
            assert time.monotonic() < end
            time.sleep(0.1)
