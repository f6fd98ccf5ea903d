/** The parts of a price: when it applies, and a rate for each kind of token; and costs. */
import { html } from "../lib/html.js";
import { count, money, plural } from "../lib/format.js";
import { Unknown } from "../components/layout.js";
import { numberColumn } from "../components/table.js";

/**
 * When a price applies, empty if it always does.
 * @param {Api.Price} price
 */
export function conditionText({ since, hours, tier, above }) {
  const conditions = [
    since && `since ${since}`,
    hours,
    tier && `${tier} tier`,
    above && `prompts above ${count(above)} tokens`,
  ];
  return conditions.filter(Boolean).join(", ");
}

/**
 * @type {{ rate: "input" | "cached" | "cache_write" | "output", head: string, title: string }[]}
 */
const RATES = [
  { rate: "input", head: "Input", title: "Input tokens" },
  { rate: "cached", head: "Cached", title: "Input tokens read from the cache" },
  { rate: "cache_write", head: "Written", title: "Input tokens written to the cache" },
  { rate: "output", head: "Output", title: "Output tokens" },
];

/**
 * The columns of the rates, of rows that have a price or none.
 * @type {import("../components/table.js").Column<{ price: Api.Price | null }>[]}
 */
export const RATE_COLUMNS = RATES.map(({ rate, head, title }) =>
  numberColumn(head, ({ price }) => price?.[rate], { headTitle: title, width: "width-number" }),
);

/**
 * What answers cost; a dash where none of them has a price.
 * @param {{ cost_usd: string, unpriced: number }} sums
 */
export const costText = ({ cost_usd, unpriced }) =>
  unpriced && !Number(cost_usd)
    ? html`<${Unknown} why=${`no price is known for ${plural(unpriced, "answer")}`} />`
    : money(cost_usd);
