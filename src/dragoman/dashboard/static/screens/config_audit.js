/** The audit log: who changed what. */
import { html } from "../lib/html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { get, getText } from "../lib/api.js";
import { count, printable } from "../lib/format.js";
import { TYPING_MS } from "../lib/hooks.js";
import { filterTerms, queryValue, useQuery, withQuery } from "../lib/navigation.js";
import { formatTime } from "../lib/time.js";
import { saveFile, SearchField } from "../components/controls.js";
import { Empty, ErrorBanner, Loading } from "../components/layout.js";
import { Table, textColumn } from "../components/table.js";
import { settingText } from "./config_running.js";

const PAGE_ROWS = 100;

/**
 * What differs, field by field, such as `state: active → disabled`.
 * @param {Api.AuditRow} row
 */
function changeText(row) {
  const before = row.before || {};
  const after = row.after || {};
  const fields = Object.keys({ ...before, ...after });
  const lines = fields.map((field) => {
    const old = field in before ? settingText(before[field]) + " → " : "";
    const value = field in after ? settingText(after[field]) : "none";
    return `${printable(field)}: ${old}${value}`;
  });
  return lines.join(", ");
}

/**
 * What `who:ann kind:key` asks for; a word without a field is a name.
 * @param {string} filter
 */
function filtersOf(filter) {
  const terms = filterTerms(filter).map(({ field, value }) =>
    value === undefined ? ["name", field] : [field, value],
  );
  return Object.fromEntries(terms);
}

/** @type {import("../components/table.js").Column<Api.AuditRow>[]} */
const COLUMNS = [
  { head: "Time", width: "width-time", class: "num", cell: ({ at }) => formatTime(at) },
  textColumn("Who", ({ who }) => who, { width: "width-key" }),
  textColumn("Action", ({ action }) => action, { width: "width-key" }),
  textColumn("Kind", ({ kind }) => kind, { width: "width-key" }),
  textColumn("Name", ({ name }) => name, { width: "width-from" }),
  { head: "Change", class: "mono", title: changeText, cell: changeText },
  textColumn("From", ({ origin, address }) => (address ? `${origin}, ${address}` : origin), {
    width: "width-from",
  }),
];

export function Audit() {
  const [filter, setFilter] = useState(queryValue("q"));
  const [rows, setRows] = useState(/** @type {Api.AuditRow[] | null} */ (null));
  const [next, setNext] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState("");
  useQuery({ q: filter });
  const load = async (before = "") => {
    try {
      const query = { limit: PAGE_ROWS, ...filtersOf(filter), before };
      const page = await get(withQuery("audit", query));
      setRows((old) => (before ? [...(old || []), ...page.changes] : page.changes));
      setNext(page.next);
      setError("");
    } catch (refusal) {
      setError(refusal.message);
    }
  };
  useEffect(() => {
    const timer = setTimeout(load, TYPING_MS);
    return () => clearTimeout(timer);
  }, [filter]);

  if (!rows) return html`<${Loading} error=${error} />`;
  const save = async () => {
    const path = withQuery("audit", { format: "csv", ...filtersOf(filter) });
    await getText(path).then(
      (text) => saveFile("audit.csv", text),
      (refusal) => setError(refusal.message),
    );
  };
  return html`
    <div class="filters">
      <${SearchField} label="Find in the audit" hint="name, or who: kind: action:" value=${filter}
        onInput=${setFilter} />
    </div>
    <${ErrorBanner} text=${error} />
    <div class="table-panel">
      <${Table} label="Audit" class="requests-table audit" columns=${COLUMNS} rows=${rows}
        keyOf=${(row) => row.id} />
      ${!rows.length && html`<${Empty}>No such change.<//>`}
      <div class="table-foot">
        <span class="num">${count(rows.length)} shown</span>
        <span class="grow"></span>
        <button class="btn quiet" onClick=${save}>CSV</button>
        ${next && html`<button class="btn quiet" onClick=${() => load(next)}>Older</button>`}
      </div>
    </div>
  `;
}
