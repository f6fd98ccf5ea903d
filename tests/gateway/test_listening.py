"""TLS and Unix sockets, as the configuration names them."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config import ConfigError, parse_config, read_config
from dragoman.processes.listening import bind, bind_unix
from dragoman.processes.reload import ReloadError
from dragoman.server.server import Server, build_app, file_faults
from tests.gateway.http import KEY
from tests.gateway.processes import until

GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def certificate(folder: Path, name: str) -> None:
    """Files `key.pem` and `cert.pem` for a host of that name."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    command += f" -subj /CN={name} -addext subjectAltName=DNS:{name}"
    command += f" -keyout {folder}/key.pem -out {folder}/cert.pem"
    subprocess.run(command.split(), check=True, capture_output=True)


def configuration(folder: Path, server: str) -> Path:
    file = folder / "dragoman.toml"
    file.write_text(f'[server]\n{server}\n[[clients]]\nname = "me"\nkey = "{KEY}"\n')
    return file


@contextmanager
def running(file: Path) -> Iterator[tuple[Server, int]]:
    config = read_config(file).config
    server = Server(build_app(replace(config, storage=replace(config.storage, path="")), None))
    plug = bind("127.0.0.1", 0)
    port = plug.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([plug],))
    thread.start()
    try:
        until(lambda: server.started)
        yield server, port
    finally:
        server.stop()
        thread.join(20)


def name_shown(port: int) -> str:
    """The host that the certificate names."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain) as sock,
    ):
        sock.sendall(GET)
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
        shown = sock.getpeercert(binary_form=True)
    assert shown is not None
    pem = ssl.DER_cert_to_PEM_cert(shown)
    told = subprocess.run(
        ["openssl", "x509", "-noout", "-subject"], input=pem, text=True, capture_output=True
    )
    return told.stdout.rpartition("=")[2].strip()


def test_a_certificate_is_read_anew_at_a_reload(tmp_path: Path) -> None:
    """Whole or not at all."""
    certificate(tmp_path, "first.example")
    file = configuration(tmp_path, 'tls_certificate = "cert.pem"\ntls_key = "key.pem"')
    config = read_config(file).config
    with running(file) as (server, port):
        assert name_shown(port) == "first.example"
        certificate(tmp_path, "second.example")
        assert name_shown(port) == "first.example"
        server.adopt(server.prepare(config, 2))
        assert name_shown(port) == "second.example"
        (tmp_path / "cert.pem").write_text("none")
        with pytest.raises(ReloadError, match="PEM"):
            server.prepare(config, 3)
        (fault,) = file_faults(config)
        assert fault[0] == ("server", "tls_certificate")
        certificate(tmp_path, "third.example")
        command = f"openssl pkey -in {tmp_path}/key.pem -aes256 -passout pass:word"
        locked = subprocess.run(command.split(), check=True, capture_output=True).stdout
        (tmp_path / "key.pem").write_bytes(locked)
        assert "no certificate and key that belong together" in next(file_faults(config))[1]
        assert name_shown(port) == "second.example"


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    file = configuration(tmp_path, 'tls_certificate = "cert.pem"')
    with pytest.raises(FileNotFoundError):
        Server(build_app(read_config(file).config, None))
    with pytest.raises(ConfigError, match="tls_key"):
        parse_config('[server]\ntls_key = "key.pem"\n')


def test_a_unix_socket(tmp_path: Path) -> None:
    file = configuration(tmp_path, 'unix_socket = "socket"')
    path = tmp_path / "socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", "--config", str(file)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.settimeout(5)
                    sock.connect(str(path))
                    sock.sendall(GET)
                    assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
                    break
            except (FileNotFoundError, ConnectionRefusedError):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        # By whatever name it has where the command is run.
        command = [sys.executable, "-m", "dragoman", "reload", "--config", file.name]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert told.returncode == 0, told.stderr
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert not path.exists()


def test_a_socket_that_is_in_use_is_not_taken(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with bind_unix(path) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bind_unix(path)
    # Nobody listens any more: it was left behind.
    bind_unix(path).close()
    with pytest.raises(OSError, match="No such file"):
        bind_unix(str(tmp_path / "nowhere" / "socket"))
