"""Responses in the background whose worker is stopped before they are done."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dragoman.lab.simulator.accounts import KeyBehaviour
from dragoman.lab.simulator.script import Fault
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.http import AUTH, call, events
from tests.gateway.processes import GatewayProcess, gateway_process, until

UNENDING = KeyBehaviour(Fault("silence", after=3, ms=600_000, times=1))
"""The first answer begins and goes on for longer than a gateway that stops waits; others end."""


def test_they_are_made_again_by_whoever_opens_the_store_next(
    tmp_path: Path, simulator: RunningSimulator
) -> None:
    simulator.app.keys.behaviours["sk-a"] = UNENDING
    asked = {
        "model": "chat/sim-text?words=400",
        "input": "Hi",
        "background": True,
        "metadata": {"mine": "yes"},
    }
    with ExitStack() as stack:

        def started(name: str) -> GatewayProcess:
            running = gateway_process(
                tmp_path, simulator.openai_base_url, {"a": "sk-a"}, name=name, grace_s=1
            )
            return stack.enter_context(running)

        def told() -> dict[str, Any]:
            found: dict[str, Any] = call(
                gateway.url, "GET", f"/v1/responses/{name}", None, AUTH
            ).json
            return found

        gateway = started("first")
        name = str(call(gateway.url, "POST", "/v1/responses", asked, AUTH).json["id"])
        until(lambda: bool(told()["status"] == "in_progress"))
        gateway.stop()
        gateway = started("second")
        path = f"/v1/responses/{name}?stream=true"
        seen = [data for _, data in events(call(gateway.url, "GET", path, None, AUTH).body)]
        assert [data["sequence_number"] for data in seen] == list(range(len(seen)))
        assert [data["type"] for data in seen].count("response.created") == 2
        ended = told()
        assert (ended["status"], ended["metadata"]) == ("completed", {"mine": "yes"})
        assert seen[-1]["response"] == ended
        assert len(ended["output"][0]["content"][0]["text"].split()) == 400
