// Lines and areas as SVG, in the width that there is. Each has a name and says what it shows.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { signal } from "./vendor/signals.js";
import { clock, html, minute, region } from "./kit.js";

const pointed = signal(null); // at what time the pointer is, over any chart of the screen
const LEFT = 44, TOP = 8, BELOW = 20, PADDING = 28;

// The width of an element, from when it has one.
function useWidth() {
  const own = useRef(null), [width, setWidth] = useState(0);
  useEffect(() => {
    const drawn = own.current, seen = new ResizeObserver(() => setWidth(drawn.clientWidth - PADDING));
    seen.observe(drawn);
    return () => seen.disconnect();
  }, []);
  return [own, width];
}

// A round number that is no less, and five steps to it.
function ticksTo(most) {
  const power = 10 ** Math.floor(Math.log10(most || 1)), top = [1, 2, 4, 5, 10].map((n) => n * power).find((n) => n >= most) || 1;
  return [0, 0.25, 0.5, 0.75, 1].map((part) => part * top);
}
// The same for what differs by its magnitude: thirds and tenths, from below the least on.
function magnitudes(values) {
  const found = values.filter((value) => value > 0), least = Math.floor(Math.log10(Math.min(...found, 1))), most = Math.ceil(Math.log10(Math.max(...found, 0.1)));
  const tens = Array.from({ length: Math.max(most - least, 1) + 1 }, (_, at) => 10 ** (least + at));
  return tens.length > 3 ? tens : tens.flatMap((ten, at) => (at ? [ten * 0.3, ten] : [ten]));
}
// Runs of points between gaps, as paths.
function runs(values, x, y) {
  const found = [];
  let run = [];
  values.forEach((value, at) => {
    if (value != null) run.push(`${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
    if ((value == null || at === values.length - 1) && run.length) {
      found.push(run.length > 1 ? "M" + run.join("L") : `M${run[0]}h1`);
      run = [];
    }
  });
  return found.join("");
}

// A line without axes beside a figure, of means where there are many values.
export function Spark({ values: all, wide = 84, high = 16 }) {
  const each = Math.ceil(all.length / 60), values = [];
  for (let at = 0; at < all.length; at += each) { const some = all.slice(at, at + each).filter((value) => value != null); values.push(some.length ? some.reduce((sum, value) => sum + Number(value), 0) / some.length : null); }
  const most = Math.max(...values, 0) || 1, step = wide / Math.max(values.length - 1, 1), y = (value) => high - 1 - (value / most) * (high - 2), end = values.findLastIndex((value) => value != null);
  return html`<svg width="100%" height=${high} viewBox=${`0 0 ${wide} ${high}`} preserveAspectRatio="none" class="spark" aria-hidden="true"><path vector-effect="non-scaling-stroke" d=${runs(values, (at) => at * step, y)}/>${end >= 0 && html`<path vector-effect="non-scaling-stroke" class="last" d=${`M${end * step} ${y(values[end])}h0`}/>`}</svg>`;
}

// `series` are {name, values, tone}; those of an area stand upon one another.
// and `marks` are {at, text}: what happened then.
export function Chart({ title, aside, series, from, step, unit, stacked, log, told, marks = [], height = 168 }) {
  const [own, width] = useWidth(), [table, setTable] = useState(false), number = series[0].values.length, room = stacked ? 8 : 62;
  const sums = stacked ? series.reduce((all, one) => [...all, one.values.map((value, at) => (value == null ? null : value + (all.length ? all.at(-1)[at] || 0 : 0)))], []) : series.map((one) => one.values);
  const all = sums.flat().filter((value) => value != null), ticks = log ? magnitudes(all) : ticksTo(Math.max(...all, 0)), top = ticks.at(-1);
  const wide = width - LEFT - room, high = height - TOP - BELOW;
  const x = (at) => LEFT + (number > 1 ? (at / (number - 1)) * wide : 0), y = (value) => TOP + high - (log ? Math.max(0, Math.log(value / ticks[0]) / Math.log(top / ticks[0])) : value / top) * high;
  const below = (level) => (level ? sums[level - 1].map((value) => value || 0) : new Array(number).fill(0));
  const area = (values, level) => values.map((value, at) => (value == null || at + 1 >= number || values[at + 1] == null ? "" : `M${x(at).toFixed(1)} ${y(value).toFixed(1)}L${x(at + 1).toFixed(1)} ${y(values[at + 1]).toFixed(1)}V${y(below(level)[at + 1]).toFixed(1)}L${x(at).toFixed(1)} ${y(below(level)[at]).toFixed(1)}Z`)).join("");
  const last = (values) => values.findLast((value) => value != null);
  const ends = series.map((one, at) => ({ one, at: last(sums[at]) })).filter((end) => end.at != null).sort((a, b) => b.at - a.at);
  let low = -99;
  const over = pointed.value == null ? -1 : Math.floor((pointed.value - from) / step), under = over >= 0 && over < number;
  const point = (event) => { const part = (event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / wide; pointed.value = part >= 0 && part <= 1 ? from + part * (number - 1) * step + step / 2 : null; };
  const named = (one) => one.name || title, shown = (value) => (value == null ? "—" : unit(value));
  if (table) return html`<section class="panel"><header><h2>${title}</h2><span class="r"><button class="link sm" onClick=${() => setTable(false)}>chart</button></span></header><div class="body astable" ...${region(title + " as a table")}><table><thead><tr><th>From</th>${series.map((one) => html`<th class="r">${named(one)}</th>`)}</tr></thead><tbody>${series[0].values.map((_, at) => number - 1 - at).map((at) => html`<tr key=${at}><td class="num">${clock(from + at * step)}</td>${series.map((one) => html`<td class="r num">${shown(one.values[at])}</td>`)}</tr>`)}</tbody></table></div></section>`;
  return html`<section class="panel"><header><h2>${title}</h2><span class="r legend">${under ? html`<span class="num">${clock(from + over * step)}: ${series.map((one) => `${one.name} ${shown(one.values[over])}`).join(", ")}</span>` : aside}<button class="link sm" aria-label=${title + " as a table"} onClick=${() => setTable(true)}>table</button></span></header><div class="body chart" ref=${own}>
    ${width > 0 && html`<svg width=${width} height=${height} role="img" aria-label=${title + ": " + told} onMouseMove=${point} onMouseLeave=${() => { pointed.value = null; }}>
      ${ticks.map((tick) => html`<line class=${tick > ticks[0] ? "grid" : "axis"} x1=${LEFT} x2=${LEFT + wide} y1=${Math.round(y(tick)) + 0.5} y2=${Math.round(y(tick)) + 0.5}/><text x=${LEFT - 8} y=${y(tick) + 4} text-anchor="end">${unit(tick)}</text>`)}
      ${[0, 0.5, 1].map((part) => html`<text x=${LEFT + part * wide} y=${height - 4} text-anchor=${["start", "middle", "end"][part * 2]}>${minute(from + part * number * step)}</text>`)}
      ${stacked ? sums.map((values, level) => html`<path class=${"f-" + series[level].tone} d=${area(values, level)}/>`) : series.map((one) => html`<path class=${"ln c-" + one.tone} stroke-dasharray=${one.dash || ""} d=${runs(one.values, x, y)}/>`)}
      ${marks.map(({ at, text }) => { const place = LEFT + ((at - from) / (number * step)) * wide, right = place > LEFT + wide / 2; return place >= LEFT && html`<line class="mark-at" x1=${place} x2=${place} y1=${TOP} y2=${TOP + high}/><text x=${place + (right ? -5 : 5)} y=${TOP + 10} text-anchor=${right ? "end" : "start"}>${text}</text>`; })}
      ${under && html`<line class="axis" x1=${x(over)} x2=${x(over)} y1=${TOP} y2=${TOP + high}/>`}
      ${!stacked && ends.map((end) => { low = Math.max(y(end.at) + 4, low + 13); return html`<text class="end" x=${LEFT + wide + 6} y=${low}>${end.one.name} ${unit(end.at)}</text>`; })}
    </svg>`}</div></section>`;
}

// How a pool is divided, in one bar.
export const Parts = ({ parts }) => {
  const all = parts.reduce((sum, [, number]) => sum + number, 0) || 1;
  let at = 0;
  return html`<svg width="100%" height="10" role="img" aria-label=${parts.map(([name, number]) => name + " " + number).join(", ")}>${parts.map(([, number, tone]) => { const x = at; at += (100 * number) / all; return number > 0 && html`<rect x=${x + "%"} width=${(100 * number) / all + "%"} height="10" class=${"f-" + tone}/>`; })}</svg>`;
};
