"""Tokens that expire under load over several workers, and those of another configuration."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.lab.simulator.authority import Authority, Failing
from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.clients import PATHS, body
from tests.gateway.http import call
from tests.gateway.load import Load
from tests.gateway.processes import gateway_process

LIFE_S = 6.0

TABLES = """
[[upstreams]]
name = "cloud"
protocol = "openai_chat"
base_url = "{url}"
[[accounts]]
name = "login"
upstream = "cloud"
credentials = {{ kind = "oauth2", token_url = "{url}/oauth/token", client_id = "gw", client_secret = "oauth-secret", scope = "first" }}
[[routes]]
match = "*"
upstream = "cloud"
"""  # noqa: E501 a table stands in one line


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 what it looks at is of another thread
            await asyncio.sleep(0.02)


def test_expiry_under_load_costs_one_refresh_and_no_error(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    authority = simulator.app.authority = Authority(life_s=LIFE_S)
    tables = TABLES.format(url=simulator.base_url)
    asked = body("chat", "sim-text")
    began = time.monotonic()
    with gateway_process(tmp_path, simulator.base_url, {}, workers=4, tables=tables) as gateway:
        file = tmp_path / "one.toml"

        async def run() -> None:
            load = Load(urlsplit(gateway.url).port or 0)
            load.start()
            await until(lambda: authority.issued["oauth"] >= 2)
            await load.answered("opening", "keeping", "streaming")
            seconds = time.monotonic() - began
            # It is refreshed 5 seconds after it was issued; each worker by itself would be four.
            assert authority.asked["oauth"] <= 1 + seconds / 5.0
            file.write_text(file.read_text().replace('"first"', '"second"'))
            gateway.process.send_signal(signal.SIGHUP)
            await until(lambda: authority.last["oauth"].get("scope") == "second")
            await load.answered("opening", "keeping", "streaming")
            outcomes = await load.stop()
            assert all(name.endswith(" ok") for name in outcomes), outcomes

        asyncio.run(run())
        authority.failing["oauth"] = Failing(503)
        deadline = time.monotonic() + 60
        while (answer := call(gateway.url, "POST", PATHS["chat"], asked)).status == 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert answer.status == 503
        assert "the authorisation server failed with status 503" in answer.body.decode()
    assert "oauth-secret" not in gateway.log
    assert not any(token in gateway.log for token in authority.expires)
    simulator.app.authority = Authority()
