// Keys and teams: who may call, how much is left, and until when.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { html, told, count, money, clock, left, now, say, Copy, Dialog, Glyph, Unknown, banner, region } from "./kit.js";
import { Find, Icon } from "./icons.js";
import { addressed, ask, encoded, isAdmin, usePolled } from "./api.js";
import { Acts, field, useSending } from "./sending.js";

const EVERY_MS = 5000, TYPING_MS = 250, PAGE = 100;
const STATES = { active: ["ok", "active"], disabled: ["off", "disabled"], expired: ["out", "exhausted"] };
const KINDS = { requests: "requests", input_tokens: "input tokens", output_tokens: "output tokens", tokens: "tokens", cost: "cost", concurrent: "at one time" };
const WINDOWS = { hour: 3600, day: 86400, week: 7 * 86400, month: 30 * 86400 }, UNITS = { s: 1, m: 60, h: 3600, d: 86400 };
const at = (text) => (text ? Date.parse(text) / 1000 : null);
const figure = (kind, value) => (kind === "cost" ? money(value) : count(Number(value)));
const seconds = (window) => WINDOWS[window] || (/^\d+[smhd]$/.test(window || "") ? parseInt(window, 10) * UNITS[window.at(-1)] : null);
const named = (limit) => (KINDS[limit.kind] || limit.kind) + (limit.window ? ", " + limit.window : "") + (limit.share ? ", " + told(limit.share) + " of " + told(limit.upstream) : "") + (limit.models ? ", " + limit.models.map(told).join(" ") : "");
// A share of what accounts have has no amount until that is known.
const allowed = (one) => (one.state.amount == null ? null : Number(one.state.amount));
const share = (one) => { const most = allowed(one); return most == null ? 0 : most ? (Number(one.state.used) + Number(one.state.reserved)) / most : 1; };
const tightest = (limits) => limits.reduce((worst, one) => (worst && share(worst) >= share(one) ? worst : one), null);

// What is used, solid; what is reserved, paler; and the share of the window's time that is gone.
function Bar({ one, width = 80 }) {
  const most = allowed(one) ?? Infinity, used = Math.min(1, Number(one.state.used) / (most || 1)), held = Math.min(1 - used, Number(one.state.reserved) / (most || 1));
  const length = seconds(one.limit.window), resets = at(one.state.resets_at), gone = length && resets ? Math.min(1, Math.max(0, 1 - (resets - now.value) / length)) : null;
  const full = used + held, tone = full >= 1 ? "out" : full > 0.85 ? "cool" : "info", percent = Math.round(full * 100);
  return html`<svg width=${width} height="12" class=${one.limit.mode && one.limit.mode !== "enforce" ? "told-only" : ""} role="img" aria-label=${percent + " percent of " + named(one.limit)}>
    <rect x="0" y="3" width=${width} height="6" rx="1" class="f-line"/><rect x="0" y="3" width=${used * width} height="6" rx="1" class=${"f-" + tone}/><rect x=${used * width} y="3" width=${held * width} height="6" class=${"f-" + tone + " soft"}/>
    ${gone == null ? null : html`<line x1=${width * gone} x2=${width * gone} y1="0" y2="12" class="tick"/>`}</svg>`;
}
const Used = ({ one }) => html`<span class="num nowrap">${figure(one.limit.kind, one.state.used)} of ${allowed(one) == null ? "what is not known yet" : figure(one.limit.kind, allowed(one))}</span>`;
const Resets = ({ one }) => { const when = at(one.state.resets_at); return when && when > now.value ? html`<span class="num nowrap" title=${clock(when)}>${left(when - now.value)}</span>` : html`<span class="t3">—</span>`; };
const Ends = ({ one }) => { const when = at(one.state.exhausted_at); return when && when > now.value ? html`<b class="strong num nowrap err-note" title=${"at the pace of late, at " + clock(when)}>${left(when - now.value)}</b>` : html`<span class="t3">—</span>`; };
const Standing = ({ of }) => { const [tone, glyph] = STATES[of] || STATES.expired; return html`<span class=${"state " + tone}><${Glyph} state=${glyph}/><b>${told(of)}</b></span>`; };

// A key or a team that need not be on the page; null if it is gone.
const opened = (kind, name) => {
  const path = (kind === "team" ? "teams/" : "keys/") + encoded(name);
  return Promise.all([ask("GET", path), ask("GET", path + "/limits")]).then(([one, { limits }]) => ({ ...one, limits, kind }), (refused) => { if (refused.status !== 404) throw refused; return null; });
};

export function Keys({ kind, name }) {
  const [filter, setFilter] = useState(addressed("q")), [text, setText] = useState(filter.trim()), [pages, setPages] = useState([""]), [dialog, setDialog] = useState(null), [turn, setTurn] = useState(0);
  useEffect(() => { const typed = setTimeout(() => { if (filter.trim() !== text) { setText(filter.trim()); setPages([""]); } }, TYPING_MS); return () => clearTimeout(typed); }, [filter]);
  const [read, fault] = usePolled(() => Promise.all([ask("GET", `keys?state=true&limit=${PAGE}&after=${encoded(pages.at(-1))}&q=${encoded(text)}`), ask("GET", "teams?state=true"), name && opened(kind, name)]), EVERY_MS, [turn, text, pages, kind, name]);
  const [keys, { teams }, open] = read || [null, { teams: [] }], shown = keys && keys.keys, first = PAGE * (pages.length - 1);
  const again = () => setTurn(turn + 1), close = () => setDialog(null), owner = open && open.kind === kind && open.name === name && open;
  const link = (what, one) => `/ui/keys/${what}/${encoded(one)}`;
  const row = (one, what) => { const worst = tightest(one.limits); return html`<tr key=${what + one.name} aria-selected=${String(what === kind && one.name === name)}><td title=${told(one.name)}><a class="strong ink" href=${link(what, one.name)}>${told(one.name)}</a></td><td>${what === "key" ? told(one.rules.team || "") : count(one.keys) + (one.keys === 1 ? " key" : " keys")}</td><td><${Standing} of=${one.state}/></td>
    ${worst ? html`<td class="t2" title=${named(worst.limit)}>${named(worst.limit)}</td><td><${Bar} one=${worst}/></td><td class="r"><${Used} one=${worst}/></td><td class="r"><${Resets} one=${worst}/></td><td class="r"><${Ends} one=${worst}/></td>` : html`<td colspan="5" class="t3">no limit</td>`}</tr>`; };
  const table = (label, rows, what, none, total = rows.length) => html`<section class="panel gapbelow"><header><h2>${label}</h2><span class="t3 sm">${count(total)}</span></header><div class="sideways" ...${region(label)}><table class="plist keys"><thead><tr><th>${what === "key" ? "Key" : "Team"}</th><th>${what === "key" ? "Team" : "Keys"}</th><th class="w-st">State</th><th>Tightest limit</th><th class="w-bar"><span class="vh">Share</span></th><th class="r w-used">Used</th><th class="r w-t">Resets in</th><th class="r w-t" title="At the pace of late, where that is before the reset">Used up in</th></tr></thead><tbody>${rows.map((one) => row(one, what))}</tbody></table></div>${rows.length ? null : html`<p class="empty">${none}</p>`}${what === "key" && (first > 0 || keys.next) && html`<div class="tfoot"><span class="num">${count(first + 1)} to ${count(first + rows.length)}</span><span class="grow"></span>${first > 0 && html`<button class="btn quiet" onClick=${() => setPages(pages.slice(0, -1))}>Back</button>`}${keys.next && html`<button class="btn quiet" onClick=${() => setPages([...pages, keys.next])}>Further keys</button>`}</div>`}</section>`;
  return html`<div class="head"><h1>Keys and teams</h1><span class="sub num">${keys ? count(keys.total) : ""}</span>${isAdmin() && html`<div class="tools"><button class="btn" onClick=${() => setDialog({ make: "team" })}>Add a team…</button><button class="btn primary" onClick=${() => setDialog({ make: "key" })}>Make a key…</button></div>`}</div>
    ${banner(fault)}
    <div class="filters"><${Find} label="Filter keys" hint="name or team" value=${filter} set=${setFilter} wide=""/></div>
    ${!keys ? html`<p class="empty">${fault ? "" : "Loading…"}</p>` : html`<div class=${owner ? "split" : ""}><div>${table("Keys", shown, "key", text ? "No key fits the filter." : "There is no key yet: whoever reaches the gateway may call.", keys.total)}${teams.length > 0 && table("Teams", teams, "team", "")}</div>
      ${owner && html`<${Side} key=${kind + name} owner=${owner} what=${kind} ask=${setDialog} again=${again}/>`}</div>`}
    ${dialog && dialog.make && html`<${Make} what=${dialog.make} teams=${teams} onClose=${close} onDone=${(made) => { again(); setDialog(made.secret ? { secret: made } : null); }}/>`}
    ${dialog && dialog.rotate && html`<${Rotate} of=${dialog.rotate} onClose=${close} onDone=${(made) => { again(); setDialog({ secret: made }); }}/>`}
    ${dialog && dialog.secret && html`<${Secret} made=${dialog.secret} onClose=${close}/>`}
    ${dialog && dialog.limit && html`<${SetLimit} path=${dialog.limit} one=${dialog.one} onClose=${close} onDone=${() => { close(); again(); }}/>`}
    ${dialog && dialog.grant && html`<${Grant} path=${dialog.grant} one=${dialog.one} onClose=${close} onDone=${() => { close(); again(); }}/>`}`;
}

function Side({ owner, what, ask: open, again }) {
  const path = (what === "team" ? "teams/" : "keys/") + encoded(owner.name), own = owner.origin === "store" && isAdmin();
  const act = async (method, below, words) => { try { await ask(method, path + below, method === "POST" ? {} : undefined); say(words); again(); } catch (refused) { say(refused.message, null, true); } };
  const rules = Object.entries(owner.rules).filter(([field]) => !["limits", "team"].includes(field)), back = "/ui/keys";
  return html`<aside class="side" aria-label=${(what === "team" ? "Team " : "Key ") + told(owner.name)}>
    <header><div class="row"><h2 class="grow cut" title=${told(owner.name)}>${told(owner.name)}</h2><a class="btn quiet icon" href=${back} aria-label="Close"><${Icon} name="close"/></a></div>
      <div class="sm t2">${[what === "team" ? count(owner.keys) + " keys" : owner.rules.team ? "team " + told(owner.rules.team) : "no team", owner.origin === "store" ? "kept in the store" : "in the configuration file"].join(" · ")}</div>
      ${own && html`<div class="acts">${what === "key" && html`<button class="btn" onClick=${() => open({ rotate: owner.name })}>New secret…</button>${owner.state === "disabled" ? html`<button class="btn" onClick=${() => act("POST", "/enable", told(owner.name) + " is accepted again.")}>Enable</button>` : html`<button class="btn" onClick=${() => act("POST", "/disable", told(owner.name) + " is refused from here on.")}>Disable</button>`}`}<button class="btn" onClick=${() => open({ limit: path + "/limits" })}>Add a limit…</button></div>`}</header>
    <section><p><${Standing} of=${owner.state}/></p></section>
    <section><h2>Limits</h2>${owner.limits.length ? html`<ul class="limitlist">${owner.limits.map((one) => html`<li><div class="row"><b class="strong grow">${named(one.limit)}</b>${one.limit.mode && html`<span class="t3 sm">${one.limit.mode}</span>`}</div><${Bar} one=${one} width="250"/><div class="row sm t2"><${Used} one=${one}/><span class="grow"></span><span>resets in <${Resets} one=${one}/></span></div>
      ${one.limit.granted && html`<p class="sm t2">${figure(one.limit.kind, one.limit.granted)} of it granted until ${clock(at(one.limit.granted_until))}</p>`}${at(one.state.exhausted_at) > now.value && html`<p class="sm">At the pace of late it is used up in <${Ends} one=${one}/>.</p>`}
      ${own && html`<div class="row sm"><button class="link" onClick=${() => open({ limit: path + "/limits", one })}>Change…</button><button class="link" onClick=${() => open({ grant: path + "/limits/" + one.number + "/grant", one })}>Grant more…</button><button class="link" onClick=${() => act("POST", "/limits/" + one.number + "/reset", "The limit begins anew.")}>Begin anew</button><button class="link" onClick=${() => act("DELETE", "/limits/" + one.number, "The limit was removed.")}>Remove</button></div>`}</li>`)}</ul>` : html`<p class="t2">None of its own.</p>`}</section>
    ${rules.length > 0 && html`<section><h2>Rules</h2><dl class="facts left wide">${rules.map(([field, value]) => html`<dt class="mono">${field}</dt><dd class="mono">${told(typeof value === "string" ? value : JSON.stringify(value))}</dd>`)}</dl></section>`}
    ${what === "key" && html`<section><h2>Secrets</h2>${owner.secrets.length ? html`<ul class="hist plain">${owner.secrets.map((one) => html`<li><span class="mono">…${told(one.ending)}</span><span class="t2 sm">made ${clock(at(one.created))}${one.revoked ? ", ends " + clock(at(one.revoked)) : ""}</span></li>`)}</ul>` : html`<p class="t2">In the configuration file.</p>`}
      <p class="t2 sm why-p">Used last: ${owner.used ? clock(at(owner.used)) : html`<${Unknown} why="it was not used yet"/>`}</p><p class="sm why-p"><a href=${"/ui/requests?key=" + encoded(owner.name)}>Its requests</a></p></section>`}
  </aside>`;
}

// Shown once: it is in no store.
function Secret({ made, onClose }) {
  return html`<${Dialog} title=${"The secret of " + told(made.name)} onClose=${onClose}><p class="t2">This is the only time that it is shown.</p><div class="row step once"><code class="mono grow">${made.secret}</code><${Copy} text=${made.secret} label="Copy the secret"/></div><div class="acts"><button class="btn primary">Done</button></div></${Dialog}>`;
}

function Make({ what, teams, onClose, onDone }) {
  const form = useRef(null), { fault, busy, send } = useSending(onDone);
  const submit = () => {
    const get = (name) => (form.current.elements[name] ? form.current.elements[name].value.trim() : ""), models = get("models").split(/[\s,]+/).filter(Boolean);
    send(() => ask("POST", what === "team" ? "teams" : "keys", { name: get("name"), ...(get("team") ? { team: get("team") } : {}), ...(models.length ? { models } : {}) }));
  };
  return html`<${Dialog} title=${what === "team" ? "Add a team" : "Make a key"} onClose=${onClose} form=${form} onSubmit=${submit}>
    ${field("name", "Name", { required: true, maxlength: 100 })}
    ${what === "key" && html`${field("team", "Team; empty for none", { list: "k-teams" })}<datalist id="k-teams">${teams.map((one) => html`<option value=${one.name}/>`)}</datalist>`}
    ${field("models", "Models it may ask for, * allowed; empty for all")}
    <${Acts} fault=${fault} word=${what === "team" ? "Add" : "Make"} busy=${busy} onClose=${onClose}/></${Dialog}>`;
}

function Rotate({ of, onClose, onDone }) {
  const hours = useRef(null), { fault, busy, send } = useSending(onDone);
  const submit = () => { send(() => ask("POST", "keys/" + encoded(of) + "/rotate", { grace_s: 3600 * Number(hours.current.value) })); };
  return html`<${Dialog} title=${"Another secret for " + told(of)} onClose=${onClose} onSubmit=${submit}><p class="t2">The new one is shown once. The one there is goes on for a while, so that clients can be changed.</p>
    ${field("hours", "Hours until the former ends", { type: "number", min: 0, max: 720, step: "any", required: true, ref: hours, defaultValue: 24 })}<${Acts} fault=${fault} word="Make it" busy=${busy} onClose=${onClose}/></${Dialog}>`;
}

// A limit that is new, or another for `one`: of that is told what it would have done before it is kept.
function SetLimit({ path, one, onClose, onDone }) {
  const form = useRef(null), [past, setPast] = useState(null), { fault, busy, send } = useSending((next) => next()), old = one ? one.limit : { window: "day" }, none = one ? null : undefined;
  const choice = (name, label, all) => html`<label for=${name}>${label}</label><select id=${name} name=${name} class="field">${all.map(([value, words]) => html`<option value=${value} selected=${value === (old[name] || "")}>${words}</option>`)}</select>`;
  const submit = () => {
    const get = (name) => form.current.elements[name].value.trim(), kind = get("kind"), amount = get("amount"), isShare = amount.endsWith("%"), mode = get("mode");
    const made = { kind, amount: isShare ? none : kind === "cost" ? amount : Number(amount), share: isShare ? amount : none, upstream: isShare ? get("upstream") : none, window: kind === "concurrent" ? none : get("window"), mode: mode || none };
    send(async () => {
      if (one && !past) { const found = await ask("POST", path + "/simulate", { ...old, ...made }); return () => setPast({ ...found, kind }); }
      await ask(one ? "PATCH" : "POST", path + (one ? "/" + one.number : ""), made);
      return onDone;
    });
  };
  return html`<${Dialog} title=${(one ? "Change" : "Add") + " a limit"} onClose=${onClose} form=${form} onInput=${() => setPast(null)} onSubmit=${submit}>
    <div class="pair"><div>${choice("kind", "Of", Object.entries(KINDS))}</div><div>${field("amount", "Amount; a cost in US dollars, or 40%", { required: true, inputmode: "decimal", defaultValue: old.share || old.amount })}</div></div>
    <div class="pair"><div>${field("window", "Within: 1m, 5h, day, month, total", { defaultValue: old.window })}</div><div>${choice("mode", "What exceeds it", [["", "is refused"], ["soft", "is told (soft)"], ["shadow", "is counted only (shadow)"]])}</div></div>
    ${field("upstream", "Of a share of the cost: the upstream whose accounts have it, within 5h or 7d", { defaultValue: old.upstream })}
    <p role="status">${past && (past.over == null ? "Use is kept by the hour: of this limit it tells nothing." : `In the last 7 days ${past.over ? `it would have been exceeded in ${count(past.over)} of ${count(past.hours)} hours with use, first ${clock(at(past.first))}` : "it would have refused nothing"}; the most within its window was ${figure(past.kind, past.most)}.`)}</p>
    <${Acts} fault=${fault} word=${past ? "Save" : one ? "Look at the last 7 days" : "Add"} busy=${busy} onClose=${onClose}/></${Dialog}>`;
}

function Grant({ path, one, onClose, onDone }) {
  const amount = useRef(null), { fault, busy, send } = useSending(onDone);
  const submit = () => { const text = amount.current.value.trim(); send(() => ask("POST", path, { amount: one.limit.kind === "cost" ? text : Number(text) })); };
  return html`<${Dialog} title="Grant more" onClose=${onClose} onSubmit=${submit}><p class="t2">Beside the ${one.limit.share ? told(one.limit.share) : figure(one.limit.kind, one.limit.amount)} of “${named(one.limit)}”, until the present window ends.</p>
    ${field("amount", "How much more", { ref: amount, required: true, inputmode: "decimal" })}<${Acts} fault=${fault} word="Grant it" busy=${busy} onClose=${onClose}/></${Dialog}>`;
}
