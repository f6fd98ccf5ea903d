/**
 * The bodies of a request, where its key has them stored. Each read is recorded in the audit log.
 */
import { html } from "../lib/html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { encoded, get, getText, isAdmin } from "../lib/api.js";
import { count, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { CopyButton, Toggle } from "../components/controls.js";
import { Panel } from "../components/layout.js";

const BODIES = [
  { name: "client_request", label: "Client request" },
  { name: "upstream_request", label: "Upstream request" },
  { name: "upstream_answer", label: "Upstream response" },
  { name: "client_answer", label: "Client response" },
];

/**
 * JSON with line breaks; other text as it is.
 * @param {string} body
 */
function indented(body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

/** @param {{ id: string }} props */
export function Bodies({ id }) {
  const path = `requests/${encoded(id)}/bodies`;
  const { data } = useFetched(
    () =>
      get(path)
        .then((found) => found.bodies)
        .catch(() => ({})),
    [id],
  );
  const [open, setOpen] = useState(/** @type {{ name: string, text: string } | null} */ (null));
  const [error, setError] = useState("");
  useEffect(() => {
    setOpen(null);
    setError("");
  }, [id]);
  const toggle = async (name) => {
    setError("");
    if (open?.name === name) return setOpen(null);
    try {
      setOpen({ name, text: await getText(`${path}/${name}`) });
    } catch (refusal) {
      setError(refusal.message);
    }
  };
  /**
   * The size of each body that is stored.
   * @type {Record<string, number>}
   */
  const sizes = data || {};
  const stored = BODIES.filter(({ name }) => sizes[name] != null);
  const link = html`
    <span class="right row">
      <a class="btn" href=${"/ui/workbench?request=" + encoded(id)}>Open in the workbench</a>
    </span>
  `;
  return html`
    <${Panel} title="Bodies" note=${data ? storageText(stored.length > 0) : ""}
      tools=${isAdmin() && sizes.client_request != null && link}>
      ${
        stored.length > 0 &&
        isAdmin() &&
        html`
          <div class="body">
            <div class="row wrap">
              ${stored.map(
                ({ name, label }) => html`
                  <${Toggle} pressed=${open?.name === name} onClick=${() => toggle(name)}>
                    ${label + " "}<b>${count(sizes[name])} B</b>
                  <//>
                `,
              )}
            </div>
            ${error && html`<p class="state err" role="alert">${printable(error)}</p>`}
            ${open && html`<${Body} text=${open.text} size=${sizes[open.name]} />`}
          </div>
        `
      }
    <//>
  `;
}

/** @param {boolean} isStored */
function storageText(isStored) {
  if (!isStored) return "not stored for this key, or deleted since";
  return isAdmin()
    ? "stored encrypted; each read is in the audit log"
    : "stored encrypted, for admins";
}

/** @param {{ text: string, size: number }} props */
const Body = ({ text, size }) => html`
  <div class="step stored">
    <div class="row">
      <span class="muted small">${text.length < size ? "the first part of it" : ""}</span>
      <${CopyButton} text=${text} label="Copy the body" />
    </div>
    <pre tabindex="0">${indented(text)}</pre>
  </div>
`;
