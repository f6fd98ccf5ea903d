"""What is measured, each a process of its own: here nginx, the bare relay and the gateway."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.answers import METHODS, PATHS
from bench.processes import Child, free_port

CLIENT_KEY = "sk-bench"
"""The key that the load client sends; nginx and the relay ignore it."""

SHORT_NAMES = {
    "openai_chat": "chat",
    "anthropic_messages": "messages",
    "openai_responses": "responses",
    "google_generate_content": "google",
}
"""Protocols by what tables and options call them."""

LONG_NAMES = {short: name for name, short in SHORT_NAMES.items()}

MODELS = {name: f"bench-{short}" for name, short in SHORT_NAMES.items()}
"""The model names that lead to the upstream protocols, where the benchmark may choose them."""

_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Access:
    """How requests are addressed to a target.

    ``models`` and ``headers`` go by the upstream's protocol, ``paths`` by the client's; a path that
    is not named is the protocol's own, after ``base``.
    """

    models: Mapping[str, str] = field(default_factory=lambda: MODELS)
    headers: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    key: str = CLIENT_KEY

    def path(self, client: str, model: str, *, stream: bool) -> str:
        """Where requests of a protocol are sent."""
        path = self.paths.get(client) or self.base + PATHS[client]
        return path.replace("{model}", model).replace("{method}", METHODS[stream])


OURS = Access()
"""For nginx, the relay and the gateway."""


@dataclass(frozen=True, slots=True)
class Target:
    """A running process that requests can be sent to.

    ``started`` is the number of seconds from its start until it listened. ``slow`` is for targets
    that can take only a fraction of the load. ``caveats`` are sentences to be read beside the
    figures.
    """

    name: str
    port: int
    pid: int
    started: float
    slow: bool = False
    access: Access = OURS
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Ports of the load upstream, plain and TLS (0 where openssl is missing)."""

    plain: int
    tls: int
    cert: Path


@dataclass(frozen=True, slots=True)
class Cores:
    """The core for what is measured and the one for the load; None where pinning cannot be."""

    gateway: int | None
    load: int | None

    @classmethod
    def of_this_machine(cls) -> "Cores":
        """The last two cores this process may use; none where there is but one, or no taskset."""
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(allowed) < 2 or shutil.which("taskset") is None:
            return cls(None, None)
        return cls(gateway=allowed[-1], load=allowed[-2])


@contextmanager
def upstreams(folder: Path, cores: Cores, port: int = 0) -> Iterator[Upstreams]:
    """Start the load upstream, plain and with TLS; ``port`` is the plain one's, 0 for any."""
    cert = _certificate(folder)
    with ExitStack() as stack:
        plain = _load_upstream(stack, folder / "upstream.log", cores, None, port)
        tls = _load_upstream(stack, folder / "upstream-tls.log", cores, cert) if cert else 0
        yield Upstreams(plain, tls, cert or folder / "none")


def _load_upstream(
    stack: ExitStack, log: Path, cores: Cores, cert: Path | None, port: int = 0
) -> int:
    command = [sys.executable, "-m", "bench.load_upstream", "--port", str(port)]
    if cert is not None:
        command += ["--cert", str(cert)]
    child = stack.enter_context(Child(command, core=cores.load, log=log, env=_environment()))
    for _ in range(500):
        line, newline, _ = log.read_text().partition("\n")
        if newline and line.isdecimal():
            return int(line)
        if child.process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"the load upstream did not start: {log.read_text()[-500:]}")


@contextmanager
def nginx(folder: Path, cores: Cores, up: Upstreams) -> Iterator[dict[str, Target]]:
    """A plain relay in nginx, without and with TLS upstream; nothing where it is not installed."""
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if binary is None:
        yield {}
        return
    with ExitStack() as stack:
        targets = {}
        for tls in (False, True) if up.tls else (False,):
            port, where = free_port(), folder / f"nginx-{'tls' if tls else 'plain'}"
            where.mkdir()
            config = where / "nginx.conf"
            config.write_text(
                _NGINX.format(
                    where=where,
                    port=port,
                    scheme="https" if tls else "http",
                    upstream=up.tls if tls else up.plain,
                )
            )
            command = [binary, "-p", str(where), "-c", str(config), "-e", str(where / "error.log")]
            child = Child(command, core=cores.gateway, log=where / "out.log")
            stack.enter_context(child)
            targets["nginx, TLS" if tls else "nginx"] = Target(
                "nginx", port, child.pid, child.listening(port)
            )
        yield targets


_NGINX = """
daemon off;
worker_processes 1;
pid {where}/nginx.pid;
error_log {where}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_max_body_size 64m;
    client_body_buffer_size 1m;
    proxy_request_buffering off;
    client_body_temp_path {where}/body;
    proxy_temp_path {where}/proxy;
    fastcgi_temp_path {where}/fastcgi;
    uwsgi_temp_path {where}/uwsgi;
    scgi_temp_path {where}/scgi;
    upstream load {{ server 127.0.0.1:{upstream}; keepalive 512; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {scheme}://load;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


@contextmanager
def relay(folder: Path, cores: Cores, up: Upstreams) -> Iterator[Target]:
    """Two bare protocols with nothing in between (``bench/relay.py``)."""
    port = free_port()
    command = [sys.executable, "-m", "bench.relay", "--port", str(port)]
    command += ["--upstream", str(up.plain)]
    with Child(command, core=cores.gateway, log=folder / "relay.log", env=_environment()) as child:
        yield Target("relay", port, child.pid, child.listening(port))


@contextmanager
def dragoman(folder: Path, cores: Cores, up: Upstreams, root: Path = _ROOT) -> Iterator[Target]:
    """The gateway of a checkout, as a user starts it."""
    port, config = free_port(), folder / "dragoman.toml"
    config.write_text(configuration(port, up))
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    env = _environment(root) | {"SSL_CERT_FILE": str(up.cert)}
    name = "dragoman" if root == _ROOT else "before"
    with Child(command, core=cores.gateway, log=folder / "dragoman.log", env=env) as child:
        yield Target(name, port, child.pid, child.listening(port, 60.0))


def configuration(port: int, up: Upstreams, protocols: Collection[str] = SHORT_NAMES) -> str:
    """The gateway's configuration: an upstream of each of the protocols, with one account."""
    lines = ["[server]", f"port = {port}", "[[clients]]", 'name = "bench"', f'key = "{CLIENT_KEY}"']
    for tls in (False, True) if up.tls else (False,):
        base = f"https://127.0.0.1:{up.tls}" if tls else f"http://127.0.0.1:{up.plain}"
        for protocol in protocols:
            short = SHORT_NAMES[protocol]
            name = f"{short}-tls" if tls else short
            lines += ["[[upstreams]]", f'name = "{name}"', f'protocol = "{protocol}"']
            lines += [f'base_url = "{base}"']
            lines += ["[[accounts]]", f'name = "{name}"', f'upstream = "{name}"', 'key = "bench"']
            lines += ["[[routes]]", f'match = "bench-{name}"', f'upstream = "{name}"']
    return "\n".join([*lines, ""])


def _environment(root: Path = _ROOT) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}


def _certificate(folder: Path) -> Path | None:
    openssl = shutil.which("openssl")
    if openssl is None:
        return None
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    subprocess.run(
        f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
        f" -subj /CN=bench -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {cert}".split(),
        check=True,
        capture_output=True,
    )
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both
