// Plays a client: one JSON job a line on stdin, one JSON verdict a line on stdout.
// A job is {id, api, mode, baseUrl, key, body}; a verdict {id, final} or {id, error, partial}.
import readline from "node:readline";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

const Person = z.object({ name: z.string(), age: z.number().int() });

const openai = (job) =>
  new OpenAI({ apiKey: job.key, baseURL: `${job.baseUrl}/v1`, maxRetries: 0, timeout: 20000 });
const anthropic = (job) =>
  new Anthropic({ apiKey: job.key, baseURL: job.baseUrl, maxRetries: 0, timeout: 20000 });

const google = (job) =>
  new GoogleGenAI({ apiKey: job.key, httpOptions: { baseUrl: job.baseUrl, timeout: 20000 } });

const play = {
  chat: {
    full: (job) => openai(job).chat.completions.create(job.body),
    helper: async (job) => {
      const body = { ...job.body, stream_options: { include_usage: true } };
      const stream = openai(job).chat.completions.stream(body);
      let reasoning = "";
      // The helper keeps only official fields; agents read this one from the chunks.
      stream.on("chunk", (chunk) => {
        reasoning += chunk.choices[0]?.delta?.reasoning_content ?? "";
      });
      const final = await stream.finalChatCompletion();
      if (reasoning) final.choices[0].message.reasoning_content = reasoning;
      return final;
    },
    raw: async (job, seen) => {
      const stream = await openai(job).chat.completions.create({ ...job.body, stream: true });
      for await (const chunk of stream) seen.push(chunk);
      return seen;
    },
    parse: async (job) => {
      const response_format = zodResponseFormat(Person, "person");
      const answer = await openai(job).chat.completions.parse({ ...job.body, response_format });
      return answer.choices[0].message.parsed;
    },
  },
  messages: {
    full: (job) => anthropic(job).messages.create(job.body),
    helper: (job) => anthropic(job).messages.stream(job.body).finalMessage(),
    raw: async (job, seen) => {
      const stream = await anthropic(job).messages.create({ ...job.body, stream: true });
      for await (const event of stream) seen.push(event);
      return seen;
    },
    parse: async (job) => {
      const output_config = { format: zodOutputFormat(Person) };
      const answer = await anthropic(job).messages.parse({ ...job.body, output_config });
      return answer.parsed_output;
    },
  },
  responses: {
    full: (job) => openai(job).responses.create(job.body),
    helper: (job) => openai(job).responses.stream(job.body).finalResponse(),
    raw: async (job, seen) => {
      const stream = await openai(job).responses.create({ ...job.body, stream: true });
      for await (const event of stream) seen.push(event);
      return seen;
    },
    parse: async (job) => {
      const text = { format: zodTextFormat(Person, "person") };
      const answer = await openai(job).responses.parse({ ...job.body, text });
      return answer.output_parsed;
    },
  },
  google: {
    full: (job) => google(job).models.generateContent(job.body),
    helper: async (job, seen) => {
      const { model, contents, config } = job.body;
      const chat = google(job).chats.create({ model, config, history: contents.slice(0, -1) });
      const stream = await chat.sendMessageStream({ message: contents.at(-1).parts });
      for await (const chunk of stream) seen.push(chunk);
      const kept = chat.getHistory(true);
      if (seen.at(-1)?.candidates && kept.length <= contents.length)
        throw new Error("the SDK forgot the turn");
      return seen;
    },
    raw: async (job, seen) => {
      const stream = await google(job).models.generateContentStream(job.body);
      for await (const chunk of stream) seen.push(chunk);
      return seen;
    },
    parse: async (job) => {
      const responseJsonSchema = z.toJSONSchema(Person);
      const config = { ...job.body.config, responseMimeType: "application/json", responseJsonSchema };
      const answer = await google(job).models.generateContent({ ...job.body, config });
      return Person.parse(JSON.parse(answer.text));
    },
  },
  interactions: {
    full: (job) => google(job).interactions.create(job.body),
    helper: async (job, seen) => {
      const stream = await google(job).interactions.create({ ...job.body, stream: true });
      for await (const event of stream) seen.push(event);
      return seen;
    },
  },
};

const googleStatus = (error) => {
  try {
    return JSON.parse(error.message).error.status;
  } catch {
    return null;
  }
};

const describe = (error) => ({
  class: error?.constructor?.name ?? "Error",
  status: error?.status ?? null,
  type: error?.type ?? error?.error?.error?.type ?? error?.error?.type ?? googleStatus(error),
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
