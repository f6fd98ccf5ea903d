/** Keys and teams: who may call, how much is left, and until when. */
import { html } from "../lib/html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { encoded, get, isAdmin, ownerPath } from "../lib/api.js";
import { count, plural, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { queryValue, withQuery } from "../lib/navigation.js";
import { SearchField } from "../components/controls.js";
import { Empty, ErrorBanner, Panel, ScreenHead } from "../components/layout.js";
import { keyStatus, StatusLabel } from "../components/status.js";
import { Table } from "../components/table.js";
import {
  CreateDialog,
  GrantDialog,
  LimitDialog,
  RotateDialog,
  SecretDialog,
} from "./key_dialogs.js";
import { KeyDetail } from "./key_detail.js";
import { LIMIT_COLUMNS } from "./limits.js";

const POLL_MS = 5_000;
const SEARCH_MS = 250;
const PAGE_ROWS = 100;

/** @typedef {import("../components/table.js").Column<Api.Owner>} Column */

/**
 * A key or a team, which need not be on the page of the list; null if there is none.
 * @param {Api.OwnerKind} kind
 * @param {string} name
 * @returns {Promise<Api.Owner | null>}
 */
async function readOwner(kind, name) {
  const path = ownerPath(kind, name);
  try {
    const [owner, { limits }] = await Promise.all([get(path), get(path + "/limits")]);
    if (kind === "key" && owner.origin !== "store") owner.used = await lastRequest(name);
    return { ...owner, limits, kind };
  } catch (refusal) {
    if (refusal.status === 404) return null;
    throw refusal;
  }
}

/**
 * When a key was used last, as far as the log of requests reaches; null if it does not.
 * @param {string} name
 */
async function lastRequest(name) {
  const query = withQuery("requests", { key: name, limit: 1, from: 0 });
  const { rows } = await get(query).catch(() => ({ rows: [] }));
  return rows.length ? new Date(rows[0].at * 1000).toISOString() : null;
}

/**
 * A page of the keys, all teams, and what is open.
 * @param {string} search
 * @param {string} after
 * @param {Api.OwnerKind | undefined} kind
 * @param {string | undefined} name
 */
const readAll = (search, after, kind, name) =>
  Promise.all([
    get(withQuery("keys", { state: true, limit: PAGE_ROWS, after, q: search })),
    get("teams?state=true"),
    kind && name ? readOwner(kind, name) : null,
  ]);

/** @param {{ kind?: Api.OwnerKind, name?: string }} props what is open */
export function Keys({ kind, name }) {
  const [filter, setFilter] = useState(queryValue("q"));
  const [search, setSearch] = useState(filter.trim());
  const [pages, setPages] = useState([""]); // where each page begins that was turned to
  const [dialog, setDialog] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const start = () => {
      if (filter.trim() === search) return;
      setSearch(filter.trim());
      setPages([""]);
    };
    const timer = setTimeout(start, SEARCH_MS);
    return () => clearTimeout(timer);
  }, [filter]);
  const { data, error, reload } = useFetched(
    () => readAll(search, pages.at(-1) || "", kind, name),
    [search, pages, kind, name],
    { every: POLL_MS },
  );
  const [keys, teams, found] = data ? [data[0], data[1].teams, data[2]] : [null, [], null];
  const owner = found && found.kind === kind && found.name === name ? found : null;

  return html`
    <${Head} total=${keys && keys.total} onDialog=${setDialog} />
    <${ErrorBanner} text=${error} />
    <div class="filters">
      <${SearchField} label="Filter keys" hint="name or team" value=${filter} onInput=${setFilter}
        isWide=${false} />
    </div>
    ${
      keys
        ? html`
          <div class=${owner ? "split" : ""}>
            <div>
              <${KeysPanel} page=${keys} open=${kind === "key" && name}
                isFiltered=${Boolean(search)} pages=${pages} onPages=${setPages} />
              ${
                teams.length > 0 &&
                html`<${TeamsPanel} teams=${teams} open=${kind === "team" && name} />`
              }
            </div>
            ${
              owner &&
              html`
                <${KeyDetail} key=${owner.kind + owner.name} owner=${owner} onDialog=${setDialog}
                  reload=${reload} />
              `
            }
          </div>
        `
        : html`<${Empty}>${error ? "" : "Loading…"}<//>`
    }
    <${Dialogs} dialog=${dialog} onDialog=${setDialog} teams=${teams} reload=${reload} />
  `;
}

/** @param {{ total: number | null, onDialog: (dialog: any) => void }} props */
function Head({ total, onDialog }) {
  const tools = html`
    <button class="btn" onClick=${() => onDialog({ create: "team" })}>Create a team…</button>
    <button class="btn primary" onClick=${() => onDialog({ create: "key" })}>Create a key…</button>
  `;
  return html`
    <${ScreenHead} title="Keys and teams" note=${total == null ? " " : count(total)} noteClass="num"
      tools=${isAdmin() && tools} />
  `;
}

/**
 * The columns of keys and of teams; `second` is the one that they do not share.
 * @param {Api.OwnerKind} kind
 * @param {Column} second
 * @returns {Column[]}
 */
const columnsOf = (kind, second) => [
  {
    head: kind === "key" ? "Key" : "Team",
    title: ({ name }) => printable(name),
    cell: ({ name }) => html`
      <a class="strong ink" href=${`/ui/keys/${kind}/${encoded(name)}`}>${printable(name)}</a>
    `,
  },
  second,
  {
    head: "State",
    width: "width-status",
    cell: ({ state }) => html`<${StatusLabel} status=${keyStatus(state)} />`,
  },
  ...LIMIT_COLUMNS,
];

const KEY_COLUMNS = columnsOf("key", {
  head: "Team",
  cell: ({ rules }) => printable(rules.team || ""),
});
const TEAM_COLUMNS = columnsOf("team", { head: "Keys", cell: ({ keys }) => plural(keys, "key") });

/**
 * @param {Column[]} columns
 * @param {string} label
 * @param {Api.Owner[]} rows
 * @param {string | false | undefined} open
 */
const ownersTable = (columns, label, rows, open) => html`
  <${Table} label=${label} class="list-table keys stacks" columns=${columns} rows=${rows}
    keyOf=${(owner) => owner.name}
    rowProps=${(owner) => ({ "aria-selected": String(owner.name === open) })} />
`;

/**
 * @param {{ page: { keys: Api.Owner[], total: number, next: string | null }, open: string | false,
 *   isFiltered: boolean, pages: string[], onPages: (pages: string[]) => void }} props
 */
function KeysPanel({ page: { keys, total, next }, open, isFiltered, pages, onPages }) {
  const first = PAGE_ROWS * (pages.length - 1);
  const none = isFiltered
    ? "No key fits the filter."
    : "There is no key yet: anybody who reaches the gateway may call it.";
  return html`
    <${Panel} title="Keys" note=${count(total)} class="gap-below">
      ${ownersTable(KEY_COLUMNS, "Keys", keys, open)}
      ${!keys.length && html`<${Empty}>${none}<//>`}
      ${
        (first > 0 || next) &&
        html`
          <div class="table-foot">
            <span class="num">${count(first + 1)} to ${count(first + keys.length)}</span>
            <span class="grow"></span>
            ${
              first > 0 &&
              html`
                <button class="btn quiet" onClick=${() => onPages(pages.slice(0, -1))}>
                  Previous keys
                </button>
              `
            }
            ${
              next &&
              html`
                <button class="btn quiet" onClick=${() => onPages([...pages, next])}>
                  Next keys
                </button>
              `
            }
          </div>
        `
      }
    <//>
  `;
}

/** @param {{ teams: Api.Owner[], open: string | false }} props */
const TeamsPanel = ({ teams, open }) => html`
  <${Panel} title="Teams" note=${count(teams.length)} class="gap-below">
    ${ownersTable(TEAM_COLUMNS, "Teams", teams, open)}
  <//>
`;

/**
 * The dialog that is open, if one is.
 * @param {{ dialog: any, onDialog: (dialog: any) => void, teams: Api.Owner[], reload: () => void
 *   }} props
 */
function Dialogs({ dialog, onDialog, teams, reload }) {
  if (!dialog) return null;
  const onClose = () => onDialog(null);
  const onDone = (result) => {
    onDialog(result?.secret ? { created: result } : null);
    reload();
  };
  const common = { onClose, onDone };
  if (dialog.create) {
    return html`<${CreateDialog} kind=${dialog.create} teams=${teams} ...${common} />`;
  }
  if (dialog.created) return html`<${SecretDialog} created=${dialog.created} onClose=${onClose} />`;
  if (dialog.rotate) return html`<${RotateDialog} name=${dialog.rotate} ...${common} />`;
  if (dialog.grant) {
    return html`<${GrantDialog} path=${dialog.grant} one=${dialog.one} ...${common} />`;
  }
  return html`<${LimitDialog} path=${dialog.limit} one=${dialog.one} ...${common} />`;
}
