// Overview: does anything need me, and is it as it was?
import { useState } from "./vendor/hooks.js";
import { html, told, count, short, span, clock, now, Glyph, Unknown, STATES } from "./kit.js";
import { Chart, Parts } from "./charts.js";
import { ask, useEvents, usePolled } from "./api.js";

const SPANS = { "15 min": 900, "1 h": 3600, "6 h": 21600, "24 h": 86400, "7 d": 604800 };
const EVERY_MS = 10000, MOST_ERRORS = 8;
const WORST = ["active", "cooling", "exhausted", "disabled"];
const TONES = { active: "calm", trial: "info", cooling: "cool", exhausted: "out", disabled: "off" };
const ERRORS = { rate_limited: "cool", no_account: "out", overloaded: "out", upstream: "out", timeout: "out" };

const sum = (values) => values.reduce((all, value) => all + (Number(value) || 0), 0);
const known = (values) => values.filter((value) => value != null);
const plural = (number, one) => count(number) + " " + one + (number === 1 ? "" : "s");

// What is not as it should be, in words, each with where to look.
function attention(table, health) {
  const found = [], c = table.columns;
  for (const upstream of new Set(c.upstream)) {
    const of = c.name.map((_, at) => at).filter((at) => c.upstream[at] === upstream), out = of.filter((at) => c.state[at] === "exhausted"), refused = of.filter((at) => c.state[at] === "disabled");
    const back = known(out.map((at) => c.back_at[at])).sort((a, b) => a - b);
    const link = (state) => "/ui/accounts?q=" + encodeURIComponent(`upstream:${upstream} state:${state}`);
    if (out.length) found.push(["exhausted", html`${count(out.length)} of ${plural(of.length, "account")} of <b class="strong">${told(upstream)}</b> ${out.length === 1 ? "is" : "are"} out.${back.length ? " The first is back at " + clock(back[0]) + "." : ""}`, link("exhausted")]);
    if (refused.length) found.push(["disabled", html`${count(refused.length)} of ${plural(of.length, "account")} of <b class="strong">${told(upstream)}</b> ${refused.length === 1 ? "is" : "are"} disabled.`, link("disabled")]);
  }
  if (health.store === "failing") found.push(["exhausted", html`The store cannot be used; what happens is kept in memory until it can.`, null]);
  if (health.limits === "away") found.push(["exhausted", html`The database in which machines share limits is away.`, null]);
  return found;
}

export function Overview() {
  const [length, setLength] = useState("1 h");
  const [read, fault] = usePolled(() => Promise.all([ask("GET", "series?from=" + (Math.floor(Date.now() / 1000) - SPANS[length])), ask("GET", "accounts/table"), ask("GET", "health")]), EVERY_MS, [length]);
  const [second, setSecond] = useState(null);
  const stands = useEvents("topics=now", { now: setSecond });
  const [got, table, health] = read || [];
  const head = html`<div class="head"><h1>Overview</h1>${got && html`<span class="sub">${clock(got.from)} to ${clock(now.value)}</span>`}<div class="tools"><div class="seg" role="group" aria-label="Time">${Object.keys(SPANS).map((name) => html`<button aria-pressed=${String(name === length)} onClick=${() => setLength(name)}>${name}</button>`)}</div></div></div>
    ${fault && html`<p class="banner" role="alert">Not live: ${fault}</p>`}`, live = stands ? second : null;
  if (!got) return html`${head}<p class="empty" aria-busy="true">${fault ? "" : "Loading…"}</p>`;
  const needs = attention(table, health);
  return html`${head}
    ${needs.length ? html`<ul class="attention" aria-label="What needs somebody">${needs.map(([state, text, link]) => html`<li><${Glyph} state=${state}/><span class="grow">${text}</span>${link && html`<a class="go" href=${link}>Show accounts</a>`}</li>`)}</ul>` : html`<p class="banner quiet">Nothing needs you.</p>`}
    <${Figures} got=${got} health=${health} live=${live}/>
    <div class="cols"><div class="stack"><${Charts} got=${got}/></div><div class="stack"><${Pools} table=${table}/><${Errors} errors=${got.errors}/></div></div>`;
}

function Figures({ got, health, live }) {
  const rates = live && live.requests_s != null, perSecond = (n) => (n < 10 ? n.toFixed(2) : short(n)) + "/s now";
  const r = got.requests, all = sum(Object.values(r).flat()), bad = sum(r.failed) + sum(r.limited), seconds = Math.max(1, known(r.answered).length * got.step_s);
  const latest = (values) => known(values).at(-1), input = sum(got.tokens.input) + sum(got.tokens.cached), output = sum(got.tokens.output), unpriced = sum(got.unpriced);
  const none = (why) => html`<${Unknown} why=${why}/>`, first = latest(got.first_token_s.p95), long = latest(got.duration_s.p95);
  const figures = [
    ["Requests", count(all), "", rates ? perSecond(live.requests_s) : (all / seconds).toFixed(all / seconds < 10 ? 2 : 0) + "/s"],
    ["Errors", all ? ((100 * bad) / all).toFixed(bad / all < 0.1 ? 1 : 0) : none("there was no request"), all ? "%" : "", count(bad) + " failed or limited"],
    ["First token, p95", first == null ? none("no answer has begun") : span(first), "", "of the last step"],
    ["Duration, p95", long == null ? none("no answer has ended") : span(long), "", "of the last step"],
    ["Tokens", short(input + output), "", rates ? perSecond(live.input_s + live.output_s) : input + output ? Math.round((100 * input) / (input + output)) + " % input" : ""],
    ["Cache hits", input ? ((100 * sum(got.tokens.cached)) / input).toFixed(1) : none("no upstream told of tokens"), input ? "%" : "", "of input tokens"],
    ["Cost", unpriced && !sum(got.cost_usd) ? none("no price is known for what was answered") : "$" + sum(got.cost_usd).toFixed(2), "", unpriced ? plural(unpriced, "answer") + " unpriced" : "at list price"],
    ["In flight now", count((live || health).in_flight), "", count(live ? live.queue : health.queue_length) + " in the queue"],
  ];
  return html`<section class="figures" aria-label="Figures">${figures.map(([label, value, unit, below]) => html`<div class="figure"><div class="l">${label}</div><div class="v">${value}<small>${unit}</small></div><div class="d">${below}</div></div>`)}</section>`;
}

function Charts({ got }) {
  const r = got.requests, rate = (values) => values.map((value) => (value == null ? null : value / got.step_s)), at = { from: got.from, step: got.step_s };
  const outcomes = [["answered", "calm"], ["client", "info"], ["limited", "cool"], ["failed", "out"], ["left", "off"]];
  const names = { client: "client’s fault", left: "client left" };
  const legend = outcomes.map(([name, tone]) => html`<span><i class=${"b-" + tone}></i>${names[name] || name} <b>${count(sum(r[name]))}</b></span>`);
  const times = (of) => [["p50", "t3"], ["p95", "info"], ["p99", "t3"]].map(([name, tone]) => ({ name, tone, dash: name === "p99" ? "2 2" : "", values: of[name] }));
  const latest = (values) => { const value = known(values).at(-1); return value == null ? "unknown" : span(value); };
  const seconds = (value) => (value === 0 ? "0" : span(value));
  return html`<${Chart} title="Requests" aside=${legend} ...${at} stacked unit=${(value) => Number(value.toPrecision(3)) + "/s"} told=${`${count(sum(r.answered))} answered, ${count(sum(r.failed))} failed`} series=${outcomes.map(([name, tone]) => ({ name, tone, values: rate(r[name]) }))}/>
    <div class="two"><${Chart} title="First token" ...${at} unit=${seconds} told=${"p95 " + latest(got.first_token_s.p95)} series=${times(got.first_token_s)}/>
    <${Chart} title="Duration" ...${at} unit=${seconds} told=${"p95 " + latest(got.duration_s.p95)} series=${times(got.duration_s)}/></div>`;
}

function Pools({ table }) {
  const c = table.columns, upstreams = [...new Set(c.upstream)];
  const numbers = (fits) => c.state.reduce((all, state, at) => { if (fits(at)) all[state] = (all[state] || 0) + 1; return all; }, {});
  const all = numbers(() => true);
  return html`<section class="panel"><header><h2>Accounts</h2><a class="r" href="/ui/accounts">all ${count(c.name.length)}</a></header><div class="body">
    <div class="legend">${WORST.map((state) => html`<span><${Glyph} state=${state}/>${STATES[state][1]} <b>${count(all[state] || 0)}</b></span>`)}</div>
    <div class="ups">${upstreams.map((upstream) => { const own = numbers((at) => c.upstream[at] === upstream), number = sum(Object.values(own)); return html`<div class="up"><div class="row"><a class="ink cut grow" href=${"/ui/accounts?q=" + encodeURIComponent("upstream:" + upstream)}>${told(upstream)}</a><span class="num t2 sm">${count((own.active || 0) + (own.trial || 0))} of ${count(number)} can serve</span></div><${Parts} parts=${Object.keys(TONES).map((state) => [state, own[state] || 0, TONES[state]])}/></div>`; })}</div></div></section>`;
}

function Errors({ errors }) {
  const most = Object.entries(errors).sort((a, b) => b[1] - a[1]).slice(0, MOST_ERRORS), top = most.length ? most[0][1] : 1;
  return html`<section class="panel"><header><h2>Errors by kind</h2></header>${most.length ? html`<div class="body"><ul class="bars">${most.map(([kind, number]) => html`<li><a class="ink cut" href=${"/ui/requests?error=" + encodeURIComponent(kind)}>${told(kind)}</a><svg width="100%" height="8" aria-hidden="true"><rect width="100%" height="8" rx="1" class="f-sunken"/><rect width=${(100 * number) / top + "%"} height="8" rx="1" class=${"f-" + (ERRORS[kind] || "quiet")}/></svg><span class="num">${count(number)}</span></li>`)}</ul></div>` : html`<p class="empty">There was none.</p>`}</section>`;
}
