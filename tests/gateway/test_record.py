"""The line in the log and the header that names losses."""

from __future__ import annotations

import json

from dragoman.canonical.losses import Loss, LossKind
from dragoman.canonical.usage import Usage
from dragoman.gateway.edge.record import Record, losses_header


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


def test_the_line_is_one_line_to_every_reader() -> None:
    record = Record()
    record.model = "a\nb\u2028c\u2029d\u0085e"
    text = record.line("req_1", "GET /v1/models/x\ny", 200).decode()
    assert text.splitlines() == [text]
    assert json.loads(text)["model"] == record.model


def test_the_line_of_a_request() -> None:
    record = Record()
    record.caller, record.model, record.upstream = "me", "m" * 500, "u"
    record.usage = Usage(input=5, output=2, cached=1)
    record.losses = [Loss("top_k", LossKind.KNOB, "a value is never here")]
    text = record.line("req_1", "POST /v1/messages", 200)
    line = json.loads(text)
    assert line["request_id"] == "req_1"
    assert line["client"] == "me"
    assert line["usage"]["cached"] == 1
    assert line["losses"] == ["top_k:knob"]
    assert len(line["model"]) == 200
    assert b"a value" not in text
