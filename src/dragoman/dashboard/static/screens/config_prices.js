/** What models cost: prices of the configuration file first, then those of the table. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { encoded, get } from "../lib/api.js";
import { count, printable } from "../lib/format.js";
import { TYPING_MS, useFetched } from "../lib/hooks.js";
import { queryValue, useQuery } from "../lib/navigation.js";
import { SearchField } from "../components/controls.js";
import { Empty, ErrorBanner } from "../components/layout.js";
import { Table, textColumn } from "../components/table.js";
import { conditionText, RATE_COLUMNS } from "./rates.js";

const MOST_ROWS = 100;

/**
 * One price of a model; the model is named in the row of its first.
 * @typedef {{ model: Api.PricedModel, price: Api.Price, isFirst: boolean }} PriceRow
 */

const upstreamsText = ({ upstreams }) => upstreams.map(printable).join(", ");

/** @type {import("../components/table.js").Column<PriceRow>[]} */
const COLUMNS = [
  {
    head: "Model",
    class: "mono",
    title: ({ model }) => printable(model.name),
    cell: ({ model, isFirst }) => isFirst && printable(model.name),
  },
  {
    head: "Upstream",
    width: "width-key",
    title: ({ model }) => upstreamsText(model),
    cell: ({ model, isFirst }) => isFirst && upstreamsText(model),
  },
  textColumn("When", ({ price }) => conditionText(price), { width: "width-from", class: "muted" }),
  { head: "Source", width: "width-key", cell: ({ model }) => (model.own ? "own" : "table") },
  ...RATE_COLUMNS,
];

export function Prices() {
  const [search, setSearch] = useState(queryValue("q"));
  useQuery({ q: search });
  const { data, error } = useFetched(
    // Without `search`, even an empty one, the answer has no rows.
    () => get(`prices?limit=${MOST_ROWS}&search=${encoded(search)}`),
    [search],
    { delay: TYPING_MS },
  );
  /** @type {Api.PricedModel[]} */
  const models = data ? data.rows : [];
  const rows = models.flatMap((model) =>
    model.prices.map((price, index) => ({ model, price, isFirst: index === 0 })),
  );
  const none = search
    ? "No price fits."
    : "No upstream has a list of prices, and the file has none of its own.";
  return html`
    <div class="filters">
      <${SearchField} label="Find prices" hint="model or upstream" value=${search}
        onInput=${setSearch} />
      <span class="muted">
        US dollars per million tokens${data && `; prices of ${printable(data.version)}`}
      </span>
    </div>
    <${ErrorBanner} text=${error} />
    <div class="table-panel">
      <${Table} label="Prices" class="requests-table" columns=${COLUMNS} rows=${rows} />
      ${data && !models.length && html`<${Empty}>${none}<//>`}
      <div class="table-foot">
        <span class="num">
          ${data ? `${count(models.length)} of ${count(data.total)}` : "Loading…"}
        </span>
      </div>
    </div>
  `;
}
