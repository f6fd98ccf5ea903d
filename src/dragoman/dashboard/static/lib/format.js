/** Numbers, durations and text from outside, as people read them. */

/** Longest text from outside that is shown. */
export const TEXT_LIMIT = 200;

// Characters that are invisible, or that reverse or hide the text around them.
// eslint-disable-next-line no-control-regex
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/**
 * Text from outside, safe to read: invisible characters are spelled out, long text is cut.
 * @param {unknown} text
 */
export function printable(text) {
  const shown = String(text).replace(INVISIBLE, (character) => {
    const code = character.charCodeAt(0).toString(16).toUpperCase();
    return "U+" + code.padStart(4, "0");
  });
  return shown.length > TEXT_LIMIT ? shown.slice(0, TEXT_LIMIT) + "…" : shown;
}

/**
 * A whole number with grouped digits.
 * @param {number} number
 */
export const count = (number) => number.toLocaleString("en-US");

/**
 * A counted noun.
 * @param {number} number
 * @param {string} one the noun
 * @param {string} [many] its plural
 */
export const plural = (number, one, many = one + "s") =>
  `${count(number)} ${number === 1 ? one : many}`;

/**
 * A number in three digits, with `k` or `M`.
 * @param {number} number
 */
export function compact(number) {
  if (number < 1000) return String(Math.round(number));
  if (number < 1e6) return (number / 1e3).toPrecision(3) + " k";
  return (number / 1e6).toPrecision(3) + " M";
}

/**
 * The percentage of a share, with a decimal below 10.
 * @param {number} part
 * @param {number} all
 */
export const percent = (part, all) => ((100 * part) / all).toFixed(part / all < 0.1 ? 1 : 0);

/**
 * How long something took.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 1) return Math.round(seconds * 1000) + " ms";
  if (seconds < 10) return seconds.toFixed(2) + " s";
  if (seconds < 60) return seconds.toFixed(1) + " s";
  return countdown(seconds);
}

/**
 * How long something will take, in whole seconds and two units at most.
 * @param {number} seconds
 */
export function countdown(seconds) {
  if (seconds < 60) return Math.ceil(seconds) + " s";
  if (seconds < 600) return twoUnits(seconds, 60, "min", 1, "s");
  if (seconds < 3600) return Math.floor(seconds / 60) + " min";
  if (seconds < 86400) return twoUnits(seconds, 3600, "h", 60, "min");
  return twoUnits(seconds, 86400, "d", 3600, "h");
}

/**
 * @param {number} seconds
 * @param {number} large seconds of the larger unit
 * @param {string} largeName
 * @param {number} small seconds of the smaller unit
 * @param {string} smallName
 */
function twoUnits(seconds, large, largeName, small, smallName) {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeName}` + (rest ? ` ${rest} ${smallName}` : "");
}

/**
 * A number of bytes.
 * @param {number} bytes
 */
export const size = (bytes) =>
  bytes < 10_000 ? count(bytes) + " B" : Math.round(bytes / 1000) + " kB";

/**
 * US dollars.
 * @param {string | number} amount
 */
export function money(amount) {
  const usd = Number(amount);
  if (!usd) return "$0";
  if (usd < 0.0001) return "< $0.0001";
  return "$" + usd.toFixed(usd < 1 ? 4 : 2);
}

/**
 * A value of JSON as text, strings without quotes.
 * @param {unknown} value
 */
export const plainJson = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/**
 * A comparison of items by a number.
 * @template T
 * @param {(item: T) => number} key
 */
export const ascending = (key) => (a, b) => key(a) - key(b);

/**
 * @param {readonly unknown[]} values numbers, also as text; unknown ones count as 0
 * @returns {number}
 */
export const sum = (values) =>
  values.map((value) => Number(value) || 0).reduce((total, value) => total + value, 0);

/**
 * Those values that are known.
 * @template T
 * @param {readonly (T | null | undefined)[]} values
 */
export const known = (values) => /** @type {T[]} */ (values.filter((value) => value != null));
