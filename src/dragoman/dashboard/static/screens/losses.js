/** Losses: what translations leave out or change, for which clients. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { encoded, get } from "../lib/api.js";
import { count, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { queryValue, useQuery, withQuery } from "../lib/navigation.js";
import { formatTime } from "../lib/time.js";
import { Spark } from "../components/chart.js";
import { Segmented, Toggle } from "../components/controls.js";
import { Empty, ErrorBanner, Panel, ScreenHead } from "../components/layout.js";
import { LossKind, Pair, pairName } from "../components/protocols.js";
import { numberColumn, Table, textColumn } from "../components/table.js";

const POLL_MS = 10_000;
const MOST_ROWS = 500;
const SHADES = 4;

/** @type {Record<string, number>} */
const SPANS = { "1 h": 3600, "24 h": 86_400, "7 d": 604_800 };
const SPAN_CHOICES = Object.keys(SPANS).map((span) => [span, span]);

/**
 * What each kind of loss means.
 * @type {Record<string, string>}
 */
const KINDS = {
  knob: "settings left out",
  converted: "converted to another form",
  repaired: "completed or put in order",
  content: "content that was left out",
};

/** @typedef {{ client: string, pair: string, kind: string }} Filters */

/**
 * A share in whole percent.
 * @param {number | null} part
 */
function shareText(part) {
  if (part == null) return "";
  return part < 0.01 && part > 0 ? "< 1%" : Math.round(part * 100) + "%";
}

export function Losses() {
  const [span, setSpan] = useState("24 h");
  const [filters, setFilters] = useState({
    client: queryValue("client"),
    pair: queryValue("pair"),
    kind: queryValue("kind"),
  });
  useQuery(filters);
  const choose = (more) => setFilters({ ...filters, ...more });
  const { data, error } = useFetched(
    () => {
      const from = Math.floor(Date.now() / 1000) - SPANS[span];
      return Promise.all([
        get(withQuery("losses", { from, ...filters })),
        get(withQuery("losses", { from, by: "client,pair", kind: filters.kind })),
      ]);
    },
    [span, filters],
    { every: POLL_MS },
  );
  const [losses, byClient] = data || [];
  const tools = html`
    <${Segmented} label="Time" choices=${SPAN_CHOICES} chosen=${span} onChoose=${setSpan} />
  `;
  return html`
    <${ScreenHead} title="Losses" note="what translations leave out, and for whom" tools=${tools} />
    <${ErrorBanner} text=${error} />
    <${FilterChips} filters=${filters} onChoose=${choose} />
    ${
      losses
        ? html`
          <${Matrix} rows=${byClient.rows} filters=${filters} onChoose=${choose} />
          <${LossTable} losses=${losses} isFiltered=${Object.values(filters).some(Boolean)} />
        `
        : html`<${Empty}>${error ? "" : "Loading…"}<//>`
    }
  `;
}

/** @param {{ filters: Filters, onChoose: (more: Partial<Filters>) => void }} props */
const FilterChips = ({ filters, onChoose }) => html`
  <div class="filters" role="group" aria-label="Kinds of losses">
    ${Object.entries(KINDS).map(
      ([kind, label]) => html`
        <${Toggle} pressed=${filters.kind === kind}
          onClick=${() => onChoose({ kind: filters.kind === kind ? "" : kind })}>
          <${LossKind} kind=${kind} />${label}
        <//>
      `,
    )}
    ${
      filters.client &&
      html`
        <${Toggle} pressed aria-label="Show every client" onClick=${() => onChoose({ client: "" })}>
          ${printable(filters.client)} ✕
        <//>
      `
    }
    ${
      filters.pair &&
      html`
        <${Toggle} pressed aria-label="Show every pair" onClick=${() => onChoose({ pair: "" })}>
          ${pairName(filters.pair)} ✕
        <//>
      `
    }
  </div>
`;

/**
 * Clients by pairs of protocols: a number in each cell, and a shade for its share of the largest.
 * @param {{ rows: Api.LossRow[], filters: Filters, onChoose: (more: Partial<Filters>) => void
 *   }} props
 */
function Matrix({ rows, filters, onChoose }) {
  if (!rows.length) return null;
  const clients = [...new Set(rows.map((row) => row.client))];
  const pairs = [...new Set(rows.map((row) => row.pair))].sort();
  const most = Math.max(...rows.map((row) => row.requests));
  const find = (client, pair) => rows.find((row) => row.client === client && row.pair === pair);

  const button = ({ client, pair, requests }) => {
    const isChosen = filters.client === client && filters.pair === pair;
    return html`
      <${Toggle} class="link num" pressed=${isChosen}
        aria-label=${`${printable(client)}, ${pairName(pair)}: ${count(requests)}`}
        onClick=${() => onChoose(isChosen ? { client: "", pair: "" } : { client, pair })}>
        ${count(requests)}
      <//>
    `;
  };
  const columns = [
    {
      head: "Client",
      width: "width-client",
      cell: (client) => printable(client) || html`<span class="faint">unknown</span>`,
    },
    ...pairs.map((pair) => ({
      head: html`<${Pair} pair=${pair} />`,
      align: "right",
      class: (client) => {
        const row = find(client, pair);
        return row ? "heat h" + Math.ceil((SHADES * row.requests) / most) : "faint";
      },
      cell: (client) => {
        const row = find(client, pair);
        return row ? button(row) : "·";
      },
    })),
  ];
  return html`
    <${Panel} title="Clients and pairs"
      note="losses by client and by the protocols between which they happen" class="gap-below">
      <${Table} label="Clients and pairs" class="list-table" columns=${columns} rows=${clients} />
    <//>
  `;
}

/** @type {import("../components/table.js").Column<Api.LossRow>[]} */
const COLUMNS = [
  {
    head: html`<span class="visually-hidden">Kind</span>`,
    width: "width-kind",
    cell: ({ kind }) => html`<${LossKind} kind=${kind} />`,
  },
  { head: "Path", class: "mono whole", cell: ({ path }) => printable(path) },
  { head: "Pair", width: "width-pair", cell: ({ pair }) => html`<${Pair} pair=${pair} />` },
  textColumn("Client", ({ client }) => client),
  numberColumn("Requests", ({ requests }) => count(requests), { width: "width-number" }),
  numberColumn("Refused", ({ refused }) => (refused ? count(refused) : ""), {
    width: "width-number",
  }),
  numberColumn("Share", ({ share }) => shareText(share), { width: "width-number" }),
  {
    head: html`<span class="visually-hidden">Over time</span>`,
    width: "width-spark",
    cell: ({ series }) => series.length > 1 && html`<${Spark} values=${series} />`,
  },
  {
    head: "Last",
    width: "width-time",
    class: "num",
    cell: ({ example, last }) =>
      html`<a href=${"/ui/requests/" + encoded(example)}>${formatTime(last)}</a>`,
  },
];

/** @param {{ losses: { rows: Api.LossRow[], requests: number }, isFiltered: boolean }} props */
function LossTable({ losses: { rows, requests }, isFiltered }) {
  if (!rows.length) {
    const none = isFiltered
      ? "No loss fits the filter."
      : `Nothing was lost in ${count(requests)} requests.`;
    return html`<section class="panel"><${Empty}>${none}<//></section>`;
  }
  const total = `${count(rows.length)} paths in ${count(requests)} requests`;
  return html`
    <${Panel} title="What was lost" note=${total + ", the most frequent first"}>
      <${Table} label="What was lost" class="list-table lost" columns=${COLUMNS}
        rows=${rows.slice(0, MOST_ROWS)} />
    <//>
  `;
}
