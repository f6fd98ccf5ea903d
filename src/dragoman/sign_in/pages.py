"""The pages of a sign-in: plain HTML without scripts, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from typing import Final

from dragoman.edge.errors import Headers

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:12vh auto;padding:0 1rem}"
    "input{font:inherit;padding:.5rem;width:100%;box-sizing:border-box;letter-spacing:.1em}"
    "button{font:inherit;padding:.5rem 1.25rem;margin:1rem .5rem 0 0}"
    "code{font-size:1.25em}"
)
_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS: Final[Headers] = [
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; "
        "base-uri 'none'".encode(),
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]
HTML: Final = b"content-type: text/html; charset=utf-8\r\n"


def code_page(csrf: str, code: str = "", problem: str = "") -> bytes:
    """The page on which a code is entered."""
    alert = f"<p role=alert><strong>{escape(problem)}</strong></p>" if problem else ""
    return _page(
        "Sign in",
        f"{alert}<p>Enter the code that your program shows, and go on only if you have started "
        "that sign-in yourself, just now.</p>"
        '<form method="post" action="/device">'
        f'<input type="hidden" name="csrf" value="{escape(csrf)}">'
        f'<label>Code<input name="user_code" value="{escape(code)}" maxlength="20" required '
        'autocomplete="off" autocapitalize="characters" spellcheck="false"></label>'
        "<button>Continue to sign in</button></form>",
    )


def approval_page(csrf: str, state: str, person: str, client: str, code: str = "") -> bytes:
    """The page on which a person approves what a program asks for."""
    compare = (
        f"<p>Its code is <code>{escape(code)}</code>. If your program does not show it, or you "
        "were sent it, somebody else has started this sign-in: deny it.</p>"
        if code
        else "<p>It runs on this computer. If you have not started this sign-in yourself, just "
        "now, deny it.</p>"
    )
    hidden = (
        f'<input type="hidden" name="csrf" value="{escape(csrf)}">'
        f'<input type="hidden" name="state" value="{escape(state)}">'
    )
    return _page(
        f"Let {client} in?",
        f"<p>You are signed in as <strong>{escape(person)}</strong>. <strong>{escape(client)}"
        "</strong> wants to use this gateway in your name.</p>"
        f'{compare}<form method="post" action="/oauth/approve">{hidden}'
        '<button name="decision" value="approve">Approve</button>'
        '<button name="decision" value="deny">Deny</button></form>',
    )


def message_page(title: str, text: str) -> bytes:
    """A page that only says something."""
    return _page(title, f"<p>{escape(text)}</p>")


def _page(title: str, body: str) -> bytes:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>{escape(title)}</h1>{body}</html>"
    ).encode()
