/** Workbench: a request as it is sent in each protocol, and which policies accept it. */
import { html } from "../lib/html.js";
import { useEffect, useMemo, useState } from "../vendor/hooks.js";
import { encoded, get, getText, isAdmin, post } from "../lib/api.js";
import { useFetched } from "../lib/hooks.js";
import { queryValue, useQuery } from "../lib/navigation.js";
import { Segmented, Select } from "../components/controls.js";
import { ErrorBanner, ScreenHead } from "../components/layout.js";
import { LOSS_KINDS, PROTOCOL_CHOICES } from "../components/protocols.js";
import { EXAMPLES } from "./workbench_examples.js";
import { Ledger, POLICIES, Verdicts } from "./workbench_ledger.js";
import { lossPaths, Panes, panesOf } from "./workbench_panes.js";
import { PasteDialog } from "./workbench_paste.js";
import { StreamPanel } from "./workbench_stream.js";

const TYPING_MS = 200;

const POLICY_CHOICES = POLICIES.map((policy) => [policy, policy]);

/** The legend, the mildest kinds first. */
const LEGEND_KINDS = ["knob", "converted", "repaired", "content"];

const EXAMPLE_CHOICES = Object.entries(EXAMPLES).map(([name, { title }]) => [name, title]);

/**
 * The request that is looked at.
 * @typedef {object} WorkbenchRequest
 * @property {string} example its name, empty if it is none
 * @property {string} source the protocol that it is in
 * @property {string} body JSON
 * @property {string} model whose options apply, empty for the defaults
 */

/**
 * @param {string} name
 * @returns {Omit<WorkbenchRequest, "model">}
 */
function exampleRequest(name) {
  const { protocol, body } = EXAMPLES[name];
  return { example: name, source: protocol, body: JSON.stringify(body, null, 2) };
}

/**
 * The request to begin with.
 * @returns {WorkbenchRequest}
 */
function firstRequest() {
  const wanted = queryValue("example");
  const name = wanted in EXAMPLES ? wanted : Object.keys(EXAMPLES)[0];
  return { ...exampleRequest(name), model: "" };
}

/**
 * A request of the log, whose body is stored.
 * @param {string} id
 * @returns {Promise<WorkbenchRequest>}
 */
async function loggedRequest(id) {
  const path = "requests/" + encoded(id);
  const [row, body] = await Promise.all([get(path), getText(path + "/bodies/client_request")]);
  return { example: "", source: row.protocol, body, model: row.model };
}

/**
 * @param {string} text
 * @returns {unknown} null where it is not JSON
 */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * The translations of a request into the other protocols.
 * @param {WorkbenchRequest} request
 */
function useTranslation({ source, body, model }) {
  const translate = async () => {
    const answer = await post("translate", { from: source, body, model: model || undefined });
    return { ...answer, body };
  };
  const found = useFetched(translate, [source, body, model], { delay: TYPING_MS });
  const { data, error, refusal } = found;
  const param = refusal?.error?.param;
  return {
    /** @type {Api.Translation | null} */
    translation: !error && data && data.body === body ? data : null,
    error: param ? `${param}: ${error}` : error,
  };
}

export function Workbench() {
  const [request, setRequest] = useState(firstRequest);
  const [policy, setPolicy] = useState(/** @type {Api.Policy} */ ("balanced"));
  const [loadError, setLoadError] = useState("");
  const [isPasting, setIsPasting] = useState(false);
  const { translation, error } = useTranslation(request);
  const value = useMemo(() => parsed(request.body), [request.body]);
  useQuery({ example: request.example });
  useEffect(() => {
    const id = queryValue("request");
    if (!id || !isAdmin()) return;
    loggedRequest(id).then(setRequest, (refusal) => setLoadError(refusal.message));
  }, []);
  const change = (more) => setRequest({ ...request, ...more });
  const paste = (body, source) => {
    change({ example: "", body, source });
    setIsPasting(false);
  };
  const targets = translation ? translation.targets : [];
  const panes = useMemo(
    () => panesOf(request.source, request.body, value, translation),
    [request.source, request.body, translation],
  );
  const [lit, setLit] = useState({ path: "", scrolls: false });
  const step = (by) => {
    const paths = lossPaths(panes);
    const index = paths.indexOf(lit.path);
    const start = by > 0 ? 0 : paths.length - 1;
    const next = index < 0 ? start : (index + by + paths.length) % paths.length;
    if (paths.length) setLit({ path: paths[next], scrolls: true });
  };
  const tools = html`
    <label class="visually-hidden" for="example">Example</label>
    <${Select} id="example"
      choices=${request.example ? EXAMPLE_CHOICES : [["", "pasted"], ...EXAMPLE_CHOICES]}
      chosen=${request.example}
      onChoose=${(name) => change(exampleRequest(name))} />
    <button class="btn" onClick=${() => setIsPasting(true)}>Paste…</button>
  `;
  return html`
    <${ScreenHead} title="Workbench"
      note="one request in every protocol; nothing is sent until you confirm it" tools=${tools} />
    <${Settings} request=${request} onChange=${change} policy=${policy} onPolicy=${setPolicy}
      onStep=${step} />
    <${ErrorBanner} text=${error || loadError} />
    <${Panes} panes=${panes} lit=${lit}
      onLight=${(path) => setLit({ path, scrolls: false })} />
    ${
      translation &&
      html`
        <div class="cols workbench-columns">
          <${Ledger} targets=${targets} value=${value} />
          <${Verdicts} translation=${translation} policy=${policy} onPolicy=${setPolicy} />
        </div>
      `
    }
    ${
      isAdmin() &&
      html`<${StreamPanel} request=${request} isValid=${targets.length > 0} policy=${policy} />`
    }
    ${
      isPasting &&
      html`
        <${PasteDialog} body=${request.body} onClose=${() => setIsPasting(false)} onDone=${paste} />
      `
    }
  `;
}

/**
 * What the translation depends on, and the legend.
 * @param {{ request: WorkbenchRequest, onChange: (more: Partial<WorkbenchRequest>) => void,
 *   policy: Api.Policy, onPolicy: (policy: Api.Policy) => void, onStep: (by: number) => void
 *   }} props
 */
const Settings = ({ request, onChange, policy, onPolicy, onStep }) => html`
  <div class="workbench-settings">
    <span class="faint small">The client speaks</span>
    <${Segmented} label="The client speaks" choices=${PROTOCOL_CHOICES} chosen=${request.source}
      onChoose=${(source) => onChange({ source })} />
    <span class="faint small">Policy</span>
    <${Segmented} label="Policy" choices=${POLICY_CHOICES} chosen=${policy} onChoose=${onPolicy} />
    <label for="options-model">Options of the model</label>
    <span class="field option">
      <input id="options-model" placeholder="the defaults" value=${request.model}
        onChange=${(event) => onChange({ model: event.target.value.trim() })} />
    </span>
    <span class="grow"></span>
    <span class="legend not-phone">
      ${LEGEND_KINDS.map(
        (kind) => html`
          <span class=${"kind " + kind}>
            <i>${LOSS_KINDS[kind].letter}</i>${LOSS_KINDS[kind].label}
          </span>
        `,
      )}
      <button class="btn quiet" data-key="p" aria-label="Previous loss" onClick=${() => onStep(-1)}>
        ↑
      </button>
      <button class="btn quiet" data-key="n" aria-label="Next loss" onClick=${() => onStep(1)}>
        ↓
      </button>
    </span>
  </div>
`;
