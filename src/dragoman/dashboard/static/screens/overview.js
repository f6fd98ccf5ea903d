/** Overview: does anything need attention, and is everything as usual? */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { get } from "../lib/api.js";
import { ascending, count, printable } from "../lib/format.js";
import { useEvents, useFetched, useThrottled } from "../lib/hooks.js";
import { queryValue, useQuery, withQuery } from "../lib/navigation.js";
import { formatTime, now } from "../lib/time.js";
import { Segmented, Select, Toggle } from "../components/controls.js";
import { PartsBar } from "../components/gauge.js";
import { Empty, Loading, Panel, ScreenHead } from "../components/layout.js";
import { Pair } from "../components/protocols.js";
import { ACCOUNT_STATES, Glyph } from "../components/status.js";
import { Attention, statesOf } from "./overview_attention.js";
import { Charts, emptySteps } from "./overview_charts.js";
import { AT_FAULT, kindsBy } from "./overview_errors.js";
import { Figures } from "./overview_figures.js";

const POLL_MS = 10_000;
const EVENTS_MS = 5_000;
const MOST_ERRORS = 8;
const MOST_LOSSES = 6;

/** @type {Record<string, number>} */
const SPANS = { "15 min": 900, "1 h": 3600, "6 h": 21_600, "24 h": 86_400, "7 d": 604_800 };
const SPAN_CHOICES = Object.keys(SPANS).map((span) => [span, span]);
const DEFAULT_SPAN = "1 h";

/**
 * A span in the address of the page.
 * @param {string} span
 */
const spanKey = (span) => span.replace(" ", "");

/**
 * Everything that the screen shows.
 * @param {number} span in seconds
 * @param {string} upstream
 */
async function readOverview(span, upstream) {
  const to = Math.floor(Date.now() / 1000);
  const from = to - span;
  const [series, before, health, losses, { keys }, { teams }] = await Promise.all([
    get(withQuery("series", { from, upstream })),
    get(withQuery("series", { from: from - span, to: from, upstream })),
    get("health"),
    get(withQuery("losses", { from, by: "client,pair,path" })),
    get("keys?ending=true"),
    get("teams?ending=true"),
  ]);
  return { series, before, health, losses, keys, teams };
}

export function Overview() {
  const [span, setSpan] = useState(
    () => Object.keys(SPANS).find((one) => spanKey(one) === queryValue("t")) || DEFAULT_SPAN,
  );
  const [upstream, setUpstream] = useState(() => queryValue("upstream"));
  const [compares, setCompares] = useState(() => Boolean(queryValue("vs")));
  useQuery({ t: span === DEFAULT_SPAN ? "" : spanKey(span), upstream, vs: compares ? "1" : "" });

  const { data, error, reload } = useFetched(
    () => readOverview(SPANS[span], upstream),
    [span, upstream],
    { every: POLL_MS },
  );
  const [rates, setRates] = useState(/** @type {Api.NowEvent | null} */ (null));
  const update = useThrottled(reload, EVENTS_MS);
  const isConnected = useEvents("topics=now,point,accounts,attention", {
    now: setRates,
    point: update,
    accounts: update,
    attention: update,
  });

  const upstreams = data ? Object.keys(data.health.accounts) : [];
  const tools = html`
    <${Segmented} label="Time" choices=${SPAN_CHOICES} chosen=${span} onChoose=${setSpan}
      hasShortcuts />
    <${Select} aria-label="Upstream"
      choices=${[["", "All upstreams"], ...upstreams.map((name) => [name, printable(name)])]}
      chosen=${upstream} onChoose=${setUpstream} />
    <${Toggle} class="btn" pressed=${compares} onClick=${() => setCompares(!compares)}>Compare<//>
  `;
  const began = data && data.series.from + emptySteps(data.series) * data.series.step_s;
  const note = began && `${formatTime(began)} to ${formatTime(now.value)}`;
  const head = html`
    <${ScreenHead} title="Overview" note=${note} tools=${tools} />
    ${error && html`<p class="banner" role="alert">Not live: ${error}</p>`}
  `;
  if (!data) return html`${head}${error ? html`<${Empty} />` : html`<${Loading} />`}`;
  const { series, before, health, losses, keys, teams } = data;
  return html`
    ${head}
    <${Attention} series=${series} health=${health} keys=${keys} teams=${teams} />
    <${Figures} series=${series} before=${before} health=${health}
      rates=${isConnected && !upstream ? rates : null} />
    <div class="cols">
      <div class="stack"><${Charts} series=${series} before=${compares ? before : null} /></div>
      <div class="stack">
        <${Accounts} health=${health} />
        <${ErrorKinds} errors=${series.errors} />
        <${Losses} rows=${losses.rows.slice(0, MOST_LOSSES)} />
      </div>
    </div>
  `;
}

/** The states in the order of the legend and of the bars. */
const BAR_STATES = /** @type {const} */ (["active", "trial", "cooling", "exhausted", "disabled"]);

/**
 * The accounts of each upstream by their states.
 * @param {{ health: Api.Health }} props
 */
function Accounts({ health }) {
  const upstreams = Object.keys(health.accounts).map((name) => ({
    name,
    states: statesOf(health, name),
  }));
  const totalIn = (state) => upstreams.reduce((total, { states }) => total + states[state], 0);
  const total = BAR_STATES.reduce((all, state) => all + totalIn(state), 0);
  return html`
    <${Panel} title="Accounts"
      tools=${html`<a class="right" href="/ui/accounts">all ${count(total)}</a>`}>
      <div class="body">
        <div class="legend">
          ${BAR_STATES.map(
            (state) => html`
              <span>
                <${Glyph} shape=${ACCOUNT_STATES[state].shape} />
                ${ACCOUNT_STATES[state].label + " "}
                <b>${count(totalIn(state))}</b>
              </span>
            `,
          )}
        </div>
        <div class="upstream-bars">
          ${upstreams.map((upstream) => html`<${UpstreamBar} ...${upstream} />`)}
        </div>
      </div>
    <//>
  `;
}

/** @param {{ name: string, states: Record<Api.AccountState, number> }} props */
function UpstreamBar({ name, states }) {
  const total = BAR_STATES.reduce((all, state) => all + states[state], 0);
  const parts = BAR_STATES.map((state) => ({
    name: state,
    size: states[state],
    fill: ACCOUNT_STATES[state].fill,
  }));
  return html`
    <div class="upstream-bar">
      <div class="row">
        <a class="ink ellipsis grow" href=${withQuery("/ui/accounts", { q: "upstream:" + name })}>
          ${printable(name)}
        </a>
        <span class="num muted small">
          ${count(states.active + states.trial)} of ${count(total)} can serve
        </span>
      </div>
      <${PartsBar} parts=${parts} />
    </div>
  `;
}

/** The fill of the bars of errors by whose fault they are. */
const ERROR_FILLS = /** @type {const} */ ({ gateway: "out", upstream: "cool", caller: "quiet" });

/**
 * The most frequent kinds of errors.
 * @param {{ errors: Api.SeriesAnswer["errors"] }} props
 */
function ErrorKinds({ errors }) {
  const kinds = /** @type {const} */ (["gateway", "upstream", "caller"])
    .flatMap((atFault) =>
      kindsBy(errors, atFault).map(([kind, number]) => ({ atFault, kind, number })),
    )
    .sort(ascending(({ number }) => -number));
  if (!kinds.length) return html`<${Panel} title="Errors by kind"><${Empty}>None.<//><//>`;
  const most = kinds[0].number;
  return html`
    <${Panel} title="Errors by kind">
      <div class="body">
        <ul class="bars">
          ${kinds.slice(0, MOST_ERRORS).map(
            ({ atFault, kind, number }) => html`
              <li>
                <a class="ink ellipsis" href=${withQuery("/ui/requests", { error: kind })}
                  title=${"through " + AT_FAULT[atFault]}>
                  ${printable(kind)} <span class="faint">${atFault}</span>
                </a>
                <svg width="100%" height="8" aria-hidden="true">
                  <rect width="100%" height="8" rx="1" class="f-sunken" />
                  <rect width=${(100 * number) / most + "%"} height="8" rx="1"
                    class=${"f-" + ERROR_FILLS[atFault]} />
                </svg>
                <span class="num">${count(number)}</span>
              </li>
            `,
          )}
        </ul>
      </div>
    <//>
  `;
}

/**
 * What is lost most often.
 * @param {{ rows: Api.LossRow[] }} props
 */
const Losses = ({ rows }) => html`
  <${Panel} title="Lost in translation"
    tools=${html`<a class="right" href="/ui/losses">all losses</a>`}>
    ${
      rows.length
        ? html`
          <div class="body">
            <ul class="bars">${rows.map((row) => html`<${LossLine} row=${row} />`)}</ul>
          </div>
        `
        : html`<${Empty}>Nothing was lost.<//>`
    }
  <//>
`;

/** @param {{ row: Api.LossRow }} props */
const LossLine = ({ row: { client, pair, path, requests } }) => html`
  <li class="loss-line">
    <a class="ink ellipsis" href=${withQuery("/ui/losses", { client, pair })}
      title=${printable(`${client} ${path}`)}>
      ${client === "(none)" ? html`<span class="faint">unknown</span>` : printable(client)}
      ${" "}
      <code class="faint">${printable(path)}</code>
    </a>
    <${Pair} pair=${pair} />
    <span class="num">${count(requests)}</span>
  </li>
`;
