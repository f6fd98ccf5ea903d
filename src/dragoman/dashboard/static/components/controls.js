/** Controls that several screens have. */
import { classes, html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { isAdmin } from "../lib/api.js";
import { Icon } from "./icons.js";

/**
 * A field to search or filter in.
 * @param {{ label: string, hint: string, value: string, onInput: (value: string) => void,
 *   isWide?: boolean, [more: string]: any }} props
 */
export const SearchField = ({ label, hint, onInput, isWide = true, ...more }) => html`
  <label class=${classes("field", "filter-field", isWide && "wide")}>
    <${Icon} name="search" />
    <input type="search" aria-label=${label} placeholder=${hint} spellcheck="false"
      onInput=${(event) => onInput(event.target.value)} ...${more} />
  </label>
`;

/**
 * A button that is pressed or not.
 * @param {{ pressed: boolean, class?: string, children?: unknown, [more: string]: any }} props
 */
export const Toggle = ({ pressed, class: kind = "chip", children, ...more }) => html`
  <button class=${kind} aria-pressed=${String(pressed)} ...${more}>${children}</button>
`;

/**
 * A row of buttons of which one is pressed.
 * @param {{ label: string, choices: [key: string, text: string][], chosen: string,
 *   onChoose: (key: string) => void, hasShortcuts?: boolean }} props `hasShortcuts`: the digits
 *   press them
 */
export const Segmented = ({ label, choices, chosen, onChoose, hasShortcuts = false }) => html`
  <div class="seg" role="group" aria-label=${label}>
    ${choices.map(
      ([key, text], index) => html`
        <${Toggle} class=${null} pressed=${key === chosen}
          data-key=${hasShortcuts ? String(index + 1) : null} onClick=${() => onChoose(key)}>
          ${text}
        <//>
      `,
    )}
  </div>
`;

/**
 * A list to choose from.
 * @param {{ choices: [key: string, text: string][], chosen: string, class?: string,
 *   onChoose?: (key: string) => void, [more: string]: any }} props
 */
export const Select = ({ choices, chosen, onChoose, class: kind = "btn", ...more }) => html`
  <select class=${kind}
    onChange=${onChoose && ((event) => onChoose(event.target.value))} ...${more}>
    ${choices.map(
      ([key, text]) => html`<option value=${key} selected=${key === chosen}>${text}</option>`,
    )}
  </select>
`;

const COPIED_MS = 1500;

/**
 * A button that copies a text, and confirms it.
 * @param {{ text: string, label?: string, children?: unknown }} props
 */
export function CopyButton({ text, label = "Copy", children = "Copy" }) {
  const [isCopied, setIsCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setIsCopied(true);
    setTimeout(() => setIsCopied(false), COPIED_MS);
  };
  return html`
    <button class="btn quiet copy" aria-label=${isCopied ? "Copied" : label} onClick=${copy}>
      ${isCopied ? "Copied" : children}
    </button>
  `;
}

/**
 * A cell of a CSV file. What a spreadsheet would take for a formula begins with an apostrophe.
 * @param {unknown} value
 */
function csvCell(value) {
  const isText = typeof value === "string";
  const text = isText ? value.replace(/^[=+@\t\r-]/, "'$&") : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {Record<string, unknown>[]} rows */
function csvFile(rows) {
  const lines = [Object.keys(rows[0] || {}), ...rows.map((row) => Object.values(row))];
  return lines.map((cells) => cells.map(csvCell).join(",") + "\r\n").join("");
}

/**
 * Has the browser save a text as a file.
 * @param {string} name
 * @param {string} text
 */
export function saveFile(name, text) {
  const type = name.endsWith(".json") ? "application/json" : "text/csv";
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/**
 * A button that saves the rows of a table, for admins.
 * @param {{ name: string, rows: () => Record<string, unknown>[] }} props
 */
export function CsvButton({ name, rows }) {
  const save = () => saveFile(name + ".csv", csvFile(rows()));
  if (!isAdmin()) return null;
  return html`
    <span class="grow"></span>
    <button class="btn quiet" aria-label="Save the rows shown as CSV" onClick=${save}>CSV</button>
  `;
}
