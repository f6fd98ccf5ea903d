/** Usage and cost: who used what, and what it costs. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { get, getText, isAdmin } from "../lib/api.js";
import {
  ascending,
  compact,
  count,
  money,
  percent,
  plural,
  printable,
  sum,
} from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { queryValue, useQuery, withQuery } from "../lib/navigation.js";
import { dayOf, dayStart, formatMinute, zoneId } from "../lib/time.js";
import { Chart } from "../components/chart.js";
import { CsvButton, saveFile, Segmented, Select, Toggle } from "../components/controls.js";
import { Empty, ErrorBanner, Loading, ScreenHead } from "../components/layout.js";
import { numberColumn, Table } from "../components/table.js";
import { notifyError } from "../components/toast.js";
import { legend } from "./overview_charts.js";
import { Figure } from "./overview_figures.js";
import { costText } from "./rates.js";
import { Budgets, readBudgets } from "./usage_budgets.js";

const POLL_MS = 30_000;
const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
/** The longest time that is drawn by the hour. */
const MOST_HOURS_S = 8 * DAY_S;
const MOST_ROWS = 200;
const MOST_UNPRICED = 8;
const LONGEST_NAME = 28;

/** @type {Record<string, number>} */
const SPANS = { "24h": DAY_S, "7d": 7 * DAY_S, "30d": 30 * DAY_S, "90d": 90 * DAY_S };
const SPAN_CHOICES = Object.keys(SPANS).map((span) => [span, span.replace(/\D/, " $&")]);

const GROUPS = ["key", "team", "user", "model", "upstream", "account", "tag"];
const GROUP_CHOICES = GROUPS.map((group) => [group, "By " + group]);
/** Groups of which one is looked at by key, and others by model. */
const BY_KEY = ["team", "model", "tag"];
/** Groups that the log of requests can be filtered by. */
const LOGGED = ["key", "model", "upstream", "account"];

/**
 * What is drawn, and what the groups are sorted by.
 * @type {Record<string, { label: string, of: (row: Api.Usage) => number,
 *   text: (value: number) => string }>}
 */
const MEASURES = {
  cost: { label: "Cost", of: (row) => Number(row.cost_usd), text: money },
  tokens: { label: "Tokens", of: (row) => row.input + row.output, text: compact },
  requests: { label: "Requests", of: (row) => row.requests, text: compact },
};
const MEASURE_CHOICES = Object.entries(MEASURES).map(([key, { label }]) => [key, label]);

/** The fills of the largest groups in the chart, and that of all others. */
const TONES = ["info", "info mid", "info soft", "calm"];
const OTHERS_TONE = "quiet";

/**
 * What the address of the page asks for, and what it does where that is empty.
 * @type {Record<string, string>}
 */
const DEFAULTS = { t: "7d", by: "key", show: "cost" };
const FIELDS = ["t", "from", "to", "by", "show", ...GROUPS];

/**
 * The time that is asked for, and the steps in which it is drawn.
 * @param {Record<string, string>} asked dates `from` and `to`, either may be empty, or a span `t`
 */
function rangeOf({ t, from, to }) {
  const now = Math.floor(Date.now() / 1000);
  const until = to ? dayStart(to, 1) : null;
  const end = Math.min(until ?? now, now);
  const length = from ? end - dayStart(from) : SPANS[t] || SPANS[DEFAULTS.t];
  const step = length <= MOST_HOURS_S ? HOUR_S : DAY_S;
  if (step === DAY_S) {
    const first = from ? dayStart(from) : dayOf(until ?? now, -length / DAY_S + (until ? 0 : 1));
    return { since: first, until, end, step, first };
  }
  const since = from ? dayStart(from) : Math.ceil((until ?? now) / step) * step - length;
  return { since, until, end, step, first: since - (since % step) };
}

/**
 * Everything that the screen shows.
 * @param {Record<string, string>} asked
 */
async function readUsage(asked) {
  const { by, show } = asked;
  const measure = MEASURES[show] || MEASURES.cost;
  const range = rangeOf(asked);
  const unit = range.step === HOUR_S ? "hour" : "day";
  const filters = Object.fromEntries(GROUPS.map((group) => [group, asked[group]]));
  const path = (more) =>
    withQuery("usage", { since: range.since, until: range.until, ...filters, ...more });
  /** @type {(more: Record<string, unknown>) => Promise<Api.UsageReport>} */
  const report = (more) => get(path({ zone: zoneId(), ...more }));
  const [{ rows, total }, steps, budgets] = await Promise.all([
    report({ by }),
    report({ by: unit }),
    readBudgets(filters),
  ]);
  const sorted = [...rows].sort(ascending((row) => -measure.of(row)));
  // What has several tags counts for each of them: their parts would be more than the whole.
  const largest = by === "tag" ? [] : sorted.filter((row) => row.by[by]).slice(0, TONES.length);
  const names = largest.map((row) => row.by[by]);
  const [parts, unpriced] = await Promise.all([
    Promise.all(names.map((name) => report({ by: unit, [by]: name }))),
    total.unpriced ? report({ by: "model,upstream" }) : null,
  ]);
  return {
    ...{ by, measure, range, filters, total, budgets, rows: sorted, jsonPath: path({ by }) },
    steps: steps.rows,
    parts: parts.map((part, place) => ({ name: names[place], rows: part.rows })),
    unpriced: unpriced ? unpriced.rows.filter((row) => row.unpriced) : [],
  };
}
/** @typedef {Awaited<ReturnType<typeof readUsage>>} Found */

export function Usage() {
  const [asked, setAsked] = useState(() =>
    Object.fromEntries(FIELDS.map((field) => [field, queryValue(field) || DEFAULTS[field] || ""])),
  );
  const choose = (more) => setAsked({ ...asked, ...more });
  useQuery(
    Object.fromEntries(
      FIELDS.map((field) => [field, asked[field] === DEFAULTS[field] ? "" : asked[field]]),
    ),
  );
  const { data, error } = useFetched(() => readUsage(asked), [asked, zoneId()], { every: POLL_MS });
  const date = (field, label) => html`
    <label class="field">
      <input type="date" aria-label=${label} value=${asked[field]}
        onChange=${(event) => choose({ [field]: event.target.value })} />
    </label>
  `;
  const tools = html`
    <${Segmented} label="Time" choices=${SPAN_CHOICES} hasShortcuts
      chosen=${asked.from || asked.to ? "" : asked.t}
      onChoose=${(t) => choose({ t, from: "", to: "" })} />
    ${date("from", "From")}${date("to", "To")}
  `;
  const note = data && `${formatMinute(data.range.since)} to ${formatMinute(data.range.end)}`;
  return html`
    <${ScreenHead} title="Usage and cost" note=${note} tools=${tools} />
    <${ErrorBanner} text=${error} />
    <div class="filters">
      <${Select} aria-label="Group" choices=${GROUP_CHOICES} chosen=${asked.by}
        onChoose=${(by) => choose({ by })} />
      <${Segmented} label="Show" choices=${MEASURE_CHOICES} chosen=${asked.show}
        onChoose=${(show) => choose({ show })} />
      ${GROUPS.map(
        (group) =>
          asked[group] &&
          html`
            <${Toggle} pressed aria-label=${"Show every " + group}
              onClick=${() => choose({ [group]: "" })}>
              ${group} ${printable(asked[group])} ✕
            <//>
          `,
      )}
    </div>
    ${
      data
        ? html`
          <${Totals} found=${data} />
          <div class="stack">
            <${OverTime} found=${data} />
            <${Groups} found=${data}
              onOpen=${(name) =>
                choose({ [data.by]: name, by: BY_KEY.includes(data.by) ? "key" : "model" })} />
            <${Budgets} budgets=${data.budgets} />
          </div>
        `
        : html`<${Loading} error=${error && " "} />`
    }
  `;
}

/**
 * When an hour or a day of usage began.
 * @param {Api.Usage} row
 */
const beginOf = ({ by }) => (by.hour ? Number(by.hour) : dayStart(by.day));

/** @param {{ found: Found }} props */
function Totals({ found: { total, steps, range, unpriced } }) {
  const begin = Math.max(range.since, Math.min(...steps.map(beginOf)));
  const seconds = Math.max(HOUR_S, range.end - begin);
  const tokens = total.input + total.output;
  const soon = (Number(total.cost_usd) * 30 * DAY_S) / seconds;
  const figures = [
    [
      "Cost",
      costText(total),
      total.unpriced ? plural(total.unpriced, "answer") + " unpriced" : "at list price",
    ],
    ["In 30 days, at this rate", money(soon), "as since " + formatMinute(range.end - seconds)],
    ["Requests", count(total.requests), plural(total.errors, "error")],
    [
      "Tokens",
      compact(tokens),
      total.input ? `${percent(total.cached, total.input)} % of input cached` : "",
    ],
  ];
  return html`
    <section class="figures few" aria-label="Figures">
      ${figures.map(
        ([label, value, note]) => html`<${Figure} label=${label} value=${value} note=${note} />`,
      )}
    </section>
    ${
      unpriced.length > 0 &&
      html`
        <p class="banner gap-below" aria-label="Answers without a price">
          ${"In no cost, since there is no price: "}
          ${unpriced.slice(0, MOST_UNPRICED).map(
            ({ by: { model, upstream }, unpriced: number }, index) => html`
              ${(index ? ", " : "") + plural(number, "answer")} of${" "}
              <a href=${withQuery("/ui/routes", { model })}>${printable(model)}</a>
              ${" at " + printable(upstream)}
            `,
          )}
          ${unpriced.length > MOST_UNPRICED && `, and of ${unpriced.length - MOST_UNPRICED} more`}.
        </p>
      `
    }
  `;
}

/** @param {{ found: Found }} props */
function OverTime({ found: { range, measure, steps, parts, total } }) {
  const { first, end, step } = range;
  const valuesOf = (rows) => {
    const values = new Array(Math.max(1, Math.ceil((end - first) / step))).fill(0);
    for (const row of rows) {
      const place = Math.round((beginOf(row) - first) / step); // A day may have 23 hours.
      if (place in values) values[place] += measure.of(row);
    }
    return values;
  };
  const series = parts.map(({ name, rows }, place) => ({
    name: printable(name.length > LONGEST_NAME ? name.slice(0, LONGEST_NAME) + "…" : name),
    tone: TONES[place],
    values: valuesOf(rows),
  }));
  const others = valuesOf(steps).map((value, index) =>
    Math.max(0, value - sum(series.map(({ values }) => values[index]))),
  );
  // What is left by rounding alone is nothing.
  if (!series.length) series.push({ name: "all", tone: TONES[0], values: others });
  else if (sum(others) > 1e-9) series.push({ name: "others", tone: OTHERS_TONE, values: others });
  const named = series.map((one) => ({ ...one, total: measure.text(sum(one.values)) }));
  return html`
    <${Chart} isBars from=${first} step=${step} unit=${measure.text} series=${series}
      title=${`${measure.label} by ${step === HOUR_S ? "hour" : "day"}`}
      summary=${measure.text(measure.of(total))} aside=${legend(named)} />
  `;
}

/**
 * A number that leads to the requests that it was made of, where their log can be asked for them.
 * @param {Found} found
 * @param {Api.Usage} row
 */
function requestsCell({ by, filters }, row) {
  const asked = { ...filters, ...(row.by[by] && { [by]: row.by[by] }) };
  const given = Object.keys(asked).filter((group) => asked[group]);
  if (!given.length || !given.every((group) => LOGGED.includes(group))) return count(row.requests);
  return html`<a href=${withQuery("/ui/requests", asked)}>${count(row.requests)}</a>`;
}

/** @param {{ found: Found, onOpen: (name: string) => void }} props */
function Groups({ found, onOpen }) {
  const { by, measure, rows, total, jsonPath } = found;
  const whole = measure.of(total);
  const nameOf = (row) => (row === total ? "Total" : printable(row.by[by]));
  const quiet = { class: "num muted" };
  const columns = [
    {
      head: by[0].toUpperCase() + by.slice(1),
      class: "strong",
      title: nameOf,
      cell: (row) =>
        row.by[by]
          ? html`<button class="link" onClick=${() => onOpen(row.by[by])}>${nameOf(row)}</button>`
          : nameOf(row) || html`<span class="faint">none</span>`,
    },
    numberColumn("Cost", costText, { title: (row) => "$" + row.cost_usd }),
    numberColumn("Share", (row) => whole > 0 && percent(measure.of(row), whole) + " %", quiet),
    numberColumn("Requests", (row) => requestsCell(found, row)),
    numberColumn("Errors", ({ errors }) => count(errors), quiet),
    numberColumn("Input", ({ input }) => count(input), { headTitle: "Input tokens" }),
    numberColumn("Cached", ({ cached }) => count(cached), quiet),
    numberColumn("Output", ({ output }) => count(output), { headTitle: "Output tokens" }),
    numberColumn("Unpriced", ({ unpriced }) => count(unpriced), quiet),
    numberColumn("Estimated", ({ estimated }) => count(estimated), quiet),
  ];
  const saveJson = () =>
    getText(jsonPath).then(
      (text) => saveFile("usage.json", text),
      (refusal) => notifyError(refusal.message),
    );
  const shown = rows.length > MOST_ROWS ? `the first ${MOST_ROWS} of ` : "";
  return html`
    <div class="table-panel">
      <${Table} label="Usage" class="usage-table stacks" columns=${columns}
        rows=${rows.slice(0, MOST_ROWS)} total=${rows.length > 0 && total} />
      ${!rows.length && html`<${Empty}>Nothing was used in this time.<//>`}
      <div class="table-foot">
        <span class="num">
          ${shown}${plural(rows.length, by)}${
            by === "tag" && "; what has several counts for each of them"
          }
        </span>
        <${CsvButton} name="usage"
          rows=${() => rows.map(({ by: groups, ...sums }) => ({ ...groups, ...sums }))} />
        ${isAdmin() && html`<button class="btn quiet" onClick=${saveJson}>JSON</button>`}
      </div>
    </div>
  `;
}
