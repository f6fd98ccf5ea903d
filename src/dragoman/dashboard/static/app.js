/** The start of the page. */
import { render } from "./vendor/preact.js";
import { html } from "./lib/html.js";
import { resumeSession, session } from "./lib/api.js";
import { Frame } from "./shell/frame.js";
import { SignIn } from "./shell/sign_in.js";

function App() {
  if (session.value === undefined) {
    return html`<main id="main" class="page" aria-busy="true"></main>`;
  }
  return session.value ? html`<${Frame} />` : html`<${SignIn} />`;
}

resumeSession();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren(); // the empty frame, which was there before any module
render(html`<${App} />`, root);
