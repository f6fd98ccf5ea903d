// What dialogs that change something have in common.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { follow } from "./api.js";
import { count, html, told, region } from "./kit.js";

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
// What comes in pieces: those that there are, until there are no more, or it is stopped.
export function useFollowed() {
  const [lines, setLines] = useState([]), [busy, setBusy] = useState(false), [fault, setFault] = useState(""), ending = useRef(null);
  const stop = () => ending.current && ending.current.abort();
  useEffect(() => stop, []);
  const start = async (path, body) => {
    ending.current = new AbortController();
    setLines([]); setFault(""); setBusy(true);
    try {
      await follow(path, body, (line) => setLines((old) => [...old, line]), ending.current.signal);
    } catch (refused) {
      if (refused.name !== "AbortError") setFault(refused.message);
    }
    setBusy(false);
  };
  return { lines, fault, busy, start, stop };
}
export const Acts = ({ word, busy, onClose, fault }) => html`<p class="wrong" role="alert">${told(fault || "")}</p><div class="acts"><button class="btn primary" disabled=${busy}>${word}</button><button type="button" class="btn" onClick=${onClose}>Cancel</button></div>`;

export const field = (name, label, more) => html`<label for=${name}>${label}</label><input id=${name} name=${name} autocomplete="off" spellcheck="false" ...${more}/>`;

// Of many things the number has to be typed: the browser holds the form back until it is.
const MANY = 20, NAMED = 8;
export const Typed = ({ number }) => number > MANY && field("typed", `Type ${count(number)} to confirm`, { required: true, inputmode: "numeric", pattern: count(number).replaceAll(",", ",?"), title: count(number) });
export const Names = ({ of }) => html`${of.slice(0, NAMED).map(told).join(", ")}${of.length > NAMED && html`<details><summary>and ${count(of.length - NAMED)} more</summary><div class="scrolls" ...${region("The others")}>${of.slice(NAMED).map(told).join(", ")}</div></details>`}`;
