// Workbench: what would become of this request, and what each policy says of it.
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { html, told, count, Copy, Dialog, Glyph, LossKind, Protocol, PROTOCOLS, banner, region } from "./kit.js";
import { addressed, ask, isAdmin, text } from "./api.js";
import { EXAMPLES } from "./examples.js";
import { Frames } from "./frames.js";
import { coloured, lineOf, linesOf } from "./lines.js";

const POLICIES = ["strict", "balanced", "lenient"], SOON_MS = 200;
const LETTERS = { knob: "K", converted: "C", repaired: "R", content: "X" }, WORST = ["content", "converted", "repaired", "knob"];
const PATHS = { "/chat/completions": "openai_chat", "/messages": "anthropic_messages", "/responses": "openai_responses" };
const begun = () => { const wanted = addressed("example"); return EXAMPLES[wanted] ? wanted : Object.keys(EXAMPLES)[0]; };
const written = (value) => JSON.stringify(value, null, 2);

// By what only one protocol has; Chat is what is left.
function spoken(request) {
  if (!request || typeof request !== "object") return "openai_chat";
  if ("input" in request || "instructions" in request) return "openai_responses";
  const parts = (request.messages || []).flatMap((one) => (one && Array.isArray(one.content) ? one.content : []));
  const own = ["system", "stop_sequences", "thinking", "top_k"].some((key) => key in request) || parts.some((one) => one && ["tool_use", "tool_result", "image", "document", "thinking"].includes(one.type)) || (request.tools || []).some((one) => one && one.input_schema);
  return own ? "anthropic_messages" : "openai_chat";
}
// A command line: its body and its path are taken; the keys in its headers are not.
function pasted(text) {
  if (!/^\s*curl\b/.test(text)) return { body: text };
  const data = text.match(/(?:-d|--data(?:-raw|-binary)?|--json)[\s=]+(?:'((?:[^']|'\\'')*)'|"((?:[^"\\]|\\[^])*)")/);
  const path = Object.keys(PATHS).find((one) => text.includes(one));
  const body = data ? (data[1] !== undefined ? data[1].replace(/'\\''/g, "'") : data[2].replace(/\\(["\\$`])/g, "$1")) : "";
  return { body, from: path && PATHS[path], cut: /authorization|x-api-key/i.test(text) };
}
function faultIn(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (fault) {
    const at = /position (\d+)/.exec(fault.message), before = at ? text.slice(0, Number(at[1])).split("\n") : null;
    return "This is not JSON" + (before ? `: line ${before.length}, column ${before.at(-1).length + 1}.` : ".");
  }
}

// The lines of the client's request that have lost something, one after the other.
function step(by, light) {
  const all = [...document.querySelectorAll(".json3 section:first-of-type li[data-path]")], at = all.findIndex((line) => line.classList.contains("lit"));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length];
  if (next) { light(next.dataset.path); next.scrollIntoView({ block: "nearest" }); }
}

export function Workbench() {
  const [example, setExample] = useState(begun), [source, setSource] = useState(EXAMPLES[begun()][1]), [body, setBody] = useState(() => written(EXAMPLES[begun()][2]));
  const [policy, setPolicy] = useState("balanced"), [model, setModel] = useState(""), [got, setGot] = useState(null), [fault, setFault] = useState(""), [pasting, setPasting] = useState(false), [pane, setPane] = useState(0), [lit, setLit] = useState("");
  const latest = useRef(0);
  useEffect(() => {
    const turn = ++latest.current, soon = setTimeout(async () => {
      try {
        const found = await ask("POST", "translate", { from: source, body, ...(model ? { model } : {}) });
        if (turn === latest.current) { setGot({ ...found, body }); setFault(""); }
      } catch (refused) {
        if (turn === latest.current) { setGot(null); setFault((refused.error && refused.error.param ? refused.error.param + ": " : "") + refused.message); }
      }
    }, SOON_MS);
    return () => clearTimeout(soon);
  }, [source, body, model]);
  useEffect(() => {
    const url = new URL(location.href);
    if (example) url.searchParams.set("example", example); else url.searchParams.delete("example");
    if (url.pathname === "/ui/workbench") history.replaceState(null, "", url);
  }, [example]);
  useEffect(() => {
    const request = addressed("request");
    if (!request || !isAdmin()) return;
    const path = "requests/" + encodeURIComponent(request);
    Promise.all([ask("GET", path), text(path + "/bodies/client_request")]).then(([row, found]) => { setExample(""); setBody(found); setSource(row.protocol); setModel(row.model); }, (refused) => setFault(refused.message));
  }, []);
  const take = (name) => { setExample(name); setSource(EXAMPLES[name][1]); setBody(written(EXAMPLES[name][2])); };
  const paste = (text, from) => { setExample(""); setBody(text); setSource(from); setPasting(false); };
  const own = useMemo(() => { try { return JSON.parse(body); } catch { return null; } }, [body]);
  const targets = got && got.body === body ? got.targets : [], losses = targets.flatMap((target) => target.losses);
  const segment = (label, choices, chosen, choose) => html`<span class="t3 sm" id=${"seg-" + label.split(" ").at(-1)}>${label}</span><div class="seg" role="group" aria-label=${label}>${choices.map(([key, word]) => html`<button aria-pressed=${String(key === chosen)} onClick=${() => choose(key)}>${word}</button>`)}</div>`;
  const shown = [{ protocol: source, what: "as the client sends it", value: own, text: body, losses }, ...targets.map((target) => ({ protocol: target.protocol, what: `${got.speaks === target.protocol ? "to " + told(got.upstream) + ", " : ""}${target.losses.length ? target.losses.length + (target.losses.length === 1 ? " loss" : " losses") : "nothing is lost"}`, value: target.body && JSON.parse(target.body), text: target.body, losses: [] }))];
  return html`<div class="head"><h1>Workbench</h1><span class="sub not-phone">one request, three protocols; nothing is sent until you say so</span><div class="tools">
      <label class="vh" for="example">Example</label><select id="example" class="btn" value=${example} onChange=${(event) => take(event.target.value)}>${!example && html`<option value="">pasted</option>`}${Object.entries(EXAMPLES).map(([name, [title]]) => html`<option value=${name} selected=${name === example}>${title}</option>`)}</select>
      <button class="btn" onClick=${() => setPasting(true)}>Paste…</button></div></div>
    <div class="wbtop">${segment("The client speaks", Object.entries(PROTOCOLS).map(([key, [, word]]) => [key, word]), source, setSource)}${segment("Policy", POLICIES.map((one) => [one, one]), policy, setPolicy)}
      <label for="options-of">Options of the model</label><span class="field opt"><input id="options-of" placeholder="the defaults" value=${model} onChange=${(event) => setModel(event.target.value.trim())}/></span>
      <span class="grow"></span><span class="legend not-phone">${[["knob", "left out"], ["converted", "converted"], ["repaired", "repaired"], ["content", "content lost"]].map(([kind, word]) => html`<span class=${"kind " + kind}><i>${LETTERS[kind]}</i>${word}</span>`)}<button class="btn quiet" data-key="p" aria-label="Previous loss" onClick=${() => step(-1, setLit)}>↑</button><button class="btn quiet" data-key="n" aria-label="Next loss" onClick=${() => step(1, setLit)}>↓</button></span></div>
    ${banner(fault)}
    <div class="json3"><div class="ptabs only-phone" role="tablist" aria-label="Protocols">${shown.map((one, i) => html`<button role="tab" aria-selected=${String(i === pane)} onClick=${() => setPane(i)}>${PROTOCOLS[one.protocol][1]}</button>`)}</div>
      ${shown.map((one, i) => html`<${Pane} key=${one.protocol} of=${one} lit=${lit} light=${setLit} chosen=${i === Math.min(pane, shown.length - 1)}/>`)}</div>
    ${targets.length > 0 && html`<div class="cols wbcols"><${Ledger} targets=${targets} own=${own}/><${Verdicts} targets=${targets} policy=${policy} choose=${setPolicy} got=${got}/></div>`}
    ${isAdmin() && html`<${Frames} request=${{ source, body, model, valid: targets.length > 0 }} policy=${policy}/>`}
    ${pasting && html`<${Paste} body=${body} onClose=${() => setPasting(false)} onDone=${paste}/>`}`;
}

function Pane({ of, chosen, lit, light }) {
  const lines = useMemo(() => {
    if (of.value == null) return null;
    const made = linesOf(of.value, of.losses.map((loss) => loss.path));
    for (const loss of of.losses) {
      const line = made[lineOf(made, loss.path)];
      line.losses = [...(line.losses || []), loss];
    }
    return made;
  }, [of.text, of.losses.length]);
  const isLit = (line) => lit && (line.losses || []).some((loss) => loss.path === lit);
  const worst = (line) => WORST.find((kind) => (line.losses || []).some((loss) => loss.kind === kind));
  const said = (line) => [...new Set(line.losses.map((loss) => `${told(loss.path)}: ${told(loss.detail)}`))].join("\n");
  return html`<section class=${chosen ? "" : "not-phone"}><header><${Protocol} name=${of.protocol}/><span class="t3 sm cut">${of.what}</span>${of.text && html`<${Copy} text=${of.text} label=${"Copy the request of " + PROTOCOLS[of.protocol][1]}/>`}</header>
    ${lines ? html`<div class="code" ...${region(PROTOCOLS[of.protocol][1] + " request")}><ol>${lines.map((line) => { const kind = worst(line); return html`<li class=${(kind ? "lost-" + kind : "") + (isLit(line) ? " lit" : "")} data-path=${kind ? line.losses[0].path : null} title=${kind ? said(line) : null} onMouseEnter=${kind ? () => light(line.losses[0].path) : null}><i>${LETTERS[kind] || ""}</i><code>${coloured(line.text)}</code></li>`; })}</ol></div>` : html`<p class="empty">There is no such request: see below.</p>`}</section>`;
}

function Ledger({ targets, own }) {
  const lines = own ? linesOf(own, targets.flatMap((one) => one.losses.map((loss) => loss.path))) : [];
  const rows = new Map();
  targets.forEach((target, i) => { for (const loss of target.losses) { const row = rows.get(loss.path) || { path: loss.path, of: [[], []] }; row.of[i].push(loss); rows.set(loss.path, row); } });
  const sorted = [...rows.values()].sort((a, b) => lineOf(lines, a.path) - lineOf(lines, b.path));
  const details = (row) => [...new Set(row.of.flat().map((loss) => loss.detail))].map(told).join("; ");
  return html`<section class="panel"><header><h2>Ledger</h2><span class="t3 sm">paths of the client’s request</span></header>
    ${sorted.length ? html`<table class="ledger"><colgroup><col class="l1"/>${targets.map(() => html`<col class="l2"/>`)}<col class="l3"/></colgroup><thead><tr><th>Path</th>${targets.map((one) => html`<th>${PROTOCOLS[one.protocol][1]}</th>`)}<th class="not-phone">What happens</th></tr></thead>
    <tbody>${sorted.map((row) => html`<tr key=${row.path}><td class="mono" title=${told(row.path)}>${told(row.path)}<div class="only-phone t2 sm said-below">${details(row)}</div></td>${row.of.map((losses, i) => html`<td key=${targets[i].protocol}>${losses.length ? [...new Set(losses.map((loss) => loss.kind))].map((kind) => html`<span class="row gap4"><${LossKind} kind=${kind}/><span class="not-phone">${kind}</span></span>`) : html`<span class="t3">kept</span>`}</td>`)}<td class="t2 not-phone" title=${details(row)}>${details(row)}</td></tr>`)}</tbody></table>` : html`<p class="empty">Nothing is lost.</p>`}</section>`;
}

function Verdicts({ targets, policy, choose, got }) {
  const chosen = targets.filter((one) => !one.verdicts[policy].passes).map((one) => `${PROTOCOLS[one.protocol][1]}: ${told(one.verdicts[policy].message)}`);
  const verdict = (target, name) => {
    const { passes, paths } = target.verdicts[name], lost = target.losses.length;
    return html`<div class=${name === policy ? "on" : ""}><span class=${"state " + (passes ? "ok" : "err")}><${Glyph} state=${passes ? "active" : "bad"}/><b>${passes ? "passes" : "400"}</b></span><div class="sm t2">${passes ? (lost ? count(lost) + " reported" : "nothing lost") : count(paths.length) + (paths.length === 1 ? " path" : " paths")}</div></div>`;
  };
  return html`<section class="panel"><header><h2>Under each policy</h2></header><div class="verdicts"><div class="h"></div>${POLICIES.map((name) => html`<div class="h"><button class="link" aria-pressed=${String(name === policy)} onClick=${() => choose(name)}>${name}</button></div>`)}
    ${targets.map((target) => html`<div>${PROTOCOLS[target.protocol][1]}<div class="sm t3">${got.speaks === target.protocol ? told(got.upstream) : "any"}</div></div>${POLICIES.map((name) => verdict(target, name))}`)}</div>
    ${chosen.length > 0 && html`<div class="note"><ul>${chosen.map((text) => html`<li>${text}</li>`)}</ul></div>`}
    ${got.policy && html`<p class="note">The route of this model is ${got.policy}.</p>`}</section>`;
}

function Paste({ body, onClose, onDone }) {
  const field = useRef(null), [fault, setFault] = useState("");
  const done = () => {
    const { body: text, from } = pasted(field.current.value), wrong = faultIn(text);
    if (wrong) { setFault(wrong); return; }
    onDone(text, from || spoken(JSON.parse(text)));
  };
  return html`<${Dialog} title="Paste a request" onClose=${onClose} onSubmit=${done}>
    <p class="t2">JSON, or a curl command, whose headers are cut off here: no key leaves the browser. The request is kept nowhere.</p>
    <label for="pasted">Request</label><textarea id="pasted" class="pasted" rows="16" spellcheck="false" maxlength="1000000" ref=${field} aria-describedby="pasted-wrong" aria-invalid=${fault ? "true" : null}>${body}</textarea>
    <p id="pasted-wrong" class="wrong" role="alert">${fault}</p>
    <div class="acts"><button class="btn primary">Show it</button><button type="button" class="btn" onClick=${onClose}>Cancel</button></div></${Dialog}>`;
}
