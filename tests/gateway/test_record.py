"""The line in the log and the header that names losses."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from dragoman.canonical.losses import Loss, LossKind
from dragoman.canonical.usage import Usage
from dragoman.config import LogFormat
from dragoman.edge.log_format import (
    JsonFormatter,
    TextFormatter,
    is_text,
    readable,
    timestamp,
)
from dragoman.edge.record import FailedAttempt, Record, losses_header


def test_the_header_lists_paths_and_counts() -> None:
    losses = [
        Loss("messages[0].name", LossKind.KNOB, "gone"),
        Loss("top_k", LossKind.CONVERTED, "changed"),
    ]
    [(name, value)] = losses_header(losses)
    assert name == b"x-dragoman-losses"
    assert value == b"messages[0].name:knob, top_k:converted; total=2"
    assert losses_header([]) == []


def test_the_header_is_bounded_and_cannot_be_broken_out_of() -> None:
    losses = [Loss(f"field_{n}\r\nset-cookie: a, b; ü", LossKind.KNOB, "") for n in range(200)]
    [(_, value)] = losses_header(losses)
    assert len(value) <= 1024
    assert value.endswith(b"; total=200")
    assert b"\r" not in value
    assert b"\n" not in value
    assert value.count(b";") == 1
    assert value.split(b", ")[0] == b"field_0??set-cookie:?a??b???:knob"


NOW = 1796083200.25

_PASSED = FailedAttempt("up", "a", "m", "forbidden", 403, 0.0, 1.0)
_FLAGGED = FailedAttempt(
    "up", "a", "m", "forbidden", 403, 0.0, 1.0, verdict="return_to_client", row=11, table="default"
)


@pytest.mark.parametrize(
    ("record", "at_fault"),
    [
        (Record(), ""),
        (Record(error="invalid_request", upstream="up", attempts=1), "caller"),
        (Record(error="client_gone", upstream="up", attempts=1), "caller"),
        (Record(error="unauthenticated"), "caller"),
        (Record(error="forbidden"), "caller"),
        (Record(error="rate_limited", limit="me:requests:minute", upstream="up"), "caller"),
        (Record(error="forbidden", upstream="up"), "gateway"),
        (Record(error="forbidden", upstream="up", attempts=1, failed=(_PASSED,)), "gateway"),
        (Record(error="forbidden", upstream="up", attempts=1, failed=(_FLAGGED,)), "caller"),
        (Record(error="payment_required", upstream="up", attempts=2), "gateway"),
        (Record(error="no_account", upstream="up", attempts=2), "gateway"),
        (Record(error="internal", upstream="up", attempts=1), "gateway"),
        (Record(error="overloaded"), "gateway"),
        (Record(error="overloaded", upstream="up", attempts=1), "upstream"),
        (Record(error="upstream_failed", upstream="up", attempts=1), "upstream"),
    ],
)
def test_an_error_is_of_its_caller_the_gateway_or_the_upstream(
    record: Record, at_fault: str
) -> None:
    assert record.at_fault == at_fault
    line = json.loads(record.line("r", "/v1/messages", 403 if record.error else 200, NOW, 0.1))
    assert line.get("at_fault", "") == at_fault
    assert line["level"] == ("error" if at_fault in ("gateway", "upstream") else "info")


def test_the_line_is_one_line_to_every_reader() -> None:
    record = Record()
    record.model = "a\nb\u2028c\u2029d\u0085e"
    text = record.line("req_1", "GET /v1/models/x\ny", 200, NOW, 0.1).decode()
    assert text.splitlines() == [text]
    assert json.loads(text)["model"] == record.model


def test_the_line_of_a_request() -> None:
    record = Record()
    record.caller, record.model, record.upstream = "me", "m" * 500, "u"
    record.usage = Usage(input=5, output=2, cached=1)
    record.losses = [Loss("top_k", LossKind.KNOB, "a value is never here")]
    text = record.line("req_1", "POST /v1/messages", 200, NOW, 0.1)
    line = json.loads(text)
    assert line["request_id"] == "req_1"
    assert line["client"] == "me"
    assert line["usage"]["cached"] == 1
    assert line["losses"] == ["top_k:knob"]
    assert len(line["model"]) == 200
    assert b"a value" not in text


def test_a_line_has_its_time_and_level() -> None:
    lines = [
        json.loads(Record().line("r", "GET /x", status, NOW, 0.1)) for status in (200, 404, 502)
    ]
    assert [line["level"] for line in lines] == ["info", "info", "error"]
    assert [line["time"] for line in lines] == ["2026-12-01T00:00:00.250Z"] * 3


@pytest.mark.parametrize("seconds", [0.0, 1.9996, 59.001, 1795364829.342, 1795364829.9999])
def test_times_are_those_of_the_calendar(seconds: float) -> None:
    moment = datetime.fromtimestamp(int(seconds * 1000) / 1000, UTC)
    assert datetime.fromisoformat(timestamp(seconds)) == moment


def test_the_line_of_a_request_for_people() -> None:
    record = Record()
    record.caller, record.model, record.upstream = "me", "m-1", "u"
    record.usage = Usage(input=5, output=2, cached=1)
    record.losses = [Loss("top_k", LossKind.KNOB, ""), Loss("seed", LossKind.KNOB, "")]
    record.error = "rate_limited"
    record.failed = (FailedAttempt("u", "a", "m", "overloaded", 529, 1.0, 2.0),)
    line = record.line("req_1", "POST /v1/messages", 503, NOW, 0.1)
    text = readable(line).decode()
    assert re.match(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ERROR   POST /v1/messages 503 \d+ ms ", text
    )
    for part in ("client=me", "model=m-1", "input=5", "cached=1", "losses=top_k:knob,seed:knob"):
        assert f" {part} " in text
    assert ' failed="upstream:u account:a model:m kind:overloaded status:529 ' in text
    assert text.endswith(" request_id=req_1")
    coloured = readable(line, colours=True).decode()
    assert re.sub(r"\x1b\[\d+m", "", coloured) == text
    assert coloured != text


def test_what_a_client_chose_cannot_speak_to_a_terminal() -> None:
    record = Record()
    record.model = "a\nb\x1b[2J"
    text = readable(record.line("req_1", "GET /x\x1b]0;", 200, NOW, 0.1)).decode()
    assert text.isprintable()
    assert " model=a?b?[2J " in text
    record.model = 'm client=admin "x'
    text = readable(record.line("req_1", "GET /x", 200, NOW, 0.1)).decode()
    assert r' model="m client=admin \"x" ' in text
    record.model = 'C:\\m"'
    text = readable(record.line("req_1", "GET /x", 200, NOW, 0.1)).decode()
    assert r' model="C:\\m\"" ' in text
    try:
        raise ValueError("one\x1b]0;two")
    except ValueError:
        made = logging.makeLogRecord({"levelname": "ERROR", "msg": "it broke"})
        made.exc_info = sys.exc_info()
    lines = TextFormatter().format(made).splitlines()
    assert all(line.isprintable() for line in lines)
    assert lines[-1].endswith("ValueError: one?]0;two")


def test_messages_of_the_gateway_have_the_form_of_requests() -> None:
    made = logging.makeLogRecord(
        {"name": "dragoman.accounts", "levelname": "WARNING", "msg": "%s\u2028out", "args": ("a",)}
    )
    line = JsonFormatter().format(made)
    assert line.splitlines() == [line]
    found = json.loads(line)
    assert (found["level"], found["logger"]) == ("warning", "dragoman.accounts")
    assert found["message"] == "a\u2028out"
    assert datetime.fromisoformat(found["time"]).tzinfo is not None
    assert TextFormatter().format(made).endswith("WARNING a?out")
    try:
        raise ValueError("broken")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: broken" in json.loads(JsonFormatter().format(made))["trace"]
    assert "ValueError: broken" in TextFormatter().format(made)


@pytest.mark.parametrize(
    ("form", "terminal", "text"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("json", True, False),
        ("text", False, True),
    ],
)
def test_people_are_at_terminals(form: LogFormat, terminal: bool, text: bool) -> None:
    assert is_text(form, terminal) is text


def test_what_libraries_warn_of_has_the_form_of_the_log() -> None:
    program = (
        "import logging; from dragoman.server.service import configure_log;"
        "configure_log('info', 'json'); logging.getLogger('asyncio').info('not told');"
        "logging.getLogger('asyncio').error('in two\\nlines');"
        "logging.getLogger('dragoman').info('x')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(one["logger"], one["message"]) for one in told] == [
        ("asyncio", "in two\nlines"),
        ("dragoman", "x"),
    ]
