/** Events of streams in all protocols, in one line each. */

/**
 * An event in one line.
 * @typedef {{ name: string, text: string }} Summary
 */

/**
 * The events in what was sent in one piece.
 * @param {string} raw
 */
export function splitEvents(raw) {
  if (!/^(event|data|id|retry|:)/.test(raw)) return [raw];
  return (raw.match(/[^]*?(?:\r?\n\r?\n|$)/g) || []).filter(Boolean);
}

/**
 * Whether an event is a mere keepalive.
 * @param {string} raw
 */
export const isPing = (raw) => raw.startsWith(":") || /"type": ?"ping"/.test(raw);

/**
 * The fields of an event.
 * @param {string} raw
 */
function eventFields(raw) {
  const lines = raw.split(/\r?\n/);
  const values = (field) =>
    lines.filter((line) => line.startsWith(field)).map((line) => line.slice(field.length).trim());
  const [name = ""] = values("event:");
  return { name, data: values("data:").join("\n") };
}

/**
 * An event in one line: its name, and the field that matters.
 * @param {string} raw
 * @returns {Summary}
 */
export function summarize(raw) {
  if (raw.startsWith(":")) return { name: "comment", text: raw.slice(1).trim() };
  const { name, data: fieldData } = eventFields(raw);
  const data = fieldData || (name ? "" : raw); // an answer that is no stream
  if (!data) return { name: name || "comment", text: "" };
  let value;
  try {
    value = JSON.parse(data);
  } catch {
    return { name: name || "text", text: data };
  }
  return summarizeValue(value, value.type || name) || { name: "answer", text: data };
}

/**
 * @param {any} value
 * @param {string} name
 * @returns {Summary | null}
 */
function summarizeValue(value, name) {
  if (value.error && !value.response) {
    return { name: "error", text: value.error.message || JSON.stringify(value.error) };
  }
  const [choice] = value.choices || [];
  if (choice) return summarizeChoice(choice);
  const [candidate] = value.candidates || [];
  if (candidate) return summarizeCandidate(candidate);
  if (typeof value.delta === "string") return { name, text: JSON.stringify(value.delta) };
  if (value.delta) return summarizeDelta(value.delta, value.type);
  if (value.usage && !value.type) return { name: "usage", text: JSON.stringify(value.usage) };
  if (!name) return null;
  const item = value.content_block || value.item || value.part;
  if (item) return { name, text: item.type || "" };
  if (!value.message) return { name, text: "" };
  return { name, text: `input_tokens ${value.message.usage?.input_tokens ?? "unknown"}` };
}

/**
 * @param {any} choice of a chunk or an answer of Chat
 * @returns {Summary | null}
 */
function summarizeChoice({ delta, message, finish_reason: reason }) {
  const content = delta || message;
  const hasContent = content && (content.content || content.tool_calls);
  if (reason && !hasContent) return { name: "finish_reason", text: reason };
  return content ? summarizeDelta(content, undefined) : null;
}

/**
 * @param {any} candidate of a chunk or an answer of generateContent
 * @returns {Summary}
 */
function summarizeCandidate({ content, finishReason: reason }) {
  const [part] = (content?.parts || []).filter((one) => one.text !== "");
  if (!part) return { name: reason ? "finishReason" : "candidate", text: reason || "" };
  const [name] = Object.keys(part).filter((one) => !one.startsWith("thought"));
  return { name: part.thought ? "thought" : name, text: JSON.stringify(part[name]) };
}

/**
 * @param {Record<string, any>} delta
 * @param {string | undefined} type
 * @returns {Summary}
 */
function summarizeDelta(delta, type) {
  const isShown = ([key, value]) => {
    if (value === null || value === "" || key === "type") return false;
    return key !== "role" || Object.keys(delta).length === 1;
  };
  const fields = Object.entries(delta).filter(isShown);
  if (!fields.length && delta.role) return { name: "role", text: JSON.stringify(delta.role) };
  if (type) {
    const text = fields.map(([key, value]) => `${key} ${JSON.stringify(value)}`).join(", ");
    return { name: type, text: text || delta.type || "" };
  }
  const text = fields.map(([, value]) => JSON.stringify(value)).join(", ");
  return { name: fields[0]?.[0] || "delta", text };
}

/**
 * The protocol of what an upstream sent, null if it cannot be recognised.
 * @param {string} text
 */
export function recognizeProtocol(text) {
  if (/"?response\.|"object": ?"response"/.test(text)) return "openai_responses";
  if (/message_start|"type": ?"message"/.test(text)) return "anthropic_messages";
  if (/"event_type"|"object": ?"interaction"/.test(text)) return "google_interactions";
  if (/"candidates"|"usageMetadata"/.test(text)) return "google_generate_content";
  return /"choices"/.test(text) ? "openai_chat" : null;
}
