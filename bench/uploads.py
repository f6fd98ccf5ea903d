"""Large bodies through the gateway beside nginx: memory, throughput, CPU per megabyte.

    python -m bench.uploads                 # 1 GB up and down, alone; 20 of 100 MB at once
    python -m bench.uploads --megabytes 100 # sooner

An upload is a transcription, a download an answer of speech. Client and upstream are this program's
own: what they cost is on the same cores, so throughput is to be compared within one run.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Child, cpu_seconds, free_port, resident_bytes

_MEGABYTE = 1024 * 1024
_ZEROS = memoryview(bytes(_MEGABYTE))
_BOUNDARY = b"7d3f1c0a9b8e4f6d5c2a1b0e9f8d7c6b"
_HEAD = (
    b'--%b\r\nContent-Disposition: form-data; name="model"\r\n\r\nbench\r\n'
    b'--%b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
) % (_BOUNDARY, _BOUNDARY)
_TAIL = b"\r\n--%b--\r\n" % _BOUNDARY
_TEXT = b'{"text":"","usage":{"type":"duration","seconds":1}}'


@dataclass(frozen=True, slots=True)
class Figures:
    """What moving so many bytes took; `cpu` in microseconds per megabyte, `memory` is how much more
    was resident at the most."""

    rate: float
    cpu: float
    memory: float


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


def _skip(sock: socket.socket, size: int, buffer: bytearray) -> None:
    while size > 0:
        got = sock.recv_into(buffer, min(size, len(buffer)))
        if not got:
            raise ConnectionError("the other end closed")
        size -= got


def _send_zeros(sock: socket.socket, size: int) -> None:
    for _ in range(size // _MEGABYTE):
        sock.sendall(_ZEROS)
    sock.sendall(_ZEROS[: size % _MEGABYTE])


def _serve(sock: socket.socket) -> None:
    buffer = bytearray(_MEGABYTE)
    with sock:
        while (found := _read_head(sock))[0]:
            head, rest = found
            size = _length(head)
            if b"/audio/speech" in head:
                while len(rest) < size:
                    rest += sock.recv(65536)
                wanted = json.loads(rest)["bytes"]
                head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ncontent-length: %d\r\n\r\n"
                sock.sendall(head % wanted)
                _send_zeros(sock, wanted)
            else:
                _skip(sock, size - len(rest), buffer)
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                sock.sendall(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(_TEXT), _TEXT))


def _upstream(listener: socket.socket) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_serve, args=(sock,), daemon=True).start()


def _upload(port: int, size: int) -> None:
    buffer = bytearray(_MEGABYTE)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        total = len(_HEAD) + size + len(_TAIL)
        sock.sendall(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-bench"
            b"\r\ncontent-type: multipart/form-data; boundary=%b\r\ncontent-length: %d\r\n\r\n%b"
            % (_BOUNDARY, total, _HEAD)
        )
        _send_zeros(sock, size)
        sock.sendall(_TAIL)
        head, rest = _read_head(sock)
        _check(head)
        _skip(sock, _length(head) - len(rest), buffer)


def _download(port: int, size: int) -> None:
    buffer = bytearray(_MEGABYTE)
    asked = b'{"model":"bench","input":"x","voice":"alloy","bytes":%d}' % size
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(
            b"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-bench\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(asked), asked)
        )
        head, rest = _read_head(sock)
        _check(head)
        _skip(sock, size - len(rest), buffer)


def _check(head: bytes) -> None:
    if not head.startswith(b"http/1.1 200"):
        raise SystemExit(f"answered {head[:60]!r}")


_MOVES = {"up": _upload, "down": _download}


def _measured(move: str, port: int, pid: int, size: int, at_once: int) -> Figures:
    before, used = resident_bytes(pid), cpu_seconds(pid)
    started = time.perf_counter()
    threads = [
        threading.Thread(target=_MOVES[move], args=(port, size), daemon=True)
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
    used = (cpu_seconds(pid) - used) * 1e6 / moved
    return Figures(moved / seconds, used, (most - before) / _MEGABYTE)


@contextmanager
def _gateway(folder: Path, upstream: int) -> Iterator[tuple[int, int]]:
    port = free_port()
    config = folder / "dragoman.toml"
    config.write_text(
        f"""
[server]
port = {port}
upload_limit_bytes = {4 * 1024 * _MEGABYTE}
[storage]
path = ""
[[upstreams]]
name = "bench"
protocol = "openai_chat"
base_url = "http://127.0.0.1:{upstream}/v1"
endpoints = ["transcriptions", "speech"]
[[accounts]]
name = "one"
upstream = "bench"
key = "sk-upstream"
[[routes]]
match = "bench"
upstream = "bench"
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


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1024, help="of a body alone")
    parser.add_argument("--at-once", type=int, default=20, help="bodies, of a tenth of it each")
    parser.add_argument("--rounds", type=int, default=3)
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
        sys.stdout.write("| | MB/s | CPU us per MB | memory, MB |\n|---|---|---|---|\n")
        for move in _MOVES:
            for at_once in (1, chosen.at_once):
                size = chosen.megabytes * _MEGABYTE // (1 if at_once == 1 else 10)
                found: dict[str, list[Figures]] = {target: [] for target in targets}
                for _ in range(chosen.rounds):
                    for target, (port, pid) in targets.items():
                        found[target].append(_measured(move, port, pid, size, at_once))
                for target, figures in found.items():
                    row = f"{move}, {at_once} x {size // _MEGABYTE} MB, {target}"
                    rate = statistics.median(one.rate for one in figures)
                    cpu = statistics.median(one.cpu for one in figures)
                    memory = max(one.memory for one in figures)
                    sys.stdout.write(f"| {row} | {rate:.0f} | {cpu:.0f} | {memory:.1f} |\n")
                    sys.stdout.flush()
    process.terminate()


if __name__ == "__main__":
    _main()
