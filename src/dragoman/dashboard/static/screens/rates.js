/** The parts of a price: when it applies, and a rate for each kind of token. */
import { count } from "../lib/format.js";
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
