// The administration, as the page asks it: with the cookie of a session, and its token for whatever
// changes something. Nothing of it is kept in the browser.
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { signal } from "./vendor/signals.js";

export const session = signal(undefined); // undefined: not known yet; null: nobody is signed in
export const encoded = encodeURIComponent;
export const isAdmin = () => session.value && session.value.role === "admin";

export class Refused extends Error {
  constructor(status, error) {
    super(error.message || "The gateway answered with " + status + ".");
    this.status = status;
    this.error = error;
  }
}

const known = new Map(); // what was told for a path, by its tag

export async function ask(method, path, body) {
  const headers = {}, seen = method === "GET" && known.get(path);
  if (seen) headers["if-none-match"] = seen.tag;
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET" && session.value) headers["x-dragoman-csrf"] = session.value.csrf;
  const answer = await fetch("/admin/" + path, { method, headers, body: body === undefined || typeof body === "string" ? body : JSON.stringify(body), cache: "no-store" });
  if (answer.status === 304) return seen.value;
  const value = await answer.json().catch(() => ({}));
  if (answer.status === 401) session.value = null;
  if (!answer.ok) throw new Refused(answer.status, value.error || {});
  const tag = answer.headers.get("etag");
  if (method === "GET" && tag) {
    if (known.size > 20) known.clear();
    known.set(path, { tag, value });
  }
  return value;
}

// Asks for what is no JSON.
export async function text(path) {
  const answer = await fetch("/admin/" + path, { cache: "no-store" });
  if (answer.status === 401) session.value = null;
  if (!answer.ok) throw new Refused(answer.status, (await answer.json().catch(() => ({}))).error || {});
  return answer.text();
}

// What `read` gives, asked for anew every `everyMs` while the page is seen, and at once when one of
// `over` changes; with the words of the last refusal, empty after an answer, and what asks for it now.
export function usePolled(read, everyMs, over) {
  const [got, setGot] = useState(null), [fault, setFault] = useState(""), again = useRef(null);
  useEffect(() => {
    let gone = false, fresh = false;
    const load = () => read().then((found) => { if (!gone) { setGot(found); setFault(""); } }, (refused) => { if (!gone) setFault(refused.message); });
    again.current = () => { fresh = true; load(); };
    load();
    const timer = setInterval(() => { if (!fresh && !document.hidden) load(); fresh = false; }, everyMs);
    return () => { gone = true; clearInterval(timer); };
  }, over);
  return [got, fault, () => again.current()];
}

// Does something soon, once for all that is told until then.
export function useSoon(run, ms) {
  const due = useRef(0), latest = useRef(run);
  latest.current = run;
  useEffect(() => () => clearTimeout(due.current), []);
  return () => { due.current ||= setTimeout(() => { due.current = 0; latest.current(); }, ms); };
}

// Keeps what a screen shows in its address; what is empty is left out.
export function useAddress(values) {
  useEffect(() => {
    const url = new URL(location.href);
    for (const [name, value] of Object.entries(values)) value ? url.searchParams.set(name, value) : url.searchParams.delete(name);
    history.replaceState(null, "", url);
  }, Object.values(values));
}
export const addressed = (name) => new URLSearchParams(location.search).get(name) || "";

export const connected = signal(undefined); // whether events come; undefined on a screen without them
const HIDDEN_MS = 30000, AGAIN_MS = 5000;

// What the gateway tells by itself while the page is seen, by `on`: what each kind of event does, and
// `open` whenever a connection stands anew, before which something may have been missed. Gives
// whether it stands: undefined before that is known, and where there is no `query`.
export function useEvents(query, on) {
  const [stands, setOwn] = useState(), setStands = (is) => { setOwn(is); connected.value = is; };
  useEffect(() => {
    if (!query) return undefined;
    let source = null, later = 0;
    const close = () => { clearTimeout(later); if (source) source.close(); source = null; };
    const open = () => {
      close();
      source = new EventSource("/admin/events?" + query);
      source.onopen = () => { setStands(true); if (on.open) on.open(); };
      source.onerror = () => {
        setStands(false);
        // The browser itself tries again unless it was refused.
        if (source && source.readyState === EventSource.CLOSED) later = setTimeout(open, AGAIN_MS * (1 + Math.random()));
      };
      source.addEventListener("bye", (event) => { if (JSON.parse(event.data).why === "signed out") { close(); session.value = null; } });
      for (const [kind, each] of Object.entries(on)) if (kind !== "open") source.addEventListener(kind, (event) => each(JSON.parse(event.data)));
    };
    const seen = () => {
      clearTimeout(later);
      if (document.hidden) later = setTimeout(close, HIDDEN_MS);
      else if (!source || source.readyState === EventSource.CLOSED) open();
    };
    seen();
    document.addEventListener("visibilitychange", seen);
    return () => { document.removeEventListener("visibilitychange", seen); close(); setStands(undefined); };
  }, [query]);
  return stands;
}

// Asks for what comes in pieces: each event as it comes, until there are no more.
export async function follow(path, body, each, signal) {
  const headers = { "content-type": "application/json", "x-dragoman-csrf": session.value.csrf };
  const answer = await fetch("/admin/" + path, { method: "POST", headers, body: JSON.stringify(body), cache: "no-store", signal });
  if (answer.status === 401) session.value = null;
  if (!answer.ok) throw new Refused(answer.status, (await answer.json().catch(() => ({}))).error || {});
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let piece; !(piece = await reader.read()).done; ) {
    const events = (rest + piece.value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) each(JSON.parse(event.slice(6)));
  }
}

export async function resume() {
  const found = await ask("GET", "session").catch(() => ({}));
  session.value = found.name ? found : null;
}
export async function signIn(key) {
  session.value = await ask("POST", "session", { key });
}
export async function signOut() {
  await ask("DELETE", "session").catch(() => null);
  known.clear();
  session.value = null;
}
