// What dialogs that change something have in common.
import { useState } from "./vendor/hooks.js";
import { html } from "./kit.js";

const faultsOf = (refused) => (refused.error && refused.error.faults ? refused.error.faults.map((one) => `${one.field}: ${one.message}`).join("; ") : refused.message);

// Sends what a form has; the dialog closes when that was taken, and says why if it was not.
export function useSending(onDone) {
  const [fault, setFault] = useState(""), [busy, setBusy] = useState(false);
  const send = async (work) => {
    setBusy(true);
    setFault("");
    try { const done = await work(); setBusy(false); onDone(done); } catch (refused) { setFault(faultsOf(refused)); setBusy(false); }
  };
  return { fault, busy, send };
}
export const Acts = ({ word, busy, onClose }) => html`<div class="acts"><button class="btn primary" disabled=${busy}>${word}</button><button type="button" class="btn" onClick=${onClose}>Cancel</button></div>`;
