// The frame: who is signed in, where one is, and the screen that belongs there.
import { render } from "./vendor/preact.js";
import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { html, Said, now, left, place, go, zone, changeZone } from "./kit.js";
import { Icon, Mark } from "./icons.js";
import { session, connected, resume, signIn, signOut } from "./api.js";
import { Shortcuts, showHelp } from "./shortcuts.js";
import { Accounts } from "./accounts.js";
import { Clients } from "./clients.js";
import { Keys } from "./keys.js";
import { Losses } from "./losses.js";
import { Overview } from "./overview.js";
import { Configuration } from "./config.js";
import { Requests, Request } from "./requests.js";
import { Routes } from "./routes.js";
import { Workbench } from "./workbench.js";

const GROUPS = [["Watch", ["overview", "requests", "losses"]], ["Manage", ["accounts", "keys", "routes"]], ["Try", ["workbench", "clients"]], ["Instance", ["config"]]];
const SCREENS = {
  overview: { title: "Overview", of: () => html`<${Overview}/>` },
  accounts: { title: "Accounts", of: (rest) => html`<${Accounts} name=${rest[0]}/>` },
  keys: { title: "Keys and teams", short: "Keys", of: (rest) => html`<${Keys} kind=${rest[0]} name=${rest[1]}/>` },
  losses: { title: "Losses", of: () => html`<${Losses}/>` },
  routes: { title: "Models and routes", short: "Routes", of: () => html`<${Routes}/>` },
  requests: { title: "Requests", of: (rest) => (rest[0] ? html`<${Request} id=${rest[0]}/>` : html`<${Requests}/>`) },
  workbench: { title: "Workbench", of: () => html`<${Workbench}/>` },
  clients: { title: "Clients", of: (rest) => html`<${Clients} name=${rest[0]}/>` },
  config: { title: "Configuration", of: (rest) => html`<${Configuration} tab=${rest[0]}/>` },
};
const ON_A_PHONE = ["overview", "accounts", "requests", "workbench", "keys", "losses", "routes", "clients", "config"];
const WARN_S = 120;

addEventListener("popstate", () => { place.value = location.pathname; });
document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("a[href^='/ui/']");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

function where() {
  const [, , screen, ...rest] = place.value.split("/");
  return SCREENS[screen] ? [screen, rest.map(decodeURIComponent)] : ["overview", []];
}
function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches, root = document.documentElement;
  const next = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  localStorage.setItem("theme", next);
}

function Frame() {
  const [screen, rest] = where(), { title, of } = SCREENS[screen];
  const ends = session.value.expires_at, remains = ends == null ? Infinity : ends - now.value;
  useEffect(() => { document.title = title + " · dragoman"; }, [screen]);
  const link = (name) => html`<li><a href=${"/ui/" + name} aria-current=${name === screen ? "page" : null}><${Icon} name=${name}/><span class="lbl">${SCREENS[name].title}</span></a></li>`;
  return html`<div class="shell">
    <nav class="rail" aria-label="Screens">
      <a class="mark" href="/ui/overview"><${Mark}/><span>dragoman</span></a>
      ${GROUPS.map(([name, screens]) => html`<h2>${name}</h2><ul>${screens.map(link)}</ul>`)}
      <div class="foot">
        ${connected.value !== undefined && html`<p class="row sm t2 livemark"><i class=${connected.value ? "dot" : "dot not"}></i><span>${connected.value ? "Live" : "Not live"}</span></p>`}
        <div class="row sm"><button class="link" title="Change between the zone of this browser and UTC" onClick=${changeZone}>Times in ${zone()}</button></div>
        <div class="row sm"><button class="btn quiet" onClick=${theme}><${Icon} name="moon"/><span>Colours</span></button><button class="btn quiet" onClick=${showHelp}>Keys</button></div>
        <p class="sm t3">dragoman ${session.value.version}</p>
        <div class="row sm"><span class="t2 cut">${session.value.name}, ${session.value.role}</span><span class="grow"></span><button class="btn quiet out" onClick=${signOut}>Sign out</button></div>
      </div>
    </nav>
    <header class="topbar"><${Mark}/><h1>${title}</h1><span class="grow"></span><button class="btn quiet" onClick=${signOut}>Sign out</button></header>
    <main id="main" class="page" tabindex="-1">
      ${remains < WARN_S && html`<p class="banner" role="alert">You will be signed out in ${left(Math.max(0, remains))}.</p>`}
      ${of(rest)}
    </main>
    <nav class="tabs-bottom" aria-label="Screens on a phone">${ON_A_PHONE.map((name) => html`<a href=${"/ui/" + name} aria-current=${name === screen ? "page" : null}><${Icon} name=${name} size="20"/>${SCREENS[name].short || SCREENS[name].title}</a>`)}</nav>
    <${Said}/><${Shortcuts}/>
  </div>`;
}

function SignIn() {
  const field = useRef(null), [wrong, setWrong] = useState(""), [busy, setBusy] = useState(false);
  useEffect(() => { document.title = "Sign in · dragoman"; field.current.focus(); }, []);
  const enter = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(field.current.value);
    } catch (refused) {
      setWrong(refused.message);
      setBusy(false);
      field.current.select();
    }
  };
  return html`<main id="main" class="signin"><form class="panel" onSubmit=${enter}>
    <div class="mark"><${Mark}/><span>dragoman</span></div>
    <h1>Sign in</h1>
    <input class="vh" type="text" name="username" autocomplete="username" tabindex="-1" aria-hidden="true" value="admin" readonly/>
    <label for="key">Key of the administration</label>
    <input id="key" ref=${field} type="password" autocomplete="current-password" spellcheck="false" aria-describedby="wrong" aria-invalid=${wrong ? "true" : null}/>
    <p id="wrong" class="wrong" role="alert">${wrong}</p>
    <button class="btn primary" disabled=${busy}>Sign in</button>
  </form></main>`;
}

function App() {
  if (session.value === undefined) return html`<main id="main" class="page" aria-busy="true"></main>`;
  return session.value === null ? html`<${SignIn}/>` : html`<${Frame}/>`;
}

resume();
const root = document.getElementById("app");
root.replaceChildren(); // the empty frame, which was there before any module
render(html`<${App}/>`, root);
