/** The result of what somebody did, with a way to undo it. */
import { classes, html } from "../lib/html.js";
import { signal } from "../vendor/signals.js";

/**
 * @typedef {{ text: string, undo?: (() => void) | null, isError?: boolean }} Message
 * @type {import("../vendor/signals.js").Signal<Message | null>}
 */
const message = signal(null);

/**
 * @param {string} text
 * @param {(() => void) | null} [undo]
 */
export const notify = (text, undo) => {
  message.value = { text, undo };
};

/** @param {string} text */
export const notifyError = (text) => {
  message.value = { text, isError: true };
};

const dismiss = () => {
  message.value = null;
};

export function Toast() {
  const { text, undo, isError } = message.value || { text: "" };
  const onUndo = () => {
    dismiss();
    undo?.();
  };
  return html`
    <div class="toasts" role="status" aria-live="polite">
      ${
        text &&
        html`
          <div class=${classes("toast", isError && "bad")}>
            <span>${text}</span>
            ${undo && html`<button class="btn quiet" onClick=${onUndo}>Undo</button>`}
            <button class="btn quiet icon" aria-label="Dismiss" onClick=${dismiss}>✕</button>
          </div>
        `
      }
    </div>
  `;
}
