/** Models and routes: where a model name leads, and why. */
import { html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { encoded, get } from "../lib/api.js";
import { count, plainJson, printable } from "../lib/format.js";
import { TYPING_MS, useFetched } from "../lib/hooks.js";
import { queryValue, useQuery, withQuery } from "../lib/navigation.js";
import { SearchField } from "../components/controls.js";
import { ErrorBanner, Panel, ScreenHead, Unknown } from "../components/layout.js";
import { Protocol } from "../components/protocols.js";
import { numberColumn, Table } from "../components/table.js";
import { conditionText, RATE_COLUMNS } from "./rates.js";

/**
 * Where a setting comes from.
 * @type {Record<string, string>}
 */
const ORIGINS = {
  options: "[options]",
  upstream: "its upstream",
  route: "its route",
  known: "known for this vendor",
};

/**
 * An ordinal number.
 * @param {number} number
 */
function ordinal(number) {
  const isTeen = number % 100 > 10 && number % 100 < 14;
  const ending = isTeen ? "th" : ["th", "st", "nd", "rd"][number % 10] || "th";
  return number + ending;
}

export function Routes() {
  const [model, setModel] = useState(queryValue("model"));
  const [key, setKey] = useState(queryValue("key"));
  const names = { model: model.trim(), key: key.trim() };
  useQuery(names);
  const { data: routes, error: routesError } = useFetched(() => get("routes"), []);
  const { data: explained, error } = useFetched(
    () => (names.model ? get(withQuery("explain", names)) : null),
    [model, key],
    { delay: TYPING_MS },
  );
  const explanation = names.model ? explained : null;
  return html`
    <${ScreenHead} title="Models and routes" note="where a model name leads, and why" />
    <div class="filters">
      <${SearchField} label="Model" hint="a model, as a client names it" value=${model}
        onInput=${setModel} />
      <${SearchField} label="Name of a key" hint="any key" value=${key} onInput=${setKey}
        isWide=${false} />
    </div>
    <${ErrorBanner} text=${error || routesError} />
    <div aria-live="polite">
      ${explanation && html`<${Explanation} explanation=${explanation} routes=${routes} />`}
    </div>
    ${
      routes &&
      html`
        <${RouteTable} routes=${routes} matched=${explanation && explanation.route}
          onPick=${setModel} />
      `
    }
  `;
}

/** @param {{ explanation: Api.Explanation, routes: Api.Routes | null }} props */
function Explanation({ explanation, routes }) {
  const { model, name, found, destinations, permission, policy } = explanation;
  if (!found) {
    return html`
      <p class="banner">
        ${"No route fits "}<b class="strong">${printable(model)}</b>, and it begins with no
        upstream’s name: clients get the answer that there is no such model.
      </p>
    `;
  }
  const [first, ...fallbacks] = destinations;
  const options = explanation.options.filter((option) => option.name !== "policy");
  const policyOrigin = options.length < explanation.options.length ? "" : "by default";
  return html`
    <div class="cols gap-below">
      <div class="stack">
        <${Panel} title="Where it goes">
          <ol class="steps">
            ${permission && html`<${Permission} ...${permission} name=${permission.key} />`}
            ${
              name !== model &&
              html`
                <li>
                  <span class="muted">stands for</span> <b class="strong">${printable(name)}</b>
                </li>
              `
            }
            <li><span class="muted">because</span> ${reasonText(explanation, routes)}</li>
            <${Destination} destination=${first} label="goes to" />
            ${fallbacks.map(
              (one) => html`<${Destination} destination=${one} label="otherwise to" />`,
            )}
            ${explanation.with_tools_and_thinking.slice(0, 1).map(
              (one) => html`
                <${Destination} destination=${one} label="with tools and thinking, to" />
              `,
            )}
          </ol>
        <//>
        <${Prices} destinations=${destinations} />
      </div>
      <div class="stack">
        <${Settings} title="Options"
          settings=${[{ name: "policy", value: policy, origin: policyOrigin }, ...options]} />
        <${Settings} title="What the upstream can do" settings=${explanation.capabilities} />
      </div>
    </div>
  `;
}

/** @param {{ name: string, allowed: boolean, reason: string }} props */
const Permission = ({ name, allowed, reason }) => html`
  <li class=${allowed ? "" : "error-text"}>
    <b class="strong">${printable(name)}</b>
    ${" "}
    ${allowed ? "may ask for it" : `may not ask for it. ${printable(reason)}`}
  </li>
`;

/**
 * Why a name leads where it does.
 * @param {Api.Explanation} explanation
 * @param {Api.Routes | null} routes
 */
function reasonText({ route }, routes) {
  if (!route) return "the name begins with the upstream's";
  const total = routes && routes.routes.length > 1 ? " of " + routes.routes.length : "";
  return html`
    the ${ordinal(route.number)} route${total},${" "}
    <code class="mono">${printable(route.match)}</code>, is the first that fits
  `;
}

/** @param {{ destination: Api.Destination, label: string }} props */
function Destination({ destination, label }) {
  const { upstream, protocol, model, usable, accounts } = destination;
  return html`
    <li>
      <span class="muted">${label}</span>
      ${" "}
      <a class="strong ink" href=${"/ui/accounts?q=" + encoded("upstream:" + upstream)}>
        ${printable(upstream)}
      </a>
      ${" "}
      <${Protocol} id=${protocol} />
      ${" "}
      <span class="muted">as</span> <code class="mono">${printable(model)}</code>
      ${" "}
      <span class=${"num no-wrap small " + (usable ? "muted" : "error-text")}>
        ${count(usable)} of ${count(accounts)} accounts can serve
      </span>
    </li>
  `;
}

/** @param {{ title: string, settings: Api.ExplainedSetting[] }} props */
const Settings = ({ title, settings }) => html`
  <${Panel} title=${title} note="what differs from the defaults">
    <div class="body">
      ${
        settings.length
          ? html`
            <dl class="settings">
              ${settings.map(
                ({ name, value, origin }) => html`
                  <div>
                    <dt class="mono">${name}</dt>
                    <dd>
                      <span class="mono strong">${printable(plainJson(value))}</span>
                      ${
                        origin &&
                        html` <span class="faint small">${ORIGINS[origin] || origin}</span>`
                      }
                    </dd>
                  </div>
                `,
              )}
            </dl>
          `
          : html`<p class="muted">All defaults.</p>`
      }
    </div>
  <//>
`;

/** @typedef {{ upstream: string, price: Api.Price | null }} PriceRow */

/** @type {import("../components/table.js").Column<PriceRow>[]} */
const PRICE_COLUMNS = [
  { head: "Upstream", cell: ({ upstream }) => printable(upstream) },
  {
    head: "When",
    cell: ({ price }) =>
      price
        ? conditionText(price) || "always"
        : html`
          <${Unknown} why="no price is known for this model" />
          ${" "}
          <span class="muted">none: counted as unpriced</span>
        `,
  },
  ...RATE_COLUMNS,
];

/** @param {{ destinations: Api.Destination[] }} props */
function Prices({ destinations }) {
  const rows = destinations.flatMap(({ upstream, prices }) =>
    (prices.length ? prices : [null]).map((price) => ({ upstream, price })),
  );
  return html`
    <${Panel} title="Price" note="US dollars per million tokens">
      <${Table} label="Prices" class="list-table" columns=${PRICE_COLUMNS} rows=${rows} />
    <//>
  `;
}

/**
 * @param {{ routes: Api.Routes, matched: { number: number } | null, onPick: (model: string) => void
 *   }} props
 */
function RouteTable({ routes: { routes, aliases }, matched, onPick }) {
  /** @type {import("../components/table.js").Column<Api.Routes["routes"][number]>[]} */
  const columns = [
    numberColumn("#", (_, index) => index + 1, { width: "width-nth", class: "num faint" }),
    {
      head: "Name",
      class: "mono whole",
      cell: ({ match, when, reached_before: first }) => html`
        ${
          match.includes("*")
            ? printable(match)
            : html`<button class="link" onClick=${() => onPick(match)}>${printable(match)}</button>`
        }
        ${
          when &&
          html` <span class="muted small">
            when ${[when.class, when.agent_type].filter(Boolean).map(printable).join(", ")}
          </span>`
        }
        ${first && html` <b class="strong error-text small">never reached, since ${first} fits</b>`}
      `,
    },
    { head: "Upstream", cell: ({ upstream }) => printable(upstream) },
    {
      head: "As",
      class: "mono",
      cell: ({ model }) => (model ? printable(model) : html`<span class="faint">the same</span>`),
    },
    {
      head: "Fallbacks",
      class: "whole",
      cell: ({ fallbacks }) =>
        fallbacks.map(printable).join(", ") || html`<span class="faint">none</span>`,
    },
    { head: "Policy", cell: ({ policy }) => policy },
  ];
  return html`
    <${Panel} title="Routes" note=${`${count(routes.length)}, the first that fits is taken`}>
      <${Table}
        label="Routes"
        class="list-table"
        columns=${columns}
        rows=${routes}
        rowProps=${(_, index) => ({
          "aria-current": matched?.number === index + 1 ? "true" : null,
        })}
      />
      <${Aliases} aliases=${aliases} onPick=${onPick} />
    <//>
  `;
}

/** @param {{ aliases: Record<string, string>, onPick: (model: string) => void }} props */
function Aliases({ aliases, onPick }) {
  const entries = Object.entries(aliases);
  if (!entries.length) return null;
  return html`
    <div class="body">
      <p class="muted">
        ${entries.map(
          ([name, model], index) => html`
            ${index ? ", " : ""}
            <button class="link mono" onClick=${() => onPick(name)}>${printable(name)}</button>
            ${" stands for "}
            <span class="mono">${printable(model)}</span>
          `,
        )}
      </p>
    </div>
  `;
}
