// A request as lines of JSON, each known by its path: what a ledger names is found on one.
import { html } from "./kit.js";

const WIDE = 46, FOLD = 200;
const NAME = /^[A-Za-z_$][\w$-]*$/;
const below = (path, key) => (typeof key === "number" ? `${path}[${key}]` : NAME.test(key) ? (path ? path + "." : "") + key : `${path}[${JSON.stringify(key)}]`);
const fold = (_, value) => (typeof value === "string" && value.length > FOLD ? value.slice(0, FOLD) + "…" : value);
const inline = (value) => (value && typeof value === "object" ? (Array.isArray(value) ? "[" + value.map(inline).join(", ") + "]" : "{" + Object.entries(value).map(([key, one]) => JSON.stringify(key) + ": " + inline(one)).join(", ") + "}") : JSON.stringify(fold("", value)));

// `paths` are those that need a line of their own.
export function linesOf(value, paths = []) {
  const lines = [];
  const parted = (path) => paths.some((one) => one.length > path.length && one.startsWith(path) && (!path || ".[".includes(one[path.length])));
  const write = (one, path, deep, lead, tail) => {
    const whole = inline(one), space = "  ".repeat(deep), nested = one && typeof one === "object" && Object.keys(one).length > 0;
    if (!nested || (deep && !parted(path) && space.length + lead.length + whole.length < WIDE)) { lines.push({ path, text: space + lead + whole + tail }); return; }
    const list = Array.isArray(one), entries = list ? one.map((item, i) => [i, item]) : Object.entries(one);
    lines.push({ path, text: space + lead + (list ? "[" : "{") });
    entries.forEach(([key, item], i) => write(item, below(path, key), deep + 1, list ? "" : JSON.stringify(key) + ": ", i < entries.length - 1 ? "," : ""));
    lines.push({ path: null, text: space + (list ? "]" : "}") + tail });
  };
  write(value, "", 0, "", "");
  return lines;
}

// Where a path of the ledger is: its own line, or that of what it would be in.
export function lineOf(lines, path) {
  for (let at = path; ; at = at.replace(/(\.[^.[\]]*|\[[^[\]]*\]|^[^.[\]]+)$/, "")) {
    const found = lines.findIndex((line) => line.path === at);
    if (found >= 0 || !at) return Math.max(0, found);
  }
}

export function coloured(text) {
  const out = [], re = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?[\d][-+.\deE]*|true|false|null)|([{}[\],:…]+)/g;
  let last = 0, found;
  while ((found = re.exec(text))) {
    out.push(text.slice(last, found.index));
    last = re.lastIndex;
    const [, word, colon, number, mark] = found;
    out.push(html`<span class=${word ? (colon ? "k" : "s") : number ? "n" : "p"}>${word || number || mark}</span>`);
    if (colon) out.push(html`<span class="p">${colon}</span>`);
  }
  out.push(text.slice(last));
  return out;
}
