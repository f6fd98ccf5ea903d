/** Templates of virtual DOM nodes. */
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

/**
 * Makes nodes from a template. Interpolated text always becomes a text node, so nothing that a
 * client or an upstream sends can become markup.
 */
export const html = htm.bind(h);

/**
 * The `class` attribute of an element that has some classes only at times.
 * @param {...(string | false | null | undefined)} names
 */
export const classes = (...names) => names.filter(Boolean).join(" ");
