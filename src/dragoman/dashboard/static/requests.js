// Requests: what is happening, and what became of this one.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { go, size, html, told, count, span, clock, money, outcome, Csv, Glyph, LossKind, Protocol, Unknown, banner, region } from "./kit.js";
import { Find, Icon } from "./icons.js";
import { addressed, ask, encoded, useAddress, useEvents } from "./api.js";
import { Bodies } from "./bodies.js";

const EVERY_MS = 3000, MOST = 500, LIVE = 100, SHARE_OF = 20;
const SPANS = { "15min": ["15 minutes", 900], "1h": ["hour", 3600], "24h": ["24 hours", 86400], "": ["7 days", 7 * 86400] };
let listed = []; // the requests that were listed last, in their order
const FIELDS = ["key", "model", "account", "upstream", "status", "error", "loss", "client", "min_ms"];

// `account:max-014 status:5xx` is a filter by two fields; a word without one names a model.
function filtersOf(text) {
  const found = {};
  for (const part of text.split(/\s+/).filter(Boolean)) {
    const [field, value] = part.split(/:(.*)/);
    if (FIELDS.includes(field) && value) found[field] = value;
    else if (value === undefined) found.model = field;
  }
  return found;
}
const unknownIn = (text) => text.split(/\s+/).filter((part) => part.includes(":") && !FIELDS.includes(part.split(":")[0]));
const asked = () => FIELDS.map((field) => [field, addressed(field)]).filter(([, value]) => value).map(([field, value]) => field + ":" + value).join(" ");

const Outcome = ({ row }) => {
  const [tone, glyph, word] = outcome(row.status, row.error);
  return html`<span class=${"state " + tone} title=${told(row.error)}><${Glyph} state=${glyph}/><b>${word}</b></span>`;
};
const cost = (row) => (row.cost_usd == null ? html`<${Unknown} why=${row.usage ? "no price is known for this model" : "no usage was told"}/>` : money(row.cost_usd) + (row.estimated ? " est." : ""));
const tokens = (row) => (row.usage ? count(row.usage.input) + " / " + count(row.usage.output) : "");

const exported = ({ at, id, status, error, key, client, model, upstream, account, attempts, first_ms, ms, usage: of, cost_usd, losses_total }) => ({ at: new Date(at * 1000).toISOString(), id, status, error, key, client, model, upstream, account, attempts, first_ms, ms, input: of && of.input, cached: of && of.cached, output: of && of.output, cost_usd, losses_total });

export function Requests() {
  const [filter, setFilter] = useState(asked), [rows, setRows] = useState(null), [next, setNext] = useState(null), [fault, setFault] = useState(""), [paused, setPaused] = useState(false), [since, setSince] = useState(() => (addressed("t") in SPANS ? addressed("t") : ""));
  const [batches, setBatches] = useState([]), [live, setLive] = useState("");
  const latest = useRef(0);
  const query = (more) => new URLSearchParams({ ...filtersOf(filter), from: String(Math.floor(Date.now() / 1000 - SPANS[since][1])), limit: "100", ...more }).toString();
  const load = async (after) => {
    const turn = ++latest.current;
    try {
      const got = await ask("GET", "requests?" + query(after ? { after } : {}));
      if (turn !== latest.current) return; // the filter has changed since
      setRows((old) => (after ? [...old, ...got.rows].slice(0, MOST) : got.rows));
      setNext(got.next);
      setFault("");
    } catch (refused) {
      if (turn === latest.current) setFault(refused.message);
    }
  };
  useEffect(() => {
    const soon = setTimeout(() => (paused ? load() : setLive(new URLSearchParams({ ...filtersOf(filter), topics: "requests" }).toString())), 150);
    return () => { clearTimeout(soon); latest.current++; setLive(""); setBatches([]); };
  }, [filter, paused, since]);
  const filters = filtersOf(filter), odd = unknownIn(filter);
  useAddress({ t: since, ...Object.fromEntries(FIELDS.map((field) => [field, filters[field] || ""])) });
  listed = (rows || []).map((row) => row.id);
  const stands = useEvents(live, { open: () => load(), requests: (told) => {
    setBatches((old) => [...old, told].slice(-SHARE_OF));
    setRows((old) => { const fresh = new Set(told.rows.map((row) => row.id)); return [...told.rows, ...(old || []).filter((row) => !fresh.has(row.id))].slice(0, LIVE); });
  } });
  useEffect(() => {
    if (stands !== false) return undefined;
    load();
    const timer = setInterval(() => document.hidden || load(), EVERY_MS);
    return () => clearInterval(timer);
  }, [stands, live]);
  const total = (name) => batches.reduce((all, one) => all + one[name], 0), sampled = total("shown") < total("seen");
  const how = paused ? "held" : stands === false ? "not live: asked for each 3 s" : sampled ? `live, a sample: ${((100 * total("shown")) / total("seen")).toFixed(1)} % of what comes in` : "live, the latest first";
  const more = () => { setPaused(true); load(next); };
  return html`<div class="head"><h1>Requests</h1><span class="sub">${how}</span><div class="tools"><button class="btn" data-key=" " aria-pressed=${String(paused)} onClick=${() => setPaused(!paused)}>${paused ? "Follow" : "Hold"}</button></div></div>
    ${banner(fault)}
    <div class="filters"><${Find} label="Filter requests" hint="model, or account: key: status:5xx error: loss:" value=${filter} set=${setFilter} aria-describedby="odd"/><select class="btn" aria-label="Time" onChange=${(event) => setSince(event.target.value)}>${Object.entries(SPANS).map(([key, [words]]) => html`<option value=${key} selected=${key === since}>Last ${words}</option>`)}</select>
      <p id="odd" class="t2 sm" role="status">${odd.length ? html`${told(odd.join(", "))}: no such filter. There are ${FIELDS.join(", ")}.` : ""}</p></div>
    <div class="tablewrap"><div class="sideways" ...${region("Requests")}>
      <table class="reqs"><colgroup><col class="w-at"/><col class="w-out"/><col/><col class="w-key"/><col class="w-acct"/><col class="w-n"/><col class="w-n"/><col class="w-tok"/><col class="w-cost"/></colgroup>
      <thead><tr><th>Time</th><th>Outcome</th><th>Model</th><th>Key</th><th>Account</th><th class="r">Duration</th><th class="r">First token</th><th class="r">Tokens in / out</th><th class="r">Cost</th></tr></thead>
      <tbody>${(rows || []).map((row) => html`<tr key=${row.id}><td class="num"><a href=${"/ui/requests/" + encoded(row.id)}>${clock(row.at)}</a></td><td><${Outcome} row=${row}/>${row.attempts > 1 && html` <span class="t3 sm">${row.attempts} tried</span>`}</td>
        <td title=${told(row.model)}>${told(row.model)}${row.losses_total > 0 && html` <span class="kinds" title=${row.losses_total + " lost in translation"}>${row.loss_kinds.map((kind) => html`<${LossKind} kind=${kind}/>`)}</span>`}</td><td title=${told(row.key)}>${told(row.key)}</td><td title=${told(row.account)}>${told(row.account)}</td>
        <td class="r num">${span(row.ms / 1000)}</td><td class="r num">${row.first_ms == null ? "" : span(row.first_ms / 1000)}</td><td class="r num">${tokens(row)}</td><td class="r num">${cost(row)}</td></tr>`)}</tbody></table></div>
      ${rows && !rows.length && html`<p class="empty">${filter ? "No request fits the filter." : "No request was made yet."}</p>`}
      <div class="tfoot"><span class="num">${rows ? count(rows.length) + " shown" : "Loading…"}</span><${Csv} name="requests" rows=${() => (rows || []).map(exported)}/>${next && rows.length < MOST && html`<button class="btn quiet" onClick=${more}>Older</button>`}</div>
    </div>`;
}

export function Request({ id }) {
  const [got, setGot] = useState(null), [fault, setFault] = useState("");
  useEffect(() => { ask("GET", "requests/" + encoded(id)).then(setGot, (refused) => setFault(refused.message)); }, [id]);
  const head = html`<a class="btn quiet icon" href="/ui/requests" aria-label="Back to the requests"><${Icon} name="back"/></a><h1 class="mono rid">${told(id)}</h1>`;
  if (!got) return html`<div class="head">${head}</div><p class="empty">${fault || "Loading…"}</p>`;
  const place = listed.indexOf(id), other = (by, key, label, sign) => { const to = place >= 0 && listed[place + by]; return html`<button class="btn quiet" data-key=${key} aria-label=${label} disabled=${!to} onClick=${() => go("/ui/requests/" + encoded(to))}>${sign}</button>`; };
  const [tone, glyph, word] = outcome(got.status, got.error), why = (field) => html`<${Unknown} why=${got.why[field] || "it was not told"}/>`;
  const retries = got.attempts > 1 ? ` after ${got.attempts - 1} ${got.attempts === 2 ? "retry" : "retries"}` : "";
  const summary = [["Model", told(got.model)], ["Key", told(got.key)], ["Duration", span(got.ms / 1000)], ["First token", got.first_ms == null ? why("first_ms") : span(got.first_ms / 1000)], ["Tokens in", got.usage ? count(got.usage.input) : why("usage")], ["Tokens out", got.usage ? count(got.usage.output) : why("usage")], ["Cost", cost(got)]];
  const went = [["Client", told(got.client)], ["User agent", told(got.user_agent)], ["Asked", told(got.route) + (got.stream ? ", stream" : "")], ["Protocol", html`<${Protocol} name=${got.protocol}/>`], ["Upstream", told(got.upstream)], ["Sent as", told(got.upstream_model)], ["Team", told(got.team)], ["Finish reason", told(got.finish)], ["Error", told(got.error)], ["Trace", told(got.trace_id)]].filter(([, value]) => value);
  return html`<div class="head">${head}<span class=${"pill " + tone}><${Glyph} state=${glyph}/>${word}${retries}</span><span class="sub num">${clock(got.at, true)}</span>${place >= 0 && html`<div class="tools">${other(-1, "[", "Newer request", "↑")}${other(1, "]", "Older request", "↓")}</div>`}</div>
    <section class="panel sumwrap" aria-label="Summary"><dl class="sum">${summary.map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}</dl></section>
    <div class="cols"><div class="stack">
      <${Attempts} got=${got}/>
      <section class="panel"><header><h2>Lost in translation</h2><span class="t3 sm">${got.losses_total || "nothing"}</span></header>${got.losses.length > 0 && html`<div class="body"><ul class="losslist">${got.losses.map((loss) => html`<li><${LossKind} kind=${loss.kind}/><span><span class="mono strong">${told(loss.path)}</span><div class="t2">${told(loss.detail)}</div></span></li>`)}</ul></div>`}</section>
      <${Bodies} id=${id}/>
    </div><div class="stack">
      ${got.chosen_from && html`<${Why} got=${got} from=${got.chosen_from}/>`}
      ${got.usage && html`<section class="panel"><header><h2>Tokens and cost</h2></header><div class="body"><dl class="facts">${[["Input", got.usage.input], ["of it cached", got.usage.cached], ["of it written to the cache", got.usage.cache_write], ["Output", got.usage.output], ["of it reasoning", got.usage.reasoning]].filter(([, n]) => n != null).map(([key, n]) => html`<dt>${key}</dt><dd>${count(n)}</dd>`)}<dt>Cost at list price</dt><dd>${cost(got)}</dd></dl></div></section>`}
      <section class="panel"><header><h2>Where it went</h2></header><div class="body"><dl class="facts left">${went.map(([key, value]) => html`<dt>${key}</dt><dd title=${typeof value === "string" ? value : null}>${value}</dd>`)}</dl></div></section>
    </div></div>`;
}

// Among how many accounts the first one was chosen, and by what.
const ORDERS = { least_recently_used: "the one that was used longest ago", round_robin: "each in its turn", weighted: "by weight", highest_balance: "the one with the most tokens left", least_in_flight: "the one with the fewest requests in flight", most_quota_left: "the one with the most of its quota left" };
function Why({ got, from }) {
  const line = (n, text, strong) => html`<li><span class="num">${n}</span><span class=${strong ? "strong" : "t2"}>${text}</span></li>`;
  return html`<section class="panel"><header><h2>Why this account</h2>${got.attempts > 1 && html`<span class="t3 sm">the first that was asked there</span>`}</header><div class="body"><ul class="why">${line(count(from.serving), "serve the model")}${from.left_out.map(([why, n]) => line("−" + count(n), told(why)))}${line(count(from.could_serve), "could be chosen", true)}</ul>
    <p class="t2 sm why-p">${got.conversation ? (got.moved ? `The conversation was ${got.conversation}, and was with another account before` : `The conversation was ${got.conversation}: the account that it was with comes first`) : "No conversation was recognised"}; of the others, ${ORDERS[from.selection] || told(from.selection)}.</p></div></section>`;
}

// One lane for each account that was asked, on one axis of time.
function Attempts({ got }) {
  // Two thirds for what came before the first token, one for the answer: 200 ms of retries are to be
  // seen beside 12 s of stream.
  const end = Math.max(got.ms, 1), fold = got.first_ms && got.first_ms < end ? got.first_ms : null;
  const at = (ms) => (fold == null ? (100 * Math.min(ms, end)) / end : ms <= fold ? (66 * ms) / fold : 66 + (34 * (Math.min(ms, end) - fold)) / (end - fold));
  const ticks = fold == null ? [0, end / 2, end] : [0, fold / 2, fold, end], answered = (one, i) => fold != null && i === got.tried.length - 1 && one.end_ms > fold;
  const tone = (one) => (one.status < 400 && !one.kind ? "info" : one.status === 429 ? "cool" : "out");
  return html`<section class="panel"><header><h2>Attempts</h2><span class="t3 sm">${got.tried.length ? `${got.tried.length} of ${got.accounts == null ? "the" : count(got.accounts)} accounts of ${told(got.upstream)}` : "no account was asked"}</span></header>
    <div class="axisrow" aria-hidden="true"><div><div class="axis2">${ticks.map((ms) => html`<span style=${{ left: at(ms) + "%" }} class=${ms === fold ? "fold" : ms === end ? "end" : ""}>${ms ? span(ms / 1000) : "0"}</span>`)}</div><span></span></div></div>
    <ol class="lanes">${got.queue_ms >= 1 && html`<li><div><b class="strong">Waiting for an account</b></div><div class="lane"><svg width="100%" height="12" role="img" aria-label=${span(got.queue_ms / 1000)}><rect x="0" y="2" height="8" rx="2" width=${at(got.queue_ms) + "%"} class="f-off"/></svg><span class="num sm t2">${span(got.queue_ms / 1000)}</span></div></li>`}
    ${got.tried.map((one, i) => html`<li><div><span class="t3 num">${i + 1}</span> <a class="strong ink" href=${"/ui/accounts/" + encoded(one.account)}>${told(one.account)}</a> <span class=${"num state " + (tone(one) === "info" ? "ok" : tone(one))}><b>${one.status || "—"}</b></span> <span class="t2 sm">${told(one.kind || "answered")}</span>${one.bytes_up && html` <span class="t3 sm num">${size(one.bytes_up)} sent, ${size(one.bytes_down || 0)} back</span>`}</div>
      <div class="lane"><svg width="100%" height="12" role="img" aria-label=${`from ${span(one.start_ms / 1000)} to ${span(one.end_ms / 1000)}`}><rect y="2" height="8" rx="2" x=${at(one.start_ms) + "%"} width=${Math.max(0.6, at(one.end_ms) - at(one.start_ms)) + "%"} class=${"f-" + tone(one) + (answered(one, i) ? " soft" : "")}/>${answered(one, i) && html`<rect y="2" height="8" rx="2" x="66%" width=${at(one.end_ms) - 66 + "%"} class=${"f-" + tone(one)}/>`}${fold != null && html`<line x1="66%" x2="66%" y1="-4" y2="16" class="tick dots"/>`}</svg><span class="num sm t2">${span((one.end_ms - one.start_ms) / 1000)}</span></div>
      ${one.why && html`<p class="sm t2">${one.row ? `Row ${one.row} of ${told(one.table)}: ` : ""}${told(one.why)}${one.rest_s ? `; the account rests ${span(one.rest_s)}` : ""}.</p>`}</li>`)}</ol></section>`;
}
