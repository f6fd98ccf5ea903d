/** Errors by whose fault they are. */
import { ascending, sum } from "../lib/format.js";

/** How each is called in a sentence. */
export const AT_FAULT = /** @type {const} */ ({
  gateway: "the gateway or its accounts",
  upstream: "an upstream",
  caller: "their callers",
});

/**
 * The number of errors that somebody caused.
 * @param {Api.SeriesAnswer["errors"]} errors
 * @param {keyof typeof AT_FAULT} atFault
 */
export const errorsBy = (errors, atFault) => sum(Object.values(errors[atFault]));

/**
 * The number of errors that are not their callers' fault.
 * @param {Api.SeriesAnswer["errors"]} errors
 */
export const failuresOf = (errors) => errorsBy(errors, "gateway") + errorsBy(errors, "upstream");

/**
 * The kinds of errors that somebody caused, the most frequent first.
 * @param {Api.SeriesAnswer["errors"]} errors
 * @param {keyof typeof AT_FAULT} atFault
 */
export const kindsBy = (errors, atFault) =>
  Object.entries(errors[atFault]).sort(ascending(([, number]) => -number));
