/** Requests to the paths below `/admin`, with the cookie of a session. */
import { signal } from "../vendor/signals.js";

/**
 * Who is signed in: undefined before that is known, null if nobody is.
 * @type {import("../vendor/signals.js").Signal<Api.Session | null | undefined>}
 */
export const session = signal(undefined);

export const isAdmin = () => session.value?.role === "admin";

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
  const response = await fetch("/admin/" + path, { ...options, cache: "no-store" });
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

/**
 * The headers of a request that changes something.
 * @param {boolean} hasBody
 */
function writeHeaders(hasBody) {
  /** @type {Record<string, string>} */
  const headers = hasBody ? { "content-type": "application/json" } : {};
  if (session.value) headers["x-dragoman-csrf"] = session.value.csrf;
  return headers;
}

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
    headers: writeHeaders(body !== undefined),
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
 * Asks for events, and reports each as it arrives.
 * @param {string} path
 * @param {unknown} body
 * @param {(event: any) => void} onEvent
 * @param {AbortSignal} signal
 */
export async function stream(path, body, onEvent, signal) {
  const text = JSON.stringify(body);
  const response = await call(path, {
    method: "POST",
    headers: writeHeaders(true),
    body: text,
    signal,
  });
  const stream = /** @type {ReadableStream<BufferSource>} */ (response.body);
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = /** @type {string} */ (events.pop());
    for (const event of events) {
      if (event.startsWith("data: ")) onEvent(JSON.parse(event.slice("data: ".length)));
    }
  }
}

/** Takes up the session of an earlier page, if it still lasts. */
export async function resumeSession() {
  const found = await get("session").catch(() => ({}));
  session.value = found.name ? found : null;
}

/** @param {string} key */
export async function signIn(key) {
  session.value = await post("session", { key });
}

export async function signOut() {
  await send("DELETE", "session").catch(() => null);
  cache.clear();
  session.value = null;
}
