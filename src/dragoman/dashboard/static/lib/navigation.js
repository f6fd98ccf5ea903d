/** The address of the page: its path, and the state of a screen in its query. */
import { useEffect } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";

/** The path of the page, below which screen follows screen without a reload. */
export const path = signal(location.pathname);

addEventListener("popstate", () => {
  path.value = location.pathname;
});

/**
 * Follows a link within the page.
 * @param {string} url
 */
export function navigate(url) {
  if (url !== location.pathname + location.search) history.pushState(null, "", url);
  path.value = location.pathname;
}

// Links to screens are followed without a reload, unless a new tab or window is requested.
document.addEventListener("click", (event) => {
  const link = /** @type {any} */ (event.target).closest("a[href^='/ui/']");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
});

/**
 * A path with a query of what is not empty.
 * @param {string} base
 * @param {Record<string, unknown>} params
 */
export function withQuery(base, params) {
  const given = Object.entries(params).filter(([, value]) => value != null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length ? `${base}?${query}` : base;
}

/**
 * A value of the query of the page, empty if it is not there.
 * @param {string} name
 */
export const queryValue = (name) => new URLSearchParams(location.search).get(name) || "";

/**
 * Keeps what a screen shows in the query of the page; empty values are left out.
 * @param {Record<string, string>} values
 */
export function useQuery(values) {
  useEffect(() => {
    const url = new URL(location.href);
    for (const [name, value] of Object.entries(values)) {
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    history.replaceState(null, "", url);
  }, Object.values(values));
}

/**
 * The fields of a filter such as `account:max-014 status:5xx word`.
 * @param {string} text
 * @returns {{ field: string, value: string | undefined }[]} `value` is undefined for a bare word
 */
export function filterTerms(text) {
  const terms = text.split(/\s+/).filter(Boolean);
  return terms.map((term) => {
    const [field, value] = term.split(/:(.*)/);
    return { field, value };
  });
}
