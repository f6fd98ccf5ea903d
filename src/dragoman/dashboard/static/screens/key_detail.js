/** One key or team: its limits, rules and secrets. */
import { html } from "../lib/html.js";
import { encoded, isAdmin, ownerPath, send } from "../lib/api.js";
import { plainJson, plural, printable } from "../lib/format.js";
import { formatTime, now, unixTime } from "../lib/time.js";
import { Facts, Unknown } from "../components/layout.js";
import { SidePanel } from "../components/side_panel.js";
import { keyStatus, StatusLabel } from "../components/status.js";
import { notify, notifyError } from "../components/toast.js";
import { amountText, ExhaustedIn, LimitBar, limitName, ResetsIn, UsedOf } from "./limits.js";

/** Rules that the panel shows elsewhere. */
const SHOWN_ELSEWHERE = ["limits", "team"];

/** @param {{ owner: Api.Owner, onDialog: (dialog: any) => void, reload: () => void }} props */
export function KeyDetail({ owner, onDialog, reload }) {
  const isKey = owner.kind === "key";
  const isStored = owner.origin === "store";
  const path = ownerPath(owner.kind, owner.name);
  const change = async (method, below, result) => {
    try {
      await send(method, path + below, method === "POST" ? {} : undefined);
      notify(result);
      reload();
    } catch (refusal) {
      notifyError(refusal.message);
    }
  };
  const actions = html`
    ${isKey && html`<${KeyActions} owner=${owner} onDialog=${onDialog} onChange=${change} />`}
    <button class="btn" onClick=${() => onDialog({ limit: path + "/limits" })}>Add a limit…</button>
  `;
  return html`
    <${SidePanel} label=${`${isKey ? "Key" : "Team"} ${printable(owner.name)}`} title=${owner.name}
      back="/ui/keys" subtitle=${subtitleOf(owner)} actions=${isStored && isAdmin() && actions}>
      <section><p><${StatusLabel} status=${keyStatus(owner.state)} /></p></section>
      <section>
        <h2>Limits</h2>
        ${
          owner.limits.length
            ? html`
              <ul class="limit-list">
                ${owner.limits.map(
                  (one) => html`
                    <${Limit} one=${one} path=${path} isStored=${isStored} onDialog=${onDialog}
                      onChange=${change} />
                  `,
                )}
              </ul>
            `
            : html`<p class="muted">None of its own.</p>`
        }
      </section>
      <${Rules} rules=${owner.rules} />
      ${isKey && html`<${Secrets} owner=${owner} />`}
    <//>
  `;
}

/** @param {Api.Owner} owner */
function subtitleOf({ kind, keys, rules, origin }) {
  const team = rules.team ? `team ${printable(rules.team)}` : "no team";
  const what = kind === "team" ? plural(keys, "key") : team;
  return `${what} · ${origin === "store" ? "in the store" : "in the configuration file"}`;
}

/**
 * @param {{ owner: Api.Owner, onDialog: (dialog: any) => void, onChange: (method: "POST",
 *   below: string, result: string) => void }} props
 */
function KeyActions({ owner, onDialog, onChange }) {
  const name = printable(owner.name);
  const enable = () => onChange("POST", "/enable", `${name} is accepted again.`);
  const disable = () => onChange("POST", "/disable", `${name} is refused from now on.`);
  const isDisabled = owner.state === "disabled";
  return html`
    <button class="btn" onClick=${() => onDialog({ rotate: owner.name })}>New secret…</button>
    <button class="btn" onClick=${isDisabled ? enable : disable}>
      ${isDisabled ? "Enable" : "Disable"}
    </button>
  `;
}

/**
 * One limit. Where it is in the configuration file, it can only be reset.
 *
 * @param {{ one: Api.LimitView, path: string, isStored: boolean, onDialog: (dialog: any) => void,
 *   onChange: (method: "POST" | "DELETE", below: string, result: string) => void }} props
 */
function Limit({ one, path, isStored, onDialog, onChange }) {
  const { limit, state, number } = one;
  const own = `/limits/${number}`;
  const isNearEnd = Number(unixTime(state.exhausted_at)) > now.value;
  return html`
    <li>
      <div class="row">
        <b class="strong grow">${limitName(limit)}</b>
        ${limit.mode && html`<span class="faint small">${limit.mode}</span>`}
      </div>
      <${LimitBar} one=${one} width=${250} />
      <div class="row small muted">
        <${UsedOf} one=${one} />
        <span class="grow"></span>
        <span>resets in <${ResetsIn} one=${one} /></span>
      </div>
      ${limit.granted && html`<p class="small muted">${grantText(limit)}</p>`}
      ${
        isNearEnd &&
        html`
          <p class="small">At the current rate it is used up in <${ExhaustedIn} one=${one} />.</p>
        `
      }
      ${
        isAdmin() &&
        html`
          <div class="row small">
            ${
              isStored &&
              html`
                <button class="link" onClick=${() => onDialog({ limit: path + "/limits", one })}>
                  Change…
                </button>
                <button class="link"
                  onClick=${() => onDialog({ grant: `${path}${own}/grant`, one })}>
                  Grant more…
                </button>
              `
            }
            <button class="link"
              onClick=${() => onChange("POST", own + "/reset", "The limit was reset.")}>
              Reset
            </button>
            ${
              isStored &&
              html`
                <button class="link"
                  onClick=${() => onChange("DELETE", own, "The limit was removed.")}>
                  Remove
                </button>
              `
            }
          </div>
        `
      }
    </li>
  `;
}

/** @param {Api.Limit} limit */
function grantText({ kind, granted, granted_until: until }) {
  const amount = amountText(kind, granted || 0);
  return `${amount} of it granted until ${formatTime(Number(unixTime(until)))}`;
}

/** @param {{ rules: Api.Owner["rules"] }} props */
function Rules({ rules }) {
  const shown = Object.entries(rules).filter(([field]) => !SHOWN_ELSEWHERE.includes(field));
  if (!shown.length) return null;
  const entries = shown.map(([field, value]) => [
    field,
    html`<span class="mono">${printable(plainJson(value))}</span>`,
  ]);
  return html`
    <section>
      <h2>Rules</h2>
      <${Facts} class="left wide" nameClass="mono" entries=${entries} />
    </section>
  `;
}

/** @param {Api.Owner} owner */
const unused = ({ origin }) =>
  origin === "store" ? "it was not used yet" : "the log of requests has none of it";

/** @param {{ owner: Api.Owner }} props */
function Secrets({ owner }) {
  const { secrets, used } = owner;
  const lastUsed = unixTime(used);
  const line = ({ ending, created, revoked }) => html`
    <li>
      <span class="mono">…${printable(ending)}</span>
      <span class="muted small">
        created ${formatTime(Number(unixTime(created)))}
        ${revoked ? `, ends ${formatTime(Number(unixTime(revoked)))}` : ""}
      </span>
    </li>
  `;
  return html`
    <section>
      <h2>Secrets</h2>
      ${
        secrets.length
          ? html`<ul class="hist plain">${secrets.map(line)}</ul>`
          : html`<p class="muted">In the configuration file.</p>`
      }
      <p class="muted small why-line">
        ${"Last used: "}
        ${lastUsed ? formatTime(lastUsed) : html`<${Unknown} why=${unused(owner)} />`}
      </p>
      <p class="small why-line">
        <a href=${"/ui/requests?key=" + encoded(owner.name)}>Its requests</a>
      </p>
    </section>
  `;
}
