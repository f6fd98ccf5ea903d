"""The corpus: every translation that the tests make, recorded while they run.

Run as a plugin of pytest by `record`. A recorded translation holds what the library call was given
and every answer that was translated back, so it can be repeated with any version.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

FOLDERS = ("tests/tables", "tests/losses", "tests/protocols")
"""Tests whose translations are recorded."""

_TARGET = "DRAGOMAN_CORPUS"
_SHORT = 20_000
"""Bytes of a stream below which it is short."""
_FINAL = ("model", "base_url", "account")
"""Arguments of the library call that are plain text."""


class Translation(Struct, kw_only=True):
    """A request from a client of one protocol to an upstream of another, and upstream answers.

    `settings` are the other arguments of the library call. `wholes` and `streams` are bodies of
    answers, `errors` statuses and bodies of error answers.
    """

    client: str
    upstream: str
    body: bytes
    settings: dict[str, Any] = {}
    wholes: list[bytes] = []
    streams: list[bytes] = []
    errors: list[tuple[int, bytes]] = []


def record(root: Path, target: Path) -> None:
    """Run the tests of a checkout, and write the translations they make to `target`.

    Raises:
        RuntimeError: no test ran.
    """
    here = Path(__file__).parent.parent.parent
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", __name__, *FOLDERS]
    path = os.pathsep.join([str(root / "src"), str(root), str(here)])
    env = {**os.environ, "PYTHONPATH": path, _TARGET: str(target)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, check=False)
    if not target.exists():
        raise RuntimeError(f"nothing was recorded: {done.stdout[-1000:].decode()}")


def read(path: Path) -> list[Translation]:
    """The translations of a recorded corpus."""
    decoder = msgspec.json.Decoder(Translation)
    with path.open("rb") as lines:
        return [decoder.decode(line) for line in lines]


def streams_of(translations: list[Translation]) -> dict[str, list[bytes]]:
    """The short upstream streams of a corpus by protocol, without repetitions."""
    found: dict[str, dict[bytes, None]] = defaultdict(dict)
    for translation in translations:
        short = [stream for stream in translation.streams if len(stream) < _SHORT]
        found[translation.upstream].update(dict.fromkeys(short))
    return {protocol: list(streams) for protocol, streams in sorted(found.items())}


# --- the plugin -----------------------------------------------------------------------------------


class _Recorder:
    """Wraps the library call of the tests, and notes what its objects are given."""

    def __init__(self) -> None:
        self.calls: dict[int, tuple[Any, Translation]] = {}
        self.streams: dict[int, tuple[Any, Translation, list[bytes]]] = {}

    def install(self) -> None:
        """Put the wrappers in place."""
        import dragoman

        call_type: Any = dragoman.Call
        library: Any = import_module("tests.library")
        translate = library.translate
        whole, error = call_type.translate_response, call_type.translate_error
        opened = call_type.open_stream

        def recorded_translate(client: Any, upstream: Any, body: Any, **more: Any) -> Any:
            made = Translation(
                client=client, upstream=upstream, body=body, settings=_named_settings(more)
            )
            try:
                call = translate(client, upstream, body, **more)
            except Exception:
                self.calls[-len(self.calls) - 1] = None, made
                raise
            self.calls[id(call)] = call, made
            return call

        def recorded_whole(call: Any, body: bytes, *more: Any) -> Any:
            self._of(call).wholes.append(bytes(body))
            return whole(call, body, *more)

        def recorded_error(call: Any, status: int, body: bytes, *more: Any) -> Any:
            self._of(call).errors.append((status, bytes(body)))
            return error(call, status, body, *more)

        def recorded_open(call: Any) -> Any:
            stream = opened(call)
            self.streams[id(stream)] = stream, self._of(call), []
            return stream

        _wrap_feed(dragoman.AnswerStream, self.streams)
        library.translate = recorded_translate
        call_type.translate_response = recorded_whole
        call_type.translate_error = recorded_error
        call_type.open_stream = recorded_open

    def _of(self, call: Any) -> Translation:
        unknown = None, Translation(client="", upstream="", body=b"")
        return self.calls.get(id(call), unknown)[1]

    def translations(self) -> Iterator[Translation]:
        """What was recorded, without repetitions."""
        for _, made, pieces in self.streams.values():
            made.streams.append(b"".join(pieces))
        merged: dict[bytes, Translation] = {}
        for _, made in self.calls.values():
            key = msgspec.json.encode((made.client, made.upstream, made.body, made.settings))
            first = merged.setdefault(key, made)
            if first is not made:
                first.wholes += made.wholes
                first.streams += made.streams
                first.errors += made.errors
        for made in merged.values():
            made.wholes = list(dict.fromkeys(made.wholes))
            made.streams = [stream for stream in dict.fromkeys(made.streams) if stream]
            made.errors = list(dict.fromkeys(made.errors))
            yield made


def _wrap_feed(kind: Any, streams: dict[int, tuple[Any, Translation, list[bytes]]]) -> None:
    feed = kind.feed

    def recorded_feed(stream: Any, chunk: bytes) -> bytes:
        if id(stream) in streams:
            streams[id(stream)][2].append(bytes(chunk))
        written: bytes = feed(stream, chunk)
        return written

    kind.feed = recorded_feed


def _named_settings(more: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the library call by name: options and capabilities as those not at defaults."""
    from dragoman.protocols.settings import fields_of, setting

    named = {name: more[name] for name in _FINAL if more.get(name)}
    for name in ("options", "capabilities"):
        given = more.get(name)
        if given is None or isinstance(given, dict):
            named |= {name: given} if given else {}
            continue
        kind = type(given)
        changed = {
            field: msgspec.to_builtins(setting(given, field))
            for field in fields_of(kind)
            if setting(given, field) != setting(kind(), field)
        }
        named |= {name: changed} if changed else {}
    return named


_recorder = _Recorder()


def pytest_configure() -> None:
    """Begin to record."""
    if _TARGET in os.environ:
        _recorder.install()


def pytest_sessionfinish() -> None:
    """Write what was recorded."""
    if _TARGET in os.environ:
        lines = [msgspec.json.encode(made) + b"\n" for made in _recorder.translations()]
        Path(os.environ[_TARGET]).write_bytes(b"".join(lines))
