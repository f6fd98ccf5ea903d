// Requests to begin with: each has something that the other protocols lack.
export const EXAMPLES = {
  tools: ["Tools and thinking", "anthropic_messages", {
    model: "claude-opus-5", max_tokens: 32000, top_k: 40, thinking: { type: "enabled", budget_tokens: 8192 }, stop_sequences: ["</answer>"],
    system: [{ type: "text", text: "You are a careful reader of code.", cache_control: { type: "ephemeral" } }],
    tools: [{ name: "read_file", description: "Reads a file.", input_schema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] } }],
    messages: [{ role: "user", content: "What is in a.py?" }, { role: "assistant", content: [{ type: "tool_use", id: "toolu_01", name: "read_file", input: { path: "a.py" } }] }, { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_01", is_error: true, content: "No such file" }] }],
    stream: true,
  }],
  sampling: ["Sampling knobs", "openai_chat", {
    model: "gpt-5.5", temperature: 0.2, seed: 7, logit_bias: { 50256: -100 }, frequency_penalty: 0.5, logprobs: true, top_logprobs: 3, stop: ["END"],
    messages: [{ role: "system", content: "Answer briefly." }, { role: "user", content: [{ type: "text", text: "What is the capital of France?" }] }],
    stream: true, stream_options: { include_usage: true },
  }],
  schema: ["An answer by a schema", "openai_chat", {
    model: "gpt-5.5", messages: [{ role: "user", content: "Name a city and its country." }],
    response_format: { type: "json_schema", json_schema: { name: "city", strict: true, schema: { type: "object", properties: { city: { type: "string" }, country: { type: "string" } }, required: ["city", "country"], additionalProperties: false } } },
  }],
  search: ["A search that the vendor runs", "openai_responses", {
    model: "gpt-5.5", instructions: "Cite what you find.", input: [{ role: "user", content: [{ type: "input_text", text: "Who won yesterday?" }] }],
    tools: [{ type: "web_search", search_context_size: "low" }], reasoning: { effort: "medium", summary: "auto" }, text: { verbosity: "low" }, truncation: "auto", max_tool_calls: 3, stream: true,
  }],
  document: ["A document with citations", "anthropic_messages", {
    model: "claude-opus-5", max_tokens: 1000,
    messages: [{ role: "user", content: [{ type: "document", title: "Notes", source: { type: "text", media_type: "text/plain", data: "The grass is green." }, citations: { enabled: true } }, { type: "text", text: "What colour is the grass?" }] }],
    metadata: { user_id: "somebody" }, service_tier: "auto",
  }],
};
