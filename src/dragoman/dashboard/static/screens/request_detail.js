/** One request: its attempts, what was lost, what it cost, and where it went. */
import { html } from "../lib/html.js";
import { encoded, get } from "../lib/api.js";
import { count, duration, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { navigate } from "../lib/navigation.js";
import { formatTime } from "../lib/time.js";
import { Icon } from "../components/icons.js";
import { Empty, Facts, Panel, Unknown } from "../components/layout.js";
import { LossKind, Protocol } from "../components/protocols.js";
import { requestStatus, StatusPill } from "../components/status.js";
import { Attempts } from "./request_attempts.js";
import { Bodies } from "./request_bodies.js";
import { listed, requestCost } from "./requests.js";

/**
 * How an account is chosen among those that could serve.
 * @type {Record<string, string>}
 */
const SELECTIONS = {
  least_recently_used: "the one that was used longest ago",
  round_robin: "each in turn",
  weighted: "by weight",
  highest_balance: "the one with the most tokens left",
  least_in_flight: "the one with the fewest requests in flight",
  most_quota_left: "the one with the most of its quota left",
};

/** @param {{ id: string }} props */
export function RequestDetail({ id }) {
  const { data, error } = useFetched(() => get("requests/" + encoded(id)), [id]);
  /** @type {Api.RequestDetail | null} */
  const request = data;
  if (!request) {
    return html`
      <div class="head"><${Title} id=${id} /></div>
      <${Empty}>${error || "Loading…"}<//>
    `;
  }
  const { losses, chosen_from: chosenFrom, usage } = request;
  return html`
    <${Head} request=${request} id=${id} />
    ${request.refusal && html`<${Refused} request=${request} />`}
    <${Summary} request=${request} />
    <div class="cols">
      <div class="stack">
        <${Attempts} request=${request} />
        <${Panel} title="Lost in translation" note=${request.losses_total || "nothing"}>
          ${losses.length > 0 && html`<${LossList} losses=${losses} />`}
        <//>
        <${Bodies} id=${id} />
      </div>
      <div class="stack">
        ${chosenFrom && html`<${WhyThisAccount} request=${request} chosenFrom=${chosenFrom} />`}
        ${usage && html`<${TokensAndCost} request=${request} usage=${usage} />`}
        <${WhereItWent} request=${request} />
      </div>
    </div>
  `;
}

/** @param {{ id: string }} props */
const Title = ({ id }) => html`
  <a class="btn quiet icon" href="/ui/requests" aria-label="Back to the requests">
    <${Icon} name="back" />
  </a>
  <h1 class="mono request-id">${printable(id)}</h1>
`;

/** @param {{ request: Api.RequestDetail, id: string }} props */
function Head({ request, id }) {
  const retries = request.attempts - 1;
  const more = retries > 0 ? ` after ${retries} ${retries === 1 ? "retry" : "retries"}` : "";
  const place = listed.ids.indexOf(id);
  return html`
    <div class="head">
      <${Title} id=${id} />
      <${StatusPill} status=${requestStatus(request.status, request.error)} more=${more} />
      <span class="sub num">${formatTime(request.at, "milliseconds")}</span>
      ${
        place >= 0 &&
        html`
          <div class="tools">
            <${Step} id=${listed.ids[place - 1]} shortcut="[" label="Newer request" sign="↑" />
            <${Step} id=${listed.ids[place + 1]} shortcut="]" label="Older request" sign="↓" />
          </div>
        `
      }
    </div>
  `;
}

/** @param {{ id: string | undefined, shortcut: string, label: string, sign: string }} props */
const Step = ({ id, shortcut, label, sign }) => html`
  <button class="btn quiet" data-key=${shortcut} aria-label=${label} disabled=${!id}
    onClick=${() => navigate("/ui/requests/" + encoded(id || ""))}>
    ${sign}
  </button>
`;

/**
 * The message of a request that the gateway refused itself, and the limit that refused it.
 * @param {{ request: Api.RequestDetail }} props
 */
function Refused({ request: { refusal, limit, key, team } }) {
  const owner = limit.startsWith("team:") ? "team/" + encoded(team) : "key/" + encoded(key);
  return html`
    <p class="banner gap-below" role="note">
      Refused here, no upstream was asked: ${printable(refusal) + " "}
      ${limit && html`<a href=${"/ui/keys/" + owner}>Limit ${printable(limit)}</a>`}
    </p>
  `;
}

/** @param {{ request: Api.RequestDetail }} props */
function Summary({ request }) {
  const { first_ms: firstMs, usage } = request;
  const unknown = (field) => html`
    <${Unknown} why=${request.why[field] || "it was not recorded"} />
  `;
  const entries = [
    ["Model", printable(request.model)],
    ["Key", printable(request.key)],
    ["Duration", duration(request.ms / 1000)],
    ["First token", firstMs == null ? unknown("first_ms") : duration(firstMs / 1000)],
    ["Tokens in", usage ? count(usage.input) : unknown("usage")],
    ["Tokens out", usage ? count(usage.output) : unknown("usage")],
    ["Cost", requestCost(request)],
  ];
  return html`
    <section class="panel summary-panel" aria-label="Summary">
      <dl class="summary">
        ${entries.map(
          ([name, value]) => html`
            <div>
              <dt>${name}</dt>
              <dd>${value}</dd>
            </div>
          `,
        )}
      </dl>
    </section>
  `;
}

/** @param {{ losses: Api.Loss[] }} props */
const LossList = ({ losses }) => html`
  <div class="body">
    <ul class="loss-list">
      ${losses.map(
        ({ kind, path, detail }) => html`
          <li>
            <${LossKind} kind=${kind} />
            <span>
              <span class="mono strong">${printable(path)}</span>
              <div class="muted">${printable(detail)}</div>
            </span>
          </li>
        `,
      )}
    </ul>
  </div>
`;

/**
 * Among how many accounts the first one was chosen, and how.
 * @param {{ request: Api.RequestDetail, chosenFrom: Api.ChosenFrom }} props
 */
function WhyThisAccount({ request, chosenFrom }) {
  const line = (number, text, isStrong = false) => html`
    <li>
      <span class="num">${number}</span>
      <span class=${isStrong ? "strong" : "muted"}>${text}</span>
    </li>
  `;
  const selection = SELECTIONS[chosenFrom.selection] || printable(chosenFrom.selection);
  return html`
    <${Panel} title="Why this account"
      note=${request.attempts > 1 ? "the first that was asked" : null}>
      <div class="body">
        <ul class="why">
          ${line(count(chosenFrom.serving), "serve the model")}
          ${chosenFrom.left_out.map(([why, number]) => line("−" + count(number), printable(why)))}
          ${line(count(chosenFrom.could_serve), "could be chosen", true)}
        </ul>
        <p class="muted small why-line">
          ${conversationText(request)}; of the others, ${selection}.
        </p>
      </div>
    <//>
  `;
}

/** @param {Api.RequestDetail} request */
function conversationText({ conversation, moved }) {
  if (!conversation) return "No conversation was recognised";
  const what = `The conversation was ${conversation}`;
  if (moved) return `${what}, and was with another account before`;
  return `${what}: its account comes first`;
}

/** @param {{ request: Api.RequestDetail, usage: Api.TokenUsage }} props */
function TokensAndCost({ request, usage }) {
  /** @type {[string, number | null | undefined][]} */
  const numbers = [
    ["Input", usage.input],
    ["of it cached", usage.cached],
    ["of it written to the cache", usage.cache_write],
    ["Output", usage.output],
    ["of it reasoning", usage.reasoning],
  ];
  const entries = numbers.filter(([, number]) => number != null);
  return html`
    <${Panel} title="Tokens and cost">
      <div class="body">
        <${Facts}
          entries=${[
            ...entries.map(([name, number]) => [name, count(Number(number))]),
            ["Cost at list price", requestCost(request)],
          ]}
        />
      </div>
    <//>
  `;
}

/** @param {{ request: Api.RequestDetail }} props */
function WhereItWent({ request }) {
  const entries = [
    ["Client", printable(request.client)],
    ["User agent", printable(request.user_agent)],
    ["Path", printable(request.route) + (request.stream ? ", stream" : "")],
    ["Protocol", html`<${Protocol} id=${request.protocol} />`],
    ["Upstream", printable(request.upstream)],
    ["Sent as", printable(request.upstream_model)],
    ["Made for", request.purpose && printable(Object.values(request.purpose).join(", "))],
    ["Team", printable(request.team)],
    ["Finish reason", printable(request.finish)],
    ["Error", printable(request.error)],
    ["Trace", printable(request.trace_id)],
  ].filter(([, value]) => value);
  return html`
    <${Panel} title="Where it went">
      <div class="body"><${Facts} entries=${entries} class="left" /></div>
    <//>
  `;
}
