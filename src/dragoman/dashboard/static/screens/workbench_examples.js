/** Requests to begin with: each has something that the other protocols lack. */

/** @type {Record<string, { title: string, protocol: string, body: object }>} */
export const EXAMPLES = {
  tools: {
    title: "Tools and thinking",
    protocol: "anthropic_messages",
    body: {
      model: "claude-opus-5",
      max_tokens: 32000,
      top_k: 40,
      thinking: { type: "enabled", budget_tokens: 8192 },
      stop_sequences: ["</answer>"],
      system: [
        {
          type: "text",
          text: "You are a careful reader of code.",
          cache_control: { type: "ephemeral" },
        },
      ],
      tools: [
        {
          name: "read_file",
          description: "Reads a file.",
          input_schema: {
            type: "object",
            properties: { path: { type: "string" } },
            required: ["path"],
          },
        },
      ],
      messages: [
        { role: "user", content: "What is in a.py?" },
        {
          role: "assistant",
          content: [
            { type: "tool_use", id: "toolu_01", name: "read_file", input: { path: "a.py" } },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "toolu_01",
              is_error: true,
              content: "No such file",
            },
          ],
        },
      ],
      stream: true,
    },
  },
  sampling: {
    title: "Sampling knobs",
    protocol: "openai_chat",
    body: {
      model: "gpt-5.5",
      temperature: 0.2,
      seed: 7,
      logit_bias: { 50256: -100 },
      frequency_penalty: 0.5,
      logprobs: true,
      top_logprobs: 3,
      stop: ["END"],
      messages: [
        { role: "system", content: "Answer briefly." },
        { role: "user", content: [{ type: "text", text: "What is the capital of France?" }] },
      ],
      stream: true,
      stream_options: { include_usage: true },
    },
  },
  schema: {
    title: "An answer by a schema",
    protocol: "openai_chat",
    body: {
      model: "gpt-5.5",
      messages: [{ role: "user", content: "Name a city and its country." }],
      response_format: {
        type: "json_schema",
        json_schema: {
          name: "city",
          strict: true,
          schema: {
            type: "object",
            properties: { city: { type: "string" }, country: { type: "string" } },
            required: ["city", "country"],
            additionalProperties: false,
          },
        },
      },
    },
  },
  search: {
    title: "A search that the vendor runs",
    protocol: "openai_responses",
    body: {
      model: "gpt-5.5",
      instructions: "Cite what you find.",
      input: [{ role: "user", content: [{ type: "input_text", text: "Who won yesterday?" }] }],
      tools: [{ type: "web_search", search_context_size: "low" }],
      reasoning: { effort: "medium", summary: "auto" },
      text: { verbosity: "low" },
      truncation: "auto",
      max_tool_calls: 3,
      stream: true,
    },
  },
  document: {
    title: "A document with citations",
    protocol: "anthropic_messages",
    body: {
      model: "claude-opus-5",
      max_tokens: 1000,
      messages: [
        {
          role: "user",
          content: [
            {
              type: "document",
              title: "Notes",
              source: { type: "text", media_type: "text/plain", data: "The grass is green." },
              citations: { enabled: true },
            },
            { type: "text", text: "What colour is the grass?" },
          ],
        },
      ],
      metadata: { user_id: "somebody" },
      service_tier: "auto",
    },
  },
  image: {
    title: "An image",
    protocol: "openai_chat",
    body: {
      model: "gpt-5.5",
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            {
              type: "image_url",
              image_url: {
                url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
                detail: "low",
              },
            },
          ],
        },
      ],
      max_completion_tokens: 300,
      verbosity: "low",
    },
  },
  audio: {
    title: "Sound",
    protocol: "openai_chat",
    body: {
      model: "gpt-audio",
      modalities: ["text"],
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is said here?" },
            {
              type: "input_audio",
              input_audio: {
                data: "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=",
                format: "wav",
              },
            },
          ],
        },
      ],
    },
  },
  calls: {
    title: "Several calls at once",
    protocol: "openai_chat",
    body: {
      model: "gpt-5.5",
      tool_choice: "required",
      parallel_tool_calls: false,
      reasoning_effort: "low",
      tools: [
        {
          type: "function",
          function: {
            name: "weather",
            description: "Tells the weather.",
            strict: true,
            parameters: {
              type: "object",
              properties: { city: { type: "string" } },
              required: ["city"],
              additionalProperties: false,
            },
          },
        },
      ],
      messages: [
        { role: "user", content: "Is it warmer in Rome or in Oslo?" },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: "call_1",
              type: "function",
              function: { name: "weather", arguments: '{"city": "Rome"}' },
            },
            {
              id: "call_2",
              type: "function",
              function: { name: "weather", arguments: '{"city": "Oslo"}' },
            },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: "24 degrees" },
        { role: "tool", tool_call_id: "call_2", content: "9 degrees" },
      ],
    },
  },
  thought: {
    title: "Thinking of an earlier turn",
    protocol: "anthropic_messages",
    body: {
      model: "claude-opus-5",
      max_tokens: 16000,
      thinking: { type: "enabled", budget_tokens: 4096 },
      messages: [
        { role: "user", content: "Is 91 a prime?" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "91 is 7 times 13.", signature: "c2lnbmVk" },
            { type: "text", text: "No." },
          ],
        },
        { role: "user", content: "And 97?" },
      ],
    },
  },
  begun: {
    title: "An answer that is begun",
    protocol: "anthropic_messages",
    body: {
      model: "claude-opus-5",
      max_tokens: 200,
      temperature: 0.4,
      top_p: 0.9,
      messages: [
        { role: "user", content: "List three colours as JSON." },
        { role: "assistant", content: '["red",' },
      ],
    },
  },
  items: {
    title: "Reasoning and calls as items",
    protocol: "openai_responses",
    body: {
      model: "gpt-5.5",
      store: false,
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "high" },
      tools: [
        {
          type: "function",
          name: "read_file",
          parameters: {
            type: "object",
            properties: { path: { type: "string" } },
            required: ["path"],
            additionalProperties: false,
          },
          strict: true,
        },
      ],
      input: [
        { role: "developer", content: "Read before you answer." },
        { role: "user", content: "What is in a.py?" },
        {
          type: "reasoning",
          id: "rs_01",
          summary: [{ type: "summary_text", text: "The file has to be read." }],
          encrypted_content: "c2VhbGVk",
        },
        {
          type: "function_call",
          call_id: "call_1",
          name: "read_file",
          arguments: '{"path": "a.py"}',
        },
        { type: "function_call_output", call_id: "call_1", output: "print(1)" },
      ],
    },
  },
  grammar: {
    title: "A tool with a grammar",
    protocol: "openai_responses",
    body: {
      model: "gpt-5.5",
      input: "How many days are in 12 weeks?",
      tool_choice: "required",
      metadata: { team: "docs" },
      tools: [
        {
          type: "custom",
          name: "calculate",
          description: "Works out a product.",
          format: { type: "grammar", syntax: "regex", definition: "[0-9]+ \\* [0-9]+" },
        },
      ],
    },
  },
};
