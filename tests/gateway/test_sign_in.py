"""Roles of the administration's keys, and sessions of browsers."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.admin.sessions import MOST, MOST_REFUSED, SessionOwner, Sessions
from dragoman.admin.table import OPERATIONS
from dragoman.config import Admin, Secret, Storage
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.link.messages import Handlers
from dragoman.link.owner import Owner
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.sessions import IDLE_S, LONGEST_S, Session, SessionFile
from tests.gateway.administration import TOKEN, error, eventually
from tests.gateway.conftest import SERVER, config_for
from tests.gateway.http import JSON, Answer, Connection, call
from tests.gateway.sessions import ORIGIN, ask, made, signed_in


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    config = replace(
        config_for(simulator.base_url),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a store key"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
    )
    with running_gateway(config) as running:
        yield running


def test_a_viewer_reads_everything_and_changes_nothing(gateway: RunningGateway) -> None:
    viewer = made(gateway, "eve", "viewer")
    page = signed_in(gateway, viewer)
    written = 0
    for operation, http in ((one, http) for one in OPERATIONS for http in one.http):
        path = "/" + re.sub(r"{\w+}", "1", http.path)
        if path == "/session":
            continue
        if path == "/events":  # without end
            path = "/events?topics=none"
        given: dict[str, object] | None = {} if http.method != "GET" else None
        for headers, key in (({}, viewer), (page, None)):
            answer = ask(gateway, http.method, path, given, headers, key)
            if operation.role == "admin":
                written += 1
                error(answer, 403, "forbidden")
            else:
                assert answer.status not in (401, 403), (path, answer.body)
    assert written > 60
    changes = ask(gateway, "GET", "/audit", key=TOKEN).json["changes"]
    assert {(line["who"], line["action"]) for line in changes} == {
        ("admin", "add"),
        ("eve", "sign_in"),
    }
    addresses = ask(gateway, "GET", "/audit", key=viewer).json["changes"]
    assert {line["address"] for line in addresses} == {""}
    assert ask(gateway, "GET", "/accounts", headers=page).status == 200


def test_the_cookie_alone_is_worth_nothing(gateway: RunningGateway) -> None:
    """Browsers send it to every port of the host, whoever serves there."""
    page = signed_in(gateway, TOKEN)
    cookie = {"cookie": page["cookie"]}
    value = page["cookie"].partition("=")[2]
    made_of_it = sha256(b"csrf:" + value.encode()).hexdigest()
    for token in ({}, {"x-dragoman-csrf": made_of_it}, {"x-dragoman-csrf": value}):
        stolen = {**cookie, **token}
        for path in ("/accounts", "/events?topics=now", "/audit?format=csv", "/config"):
            error(ask(gateway, "GET", path, headers=stolen), 401, "unauthenticated")
        assert ask(gateway, "GET", "/session", headers=stolen).json == {"name": None}
        forged = {**ORIGIN, **stolen}
        error(ask(gateway, "DELETE", "/session", headers=forged), 401, "unauthenticated")
    token = {"x-dragoman-csrf": page["x-dragoman-csrf"]}
    error(ask(gateway, "GET", "/accounts", headers=token), 401, "unauthenticated")
    told = ask(gateway, "GET", "/session", headers=page)
    assert told.json["name"] == "admin"
    assert page["x-dragoman-csrf"].encode() not in told.body


def test_a_sign_in_that_a_browser_would_not_keep_says_so(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Over plain HTTP from another machine: its cookie is for secure connections."""
    config = replace(
        config_for(simulator.base_url, server=replace(SERVER, trusted_proxies=("127.0.0.1",))),
        admin=Admin(key=Secret(TOKEN)),
    )
    elsewhere = {"x-forwarded-for": "192.0.2.1", "host": "gateway.example:8080"}
    with running_gateway(config) as gateway:

        def sign_in(origin: dict[str, str]) -> Answer:
            return ask(gateway, "POST", "/session", {"key": TOKEN}, {**elsewhere, **origin})

        refused = sign_in({"origin": "http://gateway.example:8080"})
        assert "HTTPS" in error(refused, 400, "insecure")["message"]
        assert "set-cookie" not in refused.headers
        for origin in ({"origin": "https://gateway.example:8080"}, {}):
            kept = sign_in(origin)
            assert kept.status == 200
            assert kept.headers["set-cookie"].endswith(
                "; Secure; HttpOnly; SameSite=Strict; Path=/admin"
            )
        forwarded = {"host": "localhost:9000", "origin": "http://localhost:9000"}
        assert sign_in(forwarded).status == 200


@pytest.mark.parametrize("path", ["/metrics", "/ui", "/ui/accounts", "/admin/session", "/admin"])
def test_a_foreign_name_of_this_machine_is_refused(gateway: RunningGateway, path: str) -> None:
    """A page had its own name lead to the loopback address (DNS rebinding)."""

    def status(host: str, headers: dict[str, str] | None = None, key: str | None = None) -> int:
        made = {"host": host, **(headers or {})}
        return call(gateway.base_url, "GET", path, None, made, key=key).status

    for host in ("evil.example", f"evil.example:{gateway.port}", "127.0.0.1.nip.io"):
        assert status(host) == 403
        # Whoever has a key, or came through a proxy, is no such page.
        assert status(host, key=TOKEN) != 403
        assert status(host, {"x-forwarded-for": "192.0.2.1"}) != 403
    for host in ("localhost", f"127.0.0.1:{gateway.port}", "[::1]"):
        assert status(host) != 403
    signing = {"host": "evil.example", "origin": "http://evil.example"}
    assert ask(gateway, "POST", "/session", {"key": TOKEN}, signing).status == 403


def test_only_a_page_of_this_address_writes_with_a_cookie(gateway: RunningGateway) -> None:
    page = signed_in(gateway, made(gateway, "ann", "admin"))
    new = {"name": "bob", "role": "viewer"}
    for changed, kind in (
        ({"x-dragoman-csrf": ""}, "unauthenticated"),
        ({"x-dragoman-csrf": "0" * 64}, "unauthenticated"),
        ({"origin": "http://evil.example"}, "forged"),
        ({"origin": "null"}, "forged"),
        ({"origin": "http://localhost:81"}, "forged"),
        ({"content-type": "text/plain"}, "unsupported_media_type"),
    ):
        answer = ask(gateway, "POST", "/admins", new, {**page, **changed})
        status = {"forged": 403, "unauthenticated": 401, "unsupported_media_type": 415}[kind]
        error(answer, status, kind)
    bare = {name: value for name, value in page.items() if name != "origin"}
    assert ask(gateway, "POST", "/admins", new, bare).status == 403
    assert (
        ask(gateway, "POST", "/admins", new, {**bare, "sec-fetch-site": "cross-site"}).status == 403
    )
    fetched = {**bare, "sec-fetch-site": "same-origin"}
    assert ask(gateway, "POST", "/admins", new, fetched).status == 201
    line = ask(gateway, "GET", "/audit?limit=1", headers=page).json["changes"][0]
    assert (line["who"], line["action"], line["name"]) == ("ann", "add", "bob")
    # Through a proxy that puts its own Host in place of the page's.
    passed = {**page, "origin": "https://llm.example", "sec-fetch-site": "same-origin"}
    assert ask(gateway, "POST", "/admins", {**new, "name": "eve"}, passed).status == 201
    # It opens nothing else.
    chat = {"model": "chat/sim-text", "messages": []}
    plain = json.dumps(chat).encode()
    assert (
        call(gateway.base_url, "POST", "/v1/chat/completions", plain, page, key=None).status == 401
    )


def test_a_session_ends_with_its_key(gateway: RunningGateway) -> None:
    secret = made(gateway, "ann", "admin")

    def is_in(page: dict[str, str]) -> bool:
        return bool(ask(gateway, "GET", "/session", headers=page).json["name"])

    left, other = signed_in(gateway, secret), signed_in(gateway, secret)
    told = ask(gateway, "GET", "/session", headers=left).json
    assert (told["name"], told["role"]) == ("ann", "admin")
    assert LONGEST_S - 10 < told["expires_at"] - time.time() <= LONGEST_S
    assert ask(gateway, "DELETE", "/session", headers=left).status == 200
    assert (is_in(left), is_in(other)) == (False, True)
    ask(gateway, "PATCH", "/admins/ann", {"role": "viewer"}, key=TOKEN)
    assert ask(gateway, "POST", "/reload", headers=other).status == 403
    ask(gateway, "POST", "/admins/ann/disable", key=TOKEN)
    assert not is_in(other)
    assert ask(gateway, "GET", "/health", key=secret).status == 401
    ask(gateway, "POST", "/admins/ann/enable", key=TOKEN)
    assert ask(gateway, "GET", "/health", key=secret).status == 200
    rotated = signed_in(gateway, secret)
    ask(gateway, "POST", "/admins/ann/rotate", key=TOKEN)
    assert not is_in(rotated)
    # The key of the configuration file: one that is another ends what began with the former.
    of_file = signed_in(gateway, TOKEN)
    assert is_in(of_file)
    app = gateway.app
    changed = replace(app.config, admin=Admin(key=Secret("another key of the file")))
    app._client.clock.loop.call_soon_threadsafe(app.adopt, app.prepare(changed, 2))
    eventually(lambda: not is_in(of_file))


def test_wrong_keys_are_few_and_lock_nobody_out(gateway: RunningGateway) -> None:
    for _ in range(MOST_REFUSED):
        error(ask(gateway, "POST", "/session", {"key": "wrong"}), 401, "unauthenticated")
    answer = ask(gateway, "POST", "/session", {"key": "wrong"})
    error(answer, 429, "rate_limited")
    assert 0 < int(answer.headers["retry-after"]) <= 60
    # Who has a key is not shut out by others at the same address, however it is used.
    assert ask(gateway, "GET", "/health", key=TOKEN).status == 200
    assert ask(gateway, "POST", "/session", {"key": TOKEN}).status == 200


def test_sign_ins_at_one_moment_are_counted_one_by_one(gateway: RunningGateway) -> None:
    wrong = json.dumps({"key": "wrong"}).encode()
    with ExitStack() as stack:
        waiting = [stack.enter_context(Connection(gateway.base_url)) for _ in range(100)]
        for one in waiting:
            length = {"content-length": str(len(wrong))}
            one.send("POST", "/admin/session", wrong[:-1], {**JSON, **length})
        for one in waiting:
            one.sock.sendall(wrong[-1:])
        statuses = Counter(one.answer().status for one in waiting)
    assert statuses == {401: MOST_REFUSED, 429: 100 - MOST_REFUSED}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"x":[%b{}]}' % (b"{}," * 2000), JSON, 413),
        (b"\x1f\x8b", {**JSON, "content-encoding": "gzip"}, 415),
        (b'{"key":"wrong"}', {**JSON, "content-encoding": "identity"}, 415),
        (b'{"key":"wrong"}', {"content-type": "text/plain"}, 415),
        (b'{"key":"wrong"}', {**JSON, "origin": "http://evil.example"}, 403),
        (b'{"key":"\\ud800","x":[]}', JSON, 400),
        (b"{", JSON, 400),
        (b'{"key":1}', JSON, 400),
    ],
    ids=["large", "gzip", "identity", "form", "page", "half", "malformed", "number"],
)
def test_every_refused_sign_in_is_counted(
    gateway: RunningGateway, body: bytes, headers: dict[str, str], status: int
) -> None:
    """And none is looked into beyond 4 KB, or unpacked, before it is determined who asks."""
    statuses = [
        call(gateway.base_url, "POST", "/admin/session", body, headers, key=None).status
        for _ in range(MOST_REFUSED + 1)
    ]
    assert statuses == [status] * MOST_REFUSED + [429]


def test_sessions_of_one_key_end_none_of_another(gateway: RunningGateway) -> None:
    admin, viewer = signed_in(gateway, TOKEN), made(gateway, "eve", "viewer")
    first, *_, last = [signed_in(gateway, viewer) for _ in range(70)]
    assert ask(gateway, "GET", "/session", headers=admin).json["name"] == "admin"
    assert ask(gateway, "GET", "/session", headers=last).json["name"] == "eve"
    assert ask(gateway, "GET", "/session", headers=first).json["name"] is None


def test_what_changed_meanwhile_is_not_overwritten(gateway: RunningGateway) -> None:
    made(gateway, "ann", "viewer")
    tag = ask(gateway, "GET", "/admins/ann", key=TOKEN).headers["etag"]
    assert (
        ask(gateway, "PATCH", "/admins/ann", {"note": "1"}, {"if-match": tag}, TOKEN).status == 200
    )
    late = ask(gateway, "PATCH", "/admins/ann", {"note": "2"}, {"if-match": tag}, TOKEN)
    error(late, 412, "changed", "if-match")
    listed = ask(gateway, "GET", "/admins", key=TOKEN)
    again = {"if-none-match": listed.headers["etag"]}
    assert ask(gateway, "GET", "/admins", headers=again, key=TOKEN).status == 304
    made(gateway, "bob", "viewer")
    assert ask(gateway, "GET", "/admins", headers=again, key=TOKEN).status == 200


class Book:
    """The sessions of a gateway at a time of its own, asked for by a worker."""

    def __init__(self, path: Path | None, now: float) -> None:
        self.now = now
        owner = Owner()
        file = None if path is None else SessionFile(str(path))
        self.owner = SessionOwner(owner.handlers, file, lambda: self.now)
        self.worker = Sessions(owner.join(Handlers()))

    async def begin(self, letter: bytes, name: str) -> None:
        await self.worker.begin(letter * 32, name, b"m" * 32)

    async def find(self, letter: bytes, now: float) -> Session | None:
        self.now = now
        return await self.worker.find(letter * 32)


async def test_sessions_end_by_time() -> None:
    begun = 1_000_000.0
    book = Book(None, begun)
    await book.begin(b"a", "ann")
    found = await book.find(b"a", begun + IDLE_S - 1)
    assert found is not None
    assert (found.name, found.mark, found.began) == ("ann", b"m" * 32, begun)
    assert await book.find(b"a", begun + 2 * IDLE_S - 2)
    assert not await book.find(b"a", begun + 3 * IDLE_S - 1)
    book = Book(None, begun)
    await book.begin(b"a", "ann")
    for step in range(1, 24):
        assert await book.find(b"a", begun + step * IDLE_S * 0.99)
    assert not await book.find(b"a", begun + LONGEST_S)
    book.now = begun
    for number in range(MOST + 1):
        book.now = begun + number
        await book.begin(bytes([number]), "bob")
    assert not await book.find(bytes([0]), book.now)
    assert await book.find(bytes([1]), book.now)
    book.worker.end(bytes([1]) * 32)
    assert not await book.find(bytes([1]), book.now)


async def test_sessions_outlive_the_gateway_and_are_those_of_another_that_takes_over(
    tmp_path: Path,
) -> None:
    begun = 1_000_000.0
    one, other = Book(tmp_path / "s", begun), Book(tmp_path / "s", begun)
    await one.begin(b"a", "ann")
    await other.begin(b"b", "bob")
    assert await one.find(b"b", begun + 1)
    assert await other.find(b"a", begun + 1)
    one.worker.end(b"b" * 32)
    assert not await other.find(b"b", begun + 1)
    assert await other.find(b"a", begun + IDLE_S - 1)
    other.owner.close()
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    assert await Book(tmp_path / "s", begun).find(b"a", begun + 2 * IDLE_S - 2)
    (tmp_path / "s").write_bytes(b"dragoman sessions 1")  # as of a former version
    later = Book(tmp_path / "s", begun)
    assert not await later.find(b"a", begun)
    await later.begin(b"c", "cid")
    assert await Book(tmp_path / "s", begun).find(b"c", begun)


async def test_refused_sign_ins_of_an_address_are_counted() -> None:
    begun = 1_000_000.0
    book = Book(None, begun)
    for second in range(MOST_REFUSED):
        book.now = begun + second
        assert not await book.worker.count_refusal("1.2.3.4")
    book.now = begun + 5
    assert await book.worker.count_refusal("1.2.3.4") == 55
    assert not await book.worker.count_refusal("1.2.3.5")
    book.now = begun + 60
    assert not await book.worker.count_refusal("1.2.3.4")


def test_large_answers_are_packed_for_who_can_read_it(gateway: RunningGateway) -> None:
    rows = "".join(f"many-{number},chat,sk-sim-{number:08}\n" for number in range(300))
    listed = f"name,upstream,key\n{rows}".encode()
    csv = {"content-type": "text/csv"}
    imported = call(gateway.base_url, "POST", "/admin/accounts/import", listed, csv, key=TOKEN)
    assert imported.status == 200
    path = "/accounts?limit=1000&usage=false"
    plain = ask(gateway, "GET", path, key=TOKEN)
    packed = ask(gateway, "GET", path, headers={"accept-encoding": "br, gzip"}, key=TOKEN)
    assert "content-encoding" not in plain.headers
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == (
        "gzip",
        "accept-encoding",
    )
    assert len(packed.body) < len(plain.body) / 5
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["etag"] == plain.headers["etag"]
    again = {"accept-encoding": "gzip", "if-none-match": packed.headers["etag"]}
    assert ask(gateway, "GET", path, headers=again, key=TOKEN).status == 304
