/** The table of all accounts, of which only the rows in view are in the document. */
import { html } from "../lib/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { encoded, isAdmin } from "../lib/api.js";
import { count, countdown, printable } from "../lib/format.js";
import { formatTime, now } from "../lib/time.js";
import { elapsedShare, Meter } from "../components/gauge.js";
import { ACCOUNT_STATES, Glyph, StatusLabel } from "../components/status.js";
import { cells, HeadRow, numberColumn, textColumn } from "../components/table.js";
import { costText } from "./rates.js";

/** @import { AccountRow } from "./accounts.js" */

const ROW_HEIGHT = 32;
const PHONE_ROW_HEIGHT = 62;
const ROWS_BEYOND = 8; // drawn above and below those in view
const PAGE_ROWS = 15;
const MANY_ERRORS = 25;

/**
 * Until when an account is out, as a countdown.
 * @param {AccountRow} row
 */
const backIn = ({ backAt }) => (backAt && backAt > now.value ? countdown(backAt - now.value) : "");

/**
 * A quota window as a meter.
 * @param {{ quota: Api.QuotaWindow, width: number }} props
 */
export const WindowMeter = ({ quota, width }) => html`
  <${Meter} used=${quota.used} elapsed=${elapsedShare(quota.resets_at, quota.seconds)}
    title=${windowTitle(quota)} width=${width} />
`;

/** @param {Api.QuotaWindow} quota */
function windowTitle({ used, resets_at, told_at }) {
  if (used == null) return "the window has ended since the upstream reported it";
  const resets = resets_at ? `; resets ${formatTime(resets_at)}` : "";
  return `${Math.round(used * 100)} % used${resets}; reported ${formatTime(told_at)}`;
}

/**
 * Which rows are in view of a list that scrolls, and which of them has the focus.
 * @param {number} total
 * @param {number} rowHeight
 */
function useVirtualRows(total, rowHeight) {
  const box = useRef(/** @type {any} */ (null));
  const focusNext = useRef(/** @type {number | null} */ (null));
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(800);
  const [width, setWidth] = useState(0);
  const [current, setCurrent] = useState(0);

  useEffect(() => {
    // When the screen is left, the observer may still be called once without a `box.current`.
    const element = box.current;
    const observer = new ResizeObserver(() => {
      setHeight(element.clientHeight);
      setWidth(element.clientWidth);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  // The row that is to have the focus may only be there once it has been drawn.
  useEffect(() => {
    if (focusNext.current === null) return;
    const link = box.current.querySelector(`[data-at="${focusNext.current}"]`);
    if (!link) return;
    focusNext.current = null;
    link.focus({ preventScroll: true });
  });

  const moveTo = (index) => {
    const next = Math.max(0, Math.min(total - 1, index));
    const { scrollTop, clientHeight } = box.current;
    const bottom = (next + 2) * rowHeight; // the head covers a row
    if (next * rowHeight < scrollTop) box.current.scrollTop = next * rowHeight;
    else if (bottom > scrollTop + clientHeight) box.current.scrollTop = bottom - clientHeight;
    setCurrent(next);
    setTop(box.current.scrollTop);
    focusNext.current = next;
  };
  return {
    box,
    width,
    first: Math.max(0, Math.floor(top / rowHeight) - ROWS_BEYOND),
    last: Math.min(total, Math.ceil((top + height) / rowHeight) + ROWS_BEYOND),
    current,
    setCurrent,
    moveTo,
    onScroll: () => setTop(box.current.scrollTop),
  };
}

/**
 * @param {{ rows: AccountRow[], windows: string[], open?: string, selected: Set<string>,
 *   onToggle: (name: string) => void, onToggleAll: () => void }} props
 */
export function AccountTable({ rows, windows, open, selected, onToggle, onToggleAll }) {
  const isPhone = matchMedia("(max-width:720px)").matches;
  const rowHeight = isPhone ? PHONE_ROW_HEIGHT : ROW_HEIGHT;
  const view = useVirtualRows(rows.length, rowHeight);
  const { first, last, current } = view;
  const rangeStart = useRef(0);

  const selectRange = () => {
    const [from, to] = [rangeStart.current, current].sort((a, b) => a - b);
    for (const { name } of rows.slice(from, to + 1)) if (!selected.has(name)) onToggle(name);
  };
  const onKeyDown = (event) => {
    if (event.target.tagName === "INPUT") return;
    const step = stepOf(event.key, rows.length);
    if (step) {
      event.preventDefault();
      view.moveTo(current + step);
    } else if (event.key === "x" && rows[current] && isAdmin()) {
      onToggle(rows[current].name);
      rangeStart.current = current;
    } else if (event.key === "X" && isAdmin()) {
      selectRange();
    }
  };

  const spaces = {
    above: first * rowHeight + "px",
    below: (rows.length - last) * rowHeight + "px",
  };
  const visible = rows.slice(first, last);
  return html`
    <div class="scroll" ref=${view.box} onScroll=${view.onScroll} onKeyDown=${onKeyDown}
      role="region" aria-label="Accounts" tabindex="-1">
      ${
        isPhone
          ? html`<${PhoneRows} rows=${visible} spaces=${spaces} />`
          : html`
            <${WideTable}
              total=${rows.length}
              first=${first}
              rows=${visible}
              spaces=${spaces}
              columns=${[
                ...(isAdmin() ? [selectColumn(rows.length, selected, onToggle, onToggleAll)] : []),
                nameColumn(first, view.setCurrent),
                ...fitting(windows, view.width),
              ]}
              open=${open}
            />
          `
      }
    </div>
  `;
}

/**
 * By how many rows a key moves.
 * @param {string} key
 * @param {number} total
 */
function stepOf(key, total) {
  switch (key) {
    case "ArrowDown":
    case "j":
      return 1;
    case "ArrowUp":
    case "k":
      return -1;
    case "PageDown":
      return PAGE_ROWS;
    case "PageUp":
      return -PAGE_ROWS;
    case "Home":
      return -total;
    case "End":
      return total;
    default:
      return 0;
  }
}

/** @param {AccountRow} row */
const linkTo = (row) => "/ui/accounts/" + encoded(row.name) + location.search;

/** @typedef {import("../components/table.js").Column<AccountRow>} Column */

/** What the columns without a rank take, each quota window, and each column with a rank. */
const BASE_WIDTH = 600;
const WINDOW_WIDTH = 88;
const RANKED_WIDTH = 88;

/**
 * The columns that fit into a width.
 * @param {string[]} windows
 * @param {number} width
 */
function fitting(windows, width) {
  const left = width - BASE_WIDTH - WINDOW_WIDTH * windows.length;
  const columns = [...COLUMNS, ...windows.map(windowColumn), ...COUNT_COLUMNS];
  return columns.filter(({ rank = 0 }) => rank <= Math.max(0, left / RANKED_WIDTH));
}

/**
 * @param {number} total
 * @param {Set<string>} selected
 * @param {(name: string) => void} onToggle
 * @param {() => void} onToggleAll
 * @returns {Column}
 */
const selectColumn = (total, selected, onToggle, onToggleAll) => ({
  head: html`
    <input type="checkbox" aria-label="Select all that the filter shows"
      checked=${selected.size > 0 && selected.size === total} onChange=${onToggleAll} />
  `,
  width: "width-select",
  cell: ({ name }) => html`
    <input type="checkbox" aria-label=${"Select " + printable(name)} checked=${selected.has(name)}
      onChange=${() => onToggle(name)} />
  `,
});

/**
 * @param {number} first
 * @param {(index: number) => void} onFocus
 * @returns {Column}
 */
const nameColumn = (first, onFocus) => ({
  head: "Account",
  width: "width-name",
  title: (row) => printable(row.name),
  cell: (row, index) => html`
    <a class="strong ink" data-at=${first + index} href=${linkTo(row)}
      onFocus=${() => onFocus(first + index)}>
      ${printable(row.name)}
    </a>
  `,
});

/** @type {Column[]} */
const COLUMNS = [
  {
    head: "State",
    width: "width-state",
    cell: (row) => html`<${StatusLabel} status=${ACCOUNT_STATES[row.state]} />`,
  },
  textColumn("Upstream", ({ upstream }) => upstream, { width: "width-upstream", rank: 1 }),
  textColumn("Why", ({ why }) => why, { class: "muted" }),
  numberColumn("Back in", backIn, { width: "width-back" }),
];

/**
 * @param {string} name
 * @returns {Column}
 */
const windowColumn = (name) => ({
  head: printable(name),
  width: "width-meter",
  cell: ({ windows }) =>
    windows[name] && html`<${WindowMeter} quota=${windows[name]} width=${34} />`,
});

const zero = html`<span class="faint">0</span>`;

const LAST_DAY = "In the last 24 hours";

/** @type {Column[]} */
const COUNT_COLUMNS = [
  numberColumn("In flight", ({ inFlight }) => (inFlight ? count(inFlight) : zero), {
    width: "width-errors",
    rank: 4,
  }),
  numberColumn("Requests", ({ requests }) => (requests ? count(requests) : zero), {
    headTitle: LAST_DAY,
    width: "width-number",
  }),
  numberColumn("Errors", ({ errors }) => (errors ? count(errors) : zero), {
    headTitle: LAST_DAY,
    width: "width-errors",
    class: ({ errors }) => "num " + (errors > MANY_ERRORS ? "strong" : "muted"),
  }),
  textColumn("Last error", ({ lastError }) => lastError || "", {
    class: "muted",
    title: ({ lastError, failedAt }) =>
      lastError ? `${printable(lastError)}, ${formatTime(Number(failedAt))}` : "",
    width: "width-upstream",
    rank: 2,
  }),
  numberColumn("Cost", costText, {
    headTitle: LAST_DAY + ", at list price",
    width: "width-number",
    rank: 3,
  }),
  numberColumn("Last used", ({ lastUsed }) => (lastUsed ? ago(lastUsed) : ""), {
    width: "width-back",
    class: "num muted",
    title: ({ lastUsed }) => (lastUsed ? formatTime(lastUsed) : ""),
    rank: 5,
  }),
];

/**
 * How long ago something was.
 * @param {number} at
 */
const ago = (at) => countdown(Math.max(1, now.value - at)) + " ago";

/**
 * @param {{ total: number, first: number, rows: AccountRow[], open?: string, columns: Column[],
 *   spaces: { above: string, below: string } }} props
 */
function WideTable({ total, first, rows, columns, open, spaces }) {
  const space = (height) => html`
    <tr class="gap" aria-hidden="true"><td colspan=${columns.length} style=${{ height }}></td></tr>
  `;
  return html`
    <table class="accounts-table" aria-rowcount=${total + 1}>
      <thead><${HeadRow} columns=${columns} /></thead>
      <tbody>
        ${space(spaces.above)}
        ${rows.map(
          (row, index) => html`
            <tr key=${row.name} aria-rowindex=${first + index + 2}
              aria-selected=${String(row.name === open)}>
              ${cells(columns, row, index)}
            </tr>
          `,
        )}
        ${space(spaces.below)}
      </tbody>
    </table>
  `;
}

/** @param {{ rows: AccountRow[], spaces: { above: string, below: string } }} props */
function PhoneRows({ rows, spaces }) {
  const space = (height) => html`<li class="gap" style=${{ height }} aria-hidden="true"></li>`;
  return html`
    <ul class="accounts-list" aria-label="Accounts">
      ${space(spaces.above)}
      ${rows.map((row) => {
        const { shape, tone, label } = ACCOUNT_STATES[row.state];
        const back = backIn(row);
        return html`
          <li key=${row.name}>
            <${Glyph} shape=${shape} size=${12} />
            <span class="ellipsis">
              <a class="strong ink" href=${linkTo(row)}>${printable(row.name)}</a>
              ${" "}
              <span class="faint">${printable(row.upstream)}</span>
            </span>
            <span class="num muted small">
              ${back ? `back in ${back}` : `${count(row.requests)} req.`}
            </span>
            <span class=${"why-short small ellipsis state " + tone}>
              ${row.why ? printable(row.why) : label}
            </span>
          </li>
        `;
      })}
      ${space(spaces.below)}
    </ul>
  `;
}
