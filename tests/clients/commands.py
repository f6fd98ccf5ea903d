"""How each program is started: its words, its environment, its settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.installed import (
    FOLDER,
    VENV_PYTHON,
    cline,
    missing,
    node,
    package,
    qwen_code,
)
from tests.clients.tasks import KEY, Api, Command, Program, Task, task_json
from tests.clients.visitors import VISITORS
from tests.matrix.judges import NODE_DIR, find_node

_WINDOW, _MOST = 200_000, 16_000
"""Tokens that a model of the gateway is said to read and to write, where a program must be told."""


def _claude_code(task: Task) -> Command:
    program = package("@anthropic-ai/claude-code", "bin/claude.exe")
    words = [
        *(str(program), "-p", task.prompt, "--model", task.model),
        *("--permission-mode", "acceptEdits", "--allowedTools", "Write", "Read", "Bash"),
    ]
    if task.resume:
        words.append("--continue")
    return Command(
        [*words, *task.arguments],
        {
            "ANTHROPIC_BASE_URL": task.url,
            "ANTHROPIC_AUTH_TOKEN": KEY,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": task.model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_AUTOUPDATER": "1",
        },
    )


def _codex(task: Task) -> Command:
    program = package("@openai/codex", "bin/codex.js")
    provider = {
        "name": '"gateway"',
        "base_url": json.dumps(f"{task.url}/v1"),
        "env_key": '"GATEWAY_KEY"',
        "wire_api": '"responses"',
        "request_max_retries": "0",
        "stream_max_retries": "0",
    }
    settings = {
        "model": json.dumps(task.model),
        "model_provider": '"gateway"',
        "check_for_update_on_startup": "false",
        **{f"model_providers.gateway.{name}": value for name, value in provider.items()},
    }
    words = [node(), str(program), "exec"]
    if task.resume:
        words += ["resume", "--last"]
    words += ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    for name, value in settings.items():
        words += ["-c", f"{name}={value}"]
    codex_home = task.home / ".codex"
    codex_home.mkdir(exist_ok=True)
    return Command(
        [*words, *task.arguments, task.prompt],
        {"CODEX_HOME": str(codex_home), "GATEWAY_KEY": KEY},
    )


def _opencode(api: Api) -> Callable[[Task], Command]:
    package_of: dict[Api, str] = {
        "chat": "@ai-sdk/openai-compatible",
        "messages": "@ai-sdk/anthropic",
        "responses": "@ai-sdk/openai",
    }

    def command(task: Task) -> Command:
        program = package("opencode-linux-x64", "bin/opencode")
        model = {
            "name": task.model,
            "reasoning": True,
            "tool_call": True,
            "limit": {"context": _WINDOW, "output": _MOST},
        }
        provider = {
            "npm": package_of[api],
            "name": "gateway",
            "options": {"baseURL": f"{task.url}/v1", "apiKey": KEY},
            "models": {task.model: model},
        }
        name = f"gateway/{task.model}"
        settings = {
            "provider": {"gateway": provider},
            "model": name,
            "small_model": name,
            "autoupdate": False,
            "share": "disabled",
        }
        _without_plugins(task.home / ".config/opencode")
        words = [str(program), "run", "--auto", "--model", name]
        if task.resume:
            words.append("--continue")
        return Command(
            [*words, *task.arguments],
            {
                "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
            },
            stdin=task.prompt,  # in its arguments it would be put in quotes
        )

    return command


def _without_plugins(folder: Path) -> None:
    """Have opencode find there what it would get from npm, for plugins that there are none of."""
    (folder / "node_modules").mkdir(parents=True, exist_ok=True)
    got = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    (folder / "package-lock.json").write_text(json.dumps(got))


def _pi(api: Api) -> Callable[[Task], Command]:
    kinds: dict[Api, str] = {
        "chat": "openai-completions",
        "messages": "anthropic-messages",
        "responses": "openai-responses",
    }

    def command(task: Task) -> Command:
        program = package("@mariozechner/pi-coding-agent", "package.json").parent / "dist/cli.js"
        model = {
            "id": task.model,
            "name": task.model,
            "reasoning": True,
            "input": ["text", "image"],
            "contextWindow": _WINDOW,
            "maxTokens": _MOST,
            "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0),
        }
        provider: dict[str, Any] = {
            "baseUrl": task.url if api == "messages" else f"{task.url}/v1",
            "apiKey": KEY,
            "api": kinds[api],
            "models": [model],
        }
        settings = task.home / ".pi/agent/models.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps({"providers": {"gateway": provider}}))
        words = [node(), str(program), "--provider", "gateway", "--model", task.model]
        words += ["--thinking", "low"]
        if task.resume:
            words.append("--continue")
        return Command([*words, *task.arguments, "--print", task.prompt], {"PI_OFFLINE": "1"})

    return command


def _qwen_code(api: Api) -> Callable[[Task], Command]:
    kinds: dict[Api, str] = {
        "chat": "openai",
        "messages": "anthropic",
        "responses": "openai-responses",
    }

    def command(task: Task) -> Command:
        words = [node(), str(qwen_code()), "--auth-type", kinds[api], "--model", task.model]
        words += ["--approval-mode", "yolo"]
        vendor, url = ("ANTHROPIC", task.url) if api == "messages" else ("OPENAI", f"{task.url}/v1")
        return Command(
            [*words, *task.arguments, task.prompt],
            {
                f"{vendor}_BASE_URL": url,
                f"{vendor}_API_KEY": KEY,
                f"{vendor}_MODEL": task.model,
                "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
            },
        )

    return command


WITHOUT_HUB = {"CLINE_SESSION_BACKEND_MODE": "local"}
"""Else cline starts a daemon in a process group of its own, which outlives it."""


def _cline(api: Api) -> Callable[[Task], Command]:
    name = {"chat": "openai-compatible", "responses": "openai-native"}[api]

    def command(task: Task) -> Command:
        settings: dict[str, Any] = {
            "provider": name,
            "apiKey": KEY,
            "model": task.model,
            "baseUrl": f"{task.url}/v1",
        }
        chosen = {
            "settings": settings,
            "updatedAt": "2026-11-21T00:00:00.000Z",
            "tokenSource": "manual",
        }
        file = task.home / ".cline/data/settings/providers.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            json.dumps(
                {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: chosen}}
            )
        )
        words = [str(cline()), "--provider", name, "--model", task.model]
        return Command([*words, *task.arguments, task.prompt], WITHOUT_HUB)

    return command


def _ai_sdk(provider: str) -> Callable[[Task], Command]:
    def command(task: Task) -> Command:
        package("ai", "package.json")
        return Command([node(), str(FOLDER / "ai_sdk.mjs")], stdin=task_json(task, provider))

    return command


def _openai_agents(provider: str) -> Callable[[Task], Command]:
    def command(task: Task) -> Command:
        if not VENV_PYTHON.exists():
            missing("the Python package openai-agents")
        # -I: neither this folder nor the caller's packages are seen.
        words = [str(VENV_PYTHON), "-I", str(FOLDER / "openai_agents.py")]
        return Command(words, stdin=task_json(task, provider))

    return command


def _openai_agents_js(task: Task) -> Command:
    words = [find_node(), str(NODE_DIR / "agents.mjs")]
    return Command(words, stdin=task_json(task, "responses"))


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        Program("claude-code", "messages", _claude_code, resumable=True),
        Program("codex", "responses", _codex, resumable=True),
        Program("opencode-chat", "chat", _opencode("chat"), resumable=True),
        Program("opencode-messages", "messages", _opencode("messages"), resumable=True),
        Program("opencode-responses", "responses", _opencode("responses"), resumable=True),
        Program("pi-chat", "chat", _pi("chat"), resumable=True),
        Program("pi-messages", "messages", _pi("messages"), resumable=True),
        Program("pi-responses", "responses", _pi("responses"), resumable=True),
        # Resumed, it lists the folder anew in its first message: that is another conversation.
        Program("qwen-code-chat", "chat", _qwen_code("chat"), absolute=True),
        Program("qwen-code-messages", "messages", _qwen_code("messages"), absolute=True),
        Program("qwen-code-responses", "responses", _qwen_code("responses"), absolute=True),
        Program("cline-chat", "chat", _cline("chat")),
        Program("cline-responses", "responses", _cline("responses")),
        Program("ai-sdk-chat", "chat", _ai_sdk("chat")),
        Program("ai-sdk-compatible", "chat", _ai_sdk("compatible")),
        Program("ai-sdk-responses", "responses", _ai_sdk("responses")),
        Program("ai-sdk-stored", "responses", _ai_sdk("stored")),
        Program("ai-sdk-summary", "responses", _ai_sdk("summary")),
        Program("ai-sdk-anthropic", "messages", _ai_sdk("anthropic")),
        Program("openai-agents-chat", "chat", _openai_agents("chat")),
        Program("openai-agents-responses", "responses", _openai_agents("responses")),
        Program("openai-agents-js", "responses", _openai_agents_js),
        *VISITORS,
    )
}
"""Every program by its name, `client-provider` where it speaks several protocols."""
