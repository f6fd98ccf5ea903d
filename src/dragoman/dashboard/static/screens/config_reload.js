/** How the configuration file differs from what is served, and the reload that serves it. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { get, isAdmin, post } from "../lib/api.js";
import { count, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { FormDialog } from "../components/dialog.js";
import { ErrorBanner, Loading, Panel } from "../components/layout.js";

/** Tables of the file whose rows have names. */
const TABLES = ["clients", "teams", "upstreams", "accounts", "routes", "prices"];
const CHANGES = /** @type {const} */ (["added", "removed", "changed"]);

/**
 * The changes between two configurations as sentences: names, never values.
 * @param {Api.ConfigChanges} changes
 */
function changeLines({ settings, restart, ...tables }) {
  const lines = TABLES.flatMap((table) =>
    CHANGES.filter((change) => tables[table]?.[change]?.names).map(
      (change) => `${table} ${change}: ${nameList(tables[table][change])}`,
    ),
  );
  if (settings) lines.push("settings changed: " + settings.map(printable).join(", "));
  if (restart) lines.push("needs a restart: " + restart.map(printable).join(", "));
  return lines;
}

/** @param {{ names: string[], more: number }} list `more` names are left out */
function nameList({ names, more }) {
  const shown = names.map(printable).join(", ");
  return more ? `${shown} and ${count(more)} more` : shown;
}

/** @param {{ lines: string[], none?: string }} props */
const Lines = ({ lines, none }) => html`
  <ul class="plain">
    ${(lines.length || !none ? lines : [none]).map((line) => html`<li>${line}</li>`)}
  </ul>
`;

export function Reload() {
  const { data, error, reload: look } = useFetched(() => get("config/pending"), []);
  const [isAsking, setIsAsking] = useState(false);
  const [report, setReport] = useState(/** @type {any} */ (null));
  const reload = async () => {
    setIsAsking(false);
    try {
      setReport({ done: await post("reload?digest=" + data.digest) });
    } catch (refusal) {
      setReport({ message: refusal.message, problems: refusal.error?.problems || [] });
    }
    look();
  };
  const result = report && html`<${Result} ...${report} />`;
  if (!data || error) {
    return html`${result}${error ? html`<${ErrorBanner} text=${error} />` : html`<${Loading} />`}`;
  }
  const lines = changeLines(data.changes || {});
  const problems = data.problems || [];
  return html`
    ${result}
    <div class="filters">
      <span class="muted">
        ${problems.length ? "The file cannot be used" : `The file now: ${printable(data.digest)}`}
      </span>
      <span class="grow"></span>
      <button class="btn" onClick=${look}>Check again</button>
      ${
        isAdmin() &&
        !problems.length &&
        html`<button class="btn primary" onClick=${() => setIsAsking(true)}>Reload…</button>`
      }
    </div>
    <div class="stack">
      ${
        problems.length
          ? html`
            <${Panel} title="Problems">
              <div class="body mono"><${Lines} lines=${problems.map(printable)} /></div>
            <//>
          `
          : html`<${Pending} lines=${lines} warnings=${data.warnings || []} />`
      }
    </div>
    ${
      isAsking &&
      html`
        <${FormDialog} title="Reload the configuration" action="Reload" submit=${reload}
          onDone=${() => null} onClose=${() => setIsAsking(false)}>
          <${Lines} lines=${lines} none="Nothing in the file is different." />
          <p class="muted">
            All workers read the file again; if it cannot be used, nothing is changed. Requests in
            flight end on the configuration they began with. To undo it, restore the file and
            reload.
          </p>
        <//>
      `
    }
  `;
}

/** @param {{ lines: string[], warnings: string[] }} props */
const Pending = ({ lines, warnings }) => html`
  <${Panel} title="What a reload would change">
    <div class="body"><${Lines} lines=${lines} none="Nothing: the file is what is served." /></div>
  <//>
  <${Panel} title="Warnings">
    <div class="body"><${Lines} lines=${warnings.map(printable)} none="None." /></div>
  <//>
`;

/**
 * What a reload did, or why it was refused.
 * @param {{ message?: string, problems: string[], done: { configuration: number, digest: string,
 *   changes?: any, warnings?: string[] } }} props
 */
function Result({ done, message, problems }) {
  if (message) {
    return html`
      <div class="banner" role="alert">
        ${printable(message)}
        <ul>${problems.map((problem) => html`<li class="mono">${printable(problem)}</li>`)}</ul>
      </div>
    `;
  }
  const lines = changeLines(done.changes || {});
  return html`
    <div class="banner quiet" role="status">
      Configuration ${done.configuration} is served, ${printable(done.digest)}.
      <ul>
        ${(lines.length ? lines : ["Nothing changed."]).map((line) => html`<li>${line}</li>`)}
        ${(done.warnings || []).map(
          (warning) => html`<li class="state cool">${printable(warning)}</li>`,
        )}
      </ul>
    </div>
  `;
}
