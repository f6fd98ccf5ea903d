// An agent of @openai/agents: reads one task as JSON from standard input, works on it with a tool
// that writes files, and prints what the model said. With TRANSPORT=websocket over a WebSocket.
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { text } from "node:stream/consumers";

import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

const { url, key, model, prompt, system } = JSON.parse(await text(process.stdin));
setTracingDisabled(true);

const provider = new OpenAIProvider({
  openAIClient: new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 }),
  useResponses: true,
  useResponsesWebSocket: process.env.TRANSPORT === "websocket",
});
const agent = new Agent({
  name: "writer",
  instructions: system,
  model,
  modelSettings: { reasoning: { effort: "low", summary: "auto" } },
  tools: [
    tool({
      name: "write_file",
      description: "Write a text file, replacing what it held.",
      parameters: z.object({ path: z.string(), content: z.string() }),
      execute: async ({ path, content }) => {
        const target = resolve(path);
        await mkdir(dirname(target), { recursive: true });
        await writeFile(target, content);
        return `wrote ${content.length} characters`;
      },
    }),
  ],
});

const runner = new Runner({ modelProvider: provider });
try {
  const result = await runner.run(agent, prompt, { stream: true, maxTurns: 20 });
  for await (const _ of result);
  await result.completed;
  console.log(result.finalOutput);
} catch (error) {
  console.log(`${error.name}: ${error.message}`);
  process.exitCode = 1;
} finally {
  await provider.close();
}
