"""What passes between a client and an MCP server, and what does not."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import RequestCheck, Secret
from dragoman.mcp import streams
from dragoman.server.testing import running_gateway
from tests.gateway.administration import eventually
from tests.gateway.http import Connection, call, events
from tests.gateway.posts import posts
from tests.mcp.serving import ADA, ADMIN, BOB, EVE, PATH, SERVER_KEY, Desk, answered, config, desk
from tests.mcp.stub import SESSION, TOOLS, Handler, Stub, result, running_stub


def test_a_session_from_its_beginning_to_its_end(tickets: Desk, stub: Stub) -> None:
    session = tickets.begin()
    assert stub.received[-1].json["method"] == "initialize"
    version = {"mcp_protocol_version": "2025-11-25", "mcp_session_id": session}
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert tickets.post(told, **version).status == 202
    sent = stub.received[-1].headers
    assert sent[SESSION] in stub.sessions
    assert sent["mcp-protocol-version"] == "2025-11-25"
    assert answered(tickets.ask("tools/call", {"name": "get_ticket"}, **version))["id"] == 7
    ended = call(
        tickets.url,
        "DELETE",
        PATH,
        None,
        {"authorization": f"Bearer {ADA}", SESSION: session},
        key=None,
    )
    assert ended.status == 200
    gone = tickets.ask("tools/list", **version)
    assert (gone.status, gone.json["id"]) == (404, 7)


def test_the_server_sees_its_own_credential_and_nothing_of_the_client(
    tickets: Desk, stub: Stub
) -> None:
    hidden = {
        "cookie": "a=b",
        "x_api_key": ADA,
        "x_forwarded_for": "192.0.2.1",
        "te": "trailers",
        "x_own": "1",
        "mcp_method": "tools/list",
        "mcp_param_region": "eu",
    }
    assert tickets.ask("tools/list", **hidden).status == 200
    seen = stub.received[-1].headers
    assert seen["authorization"] == f"Bearer {SERVER_KEY}"
    assert (seen["mcp-method"], seen["mcp-param-region"]) == ("tools/list", "eu")
    assert not seen.keys() & {"cookie", "x-api-key", "x-forwarded-for", "te", "x-own"}
    assert seen["user-agent"].startswith("dragoman/")
    assert ADA not in str(seen)


def test_a_session_is_one_client_s(tickets: Desk, stub: Stub) -> None:
    session = tickets.begin()
    before = len(stub.received)
    for given in (session, session.partition(".")[2], "session-0", "x" * 40):
        answer = tickets.ask("tools/list", key=BOB, mcp_session_id=given)
        assert answer.status == 404, given
        assert answer.json["error"]["code"] == -32001
        with tickets.stream(BOB, mcp_session_id=given) as connection:
            assert connection.answer().status == 404
    assert len(stub.received) == before, "the server was not asked"


@pytest.mark.parametrize("streamed", [False, True])
def test_tools_are_listed_as_far_as_the_team_may_use_them(
    tickets: Desk, stub: Stub, streamed: bool
) -> None:
    stub.streams = streamed
    listed = {}
    for key in (ADA, BOB):
        answer = tickets.ask("tools/list", key=key)
        found = answered(answer)["result"]
        assert found["nextCursor"] == "more"
        listed[key] = [one["name"] for one in found["tools"]]
        if streamed:
            assert b"id: 1\n" in answer.body
            assert b"id: 2" in answer.body
    stub.streams = False
    assert listed == {ADA: list(TOOLS), BOB: ["search_tickets"]}


def test_a_tool_that_is_not_allowed_is_refused_by_name(tickets: Desk, stub: Stub) -> None:
    before = len(stub.received)
    refused = tickets.call("delete_ticket", BOB)
    assert refused.status == 200
    assert refused.json["id"] == 7
    assert "delete_ticket" in refused.json["error"]["message"]
    assert len(stub.received) == before
    assert answered(tickets.call("search_tickets", BOB))["result"]
    closed = tickets.ask("tools/list", key="sk-key-of-zoe")
    assert (closed.status, closed.json["error"]["message"]) == (
        403,
        "The MCP server tickets may not be used with this key.",
    )
    assert tickets.ask("ping", key="sk-key-of-max").status == 403, "its paths are others"


def test_headers_name_what_the_message_does(tickets: Desk, stub: Stub) -> None:
    """What is before a server may go by them: they must not name another tool than was checked."""
    call = {"name": "search_tickets"}
    for headers in ({"mcp_name": "delete_ticket"}, {"mcp_method": "tools/list"}):
        before = len(stub.received)
        answer = tickets.ask("tools/call", call, BOB, **headers)
        assert (answer.status, answer.json["id"]) == (400, 7)
        assert len(stub.received) == before
    for name in ("search_tickets", "=?base64?c2VhcmNoX3RpY2tldHM=?="):
        own = {"mcp_method": "tools/call", "mcp_name": name}
        assert answered(tickets.ask("tools/call", call, BOB, **own))["result"]


def test_who_has_no_key_is_refused(tickets: Desk) -> None:
    answer = tickets.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json["jsonrpc"] == "2.0"
    assert call(tickets.url, "GET", "/mcp/other", key=ADA).status == 404
    assert call(tickets.url, "PUT", PATH, b"{}", key=ADA).status == 405


def test_a_body_that_is_no_message_or_too_large(tickets: Desk, stub: Stub) -> None:
    before = len(stub.received)
    answer = tickets.post(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
    assert (answer.status, answer.json["error"]["code"]) == (400, -32600)
    large = {"authorization": f"Bearer {ADA}", "content-length": str(5 << 20)}
    assert call(tickets.url, "POST", PATH, None, large, key=None).status == 413
    assert tickets.post(b"{}", content_type="text/plain").status == 415
    assert len(stub.received) == before


def test_requests_are_counted_at_the_limits_of_the_key(tickets: Desk) -> None:
    for _ in range(2):
        assert tickets.ask("tools/list", key=EVE).status == 200, "lists are free"
        assert tickets.call("get_ticket", EVE).status == 200
    over = tickets.call("get_ticket", EVE)
    assert over.status == 429
    assert over.json["id"] == 7
    assert "requests" in over.json["error"]["message"]
    assert tickets.call("get_ticket", ADA).status == 200


def test_a_stream_is_passed_as_it_comes_and_resumed(tickets: Desk, stub: Stub) -> None:
    session = tickets.begin()
    stub.release.clear()
    stub.left.clear()
    given = {"mcp_session_id": session, "last_event_id": "41"}
    with tickets.stream(ADA, **given) as connection:
        head = connection.head()
        assert head.status == 200
        assert head.headers["content-type"].startswith("text/event-stream")
        seen = b""
        while b"still here" not in seen:
            seen += connection.chunk()
        assert seen.startswith(b"retry: 500\nid: 41-next\n")
    assert stub.received[-1].headers["last-event-id"] == "41"
    assert stub.left.wait(30), "the server's stream is closed when the client leaves"
    with tickets.stream(ADA, last_event_id="41") as connection:
        assert connection.answer().status == 400, "without a session it may be another client's"


def test_a_stream_that_breaks_off_ends_so(tickets: Desk, stub: Stub) -> None:
    def cut(handler: Handler, message: Any) -> None:
        handler.begin_stream()
        handler.chunk(b"id: 1\ndata:\n\n")
        handler.cut()

    stub.answers["cut"] = cut
    with pytest.raises(OSError, match=r"closed|reset"):
        tickets.call("cut")
    line = eventually(lambda: [one for one in tickets.log if one.get("error")][-1:])[0]
    assert (line["failed"][0]["kind"], line["at_fault"]) == ("cut_off", "upstream")
    stub.resumed = lambda handler: cut(handler, None)
    with tickets.stream(ADA) as connection, pytest.raises(OSError, match=r"closed|reset"):
        connection.answer()
    stub.resumed = None


def test_a_tool_is_called_once(tickets: Desk, stub: Stub) -> None:
    """A connection may close just as a call goes out: nobody knows whether it was done."""
    seen: list[Any] = []

    def die(handler: Handler, message: Any) -> None:
        seen.append(message)
        handler.cut()

    stub.answers["die"] = die
    assert tickets.ask("ping").status == 200, "leaves a connection"
    answer = tickets.call("die")
    assert (answer.status, len(seen)) == (502, 1)


def test_a_client_that_does_not_read_holds_the_server_up(tickets: Desk, stub: Stub) -> None:
    sent = [0]
    data = b": " + b"x" * 65536 + b"\n\n"

    def flood(handler: Handler) -> None:
        handler.begin_stream()
        try:
            while sent[0] < 256 << 20:
                handler.chunk(data)
                sent[0] += len(data)
        except OSError:
            stub.left.set()

    stub.left.clear()
    stub.resumed = flood
    with tickets.stream(ADA) as connection:
        assert connection.head().status == 200
        before = -1
        while before != sent[0]:
            before = sent[0]
            time.sleep(0.3)
        assert sent[0] < 64 << 20
    stub.resumed = None
    assert stub.left.wait(30)


def test_an_event_that_does_not_end_takes_memory_of_the_budget(stub: Stub) -> None:
    ended: list[bool] = []

    def endless(handler: Handler) -> None:
        handler.begin_stream()
        try:
            for _ in range(64):
                handler.chunk(b"x" * 65536)
            ended.append(stub.release.wait(10))
        except OSError:
            stub.left.set()

    stub.resumed = endless
    stub.release.clear()
    small = config(stub.url)
    small = replace(small, server=replace(small.server, memory_limit_bytes=1 << 20))
    try:
        with running_gateway(small) as gateway, Connection(gateway.base_url) as connection:
            connection.send("GET", PATH, None, {"authorization": f"Bearer {ADA}"})
            with pytest.raises(OSError, match=r"closed|reset"):
                connection.answer()
            assert not ended
    finally:
        stub.resumed = None
        stub.release.set()


def _status(status: int, body: bytes = b"", **headers: str) -> Any:
    def answer(handler: Handler, message: Any) -> None:
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(body, own, status)

    return answer


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (_status(401, www_authenticate="Bearer x"), 502, "refuses the gateway (401)"),
        (_status(302, location="http://127.0.0.1/"), 502, "leads elsewhere (302)"),
        (_status(503, b"<p>", content_type="text/html"), 502, "has failed (503)"),
        (_status(200, b"<p>", content_type="text/html"), 502, "has answered text/html"),
        (_status(200, result(7, {}), mcp_session_id="a b"), 502, "an id that is none"),
        (_status(418, b"tea", content_type="text/plain"), 418, "has answered 418"),
    ],
)
def test_an_answer_that_is_none_is_an_error_that_says_so(
    tickets: Desk, stub: Stub, answer: Any, status: int, text: str
) -> None:
    stub.answers["odd"] = answer
    found = tickets.call("odd")
    assert found.status == status
    assert (found.json["jsonrpc"], found.json["id"]) == ("2.0", 7)
    assert text in found.json["error"]["message"]
    assert "www-authenticate" not in found.headers


def test_errors_of_the_server_pass_without_its_secrets(tickets: Desk, stub: Stub) -> None:
    error = {"code": -32000, "message": f"no good: Bearer {SERVER_KEY}"}
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "error": error}).encode()
    stub.answers["refused"] = _status(400, body, content_type="application/json")
    found = tickets.call("refused")
    assert (found.status, found.json["error"]["code"]) == (400, -32000)
    assert SERVER_KEY.encode() not in found.body


def test_a_server_that_is_away(tmp_path: Path) -> None:
    with running_stub() as gone:
        pass
    with desk(gone, tmp_path / "s.db") as away:
        answer = away.ask("initialize")
        assert (answer.status, answer.json["id"]) == (502, 7)
        assert "does not answer: connection refused" in answer.json["error"]["message"]
        row = eventually(lambda: _row(away)["errors"] and _row(away))
        assert (row["last_error"], row["last_failed"]) == ("connection_refused", "initialize")


def _row(running: Desk) -> Any:
    return running.admin("mcp")["servers"][0]


def test_calls_are_logged_counted_and_listed(stub: Stub, tmp_path: Path) -> None:
    failed = {"content": [], "isError": True}
    stub.answers["broken"] = lambda handler, message: handler.reply(result(7, failed))
    with desk(stub, tmp_path / "s.db") as running:
        running.call("get_ticket")
        running.call("get_ticket")
        running.call("broken")
        running.call("delete_ticket", BOB)
        running.ask("tools/list")
        row = eventually(lambda: _row(running)["calls"] == 3 and _row(running))
        assert row["errors"] == 1
        assert (row["last_error"], row["last_failed"]) == ("tool_failed", "broken")
        assert row["teams"] == {"interns": ["search_*"], "visitors": []}
        used = running.admin("usage?by=model&account=mcp:tickets")["rows"]
        assert {one["by"]["model"]: one["requests"] for one in used} == {
            "mcp:tickets/get_ticket": 2,
            "mcp:tickets/broken": 1,
        }
        rows = eventually(lambda: (found := running.admin("requests")["rows"])[4:] and found)
        shown = running.admin(f"requests/{rows[-1]['id']}")
        assert shown["tried"][0]["bytes_up"] > 0
        assert shown["tried"][0]["bytes_down"] > 0
        metrics = call(running.url, "GET", "/metrics", key=ADMIN).body.decode()
        assert 'route="/mcp/tickets"' in metrics
        assert "get_ticket" not in metrics, "clients choose the names of tools"
        everything = json.dumps([running.log, rows, shown, used])
        assert "secret words" not in everything
        assert SERVER_KEY not in everything
    by_tool = {line.get("model"): line for line in running.log}
    assert by_tool["mcp:tickets/broken"]["error"] == "tool_failed"
    assert by_tool["mcp:tickets/delete_ticket"]["error"] == "forbidden"


def test_streams_end_when_the_gateway_does(tmp_path: Path) -> None:
    with running_stub() as stub, desk(stub) as running, running.stream(ADA) as connection:
        assert connection.head().status == 200
        running.gateway.stop()
        while connection.chunk():
            pass


def test_a_client_has_so_many_streams_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST", 1)
    with running_stub() as stub, desk(stub) as running:
        with running.stream(ADA) as first:
            assert first.head().status == 200
            with running.stream(ADA) as second:
                assert second.answer().status == 429
            listening = running.ask("subscriptions/listen")
            assert (listening.status, listening.json["id"]) == (429, 7)
            with running.stream(BOB) as other:
                assert other.head().status == 200
        eventually(lambda: running.ask("subscriptions/listen").status == 200)


def test_a_page_of_another_origin_is_refused_without_cors(stub: Stub) -> None:
    with desk(stub) as running:
        mine = running.url.partition("://")[2]
        answer = running.ask("ping", origin="https://elsewhere.example")
        assert (answer.status, "mcp-session-id" in str(answer.headers)) == (200, True)
    settings = running.gateway.app.config
    assert settings.server.cors
    with desk(stub, cors=False) as running:
        assert running.ask("ping", origin="https://elsewhere.example").status == 403
        assert running.ask("ping", host=mine, origin=f"http://{mine}").status == 200


def test_the_key_may_be_in_a_header_of_its_own(stub: Stub) -> None:
    with desk(stub, key=None, headers={"X-Tickets-Key": Secret("in-a-header")}) as running:
        assert running.ask("ping").status == 200
        seen = stub.received[-1].headers
        assert seen["x-tickets-key"] == "in-a-header"
        assert "authorization" not in seen


def test_the_operator_s_check_sees_calls(stub: Stub) -> None:
    with posts() as check:
        made = replace(
            config(stub.url), request_check=RequestCheck(url=Secret(f"{check.url}/check"))
        )
        with running_gateway(made) as gateway:
            running = Desk(gateway, stub)
            check.answer = lambda post: (200, b'{"block": false}')
            assert running.call("get_ticket").status == 200
            assert check.got[-1].json["body"]["params"]["name"] == "get_ticket"
            before = len(stub.received)
            check.answer = lambda post: (200, b'{"block": true, "reason": "Not this one."}')
            answer = running.call("get_ticket")
            assert (answer.status, answer.json["id"]) == (400, None)
            assert "Not this one." in answer.json["error"]["message"]
            assert len(stub.received) == before


def test_what_a_stream_lists_is_filtered_too(stub: Stub) -> None:
    """A list that was cut off comes again on the stream that resumes it."""
    with running_stub() as own, desk(own) as running:
        session = running.begin(BOB)
        listed = [{"name": name} for name in TOOLS]

        def resumed(handler: Handler) -> None:
            handler.begin_stream()
            handler.chunk(b"data: " + result(7, {"tools": listed}) + b"\n\n")
            handler.end_stream()

        own.resumed = resumed
        with running.stream(BOB, mcp_session_id=session, last_event_id="3") as connection:
            found = events(connection.answer().body)
        assert [tool["name"] for tool in found[0][1]["result"]["tools"]] == ["search_tickets"]
