/** The dialog that imports a list of accounts, after a preview of what would be stored. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { post } from "../lib/api.js";
import { count, plural, printable } from "../lib/format.js";
import { withQuery } from "../lib/navigation.js";
import { Actions, Dialog, FormError, useSubmit } from "../components/dialog.js";
import { Table } from "../components/table.js";

const BAD_ROWS_SHOWN = 200;
const SAME_KEYS_SHOWN = 5;
const FILES = ".csv,.json,.jsonl,.ndjson,text/csv,application/json";

/**
 * The format of a list.
 * @param {string} text
 */
function formatOf(text) {
  if (/^\s*\[/.test(text)) return "json";
  return /^\s*\{/.test(text) ? "jsonl" : "csv";
}

/** @param {{ onClose: () => void, onDone: (report: Api.ImportReport) => void }} props */
export function ImportDialog({ onClose, onDone }) {
  const [text, setText] = useState("");
  const [replaces, setReplaces] = useState(false);
  const [preview, setPreview] = useState(/** @type {Api.ImportReport | null} */ (null));
  const { error, isBusy, run } = useSubmit((next) => next());

  const request = (options) =>
    post(
      withQuery("accounts/import", { format: formatOf(text), replace: replaces, ...options }),
      text,
    );
  const look = () =>
    run(async () => {
      const report = await request({ dry_run: "true" });
      return () => setPreview(report);
    });
  const store = () =>
    run(async () => {
      const report = await request({ skip_bad: "true" });
      return () => onDone(report);
    });
  const change = (list) => {
    setText(list);
    setPreview(null);
  };
  const readFile = async (event) => {
    const [file] = event.target.files;
    if (file) change(await file.text());
  };
  const setReplace = (event) => {
    setReplaces(event.target.checked);
    setPreview(null);
  };
  const good = preview ? preview.added + preview.replaced : 0;
  return html`
    <${Dialog} title="Import accounts" onClose=${onClose} class="wide" onSubmit=${look}>
      <p class="muted">
        CSV with a head, a JSON array, or an object on each line: name, upstream, key, and any other
        field of an account. Nothing is stored before you confirm the preview.
      </p>
      <label for="list">List</label>
      <textarea id="list" class=${"pasted" + (text ? " dots" : "")} rows="7" spellcheck="false"
        autocomplete="off" value=${text}
        onInput=${(event) => change(event.target.value)}></textarea>
      <div class="row">
        <input type="file" aria-label="File" accept=${FILES} onChange=${readFile} />
        <label class="tick">
          <input type="checkbox" checked=${replaces} onChange=${setReplace} />
          ${" "}
          Replace accounts of the same name
        </label>
      </div>
      <${FormError} text=${error} />
      ${preview && html`<${Preview} report=${preview} />`}
      <${Actions}>
        ${
          preview
            ? html`
              <button type="button" class="btn primary" disabled=${isBusy || !good}
                onClick=${store}>
                Import ${plural(good, "good row")}
              </button>
            `
            : html`<button class="btn primary" disabled=${isBusy || !text.trim()}>Preview</button>`
        }
        <button type="button" class="btn" onClick=${onClose}>
          ${preview ? "Import nothing" : "Cancel"}
        </button>
      <//>
    <//>
  `;
}

/**
 * @type {import("../components/table.js").Column<{ row: number, name: string, field: string,
 *   message: string }>[]}
 */
const FAULT_COLUMNS = [
  { head: "Row", align: "right", class: "num", cell: ({ row }) => row },
  { head: "Account", cell: ({ name }) => printable(name) || "—" },
  { head: "Field", class: "mono", cell: ({ field }) => printable(field) },
  { head: "What is wrong", cell: ({ message }) => printable(message) },
];

/** @param {{ report: Api.ImportReport }} props */
function Preview({ report }) {
  const { rows, added, replaced, bad, same_keys: sameKeys } = report;
  const faults = bad
    .slice(0, BAD_ROWS_SHOWN)
    .flatMap((row) => row.faults.map((fault) => ({ row: row.at, name: row.name, ...fault })));
  const pairs = sameKeys
    .slice(0, SAME_KEYS_SHOWN)
    .map((names) => names.map(printable).join(" and "));
  if (sameKeys.length > SAME_KEYS_SHOWN) pairs.push("…");
  const sameText = sameKeys.length ? `, ${count(sameKeys.length)} with the key of another` : "";
  return html`
    <section aria-label="Preview" class="preview">
      <p role="status">
        <b class="strong">${count(rows)}</b> rows: <b class="strong">${count(added)}</b> new,${" "}
        <b class="strong">${count(replaced)}</b> replaced,${" "}
        <b class=${bad.length ? "state err" : "strong"}>${count(rows - added - replaced)}</b>
        ${" bad" + sameText}.
      </p>
      ${
        faults.length > 0 &&
        html`
          <${Table} label="Bad rows" regionClass="scrolls" columns=${FAULT_COLUMNS}
            rows=${faults} />
        `
      }
      ${pairs.length > 0 && html`<p class="muted small">Same key: ${pairs.join("; ")}.</p>`}
    </section>
  `;
}
