/** Configuration: what is served, what a reload would change, prices, and who changed what. */
import { classes, html } from "../lib/html.js";
import { ScreenHead } from "../components/layout.js";
import { Audit } from "./config_audit.js";
import { Prices } from "./config_prices.js";
import { Reload } from "./config_reload.js";
import { Running } from "./config_running.js";

/** @type {Record<string, { title: string, component: () => any }>} */
const TABS = {
  running: { title: "Running", component: Running },
  reload: { title: "Reload", component: Reload },
  prices: { title: "Prices", component: Prices },
  audit: { title: "Audit", component: Audit },
};

/** @param {{ tab?: string }} props */
export function Configuration({ tab = "" }) {
  const shown = tab in TABS ? tab : "running";
  const tools = html`
    <nav class="row" aria-label="Parts">
      ${Object.entries(TABS).map(
        ([name, { title }]) => html`
          <a class=${classes("btn", name !== shown && "quiet")} href=${"/ui/config/" + name}
            aria-current=${name === shown ? "page" : null}>
            ${title}
          </a>
        `,
      )}
    </nav>
  `;
  return html`
    <${ScreenHead} title="Configuration" tools=${tools} />
    <${TABS[shown].component} key=${shown} />
  `;
}
