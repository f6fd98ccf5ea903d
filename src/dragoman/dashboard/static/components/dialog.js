/** Dialogs, each of which is a form. */
import { html } from "../lib/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { count, printable } from "../lib/format.js";
import { ScrollRegion } from "./layout.js";
import { Select } from "./controls.js";

/**
 * The fields of a form by their names, without blanks around them.
 * @typedef {Record<string, string>} Values
 */

/**
 * The fields of a form.
 * @param {HTMLFormElement} form
 * @returns {Values}
 */
const valuesOf = (form) =>
  Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));

/**
 * The words of a field that takes several.
 * @param {string} text
 */
export const words = (text) => text.split(/[\s,]+/).filter(Boolean);

/**
 * A modal dialog: the focus stays within, and returns to where it was.
 * @param {{ title: string, onClose: () => void, onSubmit?: (values: Values) => void,
 *   onInput?: () => void, class?: string, children?: unknown }} props
 */
export function Dialog({ title, onClose, onSubmit = onClose, onInput, class: kind, children }) {
  const dialog = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current.showModal();
    return () => before?.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    onSubmit(valuesOf(event.currentTarget));
  };
  return html`
    <dialog ref=${dialog} aria-label=${title} onClose=${onClose} onCancel=${onClose}>
      <h2>${title}</h2>
      <form class=${kind} onInput=${onInput} onSubmit=${submit}>${children}</form>
    </dialog>
  `;
}

/**
 * The buttons of a dialog, the one that submits it first.
 * @param {{ children?: unknown }} props
 */
export const Actions = ({ children }) => html`<div class="acts">${children}</div>`;

/** @param {{ text: string, id?: string }} props */
export const FormError = ({ text, id }) => html`
  <p id=${id} class="wrong" role="alert">${printable(text)}</p>
`;

/**
 * Runs what a dialog asks for: `onDone` with its result, or `error` with why it was refused.
 * @template T
 * @param {(result: T) => void} onDone
 */
export function useSubmit(onDone) {
  const [error, setError] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const run = async (work) => {
    setIsBusy(true);
    setError("");
    try {
      const result = await work();
      setIsBusy(false);
      onDone(result);
    } catch (refusal) {
      setError(refusal.details || refusal.message);
      setIsBusy(false);
    }
  };
  return { error, isBusy, run };
}

/**
 * A dialog that sends its fields, and closes when they were accepted.
 * @param {{ title: string, action: string, busyAction?: string, submit: (values: Values) => any,
 *   onDone: (result: any) => void, onClose: () => void, onInput?: () => void, children?: unknown
 *   }} props
 */
export function FormDialog({ title, action, busyAction = action, submit, onDone, ...more }) {
  const { onClose, onInput, children } = more;
  const { error, isBusy, run } = useSubmit(onDone);
  return html`
    <${Dialog} title=${title} onClose=${onClose} onInput=${onInput}
      onSubmit=${(values) => run(() => submit(values))}>
      ${children}
      <${FormError} text=${error} />
      <${Actions}>
        <button class="btn primary" disabled=${isBusy}>${isBusy ? busyAction : action}</button>
        <button type="button" class="btn" onClick=${onClose}>Cancel</button><//><//>
  `;
}

/** @param {{ name: string, label: string, [more: string]: any }} props */
export const Field = ({ name, label, ...more }) => html`
  <label for=${name}>${label}</label>
  <input id=${name} name=${name} autocomplete="off" spellcheck="false" ...${more} />
`;

/** @param {{ name: string, label: string, choices: [string, string][], chosen: string }} props */
export const SelectField = ({ name, label, choices, chosen }) => html`
  <label for=${name}>${label}</label>
  <${Select} id=${name} name=${name} class="field" choices=${choices} chosen=${chosen} />
`;

/**
 * The names that a field suggests.
 * @param {{ id: string, names: readonly string[] }} props
 */
export const Suggestions = ({ id, names }) => html`
  <datalist id=${id}>${names.map((name) => html`<option value=${name} />`)}</datalist>
`;

const CONFIRMED_FROM = 20;
const NAMED = 8;

/**
 * A field to confirm a large number of things: the form is invalid until it is typed.
 * @param {{ number: number }} props
 */
export const ConfirmNumber = ({ number }) =>
  number > CONFIRMED_FROM &&
  html`
    <${Field} name="typed" label=${`Type ${count(number)} to confirm`} required inputmode="numeric"
      pattern=${count(number).replaceAll(",", ",?")} title=${count(number)} />
  `;

/**
 * Names in a sentence; those after the first few unfold.
 * @param {{ names: string[] }} props
 */
export const NameList = ({ names }) => html`
  ${names.slice(0, NAMED).map(printable).join(", ")}
  ${
    names.length > NAMED &&
    html`
      <details>
        <summary>and ${count(names.length - NAMED)} more</summary>
        <${ScrollRegion} label="The others" class="scrolls">
          ${names.slice(NAMED).map(printable).join(", ")}
        <//>
      </details>
    `
  }
`;
