/** The screens, by the first segment of their paths. */
import { html } from "../lib/html.js";
import { Accounts } from "../screens/accounts.js";
import { Clients } from "../screens/clients.js";
import { Configuration } from "../screens/config.js";
import { Keys } from "../screens/keys.js";
import { Losses } from "../screens/losses.js";
import { McpServers } from "../screens/mcp.js";
import { Overview } from "../screens/overview.js";
import { People } from "../screens/people.js";
import { RequestDetail } from "../screens/request_detail.js";
import { Requests } from "../screens/requests.js";
import { Routes } from "../screens/routes.js";
import { Usage } from "../screens/usage.js";
import { Workbench } from "../screens/workbench.js";

/**
 * @typedef {object} Screen
 * @property {string} title
 * @property {string} [shortTitle] where there is little space
 * @property {string} shortcut the letter that leads to it after `g`
 * @property {(segments: string[]) => unknown} render of the rest of the path
 */

/** @type {Record<string, Screen>} */
export const SCREENS = {
  overview: { title: "Overview", shortcut: "o", render: () => html`<${Overview} />` },
  requests: {
    title: "Requests",
    shortcut: "r",
    render: ([id]) => (id ? html`<${RequestDetail} id=${id} />` : html`<${Requests} />`),
  },
  usage: {
    title: "Usage and cost",
    shortTitle: "Usage",
    shortcut: "u",
    render: () => html`<${Usage} />`,
  },
  losses: { title: "Losses", shortcut: "l", render: () => html`<${Losses} />` },
  accounts: {
    title: "Accounts",
    shortcut: "a",
    render: ([name]) => html`<${Accounts} name=${name} />`,
  },
  keys: {
    title: "Keys and teams",
    shortTitle: "Keys",
    shortcut: "k",
    render: ([kind, name]) => html`<${Keys} kind=${kind} name=${name} />`,
  },
  people: {
    title: "People",
    shortcut: "p",
    render: ([name]) => html`<${People} name=${name} />`,
  },
  routes: {
    title: "Models and routes",
    shortTitle: "Routes",
    shortcut: "m",
    render: () => html`<${Routes} />`,
  },
  mcp: {
    title: "MCP servers",
    shortTitle: "MCP",
    shortcut: "t",
    render: () => html`<${McpServers} />`,
  },
  workbench: { title: "Workbench", shortcut: "w", render: () => html`<${Workbench} />` },
  clients: {
    title: "Clients",
    shortcut: "c",
    render: ([name]) => html`<${Clients} name=${name} />`,
  },
  config: {
    title: "Configuration",
    shortcut: "f",
    render: ([tab]) => html`<${Configuration} tab=${tab} />`,
  },
};

/**
 * The screen of a path, and the rest of the path.
 * @param {string} path
 */
export function screenAt(path) {
  const [, , name, ...segments] = path.split("/");
  if (!(name in SCREENS)) return { name: "overview", segments: [] };
  return { name, segments: segments.map(decodeURIComponent) };
}
