"""The operator's check of requests: what it is shown, and what its answers do, on every way in."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from msgspec.structs import replace

from dragoman.config import ConfigError, RequestCheck, Secret, Storage, parse_config
from dragoman.edge.incoming import IncomingRequest, InternalRequest
from dragoman.http.clock import Clock
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols import CODECS
from dragoman.server.testing import RunningGateway, running_gateway
from tests.endpoints.bound import batch_lines, gateways
from tests.facts import facts_of
from tests.gateway.clients import PATHS, body
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, Answer, call
from tests.gateway.posts import Post, Posts, posts
from tests.websocket.client import Socket, handshake, opened, refused
from tests.websocket.steering import SLOW, begun, refusal, steer

WORD, SHOWN = "zebra-in-the-prompt", "[REDACTED]"
REASON = "No customer data here. " * 40
CLIENTS = {name: facts for name, facts in facts_of().items() if name != "parley"}
LINES: list[bytes] = []


@pytest.fixture(scope="module")
def _check() -> Iterator[Posts]:
    with posts() as running:
        yield running


@pytest.fixture
def check(_check: Posts) -> Posts:
    """The check, which lets everything pass."""
    _check.got.clear()
    _check.answer = lambda post: (200, b'{"block": false}')
    return _check


@pytest.fixture(scope="module")
def _checked(
    _simulator: RunningSimulator, _check: Posts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    config = config_for(_simulator.base_url)
    config = replace(
        config,
        upstreams=tuple(
            replace(one, websocket="on") if one.name == "responses" else one
            for one in config.upstreams
        ),
        storage=Storage(path=str(tmp_path_factory.mktemp("checked") / "store.db")),
        request_check=RequestCheck(url=Secret(f"{_check.url}/check?token=hidden")),
    )
    with running_gateway(config, LINES.append) as gateway:
        yield gateway


@pytest.fixture
def checked(_checked: RunningGateway, check: Posts, simulator: RunningSimulator) -> RunningGateway:
    """A gateway whose requests are checked."""
    LINES.clear()
    return _checked


def redacting(post: Post) -> tuple[int, bytes]:
    """The answer of a check that takes a word out of each request."""
    shown = json.loads(json.dumps(post.json["body"]).replace(WORD, SHOWN))
    return 200, json.dumps({"block": False, "body": shown}).encode()


def blocking(post: Post) -> tuple[int, bytes]:
    return 200, json.dumps({"block": True, "reason": REASON, "rule_id": "dlp-7"}).encode()


def ask(gateway: RunningGateway, name: str, **headers: str) -> Answer:
    """A request of a client of that protocol."""
    facts, model = CLIENTS[name], "chat/sim-text"
    path = f"{facts.path(model, False)}"
    own = {"x-api-key": KEY, "cookie": "session=1", **headers}
    return call(gateway.base_url, "POST", path, facts.body(model, WORD, False), own, key=None)


@pytest.mark.parametrize("name", CLIENTS)
def test_it_is_shown_the_request_without_its_credentials(
    checked: RunningGateway, check: Posts, name: str
) -> None:
    """Path, query, headers and body as they came, who asks, and by which id."""
    facts, model = CLIENTS[name], "chat/sim-text"
    made = facts.body(model, WORD, False)
    path = f"{facts.path(model, False)}?alt=json&key={KEY}"
    given = {"authorization": f"Bearer {KEY}", "x-of-client": "kept", "cookie": "session=1"}
    answer = call(checked.base_url, "POST", path, made, given, key=None)
    assert answer.status == 200, answer.body
    (post,) = check.got
    assert post.path == "/check?token=hidden"
    assert post.headers["x-request-id"] == answer.headers["x-request-id"]
    assert post.headers["x-principal-sub"] == "tester"
    assert post.json["body"] == made
    assert post.json["query"] == "alt=json"
    assert post.json["path"] == path.partition("?")[0].replace("%2F", "/")
    assert post.json["headers"]["x-of-client"] == "kept"
    assert KEY not in post.body.decode() + str(post.headers)
    assert not {"authorization", "cookie", "content-length"} & post.json["headers"].keys()


@pytest.mark.parametrize("name", CLIENTS)
def test_what_it_blocks_reaches_nobody(
    checked: RunningGateway, check: Posts, simulator: RunningSimulator, name: str
) -> None:
    """400 in the client's own form, with the reason, once; the log has the rule, not the
    reason, which may quote the prompt."""
    check.answer = blocking
    answer = ask(checked, name)
    assert answer.status == 400
    assert answer.headers["x-should-retry"] == "false"
    error = answer.json["error"]
    assert error["message"] == REASON[:500]
    told = answer.body.decode().lower()
    assert "policy_blocked" in told or name == "google_interactions"
    assert simulator.requests == []
    line = json.loads(LINES[-1])
    assert (line["error"], line["at_fault"]) == ("policy_blocked", "caller")
    assert "customer" not in LINES[-1].decode()


@pytest.mark.parametrize("name", CLIENTS)
def test_what_it_changes_is_read_as_if_it_had_been_sent(
    checked: RunningGateway, check: Posts, simulator: RunningSimulator, name: str
) -> None:
    check.answer = redacting
    assert ask(checked, name).status == 200
    sent = simulator.last.body.decode()
    assert SHOWN in sent
    assert WORD not in sent


def _count(gateway: RunningGateway) -> Any:
    made = body("messages", "chat/sim-text", WORD)
    return call(gateway.base_url, "POST", "/v1/messages/count_tokens", made)


def _background(gateway: RunningGateway) -> Any:
    made = body("responses", "chat/sim-text", WORD, background=True)
    return call(gateway.base_url, "POST", PATHS["responses"], made)


def _compaction(gateway: RunningGateway) -> Any:
    made = body("responses", "chat/sim-text", WORD)
    return call(gateway.base_url, "POST", "/v1/responses/compact", made)


def _embedding(gateway: RunningGateway) -> Any:
    made = {"model": "chat/sim-text", "input": WORD}
    return call(gateway.base_url, "POST", "/v1/embeddings", made)


def _transcription(gateway: RunningGateway) -> Any:
    parts = [b'name="model"\r\n\r\nchat/sim-text', b'name="file"; filename="a.wav"\r\n\r\nRIFF']
    made = b"".join(b"--x\r\ncontent-disposition: form-data; %b\r\n" % part for part in parts)
    own = {"content-type": "multipart/form-data; boundary=x"}
    path = "/v1/audio/transcriptions"
    return call(gateway.base_url, "POST", path, made + b"--x--\r\n", own)


WAYS = [_count, _background, _compaction, _embedding, _transcription]


@pytest.mark.parametrize("way", WAYS)
def test_there_is_no_way_around_it(
    checked: RunningGateway,
    check: Posts,
    simulator: RunningSimulator,
    way: Callable[[RunningGateway], Answer],
) -> None:
    """Counts, responses in the background, compactions and other endpoints are checked, each
    once."""
    check.answer = blocking
    answer = way(checked)
    assert (answer.status, answer.json["error"]["message"]) == (400, REASON[:500])
    assert [WORD in str(post.json["body"]) for post in check.got] == [way is not _transcription]
    assert simulator.requests == []


def test_a_large_body_is_checked(
    checked: RunningGateway, check: Posts, simulator: RunningSimulator
) -> None:
    check.answer = redacting
    made = body("chat", "messages/sim-text", WORD + " and more" * 100_000)
    assert call(checked.base_url, "POST", PATHS["chat"], made).status == 200
    assert SHOWN in simulator.last.body.decode()
    assert WORD not in simulator.last.body.decode()


@pytest.mark.parametrize(
    "media", ["", ";", "; charset=utf-8", "application/json\xa0", "a/b+json\x85"]
)
def test_whatever_is_read_as_json_is_shown(
    checked: RunningGateway, check: Posts, simulator: RunningSimulator, media: str
) -> None:
    """However its content type is written: what the gateway reads, the check has seen."""
    check.answer = redacting
    made = json.dumps(body("chat", "messages/sim-text", WORD)).encode()
    answer = call(checked.base_url, "POST", PATHS["chat"], made, {"content-type": media})
    assert (answer.status == 200) == bool(simulator.requests)
    for request in simulator.requests:
        assert WORD not in request.body.decode()


@pytest.mark.parametrize(
    ("media", "shown", "sent"),
    [
        (b"application/json; charset=utf-8", b"{}", b'{"changed": 1}'),
        (b"multipart/form-data; boundary=x", b"", b"{}"),
    ],
)
async def test_of_files_the_head_is_checked_before_they_are_passed_on(
    media: bytes, shown: bytes, sent: bytes
) -> None:
    """JSON that is passed on as it comes is held, so that it can be checked."""
    headers = {b"content-type": media, b"content-length": b"2"}
    received = InternalRequest("/v1/files", headers, b"{}")
    clock = Clock(asyncio.get_running_loop())
    incoming = IncomingRequest(received, CODECS["openai_chat"], clock, "/v1/files")
    seen, passed = list[bytes](), list[bytes]()

    def take(data: bytes) -> bool:
        passed.append(bytes(data))
        return True

    async def check(incoming: IncomingRequest, body: bytes, limit: int) -> bytes:
        seen.append(body)
        return b'{"changed": 1}' if body else body

    incoming.check = check
    assert not await incoming.pipe(take, 100)
    assert (seen, passed) == ([shown], [sent])


def test_batches_whose_requests_it_is_not_shown_are_refused(
    simulator: RunningSimulator, check: Posts, tmp_path: Path
) -> None:
    """Their files, and batches of such that were sent before there was a check; other files pass.
    A message batch is shown whole."""
    with gateways(simulator, tmp_path, "") as opened:
        before = opened.open()
        made = opened.openai(before).files.create(file=batch_lines("my-model"), purpose="batch")
        before.stop()
        mine = opened.openai(opened.open(more=f'[request_check]\nurl = "{check.url}/check"\n'))
        asked = len(simulator.requests)
        with pytest.raises(openai.BadRequestError, match="send each by itself"):
            mine.files.create(file=batch_lines("my-model"), purpose="batch")
        with pytest.raises(openai.BadRequestError, match="send each by itself") as refused:
            mine.batches.create(
                input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
        assert refused.value.code == "policy_blocked"
        assert len(simulator.requests) == asked
        assert mine.files.create(file=b"x", purpose="user_data").purpose == "user_data"


def test_turns_over_a_websocket_are_checked(
    checked: RunningGateway, check: Posts, simulator: RunningSimulator
) -> None:
    """Each turn, also what the next one continues; and nothing is added to a running one."""
    protocols = {"sec-websocket-protocol": f"openai-insecure-api-key.{KEY}"}
    with Socket(checked.base_url, {**handshake(), **protocols}) as sock:
        check.answer = redacting
        events = sock.turn("chat/sim-text", WORD)
        assert events[-1]["type"] == "response.completed"
        sock.turn("chat/sim-text", "more", previous_response_id=events[-1]["response"]["id"])
        assert SHOWN in simulator.last.body.decode()
        assert WORD not in simulator.last.body.decode()
        assert KEY not in check.got[0].body.decode()
        check.answer = blocking
        (event,) = sock.turn("chat/sim-text", "again")
        assert (event["status"], event["error"]["code"]) == (400, "policy_blocked")
        assert event["headers"]["x-should-retry"] == "false"
    check.answer = redacting
    with opened(checked) as sock:
        sock.create(SLOW, "hi")
        name = begun(sock)
        steer(sock, name, WORD)
        assert refusal(sock)["error"]["code"] == "steering_not_supported"


def test_a_realtime_session_is_checked_before_it_begins(
    checked: RunningGateway, check: Posts
) -> None:
    """By its head: its events are not shown."""
    check.answer = blocking
    answer = refused(checked, handshake(), "/v1/realtime?model=responses/sim-text")
    assert (answer.status, answer.json["error"]["code"]) == (400, "policy_blocked")
    (post,) = check.got
    assert (post.json["path"], post.json["body"]) == ("/v1/realtime", None)


def _late(post: Post) -> tuple[int, bytes]:
    time.sleep(0.5)
    return 200, b'{"block": false}'


FAILURES: dict[str, Callable[[Post], tuple[int, bytes]]] = {
    "status": lambda post: (503, b'{"block": false}'),
    "redirect": lambda post: (307, b""),
    "empty": lambda post: (200, b""),
    "no JSON": lambda post: (200, b"allowed"),
    "no verdict": lambda post: (200, b"{}"),
    "another type": lambda post: (200, b'{"block": "no"}'),
    "a body that is none": lambda post: (200, b'{"block": false, "body": [1]}'),
    "late": _late,
}


@pytest.fixture(scope="module", params=["closed", "open"])
def failing(
    request: pytest.FixtureRequest, _simulator: RunningSimulator, _check: Posts
) -> Iterator[RunningGateway]:
    """A gateway whose check has 200 ms."""
    setting = RequestCheck(url=Secret(_check.url), timeout_s=0.2, fail=request.param)
    config = replace(config_for(_simulator.base_url), request_check=setting)
    with running_gateway(config) as gateway:
        yield gateway


@pytest.mark.parametrize("failure", FAILURES)
def test_a_check_that_fails_blocks_unless_told_otherwise(
    failing: RunningGateway, check: Posts, simulator: RunningSimulator, failure: str
) -> None:
    check.answer = FAILURES[failure]
    answer = call(failing.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text"))
    setting = failing.app.config.request_check
    assert setting is not None
    if setting.fail == "open":
        assert answer.status == 200
    else:
        assert answer.status == 400
        assert answer.json["error"]["code"] == "policy_blocked"
        assert answer.headers["x-should-retry"] == "false"
        assert simulator.requests == []
    text = call(failing.base_url, "GET", "/metrics", key=None).body.decode()
    assert 'dragoman_request_checks_total{result="failed"}' in text


def test_a_check_that_is_not_there_blocks(simulator: RunningSimulator) -> None:
    config = replace(
        config_for(simulator.base_url),
        request_check=RequestCheck(url=Secret("http://127.0.0.1:9/check")),
    )
    with running_gateway(config) as gateway:
        answer = call(gateway.base_url, "POST", PATHS["chat"], body("chat", "chat/sim-text"))
        assert answer.json["error"]["code"] == "policy_blocked"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('url = "ftp://127.0.0.1/check"', "request_check.url"),
        ('url = "http://127.0.0.1/check"\ntimeout_s = 0', "request_check.timeout_s"),
        ('url = "http://127.0.0.1/check"\nfail = "ajar"', "request_check.fail"),
        ("timeout_s = 0.1", "request_check"),
    ],
)
def test_settings_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(f"[request_check]\n{text}\n")
