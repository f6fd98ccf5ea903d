"""A service that speaks Parley, for an upstream: it echoes, calls tools, and refuses keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.invented.parley import EDITION
from tests.small_servers import Handler, handling

REFUSED = "pk-refused-account-0000000001"
"""The key of an account that the service does not take; it quotes it, as vendors do."""


@dataclass
class Service:
    """What runs, and what it was asked: path, headers with lower-case names, body."""

    base_url: str
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)


def _answer(body: dict[str, Any]) -> dict[str, Any]:
    last = body["lines"][-1]
    says: list[dict[str, Any]]
    if body.get("tools") and last["from"] == "human":
        tool = body["tools"][0]["name"]
        says = [
            {"thought": "I shall look.", "proof": "proof-of-thought"},
            {"call": {"tool": tool, "with": {"city": "Paris"}, "proof": "proof-of-call"}},
            {"call": {"tool": tool, "with": {"city": "Rome"}}},
        ]
        return {"says": says, "end": "tools", "spent": {"in": 11, "out": 5}}
    said = last.get("result") or last["text"]
    says = [{"text": "You said: "}, {"text": said}, {"text": "", "proof": "proof-of-text"}]
    return {"says": says, "end": "done", "spent": {"in": 7, "out": 3}}


@contextmanager
def parley_service() -> Iterator[Service]:
    """Serve on loopback."""

    class Own(Handler):
        def get(self) -> None:
            if self._known():
                self._reply(200, {"titles": [{"title": "talker"}]})

        def post(self) -> None:
            body = json.loads(self.taken())
            headers = self.names()
            service.asked.append((self.path, headers, body))
            if not self._known():
                return
            path, _, query = self.path.partition("?")
            model, _, verb = path.removeprefix("/p1/models/").partition(":")
            if model == "broken":
                self._reply(200, {"trouble": {"kind": "broken", "words": "fell over"}})
            elif model == "quoting":
                words = f"the account of {headers['x-parley-key']} may not ask that"
                self._reply(400, {"trouble": {"kind": "nonsense", "words": words}})
            elif verb == "weigh":
                self._reply(200, {"weight": len(json.dumps(body["weighed"]))})
            elif verb == "answer":
                self._reply(200, {"name": "n1", "title": model, **_answer(body)})
            else:
                assert query == "as=frames"
                self._stream(model, _answer(body))

        def _known(self) -> bool:
            key = self.headers.get("x-parley-key", "")
            if key != REFUSED and self.headers.get(EDITION):
                return True
            words = f"we do not know the key {key}"
            self._reply(401, {"trouble": {"kind": "stranger", "words": words}})
            return False

        def _reply(self, status: int, value: Any) -> None:
            self._send(status, "application/json", json.dumps(value).encode())

        def _stream(self, model: str, answer: dict[str, Any]) -> None:
            frames: list[Any] = [{"name": "n1", "title": model}]
            frames += [{"says": [piece]} for piece in answer["says"]]
            frames.append({"end": answer["end"], "spent": answer["spent"]})
            lines = [json.dumps(frame).encode() for frame in frames]
            if model == "array":
                self._send(200, "application/json", b"[%b]" % b"\n,\n".join(lines))
                return
            if model == "bare":
                lines = lines[:2]
            body = b"".join(b"data: %b\n\n" % line for line in lines)
            if model == "bare":
                body += json.dumps({"trouble": {"kind": "broken", "words": "no more"}}).encode()
            self._send(200, "text/event-stream", body, closes=True)

        def _send(self, status: int, kind: str, body: bytes, *, closes: bool = False) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            if closes:
                self.send_header("connection", "close")
            else:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    service = Service("")
    with handling(Own) as service.base_url:
        yield service
