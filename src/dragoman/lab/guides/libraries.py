"""Libraries that programs call models with."""

from __future__ import annotations

from dragoman.lab.guides.guide import Guide

LIBRARIES = (
    Guide(
        "OpenAI SDKs",
        ("Chat", "Responses"),
        (
            (
                "python",
                """\
import os

from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key=os.environ["DRAGOMAN_KEY"])
print(client.responses.create(model="{model}", input="Hello!").output_text)""",
            ),
            (
                "javascript",
                """\
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{url}/v1", apiKey: process.env.DRAGOMAN_KEY });
console.log((await client.responses.create({ model: "{model}", input: "Hello!" })).output_text);""",
            ),
        ),
        "Both APIs with their stream and parse helpers, on Chat, Messages and Responses upstreams.",
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
import os

from anthropic import Anthropic

client = Anthropic(base_url="{url}", api_key=os.environ["DRAGOMAN_KEY"])
messages = [{"role": "user", "content": "Hello!"}]
answer = client.messages.create(model="{model}", max_tokens=1000, messages=messages)
print("".join(block.text for block in answer.content if block.type == "text"))""",
            ),
            (
                "javascript",
                """\
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: "{url}", apiKey: process.env.DRAGOMAN_KEY });
const messages = [{ role: "user", content: "Hello!" }];
const answer = await client.messages.create({ model: "{model}", max_tokens: 1000, messages });
console.log(answer.content);""",
            ),
        ),
        "Messages with stream helpers, tool runner, `count_tokens` and the list of models, on "
        "Chat, Messages and Responses upstreams; API versions 2023-06-01 and 2026-10-21.",
        "Threads stored by the server: the tool runner is refused and goes on with full histories. "
        "Server tools, containers, batches.",
    ),
    Guide(
        "Google Gen AI SDKs",
        ("Google",),
        (
            (
                "python",
                """\
import os

from google import genai

options = {"base_url": "{url}"}
client = genai.Client(api_key=os.environ["DRAGOMAN_KEY"], http_options=options)
print(client.models.generate_content(model="{model}", contents="Hello!").text)""",
            ),
            (
                "javascript",
                """\
import { GoogleGenAI } from "@google/genai";

const httpOptions = { baseUrl: "{url}" };
const client = new GoogleGenAI({ apiKey: process.env.DRAGOMAN_KEY, httpOptions });
const answer = await client.models.generateContent({ model: "{model}", contents: "Hello!" });
console.log(answer.text);""",
            ),
        ),
        "Answers and streams, chats, automatic function calling, structured output, `count_tokens` "
        "and the list of models, on all five kinds of upstream; files, cached contents and batches "
        "on Google's.",
        "Batches of embeddings; safety settings on other upstreams.",
        "`base_url` without a version: the SDKs add `/v1`, older ones `/v1beta`, and both work. "
        "Names of models must have no `?` and no `&`. `vertexai=True` with a base URL of one's own "
        "names no model in the path, and cannot be served.",
    ),
    Guide(
        "Google Interactions",
        ("Interactions",),
        (
            (
                "python",
                """\
import os

from google import genai

options = {"base_url": "{url}"}
client = genai.Client(api_key=os.environ["DRAGOMAN_KEY"], http_options=options)
print(client.interactions.create(model="{model}", input="Hello!").output_text)""",
            ),
            (
                "javascript",
                """\
import { GoogleGenAI } from "@google/genai";

const httpOptions = { baseUrl: "{url}" };
const client = new GoogleGenAI({ apiKey: process.env.DRAGOMAN_KEY, httpOptions });
const answer = await client.interactions.create({ model: "{model}", input: "Hello!" });
console.log(answer.output_text);""",
            ),
        ),
        "`client.interactions` of google-genai and @google/genai since 2.8: answers and streams "
        "with thoughts and function calling, on all five kinds of upstream.",
        "Agents, and what belongs to an account of Google's: caches, environments, webhooks.",
        "The SDKs ask again four times by themselves after 429 and 5xx, and notice no stream that "
        "is cut: look for `interaction.completed`.",
    ),
    Guide(
        "AI SDK",
        ("Chat", "Messages", "Responses", "Google"),
        (
            (
                "javascript",
                """\
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";

const dragoman = createOpenAICompatible({
  name: "dragoman", baseURL: "{url}/v1", apiKey: process.env.DRAGOMAN_KEY,
});
console.log((await generateText({ model: dragoman("{model}"), prompt: "Hello!" })).text);""",
            ),
        ),
        "`@ai-sdk/openai` (`.chat` and `.responses`), `@ai-sdk/anthropic` and "
        "`@ai-sdk/openai-compatible` with tool loops, on Chat, Messages and Responses upstreams.",
        "`@ai-sdk/openai` with `store` unset refers to stored items: set "
        "`providerOptions.openai.store` to false.",
        "`createOpenAI` and `createAnthropic` take the same `baseURL`; `createGoogleGenerativeAI` "
        "of `@ai-sdk/google` takes `{url}/v1beta`.",
    ),
    Guide(
        "openai-agents",
        ("Chat", "Responses"),
        (
            (
                "python",
                """\
import os

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url="{url}/v1", api_key=os.environ["DRAGOMAN_KEY"])
agent = Agent(name="helper", model=OpenAIResponsesModel("{model}", client))
print(Runner.run_sync(agent, "Hello!").final_output)""",
            ),
        ),
        "Both models (`OpenAIChatCompletionsModel` too) with tools, on Chat, "
        "Messages and Responses upstreams.",
        "Hosted tools elsewhere than on Responses, but for web searches with "
        '`hosted_tools = "map"` in the options.',
        "Tracing sends data to OpenAI with your OpenAI key unless it is turned off. "
        "`OpenAIResponsesWSModel` in place of `OpenAIResponsesModel` conducts the conversation "
        "over a [WebSocket](websocket.md); in JavaScript `useResponsesWebSocket: true` of the "
        "`OpenAIProvider` of `@openai/agents` does, and any error is then a `ModelBehaviorError`.",
    ),
    Guide(
        "LangChain",
        ("Chat", "Messages", "Responses", "Google"),
        (
            (
                "python",
                """\
import os

from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="{model}", base_url="{url}/v1", api_key=os.environ["DRAGOMAN_KEY"])
print(model.invoke("Hello!").content)""",
            ),
        ),
        "`ChatOpenAI` (with `use_responses_api=True` too) and `ChatAnthropic`, with tools.",
        "Nothing of note.",
        '`ChatAnthropic(model="{model}", base_url="{url}", api_key=os.environ["DRAGOMAN_KEY"])` '
        "speaks Messages; `ChatGoogleGenerativeAI` of langchain-google-genai with the same three "
        "arguments (`google_api_key` in place of `api_key`) Google's protocol.",
    ),
    Guide(
        "pydantic-ai",
        ("Chat", "Messages", "Responses"),
        (
            (
                "python",
                """\
import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url="{url}/v1", api_key=os.environ["DRAGOMAN_KEY"])
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
import os

from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(
    model="{model}", api_base="{url}/v1", api_key=os.environ["DRAGOMAN_KEY"],
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
