/** The keyboard: what keys do outside of fields and dialogs. */
import { signal } from "../vendor/signals.js";
import { notify } from "../components/toast.js";
import { session } from "../lib/api.js";
import { navigate } from "../lib/navigation.js";
import { SCREENS } from "./screens.js";

/** The names of screens by the letters that lead to them after `g`. */
const SCREEN_OF = Object.fromEntries(
  Object.entries(SCREENS).map(([name, { shortcut }]) => [shortcut, name]),
);

/** The dialog of the keyboard that is open. */
export const openDialog = signal(/** @type {"go-to" | "help" | null} */ (null));

/** Whether single letters do something. */
export const usesLetters = signal(localStorage.getItem("letters") !== "off");

/** @param {boolean} value */
export function setUsesLetters(value) {
  usesLetters.value = value;
  localStorage.setItem("letters", value ? "on" : "off");
}

const SEQUENCE_MS = 1200;
/** Until when a letter after `g` names a screen. */
let sequenceEnd = 0;

// What follows does one thing each, and returns whether there was anything to do it with.

/**
 * Presses the button whose `data-key` a key is.
 * @param {string} key
 */
function press(key) {
  const buttons = /** @type {HTMLButtonElement[]} */ ([
    ...document.querySelectorAll("main [data-key]"),
  ]);
  const button = buttons.find(
    (one) => one.dataset.key === key && one.getClientRects().length && !one.disabled,
  );
  button?.click();
  return Boolean(button);
}

/**
 * Moves the focus to the first link of another row.
 * @param {number} step
 */
function moveRow(step) {
  const links = [...document.querySelectorAll("main tbody tr")].flatMap(
    (row) => row.querySelector("a") || [],
  );
  const index = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  const next = links[index < 0 ? 0 : index + step];
  next?.focus();
  return Boolean(next);
}

function closePanel() {
  const link = /** @type {HTMLElement | null} */ (
    document.querySelector("aside a[aria-label=Close]")
  );
  link?.click();
  return Boolean(link);
}

function focusFilter() {
  const field = /** @type {HTMLElement | null} */ (
    document.querySelector("main input[type=search]")
  );
  field?.focus();
  return Boolean(field);
}

function copyAddress() {
  navigator.clipboard.writeText(location.href).then(() => notify("The address was copied."));
  return true;
}

/** @type {Record<string, () => boolean>} */
const LETTERS = {
  "/": focusFilter,
  y: copyAddress,
  j: () => moveRow(1),
  k: () => moveRow(-1),
};

/**
 * Clears a filter, leaves it, or closes a panel.
 * @param {HTMLInputElement} target
 */
function escape(target) {
  if (target.type !== "search") return closePanel();
  if (!target.value) {
    target.blur();
    return true;
  }
  target.value = "";
  target.dispatchEvent(new Event("input", { bubbles: true }));
  return true;
}

/**
 * Whether an element takes a key itself.
 * @param {Element} target
 * @param {string} key
 */
const takesKey = (target, key) =>
  target.matches("input:not([type=checkbox]), select, textarea") ||
  (key === " " && target.matches("button, a, summary, input"));

/**
 * Handles a key; returns whether it had an effect.
 * @param {KeyboardEvent} event
 */
function handleKey({ key, target, timeStamp }) {
  const element = /** @type {HTMLInputElement} */ (target);
  if (key === "Escape") return escape(element);
  if (!usesLetters.value || takesKey(element, key)) return false;
  const isSecond = timeStamp < sequenceEnd;
  sequenceEnd = 0;
  if (isSecond && key in SCREEN_OF) {
    navigate("/ui/" + SCREEN_OF[key]);
    return true;
  }
  if (key === "g") {
    sequenceEnd = timeStamp + SEQUENCE_MS;
    return true;
  }
  if (key === "?") {
    openDialog.value = "help";
    return true;
  }
  return key in LETTERS ? LETTERS[key]() : press(key);
}

addEventListener("keydown", (event) => {
  if (!session.value) return;
  const hasModifier = event.ctrlKey || event.metaKey;
  if (hasModifier && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openDialog.value = "go-to";
    return;
  }
  const isTaken = event.defaultPrevented || document.querySelector("dialog[open]");
  if (isTaken || hasModifier || event.altKey) return;
  if (handleKey(event)) event.preventDefault();
});
