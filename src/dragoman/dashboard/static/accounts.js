// Accounts: which can serve, which cannot, why, and until when.
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { html, told, count, short, left, clock, minute, money, now, say, span, Csv, Glyph, State, Meter, Unknown, STATES } from "./kit.js";
import { Find, Icon } from "./icons.js";
import { addressed, ask, encoded, isAdmin, useAddress, useEvents, useSoon } from "./api.js";
import { Add, Import, many, NewKey, Test, Turn } from "./account_dialogs.js";

const ROW = 32, SPARE = 8, EVERY_MS = 10000, SOON_MS = 3000, DAY_S = 86400;
const CHANGES = { cooled: "cooling", exhausted: "exhausted", disabled: "disabled", enabled: "active", restored: "active" };
const RANK = { exhausted: 0, cooling: 1, trial: 2, disabled: 3, active: 4 };
const SORTS = {
  worst: ["Worst first", (a, b) => RANK[a.state] - RANK[b.state] || a.at - b.at],
  soonest: ["Back soonest", (a, b) => (a.back ?? Infinity) - (b.back ?? Infinity) || a.at - b.at],
  errors: ["Most errors", (a, b) => b.errors - a.errors || a.at - b.at],
};

// The columns of the whole pool as rows, in the order that they came in.
function rowsOf(table) {
  const c = table.columns, windows = Object.entries(c.windows);
  return c.name.map((name, at) => ({
    at, name, upstream: c.upstream[at], state: c.state[at], why: c.why[at], back: c.back_at[at],
    flying: c.in_flight[at], requests: c.requests[at], errors: c.errors[at],
    windows: Object.fromEntries(windows.map(([window, w]) => [window, w.told_at[at] == null ? null : { used: w.used[at], resets: w.resets_at[at], told: w.told_at[at], seconds: w.seconds[at] }])),
  }));
}
function matcher(text) {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean).map((part) => part.split(/:(.*)/));
  return (row) => parts.every(([field, value]) => {
    if (value === undefined) return row.name.toLowerCase().includes(field);
    if (field === "upstream") return row.upstream.toLowerCase().includes(value);
    if (field === "state") return row.state.startsWith(value);
    if (field === "why") return row.why.toLowerCase().includes(value);
    return row.name.toLowerCase().includes(field + ":" + value);
  });
}
const gone = (w) => (w.resets && w.seconds ? Math.min(1, Math.max(0, 1 - (w.resets - now.value) / w.seconds)) : null);
function windowTitle(w) {
  if (!w) return "the upstream told no such window yet";
  if (w.used == null) return "the window has ended since the upstream told of it";
  return `${Math.round(w.used * 100)} % used${w.resets ? "; resets " + clock(w.resets) : ""}; as told ${clock(w.told)}`;
}
const Window = ({ of, width }) => html`<${Meter} used=${of && of.used} gone=${of && gone(of)} title=${windowTitle(of)} width=${width}/>`;
const exported = ({ name, upstream, state, why, back: back_at, requests, errors, windows }) => ({ name, upstream, state, why, back_at, requests, errors, ...Object.fromEntries(Object.entries(windows).map(([window, of]) => ["used_" + window, of && of.used])) });
const back = (row) => (row.back && row.back > now.value ? left(row.back - now.value) : "");

export function Accounts({ name }) {
  const [table, setTable] = useState(null), [fault, setFault] = useState(""), [stale, setStale] = useState(false);
  const [filter, setFilter] = useState(addressed("q")), [states, setStates] = useState(new Set(addressed("state").split(",").filter((state) => state in STATES))), [sort, setSort] = useState(addressed("sort") in SORTS ? addressed("sort") : "worst");
  useAddress({ q: filter, state: [...states].join(","), sort: sort === "worst" ? "" : sort });
  const [ticked, setTicked] = useState(new Set()), [asking, setAsking] = useState(null), [dialog, setDialog] = useState(null);
  const load = () => ask("GET", "accounts/table").then((got) => { setTable(got); setStale(false); setFault(""); }, (refused) => { setStale(true); setFault(refused.message); });
  useEffect(() => {
    load();
    const timer = setInterval(() => document.hidden || load(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  useEvents("topics=accounts", { accounts: useSoon(load, SOON_MS) });
  const rows = useMemo(() => (table ? rowsOf(table) : []), [table]);
  const windows = table ? Object.keys(table.columns.windows).slice(0, 2) : [];
  const numbers = useMemo(() => rows.reduce((all, row) => { all[row.state] = (all[row.state] || 0) + 1; return all; }, {}), [rows]);
  const shown = useMemo(() => {
    const fits = matcher(filter);
    return rows.filter((row) => fits(row) && (!states.size || states.has(row.state))).sort(SORTS[sort][1]);
  }, [rows, filter, states, sort]);
  const canServe = (numbers.active || 0) + (numbers.trial || 0);
  const close = () => setDialog(null);
  const toggle = (state) => setStates((old) => { const next = new Set(old); next.has(state) ? next.delete(state) : next.add(state); return next; });
  const tick = (one) => setTicked((old) => { const next = new Set(old); next.has(one) ? next.delete(one) : next.add(one); return next; });

  const act = async (what, names, reason) => {
    setAsking(null);
    try {
      const done = await ask("POST", "accounts/do", { do: what, names, reason });
      const word = what === "enable" ? "enabled" : "disabled", other = what === "enable" ? "disable" : "enable";
      const refused = done.refused.map((one) => told(one.name) + ": " + told(one.message)).join("; ");
      say(`${many(done.done)} ${word}.${refused ? " Not done: " + refused : ""}`, done.done.length && what === "disable" ? () => act(other, done.done) : null, Boolean(refused));
      setTicked(new Set());
    } catch (refused) {
      say(refused.message, null, true);
    }
    load();
  };

  return html`<div class="head"><h1>Accounts</h1>${table && html`<span class="sub">${count(rows.length)} on ${new Set(rows.map((row) => row.upstream)).size} upstreams, ${count(canServe)} can serve</span>`}${isAdmin() && html`<div class="tools"><button class="btn" onClick=${() => setDialog({ import: true })}>Import…</button><button class="btn" onClick=${() => setDialog({ add: true })}>Add…</button></div>`}</div>
    ${stale && html`<p class="banner" role="alert">Not live: ${fault}</p>`}
    <div class="filters">
      <${Find} label="Filter accounts" hint="Name, upstream:, why:" value=${filter} set=${setFilter} wide=""/>
      <div class="row chips">${["active", "cooling", "exhausted", "disabled"].map((state) => html`<button class="chip" aria-pressed=${String(states.has(state))} onClick=${() => toggle(state)}><${Glyph} state=${state}/>${STATES[state][1]} <b>${count(numbers[state] || 0)}</b></button>`)}
      <span class="t3 sm sortby">Sort</span>${Object.entries(SORTS).map(([key, [label]]) => html`<button class="chip" aria-pressed=${String(sort === key)} onClick=${() => setSort(key)}>${label}</button>`)}</div>
    </div>
    <div class=${name ? "split" : ""}>
      <div class="tablewrap">
        ${ticked.size > 0 && html`<div class="bulk"><b class="strong">${count(ticked.size)} selected</b><span class="t2 not-phone">of ${count(rows.length)}; nothing outside the selection is touched</span><span class="grow"></span>
          <button class="btn" onClick=${() => setDialog({ test: [...ticked] })}>Test…</button><button class="btn" onClick=${() => (ticked.size > 1 ? setAsking({ what: "enable", names: [...ticked] }) : act("enable", [...ticked]))}>Enable${ticked.size > 1 ? "…" : ""}</button><button class="btn" onClick=${() => setAsking({ what: "disable", names: [...ticked] })}>Disable…</button><button class="btn quiet" onClick=${() => setTicked(new Set())}>Clear</button></div>`}
        ${table ? html`<${Grid} rows=${shown} windows=${windows} open=${name} ticked=${ticked} tick=${tick} tickAll=${() => setTicked(ticked.size ? new Set() : new Set(shown.map((row) => row.name)))}/>` : html`<p class="empty" aria-busy="true">${fault || "Loading…"}</p>`}
        ${table && !shown.length && html`<p class="empty">${rows.length ? "No account fits the filter." : "There is no account yet."}</p>`}
        <div class="tfoot"><span class="num">${count(shown.length)} of ${count(rows.length)}</span><${Csv} name="accounts" rows=${() => shown.map(exported)}/></div>
      </div>
      ${name && html`<${Side} key=${name} name=${name} version=${table && table.version} disable=${() => setAsking({ what: "disable", names: [name] })} enable=${() => act("enable", [name])} newKey=${() => setDialog({ key: name })}/>`}
    </div>
    ${dialog && dialog.add && html`<${Add} upstreams=${[...new Set(rows.map((row) => row.upstream))]} onClose=${close} onDone=${(made) => { close(); say(told(made) + " was added."); load(); }}/>`}
    ${dialog && dialog.import && html`<${Import} onClose=${close} onDone=${(done) => { close(); say(`${count(done.added)} added, ${count(done.replaced)} replaced.`); load(); }}/>`}
    ${dialog && dialog.test && html`<${Test} names=${dialog.test} onClose=${() => { close(); load(); }}/>`}
    ${dialog && dialog.key && html`<${NewKey} name=${dialog.key} onClose=${close} onDone=${(done) => { close(); say(`${told(dialog.key)} has a new key${done.finding ? `, which answered in ${span(done.finding.milliseconds / 1000)}` : ""}.`); load(); }}/>`}
    ${asking && html`<${Turn} ...${asking} onClose=${() => setAsking(null)} onDone=${(reason) => act(asking.what, asking.names, reason)}/>`}`;
}

// Only the rows that are seen are there.
function Grid({ rows, windows, open, ticked, tick, tickAll }) {
  const box = useRef(null), wanted = useRef(null), from = useRef(0), [top, setTop] = useState(0), [height, setHeight] = useState(800), [at, setAt] = useState(0);
  const phone = matchMedia("(max-width:720px)").matches, row = phone ? 62 : ROW;
  useEffect(() => {
    const own = box.current, seen = new ResizeObserver(() => setHeight(own.clientHeight));
    seen.observe(own);
    return () => seen.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top / row) - SPARE), last = Math.min(rows.length, Math.ceil((top + height) / row) + SPARE);
  const go = (to) => {
    const next = Math.max(0, Math.min(rows.length - 1, to)), own = box.current;
    setAt(next);
    if (next * row < own.scrollTop) own.scrollTop = next * row;
    else if ((next + 2) * row > own.scrollTop + own.clientHeight) own.scrollTop = (next + 2) * row - own.clientHeight;
    setTop(own.scrollTop);
    wanted.current = next;
  };
  // A row that is to have the focus may only be there after the next drawing.
  useEffect(() => {
    const cell = wanted.current !== null && box.current.querySelector(`[data-at="${wanted.current}"]`);
    if (cell) { wanted.current = null; cell.focus({ preventScroll: true }); }
  });
  const keys = (event) => {
    if (event.target.tagName === "INPUT") return;
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 15, PageUp: -15, Home: -rows.length, End: rows.length }[event.key];
    if (step) { event.preventDefault(); go(at + step); }
    else if (event.key === "x" && rows[at] && isAdmin()) { tick(rows[at].name); from.current = at; }
    else if (event.key === "X" && isAdmin()) rows.slice(Math.min(from.current, at), Math.max(from.current, at) + 1).forEach((one) => ticked.has(one.name) || tick(one.name));
  };
  const link = (one) => "/ui/accounts/" + encoded(one.name) + location.search;
  const none = html`<span class="t3">0</span>`, mayTick = isAdmin();
  return html`<div class="scroll" ref=${box} onScroll=${() => setTop(box.current.scrollTop)} onKeyDown=${keys} role="region" aria-label="Accounts" tabindex="-1">
    ${phone ? html`<ul class="acc" aria-label="Accounts"><li class="gap" style=${{ height: first * row + "px" }} aria-hidden="true"></li>${rows.slice(first, last).map((one) => html`<li key=${one.name}><${Glyph} state=${one.state} size="12"/><span class="cut"><a class="strong ink" href=${link(one)}>${told(one.name)}</a> <span class="t3">${told(one.upstream)}</span></span><span class="num t2 sm">${back(one) ? "back in " + back(one) : count(one.requests) + " req."}</span><span class=${"why2 sm cut state " + STATES[one.state][0]}>${one.why ? told(one.why) : STATES[one.state][1]}</span></li>`)}<li class="gap" style=${{ height: (rows.length - last) * row + "px" }} aria-hidden="true"></li></ul>`
    : html`<table class="acct" aria-rowcount=${rows.length + 1}>
      <colgroup>${mayTick && html`<col class="w-cb"/>`}<col class="w-name"/><col class="w-state"/><col/><col class="w-back"/>${windows.map(() => html`<col class="w-m"/>`)}<col class="w-n"/><col class="w-e"/></colgroup>
      <thead><tr>${mayTick && html`<th><input type="checkbox" aria-label="Select all that the filter shows" checked=${ticked.size > 0 && ticked.size === rows.length} onChange=${tickAll}/></th>`}<th>Account</th><th>State</th><th>Why</th><th class="r">Back in</th>${windows.map((one) => html`<th>${told(one)}</th>`)}<th class="r" title="Of the last 24 hours">Requests</th><th class="r" title="Of the last 24 hours">Errors</th></tr></thead>
      <tbody><tr class="gap" aria-hidden="true"><td colspan=${7 + windows.length} style=${{ height: first * row + "px" }}></td></tr>
      ${rows.slice(first, last).map((one, i) => html`<tr key=${one.name} aria-rowindex=${first + i + 2} aria-selected=${String(one.name === open)}>
        ${mayTick && html`<td><input type="checkbox" aria-label=${"Select " + told(one.name)} checked=${ticked.has(one.name)} onChange=${() => tick(one.name)}/></td>`}
        <td title=${told(one.name)}><a class="strong ink" data-at=${first + i} href=${link(one)} onFocus=${() => setAt(first + i)}>${told(one.name)}</a></td><td><${State} state=${one.state}/></td><td class="t2" title=${told(one.why)}>${told(one.why)}</td>
        <td class="r num">${back(one)}</td>${windows.map((window) => html`<td>${one.windows[window] && html`<${Window} of=${one.windows[window]} width="34"/>`}</td>`)}
        <td class="r num">${one.requests ? count(one.requests) : none}</td><td class=${"r num " + (one.errors > 25 ? "strong" : "t2")}>${one.errors ? count(one.errors) : none}</td></tr>`)}
      <tr class="gap" aria-hidden="true"><td colspan=${7 + windows.length} style=${{ height: (rows.length - last) * row + "px" }}></td></tr></tbody></table>`}
  </div>`;
}

// One account: what it is, why it rests, its windows, and what became of it.
function Side({ name, version, disable, enable, newKey }) {
  const [read, setRead] = useState([]), [fault, setFault] = useState(""), path = encoded(name);
  useEffect(() => { Promise.all([ask("GET", `accounts/${path}?history=30`), ask("GET", "usage?account=" + path)]).then(setRead, (refused) => setFault(refused.message)); }, [name, version]);
  const [got, used] = read, one = got && got.account;
  const top = html`<div class="row"><h2 class="grow cut" title=${told(name)}>${told(name)}</h2><a class="btn quiet icon" href=${"/ui/accounts" + location.search} aria-label="Close"><${Icon} name="close"/></a></div>`;
  if (!one) return html`<aside class="side" aria-label=${"Account " + told(name)}><header>${top}</header><section>${fault || "Loading…"}</section></aside>`;
  const state = one.trial ? "trial" : one.state, test = async () => {
    try {
      const found = await ask("POST", `accounts/${path}/test`, {});
      say(told(name) + ": " + (found.passed ? `answered in ${span(found.milliseconds / 1000)}.` : told(found.told || found.why)), null, !found.passed);
    } catch (refused) {
      say(refused.message, null, true);
    }
  };
  const { total } = used, facts = [["Requests", count(one.requests)], ["Errors", count(one.errors)], ["Retries it caused", count(one.retries)], ["Tokens in, cached", `${short(total.input)}, ${total.input ? Math.round((100 * total.cached) / total.input) : 0} %`], ["Tokens out", short(total.output)], ["Cost at list price", money(total.cost_usd)], ["In flight", one.in_flight + (one.max_concurrent ? " of " + one.max_concurrent : "")], ["Used last", one.last_used ? clock(one.last_used) : html`<${Unknown} why="it was not used yet"/>`], ["Key", one.secrets.includes("key") ? "set; shown nowhere" : "none"]];
  return html`<aside class="side" aria-label=${"Account " + told(name)}>
    <header>${top}
      <div class="sm t2">${told(one.upstream)} · ${one.origin === "store" ? "kept in the store" : "in the configuration file"} · priority ${one.priority}</div>
      ${isAdmin() && html`<div class="acts"><button class="btn" data-key="t" onClick=${test}>Test</button>${one.origin === "store" && html`<button class="btn" onClick=${newKey}>New key…</button>`}${one.state === "active" ? html`<button class="btn" data-key="d" onClick=${disable}>Disable…</button>` : html`<button class="btn" data-key="e" onClick=${enable}>Enable</button>`}</div>`}</header>
    <section><p><span class=${"pill " + STATES[state][0]}><${Glyph} state=${state}/>${STATES[state][1]}</span> ${one.back_at && one.back_at > now.value && html`<span class="num">back in <b class="strong">${left(one.back_at - now.value)}</b>, at ${minute(one.back_at)}</span>`}</p>
      ${one.problem && html`<p class="why-p state err">${told(one.problem)}</p>`}
      ${one.reasons.map((reason) => html`<p class="t2 why-p">${told(reason.why)}${reason.model && html` <span class="mono">${told(reason.model)}</span>`}</p>`)}</section>
    ${one.quotas.length > 0 && html`<section><h2>Quota windows, as the upstream tells them</h2><div class="wins">${one.quotas.map((w) => { const of = { used: w.used, resets: w.resets_at, told: w.told_at, seconds: w.seconds }; return html`<span class="t2">${told(w.name)}${w.model && " " + told(w.model)}</span><${Window} of=${of} width="92"/><span class="t3 sm num tr">${w.resets_at ? "resets " + minute(w.resets_at) : ""}</span>`; })}</div><p class="t3 sm">The tick is how much of the window’s time is gone.</p></section>`}
    <section><h2>Last 24 hours</h2><dl class="facts">${facts.map(([key, value]) => html`<dt>${key}</dt><dd>${value}</dd>`)}</dl>
      ${one.last_error && html`<p class="t2 sm why-p">Last error, ${clock(one.last_error.at)}: ${told(one.last_error.kind)}${one.last_error.status ? ", " + one.last_error.status : ""}</p>`}
      <p class="sm why-p"><a href=${"/ui/requests?account=" + path}>Its requests</a></p></section>
    <section><h2>History</h2><${Band} history=${got.history}/>${got.history.length ? html`<ul class="hist">${got.history.map((entry) => html`<li><span class="t" title=${clock(entry.at)}>${minute(entry.at)}</span><${Glyph} state=${CHANGES[entry.change]}/><span>${told(entry.why || entry.change)}${entry.model && html` <span class="mono">${told(entry.model)}</span>`}${html`<div class="t3 sm">${[entry.status, entry.source || "traffic", entry.until && "until " + clock(entry.until)].filter(Boolean).join(", ")}</div>`}</span></li>`)}</ul>` : html`<p class="t3 sm">Nothing has befallen it.</p>`}</section>
  </aside>`;
}

// The states of the last day, as far as they are told.
function Band({ history }) {
  const from = now.value - DAY_S, at = (time) => Math.max(0, (100 * (time - from)) / DAY_S), told = [...history].sort((a, b) => a.at - b.at), parts = [];
  told.forEach((entry, i) => {
    const next = i + 1 < told.length ? told[i + 1].at : now.value, state = CHANGES[entry.change] || "active", over = ["cooling", "exhausted"].includes(state) && entry.until ? Math.min(entry.until, next) : next;
    parts.push([entry.at, over, state], [over, next, "active"]);
  });
  const shown = parts.filter(([begin, end]) => end > from && end > begin);
  return shown.length > 0 && html`<svg width="100%" height="10" class="band" role="img" aria-label=${"States of the last 24 hours: " + shown.map(([begin, , state]) => STATES[state][1] + " from " + minute(begin)).join(", ")}><rect width="100%" height="10" class="f-sunken"/>${shown.map(([begin, end, state]) => html`<rect x=${at(begin) + "%"} width=${Math.max(0.4, at(end) - at(begin)) + "%"} height="10" class=${"f-" + { active: "calm", cooling: "cool", exhausted: "out", disabled: "off" }[state]}><title>${STATES[state][1]}, ${minute(begin)} to ${minute(end)}</title></rect>`)}</svg><p class="row t3 sm"><span>24 h ago</span><span class="grow"></span><span>now</span></p>`;
}
