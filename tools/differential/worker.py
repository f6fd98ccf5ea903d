"""A process that runs translations through the library call of one version.

Run by its path, with that version's source on `PYTHONPATH`: of dragoman it imports the public names
alone. It reads one translation a line from standard input and writes one result a line.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import msgspec

NOW = 1_700_000_000.0


def run(case: dict[str, Any]) -> dict[str, Any]:
    """The result of one translation: what would be sent, the losses, and each answer."""
    random.seed(0)
    try:
        call = _call(case)
    except Exception as error:
        return _failure(error)
    return {
        "path": call.path,
        "headers": call.headers("sk-key"),
        "body": call.body.decode("utf-8", "replace"),
        "losses": _losses(call),
        "wholes": [_whole(case, body) for body in case["wholes"]],
        "streams": [_stream(case, body) for body in case["streams"]],
    }


def _call(case: dict[str, Any]) -> Any:
    from dragoman import translate_request

    more = {"created": int(NOW), **case["settings"]}
    return translate_request(case["client"], case["upstream"], case["body"], **more)


def _failure(error: Exception) -> dict[str, Any]:
    fault = getattr(error, "fault", None)
    if fault is None:
        return {"failure": type(error).__name__, "text": str(error)}
    names = ("kind", "param", "code", "status", "retry_after", "limited", "details")
    shown = {name: msgspec.to_builtins(getattr(fault, name, None)) for name in names}
    return {"failure": type(error).__name__, "fault": shown, "text": fault.message}


def _losses(call: Any) -> list[dict[str, str]]:
    return [
        {"path": loss.path, "kind": loss.kind.value, "text": loss.detail} for loss in call.losses
    ]


def _whole(case: dict[str, Any], body: bytes) -> dict[str, Any]:
    call = _call(case)
    try:
        answer = call.translate_response(body)
    except Exception as error:
        return {**_failure(error), "losses": _losses(call)}
    return {"answer": answer.decode("utf-8", "replace"), "losses": _losses(call)}


def _stream(case: dict[str, Any], body: bytes) -> dict[str, Any]:
    """The stream as it comes: a third at first, then a byte, then the rest."""
    call = _call(case)
    third = len(body) // 3
    try:
        stream = call.open_stream()
        pieces = [stream.feed(piece) for piece in (body[:third], body[third : third + 1])]
        written = b"".join([*pieces, stream.feed(body[third + 1 :]), stream.finish()])
    except Exception as error:
        return {**_failure(error), "losses": _losses(call)}
    fault = stream.outcome.fault
    return {
        "answer": written.decode("utf-8", "replace"),
        "losses": _losses(call),
        "usage": msgspec.to_builtins(stream.outcome.usage),
        "finish": msgspec.to_builtins(stream.outcome.finish),
        "ended": stream.outcome.ended,
        "fault": None if fault is None else msgspec.to_builtins(fault.kind),
    }


def main() -> None:
    """Serve until standard input ends."""
    time.time = lambda: NOW  # ids begin with the time
    for line in sys.stdin.buffer:
        case = msgspec.json.decode(line)
        for name in ("wholes", "streams"):
            case[name] = [msgspec.convert(text, bytes) for text in case[name]]
        case["body"] = msgspec.convert(case["body"], bytes)
        sys.stdout.buffer.write(msgspec.json.encode(run(case)) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
