/** The dialogs of the keyboard: what keys do, and a way to anything by its name. */
import { html } from "../lib/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { encoded, get } from "../lib/api.js";
import { printable } from "../lib/format.js";
import { TYPING_MS, useFetched } from "../lib/hooks.js";
import { navigate, withQuery } from "../lib/navigation.js";
import { Actions, Dialog } from "../components/dialog.js";
import { Facts } from "../components/layout.js";
import { SCREENS } from "./screens.js";
import { openDialog, setUsesLetters, usesLetters } from "./shortcuts.js";

const KEYS = [
  ["?", "this help"],
  ["Ctrl K", "go to anything by its name"],
  ["/", "filter"],
  ["Esc", "close the panel, or clear the filter"],
  ["j k", "next and previous row; arrows too"],
  ["Enter", "open it"],
  ["x, Shift x", "select an account, or all up to it"],
  ["Space", "pause the requests that come in"],
  ["[ ]", "previous and next in a detail"],
  ["y", "copy the address of what is shown"],
  ["1 to 5", "the time that Overview shows"],
  ["e d t", "enable, disable, test the open account"],
  ["n p", "next and previous loss in the workbench"],
];

const MOST_RESULTS = 12;

/**
 * Something that the dialog leads to.
 * @typedef {{ kind: string, name: string, path: string }} Result
 */

/** The dialog that is open, if one is. */
export function KeyboardDialogs() {
  const onClose = () => {
    openDialog.value = null;
  };
  if (openDialog.value === "go-to") return html`<${GoTo} onClose=${onClose} />`;
  if (openDialog.value === "help") return html`<${Help} onClose=${onClose} />`;
  return null;
}

/** @param {{ onClose: () => void }} props */
function Help({ onClose }) {
  const screens = Object.values(SCREENS).map(({ shortcut, title }) => ["g " + shortcut, title]);
  const entries = [...KEYS, ...screens].map(([key, effect]) => [html`<kbd>${key}</kbd>`, effect]);
  return html`
    <${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
      <${Facts} class="left key-help" entries=${entries} />
      <label class="tick">
        <input type="checkbox" checked=${usesLetters.value}
          onChange=${(event) => setUsesLetters(event.target.checked)} />
        ${" Single-letter shortcuts"}
      </label>
      <${Actions}><button class="btn primary">Close</button><//>
    <//>
  `;
}

/**
 * Accounts, keys and teams whose names contain a text.
 * @param {string} text
 * @returns {Promise<Result[]>}
 */
async function search(text) {
  const [table, { keys }, { teams }] = await Promise.all([
    get("accounts/table"),
    get(withQuery("keys", { q: text, limit: MOST_RESULTS })),
    get("teams"),
  ]);
  const results = (kind, path, names) =>
    names.map((name) => ({ kind, name, path: path + encoded(name) }));
  const namesOf = (owners) => owners.map((owner) => owner.name);
  const all = [
    ...results("Account", "accounts/", table.columns.name),
    ...results("Key", "keys/key/", namesOf(keys)),
    ...results("Team", "keys/team/", namesOf(teams)),
  ];
  return all.filter(({ name }) => contains(name, text)).slice(0, MOST_RESULTS);
}

/**
 * @param {string} name
 * @param {string} text
 */
const contains = (name, text) => name.toLowerCase().includes(text.toLowerCase());

/**
 * Everything that a text can lead to.
 * @param {string} text
 * @param {Result[]} found by the gateway
 * @returns {Result[]}
 */
function resultsOf(text, found) {
  const screens = Object.entries(SCREENS)
    .filter(([, { title }]) => contains(title, text))
    .map(([path, { title }]) => ({ kind: "Screen", name: title, path }));
  if (!text) return screens;
  const request = { kind: "Request", name: text, path: "requests/" + encoded(text) };
  const model = { kind: "Model", name: text, path: withQuery("routes", { model: text }) };
  return [
    ...(text.toLowerCase().startsWith("req_") ? [request] : []),
    ...screens,
    ...found.filter(({ name }) => contains(name, text)).slice(0, MOST_RESULTS - screens.length),
    model,
  ];
}

/** @param {{ onClose: () => void }} props */
function GoTo({ onClose }) {
  const [input, setInput] = useState("");
  const [current, setCurrent] = useState(0);
  const field = useRef(/** @type {any} */ (null));
  useEffect(() => field.current.focus(), []);
  const text = input.trim();
  const { data: found } = useFetched(() => (text ? search(text) : null), [text], {
    delay: TYPING_MS,
  });
  const results = resultsOf(text, found || []);
  const open = (result) => {
    if (!result) return;
    onClose();
    navigate("/ui/" + result.path);
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[/** @type {string} */ (event.key)];
    if (!step) return;
    event.preventDefault();
    setCurrent(Math.max(0, Math.min(results.length - 1, current + step)));
  };
  const onInput = (event) => {
    setInput(event.target.value);
    setCurrent(0);
  };
  return html`
    <${Dialog} title="Go to" onClose=${onClose} onSubmit=${() => open(results[current])}>
      <label for="go-to">Screen, account, key, team, model, or the id of a request</label>
      <input id="go-to" ref=${field} role="combobox" aria-expanded="true"
        aria-controls="go-to-results" aria-activedescendant=${"go-to-" + current} autocomplete="off"
        spellcheck="false" value=${input} onInput=${onInput} onKeyDown=${onKeyDown} />
      <ul id="go-to-results" role="listbox" aria-label="Found" class="results go-to-results">
        ${results.map(
          (result, index) => html`
            <li role="option" id=${"go-to-" + index} aria-selected=${String(index === current)}
              onClick=${() => open(result)}>
              <span class="ellipsis grow">${printable(result.name)}</span>
              <span class="faint small">${result.kind}</span>
            </li>
          `,
        )}
      </ul>
    <//>
  `;
}
