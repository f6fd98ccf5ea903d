// The keyboard: what single letters do, and the dialog that leads anywhere by name.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { signal } from "./vendor/signals.js";
import { html, told, go, say, Dialog } from "./kit.js";
import { ask, encoded, session } from "./api.js";

const SCREENS = { o: ["overview", "Overview"], r: ["requests", "Requests"], l: ["losses", "Losses"], a: ["accounts", "Accounts"], k: ["keys", "Keys and teams"], m: ["routes", "Models and routes"], w: ["workbench", "Workbench"], c: ["clients", "Clients"], f: ["config", "Configuration"] };
const HELP = [["?", "this help"], ["Ctrl K", "go to anything by its name"], ["/", "filter"], ["Esc", "close the panel, or clear the filter"], ["j k", "next and previous row; arrows too"], ["Enter", "open it"], ["x, Shift x", "tick an account, or all up to it"], ["Space", "hold what comes in"], ["[ ]", "previous and next in a detail"], ["y", "copy the address of what is shown"], ["1 to 5", "the time that Overview shows"], ["e d t", "enable, disable, test the open account"], ["n p", "next and previous loss in the workbench"]];
const SOON_MS = 1200, MOST = 12;
const dialog = signal(null), letters = signal(localStorage.getItem("letters") !== "off");

// Buttons say by `data-key` which letter they stand for.
const press = (key) => {
  const found = [...document.querySelectorAll("main [data-key]")].find((one) => one.dataset.key === key && one.getClientRects().length && !one.disabled);
  if (found) found.click();
  return Boolean(found);
};
// The first link of a row stands for it.
function walk(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].map((row) => row.querySelector("a")).filter(Boolean);
  const at = rows.findIndex((link) => link.closest("tr").contains(document.activeElement)), next = rows[at < 0 ? 0 : at + step];
  if (next) next.focus();
  return Boolean(next);
}
function leave() {
  const close = document.querySelector("aside a[aria-label=Close]");
  if (close) close.click();
  return Boolean(close);
}
const filter = () => {
  const found = document.querySelector("main input[type=search]");
  if (found) found.focus();
  return Boolean(found);
};
const link = () => { navigator.clipboard.writeText(location.href).then(() => say("The address was copied.")); return true; };

let led = 0; // until when a letter after `g` names a screen
function typed(event) {
  if (!session.value) return;
  const { key, target } = event;
  if (key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); dialog.value = "go"; return; }
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (key === "Escape") {
    if (target.type === "search") { if (target.value) { target.value = ""; target.dispatchEvent(new Event("input", { bubbles: true })); } else target.blur(); event.preventDefault(); }
    else if (leave()) event.preventDefault();
    return;
  }
  if (!letters.value || target.matches("input:not([type=checkbox]), select, textarea") || (key === " " && target.matches("button, a, summary, input"))) return;
  const first = event.timeStamp < led;
  led = 0;
  if (first && SCREENS[key]) go("/ui/" + SCREENS[key][0]);
  else if (key === "g") led = event.timeStamp + SOON_MS;
  else if (key === "?") dialog.value = "help";
  else if (!({ "/": filter, y: link, j: () => walk(1), k: () => walk(-1) }[key] || press)(key)) return;
  event.preventDefault();
}
addEventListener("keydown", typed);

export function Shortcuts() {
  const close = () => { dialog.value = null; };
  return dialog.value && (dialog.value === "go" ? html`<${GoTo} onClose=${close}/>` : html`<${Help} onClose=${close}/>`);
}
export const showHelp = () => { dialog.value = "help"; };

function Help({ onClose }) {
  const change = (event) => { letters.value = event.target.checked; localStorage.setItem("letters", letters.value ? "on" : "off"); };
  return html`<${Dialog} title="Keys" onClose=${onClose}><dl class="facts left keyhelp">${[...HELP, ...Object.entries(SCREENS).map(([key, [, title]]) => ["g " + key, title])].map(([key, words]) => html`<dt><kbd>${key}</kbd></dt><dd>${words}</dd>`)}</dl>
    <label class="tick"><input type="checkbox" checked=${letters.value} onChange=${change}/> Single letters do something</label><div class="acts"><button class="btn primary">Close</button></div></${Dialog}>`;
}

function GoTo({ onClose }) {
  const [text, setText] = useState(""), [known, setKnown] = useState([]), [at, setAt] = useState(0), field = useRef(null);
  useEffect(() => {
    field.current.focus();
    Promise.all([ask("GET", "accounts/table"), ask("GET", "keys"), ask("GET", "teams")]).then(([table, { keys }, { teams }]) => setKnown([["Account", "accounts/", table.columns.name], ["Key", "keys/key/", keys.map((one) => one.name)], ["Team", "keys/team/", teams.map((one) => one.name)]]), () => null);
  }, []);
  const wanted = text.trim().toLowerCase(), fits = (name) => name.toLowerCase().includes(wanted);
  const found = [...Object.values(SCREENS).filter(([, title]) => fits(title)).map(([path, title]) => ["Screen", title, path])];
  if (wanted.startsWith("req_")) found.unshift(["Request", text.trim(), "requests/" + encoded(text.trim())]);
  for (const [kind, path, names] of wanted ? known : []) for (const name of names) if (found.length < MOST && fits(name)) found.push([kind, name, path + encoded(name)]);
  if (wanted) found.push(["Model", text.trim(), "routes?model=" + encoded(text.trim())]);
  const open = (one) => { onClose(); go("/ui/" + one[2]); };
  const keys = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); setAt(Math.max(0, Math.min(found.length - 1, at + step))); }
  };
  return html`<${Dialog} title="Go to" onClose=${onClose} onSubmit=${() => { if (found[at]) open(found[at]); }}>
    <label for="go-to">Screen, account, key, team, model, or the id of a request</label><input id="go-to" ref=${field} role="combobox" aria-expanded="true" aria-controls="go-found" aria-activedescendant=${"go-" + at} autocomplete="off" spellcheck="false" value=${text} onInput=${(event) => { setText(event.target.value); setAt(0); }} onKeyDown=${keys}/>
    <ul id="go-found" role="listbox" aria-label="Found" class="results gofound">${found.map((one, i) => html`<li role="option" id=${"go-" + i} aria-selected=${String(i === at)} onClick=${() => open(one)}><span class="cut grow">${told(one[1])}</span><span class="t3 sm">${one[0]}</span></li>`)}</ul></${Dialog}>`;
}
