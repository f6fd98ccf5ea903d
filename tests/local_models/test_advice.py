"""What `dragoman check --online` says of a server of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from tests.faults.upstream import Upstream, answer, whole
from tests.upstream.servers import Call

MODEL = "house-9b"
TEMPLATE = "System message must be at the beginning."
EFFORTS = "Unexpected reasoning effort: high. Supported types are low, medium, xhigh"
LM_STUDIO = {
    "models": [
        {
            "key": MODEL,
            "max_context_length": 131072,
            "loaded_instances": [{"config": {"context_length": 8192}}],
        }
    ]
}
SERVERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "vllm": ({"max_model_len": 32768}, {}, "32768 tokens"),
    "sglang": ({"max_model_len": 16384}, {}, "16384 tokens"),
    "llamacpp": ({}, {"/props": {"default_generation_settings": {"n_ctx": 12288}}}, "12288 tokens"),
    "lmstudio": ({}, {"/api/v1/models": LM_STUDIO}, "8192 tokens"),
    "ollama": ({}, {"/api/show": {"model_info": {"x.context_length": 262144}}}, "4096 tokens"),
    "ollama with a window": ({}, {"/api/show": {"parameters": "num_ctx 65536"}}, "65536 tokens"),
}


def advised(upstream: Upstream, folder: Path, entry: Any, pages: Any, more: str = "") -> list[str]:
    """What is said of a server that lists its one model by `entry` and has these pages."""

    async def serve(call: Call) -> None:
        path = call.target.partition("?")[0]
        if path == "/v1/models":
            told: Any = {"object": "list", "data": [{"id": MODEL, **entry}]}
        elif path == "/v1/chat/completions":
            asked = json.loads(call.body)
            roles = [message["role"] for message in asked["messages"]]
            refusal = TEMPLATE if "system" in roles[1:] else ""
            refusal = EFFORTS if asked.get("reasoning_effort") == "high" else refusal
            if refusal:
                await call.send(answer(json.dumps({"error": {"message": refusal}}).encode(), 400))
            else:
                await call.send(answer(whole("chat", "ok")))
            return
        else:
            told = pages.get(path)
        await call.send(answer(json.dumps(told).encode(), 404 if told is None else 200))

    upstream.behaviours["key-of-the-house"] = serve
    file = folder / "dragoman.toml"
    file.write_text(
        f'storage.path = ""\n[[upstreams]]\nname = "house"\nprotocol = "openai_chat"\n'
        f'base_url = "{upstream.url}"\n{more}\n'
        '[[accounts]]\nname = "a"\nupstream = "house"\nkey = "key-of-the-house"\n'
    )
    done = CliRunner().invoke(main, ["check", "--online", "--config", str(file)])
    assert done.exit_code == 0, done.output
    return [line for line in done.stderr.splitlines() if f"house: {MODEL}: " in line]


@pytest.mark.parametrize(("entry", "pages", "window"), SERVERS.values(), ids=SERVERS)
def test_the_window_of_each_server_is_found(
    entry: dict[str, Any], pages: dict[str, Any], window: str, upstream: Upstream, tmp_path: Path
) -> None:
    said = advised(upstream, tmp_path, entry, pages)
    assert window in said[0]
    assert 'efforts = ["low","medium","xhigh"]' in said[1]
    assert len(said) == 2, "what is set by default for a Chat server needs no setting"


def test_what_is_set_is_not_proposed_again(upstream: Upstream, tmp_path: Path) -> None:
    more = '[upstreams.capabilities]\nefforts = ["low", "medium", "xhigh"]'
    assert advised(upstream, tmp_path, {}, {}, more) == []


def test_late_system_text_is_proposed_where_it_is_refused(
    upstream: Upstream, tmp_path: Path
) -> None:
    more = '[upstreams.capabilities]\nlate_system = "message"'
    said = advised(upstream, tmp_path, {}, {}, more)
    assert 'late_system = "user"' in said[0]
