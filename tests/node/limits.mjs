// Asks as often as it is told, with the SDK's own retries, and tells what it saw as JSON.
// The task is {api, baseUrl, key, model, stream, times} on stdin.
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

let text = "";
for await (const piece of process.stdin) text += piece;
const task = JSON.parse(text);
const openai = new OpenAI({ apiKey: task.key, baseURL: `${task.baseUrl}/v1` });
const anthropic = new Anthropic({ apiKey: task.key, baseURL: task.baseUrl });
const { model, stream } = task;
const messages = [{ role: "user", content: "Hello" }];
const ask = {
  chat: () => openai.chat.completions.create({ model, messages, stream }),
  messages: () => anthropic.messages.create({ model, messages, stream, max_tokens: 100 }),
  responses: () => openai.responses.create({ model, input: "Hello", store: false, stream }),
}[task.api];

const seen = [];
for (let number = 0; number < task.times; number += 1) {
  const begun = performance.now();
  try {
    const answer = await ask();
    if (stream) for await (const _ of answer);
    seen.push({ ms: performance.now() - begun });
  } catch (error) {
    seen.push({
      ms: performance.now() - begun,
      name: error.constructor.name,
      status: error.status,
      message: error.message,
    });
  }
}
console.log(JSON.stringify(seen));
