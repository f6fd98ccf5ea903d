/**
 * Requests to the paths below `/admin`, with the cookie of a session and its token, which only this
 * page's origin has: cookies are shared by all ports of a host.
 */
import { signal } from "../vendor/signals.js";

/**
 * Who is signed in: undefined before that is known, null if nobody is.
 * @type {import("../vendor/signals.js").Signal<Api.Session | null | undefined>}
 */
export const session = signal(undefined);

/** Whether people sign in with the company's account. */
export const hasProvider = signal(false);

export const isAdmin = () => session.value?.role === "admin";

const TOKEN = "session-token";

/** A name as one segment of a path. */
export const encoded = encodeURIComponent;

/**
 * The path of a key or a team below `/admin`.
 * @param {Api.OwnerKind} kind
 * @param {string} name
 */
export const ownerPath = (kind, name) => (kind === "team" ? "teams/" : "keys/") + encoded(name);

/** An error that the gateway answered with. */
export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {Api.Error} error
   */
  constructor(status, error) {
    super(error.message || `The gateway answered with ${status}.`);
    this.status = status;
    this.error = error;
  }

  /** The message, or those of each field that is at fault. */
  get details() {
    const faults = this.error.faults || [];
    return faults.map(({ field, message }) => `${field}: ${message}`).join("; ") || this.message;
  }
}

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function call(path, options) {
  const headers = { "x-dragoman-csrf": localStorage.getItem(TOKEN) || "", ...options.headers };
  const response = await fetch("/admin/" + path, { ...options, headers, cache: "no-store" });
  if (response.status === 401) session.value = null;
  if (response.ok || response.status === 304) return response;
  const body = await response.json().catch(() => ({}));
  throw new Refusal(response.status, body.error || {});
}

const CACHED_PATHS = 20;
/**
 * Answers by path, as long as their entity tags are valid.
 * @type {Map<string, { tag: string, value: any }>}
 */
const cache = new Map();

/**
 * The JSON at a path.
 * @param {string} path
 * @returns {Promise<any>}
 */
export async function get(path) {
  const cached = cache.get(path);
  const response = await call(path, { headers: cached ? { "if-none-match": cached.tag } : {} });
  if (cached && response.status === 304) return cached.value;
  const value = await response.json().catch(() => ({}));
  const tag = response.headers.get("etag");
  if (tag) {
    if (cache.size > CACHED_PATHS) cache.clear();
    cache.set(path, { tag, value });
  }
  return value;
}

/**
 * The text at a path.
 * @param {string} path
 */
export const getText = async (path) => (await call(path, {})).text();

const JSON_TYPE = { "content-type": "application/json" };

/**
 * Asks for a change.
 * @param {"POST" | "PATCH" | "DELETE"} method
 * @param {string} path
 * @param {unknown} [body] text is sent as it is
 * @returns {Promise<any>}
 */
export async function send(method, path, body) {
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const response = await call(path, {
    method,
    headers: body === undefined ? {} : JSON_TYPE,
    body: text,
  });
  return response.json().catch(() => ({}));
}

/**
 * @param {string} path
 * @param {unknown} [body]
 */
export const post = (path, body) => send("POST", path, body);

/**
 * The server-sent events of an answer, as their fields.
 * @param {Response} response
 */
async function* eventsOf(response) {
  const stream = /** @type {ReadableStream<BufferSource>} */ (response.body);
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = /** @type {string} */ (blocks.pop());
    for (const block of blocks) {
      const lines = block.split("\n").map((line) => line.split(/: (.*)/s, 2));
      /** @type {Record<string, string>} */
      const fields = Object.fromEntries(lines);
      if (fields.data) yield fields;
    }
  }
}

/**
 * Asks for events, and reports each as it arrives.
 * @param {string} path
 * @param {unknown} body
 * @param {(event: any) => void} onEvent
 * @param {AbortSignal} signal
 */
export async function stream(path, body, onEvent, signal) {
  const text = JSON.stringify(body);
  const response = await call(path, { method: "POST", headers: JSON_TYPE, body: text, signal });
  for await (const { data } of eventsOf(response)) onEvent(JSON.parse(data));
}

/**
 * Receives the events of the gateway until they end. (An EventSource cannot send the token.)
 * @param {string} query the topics and filters
 * @param {string} place the id of the last event that was received
 * @param {() => void} onOpen
 * @param {(kind: string, data: any, id: string | undefined) => void} onEvent
 * @param {AbortSignal} signal
 */
export async function watch(query, place, onOpen, onEvent, signal) {
  /** @type {Record<string, string>} */
  const headers = place ? { "last-event-id": place } : {};
  const response = await call("events?" + query, { headers, signal });
  onOpen();
  for await (const { event, data, id } of eventsOf(response)) onEvent(event, JSON.parse(data), id);
}

/** What stands before the code with which a person returns from the company's sign-in. */
const CODE = "#sign-in=";

/** Takes up the session of an earlier page, if it still lasts, or begins that of a person. */
export async function resumeSession() {
  if (location.hash.startsWith(CODE)) {
    const code = location.hash.slice(CODE.length);
    history.replaceState(null, "", location.pathname);
    const isDone = await signIn({ code }).then(
      () => true,
      () => false,
    );
    if (isDone) return;
  }
  const found = await get("session").catch(() => ({}));
  hasProvider.value = Boolean(found.provider);
  session.value = found.name ? found : null;
}

/** @param {{ key: string } | { code: string }} proof */
export async function signIn(proof) {
  const { csrf, ...found } = await post("session", proof);
  localStorage.setItem(TOKEN, csrf);
  session.value = found;
}

export async function signOut() {
  await send("DELETE", "session").catch(() => null);
  localStorage.removeItem(TOKEN);
  cache.clear();
  session.value = null;
}
