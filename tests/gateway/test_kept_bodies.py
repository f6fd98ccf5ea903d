"""Bodies of requests: kept for keys that have it switched on, sealed, bounded and for admins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.accounts.cipher import SealError
from dragoman.canonical.masking import Mask
from dragoman.config import Admin, Client, Config, Secret, Storage
from dragoman.config.settings import RequestLogSettings
from dragoman.edge.body_copies import BODY_NAMES, BodyCopies
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from dragoman.storage.bodies import Body, BodyFiles
from dragoman.storage.encryption import AesGcmCipher
from tests.gateway.administration import TOKEN, eventually
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY, call
from tests.gateway.sessions import ask, made
from tests.websocket.client import opened, text_of

KEPT = "sk-kept-0123456789"
WORD = "zebra-in-the-prompt"


@pytest.fixture
def config(simulator: RunningSimulator, tmp_path: Path) -> Config:
    config = config_for(simulator.base_url)
    return replace(
        config,
        clients=(*config.clients, Client(name="kept", key=Secret(KEPT), keep_bodies=True)),
        storage=Storage(path=str(tmp_path / "store.db"), key=Secret("a store key"), sync_s=0.05),
        request_log=RequestLogSettings(body_bytes=2048),
        admin=Admin(key=Secret(TOKEN)),
    )


@pytest.fixture
def gateway(config: Config) -> Iterator[RunningGateway]:
    with running_gateway(config) as running:
        yield running


def chat(gateway: RunningGateway, model: str, key: str, **more: Any) -> str:
    """The answer to a request."""
    asked = {"model": model, "messages": [{"role": "user", "content": WORD}], **more}
    answer = call(
        gateway.base_url, "POST", "/v1/chat/completions", json.dumps(asked).encode(), key=key
    )
    return answer.body.decode()


def latest(gateway: RunningGateway) -> str:
    rows = eventually(lambda: ask(gateway, "GET", "/requests", key=TOKEN).json["rows"])
    return str(rows[0]["id"])


def lengths(gateway: RunningGateway, request_id: str) -> dict[str, int]:
    found = ask(gateway, "GET", f"/requests/{request_id}/bodies", key=TOKEN).json["bodies"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("stream", [True, False])
def test_all_four_are_kept_as_they_were(
    gateway: RunningGateway, simulator: RunningSimulator, stream: bool
) -> None:
    answer = chat(gateway, "messages/sim-text?text=seven", KEPT, stream=stream)
    request_id = latest(gateway)
    assert set(eventually(lambda: lengths(gateway, request_id))) == set(BODY_NAMES)
    bodies = {
        name: ask(gateway, "GET", f"/requests/{request_id}/bodies/{name}", key=TOKEN)
        for name in BODY_NAMES
    }
    assert bodies["client_answer"].body.decode() == answer[:2048]
    assert json.loads(bodies["client_request"].body)["messages"][0]["content"] == WORD
    assert json.loads(bodies["upstream_request"].body) == simulator.last.json
    assert b"seven" in bodies["upstream_answer"].body
    assert bodies["client_request"].headers["content-type"].startswith("text/plain")
    assert "sandbox" in bodies["client_request"].headers["content-security-policy"]
    changes = ask(gateway, "GET", "/audit?action=read", key=TOKEN).json["changes"]
    assert [change["after"]["body"] for change in reversed(changes)] == list(BODY_NAMES)
    assert {change["name"] for change in changes} == {request_id}
    assert WORD not in json.dumps(changes)


def test_others_are_not_kept_and_viewers_do_not_read(gateway: RunningGateway) -> None:
    chat(gateway, "chat/sim-text", KEY)
    assert lengths(gateway, latest(gateway)) == {}
    chat(gateway, "chat/sim-text", KEPT)
    viewer = made(gateway, "looker", "viewer")
    request_id = eventually(lambda: lengths(gateway, latest(gateway)) and latest(gateway))
    path = f"/requests/{request_id}/bodies"
    assert ask(gateway, "GET", path, key=viewer).status == 200
    assert ask(gateway, "GET", f"{path}/client_request", key=viewer).status == 403
    assert ask(gateway, "GET", f"{path}/else", key=TOKEN).status == 400
    missing = ask(gateway, "GET", "/requests/req_none/bodies/client_request", key=TOKEN)
    assert (missing.status, missing.json["error"]["type"]) == (404, "not_kept")


def test_they_are_cut_and_sealed(gateway: RunningGateway, tmp_path: Path) -> None:
    chat(gateway, "chat/sim-text", KEPT, user="u" * 5000)
    request_id = latest(gateway)
    sizes = eventually(lambda: lengths(gateway, request_id))
    assert sizes["client_request"] > 5000
    shown = ask(gateway, "GET", f"/requests/{request_id}/bodies/client_request", key=TOKEN)
    assert len(shown.body) == 2048
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "bodies" in str(path)]
    assert files
    assert all(path.stat().st_mode & 0o077 == 0 for path in files if path.suffix == ".db")
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or WORD.encode() not in path.read_bytes()


def test_without_a_key_nothing_is_kept(config: Config, tmp_path: Path) -> None:
    config = replace(config, storage=replace(config.storage, key=None))
    with running_gateway(config) as gateway:
        chat(gateway, "chat/sim-text", KEPT)
        assert lengths(gateway, latest(gateway)) == {}
    assert not list(tmp_path.rglob("*bodies*"))


def test_they_expire_and_open_by_their_own_name_alone(tmp_path: Path) -> None:
    now = [1_000_000.0]
    cipher = AesGcmCipher(Secret("a store key"))
    files = BodyFiles(tmp_path / "bodies", 1.0, 1024 * 1024, cipher, lambda: now[0])
    files.write([Body("a", "client_request", now[0], 5, b"hello")])
    found = files.find("a", "client_request")
    assert found is not None
    assert found.text == b"hello"
    assert files.find("b", "client_request") is None
    now[0] += 86_500
    assert files.find("a", "client_request") is None
    assert files.lengths("a") == {}
    files.write([Body("b", "client_request", now[0], 5, b"hello")])
    now[0] += 86_500 * 1.2
    files.write([Body("c", "client_request", now[0], 5, b"hello")])
    files.sweep()
    assert len(files.partitions()) == 1
    files.close()

    sealed = cipher.seal_body(b"hello", "a\0client_request")
    for other, name in (
        (cipher, "b\0client_request"),
        (AesGcmCipher(Secret("another key 1")), "a"),
    ):
        with pytest.raises(SealError):
            other.open_body(sealed, name)
    with pytest.raises(SealError):
        AesGcmCipher(None).seal_body(b"hello", "a")


def test_what_is_held_is_bounded_and_the_last_attempt_stays() -> None:
    kept = BodyCopies(1024)
    for _ in range(100):
        kept.add("client_answer", b"x" * 1000)
    assert kept.size < 10_000
    text, length = kept.bodies()["client_answer"]
    assert (len(text), length) == (1024, 100_000)
    for piece in (b"first", b"second"):
        kept.on_request(Mask(), b"request")
        kept.on_answer_data(piece)
    assert kept.bodies()["upstream_answer"] == (b"second", 6)


def test_over_a_socket(gateway: RunningGateway) -> None:
    with opened(gateway, authorization=f"Bearer {KEPT}") as socket:
        assert text_of(socket.turn("chat/sim-text?text=seven", WORD)) == "seven"
    request_id = latest(gateway)
    assert set(eventually(lambda: lengths(gateway, request_id))) == set(BODY_NAMES)
    shown = ask(gateway, "GET", f"/requests/{request_id}/bodies/client_answer", key=TOKEN)
    assert b"seven" in shown.body
