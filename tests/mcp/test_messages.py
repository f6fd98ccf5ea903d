"""What is read of messages, streams and ids of sessions."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Secret
from dragoman.config.mcp import McpServer
from dragoman.mcp.events import EventSplitter, EventTooLarge, data_of, with_data
from dragoman.mcp.messages import BadMessage, read_answer, read_message, with_allowed_tools
from dragoman.mcp.session_ids import SessionIds, session_ids_of


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"id":null,"method":"ping"}', -32600),
        (b'{"id":{},"method":"ping"}', -32600),
        (b'{"id":1,"method":5}', -32600),
        (b'{"id":1,"method":"ping","Method":"tools/call"}', -32600),
        (b'{"id":1,"method":"tools/call"}', -32602),
        (b'{"id":1,"method":"tools/call","params":{"name":1}}', -32602),
        (b'{"id":1,"method":"tools/call","params":{"name":"a","NAME":"b"}}', -32600),
        (b'{"id":1,"method":"tools/call","param\xc5\xbf":{}}', -32600),
        (b'{"id":1,"method":"ping","params":' + b"[" * 5000 + b"]" * 5000 + b"}", -32700),
    ],
)
def test_what_is_no_message_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(BadMessage) as caught:
        read_message(body)
    assert caught.value.code == code


def test_the_server_reads_what_was_checked() -> None:
    """Of a member that is there twice, some read the first and some the last."""
    twice = b'{"method":"ping","id":1,"params":{"name":"bad","name":"good"},"method":"tools/call"}'
    message = read_message(twice)
    assert (message.method, message.tool) == ("tools/call", "good")
    assert message.body.count(b"name") == 1
    assert message.body.count(b"method") == 1
    arguments = b'{"n": 1.0e40, "s":"\\u00e4"}'
    body = b'{"id":1,"method":"tools/call","params":{"name":"t","arguments":%b}}' % arguments
    assert arguments in read_message(body).body


def test_answers_are_told_from_other_messages() -> None:
    assert read_answer(b'{"id":1,"method":"sampling/createMessage"}') is None
    good = read_answer(b'{"id":1,"result":{"content":[]}}')
    assert good is not None
    assert good.is_good
    failed = read_answer(b'{"id":1,"result":{"isError": true}}')
    assert failed is not None
    assert (failed.is_good, failed.code) == (False, 0)
    refused = read_answer(b'{"id":1,"error":{"code":-32602,"message":""}}')
    assert refused is not None
    assert (refused.is_good, refused.code) == (False, -32602)


def test_a_list_has_the_allowed_tools_as_they_came() -> None:
    listed = (
        b'{"id":1,"result":{"tools":[{"name":"a","x":1e2},{"name":"b"},{"no":1}],"nextCursor":"n"}}'
    )
    shown = with_allowed_tools(listed, lambda name: name == "a")
    assert json.loads(shown)["result"] == {"tools": [{"name": "a", "x": 100}], "nextCursor": "n"}
    assert b"1e2" in shown
    other = b'{"id":1,"result":{"tools":"none"}}'
    assert with_allowed_tools(other, lambda name: False) is other


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_pass_whole_however_they_are_cut(end: bytes) -> None:
    lines = [b"id: 1", b"data:", b"", b"event: message", b"data: {", b"data: }", b"id: 2", b""]
    stream = end.join([*lines, b": over", b"", b"data: cut off"])
    for size in (1, 2, 3, len(stream)):
        splitter = EventSplitter(1000)
        found = [
            event
            for start in range(0, len(stream), size)
            for event in splitter.feed(stream[start : start + size])
        ]
        assert b"".join(found).strip() == stream.removesuffix(b"data: cut off").strip()
        assert [data_of(event) for event in found if event.strip()] == [b"", b"{\n}", b""]
    assert with_data(found[1], b"[1,\n2]") == b"event: message\nid: 2\ndata: [1,\ndata: 2]\n\n"


def test_an_event_without_end_is_bounded() -> None:
    splitter = EventSplitter(10)
    assert splitter.feed(b"data: 12\n\n")
    with pytest.raises(EventTooLarge):
        splitter.feed(b"data: 123456")


def test_an_id_is_worth_nothing_to_others() -> None:
    ids = SessionIds(b"a key")
    bound = ids.bind("tickets", "ada", "s-1")
    assert bound is not None
    assert ids.open("tickets", "ada", bound) == "s-1"
    assert ids.open("tickets", "bob", bound) is None
    assert ids.open("wiki", "ada", bound) is None
    assert SessionIds(b"another").open("tickets", "ada", bound) is None
    for odd in ("", ".", "s-1", f"{'0' * 32}.s-1", "ä.s-1"):
        assert ids.open("tickets", "ada", odd) is None
    assert ids.bind("tickets", "ada", "with blank") is None
    assert ids.bind("tickets", "ada", "") is None


def test_no_client_can_make_an_id_of_a_session() -> None:
    """Also where a configuration has no secret but a header of the server."""
    server = McpServer(name="one", url="http://127.0.0.1/", headers={"x-key": Secret("of-server")})
    ids = session_ids_of(replace(Config(), mcp_servers=(server,)))
    for key in (b"", b"placeholder"):
        made = SessionIds(key).bind("one", "ada", "1")
        assert made is not None
        assert ids.open("one", "ada", made) is None
