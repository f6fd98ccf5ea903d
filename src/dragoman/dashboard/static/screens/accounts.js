/** Accounts: which can serve, which cannot, why, and until when. */
import { html } from "../lib/html.js";
import { useMemo, useState } from "../vendor/hooks.js";
import { get, isAdmin, post } from "../lib/api.js";
import { ascending, count, duration, plural, printable } from "../lib/format.js";
import { useEvents, useFetched, useSelection, useThrottled } from "../lib/hooks.js";
import { filterTerms, queryValue, useQuery } from "../lib/navigation.js";
import { CsvButton, SearchField, Toggle } from "../components/controls.js";
import { Empty, Loading, ScreenHead } from "../components/layout.js";
import { ACCOUNT_STATES, Glyph } from "../components/status.js";
import { notify, notifyError } from "../components/toast.js";
import { AccountDetail } from "./account_detail.js";
import { AddDialog, EnableDialog, NewKeyDialog, TestDialog } from "./account_dialogs.js";
import { ImportDialog } from "./account_import.js";
import { AccountTable } from "./accounts_table.js";

const POLL_MS = 10_000;
const EVENTS_MS = 3_000;

/** The states that can be filtered by. */
const FILTER_STATES = /** @type {const} */ ([
  "active",
  "trial",
  "cooling",
  "exhausted",
  "disabled",
]);

/** Quota windows that the table has columns for. */
const WINDOWS_SHOWN = 2;

/**
 * @typedef {object} AccountRow
 * @property {number} index its place in the pool
 * @property {string} name
 * @property {string} upstream
 * @property {Api.AccountState} state
 * @property {string} why
 * @property {number | null} backAt Unix seconds
 * @property {number} requests
 * @property {number} errors
 * @property {number} inFlight
 * @property {number | null} lastUsed Unix seconds
 * @property {string | null} lastError
 * @property {number | null} failedAt Unix seconds
 * @property {string} cost_usd
 * @property {number} unpriced
 * @property {Record<string, Api.QuotaWindow | null>} windows
 */

/** Of how many requests at least an account that failed all of them is the worst. */
const FEWEST_REQUESTS = 3;

/**
 * How bad an account is, the worst first: one that is still asked and fails everything, those that
 * are out, by their states, and among equals the largest share of errors.
 * @param {AccountRow} row
 */
function rankOf({ state, requests, errors }) {
  const share = requests ? errors / requests : 0;
  const isAsked = state === "active" || state === "trial";
  if (isAsked && share === 1 && requests >= FEWEST_REQUESTS) return -1;
  return SEVERITY.indexOf(state) + (1 - share) / 2;
}

/** @type {Record<string, { label: string, compare: (a: AccountRow, b: AccountRow) => number }>} */
const SORTS = {
  worst: { label: "Worst first", compare: ascending(rankOf) },
  soonest: { label: "Back soonest", compare: ascending((row) => row.backAt ?? Number.MAX_VALUE) },
  errors: { label: "Most errors", compare: ascending((row) => -row.errors) },
};
/** @type {Api.AccountState[]} */
const SEVERITY = ["exhausted", "cooling", "trial", "disabled", "active"];
const DEFAULT_SORT = "worst";

/**
 * The rows of the pool, which is sent by columns.
 * @param {Api.AccountsTable} table
 * @returns {AccountRow[]}
 */
function rowsOf({ columns }) {
  const windows = Object.entries(columns.windows);
  return columns.name.map((name, index) => ({
    index,
    name,
    upstream: columns.upstream[index],
    state: columns.state[index],
    why: columns.why[index],
    backAt: columns.back_at[index],
    requests: columns.requests[index],
    errors: columns.errors[index],
    inFlight: columns.in_flight[index],
    lastUsed: columns.last_used[index],
    lastError: columns.last_error[index],
    failedAt: columns.failed_at[index],
    cost_usd: columns.cost_usd[index],
    unpriced: columns.unpriced[index],
    windows: Object.fromEntries(
      windows.map(([window, column]) => [window, windowAt(column, index)]),
    ),
  }));
}

/**
 * @param {Api.AccountsTable["columns"]["windows"][string]} column
 * @param {number} index
 */
function windowAt(column, index) {
  const reportedAt = column.told_at[index];
  if (reportedAt == null) return null;
  return {
    used: column.used[index],
    resets_at: column.resets_at[index],
    told_at: reportedAt,
    seconds: column.seconds[index],
  };
}

/**
 * Whether a row fits what was typed.
 * @param {string} text
 * @returns {(row: AccountRow) => boolean}
 */
function matcher(text) {
  const terms = filterTerms(text.toLowerCase());
  return (row) =>
    terms.every(({ field, value }) => {
      const name = row.name.toLowerCase();
      if (value === undefined) return name.includes(field);
      if (field === "upstream") return row.upstream.toLowerCase().includes(value);
      if (field === "state") return row.state.startsWith(value);
      if (field === "why") return row.why.toLowerCase().includes(value);
      return name.includes(`${field}:${value}`);
    });
}

/**
 * A row of the CSV file.
 * @param {AccountRow} row
 */
function exported({ name, upstream, state, why, requests, errors, windows, unpriced, ...row }) {
  const used = Object.entries(windows).map(([window, quota]) => ["used_" + window, quota?.used]);
  const fields = {
    ...{ name, upstream, state, why, back_at: row.backAt, requests, errors },
    ...{ cost_usd: row.cost_usd, unpriced, in_flight: row.inFlight, last_used: row.lastUsed },
    ...{ last_error: row.lastError, failed_at: row.failedAt },
  };
  return { ...fields, ...Object.fromEntries(used) };
}

/**
 * Enables or disables accounts; returns which were changed, and why others were refused.
 * @param {Api.AccountAction} action
 * @param {string[]} names
 * @param {string} [reason]
 */
async function apply(action, names, reason) {
  const { done, refused } = await post("accounts/do", { do: action, names, reason });
  const faults = refused.map((one) => `${printable(one.name)}: ${printable(one.message)}`);
  return { done, faults: faults.join("; ") };
}

/** @param {{ name?: string }} props `name` is the account that is open */
export function Accounts({ name }) {
  const [filter, setFilter] = useState(queryValue("q"));
  const [states, toggleState] = useSelection(
    queryValue("state")
      .split(",")
      .filter((state) => state in ACCOUNT_STATES),
  );
  const [sort, setSort] = useState(queryValue("sort") in SORTS ? queryValue("sort") : DEFAULT_SORT);
  useQuery({ q: filter, state: [...states].join(","), sort: sort === DEFAULT_SORT ? "" : sort });

  const [selected, toggleSelected, select] = useSelection();
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  const {
    data: table,
    error,
    reload,
  } = useFetched(() => /** @type {Promise<Api.AccountsTable>} */ (get("accounts/table")), [], {
    every: POLL_MS,
  });
  useEvents("topics=accounts", { accounts: useThrottled(reload, EVENTS_MS) });

  const rows = useMemo(() => (table ? rowsOf(table) : []), [table]);
  const windows = table ? Object.keys(table.columns.windows).slice(0, WINDOWS_SHOWN) : [];
  const shown = useMemo(() => {
    const fits = matcher(filter);
    const inState = (row) => !states.size || states.has(row.state);
    return rows.filter((row) => fits(row) && inState(row)).sort(SORTS[sort].compare);
  }, [rows, filter, states, sort]);

  const act = async (action, names, reason) => {
    setDialog(null);
    try {
      const { done, faults } = await apply(action, names, reason);
      const summary = `${plural(done.length, "account")} ${action}d.`;
      const undo = action === "disable" && done.length ? () => act("enable", done, "") : null;
      if (faults) notifyError(`${summary} Not done: ${faults}`);
      else notify(summary, undo);
      select([]);
    } catch (refusal) {
      notifyError(refusal.message);
    }
    reload();
  };
  const confirm = (action, names) => setDialog({ confirm: { action, names } });

  return html`
    <${Head} rows=${table && rows} onDialog=${setDialog} />
    ${error && html`<p class="banner" role="alert">Not live: ${error}</p>`}
    <div class="filters">
      <${SearchField} label="Filter accounts" hint="Name, upstream:, why:" value=${filter}
        onInput=${setFilter} isWide=${false} />
      <${Chips} rows=${rows} states=${states} onState=${toggleState} sort=${sort}
        onSort=${setSort} />
    </div>
    <div class=${name ? "split" : ""}>
      <div class="table-panel">
        ${
          selected.size > 0 &&
          html`
            <${SelectionBar}
              selected=${[...selected]}
              total=${rows.length}
              onTest=${() => setDialog({ test: [...selected] })}
              onEnable=${(names) =>
                names.length > 1 ? confirm("enable", names) : act("enable", names, "")}
              onDisable=${(names) => confirm("disable", names)}
              onClear=${() => select([])}
            />
          `
        }
        ${
          table
            ? html`
              <${AccountTable} rows=${shown} windows=${windows} open=${name} selected=${selected}
                onToggle=${toggleSelected}
                onToggleAll=${() => select(selected.size ? [] : shown.map((row) => row.name))} />
            `
            : html`<${Loading} error=${error} />`
        }
        ${
          table &&
          !shown.length &&
          html`
            <${Empty}>
              ${rows.length ? "No account fits the filter." : "There is no account yet."}
            <//>
          `
        }
        <div class="table-foot">
          <span class="num">${count(shown.length)} of ${count(rows.length)}</span>
          <${CsvButton} name="accounts" rows=${() => shown.map(exported)} />
        </div>
      </div>
      ${
        name &&
        html`
          <${AccountDetail} key=${name} name=${name} version=${table && table.version}
            onDisable=${() => confirm("disable", [name])}
            onEnable=${() => act("enable", [name], "")}
            onNewKey=${() => setDialog({ newKey: name })} />
        `
      }
    </div>
    <${Dialogs} dialog=${dialog} rows=${rows} onAct=${act} onClose=${() => setDialog(null)}
      reload=${reload} />
  `;
}

/** @param {{ rows: AccountRow[] | null, onDialog: (dialog: any) => void }} props */
function Head({ rows, onDialog }) {
  const canServe = (rows || []).filter(({ state }) => state === "active" || state === "trial");
  const upstreams = new Set((rows || []).map((row) => row.upstream));
  const total = rows && `${count(rows.length)} on ${upstreams.size} upstreams`;
  const note = total && `${total}, ${count(canServe.length)} can serve`;
  const tools = html`
    <button class="btn" onClick=${() => onDialog({ import: true })}>Import…</button>
    <button class="btn" onClick=${() => onDialog({ add: true })}>Add…</button>
  `;
  return html`
    <${ScreenHead} title="Accounts" note=${note} noteClass="" tools=${isAdmin() && tools} />
  `;
}

/**
 * What filters by state and sorts.
 * @param {{ rows: AccountRow[], states: Set<string>, onState: (state: string) => void,
 *   sort: string, onSort: (sort: string) => void }} props
 */
function Chips({ rows, states, onState, sort, onSort }) {
  const numberIn = (state) => rows.filter((row) => row.state === state).length;
  return html`
    <div class="row chips">
      ${FILTER_STATES.map(
        (state) => html`
          <${Toggle} pressed=${states.has(state)} onClick=${() => onState(state)}>
            <${Glyph} shape=${ACCOUNT_STATES[state].shape} />
            ${ACCOUNT_STATES[state].label + " "}
            <b>${count(numberIn(state))}</b>
          <//>
        `,
      )}
      <span class="faint small sort-label">Sort</span>
      ${Object.entries(SORTS).map(
        ([key, { label }]) => html`
          <${Toggle} pressed=${sort === key} onClick=${() => onSort(key)}>${label}<//>
        `,
      )}
    </div>
  `;
}

/**
 * What is done with the accounts that are selected.
 * @param {{ selected: string[], total: number, onTest: () => void,
 *   onEnable: (names: string[]) => void, onDisable: (names: string[]) => void, onClear: () => void
 *   }} props
 */
const SelectionBar = ({ selected, total, onTest, onEnable, onDisable, onClear }) => html`
  <div class="bulk">
    <b class="strong">${count(selected.length)} selected</b>
    <span class="muted not-phone">of ${count(total)}; only the selection is changed</span>
    <span class="grow"></span>
    <button class="btn" onClick=${onTest}>Test…</button>
    <button class="btn" onClick=${() => onEnable(selected)}>
      ${selected.length > 1 ? "Enable…" : "Enable"}
    </button>
    <button class="btn" onClick=${() => onDisable(selected)}>Disable…</button>
    <button class="btn quiet" onClick=${onClear}>Clear</button>
  </div>
`;

/**
 * The dialog that is open, if one is.
 * @param {{ dialog: any, rows: AccountRow[], onAct: (action: Api.AccountAction, names: string[],
 *   reason: string) => void, onClose: () => void, reload: () => void }} props
 */
function Dialogs({ dialog, rows, onAct, onClose, reload }) {
  if (!dialog) return null;
  const finish = (text) => {
    onClose();
    notify(text);
    reload();
  };
  if (dialog.add) {
    const upstreams = [...new Set(rows.map((row) => row.upstream))];
    const onDone = (name) => finish(`${printable(name)} was added.`);
    return html`<${AddDialog} upstreams=${upstreams} onClose=${onClose} onDone=${onDone} />`;
  }
  if (dialog.import) {
    const onDone = (report) =>
      finish(`${count(report.added)} added, ${count(report.replaced)} replaced.`);
    return html`<${ImportDialog} onClose=${onClose} onDone=${onDone} />`;
  }
  if (dialog.test) {
    const close = () => {
      onClose();
      reload();
    };
    return html`<${TestDialog} names=${dialog.test} onClose=${close} />`;
  }
  if (dialog.newKey) {
    const onDone = ({ finding }) => {
      const answered = finding && `, which answered in ${duration(finding.milliseconds / 1000)}`;
      finish(`${printable(dialog.newKey)} has a new key${answered || ""}.`);
    };
    return html`<${NewKeyDialog} name=${dialog.newKey} onClose=${onClose} onDone=${onDone} />`;
  }
  const { action, names } = dialog.confirm;
  return html`
    <${EnableDialog} action=${action} names=${names} onClose=${onClose}
      onDone=${(reason) => onAct(action, names, reason)} />
  `;
}
