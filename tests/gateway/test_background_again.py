"""Responses in the background whose worker is stopped before they are done."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.gateway.http import AUTH, call, events
from tests.gateway.processes import GatewayProcess, gateway_process, simulator_process, until

LONG = "chat/sim-text?words=300&delay_ms=20"
"""Longer than a gateway that stops waits for."""


def test_they_are_made_again_by_the_next_or_fail(tmp_path: Path) -> None:
    asked = {"model": LONG, "input": "Hi", "background": True, "metadata": {"mine": "yes"}}
    with ExitStack() as stack:
        upstream, _ = stack.enter_context(simulator_process())

        def started(again: bool, name: str) -> GatewayProcess:
            folder = tmp_path / str(again)
            folder.mkdir(exist_ok=True)
            running = gateway_process(
                folder,
                f"{upstream}/v1",
                {"a": "sk-a"},
                name=name,
                storage="" if again else "background_again = false",
            )
            return stack.enter_context(running)

        def told(gateway: GatewayProcess, name: str) -> dict[str, Any]:
            found: dict[str, Any] = call(
                gateway.url, "GET", f"/v1/responses/{name}", None, AUTH
            ).json
            return found

        def has_begun(gateway: GatewayProcess, name: str) -> bool:
            return bool(told(gateway, name)["status"] == "in_progress")

        made = {}
        for again in (True, False):
            gateway = started(again, "first")
            name = str(call(gateway.url, "POST", "/v1/responses", asked, AUTH).json["id"])
            until(partial(has_begun, gateway, name))
            made[again] = name
            gateway.stop()
        gateway = started(False, "second")
        ended = told(gateway, made[False])
        assert (ended["status"], ended["metadata"]) == ("failed", {"mine": "yes"})
        gateway = started(True, "second")
        path = f"/v1/responses/{made[True]}?stream=true"
        seen = [data for _, data in events(call(gateway.url, "GET", path, None, AUTH).body)]
        assert [data["sequence_number"] for data in seen] == list(range(len(seen)))
        assert [data["type"] for data in seen].count("response.created") == 2
        ended = told(gateway, made[True])
        assert (ended["status"], ended["metadata"]) == ("completed", {"mine": "yes"})
        assert seen[-1]["response"] == ended
        said = ended["output"][0]["content"][0]["text"]
        assert len(said.split()) == 300
