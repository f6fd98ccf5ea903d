/** The form that starts a session. */
import { html } from "../lib/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { hasProvider, signIn } from "../lib/api.js";
import { Logo } from "../components/icons.js";

export function SignIn() {
  const field = useRef(/** @type {any} */ (null));
  const [error, setError] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · dragoman";
    field.current.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setIsBusy(true);
    try {
      await signIn({ key: field.current.value });
    } catch (refusal) {
      setError(refusal.message);
      setIsBusy(false);
      field.current.select();
    }
  };
  return html`
    <main id="main" class="signin">
      <form class="panel" onSubmit=${submit}>
        <div class="mark"><${Logo} /><span>dragoman</span></div>
        <h1>Sign in</h1>
        <input class="visually-hidden" type="text" name="username" autocomplete="username"
          tabindex="-1"
          aria-hidden="true" value="admin" readonly />
        <label for="key">Admin key</label>
        <input id="key" ref=${field} type="password" autocomplete="current-password"
          spellcheck="false" aria-describedby="sign-in-error"
          aria-invalid=${error ? "true" : null} />
        <p id="sign-in-error" class="wrong" role="alert">${error}</p>
        <button class="btn primary" disabled=${isBusy}>Sign in</button>
        ${
          hasProvider.value &&
          html`<p><a href="/oauth/dashboard">Sign in with the company’s account</a></p>`
        }
      </form>
    </main>
  `;
}
