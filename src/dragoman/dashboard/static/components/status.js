/** States of accounts, keys and requests: a colour, a shape and a word, each enough by itself. */
import { html } from "../lib/html.js";
import { printable } from "../lib/format.js";

/**
 * @typedef {keyof typeof SHAPES} Shape
 * @typedef {object} Status
 * @property {string} tone the class of its colour
 * @property {Shape} shape
 * @property {string} label
 */

/** @param {string} tone */
const ring = (tone) => html`
  <circle cx="6" cy="6" r="4.6" class=${tone} fill="none" stroke-width="1.6" />
`;
const SHAPES = {
  dot: () => html`<circle cx="6" cy="6" r="3.6" class="f-ok" />`,
  half: () => html`${ring("c-cool")}<path d="M6 1.4a4.6 4.6 0 0 1 0 9.2z" class="f-cool" />`,
  ring: () => ring("c-out"),
  cross: () => html`<path d="M2 2l8 8M10 2l-8 8" class="c-off" fill="none" stroke-width="1.9" />`,
  square: () => html`<rect x="1.5" y="1.5" width="9" height="9" rx="1.5" class="f-err" />`,
  diamond: () => html`<path d="M6 1l5 5-5 5-5-5z" class="c-info" fill="none" stroke-width="1.6" />`,
};

/** @param {{ shape: Shape, size?: number }} props */
export const Glyph = ({ shape, size = 11 }) => html`
  <svg width=${size} height=${size} viewBox="0 0 12 12" aria-hidden="true">${SHAPES[shape]()}</svg>
`;

/**
 * The states of an account; one on trial is active.
 * @type {Record<Api.AccountState, Status & { fill: string }>}
 */
export const ACCOUNT_STATES = {
  active: { tone: "ok", shape: "dot", label: "Active", fill: "calm" },
  trial: { tone: "trial", shape: "diamond", label: "On trial", fill: "info" },
  cooling: { tone: "cool", shape: "half", label: "Cooling", fill: "cool" },
  exhausted: { tone: "out", shape: "ring", label: "Out", fill: "out" },
  disabled: { tone: "off", shape: "cross", label: "Disabled", fill: "off" },
};

/** @type {Record<string, Omit<Status, "label">>} */
const KEY_STATES = {
  active: { tone: "ok", shape: "dot" },
  disabled: { tone: "off", shape: "cross" },
  expired: { tone: "out", shape: "ring" },
};

/**
 * The status of a key or a team.
 * @param {string} state
 * @returns {Status}
 */
export const keyStatus = (state) => ({
  ...(KEY_STATES[state] || KEY_STATES.expired),
  label: printable(state),
});

/**
 * How a request ended.
 * @param {number} status
 * @param {string} error
 * @returns {Status}
 */
export function requestStatus(status, error) {
  const label = String(status);
  if (error === "client_gone") return { tone: "off", shape: "cross", label: "client left" };
  if (status < 400) return { tone: "ok", shape: "dot", label };
  if (status === 429) return { tone: "cool", shape: "half", label };
  return status >= 500
    ? { tone: "out", shape: "ring", label }
    : { tone: "off", shape: "cross", label };
}

/** @param {{ status: Status, title?: string }} props */
export const StatusLabel = ({ status: { tone, shape, label }, title }) => html`
  <span class=${"state " + tone} title=${title}><${Glyph} shape=${shape} /><b>${label}</b></span>
`;

/**
 * A status in a coloured box.
 * @param {{ status: Status, more?: string }} props
 */
export const StatusPill = ({ status: { tone, shape, label }, more }) => html`
  <span class=${"pill " + tone}><${Glyph} shape=${shape} />${label}${more}</span>
`;
