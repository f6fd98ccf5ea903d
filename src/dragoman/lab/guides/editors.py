"""Editors, and programs with windows."""

from __future__ import annotations

from dragoman.lab.guides.guide import Guide

EDITORS = (
    Guide(
        "Cherry Studio",
        ("Chat", "Messages", "Responses"),
        (
            (
                "settings",
                """\
Model Provider > Add > provider type: OpenAI, OpenAI-Response or Anthropic
API Key:  {key}
API Host: {url}
Manage > choose {model}""",
            ),
        ),
        "Chat, Messages and Responses, streamed, with reasoning shown, images and tools (MCP).",
        "The vendor's own web search, on an upstream of another kind.",
        "It reads streams with the AI SDK. If nothing is shown, `dragoman doctor` reports which "
        "event is missing.",
    ),
    Guide(
        "Cursor",
        ("Chat",),
        (
            (
                "settings",
                """\
Cursor Settings > Models > API Keys
OpenAI API Key:           on, {key}
Override OpenAI Base URL: on, {url}/v1
Add Custom Model:         {model}""",
            ),
        ),
        "Chat in the modes in which Cursor lets keys of one's own be used; completion as one types "
        "is always Cursor's. By the documentation of others who stand in the same place; the tests "
        "do not run it.",
        "Not measured.",
        "Cursor's servers make the calls: the gateway must be reachable from the internet, with "
        "TLS, and the key goes through Cursor. Make a client key for it alone. The override "
        "applies to all of Cursor's OpenAI models while it is on.",
    ),
    Guide(
        "Zed",
        ("Chat", "Responses"),
        (
            (
                "~/.config/zed/settings.json",
                """\
{
  "language_models": {
    "openai_compatible": {
      "dragoman": {
        "api_url": "{url}/v1",
        "available_models": [
          {"name": "{name}", "max_tokens": {window}, "max_output_tokens": {output}}
        ]
      }
    }
  }
}""",
            ),
            ("shell", 'export DRAGOMAN_API_KEY="$DRAGOMAN_KEY"\nzed .'),
        ),
        "Zed's own agent, by its documentation; the tests do not run it.",
        "Not measured.",
        "Zed reads the key from the variable named for the provider, or from its own settings "
        "(`agent: open settings`), never from the file. `max_tokens` is the context window. "
        '`"capabilities": {"chat_completions": false}` in a model speaks Responses. Agents that '
        "Zed starts (Claude Code, Codex) have their own settings, above.",
    ),
    Guide(
        "Continue",
        ("Chat",),
        (
            (
                "~/.continue/config.yaml",
                """\
name: dragoman
version: 0.0.1
schema: v1
models:
  - name: "{model}"
    provider: openai
    model: "{model}"
    apiBase: "{url}/v1"
    apiKey: ${{ secrets.DRAGOMAN_KEY }}
    capabilities: [tool_use, image_input]""",
            ),
        ),
        "Chat, by its documentation; the tests ask its `cn` one question as pasted here.",
        "Not measured.",
        "Continue looks `secrets.DRAGOMAN_KEY` up in `.env` of the workspace, in "
        "`~/.continue/.env` and in its environment, and in no shell's file: an editor that was "
        "started from a menu needs one of the files.",
    ),
    Guide(
        "Kilo Code",
        ("Chat",),
        (
            (
                "~/.config/kilo/kilo.json",
                """\
{
  "$schema": "https://app.kilo.ai/config.json",
  "model": "dragoman/{model}",
  "provider": {
    "dragoman": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "dragoman",
      "options": {"baseURL": "{url}/v1", "apiKey": "{env:DRAGOMAN_KEY}"},
      "models": {"{model}": {"name": "{model}", "tool_call": true}}
    }
  }
}""",
            ),
        ),
        "Chat, in the editor and the terminal, by its documentation; the tests ask the latter one "
        "question as pasted here.",
        "Not measured.",
        "The same can be entered under Settings, Providers, Custom provider. An editor that was "
        "started from a menu has no `DRAGOMAN_KEY`: enter the key there.",
    ),
    Guide(
        "Open WebUI",
        ("Chat",),
        (
            (
                "shell",
                """\
export OPENAI_API_BASE_URL={url}/v1
export OPENAI_API_KEY="$DRAGOMAN_KEY"
open-webui serve --port 3000""",
            ),
        ),
        "Chat, with the list of models, by its documentation; the tests do not run it.",
        "Not measured.",
        "The variables count when it starts for the first time; later the same is under Admin "
        "Panel, Settings, Connections. In a container the gateway is not at `127.0.0.1` but at "
        "`host.docker.internal` or its service's name.",
    ),
)
