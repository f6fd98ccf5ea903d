// Plays a client: one JSON job a line on stdin, one JSON verdict a line on stdout.
// A job is {id, api, mode, baseUrl, key, body}; a verdict {id, final} or {id, error, partial}.
import readline from "node:readline";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

const openai = (job) =>
  new OpenAI({ apiKey: job.key, baseURL: `${job.baseUrl}/v1`, maxRetries: 0, timeout: 20000 });
const anthropic = (job) =>
  new Anthropic({ apiKey: job.key, baseURL: job.baseUrl, maxRetries: 0, timeout: 20000 });

const play = {
  chat: {
    full: (job) => openai(job).chat.completions.create(job.body),
    helper: async (job) => {
      const stream = openai(job).chat.completions.stream(job.body);
      return stream.finalChatCompletion();
    },
    raw: async (job, seen) => {
      const stream = await openai(job).chat.completions.create({ ...job.body, stream: true });
      for await (const chunk of stream) seen.push(chunk);
      return seen;
    },
    parse: (job) => openai(job).chat.completions.parse(job.body),
  },
  messages: {
    full: (job) => anthropic(job).messages.create(job.body),
    helper: (job) => anthropic(job).messages.stream(job.body).finalMessage(),
    raw: async (job, seen) => {
      const stream = await anthropic(job).messages.create({ ...job.body, stream: true });
      for await (const event of stream) seen.push(event);
      return seen;
    },
    parse: (job) => anthropic(job).messages.parse(job.body),
  },
  responses: {
    full: (job) => openai(job).responses.create(job.body),
    helper: (job) => openai(job).responses.stream(job.body).finalResponse(),
    raw: async (job, seen) => {
      const stream = await openai(job).responses.create({ ...job.body, stream: true });
      for await (const event of stream) seen.push(event);
      return seen;
    },
    parse: (job) => openai(job).responses.parse(job.body),
  },
};

const describe = (error) => ({
  class: error?.constructor?.name ?? "Error",
  status: error?.status ?? null,
  type: error?.type ?? error?.error?.error?.type ?? error?.error?.type ?? null,
  code: error?.code ?? null,
  message: String(error?.message ?? error),
});

const lines = readline.createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const job = JSON.parse(line);
  const seen = [];
  let verdict;
  try {
    verdict = { id: job.id, final: await play[job.api][job.mode](job, seen) };
  } catch (error) {
    verdict = { id: job.id, error: describe(error), partial: seen };
  }
  process.stdout.write(`${JSON.stringify(verdict)}\n`);
});
