// A request that is sent: both sides' events beside each other.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { size, html, told, count, span, Copy, Dialog, Protocol, PROTOCOLS, banner, region } from "./kit.js";
import { follow } from "./api.js";
import { coloured, linesOf } from "./lines.js";
import { Acts, field } from "./sending.js";

const SCENARIOS = ["text?words=40&delay_ms=15", "reasoning", "reasoning_tool", "tool", "parallel_tools", "structured", "citations", "refusal", "length", "multibyte"];

// An event in one line: its name, and the field that matters.
function brief(raw) {
  const lines = raw.split(/\r?\n/), name = (lines.find((line) => line.startsWith("event:")) || "").slice(6).trim();
  const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n") || (name || raw.startsWith(":") ? "" : raw);
  if (!data) return [name || "comment", raw.startsWith(":") ? raw.slice(1).trim() : ""];
  let value;
  try { value = JSON.parse(data); } catch { return [name || "text", data]; }
  const choice = value.choices && value.choices[0], delta = (choice && (choice.delta || choice.message)) || value.delta;
  if (value.error && !value.response) return ["error", value.error.message || JSON.stringify(value.error)];
  if (choice && choice.finish_reason && !(delta && (delta.content || delta.tool_calls))) return ["finish_reason", choice.finish_reason];
  if (typeof delta === "string") return [value.type || name, JSON.stringify(delta)];
  if (delta && typeof delta === "object") {
    const entries = Object.entries(delta).filter(([key, one]) => one !== null && one !== "" && !(key === "role" && Object.keys(delta).length > 1) && key !== "type");
    if (!entries.length && delta.role) return ["role", JSON.stringify(delta.role)];
    const shown = entries.map(([key, one]) => `${key} ${JSON.stringify(one)}`).join(", ");
    return [value.type || (entries[0] ? entries[0][0] : "delta"), value.type ? shown || delta.type || "" : entries.map(([, one]) => JSON.stringify(one)).join(", ")];
  }
  if (value.usage && choice === undefined && !value.type) return ["usage", JSON.stringify(value.usage)];
  const inner = value.content_block || value.item || value.part || (value.message && { input_tokens: value.message.usage && value.message.usage.input_tokens });
  if (value.type || name) return [value.type || name, inner ? inner.type || `input_tokens ${inner.input_tokens ?? "unknown"}` : ""];
  return ["answer", data];
}
// The events in what was sent in one piece.
const eventsIn = (raw) => (/^(event|data|id|retry|:)/.test(raw) ? raw.match(/[^]*?(?:\r?\n\r?\n|$)/g).filter(Boolean) : [raw]);

// Rows: each of the upstream's events with what the client was sent for it.
function rowsOf(frames) {
  const rows = [], by = new Map();
  for (const frame of frames) {
    if (frame.event === "attempt") rows.push({ attempt: frame });
    else if (frame.event === "upstream") {
      const row = { up: frame, down: [] };
      by.set(frame.number, row);
      rows.push(row);
    } else if (frame.event === "client") {
      const row = by.get(frame.caused_by);
      if (row && rows.at(-1) === row) row.down.push(frame);
      else rows.push({ down: [frame], own: true });
    }
  }
  return rows;
}

export function Frames({ request, policy }) {
  const [asking, setAsking] = useState(false), [sent, setSent] = useState(null), [frames, setFrames] = useState([]), [at, setAt] = useState(-1), [open, setOpen] = useState(-1), [fault, setFault] = useState("");
  const ending = useRef(null), all = useRef([]), drawn = useRef(0);
  useEffect(() => () => { if (ending.current) ending.current.abort(); cancelAnimationFrame(drawn.current); }, []);
  const send = async (wish) => {
    setAsking(false);
    if (ending.current) ending.current.abort();
    const mine = new AbortController();
    ending.current = mine;
    all.current = [];
    setSent(wish); setFrames([]); setAt(-1); setOpen(-1); setFault("");
    try {
      await follow("workbench/send", { from: request.source, body: request.body, policy, ...wish }, (frame) => {
        all.current.push(frame);
        cancelAnimationFrame(drawn.current);
        drawn.current = requestAnimationFrame(() => { if (ending.current === mine) setFrames([...all.current]); });
      }, mine.signal);
    } catch (refused) {
      if (refused.name !== "AbortError") setFault(refused.message);
    }
    if (ending.current === mine) { ending.current = null; setFrames([...all.current]); }
  };
  const rows = rowsOf(frames), done = frames.find((frame) => frame.event === "done"), first = frames.find((frame) => frame.event === "attempt");
  const keys = (event) => {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (step && rows.length) { event.preventDefault(); setAt(Math.max(0, Math.min(rows.length - 1, at + step))); }
    else if (event.key === "Enter" && at >= 0 && event.target.tagName !== "BUTTON") setOpen(open === at ? -1 : at);
  };
  const line = (raw) => { const [name, text] = brief(raw); return html`<p title=${told(text)}><span class="ev">${told(name)}</span> ${told(text)}</p>`; };
  const speaks = done && first ? protocolOf(frames, sent) : null;
  const everything = (kind) => frames.filter((frame) => frame.event === kind).map((frame) => frame.raw).join("");
  return html`<section class="panel framespanel"><header><h2>The stream, frame by frame</h2><span class="t3 sm">${sent ? (sent.scenario ? "simulator, scenario " + told(sent.scenario) : "to " + told(sent.model || "the model of the request")) : "nothing was sent yet"}</span>
      <span class="r row">${rows.length > 0 && html`<span class="num t2 sm">${at >= 0 ? at + 1 + " of " : ""}${count(rows.length)}</span>`}${ending.current ? html`<button class="btn" onClick=${() => ending.current.abort()}>Stop</button>` : html`<button class="btn primary" disabled=${!request.valid} onClick=${() => setAsking(true)}>Send…</button>`}</span></header>
    ${banner(fault)}
    ${rows.length > 0 && html`<div class="frames" ...${region("Frames")} onKeyDown=${keys}><div class="f hd"><div>Upstream ${speaks && html`<${Protocol} name=${speaks}/>`}</div><div>seconds</div><div>Client <${Protocol} name=${request.source}/></div></div>
      ${rows.map((row, i) => (row.attempt ? html`<div class="f whole" key=${i}><div><b class="strong">Attempt ${row.attempt.number}</b> ${told(row.attempt.account)} of ${told(row.attempt.upstream)} answers <b class="num">${row.attempt.status}</b> after ${span(row.attempt.at_ms / 1000)}</div></div>`
    : html`<div class=${"f" + (i === at ? " at" : "")} key=${i} onClick=${() => { setAt(i); setOpen(open === i ? -1 : i); }}><div>${row.up ? line(row.up.raw) : html`<p class="held">by the gateway itself</p>`}</div><div><b>${((row.up || row.down[0]).at_ms / 1000).toFixed(3)}</b><span class="t3 not-phone"> ${size((row.up || row.down[0]).bytes)}</span></div>
        <div>${row.down.length ? row.down.flatMap((frame) => eventsIn(frame.raw)).map(line) : html`<p class="held">${row.up.raw.startsWith(":") || /"type": ?"ping"/.test(row.up.raw) ? "ping" : "held: nothing to show for it"}</p>`}</div>
        ${i === open && html`<div class="unfold"><pre>${row.up ? row.up.raw : ""}</pre><pre>${row.down.map((frame) => frame.raw).join("")}</pre></div>`}</div>`))}</div>`}
    ${done && html`<div class="note"><span>${done.status < 400 && !done.error ? "Answered" : "Ended"} with ${done.status || "no status"}${done.error ? ", " + told(done.error) : ""} after ${span(done.at_ms / 1000)}${done.usage ? `; ${count(done.usage.input)} tokens in, ${count(done.usage.output)} out` : ""}${done.left_out ? `; ${count(done.left_out)} more frames are not shown` : ""}. ${sent.scenario ? "" : html`<a href=${"/ui/requests/" + encodeURIComponent(done.id)}>${done.id}</a>`}</span><span class="grow"></span><${Copy} text=${everything("upstream")} word="Copy upstream’s" label="Copy upstream’s events"/><${Copy} text=${everything("client")} word="Copy client’s" label="Copy client’s events"/></div>`}
    ${first && html`<details class="sentas"><summary>What the upstream was sent</summary><div class="code"><ol>${linesIn(first.body)}</ol></div></details>`}
    ${asking && html`<${Send} request=${request} onClose=${() => setAsking(false)} onDone=${send}/>`}</section>`;
}
const linesIn = (body) => {
  try { return linesOf(JSON.parse(body)).map((line) => html`<li><i></i><code>${coloured(line.text)}</code></li>`); } catch { return html`<li><i></i><code>${told(body)}</code></li>`; }
};
function protocolOf(frames, sent) {
  if (sent.to) return sent.to;
  const up = frames.filter((frame) => frame.event === "upstream").map((frame) => frame.raw).join("").slice(0, 4000);
  return /"?response\.|"object": ?"response"/.test(up) ? "openai_responses" : /message_start|"type": ?"message"/.test(up) ? "anthropic_messages" : /"choices"/.test(up) ? "openai_chat" : null;
}

function Send({ request, onClose, onDone }) {
  const [where, setWhere] = useState("simulator"), [wrong, setWrong] = useState("");
  const form = useRef(null);
  const done = () => {
    const get = (name) => form.current.elements[name] && form.current.elements[name].value.trim();
    if (where === "simulator") return onDone({ scenario: get("scenario"), to: get("to") });
    if (!get("model")) return setWrong("Name a model that a route takes.");
    onDone({ model: get("model"), max_tokens: Number(get("most")) });
  };
  return html`<${Dialog} title="Send this request" onClose=${onClose} form=${form} onSubmit=${done}>
    <fieldset class="row"><legend class="vh">Where to</legend><label><input type="radio" name="where" checked=${where === "simulator"} onChange=${() => setWhere("simulator")}/> To a simulator</label><label><input type="radio" name="where" checked=${where === "route"} onChange=${() => setWhere("route")}/> By a route</label></fieldset>
    ${where === "simulator" ? html`<p class="t2">Nothing leaves this machine, and nothing is counted.</p><label for="to">The simulator speaks</label><select id="to" name="to" class="field">${Object.entries(PROTOCOLS).map(([key, [, word]]) => html`<option value=${key} selected=${key === Object.keys(PROTOCOLS).find((one) => one !== request.source)}>${word}</option>`)}</select>
      ${field("scenario", "Scenario", { list: "scenarios", defaultValue: "text?words=40&delay_ms=15", required: true })}<datalist id="scenarios">${SCENARIOS.map((one) => html`<option value=${one}/>`)}</datalist>`
    : html`<p class="t2">One request to the upstream of the route, by an account that the pool chooses. It costs what any other does, counts for the key <b>workbench</b>, and is in the audit.</p>${field("model", "Model", { defaultValue: request.model })}${field("most", "Most output tokens", { type: "number", min: 1, max: 1e6, defaultValue: 1024, required: true })}`}
    <${Acts} fault=${wrong} word="Send" onClose=${onClose}/></${Dialog}>`;
}
