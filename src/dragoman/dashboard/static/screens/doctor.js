/** The doctor: checks that play the clients of all protocols against this instance. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { ascending, count, printable } from "../lib/format.js";
import { useStream } from "../lib/hooks.js";
import { Toggle } from "../components/controls.js";
import { Panel } from "../components/layout.js";
import { Glyph } from "../components/status.js";

/** @typedef {import("../components/status.js").Status} Status */

/**
 * How a check can end, the worst first.
 * @type {Record<Api.Check["state"], Status>}
 */
const STATES = {
  broken: { tone: "err", shape: "square", label: "broken" },
  warning: { tone: "cool", shape: "half", label: "warning" },
  not_seen: { tone: "off", shape: "cross", label: "not seen" },
  ok: { tone: "ok", shape: "dot", label: "ok" },
};
const SEVERITY = Object.keys(STATES);

const NOTE =
  "plays the clients of all protocols against this instance, with a key of its own; " +
  "about 15 short answers";

/** @param {Api.Check} check */
const needsAttention = ({ state }) => state === "broken" || state === "warning";

/** @param {{ model: string }} props */
export function Doctor({ model }) {
  const { events, error, isRunning, start, stop } = useStream();
  const [showsAll, setShowsAll] = useState(false);
  const lines = /** @type {(Partial<Api.Check> & { doing?: string, failed?: string })[]} */ (
    events
  );
  const checks = /** @type {Api.Check[]} */ (lines.filter((line) => line.check));
  checks.sort(ascending(({ state }) => SEVERITY.indexOf(state)));
  const shown = showsAll ? checks : checks.filter(needsAttention);
  const doing = lines.findLast((line) => line.doing)?.doing;
  const fault = error || lines.find((line) => line.failed)?.failed;
  const button = isRunning
    ? html`<button class="btn" onClick=${stop}>Stop</button>`
    : html`
      <button class="btn" onClick=${() => start("doctor", { model })}>
        Run for ${printable(model)}
      </button>
    `;
  return html`
    <${Panel} title="Doctor"
      note=${NOTE}
      tools=${html`<span class="right row">${button}</span>`}>
      ${fault && html`<p class="note error-text" role="alert">${printable(fault)}</p>`}
      <div role="status" class="note" hidden=${!isRunning && !checks.length}>
        ${
          isRunning && !checks.length
            ? printable(doing || "Creating a key…")
            : html`<${Totals} checks=${checks} />`
        }
      </div>
      ${
        shown.length > 0 &&
        html`
          <ul class="checks">
            ${shown.map((check) => html`<${Check} ...${check} name=${check.check} />`)}
          </ul>
        `
      }
      ${
        checks.length > 0 &&
        html`
          <div class="note">
            <${Toggle} class="btn quiet" pressed=${showsAll}
              onClick=${() => setShowsAll(!showsAll)}>
              ${showsAll ? "Show only what is wrong" : "Show all checks"}
            <//>
          </div>
        `
      }
    <//>
  `;
}

/** @param {{ checks: Api.Check[] }} props */
const Totals = ({ checks }) => html`
  <span class="row">
    ${Object.entries(STATES).map(([state, { tone, shape, label }]) => {
      const number = checks.filter((check) => check.state === state).length;
      if (!number) return null;
      return html`
        <span class=${"state " + tone}>
          <${Glyph} shape=${shape} /><b>${count(number)}</b>${" " + label}
        </span>
      `;
    })}
  </span>
`;

/** @param {Api.Check & { name: string }} props */
const Check = ({ name, state, what, problem, breaks, remedy }) => html`
  <li>
    <${Glyph} shape=${STATES[state].shape} />
    <div>
      <b class="strong">${what}</b> <span class="faint small mono">${name}</span>
      ${problem && html`<div class="muted">${printable(problem)}</div>`}
      ${
        (state === "broken" || state === "warning") &&
        html`
          <div class="small muted">Breaks: ${breaks}.</div>
          <div class="small muted">Do: ${remedy}.</div>
        `
      }
    </div>
  </li>
`;
