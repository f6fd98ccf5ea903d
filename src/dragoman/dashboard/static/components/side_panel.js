/** The panel beside a table that shows one of its rows. */
import { html } from "../lib/html.js";
import { printable } from "../lib/format.js";
import { Icon } from "./icons.js";

/**
 * @param {{ label: string, title: string, back: string, subtitle?: string, actions?: unknown,
 *   children?: unknown }} props `back` is where closing it leads
 */
export const SidePanel = ({ label, title, back, subtitle, actions, children }) => html`
  <aside class="side" aria-label=${label}>
    <header>
      <div class="row">
        <h2 class="grow ellipsis" title=${printable(title)}>${printable(title)}</h2>
        <a class="btn quiet icon" href=${back} aria-label="Close"><${Icon} name="close" /></a>
      </div>
      ${subtitle && html`<div class="small muted">${subtitle}</div>`}
      ${actions && html`<div class="acts">${actions}</div>`}
    </header>
    ${children}
  </aside>
`;
