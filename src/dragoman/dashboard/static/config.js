// Configuration: what runs, what a reload changes, prices, audit. The file is never written.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { html, told, count, clock, Dialog, banner, region } from "./kit.js";
import { Find } from "./icons.js";
import { Acts } from "./sending.js";
import { addressed, ask, encoded, isAdmin, useAddress } from "./api.js";

const TABS = { running: "Running", reload: "Reload", prices: "Prices", audit: "Audit" };
const TABLES = ["clients", "teams", "upstreams", "accounts", "routes", "prices"];
const PAGE = 100;

const text = (value) => told(value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value));
const names = (one) => one.names.map(told).join(", ") + (one.more ? ` and ${count(one.more)} more` : "");

export function Configuration({ tab }) {
  const shown = TABS[tab] ? tab : "running";
  return html`<div class="head"><h1>Configuration</h1><div class="tools"><nav class="row" aria-label="Parts">${Object.keys(TABS).map((name) => html`<a class=${"btn" + (name === shown ? "" : " quiet")} href=${"/ui/config/" + name} aria-current=${name === shown ? "page" : null}>${TABS[name]}</a>`)}</nav></div></div>
    <${PARTS[shown]} key=${shown}/>`;
}

function Running() {
  const [got, setGot] = useState(null), [health, setHealth] = useState(null), [all, setAll] = useState(false), [fault, setFault] = useState("");
  useEffect(() => { Promise.all([ask("GET", "config"), ask("GET", "health")]).then(([config, state]) => { setGot(config); setHealth(state); }, (refused) => setFault(refused.message)); }, []);
  if (!got) return html`<p class="empty" aria-busy="true">${fault || "Loading…"}</p>`;
  const sections = got.sections.map((one) => ({ ...one, settings: one.settings.filter((setting) => all || setting.is_set) })).filter((one) => one.settings.length);
  return html`<div class="filters"><span class="t2">Version ${health.version}, ${count(health.workers)} ${health.workers === 1 ? "worker" : "workers"}; in the file: ${Object.entries(got.counts).map(([name, number]) => count(number) + " " + (number === 1 ? name.slice(0, -1) : name)).join(", ")}</span><span class="grow"></span>
      <button class="btn" aria-pressed=${String(all)} onClick=${() => setAll(!all)}>${all ? "Only what is set" : "Show defaults"}</button></div>
    <div class="stack">${sections.map((one) => html`<${Settings} title=${one.name} settings=${one.settings}/>`)}
      ${got.upstreams.map((one) => html`<${Settings} title="upstreams" settings=${one.settings}/>`)}
      ${got.routes.map((one) => html`<${Settings} title="routes" settings=${one.settings}/>`)}</div>`;
}

// What the file says that is not served yet.
function Reload() {
  const [found, setFound] = useState(null), [fault, setFault] = useState(""), [asking, setAsking] = useState(false), [report, setReport] = useState(null);
  const look = () => ask("GET", "config/pending").then((got) => { setFound(got); setFault(""); }, (refused) => setFault(refused.message));
  useEffect(() => { look(); }, []);
  const reload = async () => {
    setAsking(false);
    try {
      setReport({ done: await ask("POST", "reload?digest=" + found.digest) });
    } catch (refused) {
      setReport({ refused: refused.message, problems: refused.error.problems || [] });
    }
    look();
  };
  const outcome = report && html`<${Report} ...${report}/>`;
  if (!found || fault) return html`${outcome}${banner(fault) || html`<p class="empty" aria-busy="true">Loading…</p>`}`;
  const lines = linesOf(found.changes || {}), problems = found.problems || [], warnings = found.warnings || [];
  const list = (texts) => html`<ul class="plain">${texts.map((text) => html`<li>${text}</li>`)}</ul>`;
  return html`${outcome}<div class="filters"><span class="t2">${problems.length ? "The file cannot be used" : `The file now: ${told(found.digest)}`}</span><span class="grow"></span><button class="btn" onClick=${look}>Look again</button>${isAdmin() && !problems.length && html`<button class="btn primary" onClick=${() => setAsking(true)}>Reload…</button>`}</div>
    <div class="stack">${problems.length ? html`<section class="panel"><header><h2>Problems</h2></header><div class="body mono">${list(problems.map(told))}</div></section>` : html`<section class="panel"><header><h2>What a reload would change</h2></header><div class="body">${list(lines.length ? lines : ["Nothing: what the file says is served."])}</div></section>`}
      ${!problems.length && html`<section class="panel"><header><h2>Warnings</h2></header><div class="body">${list(warnings.length ? warnings.map(told) : ["The file gives no cause for any."])}</div></section>`}</div>
    ${asking && html`<${Dialog} title="Reload the configuration" onClose=${() => setAsking(false)} onSubmit=${() => reload()}>
    ${list(lines.length ? lines : ["Nothing in the file is different."])}
      <p class="t2">All workers read the file anew; if it cannot be used nothing is changed. Requests in flight end on what they began with. To undo it, put the file back and reload.</p>
      <${Acts} word="Reload" onClose=${() => setAsking(false)}/></${Dialog}>`}`;
}

// One table of the file: a name is given by its own first setting.
function Settings({ title, settings }) {
  const named = settings.find((one) => one.key === "name" || one.key === "match");
  return html`<section class="panel conf"><header><h2>${title}${named && html` <span class="mono">${told(named.value)}</span>`}</h2></header><div class="body"><dl class="facts left">${settings.filter((one) => one !== named).map((one) => html`<dt class="mono">${one.key}</dt><dd><span class="mono">${text(one.value)}</span>${one.restart && html` <span class="t3 sm">a change needs a restart</span>`}</dd>`)}</dl></div></section>`;
}

// What is different, by names, never by values.
function linesOf(c) {
  const lines = TABLES.flatMap((table) => ["added", "removed", "changed"].filter((how) => c[table] && c[table][how] && c[table][how].names).map((how) => `${table} ${how}: ${names(c[table][how])}`));
  if (c.settings) lines.push("settings changed: " + c.settings.map(told).join(", "));
  if (c.restart) lines.push("needs a restart: " + c.restart.map(told).join(", "));
  return lines;
}

function Report({ done, refused, problems }) {
  if (refused) return html`<div class="banner" role="alert">${told(refused)}<ul>${problems.map((one) => html`<li class="mono">${told(one)}</li>`)}</ul></div>`;
  const lines = linesOf(done.changes || {});
  return html`<div class="banner quiet" role="status">Configuration ${done.configuration} is served, ${told(done.digest)}.<ul>${(lines.length ? lines : ["Nothing changed."]).map((one) => html`<li>${one}</li>`)}${(done.warnings || []).map((one) => html`<li class="state cool">${told(one)}</li>`)}</ul></div>`;
}

// What differs, field by field: `state: active → disabled`.
function differs({ before, after }) {
  const old = before || {}, made = after || {};
  return Object.keys({ ...old, ...made }).map((field) => told(field) + ": " + (field in old ? text(old[field]) + " → " : "") + (field in made ? text(made[field]) : "none")).join(", ");
}

function Audit() {
  const [rows, setRows] = useState(null), [next, setNext] = useState(null), [fault, setFault] = useState(""), [filter, setFilter] = useState(addressed("q"));
  useAddress({ q: filter });
  // `who:ann kind:key`; a word by itself is a name.
  const only = () => filter.split(/\s+/).filter(Boolean).map((part) => (part.includes(":") ? part.split(/:(.*)/) : ["name", part])).filter(([, value]) => value).map((pair) => "&" + pair.slice(0, 2).map(encoded).join("=")).join("");
  const load = (before) => ask("GET", `audit?limit=${PAGE}` + only() + (before ? "&before=" + before : "")).then((got) => { setRows((old) => (before ? [...old, ...got.changes] : got.changes)); setNext(got.next); setFault(""); }, (refused) => setFault(refused.message));
  useEffect(() => { const soon = setTimeout(load, 150); return () => clearTimeout(soon); }, [filter]);
  if (!rows) return html`<p class="empty" aria-busy=${fault ? null : "true"}>${fault || "Loading…"}</p>`;
  return html`<div class="filters"><${Find} label="Find in the audit" hint="name, or who: kind: action:" value=${filter} set=${setFilter}/></div>${banner(fault)}<div class="tablewrap"><div class="sideways" ...${region("Audit")}><table class="reqs audit"><colgroup><col class="w-at"/><col class="w-key"/><col class="w-key"/><col class="w-key"/><col class="w-from"/><col/><col class="w-from"/></colgroup>
    <thead><tr>${["Time", "Who", "Deed", "Kind", "Name", "Change", "From"].map((name) => html`<th>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((one) => html`<tr key=${one.id}><td class="num">${clock(one.at)}</td><td title=${told(one.who)}>${told(one.who)}</td><td>${told(one.action)}</td><td>${told(one.kind)}</td><td title=${told(one.name)}>${told(one.name)}</td><td class="mono" title=${differs(one)}>${differs(one)}</td><td title=${told(one.address)}>${told(one.origin + (one.address ? ", " + one.address : ""))}</td></tr>`)}</tbody></table></div>
    ${!rows.length && html`<p class="empty">No such change.</p>`}
    <div class="tfoot"><span class="num">${count(rows.length)} shown</span><span class="grow"></span><a download href=${"/admin/audit?format=csv" + only()}>CSV</a>${next && html`<button class="btn quiet" onClick=${() => load(next)}>Older</button>`}</div></div>`;
}

// What models cost: own prices first, then those of the table.
const RATES = ["input", "cached", "cache_write", "output"], RATE_HEADS = ["Input", "Cached", "Written to the cache", "Output"];
function Prices() {
  const [search, setSearch] = useState(addressed("q")), [got, setGot] = useState(null), [fault, setFault] = useState("");
  const latest = useRef(0);
  useEffect(() => {
    const turn = ++latest.current, soon = setTimeout(() => ask("GET", `prices?limit=${PAGE}&search=` + encoded(search)).then((found) => { if (turn === latest.current) { setGot(found); setFault(""); } }, (refused) => setFault(refused.message)), 150);
    history.replaceState(null, "", "/ui/config/prices" + (search ? "?q=" + encoded(search) : ""));
    return () => clearTimeout(soon);
  }, [search]);
  const when = (one) => [one.since && "from " + one.since, one.hours, one.tier, one.above && "above " + count(one.above) + " tokens"].filter(Boolean).join(", ");
  return html`<div class="filters"><${Find} label="Find prices" hint="model or upstream" value=${search} set=${setSearch}/><span class="t2">US dollars for a million tokens${got && html`; prices of ${told(got.version)}`}</span></div>
    ${banner(fault)}
    <div class="tablewrap"><div class="sideways" ...${region("Prices")}><table class="reqs"><colgroup><col/><col class="w-key"/><col class="w-from"/><col class="w-key"/>${RATES.map(() => html`<col class="w-n"/>`)}</colgroup>
    <thead><tr>${["Model", "Upstream", "When", "Source"].map((name) => html`<th>${name}</th>`)}${RATE_HEADS.map((name) => html`<th class="r" title=${name}>${name}</th>`)}</tr></thead>
    <tbody>${(got ? got.rows : []).flatMap((row) => row.prices.map((one, at) => html`<tr key=${[row.name, row.upstreams, at].join()}><td class="mono" title=${told(row.name)}>${at ? "" : told(row.name)}</td><td title=${row.upstreams.map(told).join(", ")}>${at ? "" : row.upstreams.map(told).join(", ")}</td><td class="t2" title=${when(one)}>${when(one)}</td><td>${row.own ? "own" : "table"}</td>${RATES.map((rate) => html`<td class="r num">${one[rate]}</td>`)}</tr>`))}</tbody></table></div>
    ${got && !got.rows.length && html`<p class="empty">${search ? "No price fits." : "No upstream has a list of prices, and the file has none of its own."}</p>`}
    <div class="tfoot"><span class="num">${got ? `${count(got.rows.length)} of ${count(got.total)}` : "Loading…"}</span></div></div>`;
}

const PARTS = { running: Running, reload: Reload, prices: Prices, audit: Audit };
