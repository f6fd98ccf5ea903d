/** The charts of the overview. */
import { html } from "../lib/html.js";
import { compact, count, duration, known, sum } from "../lib/format.js";
import { Chart } from "../components/chart.js";

/** @typedef {import("../components/chart.js").Series} Series */

/** How requests end: its name in the series, the fill of its area, what it is called. */
const OUTCOMES = /** @type {const} */ ([
  { key: "answered", tone: "calm", name: "answered" },
  { key: "client", tone: "info", name: "rejected" },
  { key: "limited", tone: "cool", name: "limited" },
  { key: "failed", tone: "out", name: "failed" },
  { key: "left", tone: "off", name: "client left" },
]);
const TOKENS = /** @type {const} */ ([
  { key: "cached", tone: "info soft", name: "cached" },
  { key: "input", tone: "info mid", name: "input" },
  { key: "output", tone: "info", name: "output" },
]);
const PERCENTILES = /** @type {const} */ ([
  { name: "p50", tone: "faint" },
  { name: "p95", tone: "info" },
  { name: "p99", tone: "faint", dash: "2 2" },
]);

/** @param {readonly { name: string, tone: string, total: string }[]} parts */
export const legend = (parts) =>
  parts.map(
    ({ name, tone, total }) => html`
      <span><i class=${"b-" + tone}></i>${name + " "}<b>${total}</b></span>
    `,
  );

/**
 * Whole numbers of a unit per second.
 * @param {number} value
 */
const rate = (value) => Number(value.toPrecision(3)) + "/s";
/** @param {number} value */
const seconds = (value) => (value === 0 ? "0" : duration(value));
/** @param {number} value */
const dollarsPerHour = (value) => `$${Number(value.toPrecision(2))}/h`;

/**
 * The series of the time before, as a dashed line.
 * @param {(number | null)[]} values
 * @param {number} steps
 * @returns {Series}
 */
function earlierSeries(values, steps) {
  // It has as many steps as this time, but for the one that is not over.
  const missing = Math.max(0, steps - values.length);
  const filled = [...values.slice(0, steps), ...new Array(missing).fill(null)];
  return { name: "before", tone: "faint", dash: "5 3", values: filled };
}

/** @param {Api.SeriesAnswer} series */
const costPerHour = ({ cost_usd: costs, step_s: step }) =>
  costs.map((cost) => (cost == null ? null : (Number(cost) * 3600) / step));

/** Steps that are drawn at least. */
const FEWEST_STEPS = 12;

/**
 * How many steps were over before there were data: a young instance has none of them.
 * @param {Api.SeriesAnswer} series
 */
export function emptySteps({ requests: { answered } }) {
  const first = answered.findIndex((value) => value != null);
  return Math.max(0, Math.min(first, answered.length - FEWEST_STEPS));
}

/** @param {{ series: Api.SeriesAnswer, before: Api.SeriesAnswer | null }} props */
export function Charts({ series, before }) {
  const { requests, tokens, from, step_s: step } = series;
  const steps = requests.answered.length;
  const perSecond = (values) => values.map((value) => (value == null ? null : value / step));
  const time = { from, step, skip: emptySteps(series) };

  const latency = (title, key) => {
    const latest = known(series[key].p95).at(-1);
    const lines = PERCENTILES.map((line) => ({ ...line, values: series[key][line.name] }));
    const earlier = before ? [earlierSeries(before[key].p95, steps)] : [];
    return html`
      <${Chart} title=${title} ...${time} isLog unit=${seconds}
        summary=${"p95 " + (latest == null ? "unknown" : duration(latest))}
        series=${[...lines, ...earlier]} />
    `;
  };
  const outcomes = OUTCOMES.map(({ key, ...one }) => ({ ...one, all: requests[key] }));
  const tokenKinds = TOKENS.map(({ key, ...one }) => ({ ...one, all: tokens[key] }));
  return html`
    <${Chart} title="Requests" ...${time} isStacked marks=${series.marks} unit=${rate}
      summary=${`${count(sum(requests.answered))} answered, ${count(sum(requests.failed))} failed`}
      aside=${legend(outcomes.map((one) => ({ ...one, total: count(sum(one.all)) })))}
      series=${outcomes.map((one) => ({ ...one, values: perSecond(one.all) }))} />
    <div class="two">
      ${latency("First token", "first_token_s")}
      ${latency("Duration", "duration_s")}
    </div>
    <div class="two">
      <${Chart} title="Tokens" ...${time} isStacked
        unit=${(value) => compact(value) + "/s"}
        summary=${compact(sum(tokens.output)) + " of output"}
        aside=${legend(tokenKinds.map((one) => ({ ...one, total: compact(sum(one.all)) })))}
        series=${tokenKinds.map((one) => ({ ...one, values: perSecond(one.all) }))} />
      <${Chart}
        title="Cost"
        ...${time}
        unit=${dollarsPerHour}
        summary=${"$" + sum(series.cost_usd).toFixed(2)}
        aside="at list price"
        series=${[
          { name: "", tone: "info", values: costPerHour(series) },
          ...(before ? [earlierSeries(costPerHour(before), steps)] : []),
        ]}
      />
    </div>
  `;
}
