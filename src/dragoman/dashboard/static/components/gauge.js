/** Bars that show how much is used, and how something is divided. */
import { classes, html } from "../lib/html.js";
import { now } from "../lib/time.js";
import { Unknown } from "./layout.js";

const HIGH = 0.85;

/**
 * The colour of a bar.
 * @param {number} share
 */
function toneOf(share) {
  if (share >= 1) return "out";
  return share > HIGH ? "cool" : "info";
}

/**
 * The share of a window's time that has elapsed; null where its end or length is unknown.
 * @param {number | null} resetsAt
 * @param {number | null} seconds
 */
export function elapsedShare(resetsAt, seconds) {
  if (!resetsAt || !seconds) return null;
  return Math.min(1, Math.max(0, 1 - (resetsAt - now.value) / seconds));
}

/**
 * A bar of shares: what is used, what is reserved beyond it (paler), and a tick for `elapsed`.
 * @param {{ used: number, reserved?: number, elapsed: number | null, label: string, width?: number,
 *   class?: string }} props
 */
export function Gauge({ used, reserved = 0, elapsed, label, width = 80, class: kind }) {
  const full = used + reserved;
  const tone = toneOf(full);
  const end = used > 0 ? Math.max(1, width * Math.min(1, used)) : 0;
  const rest = width * Math.min(1 - Math.min(1, used), reserved);
  const tick = elapsed != null && width * elapsed;
  return html`
    <svg width=${width} height="12" class=${kind} role="img" aria-label=${label}>
      <rect x="0" y="3" width=${width} height="6" rx="1" class="f-line" />
      <rect x="0" y="3" width=${end} height="6" rx="1" class=${"f-" + tone} />
      ${
        rest > 0 &&
        html`<rect x=${end} y="3" width=${rest} height="6" class=${classes("f-" + tone, "soft")} />`
      }
      ${tick !== false && html`<line x1=${tick} x2=${tick} y1="0" y2="12" class="tick" />`}
    </svg>
  `;
}

/**
 * A gauge with its percentage; a dashed frame where `used` is not known.
 * @param {{ used: number | null | undefined, elapsed: number | null, title: string, width?: number
 *   }} props
 */
export function Meter({ used, elapsed, title, width = 52 }) {
  const percent = used != null && Math.round(used * 100) + "%";
  const gauge = percent
    ? html`<${Gauge} used=${used} elapsed=${elapsed} label=${percent + " used"} width=${width} />`
    : html`
      <svg width=${width} height="12" role="img" aria-label="unknown">
        <rect x=".5" y="3.5" width=${width - 1} height="5" rx="1" class="frame" />
      </svg>
    `;
  return html`
    <span class="meter" title=${title}>
      ${gauge}
      <span class=${classes("num", used != null && used > HIGH && "strong")}>
        ${percent || html`<${Unknown} why=${title} />`}
      </span>
    </span>
  `;
}

/**
 * One bar that is divided into parts.
 * @param {{ parts: { name: string, size: number, fill: string }[] }} props
 */
export function PartsBar({ parts }) {
  const total = parts.reduce((all, { size }) => all + size, 0) || 1;
  let start = 0;
  const bars = parts.map(({ size, fill }) => {
    const width = (100 * size) / total;
    const bar = html`
      <rect x=${start + "%"} width=${width + "%"} height="10" class=${"f-" + fill} />
    `;
    start += width;
    return size > 0 && bar;
  });
  const label = parts.map(({ name, size }) => `${name} ${size}`).join(", ");
  return html`<svg width="100%" height="10" role="img" aria-label=${label}>${bars}</svg>`;
}
