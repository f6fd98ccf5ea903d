// Losses: who loses what, where?
import { useEffect, useState } from "./vendor/hooks.js";
import { html, told, count, clock, spoken, LossKind, Pair, banner, region } from "./kit.js";
import { addressed, ask, usePolled } from "./api.js";
import { Spark } from "./charts.js";

const SPANS = { "1 h": 3600, "24 h": 86400, "7 d": 604800 }, EVERY_MS = 10000, MOST = 500;
const KINDS = { knob: "settings left out", converted: "kept in another form", repaired: "completed or put in order", content: "content that was left out" };
const FIELDS = ["client", "pair", "kind"];
const share = (part) => (part == null ? "" : part < 0.01 && part > 0 ? "< 1%" : Math.round(part * 100) + "%");

const asked = () => Object.fromEntries(FIELDS.map((field) => [field, addressed(field)]));

export function Losses() {
  const [length, setLength] = useState("24 h"), [wanted, setWanted] = useState(asked);
  const choose = (more) => setWanted((old) => ({ ...old, ...more })), filters = Object.fromEntries(FIELDS.filter((field) => wanted[field]).map((field) => [field, wanted[field]]));
  useEffect(() => {
    const url = new URL("/ui/losses", location.href);
    for (const [field, value] of Object.entries(filters)) url.searchParams.set(field, value);
    if (location.pathname === url.pathname) history.replaceState(null, "", url);
  }, [wanted]);
  const [read, fault] = usePolled(() => {
    const from = { from: String(Math.floor(Date.now() / 1000) - SPANS[length]) };
    return Promise.all([ask("GET", "losses?" + new URLSearchParams({ ...from, ...filters })), ask("GET", "losses?" + new URLSearchParams({ ...from, by: "client,pair", ...(wanted.kind ? { kind: wanted.kind } : {}) }))]);
  }, EVERY_MS, [length, wanted]);
  const [got, cells] = read || [];
  const filtered = FIELDS.some((field) => wanted[field]);
  return html`<div class="head"><h1>Losses</h1><span class="sub not-phone">what translations leave out, and for whom</span><div class="tools"><div class="seg" role="group" aria-label="Time">${Object.keys(SPANS).map((name) => html`<button aria-pressed=${String(name === length)} onClick=${() => setLength(name)}>${name}</button>`)}</div></div></div>
    ${banner(fault)}
    <div class="filters" role="group" aria-label="Kinds of losses">${Object.entries(KINDS).map(([kind, words]) => html`<button class="chip" aria-pressed=${String(wanted.kind === kind)} onClick=${() => choose({ kind: wanted.kind === kind ? "" : kind })}><${LossKind} kind=${kind}/>${words}</button>`)}
      ${["client", "pair"].filter((field) => wanted[field]).map((field) => html`<button class="chip" aria-pressed="true" aria-label=${"Show every " + field} onClick=${() => choose({ [field]: "" })}>${field === "pair" ? spoken(wanted.pair) : told(wanted.client)} ✕</button>`)}</div>
    ${!got ? html`<p class="empty">${fault ? "" : "Loading…"}</p>` : html`
      <${Matrix} cells=${cells} wanted=${wanted} onChoose=${choose}/>
      <${Table} got=${got} filtered=${filtered}/>`}`;
}

// Clients by pairs: a shade for the share, and the number.
function Matrix({ cells, wanted, onChoose }) {
  if (!cells.rows.length) return null;
  const clients = [...new Set(cells.rows.map((row) => row.client))], pairs = [...new Set(cells.rows.map((row) => row.pair))].sort();
  const most = Math.max(...cells.rows.map((row) => row.requests));
  const cell = (client, pair) => {
    const row = cells.rows.find((one) => one.client === client && one.pair === pair);
    if (!row) return html`<td class="r t3">·</td>`;
    const on = wanted.client === client && wanted.pair === pair;
    return html`<td class=${"r heat h" + Math.ceil((4 * row.requests) / most)}><button class="link num" aria-pressed=${String(on)} aria-label=${`${told(client)}, ${spoken(pair)}: ${count(row.requests)}`} onClick=${() => onChoose(on ? { client: "", pair: "" } : { client, pair })}>${count(row.requests)}</button></td>`;
  };
  return html`<section class="panel gapbelow"><header><h2>Clients and pairs</h2><span class="t3 sm">losses by client and by the protocols between which they happen</span></header>
    <div class="sideways" ...${region("Clients and pairs")}><table class="plist"><thead><tr><th class="w-client">Client</th>${pairs.map((pair) => html`<th class="r"><${Pair} of=${pair}/></th>`)}</tr></thead>
    <tbody>${clients.map((client) => html`<tr><td>${told(client) || html`<span class="t3">not told</span>`}</td>${pairs.map((pair) => cell(client, pair))}</tr>`)}</tbody></table></div></section>`;
}

function Table({ got, filtered }) {
  if (!got.rows.length) return html`<section class="panel"><p class="empty">${filtered ? "Nothing of that was lost." : `Nothing was lost in ${count(got.requests)} requests.`}</p></section>`;
  return html`<section class="panel"><header><h2>What was lost</h2><span class="t3 sm">${count(got.rows.length)} paths in ${count(got.requests)} requests, the most frequent first</span></header>
    <div class="sideways" ...${region("What was lost")}><table class="plist lost"><thead><tr><th class="w-kind"><span class="vh">Kind</span></th><th>Path</th><th class="w-pair">Pair</th><th>Client</th><th class="r w-n">Requests</th><th class="r w-n">Refused</th><th class="r w-n">Share</th><th class="w-spark"><span class="vh">Over time</span></th><th class="w-at">Last</th></tr></thead>
    <tbody>${got.rows.slice(0, MOST).map((row) => html`<tr><td><${LossKind} kind=${row.kind}/></td><td class="mono whole">${told(row.path)}</td><td><${Pair} of=${row.pair}/></td><td title=${told(row.client)}>${told(row.client)}</td><td class="r num">${count(row.requests)}</td><td class="r num">${row.refused ? count(row.refused) : ""}</td><td class="r num">${share(row.share)}</td><td>${row.series.length > 1 && html`<${Spark} values=${row.series}/>`}</td><td class="num"><a href=${"/ui/requests/" + encodeURIComponent(row.example)}>${clock(row.last)}</a></td></tr>`)}</tbody></table></div></section>`;
}
