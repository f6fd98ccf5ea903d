/** Requests: what is happening now, and what happened lately. */
import { html } from "../lib/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { encoded, get } from "../lib/api.js";
import { count, duration, money, printable, sum } from "../lib/format.js";
import { TYPING_MS, useEvents } from "../lib/hooks.js";
import { filterTerms, queryValue, useQuery, withQuery } from "../lib/navigation.js";
import { formatTime } from "../lib/time.js";
import { CsvButton, SearchField, Select, Toggle } from "../components/controls.js";
import { Empty, ErrorBanner, ScreenHead, Unknown } from "../components/layout.js";
import { LossKind } from "../components/protocols.js";
import { requestStatus, StatusLabel } from "../components/status.js";
import { numberColumn, Table, textColumn } from "../components/table.js";

const POLL_MS = 3_000;
const PAGE_ROWS = 100;
const LIVE_ROWS = 100;
const MOST_ROWS = 500;
/** Of how many batches of events the share that is shown is computed. */
const BATCHES = 20;

/** @type {Record<string, { label: string, seconds: number }>} */
const SPANS = {
  "15min": { label: "Last 15 minutes", seconds: 900 },
  "1h": { label: "Last hour", seconds: 3600 },
  "24h": { label: "Last 24 hours", seconds: 86_400 },
  "": { label: "Last 7 days", seconds: 7 * 86_400 },
};
const SPAN_CHOICES = Object.entries(SPANS).map(([key, { label }]) => [key, label]);
const FIELDS = [
  "key",
  "model",
  "account",
  "upstream",
  "status",
  "error",
  "loss",
  "client",
  "min_ms",
];

/** The requests that were listed last, in their order: a detail leads on to the next. */
export const listed = { ids: /** @type {string[]} */ ([]) };

/**
 * What is filtered by: a word without a field names a model.
 * @param {string} text
 * @returns {Record<string, string>}
 */
function filtersOf(text) {
  const terms = filterTerms(text).map(({ field, value }) => {
    return value === undefined ? { field: "model", value: field } : { field, value };
  });
  const valid = terms.filter(({ field, value }) => FIELDS.includes(field) && value);
  return Object.fromEntries(valid.map(({ field, value }) => [field, value]));
}

/**
 * The terms whose field there is not.
 * @param {string} text
 */
const unknownTerms = (text) =>
  filterTerms(text)
    .filter(({ field, value }) => value !== undefined && !FIELDS.includes(field))
    .map(({ field, value }) => `${field}:${value}`);

/** The filter in the address of the page. */
const addressedFilter = () =>
  FIELDS.filter(queryValue)
    .map((field) => `${field}:${queryValue(field)}`)
    .join(" ");

/**
 * The cost of a request, or why it is not known.
 * @param {Api.RequestRow} row
 */
export function requestCost({ cost_usd, usage, estimated }) {
  if (cost_usd != null) return money(cost_usd) + (estimated ? " est." : "");
  const why = usage ? "no price is known for this model" : "the upstream reported no usage";
  return html`<${Unknown} why=${why} />`;
}

/**
 * A row of the CSV file.
 * @param {Api.RequestRow} row
 */
const exported = (row) => ({
  at: new Date(row.at * 1000).toISOString(),
  id: row.id,
  status: row.status,
  error: row.error,
  refusal: row.refusal,
  limit: row.limit,
  key: row.key,
  client: row.client,
  model: row.model,
  upstream: row.upstream,
  account: row.account,
  attempts: row.attempts,
  first_ms: row.first_ms,
  ms: row.ms,
  input: row.usage?.input,
  cached: row.usage?.cached,
  output: row.usage?.output,
  cost_usd: row.cost_usd,
  losses_total: row.losses_total,
});

/** @type {import("../components/table.js").Column<Api.RequestRow>[]} */
const COLUMNS = [
  {
    head: "Time",
    width: "width-time",
    class: "num",
    cell: ({ id, at }) => html`<a href=${"/ui/requests/" + encoded(id)}>${formatTime(at)}</a>`,
  },
  {
    head: "Outcome",
    width: "width-outcome",
    cell: ({ status, error, attempts }) => html`
      <${StatusLabel} status=${requestStatus(status, error)} title=${printable(error)} />
      ${attempts > 1 && html` <span class="faint small">${attempts} tried</span>`}
    `,
  },
  textColumn("Model", ({ model }) => model, { cell: modelCell }),
  textColumn("Key", ({ key }) => key, { width: "width-key" }),
  textColumn("Account", ({ account, refusal }) => account || refusal, {
    width: "width-account",
    class: ({ refusal }) => (refusal ? "error-text" : ""),
  }),
  numberColumn("Duration", ({ ms }) => duration(ms / 1000), { width: "width-number" }),
  numberColumn("First token", ({ first_ms: ms }) => (ms == null ? "" : duration(ms / 1000)), {
    width: "width-number",
  }),
  numberColumn(
    "Tokens in / out",
    ({ usage }) => (usage ? `${count(usage.input)} / ${count(usage.output)}` : ""),
    { width: "width-tokens" },
  ),
  numberColumn("Cost", requestCost, { width: "width-cost" }),
];

/**
 * A model, and what kinds of losses its translation had.
 * @param {Api.RequestRow} row
 */
function modelCell({ model, losses_total: losses, loss_kinds: kinds }) {
  if (!losses) return printable(model);
  return html`
    ${printable(model) + " "}
    <span class="kinds" title=${losses + " lost in translation"}>
      ${kinds.map((kind) => html`<${LossKind} kind=${kind} />`)}
    </span>
  `;
}

/**
 * The rows that fit a filter. They arrive as events, or are polled where no events arrive
 * or while it is paused.
 * @param {string} filter
 * @param {string} span
 * @param {boolean} isPaused
 */
function useRequests(filter, span, isPaused) {
  const [rows, setRows] = useState(/** @type {Api.RequestRow[] | null} */ (null));
  const [next, setNext] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState("");
  const [batches, setBatches] = useState(/** @type {Api.RequestsEvent[]} */ ([]));
  const [eventsQuery, setEventsQuery] = useState("");
  const latest = useRef(0);

  const load = async (after = "") => {
    const turn = ++latest.current;
    const from = Math.floor(Date.now() / 1000 - SPANS[span].seconds);
    const query = { ...filtersOf(filter), from, limit: PAGE_ROWS, after };
    try {
      const page = await get(withQuery("requests", query));
      if (turn !== latest.current) return; // the filter has changed since
      setRows((old) => (after ? [...(old || []), ...page.rows].slice(0, MOST_ROWS) : page.rows));
      setNext(page.next);
      setError("");
    } catch (refusal) {
      if (turn === latest.current) setError(refusal.message);
    }
  };
  useEffect(() => {
    const start = () => {
      if (isPaused) load();
      else setEventsQuery(withQuery("", { ...filtersOf(filter), topics: "requests" }).slice(1));
    };
    const timer = setTimeout(start, TYPING_MS);
    return () => {
      clearTimeout(timer);
      latest.current++;
      setEventsQuery("");
      setBatches([]);
    };
  }, [filter, isPaused, span]);

  const onRequests = (batch) => {
    const ids = new Set(batch.rows.map((row) => row.id));
    setBatches((old) => [...old, batch].slice(-BATCHES));
    setRows((old) => {
      const others = (old || []).filter((row) => !ids.has(row.id));
      return [...batch.rows, ...others].slice(0, LIVE_ROWS);
    });
  };
  const isConnected = useEvents(eventsQuery, { open: () => load(), requests: onRequests });
  useEffect(() => {
    if (isConnected !== false) return undefined;
    load();
    const timer = setInterval(() => document.hidden || load(), POLL_MS);
    return () => clearInterval(timer);
  }, [isConnected, eventsQuery]);

  return { rows, next, error, batches, isConnected, loadAfter: load };
}

/**
 * Where the rows come from.
 * @param {boolean} isPaused
 * @param {boolean | undefined} isConnected
 * @param {Api.RequestsEvent[]} batches
 */
function describeSource(isPaused, isConnected, batches) {
  if (isPaused) return "paused";
  if (isConnected === false) return "not live: updated every 3 s";
  const shown = sum(batches.map((batch) => batch.shown));
  const seen = sum(batches.map((batch) => batch.seen));
  if (shown >= seen) return "live, the latest first";
  return `live, a sample: ${((100 * shown) / seen).toFixed(1)} % of all requests`;
}

export function Requests() {
  const [filter, setFilter] = useState(addressedFilter);
  const [span, setSpan] = useState(queryValue("t") in SPANS ? queryValue("t") : "");
  const [isPaused, setIsPaused] = useState(false);
  const found = useRequests(filter, span, isPaused);
  const { rows, next, error, batches, isConnected, loadAfter } = found;
  const filters = filtersOf(filter);
  useQuery({
    t: span,
    ...Object.fromEntries(FIELDS.map((field) => [field, filters[field] || ""])),
  });
  listed.ids = (rows || []).map((row) => row.id);

  const unknown = unknownTerms(filter);
  const showOlder = () => {
    setIsPaused(true);
    loadAfter(next || undefined);
  };
  const tools = html`
    <${Toggle} class="btn" data-key=" " pressed=${isPaused} onClick=${() => setIsPaused(!isPaused)}>
      ${isPaused ? "Resume" : "Pause"}
    <//>
  `;
  return html`
    <${ScreenHead} title="Requests" note=${describeSource(isPaused, isConnected, batches)}
      noteClass="" tools=${tools} />
    <${ErrorBanner} text=${error} />
    <div class="filters">
      <${SearchField} label="Filter requests" hint="model, or account: key: status:5xx error: loss:"
        value=${filter} onInput=${setFilter} aria-describedby="unknown-fields" />
      <${Select} aria-label="Time" choices=${SPAN_CHOICES} chosen=${span} onChoose=${setSpan} />
      <p id="unknown-fields" class="muted small" role="status">
        ${
          unknown.length > 0 &&
          `${printable(unknown.join(", "))}: no such filter. There are ${FIELDS.join(", ")}.`
        }
      </p>
    </div>
    <div class="table-panel">
      <${Table} label="Requests" class="requests-table" columns=${COLUMNS} rows=${rows || []}
        keyOf=${(row) => row.id} />
      ${
        rows &&
        !rows.length &&
        html`<${Empty}>${filter ? "No request fits the filter." : "No request was made yet."}<//>`
      }
      <div class="table-foot">
        <span class="num">${rows ? `${count(rows.length)} shown` : "Loading…"}</span>
        <${CsvButton} name="requests" rows=${() => (rows || []).map(exported)} />
        ${
          next &&
          (rows || []).length < MOST_ROWS &&
          html`<button class="btn quiet" onClick=${showOlder}>Older</button>`
        }
      </div>
    </div>
  `;
}
