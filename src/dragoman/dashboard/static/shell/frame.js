/** The frame around every screen: where one is, and who is signed in. */
import { html } from "../lib/html.js";
import { useEffect } from "../vendor/hooks.js";
import { session, signOut } from "../lib/api.js";
import { countdown, printable } from "../lib/format.js";
import { isLive } from "../lib/hooks.js";
import { path } from "../lib/navigation.js";
import { now, toggleZone, zoneName } from "../lib/time.js";
import { Icon, Logo } from "../components/icons.js";
import { Toast } from "../components/toast.js";
import { KeyboardDialogs } from "./keyboard_dialogs.js";
import { screenAt, SCREENS } from "./screens.js";
import { openDialog } from "./shortcuts.js";

const GROUPS = [
  { title: "Watch", screens: ["overview", "requests", "usage", "losses"] },
  { title: "Manage", screens: ["accounts", "keys", "people", "routes", "mcp"] },
  { title: "Try", screens: ["workbench", "clients"] },
  { title: "Instance", screens: ["config"] },
];
/** The order on a phone: what is needed most often comes first. */
const PHONE_SCREENS = [
  "overview",
  "accounts",
  "requests",
  "usage",
  "workbench",
  "keys",
  "people",
  "losses",
  "routes",
  "mcp",
  "clients",
  "config",
];

/** Seconds before the end of the session from which on it is announced. */
const WARNING_S = 120;

function toggleTheme() {
  const root = document.documentElement;
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = root.dataset.theme || (isDark ? "dark" : "light");
  root.dataset.theme = theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

const showHelp = () => {
  openDialog.value = "help";
};

export function Frame() {
  const { name, segments } = screenAt(path.value);
  const { title, render } = SCREENS[name];
  const end = session.value?.expires_at;
  const rest = end == null ? Infinity : Math.max(0, end - now.value);
  useEffect(() => {
    document.title = title + " · dragoman";
  }, [name]);
  return html`
    <div class="shell">
      <${Rail} current=${name} />
      <header class="topbar">
        <${Logo} />
        <h1>${title}</h1>
        <span class="grow"></span>
        <span class="faint small ellipsis">${printable(session.value?.instance || "")}</span>
        <button class="btn quiet" onClick=${signOut}>Sign out</button>
      </header>
      <main id="main" class="page" tabindex="-1">
        ${
          rest < WARNING_S &&
          html`<p class="banner" role="alert">You will be signed out in ${countdown(rest)}.</p>`
        }
        ${render(segments)}
      </main>
      <nav class="tabs-bottom" aria-label="Screens on a phone">
        ${PHONE_SCREENS.map(
          (screen) => html`
            <a href=${"/ui/" + screen} aria-current=${screen === name ? "page" : null}>
              <${Icon} name=${screen} size="20" />
              ${SCREENS[screen].shortTitle || SCREENS[screen].title}
            </a>
          `,
        )}
      </nav>
      <${Toast} />
      <${KeyboardDialogs} />
    </div>
  `;
}

/**
 * The screens at the side, and below them the state of the page.
 * @param {{ current: string }} props
 */
const Rail = ({ current }) => html`
  <nav class="rail" aria-label="Screens">
    <a class="mark" href="/ui/overview"><${Logo} /><span>dragoman</span></a>
    ${GROUPS.map(
      ({ title, screens }) => html`
        <h2>${title}</h2>
        <ul>
          ${screens.map(
            (name) => html`
              <li>
                <a href=${"/ui/" + name} aria-current=${name === current ? "page" : null}>
                  <${Icon} name=${name} /><span class="label">${SCREENS[name].title}</span>
                </a>
              </li>
            `,
          )}
        </ul>
      `,
    )}
    <${RailFoot} />
  </nav>
`;

const ZONE_TITLE = "Switch between the time zone of this browser and UTC";

const INSTANCE_TITLE =
  "Sessions, requests, losses and the overview are those of this instance; accounts, keys, usage " +
  "and the audit are those of all that share its store";

function RailFoot() {
  const { version, instance, name, role } = session.value || {};
  return html`
    <div class="foot">
      ${
        isLive.value !== undefined &&
        html`
          <p class="row small muted live-mark">
            <i class=${isLive.value ? "dot" : "dot not"}></i>
            <span>${isLive.value ? "Live" : "Not live"}</span>
          </p>
        `
      }
      <div class="row small">
        <button class="link" title=${ZONE_TITLE} onClick=${toggleZone}>
          Times in ${zoneName()}
        </button>
      </div>
      <div class="row small">
        <button class="btn quiet" onClick=${toggleTheme}>
          <${Icon} name="moon" /><span>Theme</span>
        </button>
        <button class="btn quiet" onClick=${showHelp}>Shortcuts</button>
      </div>
      <p class="small faint ellipsis" title=${INSTANCE_TITLE}>
        dragoman ${version} on <span class="muted">${printable(instance || "")}</span>
      </p>
      <div class="row small">
        <span class="muted ellipsis">${name}, ${role}</span>
        <span class="grow"></span>
        <button class="btn quiet out" onClick=${signOut}>Sign out</button>
      </div>
    </div>
  `;
}
