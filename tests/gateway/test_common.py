"""What the workers of one gateway have in common, while one of them dies."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from dragoman.lab.simulator.testing import RunningSimulator
from tests.gateway.clients import PATHS, body
from tests.gateway.http import JSON, call
from tests.gateway.services import needs_linux, services, until

ADMIN = "sk-admin-token-of-tests"
ORIGIN = {"origin": "http://localhost", "host": "localhost"}
SETTINGS = f'shutdown_grace_s = 10\n[admin]\nkey = "{ADMIN}"'
CONNECTIONS = 30
"""New connections of which each worker gets some."""


def serving(url: str) -> int:
    """How many workers serve."""
    try:
        count: int = call(url, "GET", "/readyz").json["serving"]
    except OSError:
        return 0
    return count


@needs_linux
def test_sessions_and_counts_outlive_a_worker(tmp_path: Path, simulator: RunningSimulator) -> None:
    with services(tmp_path, simulator.base_url) as running:
        service = running.start(workers=2, settings=SETTINGS)

        def counted() -> set[int]:
            """Requests so far, as each worker tells."""
            return {
                int(found[1])
                for _ in range(CONNECTIONS)
                if (
                    found := re.search(
                        r'\ndragoman_requests_total\{route="/v1/chat/completions"[^}]*\} (\d+)\n',
                        call(running.url, "GET", "/metrics").body.decode(),
                    )
                )
            }

        def statuses(headers: dict[str, str]) -> set[int]:
            return {
                call(running.url, "GET", "/admin/health", headers=headers, key=None).status
                for _ in range(CONNECTIONS)
            }

        until(lambda: serving(running.url) == 2)
        answer = call(
            running.url, "POST", "/admin/session", {"key": ADMIN}, {**JSON, **ORIGIN}, key=None
        )
        assert answer.status == 200, answer.body
        page = {"cookie": answer.headers["set-cookie"].split("; ")[0]}
        page["x-dragoman-csrf"] = answer.json["csrf"]
        assert statuses(page) == {200}
        for count in range(CONNECTIONS):
            made = body("chat", "chat/sim-text")
            assert call(running.url, "POST", PATHS["chat"], made).status == 200, count
        until(lambda: counted() == {CONNECTIONS})
        os.kill(service.workers()[0], signal.SIGKILL)
        service.until_logged("another starts")
        until(lambda: serving(running.url) == 2)
        until(lambda: counted() == {CONNECTIONS})
        assert statuses(page) == {200}
        signed_out = call(
            running.url, "DELETE", "/admin/session", headers={**page, **ORIGIN}, key=None
        )
        assert signed_out.status == 200
        assert statuses(page) == {401}
