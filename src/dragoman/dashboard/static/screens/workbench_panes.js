/** A request in each protocol beside each other, its lines marked where something is lost. */
import { classes, html } from "../lib/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { plural, printable } from "../lib/format.js";
import { coloured, jsonLines, lineIndex } from "../lib/json_lines.js";
import { CopyButton } from "../components/controls.js";
import { Empty, ScrollRegion } from "../components/layout.js";
import { LOSS_KINDS, Protocol, protocolName } from "../components/protocols.js";

/**
 * @typedef {object} Line
 * @property {string} text
 * @property {Api.Loss[]} losses
 *
 * @typedef {object} Pane
 * @property {string} protocol
 * @property {string} note
 * @property {string | null} text JSON to copy, null if there is no such request
 * @property {Line[] | null} lines
 */

const KINDS = Object.keys(LOSS_KINDS); // the worst first

/**
 * The lines of a request, each with what it loses.
 * @param {unknown} value
 * @param {Api.Loss[]} losses
 * @returns {Line[]}
 */
function markedLines(value, losses) {
  const paths = losses.map((loss) => loss.path);
  const lines = jsonLines(value, paths);
  const indices = paths.map((path) => lineIndex(lines, path));
  return lines.map(({ text }, index) => ({
    text,
    losses: losses.filter((_, at) => indices[at] === index),
  }));
}

/** @param {number} number */
function lossesText(number) {
  return number ? plural(number, "loss", "losses") : "nothing is lost";
}

/**
 * The client's request, then its translations.
 * @param {string} source the protocol of the client
 * @param {string} body
 * @param {unknown} value of `body`, null if it is not JSON
 * @param {Api.Translation | null} translation
 * @returns {Pane[]}
 */
export function panesOf(source, body, value, translation) {
  const targets = translation ? translation.targets : [];
  const losses = targets.flatMap((target) => target.losses);
  const own = {
    protocol: source,
    note: "as the client sends it",
    text: body,
    lines: value == null ? null : markedLines(value, losses),
  };
  const others = targets.map((target) => {
    const isSpoken = translation?.speaks === target.protocol;
    const to = isSpoken ? `to ${printable(translation?.upstream)}, ` : "";
    return {
      protocol: target.protocol,
      note: to + lossesText(target.losses.length),
      text: target.body,
      lines: target.body ? markedLines(JSON.parse(target.body), []) : null,
    };
  });
  return [own, ...others];
}

/**
 * The paths of the lines of the client's request that lose something, in their order.
 * @param {Pane[]} panes
 */
export const lossPaths = ([source]) =>
  (source.lines || []).flatMap(({ losses }) => (losses.length ? [losses[0].path] : []));

/**
 * @param {{ panes: Pane[], lit: { path: string, scrolls: boolean }, onLight: (path: string) => void
 *   }} props `lit` is the path whose lines are lit in all panes
 */
export function Panes({ panes, lit, onLight }) {
  const [tab, setTab] = useState(0); // that a narrow page shows
  const shown = Math.min(tab, panes.length - 1);
  return html`
    <div class="panes">
      <div class="pane-tabs only-phone" role="tablist" aria-label="Protocols">
        ${panes.map(
          ({ protocol }, index) => html`
            <button role="tab" aria-selected=${String(index === tab)}
              onClick=${() => setTab(index)}>
              ${protocolName(protocol)}
            </button>
          `,
        )}
      </div>
      ${panes.map(
        (pane, index) => html`
          <${PaneView} key=${pane.protocol} pane=${pane} litPath=${lit.path}
            scrolls=${lit.scrolls && index === 0} onLight=${onLight} isShown=${index === shown} />
        `,
      )}
    </div>
  `;
}

/**
 * @param {{ pane: Pane, litPath: string, scrolls: boolean, onLight: (path: string) => void,
 *   isShown: boolean }} props
 */
function PaneView({ pane: { protocol, note, text, lines }, litPath, scrolls, onLight, isShown }) {
  const name = protocolName(protocol);
  const section = useRef(/** @type {any} */ (null));
  useEffect(() => {
    if (scrolls) section.current.querySelector("li.lit")?.scrollIntoView({ block: "nearest" });
  }, [scrolls, litPath]);
  return html`
    <section class=${isShown ? "" : "not-phone"} ref=${section}>
      <header>
        <${Protocol} id=${protocol} />
        <span class="faint small ellipsis">${note}</span>
        ${text && html`<${CopyButton} text=${text} label=${`Copy the request of ${name}`} />`}
      </header>
      ${
        lines
          ? html`
            <${ScrollRegion} label=${name + " request"} class="code">
              <ol>
                ${lines.map(
                  (line) =>
                    html`<${LineView} line=${line} litPath=${litPath} onLight=${onLight} />`,
                )}
              </ol>
            <//>
          `
          : html`<${Empty}>There is no such request: see below.<//>`
      }
    </section>
  `;
}

/** @param {{ line: Line, litPath: string, onLight: (path: string) => void }} props */
function LineView({ line: { text, losses }, litPath, onLight }) {
  const kind = KINDS.find((one) => losses.some((loss) => loss.kind === one));
  const path = losses[0]?.path;
  const isLit = litPath && losses.some((loss) => loss.path === litPath);
  const titles = new Set(
    losses.map((loss) => `${printable(loss.path)}: ${printable(loss.detail)}`),
  );
  return html`
    <li class=${classes(kind && "lost-" + kind, isLit && "lit")} data-path=${path || null}
      title=${[...titles].join("\n") || null} onMouseEnter=${path ? () => onLight(path) : null}>
      <i>${kind ? LOSS_KINDS[kind].letter : ""}</i>
      <code>${coloured(text)}</code>
    </li>
  `;
}
