"""Large bodies through the gateway beside nginx: memory, throughput, CPU per megabyte; and faults.

    python -m bench.uploads                  # 1 GB up and down, alone and 20 at once; faults
    python -m bench.uploads --megabytes 100  # sooner

An upload is a transcription, a download an answer of speech. Client and upstream are this program's
own: what they cost is on the same cores, so throughput is to be compared within one run. The faults
are those of `_AT_UPSTREAM` and `_AT_CLIENT`, each with bodies of `--faulty` megabytes at once.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import re
import shutil
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Child, cpu_seconds, descendants, free_port, resident_bytes

_MEGABYTE = 1024 * 1024
_ZEROS = memoryview(bytes(_MEGABYTE))
_BOUNDARY = b"7d3f1c0a9b8e4f6d5c2a1b0e9f8d7c6b"
_HEAD = (
    b'--%b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n'
    b'--%b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
)
_MODEL = re.compile(rb'name="model"\r\n\r\n([\w-]+)\r\n')
_TAIL = b"\r\n--%b--\r\n" % _BOUNDARY
_TEXT = b'{"text":"","usage":{"type":"duration","seconds":1}}'
_JSON = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_RESET = struct.pack("ii", 1, 0)

_GOOD = "good"
_AT_UPSTREAM = ("reset-head", "reset-body", "reset-end", "early-401", "early-413", "stall", "slow")
"""Names of models at which the upstream does so: it resets the connection after the head of the
request, or in that of its own; within a body; at the end of one; it answers before it has read;
takes or sends nothing more; or a megabyte in 50 ms."""
_AT_CLIENT = ("leaves", "slow-client")
"""The client leaves in the middle; takes or sends a megabyte in 50 ms."""
_PATIENCE_S = 3
"""Seconds after which the gateway gives up an upstream that stalls."""
_TOKEN = "an administrator of the benchmark"


@dataclass(frozen=True, slots=True)
class Figures:
    """What moving so many bytes took; `cpu` in microseconds per megabyte, of which `user` outside
    the kernel; `memory` is how much more was resident at the most. `outcomes` are statuses, or
    `cut` for answers that broke off."""

    rate: float
    cpu: float
    user: float
    memory: float
    outcomes: Counter[str]


def _read_head(sock: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return b"", b""
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.lower(), rest


def _length(head: bytes) -> int:
    return int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])


def _skip(sock: socket.socket, size: int, buffer: bytearray, pause: float = 0.0) -> None:
    while size > 0:
        got = sock.recv_into(buffer, min(size, len(buffer)))
        if not got:
            raise ConnectionError("the other end closed")
        size -= got
        if pause:
            time.sleep(pause * got / len(buffer))


def _send_zeros(sock: socket.socket, size: int, pause: float = 0.0) -> None:
    while size > 0:
        sock.sendall(_ZEROS[:size])
        size -= _MEGABYTE
        if pause:
            time.sleep(pause)


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()
    raise ConnectionError("reset here")


# The upstream


def _serve(sock: socket.socket) -> None:
    buffer = bytearray(_MEGABYTE)
    with sock, suppress(OSError):
        while (found := _read_head(sock))[0]:
            _answer(sock, *found, buffer)


def _answer(sock: socket.socket, head: bytes, rest: bytes, buffer: bytearray) -> None:
    is_download = b"/audio/speech" in head
    size = _length(head)
    if is_download:
        while len(rest) < size:
            rest += sock.recv(65536)
        asked = json.loads(rest)
        model, left = asked["model"], asked["bytes"]
        move: Callable[[socket.socket, int, bytearray, float], None] = _give
    else:
        while (named := _MODEL.search(rest)) is None:
            rest += sock.recv(65536)
        model, left, move = named[1].decode(), size - len(rest), _skip
    pause = 0.05 if model == "slow" else 0.0
    if model.startswith("early-"):
        # What was sent meanwhile is not read: then the end would be a reset.
        sock.sendall(_JSON % (int(model[-3:]), 2, b"{}"))
        _skip(sock, size, buffer)
        return
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: %d\r\n\r\n" % left
    if model == "reset-head":
        if is_download:
            sock.sendall(answer[:30])
        _reset(sock)
    if is_download:
        sock.sendall(answer)
    move(sock, left // 2, buffer, pause)
    if model == "reset-body":
        _reset(sock)
    if model == "stall":
        time.sleep(2 * _PATIENCE_S)
    move(sock, left - left // 2 - 1, buffer, pause)
    if model == "reset-end":
        _reset(sock)
    move(sock, 1, buffer, 0.0)
    if not is_download:
        sock.sendall(_JSON % (200, len(_TEXT), _TEXT))


def _give(sock: socket.socket, size: int, buffer: bytearray, pause: float) -> None:
    _send_zeros(sock, size, pause)


def _upstream(listener: socket.socket) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_serve, args=(sock,), daemon=True).start()


# Clients


def _upload(sock: socket.socket, size: int, model: str, pause: float) -> str:
    fields = _HEAD % (_BOUNDARY, model.encode(), _BOUNDARY)
    total = len(fields) + size + len(_TAIL)
    try:
        sock.sendall(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-bench"
            b"\r\ncontent-type: multipart/form-data; boundary=%b\r\ncontent-length: %d\r\n\r\n%b"
            % (_BOUNDARY, total, fields)
        )
        if model == "leaves":
            _send_zeros(sock, size // 2)
            _reset(sock)
        _send_zeros(sock, size, pause)
        sock.sendall(_TAIL)
    except ConnectionError:
        if model == "leaves":
            return "left"
        # There may be an answer all the same.
    head, rest = _read_head(sock)
    _skip(sock, _length(head) - len(rest), bytearray(_MEGABYTE))
    return head[9:12].decode()


def _download(sock: socket.socket, size: int, model: str, pause: float) -> str:
    asked = json.dumps({"model": model, "input": "x", "voice": "alloy", "bytes": size}).encode()
    sock.sendall(
        b"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-bench\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(asked), asked)
    )
    head, rest = _read_head(sock)
    left = _length(head) - len(rest)
    if model == "leaves":
        _skip(sock, left // 2, bytearray(_MEGABYTE))
        return "left"
    _skip(sock, left, bytearray(_MEGABYTE), pause)
    return head[9:12].decode()


_MOVES = {"up": _upload, "down": _download}


def _moved(move: str, port: int, size: int, model: str, outcomes: Counter[str]) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.settimeout(600)
        try:
            outcomes[_MOVES[move](sock, size, model, 0.05 if model == "slow-client" else 0.0)] += 1
        except TimeoutError:
            outcomes["hung"] += 1
        except (OSError, ValueError):
            outcomes["cut"] += 1


def _user_seconds(pid: int) -> float:
    ticks = 0
    for process in descendants(pid):
        ticks += int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11])
    return ticks / os.sysconf("SC_CLK_TCK")


def _measured(
    move: str, port: int, pid: int, size: int, at_once: int, model: str = _GOOD
) -> Figures:
    before, used, user = resident_bytes(pid), cpu_seconds(pid), _user_seconds(pid)
    started, outcomes = time.perf_counter(), Counter[str]()
    threads = [
        threading.Thread(target=_moved, args=(move, port, size, model, outcomes), daemon=True)
        for _ in range(at_once)
    ]
    for thread in threads:
        thread.start()
    most = before
    while any(thread.is_alive() for thread in threads):
        most = max(most, resident_bytes(pid))
        time.sleep(0.02)
    seconds = time.perf_counter() - started
    moved = size * at_once / _MEGABYTE
    return Figures(
        moved / seconds,
        (cpu_seconds(pid) - used) * 1e6 / moved,
        (_user_seconds(pid) - user) * 1e6 / moved,
        (most - before) / _MEGABYTE,
        outcomes,
    )


def _held(port: int, pid: int) -> tuple[int, int]:
    """Requests that accounts still have, and files that are still open in the spool directory."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/admin/accounts", headers={"authorization": f"Bearer {_TOKEN}"})
    accounts = json.loads(connection.getresponse().read())["accounts"]
    connection.close()
    files = 0
    for process in descendants(pid):
        for file in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                files += "/spool/" in os.readlink(file)
    return sum(one["in_flight"] for one in accounts), files


@contextmanager
def _gateway(folder: Path, upstream: int) -> Iterator[tuple[int, int]]:
    port = free_port()
    (folder / "spool").mkdir()
    config = folder / "dragoman.toml"
    own = "".join(
        f"""
[[upstreams]]
name = "{model}"
protocol = "openai_chat"
base_url = "http://127.0.0.1:{upstream}/v1"
endpoints = ["transcriptions", "speech"]
timeouts = {{ idle_s = {_PATIENCE_S} }}
[[accounts]]
name = "{model}"
upstream = "{model}"
key = "sk-upstream"
[[routes]]
match = "{model}"
upstream = "{model}"
"""
        for model in (_GOOD, *_AT_UPSTREAM, *_AT_CLIENT)
    )
    config.write_text(
        f"""
[server]
port = {port}
upload_limit_bytes = {4 * 1024 * _MEGABYTE}
spool_dir = "{folder}/spool"
[storage]
path = "{folder}/store.db"
[admin]
key = "{_TOKEN}"
{own}
[[clients]]
name = "bench"
key = "sk-bench"
"""
    )
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    with Child(command, core=None, log=folder / "gateway.log") as child:
        child.listening(port)
        yield port, child.pid


@contextmanager
def _nginx(folder: Path, upstream: int) -> Iterator[tuple[int, int]]:
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        f"""
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; client_max_body_size 0;
  client_body_temp_path {folder}; proxy_temp_path {folder};
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1;
      proxy_request_buffering off; proxy_buffering off;
    }}
  }}
}}
"""
    )
    with Child(["nginx", "-c", str(config)], core=None, log=folder / "nginx.log") as child:
        child.listening(port)
        yield port, child.pid


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _show_rates(
    targets: dict[str, tuple[int, int]], megabytes: int, most: int, rounds: int
) -> None:
    _say("| | MB/s | x nginx | CPU us per MB | outside the kernel | memory, MB |")
    _say("|---|---|---|---|---|---|")
    size = megabytes * _MEGABYTE
    for move in _MOVES:
        for at_once in (1, most):
            found: dict[str, list[Figures]] = {target: [] for target in targets}
            for _ in range(rounds):
                for target, (port, pid) in targets.items():
                    figures = _measured(move, port, pid, size, at_once)
                    if figures.outcomes.keys() != {"200"}:
                        raise SystemExit(f"{target} has answered {dict(figures.outcomes)}")
                    found[target].append(figures)
            rates = {name: statistics.median(one.rate for one in f) for name, f in found.items()}
            for target, all_of_it in found.items():
                cpu = statistics.median(one.cpu for one in all_of_it)
                user = statistics.median(one.user for one in all_of_it)
                memory = max(one.memory for one in all_of_it)
                ratio = rates[target] / rates["nginx"] if "nginx" in rates else float("nan")
                row = f"{move}, {at_once} x {megabytes} MB, {target}"
                figures_of_row = f"{rates[target]:.0f} | {ratio:.2f} | {cpu:.0f} | {user:.0f}"
                _say(f"| {row} | {figures_of_row} | {memory:.1f} |")


def _show_faults(port: int, pid: int, megabytes: int, at_once: int) -> None:
    size = megabytes * _MEGABYTE
    _say(
        f"\n| {at_once} x {megabytes} MB | outcomes | seconds | memory, MB | after | held | files |"
    )
    _say("|---|---|---|---|---|---|---|")
    for move in _MOVES:
        for model in (_GOOD, *_AT_UPSTREAM, *_AT_CLIENT):
            before, started = resident_bytes(pid), time.perf_counter()
            figures = _measured(move, port, pid, size, at_once, model)
            seconds = time.perf_counter() - started
            time.sleep(_PATIENCE_S + 1)
            after = (resident_bytes(pid) - before) / _MEGABYTE
            held, files = _held(port, pid)
            outcomes = ", ".join(f"{n} x {what}" for what, n in sorted(figures.outcomes.items()))
            row = f"{outcomes} | {seconds:.1f} | {figures.memory:.1f} | {after:.1f}"
            _say(f"| {move}, {model} | {row} | {held} | {files} |")


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1024, help="of a body")
    parser.add_argument("--at-once", type=int, default=20, help="bodies")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--faulty", type=int, default=16, help="megabytes of a body with a fault")
    chosen = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    upstream = listener.getsockname()[1]
    process = multiprocessing.get_context("fork").Process(
        target=_upstream, args=(listener,), daemon=True
    )
    process.start()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        os.chmod(folder, 0o777)
        targets = {"dragoman": stack.enter_context(_gateway(folder, upstream))}
        if shutil.which("nginx") is not None:
            targets["nginx"] = stack.enter_context(_nginx(folder, upstream))
        _say(f"Load average before: {os.getloadavg()[0]:.1f}\n")
        _show_rates(targets, chosen.megabytes, chosen.at_once, chosen.rounds)
        _show_faults(*targets["dragoman"], chosen.faulty, chosen.at_once)
        _say(f"\nLoad average after: {os.getloadavg()[0]:.1f}")
    process.terminate()


if __name__ == "__main__":
    _main()
