"""Certificates made for a test, and a simulator behind one."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def self_signed(folder: Path, name: str = "127.0.0.1", days: int = 1) -> Path:
    """A certificate for an address or host, with its key in the same file. `days` is when it ends:
    negative for one that has expired."""
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        named: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        named = x509.DNSName(name)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    ends = datetime.now(UTC) + timedelta(days=days)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ends - timedelta(days=10))
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([named]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{name}-{days}.pem"
    path.write_bytes(made.public_bytes(pem) + private)
    return path


@contextmanager
def behind_tls(base_url: str, certificate: Path, clients: Path | None = None) -> Iterator[str]:
    """The server at `base_url` over TLS with this certificate; yields the URL. `clients` is the
    certificate that clients must show, if they must."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    parts = urlsplit(base_url)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(
            target=_accept, args=(listening, context, (parts.hostname, parts.port)), daemon=True
        ).start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}{parts.path}"
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, context: ssl.SSLContext, to: tuple[str, int]) -> None:
    with suppress(OSError):
        while True:
            plain, _ = listening.accept()
            threading.Thread(target=_relay, args=(plain, context, to), daemon=True).start()


def _relay(plain: socket.socket, context: ssl.SSLContext, to: tuple[str, int]) -> None:
    with (
        suppress(OSError),
        plain,
        context.wrap_socket(plain, server_side=True) as client,
        socket.create_connection(to) as server,
    ):
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
