/** Tables, described by their columns. */
import { classes, html } from "../lib/html.js";
import { printable } from "../lib/format.js";
import { ScrollRegion } from "./layout.js";

/**
 * @template Row
 * @typedef {object} Column
 * @property {unknown} head
 * @property {(row: Row, index: number) => unknown} cell
 * @property {"right"} [align]
 * @property {string} [width] the class that sets its width
 * @property {string} [headTitle]
 * @property {string | ((row: Row) => string)} [class] of its cells
 * @property {(row: Row) => string} [title] of its cells
 * @property {number} [rank] of a column that is left out where it does not fit
 */

/**
 * A column of text from outside: what does not fit is its tooltip.
 * @template Row
 * @param {unknown} head
 * @param {(row: Row) => unknown} text
 * @param {Partial<Column<Row>>} [more]
 * @returns {Column<Row>}
 */
export function textColumn(head, text, more) {
  const cell = (row) => printable(text(row));
  return { head, cell, title: cell, ...more };
}

/**
 * A column of numbers.
 * @template Row
 * @param {unknown} head
 * @param {(row: Row, index: number) => unknown} cell
 * @param {Partial<Column<Row>>} [more]
 * @returns {Column<Row>}
 */
export const numberColumn = (head, cell, more) => ({
  head,
  cell,
  align: "right",
  class: "num",
  ...more,
});

/**
 * @template Row
 * @param {{ columns: Column<Row>[] }} props
 */
export const HeadRow = ({ columns }) => html`
  <tr>
    ${columns.map(
      ({ head, align, width, headTitle }) => html`
        <th class=${classes(align, width)} title=${headTitle}>${head}</th>
      `,
    )}
  </tr>
`;

/**
 * The cells of a row.
 * @template Row
 * @param {Column<Row>[]} columns
 * @param {Row} row
 * @param {number} index
 */
export const cells = (columns, row, index) =>
  columns.map(({ head, cell, align, class: kind, title }) => {
    const own = typeof kind === "function" ? kind(row) : kind;
    return html`
      <td class=${classes(align, own)} title=${title?.(row)}
        data-head=${typeof head === "string" ? head : null}>
        ${cell(row, index)}
      </td>
    `;
  });

/**
 * A table that scrolls sideways where it does not fit.
 * @template Row
 * @param {{ label: string, columns: Column<Row>[], rows: readonly Row[], class?: string,
 *   keyOf?: (row: Row, index: number) => unknown, rowProps?: (row: Row,
 *   index: number) => Record<string, unknown>, regionClass?: string, total?: Row }} props
 */
export const Table = ({
  label,
  columns,
  rows,
  class: kind,
  keyOf,
  rowProps,
  regionClass,
  total,
}) => html`
  <${ScrollRegion} label=${label} class=${regionClass}>
    <table class=${kind}>
      <thead><${HeadRow} columns=${columns} /></thead>
      <tbody>
        ${rows.map(
          (row, index) => html`
            <tr key=${keyOf ? keyOf(row, index) : index} ...${rowProps?.(row, index)}>
              ${cells(columns, row, index)}
            </tr>
          `,
        )}
      </tbody>
      ${total && html`<tfoot><tr>${cells(columns, total, -1)}</tr></tfoot>`}
    </table>
  <//>
`;
