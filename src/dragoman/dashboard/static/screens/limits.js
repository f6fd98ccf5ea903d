/** Limits of keys and teams: their names, what is used of them, and when they end. */
import { classes, html } from "../lib/html.js";
import { compact, count, countdown, money, printable } from "../lib/format.js";
import { formatTime, now, unixTime } from "../lib/time.js";
import { elapsedShare, Gauge } from "../components/gauge.js";

/**
 * What can be limited.
 * @type {Record<string, string>}
 */
export const LIMIT_KINDS = {
  requests: "requests",
  input_tokens: "input tokens",
  output_tokens: "output tokens",
  tokens: "tokens",
  cost: "cost",
  concurrent: "concurrent requests",
};

/**
 * The seconds of windows that have a name.
 * @type {Record<string, number>}
 */
const WINDOWS = { hour: 3600, day: 86_400, week: 7 * 86_400, month: 30 * 86_400 };
/** @type {Record<string, number>} */
const UNITS = { s: 1, m: 60, h: 3600, d: 86_400 };

/**
 * How long a window such as `month` or `5h` is, null if it has no end.
 * @param {string | null | undefined} window
 * @param {number | null} resetsAt when it ends
 */
export function windowSeconds(window, resetsAt) {
  if (!window) return null;
  if (window === "month" && resetsAt) {
    const begin = new Date(resetsAt * 1000);
    return resetsAt - begin.setUTCMonth(begin.getUTCMonth() - 1) / 1000;
  }
  if (window in WINDOWS) return WINDOWS[window];
  const [, number, unit] = /^(\d+)([smhd])$/.exec(window) || [];
  return number ? Number(number) * UNITS[unit] : null;
}

/**
 * An amount of what a limit counts.
 * @param {string} kind
 * @param {string | number} amount
 */
export const amountText = (kind, amount) =>
  kind === "cost" ? money(amount) : count(Number(amount));

/** @param {Api.Limit} limit */
export const limitName = ({ kind, window, models }) =>
  [LIMIT_KINDS[kind] || kind, window, models?.map(printable).join(" ")].filter(Boolean).join(", ");

/**
 * The shares of a limit that are used and reserved.
 * @param {Api.LimitView} one
 */
function shares({ state }) {
  const amount = Number(state.amount);
  if (!amount) return { used: 1, reserved: 0 };
  return { used: Number(state.used) / amount, reserved: Number(state.reserved) / amount };
}

/**
 * The limit of which the largest share is used, null if there is none.
 * @param {Api.LimitView[]} limits
 * @returns {Api.LimitView | null}
 */
function tightest(limits) {
  const share = (one) => shares(one).used + shares(one).reserved;
  const worst = Math.max(...limits.map(share));
  return limits.find((one) => share(one) === worst) || null;
}

/** @param {{ one: Api.LimitView, width?: number }} props */
export function LimitBar({ one, width }) {
  const { limit, state } = one;
  const { used, reserved } = shares(one);
  const isEnforced = !limit.mode || limit.mode === "enforce";
  const resetsAt = unixTime(state.resets_at);
  return html`
    <${Gauge} used=${used} reserved=${reserved}
      elapsed=${elapsedShare(resetsAt, windowSeconds(limit.window, resetsAt))} width=${width}
      class=${classes(!isEnforced && "not-enforced") || null}
      label=${`${Math.round((used + reserved) * 100)} percent of ${limitName(limit)}`} />
  `;
}

const MOST_WHOLE = 100_000;

/**
 * What is used of a limit, large numbers in three digits.
 * @param {{ one: Api.LimitView }} props
 */
export function UsedOf({ one: { limit, state } }) {
  const exact = (amount) => amountText(limit.kind, amount);
  const short = (amount) => (amount < MOST_WHOLE ? exact(amount) : compact(Number(amount)));
  return html`
    <span class="num no-wrap" title=${`${exact(state.used)} of ${exact(state.amount)}`}>
      ${short(state.used)} of ${short(state.amount)}
    </span>
  `;
}

const none = html`<span class="faint">—</span>`;

/** @param {{ one: Api.LimitView }} props */
export function ResetsIn({ one }) {
  const at = unixTime(one.state.resets_at);
  if (!at || at <= now.value) return none;
  return html`
    <span class="num no-wrap" title=${formatTime(at)}>${countdown(at - now.value)}</span>
  `;
}

/** @param {{ one: Api.LimitView }} props */
export function ExhaustedIn({ one }) {
  const at = unixTime(one.state.exhausted_at);
  if (!at || at <= now.value) return none;
  const title = "at the current rate, at " + formatTime(at);
  return html`
    <b class="strong num no-wrap error-text" title=${title}>${countdown(at - now.value)}</b>
  `;
}

/** @typedef {{ limits: Api.LimitView[] }} Limited */

/**
 * A cell about the tightest limit.
 * @param {(one: Api.LimitView) => any} render
 * @param {any} [none]
 */
function limitCell(render, none = null) {
  return ({ limits }) => {
    const one = tightest(limits);
    return one ? render(one) : none;
  };
}

/**
 * What is left of the tightest limit of each row.
 * @type {import("../components/table.js").Column<Limited>[]}
 */
export const LIMIT_COLUMNS = [
  {
    head: "Tightest limit",
    class: "muted",
    title: limitCell((one) => limitName(one.limit), ""),
    cell: limitCell((one) => limitName(one.limit), html`<span class="faint">no limit</span>`),
  },
  {
    head: html`<span class="visually-hidden">Share</span>`,
    width: "width-bar",
    cell: limitCell((one) => html`<${LimitBar} one=${one} />`),
  },
  {
    head: "Used",
    width: "width-used",
    align: "right",
    cell: limitCell((one) => html`<${UsedOf} one=${one} />`),
  },
  {
    head: "Resets in",
    width: "width-duration",
    align: "right",
    cell: limitCell((one) => html`<${ResetsIn} one=${one} />`),
  },
  {
    head: "Used up in",
    headTitle: "At the current rate, where that is before the reset",
    width: "width-duration",
    align: "right",
    cell: limitCell((one) => html`<${ExhaustedIn} one=${one} />`),
  },
];
