/** The MCP servers that agents reach through the gateway. */
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { count, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { formatTime, unixTime } from "../lib/time.js";
import { Empty, ErrorBanner, Panel, ScreenHead } from "../components/layout.js";
import { numberColumn, Table, textColumn } from "../components/table.js";

const POLL_MS = 5_000;

export function McpServers() {
  const { data, error } = useFetched(
    () => /** @type {Promise<{ servers: Api.McpServer[] }>} */ (get("mcp")),
    [],
    { every: POLL_MS },
  );
  if (!data) return html`<${ErrorBanner} text=${error} /><${Empty}>${error ? "" : "Loading…"}<//>`;
  const { servers } = data;
  return html`
    <${ScreenHead} title="MCP servers" note=${count(servers.length)} noteClass="num" />
    <${ErrorBanner} text=${error} />
    <${Panel} title="Servers" note="calls and errors of the last 24 hours" class="gap-below">
      <${Table} label="Servers" class="list-table stacks" columns=${COLUMNS} rows=${servers}
        keyOf=${(/** @type {Api.McpServer} */ server) => server.name} />
      ${!servers.length && html`<${Empty}>The configuration has no [[mcp_servers]].<//>`}
    <//>
  `;
}

/** @param {string[]} tools patterns */
const listed = (tools) => tools.join(", ") || "none";

/** @param {Api.McpServer} server */
const toolsOf = ({ tools, teams }) =>
  [
    tools ? listed(tools) : "all",
    ...Object.entries(teams).map(([team, own]) => team + ": " + listed(own)),
  ].join("; ");

/** @type {import("../components/table.js").Column<Api.McpServer>[]} */
const COLUMNS = [
  {
    head: "Server",
    title: ({ name }) => printable(name),
    cell: ({ name }) => html`<span class="strong ink">${printable(name)}</span>`,
  },
  textColumn("Host", ({ host }) => host),
  textColumn("Authorised by", ({ authorised_by }) => authorised_by),
  textColumn("Tools", toolsOf),
  numberColumn("Calls", ({ calls }) => count(calls), { width: "width-status" }),
  numberColumn("Errors", ({ errors }) => count(errors), { width: "width-status" }),
  textColumn("Last error", ({ last_error, last_failed }) =>
    last_error ? last_failed + ": " + last_error : "",
  ),
  {
    head: "Failed",
    class: "num",
    cell: ({ failed_at }) => (failed_at ? formatTime(Number(unixTime(failed_at))) : ""),
  },
];
