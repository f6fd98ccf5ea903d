"""Which accounts are asked when one fails to make or to change something that is an account's."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Route, Storage
from dragoman.endpoints.table import ROWS, Row
from dragoman.server.testing import RunningGateway
from tests.endpoints.bound import batch_lines
from tests.endpoints.serving import config, serving, upstream
from tests.endpoints.takers import FORM, Behaviour, Taken, Taker, form, part, taking
from tests.gateway.http import Answer, call

FILE = part("file", b"x", "a.txt")
USER_DATA, ANTHROPIC = part("purpose", b"user_data"), {"anthropic-version": "2023-06-01"}
UPLOAD = {"x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start"}
PIECE = {"x-goog-upload-command": "upload", "x-goog-upload-offset": "0"}
MESSAGE = {"model": "claude-x", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
GENERATED = {"request": {"contents": [{"parts": [{"text": "Hi"}]}]}}
BELOW = {"conversations": "items", "vector_stores": "files", "containers": "files"}

BODIES: Mapping[str, Mapping[str, Any]] = {
    "upload": {"bytes": 1, "filename": "a", "purpose": "user_data", "mime_type": "text/plain"},
    "message_batch": {"requests": [{"custom_id": "a", "params": MESSAGE}]},
    "google_cache": {"model": "models/gemini-x", "contents": []},
    "google_batch": {"batch": {"inputConfig": {"requests": {"requests": [GENERATED]}}}},
}
"""The bodies of what is made; all others are empty objects."""

ROUTES = (
    Route(match="claude-*", upstream="anthropic", model="sim-model"),
    Route(match="gemini-*", upstream="google", model="sim-model"),
)
FIRST, SECOND = "127.0.0.2", "127.0.0.1"
"""Where the service is for each of two accounts, the first of which is the one that fails."""
_NUMBERS = count()


def say(taken: Taken, status: int, body: bytes, headers: str = "", missing: int = 0) -> None:
    """Takes all, and answers on a connection that ends with the answer, or before its last
    bytes."""
    taken.take()
    size = len(body) + missing
    head = f"HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {size}\r\n{headers}"
    taken.sock.sendall(f"{head}\r\n".encode() + body)
    taken.whole = False


def new(taken: Taken) -> None:
    """Makes something."""
    number = f"n{next(_NUMBERS)}"
    kind = "cachedContents" if "cachedContents" in taken.target else "batches"
    about: dict[str, Any] = {"id": number, "name": f"{kind}/{number}"}
    headers = ""
    if taken.target.startswith("/upload/"):
        about = {"file": {"name": f"files/{number}"}}
        headers = f"x-goog-upload-url: http://x/?upload_id={number}\r\n"
    say(taken, 200, json.dumps(about).encode(), headers)


def failing(status: int, headers: str = "") -> Behaviour:
    return lambda taken: say(taken, status, b'{"error":{"message":"no"}}', headers)


def silent(taken: Taken) -> None:
    taken.take()
    taken.whole = False


def half(taken: Taken) -> None:
    say(taken, 200, b'{"id":', missing=10)


Case = tuple[Row, Mapping[str, str]]
CASES: list[Case] = [
    (row, headers)
    for row in ROWS
    if row.way == "bound" and row.method != "GET"
    for headers in (({}, ANTHROPIC) if row.face == "by_header" else ({},))
]
"""What makes or changes something, and the headers that distinguish two forms of it."""
KINDS = {
    "files": "file",
    "uploads": "upload",
    "batches": "batch",
    "caches": "cache",
    "conversations": "conversation",
    "vector_stores": "vector_store",
    "containers": "container",
}


def kind_of(case: Case) -> str:
    """The kind of what a request makes or changes."""
    row, headers = case
    prefix = {"google": "google_", "anthropic": "message_"}.get(row.face, "")
    return prefix + KINDS[row.capability] + ("_" if headers else "")


def is_repeated(case: Case) -> bool:
    """Whether another account may do it. A batch is made of a file that one account has."""
    return bool(case[0].new) and case[0].new != "batch"


def ask(gateway: RunningGateway, case: Case, made: Mapping[str, str]) -> Answer:
    """Make or change something, of the things that the client has."""
    row, headers = case
    kind = kind_of(case)
    path = row.path.replace("{id}", made.get(kind, "").rpartition("/")[2])
    path = path.replace("{model}", "gemini-x").replace("{below}", BELOW.get(row.capability, ""))
    body: bytes | dict[str, Any] | None = dict(BODIES.get(row.new, {}))
    if row.method == "DELETE":
        body = None
    elif row.new == "batch":
        body = {"input_file_id": made["lines"], "endpoint": "/v1/chat/completions"}
    elif row.body == "multipart" and row.capability != "containers":
        body = form(USER_DATA, FILE) if row.new else form(part("data", b"x", "a"))
        headers = {**headers, **FORM}
    elif row.body == "raw":
        headers = {**headers, **(UPLOAD if row.new else PIECE)}
    return call(gateway.base_url, row.method, path, body, {**headers})


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningGateway, Taker, Mapping[str, str]]]:
    """A gateway, the service of its second account, and what its client has by the first."""
    store = tmp_path_factory.mktemp("store") / "store.db"
    with taking() as second:
        url = second.url.replace(SECOND, "{resource}")
        services = [
            upstream("openai", url),
            upstream("anthropic", url, "anthropic_messages"),
            upstream("google", url, "google_generate_content"),
        ]
        found = config(*services, keys=("sk-one", "sk-two"), routes=ROUTES)
        accounts = tuple(
            replace(one, resource=SECOND if one.name.endswith("1") else FIRST, priority=number % 2)
            for number, one in enumerate(found.accounts)
        )
        found = replace(found, accounts=accounts, storage=Storage(path=str(store)))
        with serving(found) as (gateway, _):
            made: dict[str, str] = {}
            with taking((FIRST, second.port)) as first:
                first.usual = new
                lines = form(part("purpose", b"batch"), part("file", batch_lines("my-model"), "a"))
                answer = call(gateway.base_url, "POST", "/v1/files", lines, FORM)
                made["lines"] = answer.json["id"]
                for case in CASES:
                    if case[0].new:
                        answer = ask(gateway, case, made)
                        assert answer.status == 200, (case[0].path, answer.body)
                        shown = answer.json.get("file", answer.json)
                        is_google = case[0].face == "google"
                        made[kind_of(case)] = shown["name" if is_google else "id"]
            yield gateway, second, made


def blameless(gateway: RunningGateway) -> None:
    """Forget what was held against accounts, and what the second one has made: the first is asked
    first again."""
    found = gateway.app.config
    for account in found.accounts:
        gateway.app.pool.enable(account.name)
    with closing(sqlite3.connect(str(found.storage.path))) as store, store:
        store.execute("DELETE FROM kept_elsewhere WHERE account LIKE '%-1'")
        # What is settled already is deleted without being looked at before.
        store.execute("UPDATE kept_elsewhere SET due = NULL")


@pytest.mark.parametrize(
    ("fault", "is_begun"),
    [
        pytest.param(None, False, id="refused connection"),
        pytest.param(failing(401), False, id="401"),
        pytest.param(failing(403), False, id="403"),
        pytest.param(failing(429), False, id="429"),
        pytest.param(failing(503, "retry-after: 1\r\n"), False, id="503 with Retry-After"),
        pytest.param(failing(503), True, id="503"),
        pytest.param(failing(500), True, id="500"),
        pytest.param(silent, True, id="break before the head"),
        pytest.param(half, True, id="break after the head"),
    ],
)
def test_what_is_new_is_made_by_another_account_if_it_was_not_begun_and_nothing_is_changed_by_one(
    served: tuple[RunningGateway, Taker, Mapping[str, str]],
    fault: Behaviour | None,
    is_begun: bool,
) -> None:
    gateway, second, made = served
    second.usual = new
    found: dict[str, tuple[bool, int, int]] = {}
    expected: dict[str, tuple[bool, int, int]] = {}
    with ExitStack() as stack:
        first = None
        if fault is not None:
            first = stack.enter_context(taking((FIRST, second.port)))
            first.usual = fault
        for case in CASES:
            blameless(gateway)
            for one in (first, second):
                if one is not None:
                    one.calls.clear()
            answer = ask(gateway, case, made)
            name = f"{case[0].method} {case[0].path} {kind_of(case)}"
            begun = 0 if first is None else len(first.calls)
            found[name] = answer.status == 200, begun, len(second.calls)
            is_made = is_repeated(case) and not is_begun
            expected[name] = is_made, int(first is not None), int(is_made)
            if not is_made and fault in (silent, half):
                assert b"may have been carried out" in answer.body, name
    assert found == expected
