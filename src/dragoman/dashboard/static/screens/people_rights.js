/** What a person would be given, whether known or not, and by which rule. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { get } from "../lib/api.js";
import { printable } from "../lib/format.js";
import { TYPING_MS, useFetched } from "../lib/hooks.js";
import { withQuery } from "../lib/navigation.js";
import { SearchField } from "../components/controls.js";
import { Empty, ErrorBanner, Facts, Panel } from "../components/layout.js";
import { keyStatus, StatusLabel } from "../components/status.js";
import { amountText, limitName } from "./limits.js";

export function PeopleRights() {
  const [email, setEmail] = useState("");
  const [groups, setGroups] = useState("");
  const names = { email: email.trim(), groups: groups.replaceAll(" ", "") };
  const { data, error } = useFetched(
    () => (names.email ? get(withQuery("people/explain", names)) : null),
    [email, groups],
    { delay: TYPING_MS },
  );
  const rights = /** @type {Api.Rights | null} */ (names.email ? data : null);
  return html`
    <${Panel} title="Who would get what" class="gap-below">
      <div class="filters">
        <${SearchField} label="E-mail address" hint="ada@example.com" value=${email}
          onInput=${setEmail} />
        <${SearchField} label="Groups" hint="groups, with commas" value=${groups}
          onInput=${setGroups} />
      </div>
      <${ErrorBanner} text=${names.email ? error : ""} />
      <div aria-live="polite">
        ${
          rights
            ? html`<${Facts} entries=${entriesOf(rights)} />`
            : html`<${Empty}>Name somebody who might sign in.<//>`
        }
      </div>
      ${
        rights &&
        rights.managed_settings &&
        html`
          <details>
            <summary>Managed settings of Claude Code</summary>
            <pre tabindex="0">${JSON.stringify(rights.managed_settings, null, 2)}</pre>
          </details>
        `
      }
    <//>
  `;
}

/**
 * @param {Api.Rights} rights
 * @returns {[name: string, value: any][]}
 */
function entriesOf({ state, reason, rule, team, role, models, limits, team_limits }) {
  /** @type {[name: string, value: any][]} */
  const entries = [["State", html`<${StatusLabel} status=${keyStatus(state)} />`]];
  if (reason) entries.push(["Because", printable(reason)]);
  if (!rule) return entries;
  return [
    ...entries,
    ["Rule", String(rule)],
    ["Team", printable(team || "none")],
    ["Dashboard", role || "no access"],
    ["Models by name", models.map(printable).join(", ") || "none"],
    ["Limits", limitsText(limits)],
    ["Limits of the team", limitsText(team_limits)],
  ];
}

/** @param {Api.Limit[]} limits */
const limitsText = (limits) =>
  limits.map((one) => `${amountText(one.kind, one.amount)} ${limitName(one)}`).join("; ") || "none";
