"""Agents of the terminal."""

from __future__ import annotations

from dragoman.lab.guides.guide import Guide

AGENTS = (
    Guide(
        "Claude Code",
        ("Messages",),
        (
            (
                "shell",
                """\
export ANTHROPIC_BASE_URL={url}
export ANTHROPIC_AUTH_TOKEN="$DRAGOMAN_KEY"
export ANTHROPIC_MODEL={model}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={model}
export CLAUDE_CODE_MAX_CONTEXT_TOKENS={window}
claude""",
            ),
            (
                "~/.claude/settings.json",
                """\
{
  "env": {
    "ANTHROPIC_BASE_URL": "{url}",
    "ANTHROPIC_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "{model}",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{model}",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "{window}",
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS": "3600000"
  },
  "apiKeyHelper": "printenv DRAGOMAN_KEY"
}""",
            ),
        ),
        "Everything on Chat, Messages and Responses upstreams: tools one by one and at once, "
        "deferred tools and tool search, images and PDFs in tool results, thinking that comes back "
        "in the next turn, system messages in the middle of a conversation, interruption and "
        "`--continue`. "
        "`/context` is counted by the upstream where it can count, else estimated and marked so.",
        "On Chat and Responses: cache marks, `context_management`, effort finer than the "
        "upstream knows, and `WebSearch`, unless `[search]` has it made; with "
        '`hosted_tools = "map"` Responses upstreams search with their own. On every upstream but '
        "Anthropic's own, the text "
        "`x-anthropic-billing-header` on purpose: it changes with every request and would defeat "
        "the prompt cache.",
        "Either of the two is enough. `apiKeyHelper` is any command that prints the key, so that "
        "it need not be in a file or in the environment (`security`, `op`, `vault`): it is asked "
        "again after `CLAUDE_CODE_API_KEY_HELPER_TTL_MS`; do not set `ANTHROPIC_AUTH_TOKEN` "
        "beside it. `ANTHROPIC_MODEL` is the model a session begins with; "
        "`ANTHROPIC_DEFAULT_OPUS_MODEL`, `_SONNET_` and `_HAIKU_` are what the names `opus`, "
        "`sonnet` and `haiku` stand for, and the last is also that of titles and summaries. For a "
        "model whose name it does not know it assumes a context window of a million tokens, unless "
        "`CLAUDE_CODE_MAX_CONTEXT_TOKENS` says what the model has, and compacts too late. With "
        "`CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1` the picker of `/model` shows those of this "
        "gateway's models whose names have `claude` or `anthropic` in them; people who sign in are "
        "given all of theirs ([people](people.md#managed-settings)). An "
        "[MCP server](mcp.md) of the gateway: `claude mcp add --transport http NAME "
        '{url}/mcp/NAME --header "Authorization: Bearer $DRAGOMAN_KEY"`. A `max_tokens` above '
        "the upstream's limit is fitted to `max_output_tokens` of the route's capabilities.",
    ),
    Guide(
        "Codex",
        ("Responses",),
        (
            (
                "~/.codex/config.toml",
                """\
model = "{model}"
model_provider = "dragoman"

[model_providers.dragoman]
name = "dragoman"
base_url = "{url}/v1"
env_key = "DRAGOMAN_KEY"
wire_api = "responses"
model_catalog_url = "{url}/v1/models\"""",
            ),
            ("shell", "codex"),
        ),
        "Tool loops on Chat, Messages and Responses upstreams: shell, `apply_patch` (a free-text "
        "tool with a grammar: where there are none it becomes a function with one string, and its "
        "calls are turned back), namespaces of tools, tools given inside the input (models named "
        "`gpt-6-*`), tool search, encrypted reasoning, compaction, `codex exec resume`.",
        "`web_search` elsewhere than on Responses, unless `[search]` has it made; with "
        '`hosted_tools = "map"` in the options Messages upstreams search with their own. '
        "The grammar of a free-text tool is described to the model and not enforced. "
        "`text.verbosity` on Messages, `client_metadata` everywhere but on Responses.",
        "`env_key` is the name of a variable, never the key itself. By `model_catalog_url` Codex "
        "knows the models that the key may use: their windows (`context_window` of the route's "
        "capabilities, else what the upstream lists, else 128,000), their effort words "
        "(`efforts`), and that they take `apply_patch`. "
        "With `supports_websockets = true` in the provider it conducts its conversation over a "
        "WebSocket and sends only what is new ([more](websocket.md)). "
        "Messages upstreams "
        "cache only what is marked, and Codex marks nothing: set `auto_cache = true` in the "
        "route's capabilities. An [MCP server](mcp.md) of the gateway: `codex mcp add NAME --url "
        "{url}/mcp/NAME --bearer-token-env-var DRAGOMAN_KEY`.",
    ),
    Guide(
        "opencode",
        ("Chat", "Messages", "Responses"),
        (
            (
                "~/.config/opencode/opencode.json",
                """\
{
  "$schema": "https://opencode.ai/config.json",
  "model": "dragoman/{model}",
  "provider": {
    "dragoman": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "dragoman",
      "options": {"baseURL": "{url}/v1", "apiKey": "{env:DRAGOMAN_KEY}"},
      "models": {
        "{name}": {"name": "{name}", "limit": {"context": {window}, "output": {output}}}
      }
    }
  }
}""",
            ),
        ),
        "Tool loops on Chat, Messages and Responses upstreams, reasoning sent back.",
        "Cache marks, when it speaks Messages to another kind of upstream; `text.verbosity` and "
        "`prompt_cache_key` of Responses on Messages.",
        '`"npm"` chooses the protocol: `@ai-sdk/openai-compatible` is Chat, `@ai-sdk/anthropic` '
        "Messages, `@ai-sdk/openai` Responses; all with the same `baseURL`, which must end in "
        "`/v1`.",
    ),
    Guide(
        "qwen-code",
        ("Chat", "Messages", "Responses"),
        (
            (
                "shell",
                """\
export OPENAI_BASE_URL={url}/v1
export OPENAI_API_KEY="$DRAGOMAN_KEY"
qwen --auth-type openai --model {model}""",
            ),
        ),
        "Tool loops on Chat, Messages and Responses upstreams; tool results in parts, reasoning "
        "sent back.",
        "On Messages, for a model it does not know, it asks for as many thinking tokens as output "
        "tokens, which the service refuses: the gateway makes room, and reports it.",
        "`--continue` lists the folder again at the beginning of the conversation, so that the "
        "upstream's cache finds little of it if files were written. "
        "`--auth-type openai-responses` speaks Responses with the same variables; "
        "`--auth-type anthropic` speaks Messages with `ANTHROPIC_BASE_URL={url}` and "
        "`ANTHROPIC_API_KEY`.",
    ),
    Guide(
        "pi",
        ("Chat", "Messages", "Responses"),
        (
            (
                "~/.pi/agent/models.json",
                """\
{
  "providers": {
    "dragoman": {
      "baseUrl": "{url}/v1",
      "api": "openai-completions",
      "apiKey": "DRAGOMAN_KEY",
      "models": [{"id": "{model}", "reasoning": true}]
    }
  }
}""",
            ),
            ("shell", "pi --provider dragoman --model {model}"),
        ),
        "Tool loops on Chat, Messages and Responses upstreams, thinking sent back.",
        "Cache marks and `eager_input_streaming`, when it speaks Messages to another kind of "
        "upstream; a budget of thinking tokens becomes an effort.",
        "`apiKey` is the name of an environment variable, which pi looks up. "
        '`"api": "openai-responses"` speaks Responses, `"anthropic-messages"` Messages (with '
        '`"baseUrl": "{url}"`).',
    ),
    Guide(
        "cline",
        ("Chat", "Responses"),
        (
            (
                "shell",
                """\
cline auth openai-compatible --apikey "$DRAGOMAN_KEY" --baseurl {url}/v1 --modelid {model}
cline --provider openai-compatible --model {model}""",
            ),
        ),
        "Tool loops on Chat, Messages and Responses upstreams.",
        "`web_search` and `image_generation` (Responses) elsewhere than on Responses; with "
        '`hosted_tools = "map"` in the options Messages upstreams search with their own.',
        "It does not try again after a stream that was cut: what the gateway can repeat before "
        "the first event, it repeats.",
    ),
    Guide(
        "crush",
        ("Chat", "Messages"),
        (
            (
                "~/.config/crush/crush.json",
                """\
{
  "$schema": "https://charm.land/crush.json",
  "providers": {
    "dragoman": {
      "type": "openai-compat",
      "base_url": "{url}/v1",
      "api_key": "$DRAGOMAN_KEY",
      "models": [
        {"id": "{name}", "context_window": {window}, "default_max_tokens": {output}}
      ]
    }
  }
}""",
            ),
        ),
        "Tool loops on Chat, Messages and Responses upstreams.",
        "Nothing of note.",
        'crush itself replaces `$DRAGOMAN_KEY`. `"type": "anthropic"` speaks Messages.',
    ),
    Guide(
        "Gemini CLI",
        ("Google",),
        (
            (
                "shell",
                """\
export GOOGLE_GEMINI_BASE_URL={url}
export GEMINI_API_KEY="$DRAGOMAN_KEY"
gemini --model {model}""",
            ),
            (
                "~/.gemini/settings.json",
                """\
{
  "security": {"auth": {"selectedType": "gemini-api-key"}}
}""",
            ),
        ),
        "Tool loops as its version 0.61 makes them: parallel calls, signatures, thoughts. The "
        "tests do not run it.",
        "Nothing of note.",
        "Without `selectedType` it stops with `Invalid auth method selected` when a base URL is "
        "set. It asks no list of models: name one. It tries again by itself up to ten times.",
    ),
    Guide(
        "Copilot CLI",
        ("Chat", "Messages", "Responses"),
        (
            (
                "shell",
                """\
export COPILOT_PROVIDER_BASE_URL={url}/v1
export COPILOT_PROVIDER_API_KEY="$DRAGOMAN_KEY"
export COPILOT_MODEL={model}
copilot""",
            ),
        ),
        "Any model that calls tools and streams, by GitHub's documentation; the tests ask it one "
        "question as pasted here.",
        "Not measured.",
        "`COPILOT_PROVIDER_WIRE_API=responses` speaks Responses, "
        "`COPILOT_PROVIDER_TYPE=anthropic` with `COPILOT_PROVIDER_BASE_URL={url}` Messages. "
        "`copilot help providers` lists all variables.",
    ),
    Guide(
        "Aider",
        ("Chat",),
        (
            (
                "shell",
                """\
export OPENAI_API_BASE={url}/v1
export OPENAI_API_KEY="$DRAGOMAN_KEY"
aider --model openai/{model}""",
            ),
        ),
        "Chat, by its documentation; the tests ask it one question as pasted here.",
        "Not measured.",
        "The `openai/` before the model is Aider's own mark, and is not sent. It warns of models "
        "it does not know: `--no-show-model-warnings`.",
    ),
    Guide(
        "Goose",
        ("Chat",),
        (
            (
                "shell",
                """\
export GOOSE_PROVIDER=openai
export GOOSE_MODEL={model}
export OPENAI_HOST={url}
export OPENAI_API_KEY="$DRAGOMAN_KEY"
goose session""",
            ),
        ),
        "Chat, by its documentation; the tests do not run it.",
        "Not measured.",
        "`OPENAI_HOST` has no `/v1`: it is in `OPENAI_BASE_PATH`, whose default is right. "
        "A key that `goose configure` has put into the keyring may come before the variable.",
    ),
    Guide(
        "OpenHands",
        ("Chat",),
        (
            (
                "shell",
                """\
export LLM_BASE_URL={url}/v1
export LLM_API_KEY="$DRAGOMAN_KEY"
export LLM_MODEL=openai/{model}
openhands --override-with-envs""",
            ),
        ),
        "Chat, by its documentation; the tests do not run it.",
        "Not measured.",
        "Without `--override-with-envs` the variables are not read. In its web interface the same "
        "three stand under Settings, LLM, Advanced. What runs in a container does not reach this "
        "machine's `127.0.0.1`.",
    ),
)
