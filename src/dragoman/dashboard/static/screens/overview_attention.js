/** What needs attention, in words, each with where to look. */
import { html } from "../lib/html.js";
import { encoded } from "../lib/api.js";
import { count, countdown, percent, plural, printable, sum } from "../lib/format.js";
import { withQuery } from "../lib/navigation.js";
import { formatTime, now, unixTime } from "../lib/time.js";
import { ACCOUNT_STATES, Glyph } from "../components/status.js";
import { AT_FAULT, errorsBy, kindsBy } from "./overview_errors.js";

const MOST_LINES = 6;
/** The share of an upstream's accounts that cool before it is worth a line. */
const COOLING_SHARE = 0.25;
/** The share of requests that fail by somebody's fault before it is worth a line. */
const ERROR_SHARES = /** @type {const} */ ({ gateway: 0.1, upstream: 0.1, caller: 0.5 });
/** Of how many requests at least. */
const FEWEST_REQUESTS = 5;

/**
 * @typedef {object} Line
 * @property {import("../components/status.js").Shape} shape
 * @property {unknown} text
 * @property {string} [link]
 * @property {string} [linkText]
 */

/**
 * How many accounts of an upstream are in each state. The counts of the gateway have those on trial
 * in their other state as well.
 * @param {Api.Health} health
 * @param {string} upstream
 * @returns {Record<Api.AccountState, number>}
 */
export function statesOf(health, upstream) {
  const trials = health.trials[upstream];
  const others = Object.entries(health.accounts[upstream]).map(([state, number]) => [
    state,
    number - (trials[state] || 0),
  ]);
  return { ...Object.fromEntries(others), trial: sum(Object.values(trials)) };
}

/**
 * Accounts that cannot serve.
 * @param {Api.Health} health
 * @returns {Line[]}
 */
function accountLines(health) {
  return Object.keys(health.accounts).flatMap((upstream) => {
    const states = statesOf(health, upstream);
    const total = sum(Object.values(states));
    const backAt = health.back_at[upstream];
    const line = (state, predicate) => ({
      shape: ACCOUNT_STATES[state].shape,
      text: html`
        ${count(states[state])} of ${plural(total, "account")} of${" "}
        <b class="strong">${printable(upstream)}</b> ${predicate}
      `,
      link: withQuery("/ui/accounts", { q: `upstream:${upstream} state:${state}` }),
      linkText: "Show accounts",
    });
    const verb = (number) => (number === 1 ? "is" : "are");
    const { exhausted, cooling, disabled } = states;
    const lines = [];
    if (exhausted) {
      const back = backAt.exhausted && ` The first is back at ${formatTime(backAt.exhausted)}.`;
      lines.push(line("exhausted", `${verb(exhausted)} out.${back || ""}`));
    }
    if (cooling > 1 && cooling >= COOLING_SHARE * total) {
      const back = countdown(Math.max(0, Number(backAt.cooling) - now.value));
      lines.push(line("cooling", `are cooling. The first is back in ${back}.`));
    }
    if (disabled) lines.push(line("disabled", `${verb(disabled)} disabled.`));
    return lines;
  });
}

/**
 * Limits that will be used up before they reset.
 * @param {Api.OwnerKind} kind
 * @param {Api.Owner[]} owners
 * @returns {Line[]}
 */
function limitLines(kind, owners) {
  const all = owners.flatMap(({ name, limits }) => limits.map((one) => ({ name, ...one })));
  return all.flatMap(({ name, limit, state }) => {
    const end = unixTime(state.exhausted_at);
    const reset = unixTime(state.resets_at);
    if (!end || end <= now.value || (reset && reset < end)) return [];
    const what = printable(limit.kind.replace("_", " "));
    return [
      {
        shape: "diamond",
        text: html`
          At the current rate ${kind} <b class="strong">${printable(name)}</b> uses up its ${what}
          ${" of "}${printable(limit.window || "all time")} in ${countdown(end - now.value)}.
        `,
        link: `/ui/keys/${kind}/${encoded(name)}`,
        linkText: "Show limits",
      },
    ];
  });
}

/**
 * Budgets that refuse every request for a model, since that has no price.
 * @param {Api.Health} health
 * @returns {Line[]}
 */
function unpricedLines({ unpriced_budgets: budgets }) {
  return budgets.map(({ scope, owner, model, upstream }) => ({
    shape: "ring",
    text: html`
      The model <b class="strong">${printable(model)}</b> of ${printable(upstream)} has no price, so
      ${" "}${scope} <b class="strong">${printable(owner)}</b>, which has a budget, cannot use it.
    `,
    link: `/ui/keys/${scope}/${encoded(owner)}`,
    linkText: "Show limits",
  }));
}

/**
 * Large shares of requests that failed, by whose fault.
 * @param {Api.SeriesAnswer} series
 * @returns {Line[]}
 */
function errorLines({ requests, errors }) {
  const total = sum(Object.values(requests).flat());
  if (total < FEWEST_REQUESTS) return [];
  return /** @type {const} */ (["gateway", "upstream", "caller"]).flatMap((atFault) => {
    const bad = errorsBy(errors, atFault);
    if (!bad || bad < ERROR_SHARES[atFault] * total) return [];
    const [[kind]] = kindsBy(errors, atFault);
    return [
      {
        shape: "square",
        text: html`
          ${count(bad)} of ${count(total)} requests failed (${percent(bad, total)} %) through
          ${" "}${AT_FAULT[atFault]}, most often with <b class="strong">${printable(kind)}</b>.
        `,
        link: withQuery("/ui/requests", { error: kind }),
        linkText: "Show requests",
      },
    ];
  });
}

/**
 * Upstreams that refuse all of their accounts alike.
 * @param {Api.Health} health
 * @returns {Line[]}
 */
const restingLines = ({ resting }) =>
  Object.entries(resting).map(([upstream, why]) => ({
    shape: "square",
    text: html`
      <b class="strong">${printable(upstream)}</b> rests, and one account at a time tries it:
      ${" "}${printable(why)}.
    `,
    link: withQuery("/ui/accounts", { q: `upstream:${upstream}` }),
    linkText: "Show accounts",
  }));

/**
 * Faults of the gateway's own storage.
 * @param {Api.Health} health
 * @returns {Line[]}
 */
function storageLines({ store, limits }) {
  /** @type {Line[]} */
  const lines = [];
  if (store === "failing") {
    lines.push({
      shape: "ring",
      text: "The store cannot be used; changes are buffered in memory until it can.",
    });
  }
  if (limits === "away") {
    lines.push({
      shape: "ring",
      text: "The database in which machines share limits cannot be reached.",
    });
  }
  return lines;
}

/**
 * @param {{ series: Api.SeriesAnswer, health: Api.Health, keys: Api.Owner[], teams: Api.Owner[]
 *   }} props
 */
export function Attention({ series, health, keys, teams }) {
  const lines = [
    ...restingLines(health),
    ...errorLines(series),
    ...accountLines(health),
    ...limitLines("key", keys),
    ...limitLines("team", teams),
    ...unpricedLines(health),
    ...storageLines(health),
  ];
  if (!lines.length) return html`<p class="banner quiet">Nothing needs attention.</p>`;
  return html`
    <ul class="attention" aria-label="Needs attention">
      ${lines.slice(0, MOST_LINES).map(
        ({ shape, text, link, linkText }) => html`
          <li>
            <${Glyph} shape=${shape} />
            <span class="grow">${text}</span>
            ${link && html`<a class="go" href=${link}>${linkText}</a>`}
          </li>
        `,
      )}
      ${
        lines.length > MOST_LINES &&
        html`<li><span class="grow faint">and ${count(lines.length - MOST_LINES)} more</span></li>`
      }
    </ul>
  `;
}
