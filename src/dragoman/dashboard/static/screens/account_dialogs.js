/** Dialogs that add, test, enable and disable accounts, and replace their keys. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { encoded, post } from "../lib/api.js";
import { count, duration, plural, printable } from "../lib/format.js";
import { useStream } from "../lib/hooks.js";
import { Glyph } from "../components/status.js";
import {
  Actions,
  ConfirmNumber,
  Dialog,
  Field,
  FormDialog,
  FormError,
  NameList,
  Suggestions,
  words,
} from "../components/dialog.js";

const FAILURES_SHOWN = 200;

/** @param {{ upstreams: string[], onClose: () => void, onDone: (name: string) => void }} props */
export function AddDialog({ upstreams, onClose, onDone }) {
  const submit = async (values) => {
    const { name, upstream, key, models, priority, max_concurrent } = values;
    await post("accounts", {
      name,
      upstream,
      key,
      models: models ? words(models) : undefined,
      priority: priority ? Number(priority) : undefined,
      max_concurrent: max_concurrent ? Number(max_concurrent) : undefined,
    });
    return name;
  };
  return html`
    <${FormDialog} title="Add an account" action="Add" submit=${submit} onDone=${onDone}
      onClose=${onClose}>
      <${Field} name="name" label="Name" required autocomplete="username" maxlength="100" />
      <${Field} name="upstream" label="Upstream" required list="upstreams"
        value=${upstreams.length === 1 ? upstreams[0] : undefined} />
      <${Suggestions} id="upstreams" names=${upstreams} />
      <${Field} name="key" label="Key" type="password" required autocomplete="new-password" />
      <${Field} name="models" label="Models it has, * allowed; empty for all" />
      <div class="pair">
        <div>
          <${Field} name="priority" label="Priority; the lowest goes first" type="number" />
        </div>
        <div>
          <${Field} name="max_concurrent" label="Concurrent requests; empty for any number"
            type="number" min="1" />
        </div>
      </div>
    <//>
  `;
}

/** @param {{ name: string, onClose: () => void, onDone: (result: any) => void }} props */
export function NewKeyDialog({ name, onClose, onDone }) {
  const submit = ({ key, test }) =>
    post(`accounts/${encoded(name)}/rotate`, { key, test: test === "on" });
  return html`
    <${FormDialog} title=${"A new key for " + printable(name)} action="Replace the key"
      busyAction="Testing…" submit=${submit} onDone=${onDone} onClose=${onClose}>
      <p class="muted">
        The old key stays in use until the new one has answered a request of 16 tokens, which may be
        billed.
      </p>
      <input class="visually-hidden" type="text" autocomplete="username" tabindex="-1"
        aria-hidden="true"
        value=${name} readonly />
      <${Field} name="key" label="New key" type="password" required autocomplete="new-password" />
      <label class="tick">
        <input type="checkbox" name="test" defaultChecked /> Test it before it replaces the old one
      </label>
    <//>
  `;
}

/**
 * Tests accounts, and lists those that did not answer.
 * @param {{ names: string[], onClose: () => void }} props
 */
export function TestDialog({ names, onClose }) {
  const { events, error, isRunning, start, stop } = useStream();
  const [isConfirmed, setIsConfirmed] = useState(false);
  const findings = /** @type {Api.TestFinding[]} */ (events);
  const title = "Test " + plural(names.length, "account");
  const run = ({ model }) => {
    setIsConfirmed(true);
    start("accounts/test", { names, model: model || undefined });
  };
  return html`
    <${Dialog} title=${title} onClose=${onClose} class="wide" onSubmit=${run}>
      ${
        isConfirmed
          ? html`<${Findings} names=${names} findings=${findings} />`
          : html`
            <p class="muted">
              Sends ${names.length === 1 ? "one request" : `${count(names.length)} requests`} of at
              most 16 output tokens, eight at a time, which may be billed. An upstream’s answer
              counts as if a client had sent the request. Only the selected accounts are tested.
            </p>
            <${Field} name="model" label="Model; empty for one that each account has" />
            <${ConfirmNumber} number=${names.length} />
          `
      }
      <${FormError} text=${error} />
      <${Actions}>
        ${!isConfirmed && html`<button class="btn primary">${title}</button>`}
        ${isRunning && html`<button type="button" class="btn" onClick=${stop}>Stop</button>`}
        <button type="button" class="btn" onClick=${onClose}>
          ${!isConfirmed || isRunning ? "Cancel" : "Close"}
        </button>
      <//>
    <//>
  `;
}

/** @param {{ names: string[], findings: Api.TestFinding[] }} props */
function Findings({ names, findings }) {
  const failures = findings.filter((finding) => !finding.passed);
  const passed = findings.length - failures.length;
  const [first] = findings;
  return html`
    <p role="status">
      <b class="strong">${count(findings.length)}</b> of ${count(names.length)} tested:${" "}
      <b class="strong">${count(passed)}</b> answered,${" "}
      <b class=${failures.length ? "state err" : "strong"}>${count(failures.length)}</b> did not.
    </p>
    <progress max=${names.length} value=${findings.length} aria-label="Accounts tested"></progress>
    ${
      failures.length > 0 &&
      html`
        <ul class="checks results" tabindex="0" aria-label="Accounts that did not answer">
          ${failures
            .slice(0, FAILURES_SHOWN)
            .map((finding) => html`<${Failure} finding=${finding} />`)}
        </ul>
      `
    }
    ${
      names.length === 1 &&
      passed === 1 &&
      html`
        <p class="muted">
          ${printable(first.model)} answered in ${duration(first.milliseconds / 1000)}.
        </p>
      `
    }
  `;
}

/** @param {{ finding: Api.TestFinding }} props */
const Failure = ({ finding }) => html`
  <li>
    <${Glyph} shape="square" />
    <div>
      <b class="strong">${printable(finding.account || finding.name)}</b>
      ${" "}
      ${finding.status && html`<span class="num">${finding.status}</span>`}
      <div class="muted">${printable(finding.message || finding.why)}</div>
      ${
        finding.account_is &&
        html`<div class="faint small">The account ${printable(finding.account_is)}.</div>`
      }
    </div>
  </li>
`;

/**
 * Asks before accounts are enabled or disabled.
 * @param {{ action: Api.AccountAction, names: string[], onClose: () => void,
 *   onDone: (reason: string | undefined) => void }} props
 */
export function EnableDialog({ action, names, onClose, onDone }) {
  const isDisable = action === "disable";
  const verb = isDisable ? "Disable" : "Enable";
  const them = names.length === 1 ? "it" : "them";
  const effect = isDisable
    ? `No request goes to ${them} until somebody enables ${them}. Requests in flight are finished.`
    : `Requests go to ${them} at once, even where an upstream asked to wait.`;
  return html`
    <${FormDialog} title=${`${verb} ${plural(names.length, "account")}`} action=${verb}
      submit=${(values) => values.reason} onDone=${onDone} onClose=${onClose}>
      <div class="muted"><${NameList} names=${names} /></div>
      <p class="muted">${effect}</p>
      ${isDisable && html`<${Field} name="reason" label="Reason" maxlength="200" />`}
      <${ConfirmNumber} number=${names.length} />
    <//>
  `;
}
