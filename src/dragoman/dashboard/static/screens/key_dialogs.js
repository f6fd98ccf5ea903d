/** Dialogs that create keys and teams, rotate secrets, and set limits. */
import { html } from "../lib/html.js";
import { encoded, post, send } from "../lib/api.js";
import { printable } from "../lib/format.js";
import { CopyButton } from "../components/controls.js";
import {
  Actions,
  Dialog,
  Field,
  FormDialog,
  SelectField,
  Suggestions,
  words,
} from "../components/dialog.js";
import { amountText, LIMIT_KINDS, limitName } from "./limits.js";

/** @typedef {{ onClose: () => void, onDone: (result: any) => void }} DialogProps */

/** @param {{ kind: Api.OwnerKind, teams: Api.Owner[] } & DialogProps} props */
export function CreateDialog({ kind, teams, onClose, onDone }) {
  const isTeam = kind === "team";
  const submit = ({ name, team, models }) =>
    post(isTeam ? "teams" : "keys", {
      name,
      team: team || undefined,
      models: models ? words(models) : undefined,
    });
  return html`
    <${FormDialog} title=${isTeam ? "Create a team" : "Create a key"} action="Create"
      submit=${submit} onDone=${onDone} onClose=${onClose}>
      <${Field} name="name" label="Name" required maxlength="100" />
      ${
        !isTeam &&
        html`
          <${Field} name="team" label="Team; empty for none" list="teams" />
          <${Suggestions} id="teams" names=${teams.map((team) => team.name)} />
        `
      }
      <${Field} name="models" label="Models it may ask for, * allowed; empty for all" />
    <//>
  `;
}

/**
 * Shows a secret once: the store has only its digest.
 * @param {{ created: { name: string, secret: string }, onClose: () => void }} props
 */
export const SecretDialog = ({ created: { name, secret }, onClose }) => html`
  <${Dialog} title=${"The secret of " + printable(name)} onClose=${onClose}>
    <p class="muted">It is shown only this once.</p>
    <div class="row step once">
      <code class="mono grow">${secret}</code>
      <${CopyButton} text=${secret} label="Copy the secret" />
    </div>
    <${Actions}><button class="btn primary">Done</button><//>
  <//>
`;

/** @param {{ name: string } & DialogProps} props */
export function RotateDialog({ name, onClose, onDone }) {
  const submit = ({ hours }) =>
    post(`keys/${encoded(name)}/rotate`, { grace_s: 3600 * Number(hours) });
  return html`
    <${FormDialog} title=${"A new secret for " + printable(name)} action="Create it"
      submit=${submit} onDone=${onDone} onClose=${onClose}>
      <p class="muted">
        The new secret is shown once. The old one stays valid for a while, so that clients can be
        changed.
      </p>
      <${Field} name="hours" label="Hours until the old secret ends" type="number" min="0" max="720"
        step="any" required defaultValue="24" />
    <//>
  `;
}

/** @type {[string, string][]} */
const MODES = [
  ["", "is refused"],
  ["soft", "is reported (soft)"],
  ["shadow", "is only counted (shadow)"],
];

/**
 * Adds a limit, or changes `one`.
 * @param {{ path: string, one?: Api.LimitView } & DialogProps} props
 */
export function LimitDialog({ path, one, onClose, onDone }) {
  const old = one ? one.limit : { kind: "requests", window: "day", mode: "", amount: undefined };
  const empty = one ? null : undefined; // a change names what is taken away
  const submit = ({ kind, amount, window, mode }) => {
    const limit = {
      kind,
      amount: kind === "cost" ? amount : Number(amount),
      window: kind === "concurrent" ? empty : window,
      mode: mode || empty,
    };
    return one ? send("PATCH", `${path}/${one.number}`, limit) : post(path, limit);
  };
  return html`
    <${FormDialog} title=${one ? "Change a limit" : "Add a limit"} action=${one ? "Save" : "Add"}
      submit=${submit} onDone=${() => onDone(null)} onClose=${onClose}>
      <div class="pair">
        <div>
          <${SelectField} name="kind" label="Of" choices=${Object.entries(LIMIT_KINDS)}
            chosen=${old.kind} />
        </div>
        <div>
          <${Field} name="amount" label="Amount; a cost in US dollars" required inputmode="decimal"
            defaultValue=${old.amount} />
        </div>
      </div>
      <div class="pair">
        <div>
          <${Field} name="window" label="Within: 1m, 5h, day, month, total"
            defaultValue=${old.window} />
        </div>
        <div>
          <${SelectField} name="mode" label="What exceeds it" choices=${MODES}
            chosen=${old.mode || ""} />
        </div>
      </div>
    <//>
  `;
}

/** @param {{ path: string, one: Api.LimitView } & DialogProps} props */
export function GrantDialog({ path, one: { limit }, onClose, onDone }) {
  const submit = ({ amount }) =>
    post(path, { amount: limit.kind === "cost" ? amount : Number(amount) });
  return html`
    <${FormDialog} title="Grant more" action="Grant it" submit=${submit} onDone=${onDone}
      onClose=${onClose}>
      <p class="muted">
        In addition to the ${amountText(limit.kind, limit.amount)} of “${limitName(limit)}”, until
        the present window ends.
      </p>
      <${Field} name="amount" label="How much more" required inputmode="decimal" />
    <//>
  `;
}
