// An agent of the AI SDK: reads one task as JSON from standard input, works on it with a tool that
// writes files, and prints what the model said, and on standard error what it thought. The provider
// is the client's protocol.
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { text } from "node:stream/consumers";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { provider, url, key, model, prompt, system } = JSON.parse(await text(process.stdin));

const MODELS = {
  chat: () => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).chat(model),
  responses: () => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).responses(model),
  summary: () => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).responses(model),
  anthropic: () => createAnthropic({ baseURL: `${url}/v1`, apiKey: key })(model),
  stored: () => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).responses(model),
  compatible: () =>
    createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, apiKey: key })(model),
};

// Left alone, the provider has answers stored, and refers to what was stored. Told not to, it has
// to ask for reasoning that it can send back.
const storing =
  provider === "stored" ? {} : { store: false, include: ["reasoning.encrypted_content"] };

// Nothing of the reasoning is shown that no summary was asked for.
const summarising = provider === "summary" ? { reasoningSummary: "auto" } : {};

const result = streamText({
  model: MODELS[provider](),
  system,
  prompt,
  maxRetries: 0,
  stopWhen: stepCountIs(8),
  // Without these the providers send no way to ask for reasoning, or refuse to send it back.
  providerOptions: {
    openai: { reasoningEffort: "low", ...storing, ...summarising },
    anthropic: { thinking: { type: "adaptive" } },
    gateway: { reasoningEffort: "low" },
  },
  tools: {
    write_file: tool({
      description: "Write a text file, replacing what it held.",
      inputSchema: z.object({ path: z.string(), content: z.string() }),
      execute: async ({ path, content }) => {
        const target = resolve(path);
        await mkdir(dirname(target), { recursive: true });
        await writeFile(target, content);
        return `wrote ${content.length} characters`;
      },
    }),
    list_files: tool({
      description: "List the files of the folder.",
      inputSchema: z.object({}),
      execute: async () => "nothing",
    }),
  },
  onError: ({ error }) => {
    console.error(error);
    process.exitCode = 1;
  },
});

for await (const part of result.fullStream) {
  if (part.type === "text-delta") process.stdout.write(part.text);
  if (part.type === "reasoning-delta") process.stderr.write(part.text);
  if (part.type === "error") process.exitCode = 1;
  if (part.type === "tool-error") process.exitCode = 1;
}
process.stdout.write("\n");
