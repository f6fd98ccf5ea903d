/** Clients: how each is pointed at this instance, and what it loses. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { encoded, get, isAdmin } from "../lib/api.js";
import { printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { navigate, queryValue, withQuery } from "../lib/navigation.js";
import { formatTime } from "../lib/time.js";
import { CopyButton, Select } from "../components/controls.js";
import { Suggestions } from "../components/dialog.js";
import { Empty, ErrorBanner, Panel, ScreenHead } from "../components/layout.js";
import { Doctor } from "./doctor.js";

const SEEN_WITHIN_S = 7 * 86_400;

/**
 * The name of a client in a URL.
 * @param {string} name
 */
const slug = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, "-");

/**
 * @param {string} name of a client
 * @param {string} model
 */
const linkTo = (name, model) => withQuery("/ui/clients/" + slug(name), { model });

/**
 * The text of a guide, whose only markup is that of code.
 * @param {string} text
 */
const guideText = (text) =>
  text.split(/(`[^`]+`)/).map((part) => {
    const isCode = part.startsWith("`") && part.length > 1;
    return isCode ? html`<code class="mono">${part.slice(1, -1)}</code>` : part;
  });

/** @param {{ name?: string }} props `name` is the slug of a client */
export function Clients({ name }) {
  const [model, setModel] = useState(queryValue("model"));
  const [address, setAddress] = useState(location.origin);
  const { data, error } = useFetched(
    () => /** @type {Promise<Api.Guides>} */ (get(withQuery("guides", { url: address, model }))),
    [model, address],
  );
  const guides = data ? data.guides : [];
  const guide = guides.find((one) => slug(one.name) === name) || guides[0];
  return html`
    <${ScreenHead} title="Clients" note="how each is pointed at this instance" />
    <${GuideSettings} model=${model} models=${data ? data.models : []}
      defaultModel=${data ? data.model : ""} address=${address} onModel=${setModel}
      onAddress=${setAddress} />
    <${ErrorBanner} text=${error} />
    ${
      data && guide
        ? html`
          <div class="clients">
            <${ClientList} guides=${guides} guide=${guide} model=${model} />
            <div class="stack">
              <${Setup} guide=${guide} />
              <${Expectations} guide=${guide} />
              ${isAdmin() && html`<${Doctor} model=${model || data.model} />`}
            </div>
          </div>
        `
        : html`<${Empty}>${error ? "" : "Loading…"}<//>`
    }
  `;
}

/**
 * @param {{ model: string, models: string[], defaultModel: string, address: string,
 *   onModel: (model: string) => void, onAddress: (address: string) => void }} props
 */
const GuideSettings = ({ model, models, defaultModel, address, onModel, onAddress }) => html`
  <div class="workbench-settings">
    <label for="guide-model">Model</label>
    <span class="field option">
      <input id="guide-model" list="guide-models" placeholder=${printable(defaultModel)}
        value=${model}
        onChange=${(event) => onModel(event.target.value.trim())} />
    </span>
    <${Suggestions} id="guide-models" names=${models} />
    <label for="guide-url">Address</label>
    <span class="field option">
      <input id="guide-url" type="url" value=${address}
        onChange=${(event) => onAddress(event.target.value.trim() || location.origin)} />
    </span>
    <span class="faint small">The key stays in <code class="mono">DRAGOMAN_KEY</code>.</span>
  </div>
`;

/**
 * The clients as links, or as a list to choose from where the page is narrow.
 * @param {{ guides: Api.Guide[], guide: Api.Guide, model: string }} props
 */
const ClientList = ({ guides, guide, model }) => html`
  <nav class="panel client-list not-phone" aria-label="Clients">
    <ul>
      ${guides.map(
        ({ name, speaks }) => html`
          <li>
            <a href=${linkTo(name, model)} aria-current=${name === guide.name ? "page" : null}>
              ${name}
              <span class="small" title=${speaks.join(", ")}>
                ${speaks.map((protocol) => protocol[0]).join(" ")}
              </span>
            </a>
          </li>
        `,
      )}
    </ul>
  </nav>
  <div class="only-phone pick">
    <label class="visually-hidden" for="client">Client</label>
    <${Select} id="client" choices=${guides.map(({ name }) => [name, name])} chosen=${guide.name}
      onChoose=${(name) => navigate(linkTo(name, model))} />
  </div>
`;

/** @param {{ guide: Api.Guide }} props */
const Setup = ({ guide }) => html`
  <${Panel} title=${guide.name} note=${"speaks " + guide.speaks.join(", ")}>
    ${guide.setup.map(
      ({ where, text }) => html`
        <div class="step">
          <div class="row">
            <span class="muted small mono">${where}</span>
            <${CopyButton} text=${text} label=${"Copy " + where} />
          </div>
          <pre tabindex="0">${text}</pre>
        </div>
      `,
    )}
  <//>
`;

/** @param {{ guide: Api.Guide }} props */
const Expectations = ({ guide: { name, works, lost, notes } }) => html`
  <${Panel} title="What to expect">
    <div class="body">
      <dl class="expects">
        <dt>Works</dt>
        <dd>${guideText(works)}</dd>
        <dt>Lost</dt>
        <dd>${guideText(lost)}</dd>
        ${
          notes &&
          html`
            <dt>Note</dt>
            <dd>${guideText(notes)}</dd>
          `
        }
        <dt>Seen here</dt>
        <dd><${LastSeen} client=${name} /></dd>
      </dl>
    </div>
  <//>
`;

/**
 * When a client was seen last.
 * @param {{ client: string }} props
 */
function LastSeen({ client }) {
  const { data } = useFetched(() => {
    const from = Math.floor(Date.now() / 1000 - SEEN_WITHIN_S);
    return get(withQuery("requests", { client, limit: 1, from }));
  }, [client]);
  if (!data) return html`<span class="faint">not known</span>`;
  const [row] = data.rows;
  if (!row) return "Not in the last seven days.";
  return html`
    <a href=${"/ui/requests?client=" + encoded(client)}>
      last ${formatTime(row.at)}, by ${printable(row.key) || "nobody"}
    </a>
  `;
}
