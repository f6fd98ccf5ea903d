/** Protocols, pairs of them, and what a translation between them loses. */
import { html } from "../lib/html.js";
import { printable } from "../lib/format.js";

/** @type {Record<string, { letter: string, name: string }>} */
export const PROTOCOLS = {
  openai_chat: { letter: "C", name: "Chat" },
  anthropic_messages: { letter: "M", name: "Messages" },
  openai_responses: { letter: "R", name: "Responses" },
  google_generate_content: { letter: "G", name: "Gemini" },
  google_interactions: { letter: "I", name: "Interactions" },
};

/**
 * The name of a protocol; its name in the configuration if it has no other.
 * @param {string} id
 */
export const protocolName = (id) => PROTOCOLS[id]?.name || printable(id);

/** The protocols as choices of a control. */
export const PROTOCOL_CHOICES = Object.entries(PROTOCOLS).map(
  ([id, { name }]) => /** @type {[string, string]} */ ([id, name]),
);

/** @param {{ id: string }} props */
export const Protocol = ({ id }) => {
  const known = PROTOCOLS[id];
  return known ? html`<span class=${"proto " + known.letter}>${known.name}</span>` : printable(id);
};

/**
 * The name of a pair such as `openai_chat>anthropic_messages`.
 * @param {string} pair
 */
export const pairName = (pair) => {
  const names = pair.split(">").map(protocolName);
  return names.join(" to ");
};

/** @param {{ pair: string }} props */
export const Pair = ({ pair }) => html`
  <span class="no-wrap" title=${pairName(pair)}>
    ${pair.split(">").map((id, index) => {
      const letter = PROTOCOLS[id]?.letter;
      const arrow = index ? "→" : "";
      return html`${arrow}<span class=${"proto " + letter}>${letter || printable(id)}</span>`;
    })}
  </span>
`;

/**
 * Kinds of losses, the worst first.
 * @type {Record<string, { letter: string, label: string }>}
 */
export const LOSS_KINDS = {
  content: { letter: "X", label: "content lost" },
  converted: { letter: "C", label: "converted" },
  repaired: { letter: "R", label: "repaired" },
  knob: { letter: "K", label: "left out" },
};

/** @param {{ kind: string }} props */
export const LossKind = ({ kind }) => html`
  <span class=${"kind " + kind} title=${kind}><i>${LOSS_KINDS[kind]?.letter || "?"}</i></span>
`;
