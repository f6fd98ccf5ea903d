/** The dialog that takes a request as JSON or as a curl command. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { Actions, Dialog, FormError } from "../components/dialog.js";

/** @type {Record<string, string>} */
const PROTOCOL_OF_PATH = {
  "/chat/completions": "openai_chat",
  "/messages": "anthropic_messages",
  "/responses": "openai_responses",
  "/interactions": "google_interactions",
  ":generateContent": "google_generate_content",
  ":streamGenerateContent": "google_generate_content",
};

/** The body of a curl command, in single or in double quotes. */
const CURL_DATA =
  /(?:-d|--data(?:-raw|-binary)?|--json)[\s=]+(?:'((?:[^']|'\\'')*)'|"((?:[^"\\]|\\[^])*)")/;

/** Top-level fields and types of blocks that only Messages has. */
const MESSAGES_FIELDS = ["system", "stop_sequences", "thinking", "top_k"];
const MESSAGES_BLOCKS = ["tool_use", "tool_result", "image", "document", "thinking"];

/**
 * What was pasted: of a curl command its body and its path, not its headers, which contain keys.
 * @param {string} text
 * @returns {{ body: string, protocol?: string }}
 */
function pastedRequest(text) {
  if (!/^\s*curl\b/.test(text)) return { body: text };
  const [, single, double] = CURL_DATA.exec(text) || [];
  const path = Object.keys(PROTOCOL_OF_PATH).find((one) => text.includes(one));
  const body =
    single !== undefined
      ? single.replaceAll("'\\''", "'")
      : (double || "").replace(/\\(["\\$`])/g, "$1");
  return { body, protocol: path && PROTOCOL_OF_PATH[path] };
}

/**
 * The protocol of a request, by what only one of them has.
 * @param {any} request
 */
function detectProtocol(request) {
  if (!request || typeof request !== "object") return "openai_chat";
  if ("contents" in request) return "google_generate_content";
  if ("generation_config" in request || "system_instruction" in request) {
    return "google_interactions";
  }
  if ("input" in request || "instructions" in request) return "openai_responses";
  const blocks = (request.messages || []).flatMap((message) =>
    Array.isArray(message?.content) ? message.content : [],
  );
  const isMessages =
    MESSAGES_FIELDS.some((field) => field in request) ||
    blocks.some((block) => MESSAGES_BLOCKS.includes(block?.type)) ||
    (request.tools || []).some((tool) => tool?.input_schema);
  return isMessages ? "anthropic_messages" : "openai_chat";
}

/**
 * Where a text is no JSON, empty if it is.
 * @param {string} text
 */
function syntaxError(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    const [, position] = /position (\d+)/.exec(error.message) || [];
    if (!position) return "This is not JSON.";
    const before = text.slice(0, Number(position)).split("\n");
    const column = String(before.at(-1)).length + 1;
    return `This is not JSON: line ${before.length}, column ${column}.`;
  }
}

/**
 * @param {{ body: string, onClose: () => void, onDone: (body: string, protocol: string) => void
 *   }} props `body` is what was there before
 */
export function PasteDialog({ body, onClose, onDone }) {
  const [error, setError] = useState("");
  const submit = ({ pasted }) => {
    const request = pastedRequest(pasted);
    const fault = syntaxError(request.body);
    setError(fault);
    if (fault) return;
    onDone(request.body, request.protocol || detectProtocol(JSON.parse(request.body)));
  };
  return html`
    <${Dialog} title="Paste a request" onClose=${onClose} onSubmit=${submit}>
      <p class="muted">
        JSON, or a curl command, whose headers are removed here: no key leaves the browser. The
        request is not stored.
      </p>
      <label for="pasted">Request</label>
      <textarea id="pasted" name="pasted" class="pasted" rows="16" spellcheck="false"
        maxlength="1000000" aria-describedby="pasted-error" aria-invalid=${error ? "true" : null}
        defaultValue=${body}></textarea>
      <${FormError} id="pasted-error" text=${error} />
      <${Actions}>
        <button class="btn primary">Show</button>
        <button type="button" class="btn" onClick=${onClose}>Cancel</button><//><//>
  `;
}
