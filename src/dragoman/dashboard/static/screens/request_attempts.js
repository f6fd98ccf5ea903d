/** The attempts of a request as lanes on one axis of time. */
import { classes, html } from "../lib/html.js";
import { encoded } from "../lib/api.js";
import { count, duration, printable, size } from "../lib/format.js";
import { Panel } from "../components/layout.js";

/**
 * The share of the axis, in percent, for the time before the first token: 200 ms of retries are to
 * be seen beside 12 s of stream.
 */
const FOLD = 66;

/**
 * The axis of time, which is folded at the first token.
 * @typedef {object} Axis
 * @property {number} end in ms
 * @property {number | null} fold the ms of the first token, null if it is not folded
 * @property {(ms: number) => number} place in percent
 */

/**
 * @param {Api.RequestDetail} request
 * @returns {Axis}
 */
function axisOf({ ms, first_ms: firstMs }) {
  const end = Math.max(ms, 1);
  const fold = firstMs && firstMs < end ? firstMs : null;
  const place = (at) => {
    const within = Math.min(at, end);
    if (fold == null) return (100 * within) / end;
    if (at <= fold) return (FOLD * at) / fold;
    return FOLD + ((100 - FOLD) * (within - fold)) / (end - fold);
  };
  return { end, fold, place };
}

/** @param {{ request: Api.RequestDetail }} props */
export function Attempts({ request }) {
  const { tried, accounts, queue_ms: queueMs } = request;
  const axis = axisOf(request);
  const total = accounts == null ? "the" : count(accounts);
  const note = tried.length
    ? `${tried.length} of ${total} accounts of ${printable(request.upstream)}`
    : "no account was asked";
  return html`
    <${Panel} title="Attempts" note=${note}>
      <${AxisLabels} axis=${axis} />
      <ol class="lanes">
        ${queueMs >= 1 && html`<${Waiting} ms=${queueMs} axis=${axis} />`}
        ${tried.map(
          (attempt, index) => html`
            <${Lane} attempt=${attempt} number=${index + 1} isLast=${index === tried.length - 1}
              axis=${axis} />
          `,
        )}
      </ol>
    <//>
  `;
}

/** @param {{ axis: Axis }} props */
function AxisLabels({ axis: { end, fold, place } }) {
  const ticks = fold == null ? [0, end / 2, end] : [0, fold / 2, fold, end];
  return html`
    <div class="axis-row" aria-hidden="true">
      <div>
        <div class="axis-labels">
          ${ticks.map(
            (ms) => html`
              <span style=${{ left: place(ms) + "%" }}
                class=${classes(ms === fold && "fold", ms === end && ms !== fold && "end")}>
                ${ms ? duration(ms / 1000) : "0"}
              </span>
            `,
          )}
        </div>
        <span></span>
      </div>
    </div>
  `;
}

/**
 * The bars of a lane and how long it took.
 * @param {{ ms: number, label: string, children?: unknown }} props
 */
const LaneBars = ({ ms, label, children }) => html`
  <div class="lane">
    <svg width="100%" height="12" role="img" aria-label=${label}>${children}</svg>
    <span class="num small muted">${duration(ms / 1000)}</span>
  </div>
`;

/** @param {{ start: number, end: number, fill: string }} props in percent */
const Bar = ({ start, end, fill }) => html`
  <rect y="2" height="8" rx="2" class=${fill} x=${start + "%"}
    width=${Math.max(0.6, end - start) + "%"} />
`;

/** @param {{ ms: number, axis: Axis }} props */
const Waiting = ({ ms, axis }) => html`
  <li>
    <div><b class="strong">Waiting for an account</b></div>
    <${LaneBars} ms=${ms} label=${duration(ms / 1000)}>
      <${Bar} start=${0} end=${axis.place(ms)} fill="f-off" />
    <//>
  </li>
`;

/** @param {Api.Attempt} attempt */
function toneOf({ status, kind }) {
  if (status < 400 && !kind) return "info";
  return status === 429 ? "cool" : "out";
}

/** @param {{ attempt: Api.Attempt, number: number, isLast: boolean, axis: Axis }} props */
function Lane({ attempt, number, isLast, axis: { fold, place } }) {
  const { account, status, start_ms: start, end_ms: end } = attempt;
  const tone = toneOf(attempt);
  // Of the attempt that answered, the time before the first token is paler.
  const hasAnswered = fold != null && isLast && end > fold;
  return html`
    <li>
      <div>
        <span class="faint num">${number}</span>
        ${" "}
        <a class="strong ink" href=${"/ui/accounts/" + encoded(account)}>${printable(account)}</a>
        ${" "}
        <span class=${"num state " + (tone === "info" ? "ok" : tone)}><b>${status || "—"}</b></span>
        ${" "}
        <span class="muted small">${printable(attempt.kind || "answered")}</span>
        ${" "}
        ${
          attempt.bytes_up &&
          html`
            <span class="faint small num">
              ${size(attempt.bytes_up)} sent, ${size(attempt.bytes_down || 0)} received
            </span>
          `
        }
      </div>
      <${LaneBars} ms=${end - start}
        label=${`from ${duration(start / 1000)} to ${duration(end / 1000)}`}>
        <${Bar} start=${place(start)} end=${place(end)}
          fill=${classes("f-" + tone, hasAnswered && "soft")} />
        ${hasAnswered && html`<${Bar} start=${FOLD} end=${place(end)} fill=${"f-" + tone} />`}
        ${
          fold != null &&
          html`<line x1=${FOLD + "%"} x2=${FOLD + "%"} y1="-4" y2="16" class="tick dots" />`
        }
      <//>
      ${attempt.why && html`<p class="small muted">${verdictText(attempt)}</p>`}
    </li>
  `;
}

/**
 * Which rule decided what to do next.
 * @param {Api.Attempt} attempt
 */
function verdictText({ row, table, why, rest_s: restS }) {
  const rule = row ? `Row ${row} of ${printable(table)}: ` : "";
  const rest = restS ? `; the account rests ${duration(restS)}` : "";
  return `${rule}${printable(why)}${rest}.`;
}
