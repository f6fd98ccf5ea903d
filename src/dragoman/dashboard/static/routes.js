// Models and routes: where would this name go, and why?
import { useEffect, useState } from "./vendor/hooks.js";
import { html, told, count, Protocol, Unknown, banner, region } from "./kit.js";
import { Find } from "./icons.js";
import { ask } from "./api.js";

const WAIT_MS = 150;
const ORIGINS = { options: "[options]", upstream: "its upstream", route: "its route", known: "known of the service" };
const nth = (n) => n + (["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] || "th");
const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

export function Routes() {
  const query = new URLSearchParams(location.search);
  const [model, setModel] = useState(query.get("model") || ""), [key, setKey] = useState(query.get("key") || "");
  const [got, setGot] = useState(null), [all, setAll] = useState(null), [fault, setFault] = useState("");
  useEffect(() => { ask("GET", "routes").then(setAll, (refused) => setFault(refused.message)); }, []);
  useEffect(() => {
    const name = model.trim(), whose = key.trim(), url = new URL("/ui/routes", location.href);
    if (name) url.searchParams.set("model", name);
    if (whose) url.searchParams.set("key", whose);
    if (location.pathname === url.pathname) history.replaceState(null, "", url);
    if (!name) { setGot(null); return; }
    let held = true;
    const soon = setTimeout(() => ask("GET", "explain?" + new URLSearchParams({ model: name, ...(whose ? { key: whose } : {}) })).then((found) => { if (held) { setGot(found); setFault(""); } }, (refused) => { if (held) setFault(refused.message); }), WAIT_MS);
    return () => { held = false; clearTimeout(soon); };
  }, [model, key]);
  return html`<div class="head"><h1>Models and routes</h1><span class="sub not-phone">where a name goes, and why</span></div>
    <div class="filters"><${Find} label="Model" hint="a model, as a client names it" value=${model} set=${setModel}/>
      <${Find} label="Name of a key" hint="any key" value=${key} set=${setKey} wide=""/></div>
    ${banner(fault)}
    <div aria-live="polite">${got && model.trim() && html`<${Explained} got=${got} all=${all}/>`}</div>
    <${Table} all=${all} matched=${got && model.trim() && got.route} onPick=${setModel}/>`;
}

function Explained({ got, all }) {
  if (!got.found) return html`<p class="banner">No route fits <b class="strong">${told(got.model)}</b>, and it begins with no upstream's name: a client is told that there is no such model.</p>`;
  const [first, ...others] = got.destinations;
  const why = got.route ? html`the ${nth(got.route.number)} route${all && all.routes.length > 1 ? " of " + all.routes.length : ""}, <code class="mono">${told(got.route.match)}</code>, is the first that fits` : html`the name begins with the upstream's`;
  return html`<div class="cols gapbelow"><div class="stack">
      <section class="panel"><header><h2>Where it goes</h2></header>
        <ol class="steps">
          ${got.permission && html`<li class=${got.permission.allowed ? "" : "err-note"}><b class="strong">${told(got.permission.key)}</b> ${got.permission.allowed ? "may ask for it" : "may not ask for it. " + told(got.permission.reason)}</li>`}
          ${got.name !== got.model && html`<li><span class="t2">stands for</span> <b class="strong">${told(got.name)}</b></li>`}
          <li><span class="t2">since</span> ${why}</li>
          <${Destination} at=${first} word="goes to"/>
          ${others.map((one) => html`<${Destination} at=${one} word="else to"/>`)}
          ${got.with_tools_and_thinking.slice(0, 1).map((one) => html`<${Destination} at=${one} word="with tools and thinking, to"/>`)}
        </ol></section>
      <${Prices} got=${got}/>
    </div><div class="stack">
      <${Settings} title="Options" values=${[{ name: "policy", value: got.policy, origin: got.options.some((one) => one.name === "policy") ? "" : "by default" }, ...got.options.filter((one) => one.name !== "policy")]}/>
      <${Settings} title="What the upstream can do" values=${got.capabilities}/>
    </div></div>`;
}

const Destination = ({ at, word }) => html`<li><span class="t2">${word}</span> <a class="strong ink" href=${"/ui/accounts?q=" + encodeURIComponent("upstream:" + at.upstream)}>${told(at.upstream)}</a> <${Protocol} name=${at.protocol}/> <span class="t2">as</span> <code class="mono">${told(at.model)}</code> <span class=${"num nowrap sm " + (at.usable ? "t2" : "err-note")}>${count(at.usable)} of ${count(at.accounts)} accounts can serve</span></li>`;

function Settings({ title, values }) {
  return html`<section class="panel"><header><h2>${title}</h2><span class="t3 sm">what is not as by default</span></header><div class="body">
    ${values.length ? html`<dl class="settings">${values.map((one) => html`<div><dt class="mono">${one.name}</dt><dd><span class="mono strong">${told(written(one.value))}</span>${one.origin && html` <span class="t3 sm">${ORIGINS[one.origin] || one.origin}</span>`}</dd></div>`)}</dl>` : html`<p class="t2">All as by default.</p>`}</div></section>`;
}

function Prices({ got }) {
  const cell = (price) => ["input", "cached", "cache_write", "output"].map((name) => html`<td class="r num">${price[name]}</td>`);
  const when = (price) => [price.tier && price.tier + " tier", price.above && "prompts above " + count(price.above), price.hours, price.since && "since " + price.since].filter(Boolean).join(", ") || "always";
  return html`<section class="panel"><header><h2>Price</h2><span class="t3 sm">US dollars for a million tokens</span></header>
    <div class="sideways" ...${region("Prices")}><table class="plist"><thead><tr><th>Upstream</th><th>When</th><th class="r">In</th><th class="r">Cached</th><th class="r">Written</th><th class="r">Out</th></tr></thead>
    <tbody>${got.destinations.map((at) => (at.prices.length ? at.prices.map((price) => html`<tr><td>${told(at.upstream)}</td><td>${when(price)}</td>${cell(price)}</tr>`) : html`<tr><td>${told(at.upstream)}</td><td colspan="5"><${Unknown} why="no price is known for this model"/> <span class="t2">no price: counted as unpriced</span></td></tr>`))}</tbody></table></div></section>`;
}

function Table({ all, matched, onPick }) {
  if (!all) return null;
  const names = Object.entries(all.aliases);
  return html`<section class="panel"><header><h2>Routes</h2><span class="t3 sm">${count(all.routes.length)}, the first that fits is taken</span></header>
    <div class="sideways" ...${region("Routes")}><table class="plist"><thead><tr><th class="r w-nth">#</th><th>Name</th><th>Upstream</th><th>As</th><th>Else</th><th>Policy</th></tr></thead>
    <tbody>${all.routes.map((one, at) => html`<tr aria-current=${matched && matched.number === at + 1 ? "true" : null}><td class="r num t3">${at + 1}</td><td class="mono">${one.match.includes("*") ? told(one.match) : html`<button class="link" onClick=${() => onPick(one.match)}>${told(one.match)}</button>`}</td><td>${told(one.upstream)}</td><td class="mono">${one.model ? told(one.model) : html`<span class="t3">the same</span>`}</td><td class="whole">${one.fallbacks.map(told).join(", ") || html`<span class="t3">nothing</span>`}</td><td>${one.policy}</td></tr>`)}</tbody></table></div>
    ${names.length > 0 && html`<div class="body"><p class="t2">${names.map(([name, of], at) => html`${at ? ", " : ""}<button class="link mono" onClick=${() => onPick(name)}>${told(name)}</button> stands for <span class="mono">${told(of)}</span>`)}</p></div>`}</section>`;
}
