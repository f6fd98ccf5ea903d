// What was said in one request, where its key has that kept. Reading it is written down.
import { useEffect, useState } from "./vendor/hooks.js";
import { html, told, count, Copy } from "./kit.js";
import { ask, encoded, isAdmin, text } from "./api.js";

const NAMES = [["client_request", "What the client asked"], ["upstream_request", "What the upstream was sent"], ["upstream_answer", "What the upstream answered"], ["client_answer", "What the client was sent"]];
const shown = (body) => { try { return JSON.stringify(JSON.parse(body), null, 2); } catch { return body; } };

export function Bodies({ id }) {
  const [kept, setKept] = useState(null), [open, setOpen] = useState(null), [fault, setFault] = useState("");
  useEffect(() => {
    let held = true;
    setKept(null); setOpen(null); setFault("");
    ask("GET", `requests/${encoded(id)}/bodies`).then((found) => { if (held) setKept(found.bodies); }, () => { if (held) setKept({}); });
    return () => { held = false; };
  }, [id]);
  const read = async (name) => {
    setFault("");
    if (open && open.name === name) { setOpen(null); return; }
    try { setOpen({ name, body: await text(`requests/${encoded(id)}/bodies/${name}`) }); } catch (refused) { setFault(refused.message); }
  };
  const there = kept ? NAMES.filter(([name]) => kept[name] != null) : [];
  return html`<section class="panel"><header><h2>Bodies</h2><span class="t3 sm">${!kept ? "" : there.length ? (isAdmin() ? "kept sealed; reading one is in the audit" : "kept sealed, for admins") : "not kept for this key, or no longer"}</span>
      ${isAdmin() && kept && kept.client_request != null && html`<span class="r row"><a class="btn" href=${"/ui/workbench?request=" + encoded(id)}>Open in the workbench</a></span>`}</header>
    ${there.length > 0 && isAdmin() && html`<div class="body"><div class="row wrap">${there.map(([name, title]) => html`<button class="chip" aria-pressed=${String(Boolean(open) && open.name === name)} onClick=${() => read(name)}>${title} <b>${count(kept[name])} B</b></button>`)}</div>
      ${fault && html`<p class="state err" role="alert">${told(fault)}</p>`}
      ${open && html`<div class="step kept"><div class="row"><span class="t2 sm">${open.body.length < kept[open.name] ? "the first part of it" : ""}</span><${Copy} text=${open.body} label="Copy the body"/></div><pre tabindex="0">${shown(open.body)}</pre></div>`}</div>`}</section>`;
}
