/** The configuration that is served, its secrets masked. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { get } from "../lib/api.js";
import { plainJson, plural, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { Toggle } from "../components/controls.js";
import { Facts, Loading, Panel } from "../components/layout.js";

export function Running() {
  const [showsDefaults, setShowsDefaults] = useState(false);
  const { data, error } = useFetched(() => Promise.all([get("config"), get("health")]), []);
  if (!data) return html`<${Loading} error=${error} />`;
  const [config, { version, workers }] = data;
  const counts = Object.entries(config.counts).map(([name, number]) =>
    plural(Number(number), name.slice(0, -1)),
  );
  const sections = config.sections.map((section) => ({
    ...section,
    settings: section.settings.filter((setting) => showsDefaults || setting.is_set),
  }));
  const tables = [
    ...sections.filter((section) => section.settings.length),
    ...config.upstreams.map((one) => ({
      ...one,
      name: "upstreams",
    })),
    ...config.routes.map((one) => ({ ...one, name: "routes" })),
  ];
  return html`
    <div class="filters">
      <span class="muted">
        Version ${version}, ${plural(workers, "worker")}; in the file: ${counts.join(", ")}
      </span>
      <span class="grow"></span>
      <${Toggle} class="btn" pressed=${showsDefaults}
        onClick=${() => setShowsDefaults(!showsDefaults)}>
        ${showsDefaults ? "Only what is set" : "Show defaults"}
      <//>
    </div>
    <div class="stack">
      ${tables.map(
        ({ name, settings }) => html`<${Settings} title=${name} settings=${settings} />`,
      )}
    </div>
  `;
}

/** @param {unknown} value */
export const settingText = (value) => printable(value === null ? "none" : plainJson(value));

/**
 * One table of the file; the setting that names it is part of its title.
 * @param {{ title: string, settings: Api.ConfigTable["settings"] }} props
 */
function Settings({ title, settings }) {
  const name = settings.find(({ key }) => key === "name" || key === "match");
  const entries = settings
    .filter((setting) => setting !== name)
    .map(({ key, value, restart }) => [
      key,
      html`
        <span class="mono">${settingText(value)}</span>
        ${restart && html` <span class="faint small">a change needs a restart</span>`}
      `,
    ]);
  const heading = html`
    ${title}
    ${name && html` <span class="mono">${printable(name.value)}</span>`}
  `;
  return html`
    <${Panel} title=${heading} class="conf">
      <div class="body"><${Facts} class="left" nameClass="mono" entries=${entries} /></div>
    <//>
  `;
}
