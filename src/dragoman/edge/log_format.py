"""The form of the log: JSON lines for machines, or text for people. Lines of the gateway and those
of requests have the same."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dragoman.config import LogFormat
from dragoman.printable import printable
from dragoman.sse import escape

_encoder = msgspec.json.Encoder()
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_LEADING = ("time", "level", "route", "status", "ms", "request_id")
"""What the text of a request's line has at fixed places; the rest follows by its names."""

_AMBIGUOUS = re.compile(r'[\s"=\\]')

_second = (0, "")
"""The last second that a time was asked in, and its text: formatting it costs more than the rest of
a line."""

_FRACTIONS = tuple(f".{milliseconds:03d}Z" for milliseconds in range(1000))
"""The ends of times: formatting a number costs as much as a line's other members."""


def timestamp(seconds: float) -> str:
    """A Unix time in ISO 8601, in UTC, to the millisecond."""
    global _second
    milliseconds = int(seconds * 1000)
    whole = milliseconds // 1000
    cached, text = _second
    if whole != cached:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        _second = whole, text
    return text + _FRACTIONS[milliseconds % 1000]


class JsonFormatter(logging.Formatter):
    """A message as one JSON object: `time`, `level`, `logger`, `message`, and the `trace` of an
    exception."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return escape(_encoder.encode(line)).decode()


class TextFormatter(logging.Formatter):
    """A message as a line to read, in colours if they are wanted."""

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end, and below it the trace of an exception."""
        level = record.levelname.lower()
        message = printable(record.getMessage())
        line = _headed(timestamp(record.created), level, self._colours) + message
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info).splitlines()
        return "\n  ".join([line, *map(printable, trace)])


def readable(line: bytes, *, colours: bool = False) -> bytes:
    """The line of a request, which is one JSON object, as text. Values that a space or quote would
    make ambiguous are in quotes, as JSON has them."""
    fields: dict[str, Any] = msgspec.json.decode(line)
    head = _headed(fields["time"], fields["level"], colours)
    rest = " ".join(
        f"{name}={_quoted(printable(str(value)))}"
        for name, value in _flattened(fields)
        if name not in _LEADING and value != ""
    )
    text = f"{head}{printable(fields['route'])} {fields['status']} {fields['ms']:.0f} ms"
    tail = f"{rest} request_id={fields['request_id']}".lstrip()
    return f"{text} {_DIM}{tail}{_PLAIN}".encode() if colours else f"{text} {tail}".encode()


def line_form(form: LogFormat, is_terminal: bool) -> Callable[[bytes], bytes] | None:
    """What makes the line of a request; None if it is as it should be."""
    if not is_text(form, is_terminal):
        return None
    colours = is_coloured(is_terminal)
    return lambda line: readable(line, colours=colours)


def is_coloured(is_terminal: bool) -> bool:
    """Whether text is shown in colours: at a terminal, unless NO_COLOR is set."""
    return is_terminal and not os.environ.get("NO_COLOR")


def is_text(form: LogFormat, is_terminal: bool) -> bool:
    """Whether lines are to be read by people."""
    return form == "text" or (form == "auto" and is_terminal)


def _headed(moment: str, level: str, colours: bool) -> str:
    shown = moment[:-1].replace("T", " ")
    if not colours:
        return f"{shown} {level.upper():<7} "
    return f"{_DIM}{shown}{_PLAIN} {_COLOURS.get(level, '')}{level.upper():<7}{_PLAIN} "


def _flattened(fields: dict[str, Any]) -> Iterable[tuple[str, object]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from value.items()
        elif isinstance(value, list):
            yield (
                name,
                ("; " if any(isinstance(one, dict) for one in value) else ",").join(
                    map(_word, value)
                ),
            )
        else:
            yield name, value


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if _AMBIGUOUS.search(text) else text


def _word(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return " ".join(f"{name}:{_word(one)}" for name, one in value.items())
    return msgspec.json.encode(value).decode()
