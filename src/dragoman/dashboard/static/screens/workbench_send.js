/** The dialog that sends a request, to a simulator or by a route. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { Field, FormDialog, SelectField, Suggestions } from "../components/dialog.js";
import { PROTOCOL_CHOICES } from "../components/protocols.js";

const DEFAULT_SCENARIO = "text?words=40&delay_ms=15";
const SCENARIOS = [
  DEFAULT_SCENARIO,
  "reasoning",
  "reasoning_tool",
  "tool",
  "parallel_tools",
  "structured",
  "citations",
  "refusal",
  "length",
  "multibyte",
];

/**
 * @param {{ request: import("./workbench.js").WorkbenchRequest, onClose: () => void,
 *   onDone: (target: Api.SendTarget) => void }} props
 */
export function SendDialog({ request, onClose, onDone }) {
  const [usesRoute, setUsesRoute] = useState(false);
  const submit = (values) => {
    if (!usesRoute) return { scenario: values.scenario, to: values.to };
    if (!values.model) throw new Error("Name a model that a route serves.");
    return { model: values.model, max_tokens: Number(values.max_tokens) };
  };
  const choice = (isRoute, label) => html`
    <label>
      <input type="radio" name="where" checked=${usesRoute === isRoute}
        onChange=${() => setUsesRoute(isRoute)} />
      ${" " + label}
    </label>
  `;
  return html`
    <${FormDialog} title="Send this request" action="Send" submit=${submit} onDone=${onDone}
      onClose=${onClose}>
      <fieldset class="row">
        <legend class="visually-hidden">Where to</legend>
        ${choice(false, "To a simulator")} ${choice(true, "By a route")}
      </fieldset>
      ${
        usesRoute
          ? html`<${RouteFields} model=${request.model} />`
          : html`<${SimulatorFields} source=${request.source} />`
      }
    <//>
  `;
}

/** @param {{ source: string }} props the protocol of the client */
function SimulatorFields({ source }) {
  const [other] = PROTOCOL_CHOICES.find(([id]) => id !== source) || [""];
  return html`
    <p class="muted">Nothing leaves this machine, and nothing is counted.</p>
    <${SelectField} name="to" label="The simulator speaks" choices=${PROTOCOL_CHOICES}
      chosen=${other} />
    <${Field} name="scenario" label="Scenario" list="scenarios" defaultValue=${DEFAULT_SCENARIO}
      required />
    <${Suggestions} id="scenarios" names=${SCENARIOS} />
  `;
}

/** @param {{ model: string }} props */
const RouteFields = ({ model }) => html`
  <p class="muted">
    One request to the upstream of the route, by an account that the pool chooses. It costs what any
    other does, counts for the key <b>workbench</b>, and is recorded in the audit log.
  </p>
  <${Field} name="model" label="Model" defaultValue=${model} />
  <${Field} name="max_tokens" label="Most output tokens" type="number" min="1" max="1000000"
    defaultValue="1024" required />
`;
