"""Forms that are passed on while they come, as bare sockets see it."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.config import Admin, Config, Secret, Storage, Timeouts
from dragoman.config.credentials import AwsCredentials
from dragoman.config.limits import Limit
from dragoman.config.settings import RequestLogSettings
from dragoman.endpoints.multipart import MOST_PARTS
from dragoman.endpoints.uploads import HELD_BYTES
from dragoman.lab.simulator.authority import KEY_ID, SECRET, Authority
from dragoman.lab.simulator.recording import RecordedRequest
from dragoman.server.testing import RunningGateway
from tests.endpoints.serving import REQUESTS, config, serving, upstream
from tests.endpoints.takers import (
    BOUNDARY,
    EDITS,
    FORM,
    MODEL,
    TEXT,
    TRANSCRIPTIONS,
    Taken,
    Taker,
    answer,
    client,
    form,
    part,
    send,
    speech,
    taking,
)
from tests.gateway.administration import TOKEN, eventually
from tests.gateway.http import AUTH, KEY
from tests.gateway.services import until
from tests.gateway.sessions import ask

LIMIT = 8_000_000
LARGE = 3_000_000
KEYS = ("sk-one", "sk-two")


@pytest.fixture(scope="module")
def _taker() -> Iterator[Taker]:
    with taking() as taker:
        yield taker


def made(taker: Taker, *, patience: float = 60.0, **server: Any) -> Config:
    timeouts = Timeouts(connect_s=2.0, first_byte_s=patience, idle_s=patience)
    one = replace(upstream("taker", taker.url), timeouts=timeouts)
    found = config(one, keys=KEYS)
    limits = replace(found.server, upload_limit_bytes=LIMIT, body_timeout_s=patience, **server)
    return replace(found, server=limits)


@pytest.fixture(scope="module")
def served(_taker: Taker) -> Iterator[tuple[RunningGateway, list[Any]]]:
    with serving(made(_taker)) as running:
        yield running


@pytest.fixture
def gateway(served: tuple[RunningGateway, list[Any]]) -> RunningGateway:
    for account in served[0].app.config.accounts:
        served[0].app.pool.enable(account.name)
    return served[0]


@pytest.fixture
def log(served: tuple[RunningGateway, list[Any]]) -> list[Any]:
    served[1].clear()
    return served[1]


@pytest.fixture
def taker(_taker: Taker) -> Taker:
    _taker.behaviours.clear()
    _taker.usual = answer
    _taker.calls.clear()
    return _taker


SIZES = pytest.mark.parametrize("size", [0, 1000, HELD_BYTES - 400, HELD_BYTES, LARGE])


@SIZES
@pytest.mark.parametrize("place", ["before", "behind", "between"])
def test_the_model_is_renamed_wherever_it_stands_and_all_else_keeps_its_bytes(
    gateway: RunningGateway, taker: Taker, size: int, place: str
) -> None:
    file = part("file", bytes(range(256)) * (size // 256), "ä b.wav", "audio/wav")
    other = part("prompt", "model: my-model, ü".encode())
    parts = {
        "before": [MODEL, other, file],
        "behind": [other, file, MODEL],
        "between": [file, MODEL, other, file],
    }[place]
    body = form(*parts)
    assert send(gateway, body).json == TEXT
    sent = body.replace(MODEL, part("model", b"sim-model"))
    assert bytes(taker.last.body) == sent
    assert taker.last.headers["content-length"] == str(len(sent))
    assert taker.last.headers["content-type"] == FORM["content-type"]


@SIZES
def test_a_form_in_chunks(gateway: RunningGateway, taker: Taker, size: int) -> None:
    body = speech(size, MODEL)
    with client(gateway) as connection:
        connection.send(
            "POST", TRANSCRIPTIONS, headers={**AUTH, **FORM, "transfer-encoding": "chunked"}
        )
        for start in range(0, len(body), 70_001):
            piece = body[start : start + 70_001]
            connection.sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.sock.sendall(b"0\r\n\r\n")
        assert connection.answer().json == TEXT
    assert bytes(taker.last.body) == speech(size, part("model", b"sim-model"))


def test_a_client_that_waits_to_be_asked_for_its_form(
    gateway: RunningGateway, taker: Taker
) -> None:
    body = speech(LARGE, MODEL)
    with client(gateway) as connection:
        headers = {**AUTH, **FORM, "expect": "100-continue", "content-length": str(len(body))}
        connection.send("POST", TRANSCRIPTIONS, headers=headers)
        assert connection.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sock.sendall(body)
        assert connection.answer().json == TEXT
    assert "expect" not in taker.last.headers


@pytest.mark.parametrize("value", [b"maybe", b"{", b"", b"True", b"\xff"])
def test_fields_that_are_no_words_pass(gateway: RunningGateway, taker: Taker, value: bytes) -> None:
    body = speech(100, MODEL, part("stream", value), part("n", value), part("user", value))
    assert send(gateway, body).json == TEXT


TOO_MANY = [part("x", b"")] * (MOST_PARTS + 1)


@pytest.mark.parametrize("size", [10, LARGE])
@pytest.mark.parametrize(
    ("parts", "status"),
    [
        pytest.param([part("prompt", b"x")], 400, id="no model"),
        pytest.param([MODEL, *TOO_MANY], 400, id="too many parts"),
        pytest.param([MODEL, part("x", b"", "y" * 20_000)], 400, id="a long head"),
        pytest.param([MODEL, part("x", b"").replace(b"form-data", b"\0")], 400, id="a broken head"),
        pytest.param([part("model", b"other-model")], 404, id="a model that is not there"),
        pytest.param([part("model", b"x" * 1025)], 400, id="a long name"),
    ],
)
def test_a_form_that_cannot_be_sent_is_refused(
    gateway: RunningGateway, taker: Taker, size: int, parts: list[bytes], status: int
) -> None:
    found = send(gateway, speech(size, *parts))
    assert (found.status, found.json["error"]["type"]) == (status, "invalid_request_error")
    assert not any(one.whole for one in taker.calls)


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(part("model", b"expensive"), id="a second model"),
        pytest.param(part("x", f"\n--{BOUNDARY}\n".encode()), id="a hidden boundary"),
    ],
)
def test_what_is_found_late_ends_the_request_before_it_is_whole(
    gateway: RunningGateway, taker: Taker, later: bytes
) -> None:
    """A second model behind the file cannot lead past what the key may use."""
    file = part("file", b"x" * LARGE, "a.wav")
    assert send(gateway, form(MODEL, file, later)).status == 400
    until(lambda: bool(taker.calls))
    assert not taker.last.whole
    assert b"expensive" not in taker.last.body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "multipart/mixed; boundary=x"}, 415),
        ({"content-type": "multipart/form-data"}, 400),
        ({"content-type": "multipart/form-data; boundary=" + "x" * 71}, 400),
        ({"content-type": f"multipart/form-data; boundary={BOUNDARY}x"}, 400),
        ({"content-encoding": "gzip"}, 415),
        ({"authorization": "Bearer sk-wrong"}, 401),
    ],
)
def test_heads_with_which_no_form_is_read(
    gateway: RunningGateway, taker: Taker, headers: dict[str, str], status: int
) -> None:
    found = send(gateway, speech(1000, MODEL), **headers)
    assert found.status == status
    assert "message" in found.json["error"]
    assert not taker.calls


@pytest.mark.parametrize("path", [TRANSCRIPTIONS, EDITS])
@pytest.mark.parametrize("header", ["authorization", "x-api-key", "x-goog-api-key", "api-key"])
def test_a_key_is_taken_in_every_header(
    gateway: RunningGateway, taker: Taker, path: str, header: str
) -> None:
    value = f"Bearer {KEY}" if header == "authorization" else KEY
    with client(gateway) as connection:
        connection.send("POST", path, speech(100, MODEL), {**FORM, header: value})
        assert connection.answer().status == 200
    assert KEY not in str(taker.last.headers)


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"models": ("other",)}, 404),
        ({"paths": ("/v1/chat/*",)}, 403),
        ({"addresses": ("10.0.0.1",)}, 403),
        ({"limits": (Limit(kind="requests", amount=0, window="1m"),)}, 429),
    ],
)
def test_a_key_that_may_not_is_refused_before_an_upstream_is_asked(
    taker: Taker, rule: dict[str, Any], status: int
) -> None:
    found = made(taker)
    with serving(replace(found, clients=(replace(found.clients[0], **rule),))) as (gateway, _):
        for path in (TRANSCRIPTIONS, EDITS):
            assert send(gateway, speech(LARGE, MODEL), path).status == status
    assert not taker.calls


def test_a_form_that_is_declared_too_large_is_refused_at_once(
    gateway: RunningGateway, taker: Taker
) -> None:
    with client(gateway) as connection:
        headers = {**AUTH, **FORM, "content-length": str(LIMIT + 1)}
        connection.send("POST", TRANSCRIPTIONS, headers=headers)
        assert connection.answer().status == 413
    assert not taker.calls


def test_a_form_in_chunks_is_refused_when_it_crosses_the_limit(
    gateway: RunningGateway, taker: Taker
) -> None:
    body = speech(LIMIT, MODEL)
    with client(gateway) as connection:
        connection.send(
            "POST", TRANSCRIPTIONS, headers={**AUTH, **FORM, "transfer-encoding": "chunked"}
        )
        for start in range(0, len(body), 1_000_000):
            piece = body[start : start + 1_000_000]
            connection.sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        assert connection.answer().status == 413
    until(lambda: bool(taker.calls))
    assert not taker.last.whole


@pytest.mark.parametrize("size", [1000, LARGE])
def test_a_form_that_ends_before_its_length_reaches_nobody_whole(
    gateway: RunningGateway, taker: Taker, log: list[Any], size: int
) -> None:
    body = speech(size, MODEL)
    with client(gateway) as connection:
        headers = {**AUTH, **FORM, "content-length": str(len(body) + 5)}
        connection.send("POST", TRANSCRIPTIONS, body, headers)
    until(lambda: any(line.get("error") == "client_gone" for line in log))
    assert not any(one.whole for one in taker.calls)
    assert not any("usage" in line for line in log)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    pieces=st.lists(
        st.sampled_from(
            [MODEL, b"--", BOUNDARY.encode(), b"\r\n", b"\0", b"Content-Disposition: ", b"x" * 300]
        ),
        max_size=12,
    ),
    length=st.integers(-3, 0),
)
def test_no_form_makes_the_gateway_fail_or_hang(
    served: tuple[RunningGateway, list[Any]], pieces: list[bytes], length: int
) -> None:
    body = b"".join(pieces)
    with client(served[0]) as connection:
        size = str(max(len(body) + length, 0))
        connection.send("POST", TRANSCRIPTIONS, body, {**AUTH, **FORM, "content-length": size})
        assert connection.answer().status in (200, 400)


@pytest.mark.parametrize("status", [401, 413])
@pytest.mark.parametrize("is_own", [True, False])
def test_an_early_answer_reaches_a_client_that_still_sends(
    gateway: RunningGateway, taker: Taker, log: list[Any], status: int, is_own: bool
) -> None:
    """What an upstream says of the gateway's account is said as of any request."""

    def refuse(taken: Taken) -> None:
        taken.read(1000)
        taken.say({"error": {"message": "no", "type": "x"}} if is_own else b"no", status)
        while taken.sock.recv(65536):
            pass

    taker.usual = refuse
    body = speech(LARGE, MODEL)
    with client(gateway) as connection:
        headers = {**AUTH, **FORM, "content-length": str(len(body))}
        connection.send("POST", TRANSCRIPTIONS, body[:300_000], headers)
        found = connection.answer()
        assert found.status == (status if status == 413 else 503)
        assert "sk-one" not in found.body.decode()
        # The rest, up to a megabyte, is taken for a while.
        connection.sock.sendall(body[300_000:800_000])
        assert found.headers["connection"] == "close"
    assert len(taker.calls) == 1, "what has passed is not sent again"


def failing(status: int, **headers: str) -> Any:
    def fail(taken: Taken) -> None:
        taken.take()
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        body = b'{"error":{"message":"no"}}'
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{lines}\r\n"
        taken.sock.sendall(head.encode() + body)

    return fail


def cut(taken: Taken) -> None:
    """Takes all, and answers nothing."""
    taken.take()
    taken.sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("size", [1000, LARGE])
@pytest.mark.parametrize(
    ("path", "behaviour", "is_repeated"),
    [
        (TRANSCRIPTIONS, failing(500), True),
        (TRANSCRIPTIONS, failing(401), True),
        (TRANSCRIPTIONS, cut, True),
        (EDITS, failing(500), False),
        (EDITS, failing(503), False),
        (EDITS, cut, False),
        (EDITS, failing(429), True),
        (EDITS, failing(503, **{"retry-after": "1"}), True),
        (TRANSCRIPTIONS, failing(404), False),
        (TRANSCRIPTIONS, failing(400), False),
    ],
)
def test_only_a_held_form_that_may_be_sent_again_is(
    gateway: RunningGateway, taker: Taker, size: int, path: str, behaviour: Any, is_repeated: bool
) -> None:
    asked: list[str] = []

    def first_fails(taken: Taken) -> None:
        asked.append(taken.key)
        (behaviour if len(asked) == 1 else answer)(taken)

    taker.usual = first_fails
    found = send(gateway, speech(size, MODEL), path)
    if is_repeated and size < HELD_BYTES:
        assert (found.status, len(asked)) == (200, 2)
    else:
        assert len(asked) == 1
        assert 400 <= found.status < 600
        if behaviour is cut:
            assert found.status == 502


def test_a_form_that_waits_in_a_file_is_sent_again(gateway: RunningGateway, taker: Taker) -> None:
    asked: list[str] = []

    def first_fails(taken: Taken) -> None:
        asked.append(taken.key)
        (failing(500) if len(asked) == 1 else answer)(taken)

    taker.usual = first_fails
    file = part("file", b"x" * LARGE, "a.wav")
    assert send(gateway, form(file, MODEL)).status == 200
    assert len(set(asked)) == 2
    assert bytes(taker.last.body) == form(file, part("model", b"sim-model"))


def test_a_missing_endpoint_blames_no_account(gateway: RunningGateway, taker: Taker) -> None:
    taker.usual = failing(404)
    pool = gateway.app.pool
    before = [pool.state(one.name) for one in pool.accounts()]
    assert send(gateway, speech(LARGE, MODEL)).status == 404
    assert [pool.state(one.name) for one in pool.accounts()] == before


def test_a_form_that_is_signed_is_held_up_to_eight_megabytes(taker: Taker) -> None:
    found = made(taker)
    signed = AwsCredentials(
        access_key_id=KEY_ID, secret_access_key=Secret(SECRET), signing_name="bedrock"
    )
    account = replace(found.accounts[0], key=None, region="us-east-1", credentials=signed)
    server = replace(found.server, upload_limit_bytes=2 * LIMIT)

    def take(taken: Taken) -> None:
        taken.take()
        taken.say(TEXT)

    taker.usual = take
    with serving(replace(found, accounts=(account,), server=server)) as (gateway, _):
        body = speech(LARGE, MODEL)
        assert send(gateway, body).json == TEXT
        sent = RecordedRequest(
            1,
            "POST",
            TRANSCRIPTIONS,
            "",
            tuple(taker.last.headers.items()),
            bytes(taker.last.body),
        )
        assert Authority().check_signature(sent) == KEY_ID
        with client(gateway) as connection:
            headers = {**AUTH, **FORM, "content-length": "9000000"}
            connection.send("POST", TRANSCRIPTIONS, body[:300_000], headers)
            assert connection.answer().status == 413
    assert len(taker.calls) == 1


def test_a_slow_upstream_holds_the_client_back(gateway: RunningGateway, taker: Taker) -> None:
    """What waits in the gateway is bounded, and nobody ends as long as bytes move."""
    go_on: list[bool] = []

    def slow(taken: Taken) -> None:
        until(lambda: bool(go_on))
        answer(taken)

    taker.usual = slow
    body = speech(LIMIT - 1000, MODEL)
    with client(gateway) as connection:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        headers = {**AUTH, **FORM, "content-length": str(len(body))}
        connection.send("POST", TRANSCRIPTIONS, b"", headers)
        connection.sock.settimeout(0.5)
        sent = 0
        try:
            while sent < len(body):
                sent += connection.sock.send(body[sent : sent + 65536])
        except TimeoutError:
            pass
        budget = gateway.server.http.budget
        # 256 KB of the upload, and what came before it was asked for.
        until(lambda: 0 < budget.used <= 384 * 1024, lambda: f"{budget.used}", 20)
        go_on.append(True)
        connection.sock.settimeout(30)
        connection.sock.sendall(body[sent:])
        assert connection.answer().json == TEXT
    assert bytes(taker.last.body) == speech(LIMIT - 1000, part("model", b"sim-model"))


PATIENCE_S = 0.5


@pytest.fixture(scope="module")
def _impatient(
    _taker: Taker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningGateway, str]]:
    """A gateway that waits for nobody for long, and where it spools."""
    spool_dir = str(tmp_path_factory.mktemp("spool"))
    with serving(made(_taker, patience=PATIENCE_S, spool_dir=spool_dir)) as (gateway, _):
        yield gateway, spool_dir


@pytest.fixture
def impatient(_impatient: tuple[RunningGateway, str]) -> Iterator[RunningGateway]:
    """That gateway, of which nothing may be left behind by a test."""
    gateway, spool_dir = _impatient
    pool, budget = gateway.app.pool, gateway.server.http.budget
    names = [account.name for account in gateway.app.config.accounts]
    for name in names:
        pool.enable(name)
    _over.clear()
    yield gateway
    until(lambda: not any(map(pool.in_flight, names)), lambda: "an account is still lent", 20)
    until(lambda: not budget.used, lambda: f"{budget.used} bytes are still reserved", 20)
    assert not [name for name in map(_target, Path("/proc/self/fd").iterdir()) if spool_dir in name]
    assert not list(Path(spool_dir).iterdir())
    _over.set()


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


def reset(taken: Taken) -> None:
    """Ends the connection so that the other side has an error."""
    taken.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    taken.sock.close()
    raise ConnectionError


def taking_then(share: float, then: Callable[[Taken], None]) -> Any:
    """Takes this share of the form, and does the rest."""

    def take(taken: Taken) -> None:
        taken.read(int(int(taken.headers["content-length"]) * share))
        then(taken)

    return take


_over = threading.Event()


def idle(taken: Taken) -> None:
    """Takes and sends nothing more, to the end of the test."""
    _over.wait(30)
    raise ConnectionError


def refusing(status: int) -> Callable[[Taken], None]:
    def refuse(taken: Taken) -> None:
        taken.say({"error": {"message": "no", "type": "x"}}, status)
        while taken.sock.recv(65536):
            pass

    return refuse


@pytest.mark.parametrize("is_spooled", [False, True])
@pytest.mark.parametrize(
    ("behaviour", "status", "share"),
    [
        (taking_then(0, reset), 502, 0.5),
        (taking_then(0.4, reset), 502, 0.5),
        (taking_then(1, reset), 502, 1),
        (taking_then(0, refusing(401)), 503, 0.5),
        (taking_then(0.4, refusing(413)), 413, 0.5),
        (taking_then(0, idle), 504, 1),
        (taking_then(0.4, idle), 504, 1),
        (taking_then(1, idle), 504, 1),
    ],
    ids=[
        *("reset at the head", "reset within", "reset at the end", "401 early", "413 early"),
        *("takes nothing", "stops within", "answers nothing"),
    ],
)
def test_an_upstream_that_fails_an_upload_leaves_nothing_behind(
    impatient: RunningGateway,
    taker: Taker,
    behaviour: Any,
    status: int,
    share: float,
    is_spooled: bool,
) -> None:
    """The client has sent this share of the form by then, or all of one that waits in a file."""
    taker.usual = behaviour
    file = part("file", bytes(LIMIT - 2000), "a.wav")
    body = form(file, MODEL) if is_spooled else form(MODEL, file)
    with client(impatient) as connection:
        headers = {**AUTH, **FORM, "content-length": str(len(body))}
        sent = len(body) if is_spooled else int(len(body) * share)
        connection.send("POST", TRANSCRIPTIONS, body[:sent], headers)
        found = connection.answer()
    # What waits in a file is sent by each account, unless it is the form that is refused; and so is
    # what failed before more of it has passed than is held.
    asked = len(taker.calls)
    assert asked == 2 if is_spooled and status != 413 else asked <= 2
    # No account is left: another was refused, too, or cannot be asked any more.
    assert found.status in ((403, 503) if status == 503 else (status,))
    assert "message" in found.json["error"]


SPEECH = "/v1/audio/speech"


def sending_then(share: float, then: Callable[[Taken], None]) -> Any:
    """Sends this share of a recording, and does the rest."""

    def give(taken: Taken) -> None:
        taken.take()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: %d\r\n\r\n" % LARGE
        taken.sock.sendall(head + bytes(int(LARGE * share)))
        then(taken)

    return give


def half_a_head(taken: Taken) -> None:
    taken.take()
    taken.sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-ty")
    reset(taken)


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        (half_a_head, 502),
        (sending_then(0, reset), 200),
        (sending_then(0.5, reset), 200),
        (sending_then(1 - 1 / LARGE, reset), 200),
        (refusing(401), 403),
        (refusing(413), 413),
        (idle, 504),
        (sending_then(0.5, idle), 200),
    ],
    ids=[
        *("reset within the head", "reset at the head", "reset within", "reset at the end"),
        *("401", "413", "answers nothing", "stops within"),
    ],
)
def test_an_upstream_that_fails_a_download_leaves_nothing_behind(
    impatient: RunningGateway, taker: Taker, behaviour: Any, status: int
) -> None:
    taker.usual = behaviour
    with client(impatient) as connection:
        connection.send("POST", SPEECH, REQUESTS[SPEECH], AUTH)
        try:
            found = connection.answer()
        except ConnectionError:
            assert status == 200
        else:
            # What was sent before a reset may be lost with it.
            assert found.status == (502 if status == 200 else status)
            assert "message" in found.json["error"]


@pytest.mark.parametrize("behaviour", [answer, taking_then(0, idle)], ids=["takes", "idle"])
def test_a_client_that_leaves_an_upload_leaves_nothing_behind(
    impatient: RunningGateway, taker: Taker, behaviour: Any
) -> None:
    taker.usual = behaviour
    body = speech(LARGE, MODEL)
    with client(impatient) as connection:
        headers = {**AUTH, **FORM, "content-length": str(len(body))}
        connection.send("POST", TRANSCRIPTIONS, body[: LARGE // 2], headers)
        until(lambda: bool(taker.calls))
    assert not taker.last.whole


def test_a_client_that_leaves_a_download_leaves_nothing_behind(
    impatient: RunningGateway, taker: Taker
) -> None:
    taker.usual = sending_then(0.5, idle)
    with client(impatient) as connection:
        connection.send("POST", SPEECH, REQUESTS[SPEECH], AUTH)
        assert connection.head().status == 200


def test_a_slow_reader_has_all_of_a_download(impatient: RunningGateway, taker: Taker) -> None:
    taker.usual = sending_then(1, lambda taken: None)
    with client(impatient) as connection:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.send("POST", SPEECH, REQUESTS[SPEECH], AUTH)
        assert connection.head().status == 200
        time.sleep(2 * PATIENCE_S)
        left = LARGE - len(connection.buffer)
        while left:
            left -= len(connection.sock.recv(left))


def test_a_client_may_be_slow_but_not_silent(impatient: RunningGateway, taker: Taker) -> None:
    body = speech(LARGE, MODEL)
    headers = {**AUTH, **FORM, "content-length": str(len(body))}
    with client(impatient) as connection:
        connection.send("POST", TRANSCRIPTIONS, body[: LARGE - 2000], headers)
        # All in all longer than either limit.
        for start in range(LARGE - 2000, len(body), 200):
            time.sleep(0.15)
            connection.sock.sendall(body[start : start + 200])
        assert connection.answer().status == 200
    with client(impatient) as connection:
        connection.send("POST", TRANSCRIPTIONS, body[: LARGE // 2], headers)
        assert connection.answer().status == 408
    until(lambda: len(taker.calls) == 2)
    assert not taker.last.whole


def test_the_log_of_requests_has_the_sizes_of_a_form_and_not_its_content(
    taker: Taker, tmp_path: Path
) -> None:
    found = made(taker)
    found = replace(
        found,
        clients=(replace(found.clients[0], keep_bodies=True),),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a store key"), sync_s=0.05),
        request_log=RequestLogSettings(body_bytes=100_000),
        admin=Admin(key=Secret(TOKEN)),
    )
    body = speech(1000, MODEL, part("prompt", b"canary-in-a-form"))
    with serving(found) as (gateway, lines):
        assert send(gateway, body).status == 200
        rows = eventually(lambda: ask(gateway, "GET", "/requests", key=TOKEN).json["rows"])
        shown = ask(gateway, "GET", f"/requests/{rows[0]['id']}", key=TOKEN).json
        assert shown["tried"][0]["bytes_up"] == len(body)
        assert (
            ask(gateway, "GET", f"/requests/{rows[0]['id']}/bodies", key=TOKEN).json["bodies"] == {}
        )
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"canary-in-a-form" in one for one in [*kept, json.dumps(lines).encode()])


def test_text_is_passed_as_it_is(gateway: RunningGateway, taker: Taker) -> None:
    def say(taken: Taken) -> None:
        taken.take()
        taken.say(b"WEBVTT\n\n00:00 --> 00:01\nhello", media="text/vtt; charset=utf-8")

    taker.usual = say
    found = send(gateway, speech(1000, MODEL, part("response_format", b"vtt")))
    assert found.headers["content-type"] == "text/vtt; charset=utf-8"
    assert found.headers["content-length"] == str(len(found.body))
    assert found.body == b"WEBVTT\n\n00:00 --> 00:01\nhello"


def test_an_answer_that_breaks_off_has_no_clean_end(gateway: RunningGateway, taker: Taker) -> None:
    def half(taken: Taken) -> None:
        taken.take()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\n"
        taken.sock.sendall(head + b"half")
        taken.sock.shutdown(socket.SHUT_RDWR)

    taker.usual = half
    with client(gateway) as connection:
        connection.send("POST", TRANSCRIPTIONS, speech(1000, MODEL), {**AUTH, **FORM})
        head = connection.head()
        assert head.headers["content-length"] == "100"
        rest = connection.buffer
        while data := connection.sock.recv(65536):
            rest += data
        assert rest == b"half"


def test_events_are_passed_one_by_one(gateway: RunningGateway, taker: Taker, log: Any) -> None:
    events = [
        {"type": "transcript.text.delta", "delta": "hel"},
        {
            "type": "transcript.text.done",
            "text": "hello",
            "usage": {
                "type": "tokens",
                "input_tokens": 14,
                "input_token_details": {"audio_tokens": 10, "text_tokens": 4},
                "output_tokens": 3,
                "total_tokens": 17,
            },
        },
    ]
    stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)

    def say(taken: Taken) -> None:
        taken.take()
        taken.say(stream, media="text/event-stream")

    taker.usual = say
    found = send(gateway, speech(LARGE, MODEL, part("stream", b"true")))
    assert found.body == stream
    until(lambda: bool(log))
    assert (log[-1]["usage"]["input"], log[-1]["usage"]["output"]) == (14, 3)
