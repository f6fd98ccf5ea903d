/** What screens are laid out with: heads, panels, lists of facts, notices. */
import { classes, html } from "../lib/html.js";
import { printable } from "../lib/format.js";

/**
 * The head of a screen.
 * @param {{ title: string, note?: unknown, noteClass?: string, tools?: unknown }} props
 */
export const ScreenHead = ({ title, note, noteClass = "not-phone", tools }) => html`
  <div class="head">
    <h1>${title}</h1>
    ${note && html`<span class=${classes("sub", noteClass)}>${note}</span>`}
    ${tools && html`<div class="tools">${tools}</div>`}
  </div>
`;

/**
 * A titled panel.
 * @param {{ title: unknown, note?: unknown, tools?: unknown, class?: string, children?: unknown
 *   }} props
 */
export const Panel = ({ title, note, tools, class: kind, children }) => html`
  <section class=${classes("panel", kind)}>
    <header>
      <h2>${title}</h2>
      ${note != null && html`<span class="faint small">${note}</span>`}
      ${tools}
    </header>
    ${children}
  </section>
`;

/**
 * A list of names and values.
 * @param {{ entries: [name: string, value: any][], class?: string, nameClass?: string }} props
 */
export const Facts = ({ entries, class: kind, nameClass }) => html`
  <dl class=${classes("facts", kind)}>
    ${entries.map(
      ([name, value]) => html`
        <dt class=${nameClass}>${name}</dt>
        <dd title=${typeof value === "string" ? value : null}>${value}</dd>
      `,
    )}
  </dl>
`;

/**
 * A region that scrolls: it has a name, and the keyboard reaches it.
 * @param {{ label: string, class?: string, children?: unknown, [more: string]: any }} props
 */
export const ScrollRegion = ({ label, class: kind = "sideways", children, ...more }) => html`
  <div class=${kind} tabindex="0" role="region" aria-label=${label} ...${more}>${children}</div>
`;

/**
 * Why a screen has no current data.
 * @param {{ text: string }} props
 */
export const ErrorBanner = ({ text }) =>
  text && html`<p class="banner" role="alert">${printable(text)}</p>`;

/**
 * A note in the place of data.
 * @param {{ children?: unknown }} props
 */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/**
 * A note until data arrive, or why they do not.
 * @param {{ error?: string }} props
 */
export const Loading = ({ error }) => html`
  <p class="empty" aria-busy=${error ? null : "true"}>${error || "Loading…"}</p>
`;

/**
 * A value that is not known.
 * @param {{ why: string }} props
 */
export const Unknown = ({ why }) => html`
  <span class="unknown" title=${why} tabindex="0" aria-label=${"unknown: " + why}>—</span>
`;
