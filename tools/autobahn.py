"""``python -m tools.autobahn WSTEST``: the cases of the Autobahn test suite against the
server's WebSocket.

`WSTEST` is the suite's command; the suite runs on Python 2.7 only, from a place of its own:

    PYTHONUSERBASE=/tmp/suite python2.7 -m pip install --user autobahntestsuite
    python -m tools.autobahn "env PYTHONUSERBASE=/tmp/suite /tmp/suite/bin/wstest" 1.* 2.*

What is tested is `dragoman.http.websocket` under the server, with an application that sends each
message back. Prints what failed, and exits with 1 if something did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dragoman.http import Request
from dragoman.http.clock import Clock
from dragoman.http.websocket import WebSocket, WebSocketLimits, accept, text_frame
from tests.http.serving import running

_LIMITS = WebSocketLimits(message_bytes=32 * 1024 * 1024)
_GOOD = ("OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED")
_SECONDS = 1800.0


class Echo(WebSocket):
    """Sends each message back, as what it was."""

    def on_message(self, data: bytes) -> None:
        self.send(text_frame(data))

    def on_binary(self, data: bytes) -> None:
        self.send(b"\x82" + text_frame(data)[1:])

    def on_refusal(self, code: int) -> None:
        """Say nothing."""

    def on_end(self) -> None:
        """Nothing is to be given back."""


async def app(request: Request) -> None:
    """Accept each handshake."""
    clock = Clock(asyncio.get_running_loop())
    request.switch_to(Echo(accept(request, _LIMITS), clock, request.budget))


def _results(wstest: list[str], port: int, cases: list[str], folder: Path) -> dict[str, Any]:
    """What the suite found, by case."""
    spec = folder / "spec.json"
    server = {"agent": "dragoman", "url": f"ws://127.0.0.1:{port}", "options": {"version": 18}}
    told = {"outdir": str(folder / "found"), "servers": [server], "cases": cases}
    spec.write_text(json.dumps({**told, "exclude-cases": [], "exclude-agent-cases": {}}))
    command = [*wstest, "--mode", "fuzzingclient", "--spec", str(spec)]
    subprocess.run(command, check=True, cwd=folder, timeout=_SECONDS, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads((folder / "found" / "index.json").read_text())["dragoman"]
    return found


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(prog="tools.autobahn", description=__doc__)
    parser.add_argument("wstest", help="the command of the suite")
    parser.add_argument("cases", nargs="*", default=["*"], help="as 1.* or 6.4.1; all by default")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="autobahn-") as name, running(app) as server:
        found = _results(shlex.split(chosen.wstest), server.port, chosen.cases, Path(name))
    failed = []
    for case, told in sorted(found.items()):
        if not (told["behavior"] in _GOOD and told["behaviorClose"] in _GOOD):
            failed.append(f"{case}: {told['behavior']}, closed {told['behaviorClose']}")
    counts: dict[str, int] = {}
    for told in found.values():
        counts[told["behavior"]] = counts.get(told["behavior"], 0) + 1
    sys.stdout.write("\n".join([*failed, f"{len(found)} cases: {counts}", ""]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
