/** The figures of the overview: one number each for the time that is shown. */
import { html } from "../lib/html.js";
import { compact, count, duration, known, percent, plural, sum } from "../lib/format.js";
import { Spark } from "../components/chart.js";
import { Unknown } from "../components/layout.js";
import { failuresOf } from "./overview_errors.js";

/** @param {number} rate */
const perSecond = (rate) => (rate < 10 ? rate.toFixed(2) : compact(rate)) + "/s";

/**
 * What the series come to.
 * @param {Api.SeriesAnswer} series
 */
function totalsOf({ requests, tokens, step_s: step, ...series }) {
  const output = sum(tokens.output);
  const cached = sum(tokens.cached);
  const input = sum(tokens.input) + cached;
  const total = sum(Object.values(requests).flat());
  const errors = failuresOf(series.errors);
  const seconds = Math.max(1, known(requests.answered).length * step);
  return {
    requests: total,
    rate: total / seconds,
    errors,
    errorShare: total ? percent(errors, total) : null,
    firstToken: known(series.first_token_s.p95).at(-1),
    duration: known(series.duration_s.p95).at(-1),
    input,
    cached,
    tokens: input + output,
    cost: sum(series.cost_usd),
    unpriced: sum(series.unpriced),
  };
}

/**
 * @typedef {object} FigureProps
 * @property {string} label
 * @property {unknown} value
 * @property {string} [unit]
 * @property {string} note below the value
 * @property {(number | null)[]} [values] over time
 *
 * @param {FigureProps} props
 */
export const Figure = ({ label, value, unit = "", note, values }) => html`
  <div class="figure">
    <div class="figure-label">${label}</div>
    <div class="figure-value">${value}<small>${unit}</small></div>
    <div class="figure-note">${note}</div>
    ${
      values && known(values).length > 1
        ? html`<${Spark} values=${values} width=${110} height=${22} />`
        : html`<div class="spark"></div>`
    }
  </div>
`;

/** @param {string} why */
const unknown = (why) => html`<${Unknown} why=${why} />`;

/**
 * The share of tokens that are input.
 * @param {ReturnType<typeof totalsOf>} totals
 */
const inputNote = ({ input, tokens }) => (tokens ? `${percent(input, tokens)} % input` : "");

/**
 * @param {{ series: Api.SeriesAnswer, before: Api.SeriesAnswer, health: Api.Health,
 *   rates: Api.NowEvent | null }} props `before` is the time before, `rates` are those of now
 */
export function Figures({ series, before, health, rates }) {
  const totals = totalsOf(series);
  const earlier = totalsOf(before);
  const { requests, tokens } = series;
  const outcomes = Object.values(requests);

  /**
   * A value for each step of which there are data.
   * @param {(index: number) => number} value
   */
  const each = (value) =>
    requests.answered.map((known, index) => (known == null ? null : value(index)));
  /**
   * A figure of the time before, if there were requests then.
   * @template T
   * @param {T | null | undefined} value
   * @param {(value: T) => string} text
   */
  const earlierNote = (value, text) =>
    earlier.requests && value != null ? text(value) + " before" : null;

  const hasRates = rates?.requests_s != null;
  /** @type {FigureProps[]} */
  const figures = [
    {
      label: "Requests",
      value: count(totals.requests),
      note: hasRates
        ? perSecond(rates.requests_s) + " now"
        : earlierNote(earlier.rate, perSecond) || perSecond(totals.rate),
      values: each((index) => sum(outcomes.map((values) => values[index]))),
    },
    {
      label: "Errors",
      value: totals.errorShare ?? unknown("there was no request"),
      unit: totals.requests ? "%" : "",
      note:
        earlierNote(earlier.errorShare, (share) => share + " %") ||
        count(totals.errors) + " requests",
      values: requests.failed,
    },
    {
      label: "First token, p95",
      value:
        totals.firstToken == null ? unknown("no answer has begun") : duration(totals.firstToken),
      note: earlierNote(earlier.firstToken, duration) || "of the last step",
      values: series.first_token_s.p95,
    },
    {
      label: "Duration, p95",
      value: totals.duration == null ? unknown("no answer has ended") : duration(totals.duration),
      note: earlierNote(earlier.duration, duration) || "of the last step",
      values: series.duration_s.p95,
    },
    {
      label: "Tokens",
      value: compact(totals.tokens),
      note: hasRates ? perSecond(rates.input_s + rates.output_s) + " now" : inputNote(totals),
      values: each((index) =>
        sum([tokens.input[index], tokens.cached[index], tokens.output[index]]),
      ),
    },
    {
      label: "Cache hits",
      value: totals.input
        ? ((100 * totals.cached) / totals.input).toFixed(1)
        : unknown("no upstream reported tokens"),
      unit: totals.input ? "%" : "",
      note: "of input tokens",
      values: each((index) => {
        const cached = Number(tokens.cached[index]);
        const input = Number(tokens.input[index]) + cached;
        return input ? cached / input : 0;
      }),
    },
    {
      label: "Cost",
      value:
        totals.unpriced && !totals.cost
          ? unknown("no price is known for what was answered")
          : "$" + totals.cost.toFixed(2),
      note: totals.unpriced
        ? plural(totals.unpriced, "answer") + " unpriced"
        : earlierNote(earlier.cost, (cost) => "$" + cost.toFixed(2)) || "at list price",
      values: series.cost_usd.map((cost) => (cost == null ? null : Number(cost))),
    },
    {
      label: "In flight now",
      value: count((rates || health).in_flight),
      note: count(rates ? rates.queue : health.queue_length) + " in the queue",
    },
  ];
  return html`
    <section class="figures" aria-label="Figures">
      ${figures.map((figure) => html`<${Figure} ...${figure} />`)}
    </section>
  `;
}
