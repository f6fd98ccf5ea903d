/** What is lost toward each protocol, and which policies accept it. */
import { html } from "../lib/html.js";
import { ascending, count, plural, printable } from "../lib/format.js";
import { jsonLines, lineIndex } from "../lib/json_lines.js";
import { Toggle } from "../components/controls.js";
import { Empty, Panel } from "../components/layout.js";
import { LossKind, protocolName } from "../components/protocols.js";
import { StatusLabel } from "../components/status.js";

/** @type {Api.Policy[]} */
export const POLICIES = ["strict", "balanced", "lenient"];

/**
 * @typedef {object} LedgerRow
 * @property {string} path
 * @property {Api.Loss[][]} losses toward each target
 */

/**
 * The paths that lose something, in the order of the request.
 * @param {Api.TranslationTarget[]} targets
 * @param {unknown} value
 * @returns {LedgerRow[]}
 */
function ledgerRows(targets, value) {
  const all = targets.flatMap((target) => target.losses.map((loss) => loss.path));
  const lines = value ? jsonLines(value, all) : [];
  const rows = [...new Set(all)].map((path) => ({
    path,
    losses: targets.map((target) => target.losses.filter((loss) => loss.path === path)),
  }));
  return rows.sort(ascending(({ path }) => lineIndex(lines, path)));
}

/** @param {{ targets: Api.TranslationTarget[], value: unknown }} props */
export function Ledger({ targets, value }) {
  const rows = ledgerRows(targets, value);
  return html`
    <${Panel} title="Ledger" note="paths of the client’s request">
      ${
        rows.length
          ? html`
            <table class="ledger">
              <thead>
                <tr>
                  <th class="width-path">Path</th>
                  ${targets.map(
                    ({ protocol }) => html`<th class="width-kind">${protocolName(protocol)}</th>`,
                  )}
                  <th class="width-detail not-phone">What happens</th>
                </tr>
              </thead>
              <tbody>${rows.map((row) => html`<${LedgerLine} key=${row.path} ...${row} />`)}</tbody>
            </table>
          `
          : html`<${Empty}>Nothing is lost.<//>`
      }
    <//>
  `;
}

/** @param {LedgerRow} props */
function LedgerLine({ path, losses }) {
  const details = [...new Set(losses.flat().map((loss) => printable(loss.detail)))].join("; ");
  return html`
    <tr>
      <td class="mono" title=${printable(path)}>
        ${printable(path)}
        <div class="only-phone muted small details-below">${details}</div>
      </td>
      ${losses.map((toward) => html`<td><${Kinds} losses=${toward} /></td>`)}
      <td class="muted not-phone" title=${details}>${details}</td>
    </tr>
  `;
}

/** @param {{ losses: Api.Loss[] }} props */
function Kinds({ losses }) {
  const kinds = [...new Set(losses.map((loss) => loss.kind))];
  if (!kinds.length) return html`<span class="faint">unchanged</span>`;
  return kinds.map(
    (kind) => html`
      <span class="row gap-small">
        <${LossKind} kind=${kind} /><span class="not-phone">${kind}</span>
      </span>
    `,
  );
}

/**
 * @param {{ translation: Api.Translation, policy: Api.Policy,
 *   onPolicy: (policy: Api.Policy) => void }} props
 */
export function Verdicts({ translation, policy, onPolicy }) {
  const { targets, speaks, upstream } = translation;
  const refusals = targets.filter((target) => !target.verdicts[policy].passes);
  return html`
    <${Panel} title="Under each policy">
      <div class="verdicts">
        <div class="verdict-head"></div>
        ${POLICIES.map(
          (name) => html`
            <div class="verdict-head">
              <${Toggle} class="link" pressed=${name === policy} onClick=${() => onPolicy(name)}>
                ${name}
              <//>
            </div>
          `,
        )}
        ${targets.map(
          (target) => html`
            <div>
              ${protocolName(target.protocol)}
              <div class="small faint">
                ${speaks === target.protocol ? printable(upstream) : "any"}
              </div>
            </div>
            ${POLICIES.map(
              (name) => html`
                <div class=${name === policy ? "on" : ""}>
                  <${Verdict} verdict=${target.verdicts[name]} losses=${target.losses.length} />
                </div>
              `,
            )}
          `,
        )}
      </div>
      ${
        refusals.length > 0 &&
        html`
          <div class="note">
            <ul>
              ${refusals.map(({ protocol, verdicts }) => {
                const message = printable(verdicts[policy].message);
                return html`<li>${protocolName(protocol)}: ${message}</li>`;
              })}
            </ul>
          </div>
        `
      }
      ${
        translation.policy &&
        html`<p class="note">The route of this model is ${translation.policy}.</p>`
      }
    <//>
  `;
}

/** @param {{ verdict: Api.Verdict, losses: number }} props */
function Verdict({ verdict: { passes, paths }, losses }) {
  const reported = losses ? `${count(losses)} reported` : "nothing lost";
  return html`
    <${StatusLabel}
      status=${{
        tone: passes ? "ok" : "err",
        shape: passes ? "dot" : "square",
        label: passes ? "passes" : "400",
      }}
    />
    <div class="small muted">${passes ? reported : plural(paths.length, "path")}</div>
  `;
}
