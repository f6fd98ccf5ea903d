"""How clients are pointed at an instance: the lines for each, what works, and what is lost.

`dragoman demo` prints the lines for itself; `docs/clients.md` is written from the same data
(`python -m dragoman.guides docs/clients.md`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct


class Guide(Struct, frozen=True):
    """One client.

    `setup` are pairs of where it goes (a file, `shell`, `python`, `javascript`, `settings`) and
    the text, in which `{url}` (without `/v1`), `{key}` and `{model}` stand for the instance's.
    `speaks` are the protocols it can speak, in the words of this page. `works`, `lost` and
    `notes` are Markdown.
    """

    name: str
    speaks: tuple[str, ...]
    setup: tuple[tuple[str, str], ...]
    works: str
    lost: str
    notes: str = ""


GUIDES = (
    Guide(
        "Claude Code",
        ("Messages",),
        (
            (
                "shell",
                """\
export ANTHROPIC_BASE_URL={url}
export ANTHROPIC_AUTH_TOKEN={key}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={model}
claude --model {model}""",
            ),
        ),
        "Everything on all three kinds of upstream: tools one by one and at once, deferred tools "
        "and tool search, images and PDFs in tool results, thinking that comes back in the next "
        "turn, system messages in the middle of a conversation, interruption and `--continue`. "
        "`/context` is counted by the upstream where it can count, else estimated and marked so.",
        "On Chat and Responses: cache marks, `context_management`, effort finer than the "
        'upstream knows, and `WebSearch`; with `hosted_tools = "map"` in the options Responses '
        "upstreams search with their own. On every upstream but Anthropic's own, the text "
        "`x-anthropic-billing-header` on purpose: it changes with every request and would defeat "
        "the prompt cache.",
        "`ANTHROPIC_DEFAULT_HAIKU_MODEL` names the model of titles and summaries. With "
        "`CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1` the picker of `/model` shows this "
        "gateway's models. A `max_tokens` above the upstream's limit is fitted to "
        "`max_output_tokens` of the route's capabilities.",
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
wire_api = "responses\"""",
            ),
            ("shell", "export DRAGOMAN_KEY={key}\ncodex"),
        ),
        "Tool loops on all three kinds of upstream: shell, `apply_patch` (a free-text tool with a "
        "grammar: where there are none it becomes a function with one string, and its calls are "
        "turned back), namespaces of tools, tools given inside the input (models named `gpt-6-*`), "
        "tool search, encrypted reasoning, compaction, `codex exec resume`.",
        "`web_search` elsewhere than on Responses: only its vendor can run it; with "
        '`hosted_tools = "map"` in the options Messages upstreams search with their own. '
        "The grammar of a free-text tool is told to the model in words and not enforced. "
        "`text.verbosity` on Messages, `client_metadata` everywhere but on Responses.",
        "With `supports_websockets = true` in the provider it holds its conversation over a "
        "WebSocket and sends only what is new ([more](websocket.md)). "
        "Codex offers more tools to models whose names it knows. To give them to another model, "
        'route such a name: `match = "gpt-5.5"`, `model = "qwen3-coder"`. Messages upstreams '
        "cache only what is marked, and Codex marks nothing: set `auto_cache = true` in the "
        "route's capabilities.",
    ),
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
        "It reads streams with the AI SDK. If nothing is shown, `dragoman doctor` says which "
        "event is missing.",
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
      "options": {"baseURL": "{url}/v1", "apiKey": "{key}"},
      "models": {"{model}": {"name": "{model}"}}
    }
  }
}""",
            ),
        ),
        "Tool loops on all three kinds of upstream, reasoning sent back.",
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
export OPENAI_API_KEY={key}
qwen --auth-type openai --model {model}""",
            ),
        ),
        "Tool loops on all three kinds of upstream; tool results in parts, reasoning sent back.",
        "On Messages, for a model it does not know, it asks for as many thinking tokens as output "
        "tokens, which the service refuses: the gateway makes room, and reports it.",
        "`--continue` lists the folder anew at the beginning of the conversation, so that the "
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
      "apiKey": "{key}",
      "models": [{"id": "{model}", "reasoning": true}]
    }
  }
}""",
            ),
            ("shell", "pi --provider dragoman --model {model}"),
        ),
        "Tool loops on all three kinds of upstream, thinking sent back.",
        "Cache marks and `eager_input_streaming`, when it speaks Messages to another kind of "
        "upstream; a budget of thinking tokens becomes an effort.",
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
cline auth openai-compatible --apikey {key} --baseurl {url}/v1 --modelid {model}
cline --provider openai-compatible --model {model}""",
            ),
        ),
        "Tool loops on all three kinds of upstream.",
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
      "api_key": "{key}",
      "models": [
        {"id": "{model}", "name": "{model}", "context_window": 200000, "default_max_tokens": 8000}
      ]
    }
  }
}""",
            ),
        ),
        "Tool loops on all three kinds of upstream.",
        "Nothing of note.",
        '`"type": "anthropic"` speaks Messages.',
    ),
    Guide(
        "OpenAI SDKs",
        ("Chat", "Responses"),
        (
            (
                "python",
                """\
from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="{key}")
print(client.responses.create(model="{model}", input="Hello!").output_text)""",
            ),
            (
                "javascript",
                """\
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{url}/v1", apiKey: "{key}" });
console.log((await client.responses.create({ model: "{model}", input: "Hello!" })).output_text);""",
            ),
        ),
        "Both APIs with their stream and parse helpers, on all three kinds of upstream.",
        "Files by id, stored conversations and hosted tools that the upstream does not have (web "
        'searches are translated with `hosted_tools = "map"` in the options).',
    ),
    Guide(
        "Anthropic SDKs",
        ("Messages",),
        (
            (
                "python",
                """\
from anthropic import Anthropic

client = Anthropic(base_url="{url}", api_key="{key}")
messages = [{"role": "user", "content": "Hello!"}]
answer = client.messages.create(model="{model}", max_tokens=1000, messages=messages)
print("".join(block.text for block in answer.content if block.type == "text"))""",
            ),
            (
                "javascript",
                """\
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: "{url}", apiKey: "{key}" });
const messages = [{ role: "user", content: "Hello!" }];
const answer = await client.messages.create({ model: "{model}", max_tokens: 1000, messages });
console.log(answer.content);""",
            ),
        ),
        "Messages with stream helpers, tool runner, `count_tokens` and the list of models, on all "
        "three kinds of upstream; API versions 2023-06-01 and 2026-10-21.",
        "Server-held threads: the tool runner is told so and goes on with full histories. "
        "Server tools, containers, batches.",
    ),
    Guide(
        "AI SDK",
        ("Chat", "Messages", "Responses"),
        (
            (
                "javascript",
                """\
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";

const dragoman = createOpenAICompatible({
  name: "dragoman", baseURL: "{url}/v1", apiKey: "{key}",
});
console.log((await generateText({ model: dragoman("{model}"), prompt: "Hello!" })).text);""",
            ),
        ),
        "`@ai-sdk/openai` (`.chat` and `.responses`), `@ai-sdk/anthropic` and "
        "`@ai-sdk/openai-compatible` with tool loops, on all three kinds of upstream.",
        "`@ai-sdk/openai` with `store` unset refers to stored items: set "
        "`providerOptions.openai.store` to false.",
        "`createOpenAI` and `createAnthropic` take the same `baseURL`.",
    ),
    Guide(
        "openai-agents",
        ("Chat", "Responses"),
        (
            (
                "python",
                """\
from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url="{url}/v1", api_key="{key}")
agent = Agent(name="helper", model=OpenAIResponsesModel("{model}", client))
print(Runner.run_sync(agent, "Hello!").final_output)""",
            ),
        ),
        "Both models (`OpenAIChatCompletionsModel` too) with tools, on all three kinds of "
        "upstream.",
        "Hosted tools elsewhere than on Responses, but for web searches with "
        '`hosted_tools = "map"` in the options.',
        "Tracing sends data to OpenAI with your OpenAI key unless it is turned off. "
        "`OpenAIResponsesWSModel` in place of `OpenAIResponsesModel` holds the conversation over "
        "a [WebSocket](websocket.md).",
    ),
    Guide(
        "LangChain",
        ("Chat", "Messages", "Responses"),
        (
            (
                "python",
                """\
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="{model}", base_url="{url}/v1", api_key="{key}")
print(model.invoke("Hello!").content)""",
            ),
        ),
        "`ChatOpenAI` (with `use_responses_api=True` too) and `ChatAnthropic`, with tools.",
        "Nothing of note.",
        '`ChatAnthropic(model="{model}", base_url="{url}", api_key="{key}")` speaks Messages.',
    ),
    Guide(
        "pydantic-ai",
        ("Chat", "Messages", "Responses"),
        (
            (
                "python",
                """\
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url="{url}/v1", api_key="{key}")
print(Agent(OpenAIChatModel("{model}", provider=provider)).run_sync("Hello!").output)""",
            ),
        ),
        "`OpenAIChatModel`, `OpenAIResponsesModel` and `AnthropicModel`, with tools.",
        "`reasoning.context` of Responses elsewhere; for a Chat model it does not know it may send "
        "reasoning back as text in `<think>` tags.",
    ),
    Guide(
        "LlamaIndex",
        ("Chat", "Responses"),
        (
            (
                "python",
                """\
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(
    model="{model}", api_base="{url}/v1", api_key="{key}",
    is_chat_model=True, is_function_calling_model=True, context_window=128000,
)
print(model.complete("Hello!"))""",
            ),
        ),
        "`OpenAILike` for any model name; `OpenAI` and `OpenAIResponses` for names they know.",
        "Nothing of note.",
        "Its agents do not send reasoning back. "
        "llama-index-llms-anthropic does not work with anthropic 2.x, whatever it talks to.",
    ),
)


def filled(text: str, url: str, key: str, model: str) -> str:
    """A text with the instance's values in it."""
    return text.replace("{url}", url).replace("{key}", key).replace("{model}", model)


def client_settings(url: str, key: str, models: Iterable[str]) -> str:
    """The lines of all clients for a terminal; the clients take turns with the models."""
    names = list(models)
    parts = []
    for number, guide in enumerate(GUIDES):
        model = names[number % len(names)]
        parts.append(f"# {guide.name} ({', '.join(guide.speaks)})")
        for where, text in guide.setup:
            if len(guide.setup) > 1 or where != "shell":
                parts.append(f"# -- {where}")
            parts.append(filled(text, url, key, model) + "\n")
    return "\n".join(parts)


_URL, _KEY, _MODEL = "http://127.0.0.1:8080", "$DRAGOMAN_KEY", "MODEL"
_LANGUAGES = {"shell": "sh", "python": "python", "javascript": "js", "settings": "text"}
_HEAD = """# Clients

Written by `python -m dragoman.guides`. The lines that point each client at a gateway on
`http://127.0.0.1:8080` with the key `$DRAGOMAN_KEY` and the model `MODEL`: any name that a route
matches. `dragoman demo` prints them filled in for itself.

Both key headers work on every route, and a base URL works with or without `/v1` where the client
does not insist on one. What every client loses on every upstream, path by path, is in
[client-losses.md](client-losses.md), measured with the clients' own requests; the header
`x-dragoman-losses` tells it of each request. On an upstream of the client's own protocol nothing
is lost.

**A client shows nothing?** `dragoman doctor http://127.0.0.1:8080 --key $DRAGOMAN_KEY` plays the
client of each protocol, looks at everything that clients are known to need, and tells what is
wrong, what it breaks in which client, and what to do. It works against any gateway. See
[operations.md](operations.md).

What is said here of each client was found in one of these ways:

- **Run by the tests** on all three kinds of upstream, as the real program: Claude Code, Codex,
  opencode, pi, qwen-code, cline, the AI SDK and openai-agents; of the vendors' SDKs, both
  languages.
- **Recorded**: what the real program sends in a tool loop, translated to every protocol by the
  tests: all of these, and LangChain, pydantic-ai, LlamaIndex and the tool runners
  of the Python SDKs. Not recorded are qwen-code's Messages for a model it does not know (a strict
  service refuses its first request), and what Claude Code sends only when a person is at it: the
  counting of tokens (`/context`) and the request for a title. The tests send those as they were
  seen.
- **Described only**: Cherry Studio, which reads with the AI SDK, and crush.
"""


def page() -> str:
    """The page about clients."""
    parts = [_HEAD, "| client | speaks |", "|---|---|"]
    parts += [f"| [{one.name}](#{_anchor(one.name)}) | {', '.join(one.speaks)} |" for one in GUIDES]
    for guide in GUIDES:
        parts.append(f"\n## {guide.name}\n")
        for where, text in guide.setup:
            language = _LANGUAGES.get(where) or where.rpartition(".")[2]
            if where not in _LANGUAGES:
                parts.append(f"`{where}`:\n")
            parts.append(f"```{language}\n{filled(text, _URL, _KEY, _MODEL)}\n```\n")
        parts.append(f"Works: {_text(guide.works)}\n")
        parts.append(f"Lost: {_text(guide.lost)}")
        if guide.notes:
            parts.append(f"\n{_text(guide.notes)}")
    return "\n".join(parts) + "\n"


def _text(text: str) -> str:
    return filled(text, _URL, _KEY, _MODEL)


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
