/** JSON as lines, each with its path, so that what a ledger names is found on one. */
import { html } from "./html.js";

/**
 * @typedef {object} JsonLine
 * @property {string | null} path that of the value, null for a line that closes one
 * @property {string} text
 */

const MOST_WIDTH = 46;
const MOST_STRING = 200;
const INDENT = "  ";
const IDENTIFIER = /^[A-Za-z_$][\w$-]*$/;
/** The last step of a path, such as `.name`, `[0]` or `name`. */
const LAST_STEP = /(\.[^.[\]]*|\[[^[\]]*\]|^[^.[\]]+)$/;

/**
 * @param {string} path
 * @param {string | number} key
 */
function childPath(path, key) {
  if (typeof key === "number") return `${path}[${key}]`;
  if (!IDENTIFIER.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path ? `${path}.${key}` : key;
}

/**
 * A value on one line, long strings cut.
 * @param {unknown} value
 * @returns {string}
 */
function inline(value) {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (value && typeof value === "object") {
    const fields = Object.entries(value).map(
      ([key, one]) => `${JSON.stringify(key)}: ${inline(one)}`,
    );
    return `{${fields.join(", ")}}`;
  }
  if (typeof value === "string" && value.length > MOST_STRING) {
    return JSON.stringify(value.slice(0, MOST_STRING) + "…");
  }
  return JSON.stringify(value);
}

/**
 * The lines of a value: short parts stand on one line each.
 * @param {unknown} root
 * @param {string[]} [paths] those that need a line of their own
 * @returns {JsonLine[]}
 */
export function jsonLines(root, paths = []) {
  /** @type {JsonLine[]} */
  const lines = [];
  const holdsPath = (path) =>
    paths.some((one) => {
      const isBelow = one.length > path.length && one.startsWith(path);
      return isBelow && (!path || ".[".includes(one[path.length]));
    });
  const write = (value, path, depth, lead, tail) => {
    const indent = INDENT.repeat(depth);
    const whole = inline(value);
    const hasChildren = value && typeof value === "object" && Object.keys(value).length > 0;
    const isShort = indent.length + lead.length + whole.length < MOST_WIDTH;
    if (!hasChildren || (depth && !holdsPath(path) && isShort)) {
      lines.push({ path, text: indent + lead + whole + tail });
      return;
    }
    const isList = Array.isArray(value);
    lines.push({ path, text: indent + lead + (isList ? "[" : "{") });
    /** @type {[string | number, unknown][]} */
    const children = isList ? [...value.entries()] : Object.entries(value);
    children.forEach(([key, child], index) => {
      const childLead = isList ? "" : JSON.stringify(key) + ": ";
      const childTail = index < children.length - 1 ? "," : "";
      write(child, childPath(path, key), depth + 1, childLead, childTail);
    });
    lines.push({ path: null, text: indent + (isList ? "]" : "}") + tail });
  };
  write(root, "", 0, "", "");
  return lines;
}

/**
 * The index of the line where a path is: its own, or that of what it would be in.
 * @param {JsonLine[]} lines
 * @param {string} path
 */
export function lineIndex(lines, path) {
  for (let at = path; at; at = at.replace(LAST_STEP, "")) {
    const found = lines.findIndex((line) => line.path === at);
    if (found >= 0) return found;
  }
  return 0;
}

/** Tokens of JSON: a string and its colon, a number or a word, marks. */
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?[\d][-+.\deE]*|true|false|null)|([{}[\],:…]+)/g;

/**
 * A line of JSON with its tokens coloured.
 * @param {string} text
 */
export function coloured(text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [token, string, colon, number, marks] = match;
    parts.push(text.slice(last, match.index));
    last = match.index + token.length;
    const add = (kind, part) => part && parts.push(html`<span class=${kind}>${part}</span>`);
    add(colon ? "json-key" : "json-string", string);
    add("json-mark", colon);
    add("json-number", number);
    add("json-mark", marks);
  }
  return [...parts, text.slice(last)];
}
