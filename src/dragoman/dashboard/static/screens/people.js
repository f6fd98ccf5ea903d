/** People who signed in with the company's account, and their sessions. */
import { html } from "../lib/html.js";
import { encoded, get, isAdmin, send } from "../lib/api.js";
import { count, printable } from "../lib/format.js";
import { useFetched } from "../lib/hooks.js";
import { withQuery } from "../lib/navigation.js";
import { formatTime, unixTime } from "../lib/time.js";
import { Empty, ErrorBanner, Panel, ScreenHead } from "../components/layout.js";
import { keyStatus, StatusLabel } from "../components/status.js";
import { numberColumn, Table, textColumn } from "../components/table.js";
import { notify, notifyError } from "../components/toast.js";
import { PeopleRights } from "./people_rights.js";

const POLL_MS = 5_000;

/** @typedef {(path: string, done: string, body?: unknown,
 *   method?: "POST" | "DELETE") => void} Change */

/** @param {string | null} time */
const timeText = (time) => (time ? formatTime(Number(unixTime(time))) : "never");

/** @param {string} name of a person */
const pathOf = (name) => "people/" + encoded(name);

/** @param {{ name?: string }} props whose sessions are shown; without one, those of everybody */
export function People({ name }) {
  const { data, error, reload } = useFetched(
    () =>
      /** @type {Promise<[{ people: Api.Person[] }, { sessions: Api.PersonSession[] }]>} */ (
        Promise.all([get("people"), get(withQuery("sessions", { person: name || "" }))])
      ),
    [name],
    { every: POLL_MS },
  );
  /** @type {Change} */
  const change = async (path, done, body = {}, method = "POST") => {
    try {
      await send(method, path, method === "POST" ? body : undefined);
      notify(done);
    } catch (refusal) {
      notifyError(refusal.message);
    }
    reload();
  };
  if (!data) return html`<${ErrorBanner} text=${error} /><${Empty}>${error ? "" : "Loading…"}<//>`;
  const [{ people }, { sessions }] = data;
  return html`
    <${ScreenHead} title="People" note=${count(people.length)} noteClass="num" />
    <${ErrorBanner} text=${error} />
    <${Panel} title="People" note=${count(people.length)} class="gap-below">
      <${Table} label="People" class="list-table stacks" columns=${peopleColumns(change)}
        rows=${people} keyOf=${(person) => person.name}
        rowProps=${(person) => ({ "aria-selected": String(person.name === name) })} />
      ${!people.length && html`<${Empty}>Nobody has signed in yet.<//>`}
    <//>
    <${Panel} title=${name ? "Sessions of " + printable(name) : "Sessions"}
      note=${count(sessions.length)} class="gap-below">
      <${Table} label="Sessions" class="list-table stacks" columns=${sessionColumns(change)}
        rows=${sessions} keyOf=${(session) => session.id} />
      ${!sessions.length && html`<${Empty}>There is no session.<//>`}
    <//>
    <${PeopleRights} />
  `;
}

/**
 * @param {Change} change
 * @returns {import("../components/table.js").Column<Api.Person>[]}
 */
const peopleColumns = (change) => [
  {
    head: "Person",
    title: ({ name }) => printable(name),
    cell: ({ name }) => html`
      <a class="strong ink" href=${"/ui/people/" + encoded(name)}>${printable(name)}</a>
    `,
  },
  {
    head: "State",
    width: "width-status",
    cell: ({ state }) => html`<${StatusLabel} status=${keyStatus(state)} />`,
  },
  textColumn("Team", ({ team }) => team || ""),
  textColumn("Rule", ({ rule }) => (rule ? String(rule) : "none"), { width: "width-status" }),
  textColumn("Groups", ({ groups }) => groups.join(", ")),
  numberColumn("Sessions", ({ sessions }) => count(sessions), { width: "width-status" }),
  { head: "Last used", class: "num", cell: ({ used }) => timeText(used) },
  {
    head: "Log",
    cell: ({ name }) => html`<a href=${"/ui/requests?key=" + encoded(name)}>Requests</a>`,
  },
  ...(isAdmin() ? [{ head: "Change", cell: (person) => personActions(person, change) }] : []),
];

/**
 * @param {Api.Person} person
 * @param {Change} change
 */
const personActions = ({ name, state, sessions }, change) => html`
  <span class="row small">
    ${
      sessions > 0 &&
      html`
        <button class="link"
          onClick=${() => change(pathOf(name) + "/revoke", "The sessions were ended.")}>
          End sessions
        </button>
      `
    }
    ${
      state === "disabled"
        ? html`
          <button class="link"
            onClick=${() => change(pathOf(name) + "/enable", "The person may sign in again.")}>
            Enable
          </button>
        `
        : html`
          <button class="link"
            onClick=${() => change(pathOf(name) + "/disable", "The person is refused.")}>
            Disable
          </button>
        `
    }
    ${
      sessions === 0 &&
      html`
        <button class="link"
          onClick=${() => change(pathOf(name), "The person was removed.", undefined, "DELETE")}>
          Remove
        </button>
      `
    }
  </span>
`;

/**
 * @param {Change} change
 * @returns {import("../components/table.js").Column<Api.PersonSession>[]}
 */
const sessionColumns = (change) => [
  textColumn("Person", ({ person }) => person),
  textColumn("Program", ({ client }) => client),
  { head: "Signed in", class: "num", cell: ({ began }) => timeText(began) },
  { head: "Confirmed", class: "num", cell: ({ confirmed }) => timeText(confirmed) },
  { head: "Last used", class: "num", cell: ({ used }) => timeText(used) },
  ...(isAdmin() ? [{ head: "Change", cell: (session) => endSession(session, change) }] : []),
];

/**
 * @param {Api.PersonSession} session
 * @param {Change} change
 */
const endSession = ({ id, person }, change) => html`
  <button class="link small"
    onClick=${() => change(pathOf(person) + "/revoke", "The session was ended.", { session: id })}>
    End
  </button>
`;
