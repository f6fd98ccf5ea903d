/** Budgets: what each key and team may spend, and what it will have spent when its window ends. */
import { html } from "../lib/html.js";
import { encoded, get } from "../lib/api.js";
import { ascending, count, money, printable } from "../lib/format.js";
import { now, unixTime } from "../lib/time.js";
import { elapsedShare } from "../components/gauge.js";
import { Panel, Unknown } from "../components/layout.js";
import { numberColumn, Table } from "../components/table.js";
import { LIMIT_COLUMNS, windowSeconds } from "./limits.js";

const MOST_ROWS = 20;
/** Keys whose budgets are read, in order of their names; of further ones those that run out. */
const MOST_KEYS = 500;

/** @typedef {import("./limits.js").Limited & { kind: Api.OwnerKind, name: string }} Budget */

/**
 * The budgets of all owners, or of the key or team that is looked at.
 * @param {Record<string, string>} filters
 * @returns {Promise<Budget[]>}
 */
export async function readBudgets({ key, team }) {
  const [page, ending, { teams }] = await Promise.all([
    get(`keys?state=true&limit=${MOST_KEYS}`),
    get("keys?ending=true"),
    get("teams?state=true"),
  ]);
  /** @type {Map<string, Api.Owner>} */
  const keys = new Map([...ending.keys, ...page.keys].map((owner) => [owner.name, owner]));
  const budgets = (kind, owners, only, other) =>
    owners
      .filter(({ name }) => (only ? name === only : !other))
      .flatMap(({ name, limits }) =>
        limits
          .filter(({ limit }) => limit.kind === "cost")
          .map((one) => ({ kind, name, limits: [one] })),
      );
  return [...budgets("team", teams, team, key), ...budgets("key", [...keys.values()], key, team)];
}

/**
 * What will have been used when a window of the calendar ends, if use goes on as it does; null for
 * others, and where one just began.
 * @param {Budget} budget
 */
function projected({ limits: [{ limit, state }] }) {
  const [used, amount] = [Number(state.used), Number(state.amount)];
  const resets = unixTime(state.resets_at);
  const ends = unixTime(state.exhausted_at);
  if (!resets || /\d/.test(limit.window || "")) return null;
  if (ends && ends > now.value) {
    return used + ((amount - used) * (resets - now.value)) / (ends - now.value);
  }
  const share = elapsedShare(resets, windowSeconds(limit.window, resets));
  return share ? used / share : null;
}

/** @param {Budget} budget */
function projectedCell(budget) {
  const end = projected(budget);
  if (end == null) return html`<${Unknown} why="its window just began, or has no end" />`;
  const isOver = end > Number(budget.limits[0].state.amount);
  return html`<span class=${isOver ? "strong error-text" : ""}>${money(end)}</span>`;
}

/** @type {import("../components/table.js").Column<Budget>[]} */
const COLUMNS = [
  {
    head: "Budget of",
    title: ({ kind, name }) => `${kind} ${printable(name)}`,
    cell: ({ kind, name }) => html`
      <a class="strong ink" href=${`/ui/keys/${kind}/${encoded(name)}`}>${printable(name)}</a>
      <span class="faint small"> ${kind}</span>
    `,
  },
  ...LIMIT_COLUMNS,
  numberColumn("Projected", projectedCell, {
    headTitle: "When its window ends, if use goes on as it does",
    width: "width-duration",
  }),
];

/**
 * The budgets, those first of which the largest share will be used.
 * @param {{ budgets: Budget[] }} props
 */
export function Budgets({ budgets }) {
  if (!budgets.length) return null;
  const share = (budget) => {
    const { used, amount } = budget.limits[0].state;
    return (projected(budget) ?? Number(used)) / (Number(amount) || 1);
  };
  const shown = [...budgets].sort(ascending((budget) => -share(budget))).slice(0, MOST_ROWS);
  return html`
    <${Panel} title="Budgets" note=${`${count(shown.length)} of ${count(budgets.length)}`}>
      <${Table} label="Budgets" class="list-table keys stacks" columns=${COLUMNS} rows=${shown} />
    <//>
  `;
}
