"""What the administration tells about clients: guides for this instance, and the doctor."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config import Admin, Route, Secret, Storage
from dragoman.lab.guides import GUIDES
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import RunningGateway, running_gateway
from tests.gateway.administration import TOKEN
from tests.gateway.conftest import SERVER, config_for
from tests.gateway.sessions import ask, made


@pytest.fixture
def gateway(simulator: RunningSimulator, tmp_path: Path) -> Iterator[RunningGateway]:
    config = config_for(simulator.base_url)
    config = replace(
        config,
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
        routes=(*config.routes, Route(match="sim-text", upstream="messages")),
    )
    with running_gateway(config) as running:
        yield running


def test_guides_are_filled_in_for_this_instance(gateway: RunningGateway) -> None:
    found = ask(gateway, "GET", "/guides", None, {"origin": gateway.base_url}, key=TOKEN).json
    assert found["url"] == gateway.base_url
    assert "sim-text" in found["models"]
    assert [guide["name"] for guide in found["guides"]] == [guide.name for guide in GUIDES]
    text = json.dumps(found)
    assert gateway.base_url in text
    assert "{url}" not in text
    assert "{model}" not in text
    other = ask(gateway, "GET", "/guides?url=https://llm.example.com/v1&model=m-1", key=TOKEN).json
    assert other["url"] == "https://llm.example.com"
    assert "https://llm.example.com/v1" in json.dumps(other)
    assert gateway.base_url not in json.dumps(other["guides"])


@pytest.mark.parametrize(
    ("query", "param"),
    [("url=ftp://x", "url"), ("url=http://x/'$(id)'", "url"), ("model=a'b", "model")],
)
def test_what_could_break_out_of_a_guide_is_refused(
    gateway: RunningGateway, query: str, param: str
) -> None:
    answer = ask(gateway, "GET", f"/guides?{query}", key=TOKEN)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)


def test_the_doctor_is_run_with_a_key_of_its_own(gateway: RunningGateway) -> None:
    asked = {"model": "sim-text", "protocols": ["openai_chat"]}
    answer = ask(gateway, "POST", "/doctor", asked, {"origin": gateway.base_url}, key=TOKEN)
    assert answer.status == 200, answer.body
    events = answer.body.decode().split("\n\n")
    lines = [json.loads(event.removeprefix("data: ")) for event in events if event]
    assert {"broken": False} in lines
    assert any("sim-text" in line.get("doing", "") for line in lines)
    states = {line["check"]: line["state"] for line in lines if "check" in line}
    assert states["server.auth"] == "ok"
    assert states["chat.done"] == "ok"

    assert not [
        key
        for key in ask(gateway, "GET", "/keys", key=TOKEN).json["keys"]
        if key["name"].startswith("doctor")
    ]
    changes = ask(gateway, "GET", "/audit?kind=key", key=TOKEN).json["changes"]
    assert [change["action"] for change in changes] == ["remove", "add"]
    assert changes[0]["name"] == changes[1]["name"]


def test_the_doctor_goes_nowhere_but_to_its_own_listener(gateway: RunningGateway) -> None:
    """Whatever the headers of the call say: it has a key with it."""
    asked = {"model": "sim-text", "protocols": ["openai_chat"]}
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        place = f"127.0.0.1:{elsewhere.getsockname()[1]}"
        headers = {"origin": f"http://{place}", "host": place, "x-forwarded-host": place}
        answer = ask(gateway, "POST", "/doctor", asked, headers, key=TOKEN)
        elsewhere.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert answer.status == 200, answer.body
    assert b'{"broken":false}' in answer.body


def test_the_doctor_trusts_the_certificate_of_its_own_listener(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """Which is for the names that clients use, and not for the address that it listens on."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=gateway.example -addext subjectAltName=DNS:gateway.example "
        f"-keyout {key} -out {certificate}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    server = replace(SERVER, tls_certificate=str(certificate), tls_key=str(key))
    config = replace(
        config_for(simulator.base_url, server=server),
        storage=Storage(path=str(tmp_path / "store.db"), sync_s=0.05),
        admin=Admin(key=Secret(TOKEN)),
        routes=(Route(match="sim-text", upstream="messages"),),
    )
    context = ssl.create_default_context(cafile=str(certificate))
    with running_gateway(config) as gateway:
        called = http.client.HTTPSConnection("127.0.0.1", gateway.port, timeout=60)
        called.sock = context.wrap_socket(
            socket.create_connection(("127.0.0.1", gateway.port)), server_hostname="gateway.example"
        )
        asked = json.dumps({"model": "sim-text", "protocols": ["openai_chat"]})
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        called.request("POST", "/admin/doctor", asked, headers)
        told = called.getresponse().read()
        called.close()
    assert b'{"broken":false}' in told


def test_the_doctor_is_for_admins(gateway: RunningGateway) -> None:
    viewer = made(gateway, "looker", "viewer")
    assert ask(gateway, "POST", "/doctor", {}, key=viewer).status == 403
    assert ask(gateway, "GET", "/guides", key=viewer).status == 200
    wrong: list[dict[str, object]] = [
        {"protocols": ["telepathy"]},
        {"protocols": []},
        {"model": 7},
        {"x": 1},
    ]
    for asked in wrong:
        assert ask(gateway, "POST", "/doctor", asked, key=TOKEN).status == 400
