/** Hooks that bring data from the gateway into components. */
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { Refusal, session, stream, watch } from "./api.js";

/** Milliseconds after the last key before what was typed is searched for. */
export const TYPING_MS = 150;

/**
 * The result of `read`, which runs again whenever one of `deps` changes.
 *
 * `delay` ms have to pass without another change before it is read; with `every` it runs again
 * in that interval while the page is visible. An answer that another change has overtaken is
 * ignored. After an error the last data stay.
 * @template T
 * @param {() => Promise<T> | null} read null for no data
 * @param {readonly unknown[]} deps
 * @param {{ delay?: number, every?: number }} [timing]
 * @returns {{ data: T | null, error: string, refusal: any, reload: () => void }}
 */
export function useFetched(read, deps, { delay = 0, every = 0 } = {}) {
  const [state, setState] = useState({
    data: /** @type {T | null} */ (null),
    error: "",
    refusal: null,
  });
  const reload = useRef(() => {});
  useEffect(() => {
    let isCurrent = true;
    let isFresh = false; // it was read since the last tick
    const load = async () => {
      try {
        const data = await read();
        if (isCurrent) setState({ data, error: "", refusal: null });
      } catch (refusal) {
        if (isCurrent) setState((old) => ({ data: old.data, error: refusal.message, refusal }));
      }
    };
    reload.current = () => {
      isFresh = true;
      load();
    };
    const tick = () => {
      if (!isFresh && !document.hidden) load();
      isFresh = false;
    };
    const start = delay ? setTimeout(load, delay) : void load();
    const timer = every ? setInterval(tick, every) : undefined;
    return () => {
      isCurrent = false;
      clearTimeout(start);
      clearInterval(timer);
    };
  }, deps);
  return { ...state, reload: () => reload.current() };
}

/**
 * A function that calls `run` after `ms`, once for all calls until then.
 * @param {() => void} run
 * @param {number} ms
 */
export function useThrottled(run, ms) {
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    timer.current ||= setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, ms);
  };
}

/**
 * A set of names that are chosen one by one.
 * @param {Iterable<string>} initial
 * @returns {[Set<string>, (name: string) => void, (names: Iterable<string>) => void]} the set, what
 *   toggles a name, and what replaces all
 */
export function useSelection(initial = []) {
  const [chosen, setChosen] = useState(() => new Set(initial));
  const toggle = (name) =>
    setChosen((old) => {
      const next = new Set(old);
      if (!next.delete(name)) next.add(name);
      return next;
    });
  return [chosen, toggle, (names) => setChosen(new Set(names))];
}

/**
 * Whether the screen receives events; undefined on one that has none.
 * @type {import("../vendor/signals.js").Signal<boolean | undefined>}
 */
export const isLive = signal(undefined);

const HIDDEN_MS = 30_000;
/** After an answer that refused them, and after a connection that was lost. */
const RECONNECT_MS = 5_000;
const RETRY_MS = 2_000;

/**
 * Receives the events of the gateway while the page is visible.
 * @param {string} query the topics and filters; none are received while it is empty
 * @param {Record<string, (data: any) => void>} handlers by the kind of event; `open` is called for
 *   each new connection, before which events may have been missed
 * @returns {boolean | undefined} whether it is connected, undefined before that is known
 */
export function useEvents(query, handlers) {
  const [isConnected, setIsConnected] = useState(/** @type {boolean | undefined} */ (undefined));
  useEffect(() => {
    if (!query) return undefined;
    const setConnected = (value) => {
      setIsConnected(value);
      isLive.value = value;
    };
    return connect(query, handlers, setConnected);
  }, [query]);
  return isConnected;
}

/**
 * @param {string} query
 * @param {Record<string, (data: any) => void>} handlers
 * @param {(value: boolean | undefined) => void} setConnected
 */
function connect(query, { open: onOpen, ...handlers }, setConnected) {
  /** @type {AbortController | null} */
  let controller = null;
  let place = "";
  let timer = /** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined);

  const close = () => {
    clearTimeout(timer);
    controller?.abort();
    controller = null;
  };
  const onConnected = () => {
    setConnected(true);
    onOpen?.(null);
  };
  const onEvent = (kind, data, id) => {
    place = id || place;
    if (kind === "bye" && data.why === "signed out") {
      close();
      session.value = null;
    } else handlers[kind]?.(data);
  };
  const open = async () => {
    close();
    const own = new AbortController();
    controller = own;
    const error = await watch(query, place, onConnected, onEvent, own.signal).catch((e) => e);
    if (controller !== own) return;
    controller = null;
    setConnected(false);
    const wait = error instanceof Refusal ? RECONNECT_MS * (1 + Math.random()) : RETRY_MS;
    timer = setTimeout(open, wait);
  };
  const onVisibility = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(close, HIDDEN_MS);
    else if (!controller) open();
  };

  onVisibility();
  document.addEventListener("visibilitychange", onVisibility);
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    close();
    setConnected(undefined);
  };
}

/**
 * The events of a request that answers with a stream.
 * @template T
 */
export function useStream() {
  const [events, setEvents] = useState(/** @type {T[]} */ ([]));
  const [error, setError] = useState("");
  const [isRunning, setIsRunning] = useState(false);
  const controller = useRef(/** @type {AbortController | null} */ (null));
  const frame = useRef(0);
  const stop = () => controller.current?.abort();
  useEffect(() => stop, []);

  const start = async (path, body) => {
    stop();
    const own = new AbortController();
    controller.current = own;
    /** @type {T[]} */
    const received = [];
    setEvents([]);
    setError("");
    setIsRunning(true);
    // Events that arrive within one frame of the display are drawn together.
    const draw = () => controller.current === own && setEvents([...received]);
    const onEvent = (event) => {
      received.push(event);
      cancelAnimationFrame(frame.current);
      frame.current = requestAnimationFrame(draw);
    };
    try {
      await stream(path, body, onEvent, own.signal);
    } catch (refusal) {
      if (refusal.name !== "AbortError" && controller.current === own) setError(refusal.message);
    }
    if (controller.current !== own) return;
    draw();
    setIsRunning(false);
  };
  return { events, error, isRunning, start, stop };
}
