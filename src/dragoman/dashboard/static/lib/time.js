/** The clock of the page, and times in the zone of the browser or in UTC. */
import { signal } from "../vendor/signals.js";

/** The present Unix time in seconds: one timer for everything that counts down. */
export const now = signal(Date.now() / 1000);
setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000;
}, 1000);

/** Whether times are shown in UTC. */
const inUtc = signal(localStorage.getItem("zone") === "UTC");

/** The name of the zone in which times are shown. */
export function zoneName() {
  if (inUtc.value) return "UTC";
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts();
  return parts.find((part) => part.type === "timeZoneName")?.value;
}

/** The name of that zone by which the gateway knows it. */
export const zoneId = () =>
  inUtc.value ? "UTC" : new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Switches between the zone of the browser and UTC. */
export function toggleZone() {
  inUtc.value = !inUtc.value;
  localStorage.setItem("zone", inUtc.value ? "UTC" : "");
}

/**
 * A date whose local fields are those of the zone that is shown.
 * @param {number} ms
 */
function zoned(ms) {
  const date = new Date(ms);
  return inUtc.value ? new Date(ms + date.getTimezoneOffset() * 60_000) : date;
}

const pad = (number, digits = 2) => String(number).padStart(digits, "0");

/**
 * The time of day, with the day where it is not today.
 * @param {number} at Unix seconds
 * @param {"minutes" | "seconds" | "milliseconds"} precision
 */
export function formatTime(at, precision = "seconds") {
  const date = zoned(at * 1000);
  let time = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  if (precision !== "minutes") time += ":" + pad(date.getSeconds());
  if (precision === "milliseconds") time += "." + pad(date.getMilliseconds(), 3);
  if (date.toDateString() === zoned(Date.now()).toDateString()) return time;
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + " " + time;
}

/**
 * The time of day to the minute.
 * @param {number} at Unix seconds
 */
export const formatMinute = (at) => formatTime(at, "minutes");

/**
 * The Unix time of an ISO date, null if there is none.
 * @param {string | null | undefined} text
 */
export const unixTime = (text) => (text ? Date.parse(text) / 1000 : null);

/**
 * The Unix time at which a day begins, in the zone that is shown.
 * @param {string} day such as `2026-11-28`
 * @param {number} [later] so many days later
 */
export function dayStart(day, later = 0) {
  const [year, month, date] = day.split("-").map(Number);
  return midnight(year, month - 1, date + later);
}

/**
 * The Unix time at which the day of a time begins, in the zone that is shown.
 * @param {number} at Unix seconds
 * @param {number} later so many days later
 */
export function dayOf(at, later) {
  const date = zoned(at * 1000);
  return midnight(date.getFullYear(), date.getMonth(), date.getDate() + later);
}

/** @type {(...place: [number, number, number]) => number} */
const midnight = (...place) =>
  (inUtc.value ? Date.UTC(...place) : new Date(...place).getTime()) / 1000;
