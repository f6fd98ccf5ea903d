/** Lines and areas over time, as SVG in the width that there is. */
import { html } from "../lib/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { known, sum } from "../lib/format.js";
import { formatMinute, formatTime } from "../lib/time.js";
import { numberColumn, Table } from "./table.js";

/**
 * A value for each step of time, null where none is known.
 * @typedef {(number | null)[]} Values
 *
 * @typedef {object} Series
 * @property {string} name
 * @property {string} tone the class of its colour
 * @property {Values} values
 * @property {string} [dash]
 */

/** The time that the pointer is at, over any chart of the screen. */
const pointedAt = signal(/** @type {number | null} */ (null));

const HEIGHT = 168;
const MARGIN = { left: 44, top: 8, bottom: 20 };
/** Space on the right: for the names of lines, or for nothing. */
const LABELS_WIDTH = 62;
const NO_LABELS_WIDTH = 8;
const PANEL_PADDING = 28;
const LABEL_HEIGHT = 13;

/** @param {number} value */
const fixed = (value) => value.toFixed(1);

/**
 * A round number no less than `most`, and four steps to it.
 * @param {number} most
 */
function linearTicks(most) {
  const power = 10 ** Math.floor(Math.log10(most || 1));
  const top = [1, 2, 4, 5, 10].map((digit) => digit * power).find((tick) => tick >= most) || 1;
  return [0, 0.25, 0.5, 0.75, 1].map((part) => part * top);
}

/**
 * Powers of ten around values, and thirds of them where they are few.
 * @param {number[]} values
 */
function logTicks(values) {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...positive, 1)));
  const high = Math.ceil(Math.log10(Math.max(...positive, 0.1)));
  const powers = Array.from({ length: Math.max(high - low, 1) + 1 }, (_, at) => 10 ** (low + at));
  if (powers.length > 3) return powers;
  return powers.flatMap((power, index) => (index ? [power * 0.3, power] : [power]));
}

/**
 * A line through values, broken where one is unknown, as the data of an SVG path.
 * @param {Values} values
 * @param {(index: number) => number} x
 * @param {(value: number) => number} y
 */
function linePath(values, x, y) {
  /** @type {string[]} */
  const lines = [];
  /** @type {string[]} */
  let points = [];
  const finish = () => {
    if (points.length) lines.push(points.length > 1 ? "M" + points.join("L") : `M${points[0]}h1`);
    points = [];
  };
  values.forEach((value, index) => {
    if (value == null) finish();
    else points.push(`${fixed(x(index))} ${fixed(y(value))}`);
  });
  finish();
  return lines.join("");
}

/**
 * The area between two lines, as the data of an SVG path.
 * @param {Values} upper
 * @param {number[]} lower
 * @param {(index: number) => number} x
 * @param {(value: number) => number} y
 */
function areaPath(upper, lower, x, y) {
  const pieces = upper.slice(0, -1).map((value, index) => {
    const next = upper[index + 1];
    if (value == null || next == null) return "";
    const [left, right] = [fixed(x(index)), fixed(x(index + 1))];
    const top = `M${left} ${fixed(y(value))}L${right} ${fixed(y(next))}`;
    return `${top}V${fixed(y(lower[index + 1]))}L${left} ${fixed(y(lower[index]))}Z`;
  });
  return pieces.join("");
}

/**
 * A bar for each value that stands on its lower end, as the data of an SVG path.
 * @param {Values} upper
 * @param {number[]} lower
 * @param {(index: number) => number} x
 * @param {(value: number) => number} y
 */
function barPath(upper, lower, x, y) {
  const width = fixed(Math.max(1, x(1) - x(0) - 1));
  const pieces = upper.map((value, index) => {
    const bottom = fixed(y(lower[index]));
    return `M${fixed(x(index))} ${bottom}V${fixed(y(Number(value)))}h${width}V${bottom}Z`;
  });
  return pieces.join("");
}

const SPARK_POINTS = 60;

/**
 * At most 60 values: means of neighbours where there are more.
 * @param {Values} values
 */
function condensed(values) {
  const step = Math.ceil(values.length / SPARK_POINTS);
  const starts = [...values.keys()].filter((index) => index % step === 0);
  return starts.map((start) => {
    const some = known(values.slice(start, start + step));
    return some.length ? sum(some) / some.length : null;
  });
}

/**
 * A line without axes, beside the figure that it belongs to.
 * @param {{ values: Values, width?: number, height?: number }} props
 */
export function Spark({ values: all, width = 84, height = 16 }) {
  const values = condensed(all);
  const most = Math.max(...known(values), 0) || 1;
  const step = width / Math.max(values.length - 1, 1);
  const x = (index) => index * step;
  const y = (value) => height - 1 - (value / most) * (height - 2);
  const end = values.findLastIndex((value) => value != null);
  return html`
    <svg width="100%" height=${height} viewBox=${`0 0 ${width} ${height}`}
      preserveAspectRatio="none" class="spark" aria-hidden="true">
      <path vector-effect="non-scaling-stroke" d=${linePath(values, x, y)} />
      ${
        end >= 0 &&
        html`
          <path vector-effect="non-scaling-stroke" class="last"
            d=${`M${x(end)} ${y(Number(values[end]))}h0`} />
        `
      }
    </svg>
  `;
}

/** The width of an element, 0 until it has been laid out. */
function useWidth() {
  const element = useRef(/** @type {any} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observed = element.current;
    if (!observed) return undefined;
    const observer = new ResizeObserver(() => setWidth(observed.clientWidth));
    observer.observe(observed);
    return () => observer.disconnect();
  }, []);
  return /** @type {const} */ ([element, width]);
}

/**
 * Each series added to those before it.
 * @param {Values[]} all
 * @returns {Values[]}
 */
function cumulated(all) {
  let below = /** @type {Values} */ ([]);
  return all.map((values) => {
    const lower = below;
    below = values.map((value, index) => (value == null ? null : value + (lower[index] || 0)));
    return below;
  });
}

/**
 * A chart over time, or the same figures as a table.
 *
 * @typedef {object} ChartProps
 * @property {string} title
 * @property {string} summary what it shows, in words
 * @property {Series[]} series those of an area stand upon one another
 * @property {number} from Unix seconds of the first step
 * @property {number} step in seconds
 * @property {number} [skip] steps that are not drawn, from the first on
 * @property {(value: number) => string} unit
 * @property {unknown} [aside] content of the head while the pointer is elsewhere
 * @property {boolean} [isStacked]
 * @property {boolean} [isBars] stacked bars: sums of steps, where areas are rates
 * @property {boolean} [isLog]
 * @property {{ at: number, text: string }[]} [marks] events
 *
 * @param {ChartProps} props
 */
export function Chart({ skip = 0, ...all }) {
  const { title, summary, step, unit, aside } = all;
  const from = all.from + skip * step;
  const series = all.series.map((one) => ({ ...one, values: one.values.slice(skip) }));
  const props = { ...all, from, series };
  const [isTable, setIsTable] = useState(false);
  const steps = series[0].values.length;
  const pointed = pointedAt.value == null ? -1 : Math.floor((pointedAt.value - from) / step);
  const index = pointed >= 0 && pointed < steps ? pointed : null;
  const valueText = (value) => (value == null ? "—" : unit(value));

  if (isTable) {
    return html`
      <section class="panel">
        <header>
          <h2>${title}</h2>
          <span class="right">
            <button class="link small" onClick=${() => setIsTable(false)}>chart</button>
          </span>
        </header>
        <${ChartTable} ...${props} valueText=${valueText} />
      </section>
    `;
  }
  const pointedValues =
    index != null &&
    series.map(({ name, values }) => `${name} ${valueText(values[index])}`).join(", ");
  return html`
    <section class="panel">
      <header>
        <h2>${title}</h2>
        <span class="right legend">
          ${
            index != null
              ? html`<span class="num">${formatTime(from + index * step)}: ${pointedValues}</span>`
              : aside
          }
          <button class="link small" aria-label=${title + " as a table"}
            onClick=${() => setIsTable(true)}>
            table
          </button>
        </span>
      </header>
      <${Plot} ...${props} label=${`${title}: ${summary}`} index=${index} />
    </section>
  `;
}

/** @param {ChartProps & { valueText: (value: number | null) => string }} props */
function ChartTable({ title, series, from, step, valueText }) {
  const columns = [
    { head: "From", class: "num", cell: (index) => formatTime(from + index * step) },
    ...series.map(({ name, values }) =>
      numberColumn(name || title, (index) => valueText(values[index])),
    ),
  ];
  const latestFirst = [...series[0].values.keys()].reverse();
  return html`
    <${Table} label=${title + " as a table"} regionClass="body as-table" columns=${columns}
      rows=${latestFirst} keyOf=${(index) => index} />
  `;
}

/**
 * The drawing of a chart.
 * @param {ChartProps & { label: string, index: number | null }} props
 */
function Plot({ label, series, from, step, unit, isLog, marks = [], index, ...kind }) {
  const { isBars } = kind;
  const isStacked = kind.isStacked || isBars;
  const [box, boxWidth] = useWidth();
  const steps = series[0].values.length;
  const values = series.map((one) => one.values);
  const levels = isStacked ? cumulated(values) : values;
  const all = known(levels.flat());
  const ticks = isLog ? logTicks(all) : linearTicks(Math.max(...all, 0));
  const bottom = ticks[0];
  const top = Number(ticks.at(-1));

  const width = boxWidth - PANEL_PADDING;
  const plotWidth = width - MARGIN.left - (isStacked ? NO_LABELS_WIDTH : LABELS_WIDTH);
  const plotHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  const slots = isBars ? steps : steps - 1;
  const x = (at) => MARGIN.left + (slots > 0 ? (at / slots) * plotWidth : 0);
  const share = (value) =>
    isLog ? Math.max(0, Math.log(value / bottom) / Math.log(top / bottom)) : value / top;
  const y = (value) => MARGIN.top + plotHeight * (1 - share(value));

  const point = (event) => {
    const { left } = event.currentTarget.getBoundingClientRect();
    const part = (event.clientX - left - MARGIN.left) / plotWidth;
    const isInside = part >= 0 && part <= 1;
    const half = isBars ? 0 : step / 2;
    pointedAt.value = isInside ? from + part * slots * step + half : null;
  };
  const leave = () => {
    pointedAt.value = null;
  };
  const area = isBars ? barPath : areaPath;
  const lower = (level) =>
    level ? levels[level - 1].map((value) => value || 0) : new Array(steps).fill(0);

  return html`
    <div class="body chart" ref=${box}>
      ${
        boxWidth > 0 &&
        html`
          <svg width=${width} height=${HEIGHT} role="img" aria-label=${label} onMouseMove=${point}
            onMouseLeave=${leave}>
            ${ticks.map(
              (tick) => html`
                <line class=${tick > bottom ? "grid" : "axis"} x1=${MARGIN.left}
                  x2=${MARGIN.left + plotWidth} y1=${Math.round(y(tick)) + 0.5}
                  y2=${Math.round(y(tick)) + 0.5} />
                <text x=${MARGIN.left - 8} y=${y(tick) + 4} text-anchor="end">${unit(tick)}</text>
              `,
            )}
            ${["start", "middle", "end"].map((anchor, half) => {
              const part = half / 2;
              const at = from + part * steps * step;
              return html`
                <text x=${MARGIN.left + part * plotWidth} y=${HEIGHT - 4} text-anchor=${anchor}>
                  ${formatMinute(at)}
                </text>
              `;
            })}
            ${series.map((one, level) =>
              isStacked
                ? html`
                  <path class=${"f-" + one.tone} d=${area(levels[level], lower(level), x, y)} />
                `
                : html`
                  <path class=${"ln c-" + one.tone} stroke-dasharray=${one.dash || ""}
                    d=${linePath(one.values, x, y)} />
                `,
            )}
            ${marks.map(({ at, text }) => {
              const place = ((at - from) / (steps * step)) * plotWidth;
              return html`
                <${Mark} place=${place} width=${plotWidth} height=${plotHeight} text=${text} />
              `;
            })}
            ${
              index != null &&
              html`
                <line class="axis" x1=${x(index + (isBars ? 0.5 : 0))}
                  x2=${x(index + (isBars ? 0.5 : 0))} y1=${MARGIN.top}
                  y2=${MARGIN.top + plotHeight} />
              `
            }
            ${
              !isStacked &&
              html`
                <${EndLabels} series=${series} unit=${unit} x=${MARGIN.left + plotWidth + 6}
                  y=${y} />
              `
            }
          </svg>
        `
      }
    </div>
  `;
}

/**
 * An event: a vertical line with its name.
 * @param {{ place: number, width: number, height: number, text: string }} props
 */
function Mark({ place, width, height, text }) {
  if (place < 0) return null;
  const x = MARGIN.left + place;
  const isRight = place > width / 2;
  return html`
    <line class="mark-at" x1=${x} x2=${x} y1=${MARGIN.top} y2=${MARGIN.top + height} />
    <text x=${x + (isRight ? -5 : 5)} y=${MARGIN.top + 10} text-anchor=${isRight ? "end" : "start"}>
      ${text}
    </text>
  `;
}

/**
 * The names of lines at their ends, moved apart where they would overlap.
 * @param {{ series: Series[], unit: (value: number) => string, x: number,
 *   y: (value: number) => number }} props
 */
function EndLabels({ series, unit, x, y }) {
  const ends = series.flatMap(({ name, values }) => {
    const value = values.findLast((one) => one != null);
    return value == null ? [] : [{ name, value }];
  });
  ends.sort((a, b) => b.value - a.value);
  let last = -Infinity;
  return ends.map(({ name, value }) => {
    last = Math.max(y(value) + 4, last + LABEL_HEIGHT);
    return html`<text class="end" x=${x} y=${last}>${name} ${unit(value)}</text>`;
  });
}
