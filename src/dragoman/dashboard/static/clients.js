// Clients: how each is pointed at this instance, and what it loses.
import { useEffect, useState } from "./vendor/hooks.js";
import { html, told, count, clock, Copy, Glyph, banner } from "./kit.js";
import { ask, isAdmin } from "./api.js";
import { useFollowed } from "./sending.js";

const ORDER = ["broken", "warning", "not_seen", "ok"];
const WORDS = { broken: ["err", "bad", "broken"], warning: ["cool", "cooling", "warning"], not_seen: ["off", "disabled", "not seen"], ok: ["ok", "active", "ok"] };
// Of the marks of the guides' text only that of code is used.
const plain = (text) => text.split(/(`[^`]+`)/).map((part) => (part.startsWith("`") && part.length > 1 ? html`<code class="mono">${part.slice(1, -1)}</code>` : part));
const slug = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, "-");

export function Clients({ name }) {
  const query = new URLSearchParams(location.search);
  const [model, setModel] = useState(query.get("model") || ""), [address, setAddress] = useState(location.origin), [got, setGot] = useState(null), [fault, setFault] = useState(""), [seen, setSeen] = useState(null);
  useEffect(() => {
    let held = true;
    ask("GET", "guides?" + new URLSearchParams({ url: address, ...(model ? { model } : {}) })).then((found) => { if (held) { setGot(found); setFault(""); } }, (refused) => { if (held) setFault(refused.message); });
    return () => { held = false; };
  }, [model, address]);
  const guides = got ? got.guides : [], guide = guides.find((one) => slug(one.name) === name) || guides[0];
  useEffect(() => {
    if (!guide) return;
    let held = true;
    setSeen(null);
    ask("GET", "requests?" + new URLSearchParams({ client: guide.name, limit: "1", from: String(Math.floor(Date.now() / 1000 - 7 * 86400)) })).then((found) => { if (held) setSeen(found.rows); }, () => null);
    return () => { held = false; };
  }, [guide && guide.name]);
  const link = (one) => "/ui/clients/" + slug(one.name) + (model ? "?model=" + encodeURIComponent(model) : "");
  const follows = (event) => { const to = guides.find((one) => slug(one.name) === event.target.value); history.pushState(null, "", link(to)); dispatchEvent(new PopStateEvent("popstate")); };
  return html`<div class="head"><h1>Clients</h1><span class="sub not-phone">how each is pointed at this instance</span></div>
    <div class="wbtop"><label for="gmodel">Model</label><span class="field opt"><input id="gmodel" list="gmodels" placeholder=${got ? told(got.model) : ""} value=${model} onChange=${(event) => setModel(event.target.value.trim())}/></span><datalist id="gmodels">${got && got.models.map((one) => html`<option value=${one}/>`)}</datalist>
      <label for="gurl">Address</label><span class="field opt"><input id="gurl" type="url" value=${address} onChange=${(event) => setAddress(event.target.value.trim() || location.origin)}/></span><span class="t3 sm">The key stays in <code class="mono">DRAGOMAN_KEY</code>.</span></div>
    ${banner(fault)}
    ${!guide ? html`<p class="empty">${fault ? "" : "Loading…"}</p>` : html`<div class="clients">
      <nav class="panel clist not-phone" aria-label="Clients"><ul>${guides.map((one) => html`<li><a href=${link(one)} aria-current=${one === guide ? "page" : null}>${one.name}<span class="sm" title=${one.speaks.join(", ")}>${one.speaks.map((word) => word[0]).join(" ")}</span></a></li>`)}</ul></nav>
      <div class="only-phone pick"><label class="vh" for="client">Client</label><select id="client" class="btn" onChange=${follows}>${guides.map((one) => html`<option value=${slug(one.name)} selected=${one === guide}>${one.name}</option>`)}</select></div>
      <div class="stack">
        <section class="panel"><header><h2>${guide.name}</h2><span class="t3 sm">speaks ${guide.speaks.join(", ")}</span></header>
          ${guide.setup.map((step) => html`<div class="step"><div class="row"><span class="t2 sm mono">${step.where}</span><${Copy} text=${step.text} label=${"Copy " + step.where}/></div><pre tabindex="0">${step.text}</pre></div>`)}</section>
        <section class="panel"><header><h2>What to expect</h2></header><div class="body"><dl class="expects">
          <dt>Works</dt><dd>${plain(guide.works)}</dd><dt>Lost</dt><dd>${plain(guide.lost)}</dd>${guide.notes && html`<dt>Note</dt><dd>${plain(guide.notes)}</dd>`}
          <dt>Seen here</dt><dd>${seen === null ? html`<span class="t3">not known</span>` : seen.length ? html`<a href=${"/ui/requests?client=" + encodeURIComponent(guide.name)}>last ${clock(seen[0].at)}, of ${told(seen[0].key) || "nobody"}</a>` : "Not in the last seven days."}</dd></dl></div></section>
        ${isAdmin() && html`<${Doctor} model=${model || got.model}/>`}
      </div></div>`}`;
}

function Doctor({ model }) {
  const { lines, fault, busy, start, stop } = useFollowed(), [all, setAll] = useState(false);
  const checks = lines.filter((line) => line.check).sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  const doing = lines.filter((line) => line.doing).at(-1), failed = lines.find((line) => line.failed);
  const numbers = ORDER.map((state) => [state, checks.filter((one) => one.state === state).length]).filter(([, n]) => n);
  const shown = all ? checks : checks.filter((one) => ["broken", "warning"].includes(one.state));
  return html`<section class="panel"><header><h2>Doctor</h2><span class="t3 sm">plays the clients of all protocols against this instance, with a key of its own; about 15 short answers</span><span class="r row">${busy ? html`<button class="btn" onClick=${stop}>Stop</button>` : html`<button class="btn" onClick=${() => start("doctor", { model })}>Run for ${told(model)}</button>`}</span></header>
    ${(fault || failed) && html`<p class="note err-note" role="alert">${told(fault || failed.failed)}</p>`}
    <div role="status" class="note" hidden=${!busy && !checks.length}>${busy && !checks.length ? (doing ? told(doing.doing) : "Making a key…") : html`<span class="row">${numbers.map(([state, n]) => html`<span class=${"state " + WORDS[state][0]}><${Glyph} state=${WORDS[state][1]}/><b>${count(n)}</b> ${WORDS[state][2]}</span>`)}</span>`}</div>
    ${shown.length > 0 && html`<ul class="checks">${shown.map((one) => html`<li key=${one.check}><${Glyph} state=${WORDS[one.state][1]}/><div><b class="strong">${one.what}</b> <span class="t3 sm mono">${one.check}</span>${one.problem && html`<div class="t2">${told(one.problem)}</div>`}${["broken", "warning"].includes(one.state) && html`<div class="sm t2">Breaks: ${one.breaks}.</div><div class="sm t2">Do: ${one.remedy}.</div>`}</div></li>`)}</ul>`}
    ${checks.length > 0 && html`<div class="note"><button class="btn quiet" aria-pressed=${String(all)} onClick=${() => setAll(!all)}>${all ? "Show what is wrong only" : "Show all checks"}</button></div>`}</section>`;
}
