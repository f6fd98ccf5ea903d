/** One account: its state and why, its quota windows, what it was used for, its history. */
import { html } from "../lib/html.js";
import { encoded, get, isAdmin, post } from "../lib/api.js";
import { ascending, compact, count, countdown, duration, money, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { formatMinute, formatTime, now } from "../lib/time.js";
import { SidePanel } from "../components/side_panel.js";
import { Facts, Unknown } from "../components/layout.js";
import { ACCOUNT_STATES, Glyph, StatusPill } from "../components/status.js";
import { notify, notifyError } from "../components/toast.js";
import { WindowMeter } from "./accounts_table.js";

const HISTORY_LENGTH = 30;
const DAY_S = 86_400;

/**
 * The state that each kind of change leads to.
 * @type {Record<string, Api.AccountState>}
 */
const STATE_AFTER = {
  cooled: "cooling",
  exhausted: "exhausted",
  disabled: "disabled",
  enabled: "active",
  restored: "active",
};

/**
 * @param {{ name: string, version: number | null, onDisable: () => void, onEnable: () => void,
 *   onNewKey: () => void }} props `version` changes whenever the pool does
 */
export function AccountDetail({ name, version, onDisable, onEnable, onNewKey }) {
  const path = encoded(name);
  const { data, error } = useFetched(
    () =>
      Promise.all([
        get(`accounts/${path}?history=${HISTORY_LENGTH}`),
        get("usage?account=" + path),
      ]),
    [name, version],
  );
  const panel = {
    label: "Account " + printable(name),
    title: name,
    back: "/ui/accounts" + location.search,
  };
  if (!data) {
    return html`<${SidePanel} ...${panel}><section>${error || "Loading…"}</section><//>`;
  }
  /** @type {[{ account: Api.Account, history: Api.AccountChange[] }, { total: Api.Usage }]} */
  const [{ account, history }, { total }] = data;
  const isStored = account.origin === "store";
  const subtitle = [
    printable(account.upstream),
    isStored ? "in the store" : "in the configuration file",
    `priority ${account.priority}`,
  ];
  const actions = html`
    <button class="btn" data-key="t" onClick=${() => testAccount(name)}>Test</button>
    ${isStored && html`<button class="btn" onClick=${onNewKey}>New key…</button>`}
    ${
      account.state === "active"
        ? html`<button class="btn" data-key="d" onClick=${onDisable}>Disable…</button>`
        : html`<button class="btn" data-key="e" onClick=${onEnable}>Enable</button>`
    }
  `;
  return html`
    <${SidePanel} ...${panel} subtitle=${subtitle.join(" · ")} actions=${isAdmin() && actions}>
      <${StateSection} account=${account} />
      ${account.quotas.length > 0 && html`<${QuotaSection} quotas=${account.quotas} />`}
      <${UsageSection} account=${account} usage=${total} />
      <section>
        <h2>History</h2>
        <${StateBand} history=${history} />
        ${
          history.length
            ? html`
              <ul class="hist">${history.map((change) => html`<${Change} ...${change} />`)}</ul>
            `
            : html`<p class="faint small">No change is recorded.</p>`
        }
      </section>
    <//>
  `;
}

/**
 * Sends one short request by an account.
 * @param {string} name
 */
async function testAccount(name) {
  try {
    const { passed, milliseconds, message, why } = await post(`accounts/${encoded(name)}/test`, {});
    const finding = passed
      ? `answered in ${duration(milliseconds / 1000)}.`
      : printable(message || why);
    const text = `${printable(name)}: ${finding}`;
    if (passed) notify(text);
    else notifyError(text);
  } catch (refusal) {
    notifyError(refusal.message);
  }
}

/** @param {{ account: Api.Account }} props */
function StateSection({ account }) {
  const { back_at: backAt, problem, reasons } = account;
  const back =
    backAt &&
    backAt > now.value &&
    html`
      <span class="num">
        ${"back in "}<b class="strong">${countdown(backAt - now.value)}</b>
        ${", at " + formatMinute(backAt)}
      </span>
    `;
  return html`
    <section>
      <p>
        <${StatusPill} status=${ACCOUNT_STATES[account.trial ? "trial" : account.state]} />
        ${" "}
        ${back}
      </p>
      ${problem && html`<p class="why-line state err">${printable(problem)}</p>`}
      ${reasons.map(
        ({ why, model }) => html`<p class="muted why-line">${printable(why)}${ofModel(model)}</p>`,
      )}
    </section>
  `;
}

/** @param {string | null | undefined} model */
const ofModel = (model) => model && html` <span class="mono">${printable(model)}</span>`;

/** @param {{ quotas: (Api.QuotaWindow & { name: string, model: string | null })[] }} props */
const QuotaSection = ({ quotas }) => html`
  <section>
    <h2>Quota windows, as the upstream reports them</h2>
    <div class="windows">
      ${quotas.map(
        (quota) => html`
          <span class="muted">
            ${printable(quota.model ? `${quota.name} ${quota.model}` : quota.name)}
          </span>
          <${WindowMeter} quota=${quota} width=${92} />
          <span class="faint small num align-right">
            ${quota.resets_at ? "resets " + formatMinute(quota.resets_at) : ""}
          </span>
        `,
      )}
    </div>
    <p class="faint small">The tick marks how much of the window’s time has elapsed.</p>
  </section>
`;

/** @param {{ account: Api.Account, usage: Api.Usage }} props */
function UsageSection({ account, usage }) {
  const cached = usage.input ? Math.round((100 * usage.cached) / usage.input) : 0;
  const inFlight =
    account.in_flight + (account.max_concurrent ? ` of ${account.max_concurrent}` : "");
  const error = account.last_error;
  /** @type {[string, unknown][]} */
  const entries = [
    ["Requests", count(account.requests)],
    ["Errors", count(account.errors)],
    ["Retries it caused", count(account.retries)],
    ["Tokens in, cached", `${compact(usage.input)}, ${cached} %`],
    ["Tokens out", compact(usage.output)],
    ["Cost at list price", money(usage.cost_usd)],
    ["In flight", inFlight],
    [
      "Last used",
      account.last_used
        ? formatTime(account.last_used)
        : html`<${Unknown} why="it was not used yet" />`,
    ],
    account.credentials
      ? ["Credentials", account.credentials]
      : ["Key", account.secrets.includes("key") ? "set, never shown" : "none"],
  ];
  return html`
    <section>
      <h2>Last 24 hours</h2>
      <${Facts} entries=${entries} />
      ${
        error &&
        html`
          <p class="muted small why-line">
            Last error, ${formatTime(error.at)}: ${printable(error.kind)}
            ${error.status ? `, ${error.status}` : ""}
          </p>
        `
      }
      <p class="small why-line">
        <a href=${"/ui/requests?account=" + encoded(account.name)}>Its requests</a>
      </p>
    </section>
  `;
}

/**
 * A line of the history.
 * @param {Api.AccountChange} props
 */
function Change({ at, change, why, model, status, source, until }) {
  const details = [status, source || "traffic", until && "until " + formatTime(until)].filter(
    Boolean,
  );
  return html`
    <li>
      <span class="time" title=${formatTime(at)}>${formatMinute(at)}</span>
      <${Glyph} shape=${ACCOUNT_STATES[STATE_AFTER[change] || "active"].shape} />
      <span>
        ${printable(why || change)}${ofModel(model)}
        <div class="faint small">${details.join(", ")}</div>
      </span>
    </li>
  `;
}

/**
 * The times that an account spent in each state, from its history.
 * @param {Api.AccountChange[]} history
 * @returns {{ start: number, end: number, state: Api.AccountState }[]}
 */
function periods(history) {
  const changes = [...history].sort(ascending(({ at }) => at));
  return changes.flatMap(({ at, change, until }, index) => {
    const next = changes[index + 1]?.at ?? now.value;
    const state = STATE_AFTER[change] || "active";
    const isTemporary = state === "cooling" || state === "exhausted";
    const end = isTemporary && until ? Math.min(until, next) : next;
    return [
      { start: at, end, state },
      { start: end, end: next, state: /** @type {const} */ ("active") },
    ];
  });
}

/**
 * The states of the last day as one bar, as far back as the history reaches.
 * @param {{ history: Api.AccountChange[] }} props
 */
function StateBand({ history }) {
  const from = now.value - DAY_S;
  const place = (time) => Math.max(0, (100 * (time - from)) / DAY_S);
  const shown = periods(history).filter(({ start, end }) => end > from && end > start);
  if (!shown.length) return null;
  const states = shown.map(
    ({ start, state }) => `${ACCOUNT_STATES[state].label} from ${formatMinute(start)}`,
  );
  return html`
    <svg width="100%" height="10" class="band" role="img"
      aria-label=${"States of the last 24 hours: " + states.join(", ")}>
      <rect width="100%" height="10" class="f-sunken" />
      ${shown.map(
        ({ start, end, state }) => html`
          <rect x=${place(start) + "%"} width=${Math.max(0.4, place(end) - place(start)) + "%"}
            height="10" class=${"f-" + ACCOUNT_STATES[state].fill}>
            <title>
              ${ACCOUNT_STATES[state].label}, ${formatMinute(start)} to ${formatMinute(end)}
            </title>
          </rect>
        `,
      )}
    </svg>
    <p class="row faint small"><span>24 h ago</span><span class="grow"></span><span>now</span></p>
  `;
}
