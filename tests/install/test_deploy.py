"""The container file, Compose, nginx and the systemd units, each by the program that reads it where
that can be had."""

from __future__ import annotations

import fnmatch
import os
import platform
import re
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config import Config, Server, Storage, parse_config
from dragoman.demo import ADMIN_KEY, KEY, demo_config
from dragoman.lab.simulator.testing import running_simulator
from dragoman.server.testing import running_gateway
from tests.cli.serving import free_port
from tests.gateway.certificates import self_signed
from tests.gateway.http import Connection, call
from tests.install.front import NGINX, nginx, program
from tests.install.sources import ROOT, tracked
from tests.install.tools import yaml_of

DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "container/Containerfile"
COMPOSE = DEPLOY / "compose"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file and what follows each."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [
        (name, rest) for name, _, rest in (line.partition(" ") for line in lines if line.strip())
    ]


def last(name: str) -> str:
    return [rest for found, rest in instructions() if found == name][-1]


def test_the_image_runs_as_nobody_with_a_health_check() -> None:
    names = [name for name, _ in instructions()]
    known = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL"}
    assert set(names) <= known | {"RUN", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER"))
    # OpenShift runs it as a user of its own, of group 0.
    run = last("RUN")
    assert "--group 0 --mode 0770 /var/lib/dragoman" in " ".join(run.split())
    assert names.index("USER") > max(at for at, name in enumerate(names) if name == "RUN")
    assert "/healthz" in last("HEALTHCHECK")
    assert last("STOPSIGNAL") == "SIGTERM"
    assert not [rest for name, rest in instructions() if name in ("ENV", "ARG") and "KEY" in rest]


def test_images_of_others_are_named_by_digest() -> None:
    """And may be given by who builds and starts them. The gateway's own is built here."""
    by_digest = r"docker\.io/library/[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}"
    [base] = [rest for name, rest in instructions() if name == "ARG"]
    assert re.fullmatch(f"BASE={by_digest}", base)
    assert {rest.split()[0] for name, rest in instructions() if name == "FROM"} == {"${BASE}"}
    images = {name: one["image"] for name, one in compose()["services"].items()}
    for name, image in images.items():
        if name.startswith("gateway-"):
            assert image == "${DRAGOMAN_IMAGE:-dragoman:latest}"
        else:
            assert re.fullmatch(rf"\${{{name.upper()}_IMAGE:-{by_digest}}}", image)


def test_the_health_check_tells_a_gateway_from_nothing(tmp_path: Path) -> None:
    """The very words of the image, at a port of ours."""
    (words,) = re.findall(r"CMD (\[.*\])", last("HEALTHCHECK"))
    python, option, code = yaml_of(words)
    assert (python, option) == ("python", "-c")

    def status(port: int) -> int:
        here = code.replace(":8080/", f":{port}/")
        # Of a container behind a proxy, which does not lead to itself.
        environ = {**os.environ, "http_proxy": f"http://127.0.0.1:{nobody}"}
        command = ["python3", option, here]
        return subprocess.run(command, capture_output=True, env=environ).returncode

    nobody = free_port()
    with running_simulator() as simulator:
        config = demo_config(simulator.base_url)
        with running_gateway(config) as one:
            assert status(one.port) == 0
        pem = str(self_signed(tmp_path))
        server = replace(config.server, tls_certificate=pem, tls_key=pem)
        with running_gateway(replace(config, server=server)) as one:
            assert status(one.port) == 0
    assert status(nobody) != 0


def test_what_a_killed_worker_leaves_behind_is_reaped() -> None:
    """Its children become those of the container's first process, which must not be the gateway."""
    for name, service in compose()["services"].items():
        if name.startswith("gateway-"):
            assert service["init"] is True, name
    for line in (DEPLOY / "README.md").read_text().splitlines():
        if line.startswith("docker run"):
            assert "--init" in line.split()


def test_what_the_image_is_built_of_is_there_and_reaches_the_builder() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    assert rules[0] == "*"
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    sources: list[str] = []
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            sources += rest.split()[:-1]
    assert "src" in sources
    for source in sources:
        assert (ROOT / source).exists()
        assert any(source == rule or source.startswith(f"{rule}/") for rule in let_in), source
    wanted = {path for path in tracked() if path.startswith("src/")}
    shut_out = [rule for rule in rules[1:] if not rule.startswith("!")]
    assert not [one for one in wanted for rule in shut_out if fnmatch.fnmatch(one, rule)]


def compose() -> Any:
    return yaml_of((COMPOSE / "compose.yaml").read_text())


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s", text)
    assert found is not None
    return int(found[1])


def test_compose_starts_the_gateway_that_its_configuration_describes(tmp_path: Path) -> None:
    services = compose()["services"]
    front, database = services.pop("nginx"), services.pop("postgres")
    gateway = services["gateway-1"]
    assert services.keys() == {"gateway-1", "gateway-2"}
    for name, service in services.items():
        assert service["hostname"] == name
        assert {**service, "networks": 0, "hostname": 0} == {
            **gateway,
            "networks": 0,
            "hostname": 0,
        }
    assert front["depends_on"].keys() == services.keys()
    assert set(re.findall(r"server (gateway-\d):8080", NGINX.read_text())) == services.keys()
    for name in (*gateway["secrets"], *database["secrets"]):
        assert compose()["secrets"][name]["file"] == f"./secrets/{name}"
        assert f"> secrets/{name}" in (DEPLOY / "README.md").read_text()
    text = (COMPOSE / "dragoman.toml").read_text()
    named = set(re.findall(r"file:/run/secrets/([a-z0-9-]+)", text))
    assert named == set(gateway["secrets"])
    for name in named:
        (tmp_path / name).write_text(f"sk-of-tests-{name}")
    (tmp_path / "database-url").write_text("postgresql://dragoman:secret@postgres/dragoman")
    loaded = parse_config(text.replace("/run/secrets", str(tmp_path)))
    # No other machine is on the network of the database.
    assert [one.key for one in loaded.warnings] == ["storage.url"]
    server = loaded.config.server
    for service in (gateway, front):
        assert seconds(service["stop_grace_period"]) > server.shutdown_grace_s
    for service in (gateway, front, database):
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert not service["user"].startswith("0")
    (network,) = compose()["networks"]["inside"]["ipam"]["config"]
    assert server.trusted_proxies == (network["subnet"],)
    assert (loaded.config.storage.path, loaded.config.storage.place) == (None, "PostgreSQL")
    assert not {"ports"} & (gateway.keys() | database.keys())
    for needed in (*front["depends_on"].values(), *gateway["depends_on"].values()):
        assert needed["condition"] == "service_healthy"
    user = database["environment"]["POSTGRES_USER"]
    assert f"postgresql://{user}:$(cat" in (DEPLOY / "README.md").read_text()
    assert gateway["user"] == last("USER")


def test_streams_come_through_nginx_as_they_come(tmp_path: Path) -> None:
    # The gateway asks nginx for it with each stream, too; the file is not to depend on that.
    assert "proxy_buffering off;" in NGINX.read_text()
    with (
        running_simulator() as simulator,
        running_gateway(demo_config(simulator.base_url)) as gateway,
        nginx([gateway.port], tmp_path) as url,
    ):
        question = {
            "model": "chat/sim-text?words=10&delay_ms=100",
            "stream": True,
            "messages": [{"role": "user", "content": "Hello!"}],
        }
        with Connection(url) as connection:
            authorization = {"authorization": f"Bearer {KEY}"}
            connection.send("POST", "/v1/chat/completions", question, authorization)
            arrivals: list[float] = []
            received = b""
            while b"[DONE]" not in received:
                piece = connection.sock.recv(65536)
                assert piece, received
                received += piece
                arrivals.append(time.monotonic())
        assert received.startswith(b"HTTP/1.1 200")
        # Ten words a tenth of a second apart: buffered, they would come at once at the end.
        assert len(arrivals) >= 8
        assert arrivals[-1] - arrivals[0] > 0.5
        for path in ("/ui", "/admin", "/admin/accounts", "/metrics"):
            assert call(url, "GET", path, key=KEY).status == 404
        assert call(url, "GET", "/", key=None).json["name"] == "dragoman"
        assert call(url, "GET", "/v1/models", key=KEY).status == 200


def test_the_page_of_compose_is_that_of_one_gateway(tmp_path: Path) -> None:
    """A session that began there goes on there, and a change is accepted as one of its page."""
    page, (_, ports) = free_port(), compose()["services"]["nginx"]["ports"]
    assert ports.endswith("127.0.0.1:8081}:8081")
    url = f"http://127.0.0.1:{page}"
    trusting = Server(keepalive_s=5.0, trusted_proxies=("127.0.0.0/8",))
    storage = Storage(path=str(tmp_path / "store.db"))

    def of_demo(base_url: str) -> Config:
        return replace(demo_config(base_url), server=trusting, storage=storage)

    with (
        running_simulator() as simulator,
        running_gateway(of_demo(simulator.base_url)) as first,
        running_gateway(of_demo(simulator.base_url)) as second,
        nginx([first.port, second.port], tmp_path, page=page),
    ):
        assert call(url, "GET", "/", key=None).headers["location"].endswith("/ui")
        assert call(url, "GET", "/v1/models", key=KEY).status == 404
        assert b"<title>dragoman</title>" in call(url, "GET", "/ui", key=None).body
        origin = {"host": f"127.0.0.1:{page}", "origin": url}
        begun = call(url, "POST", "/admin/session", {"key": ADMIN_KEY}, origin, key=None)
        assert (begun.status, begun.json["instance"]) == (200, platform.node())
        cookie = begun.headers["set-cookie"].partition(";")[0]
        session = {**origin, "cookie": cookie, "x-dragoman-csrf": begun.json["csrf"]}
        for _ in range(6):
            assert call(url, "GET", "/admin/session", headers=session, key=None).json["name"]
        change = {"do": "disable", "names": ["chat-1"]}
        done = call(url, "POST", "/admin/accounts/do", change, session, key=None)
        assert done.status == 200, done.body
        assert done.json["done"] == ["chat-1"]


def heard(listener: socket.socket, heads: list[bytes]) -> None:
    """Take connections, note the head of each request, and close."""
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        with peer:
            head = b""
            while b"\r\n\r\n" not in head:
                head += peer.recv(65536)
            heads.append(head.lower())
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


def test_nginx_passes_upgrades_on_and_no_address_that_a_client_tells(tmp_path: Path) -> None:
    heads: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=heard, args=(listener, heads), daemon=True).start()
        with nginx([listener.getsockname()[1]], tmp_path) as url:
            heads.clear()
            call(url, "GET", "/v1/models", headers={"x-forwarded-for": "6.6.6.6"}, key=None)
            upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
            call(url, "GET", "/v1/responses", headers=upgrade, key=None)
    plain, upgraded = heads
    assert b"x-forwarded-for: 127.0.0.1\r\n" in plain
    assert b"6.6.6.6" not in plain
    assert b"connection: close" not in plain
    assert b"upgrade:" not in plain
    assert b"connection: upgrade\r\n" in upgraded
    assert b"upgrade: websocket\r\n" in upgraded


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units, with a program that is there: only its place is not checked."""
    made = []
    for name in ("dragoman.service", "dragoman.socket"):
        text = (DEPLOY / "systemd" / name).read_text()
        made.append(tmp_path / name)
        made[-1].write_text(text.replace("/opt/dragoman/bin/dragoman", "/bin/true"))
    return made


def test_systemd_understands_the_units(units: list[Path]) -> None:
    done = subprocess.run(
        [program("systemd-analyze"), "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stderr.splitlines() if "dragoman" in line]
    assert told == []
    assert done.returncode == 0, done.stderr


def test_the_unit_is_hardened(units: list[Path]) -> None:
    """Systemd's own judgement, of at most 2.0 of 10."""
    analyze = [program("systemd-analyze"), "security", "--offline=yes", "--no-pager"]
    done = subprocess.run(
        [*analyze, "--threshold=20", str(units[0])], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_unit_lets_streams_end_and_reloads() -> None:
    text = (DEPLOY / "systemd/dragoman.service").read_text()
    settings = dict(re.findall(r"^([A-Za-z]+)=(.*)$", text, flags=re.MULTILINE))
    default = parse_config("").config.server.shutdown_grace_s
    assert float(settings["TimeoutStopSec"]) > default
    assert settings["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert settings["Requires"] == "dragoman.socket"
