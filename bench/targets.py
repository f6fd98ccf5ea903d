"""What is measured, each a process of its own: nginx, the bare relay, the gateway, LiteLLM."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Child, free_port

CLIENT_KEY = "sk-bench"
"""The key that the load client sends; every target but LiteLLM and the gateway ignores it."""

SHORT_NAMES = {
    "openai_chat": "chat",
    "anthropic_messages": "messages",
    "openai_responses": "responses",
}
"""The part of a model name that routes a request to an upstream protocol."""

_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Target:
    """A running process that requests can be sent to.

    ``started`` is the number of seconds from its start until it listened. ``slow`` is for targets
    that can take only a fraction of the load.
    """

    name: str
    port: int
    pid: int
    started: float
    slow: bool = False


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


def model(protocol: str, *, deltas: int = 1, rate: int = 0, tls: bool = False) -> str:
    """The model name that leads to an upstream protocol and paces the load upstream."""
    return f"bench-{SHORT_NAMES[protocol]}{'-tls' if tls else ''}-e{deltas}-r{rate}"


@contextmanager
def upstreams(folder: Path, cores: Cores) -> Iterator[Upstreams]:
    """Start the load upstream, plain and with TLS."""
    cert = _certificate(folder)
    with ExitStack() as stack:
        plain = _load_upstream(stack, folder / "upstream.log", cores, None)
        tls = _load_upstream(stack, folder / "upstream-tls.log", cores, cert) if cert else 0
        yield Upstreams(plain, tls, cert or folder / "none")


def _load_upstream(stack: ExitStack, log: Path, cores: Cores, cert: Path | None) -> int:
    command = [sys.executable, "-m", "bench.load_upstream"]
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
    """Our server and the upstream client, with nothing in between (``bench/relay.py``)."""
    port = free_port()
    command = [sys.executable, "-m", "bench.relay", str(port)]
    env = _environment() | {"BENCH_UPSTREAM": f"http://127.0.0.1:{up.plain}"}
    with Child(command, core=cores.gateway, log=folder / "relay.log", env=env) as child:
        yield Target("relay", port, child.pid, child.listening(port))


@contextmanager
def dragoman(folder: Path, cores: Cores, up: Upstreams) -> Iterator[Target]:
    """The gateway, as a user starts it."""
    port, config = free_port(), folder / "dragoman.toml"
    config.write_text(configuration(port, up))
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    env = _environment() | {"SSL_CERT_FILE": str(up.cert)}
    with Child(command, core=cores.gateway, log=folder / "dragoman.log", env=env) as child:
        yield Target("dragoman", port, child.pid, child.listening(port))


def configuration(port: int, up: Upstreams) -> str:
    """The gateway's configuration: an upstream of each protocol, with one account."""
    lines = ["[server]", f"port = {port}", "[[clients]]", 'name = "bench"', f'key = "{CLIENT_KEY}"']
    for tls in (False, True) if up.tls else (False,):
        base = f"https://127.0.0.1:{up.tls}" if tls else f"http://127.0.0.1:{up.plain}"
        for protocol, short in SHORT_NAMES.items():
            name = f"{short}-tls" if tls else short
            lines += ["[[upstreams]]", f'name = "{name}"', f'protocol = "{protocol}"']
            lines += [f'base_url = "{base}"']
            lines += ["[[accounts]]", f'name = "{name}"', f'upstream = "{name}"', 'key = "bench"']
            lines += ["[[routes]]", f'match = "bench-{name}-e*"', f'upstream = "{name}"']
    return "\n".join([*lines, ""])


@contextmanager
def litellm(folder: Path, cores: Cores, up: Upstreams, python: Path) -> Iterator[Target]:
    """LiteLLM's proxy, from the virtualenv of ``python``."""
    port, config = free_port(), folder / "litellm.yaml"
    lines = ["model_list:"]
    for short, provider, base in (
        ("chat", "openai", f"http://127.0.0.1:{up.plain}/v1"),
        ("messages", "anthropic", f"http://127.0.0.1:{up.plain}"),
    ):
        lines += [f'  - model_name: "bench-{short}-*"', "    litellm_params:"]
        lines += [f'      model: "{provider}/bench-{short}-*"', f'      api_base: "{base}"']
        lines += ['      api_key: "bench"']
    lines += ["general_settings:", f'  master_key: "{CLIENT_KEY}"']
    # Otherwise it would take the Responses endpoint of an OpenAI-like upstream instead of Chat.
    lines += ["litellm_settings:", "  use_chat_completions_url_for_anthropic_messages: true"]
    config.write_text("\n".join(lines))
    command = [str(python.parent / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1"]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    with Child(command, core=cores.gateway, log=folder / "litellm.log", env=env) as child:
        yield Target("litellm", port, child.pid, child.listening(port, 90.0), slow=True)


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src")])}


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
