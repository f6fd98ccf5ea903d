// What all screens are made of: nodes, numbers, states, dialogs. Text is always a text node, so
// nothing that a client or an upstream named can become markup.
import { h } from "./vendor/preact.js";
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { signal } from "./vendor/signals.js";
import htm from "./vendor/htm.js";
import { isAdmin } from "./api.js";

export const html = htm.bind(h);

// Where one is, and how one gets elsewhere.
export const place = signal(location.pathname);
export function go(url) {
  if (url !== location.pathname + location.search) history.pushState(null, "", url);
  place.value = location.pathname;
}

// Numbers, as dashboards are read: short in figures, whole in tables.
export const count = (n) => n.toLocaleString("en-US");
export function short(n) {
  if (n < 1000) return String(Math.round(n));
  if (n < 1e6) return (n / 1e3).toPrecision(3) + " k";
  return (n / 1e6).toPrecision(3) + " M";
}
const two = (big, unit, small, below) => big + " " + unit + (small ? " " + small + " " + below : "");
export function span(s) {
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 10) return s.toFixed(2) + " s";
  if (s < 60) return s.toFixed(1) + " s";
  return left(s);
}
export function left(s) {
  if (s < 60) return Math.ceil(s) + " s";
  if (s < 3600) return two(Math.floor(s / 60), "min", s < 600 ? Math.floor(s % 60) : 0, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}
export const size = (bytes) => (bytes < 10000 ? count(bytes) + " B" : Math.round(bytes / 1000) + " kB");
export const money = (text) => {
  const usd = Number(text);
  if (!usd) return "$0";
  if (usd < 0.0001) return "< $0.0001";
  return "$" + usd.toFixed(usd < 1 ? 4 : 2);
};
const pad = (n, size = 2) => String(n).padStart(size, "0");

// Times are of the browser's zone, or of UTC.
export const utc = signal(localStorage.getItem("zone") === "UTC");
export const zone = () => (utc.value ? "UTC" : new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value);
export function changeZone() {
  utc.value = !utc.value;
  localStorage.setItem("zone", utc.value ? "UTC" : "");
}
const placed = (ms) => { const t = new Date(ms); return utc.value ? new Date(ms + t.getTimezoneOffset() * 60000) : t; };
export function clock(at, exact = false) {
  const t = placed(at * 1000), time = `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`;
  const day = t.toDateString() === placed(Date.now()).toDateString() ? "" : t.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + " ";
  return day + time + (exact ? "." + pad(t.getMilliseconds(), 3) : "");
}
export const minute = (at) => clock(at).replace(/:\d\d$/, "");

// What comes from outside may hold marks that turn or hide the text around them.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const LONGEST = 200;
export function told(text) {
  const shown = String(text).replace(HIDDEN, (c) => "U+" + pad(c.charCodeAt(0).toString(16).toUpperCase(), 4));
  return shown.length > LONGEST ? shown.slice(0, LONGEST) + "…" : shown;
}
export const Unknown = ({ why }) => html`<span class="unknown" title=${why} tabindex="0" aria-label=${"unknown: " + why}>—</span>`;

// States: colour, shape and word, each enough by itself.
export const STATES = { active: ["ok", "Active"], cooling: ["cool", "Cooling"], exhausted: ["out", "Out"], disabled: ["off", "Disabled"], trial: ["trial", "On trial"] };
const ring = (cls) => html`<circle cx="6" cy="6" r="4.6" class=${cls} fill="none" stroke-width="1.6"/>`;
const SHAPES = {
  active: () => html`<circle cx="6" cy="6" r="3.6" class="f-ok"/>`,
  cooling: () => html`${ring("c-cool")}<path d="M6 1.4a4.6 4.6 0 0 1 0 9.2z" class="f-cool"/>`,
  exhausted: () => ring("c-out"),
  disabled: () => html`<path d="M2 2l8 8M10 2l-8 8" class="c-off" fill="none" stroke-width="1.9"/>`,
  bad: () => html`<rect x="1.5" y="1.5" width="9" height="9" rx="1.5" class="f-err"/>`,
  trial: () => html`<path d="M6 1l5 5-5 5-5-5z" class="c-info" fill="none" stroke-width="1.6"/>`,
};
export const Glyph = ({ state, size = 11 }) => html`<svg width=${size} height=${size} viewBox="0 0 12 12" aria-hidden="true">${(SHAPES[state] || SHAPES.active)()}</svg>`;
export const State = ({ state }) => html`<span class=${"state " + STATES[state][0]}><${Glyph} state=${state}/><b>${STATES[state][1]}</b></span>`;

// A quota window: how much is used (bar), and the share of its time that is gone (tick).
export function Meter({ used, gone, title, width = 52 }) {
  if (used == null) return html`<span class="meter" title=${title}><svg width=${width} height="12" role="img" aria-label="unknown"><rect x=".5" y="3.5" width=${width - 1} height="5" rx="1" class="frame" stroke-dasharray="2 2"/></svg><span class="num"><${Unknown} why=${title}/></span></span>`;
  const tone = used >= 1 ? "out" : used > 0.85 ? "cool" : "info", percent = Math.round(used * 100);
  return html`<span class="meter" title=${title}><svg width=${width} height="12" role="img" aria-label=${percent + " percent used"}>
    <rect x="0" y="3" width=${width} height="6" rx="1" class="f-line"/><rect x="0" y="3" width=${Math.max(1, width * Math.min(1, used))} height="6" rx="1" class=${"f-" + tone}/>
    ${gone == null ? null : html`<line x1=${width * gone} x2=${width * gone} y1="0" y2="12" class="tick"/>`}</svg>
    <span class=${"num" + (used > 0.85 ? " strong" : "")}>${percent}%</span></span>`;
}

// Outcome of a request.
export function outcome(status, error) {
  if (error === "client_gone") return ["off", "disabled", "client left"];
  if (status < 400) return ["ok", "active", String(status)];
  if (status === 429) return ["cool", "cooling", "429"];
  return status >= 500 ? ["out", "exhausted", String(status)] : ["off", "disabled", String(status)];
}
export const PROTOCOLS = { openai_chat: ["C", "Chat"], anthropic_messages: ["M", "Messages"], openai_responses: ["R", "Responses"] };
export const Protocol = ({ name }) => PROTOCOLS[name] ? html`<span class=${"proto " + PROTOCOLS[name][0]}>${PROTOCOLS[name][1]}</span>` : told(name);
export const spoken = (pair) => pair.split(">").map((name) => (PROTOCOLS[name] || [0, name])[1]).join(" to ");
export const Pair = ({ of }) => html`<span class="nowrap" title=${spoken(of)}>${of.split(">").map((name, i) => html`${i ? "→" : ""}<span class=${"proto " + PROTOCOLS[name]?.[0]}>${PROTOCOLS[name]?.[0] || told(name)}</span>`)}</span>`;
const KINDS = { knob: "K", converted: "C", repaired: "R", content: "X" };
export const LossKind = ({ kind }) => html`<span class=${"kind " + kind} title=${kind}><i>${KINDS[kind] || "?"}</i></span>`;

// What was done, said once; with a way back.
export const said = signal(null);
export const say = (text, undo, bad = false) => { said.value = { text, undo, bad }; };
export const Said = () => html`<div class="said" role="status" aria-live="polite">${said.value && html`<div class=${"toast" + (said.value.bad ? " bad" : "")}><span>${said.value.text}</span>
  ${said.value.undo && html`<button class="btn quiet" onClick=${() => { const { undo } = said.value; said.value = null; undo(); }}>Undo</button>`}
  <button class="btn quiet icon" aria-label="Dismiss" onClick=${() => { said.value = null; }}>✕</button></div>`}</div>`;

// A dialog of the browser's own: it keeps the focus, and gives it back. What it holds is a form.
export function Dialog({ title, onClose, onSubmit = onClose, onInput, form, class: kind, children }) {
  const own = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    own.current.showModal();
    return () => before && before.focus();
  }, []);
  return html`<dialog ref=${own} aria-label=${title} onClose=${onClose} onCancel=${onClose}><h2>${title}</h2><form class=${kind} ref=${form} onInput=${onInput} onSubmit=${(event) => { event.preventDefault(); onSubmit(); }}>${children}</form></dialog>`;
}

// What scrolls is reached by the keyboard, and has a name.
export const region = (name) => ({ tabindex: 0, role: "region", "aria-label": name });

// Why what a screen shows could not be had.
export const banner = (fault) => fault && html`<p class="banner" role="alert">${told(fault)}</p>`;

// One timer for all that counts down.
export const now = signal(Date.now() / 1000);
setInterval(() => { if (!document.hidden) now.value = Date.now() / 1000; }, 1000);

// Copies the exact text, and says so.
export function Copy({ text, label = "Copy", word }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="btn quiet copy" aria-label=${done ? "Copied" : label} onClick=${copy}>${done ? "Copied" : word || "Copy"}</button>`;
}

// What a table shows as a file: what a spreadsheet would take for a formula begins with an apostrophe.
const cell = (value) => { const text = typeof value === "string" ? value.replace(/^[=+@\t\r-]/, "'$&") : String(value ?? ""); return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
export function Csv({ name, rows }) {
  const save = () => {
    const all = rows(), lines = [Object.keys(all[0] || {}), ...all.map(Object.values)].map((line) => line.map(cell).join(",") + "\r\n");
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob(lines, { type: "text/csv" })), download: name + ".csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  return isAdmin() && html`<span class="grow"></span><button class="btn quiet" aria-label="Save what is shown as CSV" onClick=${save}>CSV</button>`;
}
