"""Starts a gateway of one version, sends it requests one by one, and observes all it does."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.processes import Child, free_port
from tools.differential.replay import Answer, Replay, Script
from tools.differential.versions import Version

ADMIN_KEY = "sk-differential-admin"
KEY = "sk-differential"
LIMITED_KEY = "sk-differential-limited"

Json = dict[str, Any]

_WRITTEN_S = 0.7
"""Seconds after which what happened is counted and logged: both are written in batches."""

_OF_A_RUN = frozenset({"date", "host", "content-length", "etag", "x-dragoman-estimate"})
"""Headers that are not compared: of times, ports and lengths of what is compared itself."""

_OF_TIME = re.compile(
    r"(_ms|_s|_at|_seconds|_bytes)$|^(at|ms|milliseconds|time|pid|digest|ending|secret|since|until"
    r"|from|to|id|next|started|created|first|last|last_used|searched_to|version)$"
)
"""Members of logs and of answers of `/admin` that tell of times and of processes."""

_UNSTEADY = re.compile(
    r"_seconds_(bucket|sum)|^process_|store_write|queue_depth|drift|build_info|_accounts{|_request_log_"
)
"""Samples of metrics that differ from run to run."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request for the gateways, and how their upstream answers it.

    `$ID` in `path` and `body` stands for the id of the last answer that had one. `after_s` is a
    time to wait before it.
    """

    group: str
    cell: str
    path: str
    body: bytes = b""
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    answers: tuple[Answer, ...] = (Answer(),)
    after_s: float = 0.0


class Gateway:
    """A running gateway of one version, with an upstream of its own."""

    def __init__(self, upstream: Replay, port: int, log: Path) -> None:
        self.upstream = upstream
        self.port = port
        self.log = log
        self.last_id = "none"
        self.logged = 0
        """Lines of the log that were read."""
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def exchange(self, exchange: Exchange) -> Json:
        """Send the request; what the upstream was sent, and what the client was answered."""
        time.sleep(exchange.after_s)
        script = self.upstream.script = Script(exchange.answers)
        body = exchange.body.replace(b"$ID", self.last_id.encode())
        path = exchange.path.replace("$ID", self.last_id)
        headers = {"content-type": "application/json", "x-api-key": KEY, **exchange.headers}
        answer = self._request(exchange.method, path, body, headers)
        found = re.search(r'"id": ?"((?:resp|msg|chatcmpl)[^"]*)"', answer["body"])
        if found:
            self.last_id = found[1]
        if exchange.group == "admin" or path.startswith("/v1/key"):
            answer["body"] = _steady(answer["body"].replace(f":{self.port},", ":0,"))
        return {"sent": [_without_times(sent) for sent in script.sent], "client": answer}

    def _request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Json:
        try:
            self.connection.request(method, path, body or None, headers)
            response = self.connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            try:
                content, whole = response.read(), True
            except http.client.IncompleteRead as error:
                content, whole = error.partial, False
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return {"status": 0, "headers": {}, "body": "", "failure": type(error).__name__}
        if not whole:
            self.connection.close()
        return {
            "status": response.status,
            "headers": {name: value for name, value in received.items() if name not in _OF_A_RUN},
            "body": content.decode("utf-8", "replace"),
            "is_whole": whole,
        }

    def state(self) -> Json:
        """What the gateway reports of itself: log, metrics, limits and usage of the keys."""
        time.sleep(_WRITTEN_S)
        found = self._log_lines()
        admin = {"authorization": f"Bearer {ADMIN_KEY}"}
        metrics = self._request("GET", "/metrics", b"", admin)["body"]
        found["metrics"] = dict(_samples(metrics))
        found["families"] = {line: 1 for line in metrics.splitlines() if line.startswith("# TYPE")}
        for key in (KEY, LIMITED_KEY):
            for path in ("/v1/key", "/v1/usage"):
                answer = self._request("GET", path, b"", {"x-api-key": key})
                found[f"{path} of {key}"] = {**answer, "body": _steady(answer["body"])}
        time.sleep(_WRITTEN_S)
        self._log_lines()
        return found

    def _log_lines(self) -> Json:
        """What was logged since the last time: lines of requests, and other messages in order of
        their text."""
        data = self.log.read_bytes()
        lines = [
            _steady(line.decode("utf-8", "replace")) for line in data.splitlines()[self.logged :]
        ]
        self.logged += len(lines)
        others = [line for line in lines if "route" not in line]
        return {
            "requests": [line for line in lines if "route" in line],
            # Of an exception what failed, not where: modules move.
            "messages": sorted(str(line).partition("\\n  File")[0] for line in others),
        }


def _steady(text: str) -> Any:
    """What a JSON text holds, without times; other text as it is."""
    try:
        return _without_times(json.loads(text))
    except ValueError:
        return text


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "<time>" if _OF_TIME.search(name) and inner is not None else _without_times(inner)
            for name, inner in value.items()
            if name not in _OF_A_RUN
        }
    return [_without_times(inner) for inner in value] if isinstance(value, list) else value


def _samples(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            if not _UNSTEADY.search(name):
                yield name, value


@contextlib.contextmanager
def running(version: Version, folder: Path, config: str) -> Iterator[Gateway]:
    """A gateway of this version with a configuration, in which `$PORT` stands for its own port and
    `$UPSTREAM` for the address of its upstream."""
    folder.mkdir()
    with Replay() as upstream:
        port, file, log = free_port(), folder / "dragoman.toml", folder / "log"
        text = config.replace("$PORT", str(port))
        file.write_text(text.replace("$UPSTREAM", f"http://127.0.0.1:{upstream.port}"))
        command: Sequence[str] = [version.python, "-m", "dragoman", "serve", "--config", str(file)]
        environment = version.environment
        with Child(command, core=None, log=log, env=environment, inherit=False) as child:
            child.listening(port, 60.0)
            yield Gateway(upstream, port, log)
        upstream.shutdown()
