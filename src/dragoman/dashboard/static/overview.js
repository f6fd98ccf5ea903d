// Overview: does anything need me, and is it as it was?
import { useState } from "./vendor/hooks.js";
import { html, told, count, short, span, left, clock, now, Glyph, Pair, Unknown, STATES } from "./kit.js";
import { Chart, Parts, Spark } from "./charts.js";
import { addressed, ask, encoded, useAddress, useEvents, usePolled, useSoon } from "./api.js";

const SPANS = { "15 min": 900, "1 h": 3600, "6 h": 21600, "24 h": 86400, "7 d": 604800 };
const SOON_MS = 5000, EVERY_MS = 10000, MOST_ERRORS = 8, MOST_LOST = 6, MOST_NEEDS = 6, RESTING = 0.25;
const WORST = ["active", "cooling", "exhausted", "disabled"];
const TONES = { active: "calm", trial: "info", cooling: "cool", exhausted: "out", disabled: "off" };
const ERRORS = { rate_limited: "cool", no_account: "out", overloaded: "out", upstream: "out", timeout: "out" };

const sum = (values) => values.reduce((all, value) => all + (Number(value) || 0), 0);
const known = (values) => values.filter((value) => value != null);
const date = (text) => (text ? Date.parse(text) / 1000 : NaN);
const plural = (number, one) => count(number) + " " + one + (number === 1 ? "" : "s");

// How many accounts of an upstream are how: those on trial apart.
function standing(health, upstream) {
  const trials = health.trials[upstream], states = Object.entries(health.accounts[upstream]).map(([state, number]) => [state, number - (trials[state] || 0)]);
  return { ...Object.fromEntries(states), trial: sum(Object.values(trials)) };
}

// What is not as it should be, in words, each with where to look.
function attention(health, keys, teams) {
  const found = [];
  for (const upstream of Object.keys(health.accounts)) {
    const { exhausted: out, disabled: refused, cooling: rests, ...others } = standing(health, upstream), all = out + refused + rests + sum(Object.values(others)), back = health.back_at[upstream];
    const tell = (state, number, words) => found.push([state, html`${count(number)} of ${plural(all, "account")} of <b class="strong">${told(upstream)}</b> ${words}`, "/ui/accounts?q=" + encoded(`upstream:${upstream} state:${state}`)]);
    const are = (number) => (number === 1 ? "is" : "are");
    if (out) tell("exhausted", out, are(out) + " out." + (back.exhausted ? ` The first is back at ${clock(back.exhausted)}.` : ""));
    if (rests >= RESTING * all && rests > 1) tell("cooling", rests, `are cooling. The first is back in ${left(Math.max(0, back.cooling - now.value))}.`);
    if (refused) tell("disabled", refused, are(refused) + " disabled.");
  }
  for (const [kind, owners] of [["key", keys], ["team", teams]])
    for (const owner of owners) for (const { limit, state } of owner.limits) {
      const ends = date(state.exhausted_at), resets = date(state.resets_at);
      if (ends > now.value && !(resets < ends)) found.push(["trial", html`At the pace of late ${kind} <b class="strong">${told(owner.name)}</b> uses up its ${told(limit.kind.replace("_", " "))} of ${told(limit.window || "all time")} in ${left(ends - now.value)}.`, `/ui/keys/${kind}/${encoded(owner.name)}`, "Show limits"]);
    }
  if (health.store === "failing") found.push(["exhausted", html`The store cannot be used; what happens is kept in memory until it can.`, null]);
  if (health.limits === "away") found.push(["exhausted", html`The database in which machines share limits is away.`, null]);
  return found;
}

export function Overview() {
  const [length, setLength] = useState(() => Object.keys(SPANS).find((name) => name.replace(" ", "") === addressed("t")) || "1 h"), [upstream, setUpstream] = useState(() => addressed("upstream")), [compares, setCompares] = useState(() => Boolean(addressed("vs")));
  useAddress({ t: length === "1 h" ? "" : length.replace(" ", ""), upstream, vs: compares ? "1" : "" });
  const [read, fault, load] = usePolled(() => {
    const to = Math.floor(Date.now() / 1000), from = to - SPANS[length], only = upstream ? "&upstream=" + encoded(upstream) : "";
    return Promise.all([ask("GET", `series?from=${from}${only}`), ask("GET", `series?from=${from - SPANS[length]}&to=${from}${only}`), ask("GET", "health"), ask("GET", `losses?from=${from}&by=client,pair,path`), ask("GET", "keys?ending=true"), ask("GET", "teams?ending=true")]);
  }, EVERY_MS, [length, upstream]);
  const [second, setSecond] = useState(null);
  // A slot of the series, or an account whose state has changed: the rest is asked for then.
  const soon = useSoon(load, SOON_MS), stands = useEvents("topics=now,point,accounts,attention", { now: setSecond, point: soon, accounts: soon, attention: soon });
  const [got, before, health, lost, { keys } = {}, { teams } = {}] = read || [];
  const upstreams = health ? Object.keys(health.accounts) : [];
  const head = html`<div class="head"><h1>Overview</h1>${got && html`<span class="sub not-phone">${clock(got.from)} to ${clock(now.value)}</span>`}<div class="tools"><div class="seg" role="group" aria-label="Time">${Object.keys(SPANS).map((name, i) => html`<button data-key=${String(i + 1)} aria-pressed=${String(name === length)} onClick=${() => setLength(name)}>${name}</button>`)}</div>
      <select class="btn" aria-label="Upstream" onChange=${(event) => setUpstream(event.target.value)}><option value="">All upstreams</option>${upstreams.map((name) => html`<option value=${name} selected=${name === upstream}>${told(name)}</option>`)}</select>
      <button class="btn" aria-pressed=${String(compares)} onClick=${() => setCompares(!compares)}>Compare</button></div></div>
    ${fault && html`<p class="banner" role="alert">Not live: ${fault}</p>`}`, live = stands && !upstream ? second : null;
  if (!got) return html`${head}<p class="empty" aria-busy="true">${fault ? "" : "Loading…"}</p>`;
  const needs = attention(health, keys, teams), shown = needs.slice(0, MOST_NEEDS);
  return html`${head}
    ${needs.length ? html`<ul class="attention" aria-label="What needs somebody">${shown.map(([state, text, link, words]) => html`<li><${Glyph} state=${state}/><span class="grow">${text}</span>${link && html`<a class="go" href=${link}>${words || "Show accounts"}</a>`}</li>`)}${needs.length > shown.length && html`<li><span class="grow t3">and ${count(needs.length - shown.length)} more</span></li>`}</ul>` : html`<p class="banner quiet">Nothing needs you.</p>`}
    <${Figures} got=${got} before=${before} health=${health} live=${live}/>
    <div class="cols"><div class="stack"><${Charts} got=${got} before=${compares ? before : null}/></div><div class="stack"><${Pools} health=${health}/><${Errors} errors=${got.errors}/><${Lost} lost=${lost}/></div></div>`;
}

// What a time comes to, in one number each; null where nothing tells it.
function totals(got) {
  const r = got.requests, all = sum(Object.values(r).flat()), seconds = Math.max(1, known(r.answered).length * got.step_s);
  const latest = (values) => known(values).at(-1), fresh = sum(got.tokens.input), cached = sum(got.tokens.cached), output = sum(got.tokens.output);
  return { all, bad: sum(r.failed) + sum(r.limited), seconds, first: latest(got.first_token_s.p95), long: latest(got.duration_s.p95), input: fresh + cached, cached, output, tokens: fresh + cached + output, cost: sum(got.cost_usd), unpriced: sum(got.unpriced) };
}

function Figures({ got, before, health, live }) {
  const rates = live && live.requests_s != null, perSecond = (n) => (n < 10 ? n.toFixed(2) : short(n)) + "/s";
  const is = totals(got), was = totals(before), none = (why) => html`<${Unknown} why=${why}/>`, r = got.requests, t = got.tokens;
  const percent = (part, all) => ((100 * part) / all).toFixed(part / all < 0.1 ? 1 : 0), each = (of) => r.answered.map((value, at) => (value == null ? null : of(at)));
  const ago = (value, words) => (was.all && value != null ? words(value) + " before" : null), parts = Object.values(r), gone = (at) => parts.reduce((all, one) => all + one[at], 0);
  const figures = [
    ["Requests", count(is.all), "", rates ? perSecond(live.requests_s) + " now" : ago(was.all / was.seconds, perSecond) || perSecond(is.all / is.seconds), each(gone)],
    ["Errors", is.all ? percent(is.bad, is.all) : none("there was no request"), is.all ? "%" : "", ago(was.all && percent(was.bad, was.all), (value) => value + " %") || count(is.bad) + " failed or limited", each((at) => r.failed[at] + r.limited[at])],
    ["First token, p95", is.first == null ? none("no answer has begun") : span(is.first), "", ago(was.first, span) || "of the last step", got.first_token_s.p95],
    ["Duration, p95", is.long == null ? none("no answer has ended") : span(is.long), "", ago(was.long, span) || "of the last step", got.duration_s.p95],
    ["Tokens", short(is.tokens), "", rates ? perSecond(live.input_s + live.output_s) + " now" : is.tokens ? percent(is.input, is.tokens) + " % input" : "", each((at) => t.input[at] + t.cached[at] + t.output[at])],
    ["Cache hits", is.input ? ((100 * is.cached) / is.input).toFixed(1) : none("no upstream told of tokens"), is.input ? "%" : "", "of input tokens", each((at) => (t.input[at] + t.cached[at] ? t.cached[at] / (t.input[at] + t.cached[at]) : 0))],
    ["Cost", is.unpriced && !is.cost ? none("no price is known for what was answered") : "$" + is.cost.toFixed(2), "", is.unpriced ? plural(is.unpriced, "answer") + " unpriced" : ago(was.cost, (value) => "$" + value.toFixed(2)) || "at list price", got.cost_usd.map((value) => (value == null ? null : Number(value)))],
    ["In flight now", count((live || health).in_flight), "", count(live ? live.queue : health.queue_length) + " in the queue", null],
  ];
  return html`<section class="figures" aria-label="Figures">${figures.map(([label, value, unit, below, values]) => html`<div class="figure"><div class="l">${label}</div><div class="v">${value}<small>${unit}</small></div><div class="d">${below}</div>${values && known(values).length > 1 ? html`<${Spark} values=${values} wide=${110} high=${22}/>` : html`<div class="spark"></div>`}</div>`)}</section>`;
}

function Charts({ got, before }) {
  const r = got.requests, rate = (values) => values.map((value) => (value == null ? null : value / got.step_s)), at = { from: got.from, step: got.step_s };
  const outcomes = [["answered", "calm"], ["client", "info"], ["limited", "cool"], ["failed", "out"], ["left", "off"]];
  const names = { client: "client’s fault", left: "client left" };
  const legend = (parts, values) => parts.map(([name, tone]) => html`<span><i class=${"b-" + tone}></i>${names[name] || name} <b>${values(name)}</b></span>`);
  // The time before has as many steps, but for the one that is not over.
  const fit = (values) => [...values.slice(0, r.answered.length), ...new Array(Math.max(0, r.answered.length - values.length)).fill(null)];
  const times = (of) => [["p50", "t3"], ["p95", "info"], ["p99", "t3"]].map(([name, tone]) => ({ name, tone, dash: name === "p99" ? "2 2" : "", values: got[of][name] })).concat(before ? [{ name: "before", tone: "t3", dash: "5 3", values: fit(before[of].p95) }] : []);
  const latest = (values) => { const value = known(values).at(-1); return value == null ? "unknown" : span(value); };
  const seconds = (value) => (value === 0 ? "0" : span(value)), tokens = [["cached", "info soft"], ["input", "info mid"], ["output", "info"]];
  const hourly = (of) => of.cost_usd.map((value) => (value == null ? null : (Number(value) * 3600) / of.step_s)), spent = hourly(got);
  return html`<${Chart} title="Requests" aside=${legend(outcomes, (name) => count(sum(r[name])))} ...${at} stacked marks=${got.marks} unit=${(value) => Number(value.toPrecision(3)) + "/s"} told=${`${count(sum(r.answered))} answered, ${count(sum(r.failed))} failed`} series=${outcomes.map(([name, tone]) => ({ name, tone, values: rate(r[name]) }))}/>
    <div class="two"><${Chart} title="First token" ...${at} log unit=${seconds} told=${"p95 " + latest(got.first_token_s.p95)} series=${times("first_token_s")}/>
    <${Chart} title="Duration" ...${at} log unit=${seconds} told=${"p95 " + latest(got.duration_s.p95)} series=${times("duration_s")}/></div>
    <div class="two"><${Chart} title="Tokens" aside=${legend(tokens, (name) => short(sum(got.tokens[name])))} ...${at} stacked unit=${(value) => short(value) + "/s"} told=${short(sum(got.tokens.output)) + " of output"} series=${tokens.map(([name, tone]) => ({ name, tone, values: rate(got.tokens[name]) }))}/>
    <${Chart} title="Cost" aside="at list price" ...${at} unit=${(value) => "$" + Number(value.toPrecision(2)) + "/h"} told=${"$" + sum(got.cost_usd).toFixed(2)} series=${[{ name: "", tone: "info", values: spent }, ...(before ? [{ name: "before", tone: "t3", dash: "5 3", values: fit(hourly(before)) }] : [])]}/></div>`;
}

function Lost({ lost }) {
  const rows = lost.rows.slice(0, MOST_LOST);
  return html`<section class="panel"><header><h2>Lost in translation</h2><a class="r" href="/ui/losses">all losses</a></header>${rows.length ? html`<div class="body"><ul class="bars">${rows.map((row) => html`<li class="gone"><a class="ink cut" href=${"/ui/losses?" + new URLSearchParams({ client: row.client, pair: row.pair })} title=${told(row.client + " " + row.path)}>${row.client === "(none)" ? html`<span class="t3">not told</span>` : told(row.client)} <code class="t3">${told(row.path)}</code></a><${Pair} of=${row.pair}/><span class="num">${count(row.requests)}</span></li>`)}</ul></div>` : html`<p class="empty">Nothing was lost.</p>`}</section>`;
}

function Pools({ health }) {
  const upstreams = Object.keys(health.accounts), of = upstreams.map((upstream) => standing(health, upstream));
  const all = (state) => sum(of.map((own) => own[state]));
  return html`<section class="panel"><header><h2>Accounts</h2><a class="r" href="/ui/accounts">all ${count(sum(Object.keys(TONES).map(all)))}</a></header><div class="body">
    <div class="legend">${WORST.map((state) => html`<span><${Glyph} state=${state}/>${STATES[state][1]} <b>${count(all(state))}</b></span>`)}</div>
    <div class="ups">${upstreams.map((upstream, at) => html`<div class="up"><div class="row"><a class="ink cut grow" href=${"/ui/accounts?q=" + encoded("upstream:" + upstream)}>${told(upstream)}</a><span class="num t2 sm">${count(of[at].active + of[at].trial)} of ${count(sum(Object.values(of[at])))} can serve</span></div><${Parts} parts=${Object.keys(TONES).map((state) => [state, of[at][state], TONES[state]])}/></div>`)}</div></div></section>`;
}

function Errors({ errors }) {
  const most = Object.entries(errors).sort((a, b) => b[1] - a[1]).slice(0, MOST_ERRORS), top = most.length ? most[0][1] : 1;
  return html`<section class="panel"><header><h2>Errors by kind</h2></header>${most.length ? html`<div class="body"><ul class="bars">${most.map(([kind, number]) => html`<li><a class="ink cut" href=${"/ui/requests?error=" + encoded(kind)}>${told(kind)}</a><svg width="100%" height="8" aria-hidden="true"><rect width="100%" height="8" rx="1" class="f-sunken"/><rect width=${(100 * number) / top + "%"} height="8" rx="1" class=${"f-" + (ERRORS[kind] || "quiet")}/></svg><span class="num">${count(number)}</span></li>`)}</ul></div>` : html`<p class="empty">There was none.</p>`}</section>`;
}
