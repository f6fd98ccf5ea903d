// Dialogs about accounts.
import { useRef, useState } from "./vendor/hooks.js";
import { html, told, count, span, Dialog, Glyph, region } from "./kit.js";
import { ask } from "./api.js";
import { Acts, field, Names, Typed, useFollowed, useSending } from "./sending.js";

const MOST_SHOWN = 200;
export const many = ({ length }) => count(length) + (length === 1 ? " account" : " accounts");
export function Add({ upstreams, onClose, onDone }) {
  const form = useRef(null), { fault, busy, send } = useSending(onDone);
  const submit = () => {
    const get = (name) => form.current.elements[name].value.trim(), models = get("models").split(/[\s,]+/).filter(Boolean);
    const made = { name: get("name"), upstream: get("upstream"), key: get("key"), ...(models.length ? { models } : {}), ...(get("priority") ? { priority: Number(get("priority")) } : {}), ...(get("max") ? { max_concurrent: Number(get("max")) } : {}) };
    send(async () => { await ask("POST", "accounts", made); return made.name; });
  };
  return html`<${Dialog} title="Add an account" onClose=${onClose} form=${form} onSubmit=${submit}>
    ${field("name", "Name", { required: true, autocomplete: "username", maxlength: 100 })}${field("upstream", "Upstream", { required: true, list: "add-upstreams", value: upstreams.length === 1 ? upstreams[0] : undefined })}<datalist id="add-upstreams">${upstreams.map((one) => html`<option value=${one}/>`)}</datalist>
    ${field("key", "Key", { type: "password", required: true, autocomplete: "new-password" })}${field("models", "Models it has, * allowed; empty for all")}
    <div class="pair"><div>${field("priority", "Priority; the lowest goes first", { type: "number" })}</div><div>${field("max", "Requests at a time; empty for any", { type: "number", min: 1 })}</div></div>
    <${Acts} fault=${fault} word="Add" busy=${busy} onClose=${onClose}/></${Dialog}>`;
}

export function NewKey({ name, onClose, onDone }) {
  const key = useRef(null), test = useRef(null), { fault, busy, send } = useSending(onDone);
  const submit = () => { send(() => ask("POST", "accounts/" + encodeURIComponent(name) + "/rotate", { key: key.current.value.trim(), test: test.current.checked })); };
  return html`<${Dialog} title=${"A new key for " + told(name)} onClose=${onClose} onSubmit=${submit}>
    <p class="t2">The old key is used until the new one has answered a request of 16 tokens, which may be billed.</p>
    <input class="vh" type="text" autocomplete="username" tabindex="-1" aria-hidden="true" value=${name} readonly/>${field("key", "New key", { type: "password", ref: key, required: true, autocomplete: "new-password" })}
    <label class="tick"><input type="checkbox" ref=${test} checked/> Test it before it replaces the old one</label>
    <${Acts} fault=${fault} word=${busy ? "Testing…" : "Replace the key"} busy=${busy} onClose=${onClose}/></${Dialog}>`;
}

// A list, looked at before anything of it is stored: its keys are dots from the first keystroke.
export function Import({ onClose, onDone }) {
  const replace = useRef(null), [preview, setPreview] = useState(null), [text, setText] = useState(""), [format, setFormat] = useState("csv");
  const { fault, busy, send } = useSending((next) => next());
  const kindOf = (list) => (/^\s*\[/.test(list) ? "json" : /^\s*\{/.test(list) ? "jsonl" : "csv");
  const query = (more) => "accounts/import?" + new URLSearchParams({ format, replace: String(Boolean(replace.current && replace.current.checked)), ...more });
  const take = (list) => { setText(list); setFormat(kindOf(list)); setPreview(null); };
  const look = () => { send(async () => { const found = await ask("POST", query({ dry_run: "true" }), text); return () => setPreview(found); }); };
  const store = () => send(async () => { const done = await ask("POST", query({ skip_bad: "true" }), text); return () => onDone(done); });
  const good = preview ? preview.added + preview.replaced : 0;
  return html`<${Dialog} title="Import accounts" onClose=${onClose} class="wide" onSubmit=${look}>
    <p class="t2">CSV with a head, a JSON array, or an object on each line: name, upstream, key, and any other field of an account. Nothing is stored before you say so.</p>
    <label for="list">List</label><textarea id="list" class=${"pasted" + (text ? " dots" : "")} rows="7" spellcheck="false" autocomplete="off" value=${text} onInput=${(event) => take(event.target.value)}></textarea>
    <div class="row"><input type="file" aria-label="File" accept=".csv,.json,.jsonl,.ndjson,text/csv,application/json" onChange=${async (event) => { const [file] = event.target.files; if (file) take(await file.text()); }}/><label class="tick"><input type="checkbox" ref=${replace} onChange=${() => setPreview(null)}/> Replace accounts of the same name</label></div>
    <p class="wrong" role="alert">${told(fault)}</p>
    ${preview && html`<section aria-label="Preview" class="preview"><p role="status"><b class="strong">${count(preview.rows)}</b> rows: <b class="strong">${count(preview.added)}</b> new, <b class="strong">${count(preview.replaced)}</b> replaced, <b class=${preview.bad.length ? "state err" : "strong"}>${count(preview.rows - good)}</b> bad${preview.same_keys.length ? `, ${count(preview.same_keys.length)} with the key of another` : ""}.</p>
      ${preview.bad.length > 0 && html`<div class="scrolls" ...${region("Bad rows")}><table><thead><tr><th class="r">Row</th><th>Account</th><th>Field</th><th>What is wrong</th></tr></thead><tbody>${preview.bad.slice(0, MOST_SHOWN).flatMap((row) => row.faults.map((one) => html`<tr><td class="r num">${row.at}</td><td>${told(row.name) || "—"}</td><td class="mono">${told(one.field)}</td><td>${told(one.message)}</td></tr>`))}</tbody></table></div>`}
      ${preview.same_keys.length > 0 && html`<p class="t2 sm">Same key: ${preview.same_keys.slice(0, 5).map((pair) => pair.map(told).join(" and ")).join("; ")}${preview.same_keys.length > 5 ? "; …" : ""}.</p>`}</section>`}
    <div class="acts">${preview ? html`<button type="button" class="btn primary" disabled=${busy || !good} onClick=${store}>Import ${count(good)} good ${good === 1 ? "row" : "rows"}</button><button type="button" class="btn" onClick=${onClose}>Import nothing</button>` : html`<button class="btn primary" disabled=${busy || !text.trim()}>Look at it</button><button type="button" class="btn" onClick=${onClose}>Cancel</button>`}</div></${Dialog}>`;
}

export function Test({ names, onClose }) {
  const { lines, fault, busy, start, stop } = useFollowed(), [asked, setAsked] = useState(true), model = useRef(null);
  const run = () => {
    const wanted = model.current.value.trim();
    setAsked(false);
    start("accounts/test", { names, ...(wanted ? { model: wanted } : {}) });
  };
  const passed = lines.filter((one) => one.passed).length, wrong = lines.filter((one) => !one.passed);
  return html`<${Dialog} title=${"Test " + many(names)} onClose=${onClose} class="wide" onSubmit=${run}>
    ${asked ? html`<p class="t2">Sends ${names.length === 1 ? "one request" : count(names.length) + " requests"} of at most 16 output tokens, eight at a time, which may be billed. What an upstream says of an account counts as if a client had asked. Only what is selected is tested.</p>${field("model", "Model; empty for one that each account has", { ref: model })}<${Typed} number=${names.length}/>`
    : html`<p role="status"><b class="strong">${count(lines.length)}</b> of ${count(names.length)} tested: <b class="strong">${count(passed)}</b> answered, <b class=${wrong.length ? "state err" : "strong"}>${count(wrong.length)}</b> did not.</p><progress max=${names.length} value=${lines.length} aria-label="Accounts tested"></progress>
      ${wrong.length > 0 && html`<ul class="checks results" tabindex="0" aria-label="Accounts that did not answer">${wrong.slice(0, MOST_SHOWN).map((one) => html`<li key=${one.account || one.name}><${Glyph} state="bad"/><div><b class="strong">${told(one.account || one.name)}</b> ${one.status ? html`<span class="num">${one.status}</span>` : ""}<div class="t2">${told(one.told || one.why || one.message)}</div>${one.account_is && html`<div class="t3 sm">The account ${told(one.account_is)}.</div>`}</div></li>`)}</ul>`}
      ${names.length === 1 && passed === 1 && html`<p class="t2">${told(lines[0].model)} answered in ${span(lines[0].milliseconds / 1000)}.</p>`}`}
    <p class="wrong" role="alert">${told(fault)}</p>
    <div class="acts">${asked && html`<button class="btn primary">Test ${many(names)}</button>`}${busy && html`<button type="button" class="btn" onClick=${stop}>Stop</button>`}<button type="button" class="btn" onClick=${onClose}>${asked || busy ? "Cancel" : "Close"}</button></div></${Dialog}>`;
}

// What is to become of accounts, before it does.
export function Turn({ what, names, onClose, onDone }) {
  const reason = useRef(null), off = what === "disable", word = off ? "Disable" : "Enable", them = names.length === 1 ? "it" : "them";
  return html`<${Dialog} title=${word + " " + many(names)} onClose=${onClose} onSubmit=${() => onDone(off ? reason.current.value : undefined)}>
    <div class="t2"><${Names} of=${names}/></div><p class="t2">${off ? `No request goes to ${them} until somebody enables ${them}. Requests in flight are finished.` : `Requests go to ${them} from now on, even where an upstream said to wait.`}</p>
    ${off && field("reason", "Reason", { ref: reason, maxlength: 200 })}<${Typed} number=${names.length}/><${Acts} word=${word} onClose=${onClose}/></${Dialog}>`;
}
