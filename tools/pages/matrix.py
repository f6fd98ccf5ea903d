"""Writes `docs/matrix.md`: every scenario, every cell, pass or the reason why not.

    python -m tools.pages.matrix

The page holds what the tests assert; a test keeps it equal to this module's output, so it is true
as long as the suite passes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.matrix.cases import APIS, CASES, Cannot
from tests.matrix.conftest import SOCKETS
from tests.matrix.judges import Api, DiallingJudge, Mode

PAGE = Path(__file__).parent.parent.parent / "docs/matrix.md"
SHORT: dict[Api, str] = {"chat": "C", "messages": "M", "responses": "R", "google": "G"}
Reason = Callable[[Api, Api], Cannot | str | None]


def _always(client: Api, upstream: Api) -> Cannot | str | None:
    return None


def _no_custom_client(client: Api, upstream: Api) -> Cannot | str | None:
    if client == "google":
        return "a Google client has no free-text tools"
    return "a Messages client has no free-text tools" if client == "messages" else None


def _no_signature(client: Api, upstream: Api) -> Cannot | str | None:
    if client == "chat" and upstream not in ("chat", "google"):
        return Cannot("Chat has no field for signatures: the second turn goes without, reported")
    return None


OTHERS: tuple[tuple[str, Reason], ...] = (
    ("tool loop: call, result, answer", _always),
    ("image in a tool result", _always),
    ("custom tool loop", _no_custom_client),
    ("reasoning round trip over two turns", _no_signature),
    ("parse helpers on structured output", _always),
    ("errors 400 401 402 403 404 413 429 500 503 529 before the stream", _always),
    ("error in the stream", _always),
    ("truncation, early close, reset", _always),
    ("break inside tool arguments", _always),
    ("silence without end", _always),
    ("long silence, bridged by signs of life", _always),
    ("a 200 with an error, HTML, nothing, or another protocol's answer", _always),
)
HEAD = """# The pairs of protocols

Written by `python -m tools.pages.matrix` from the tables that the tests in `tests/matrix` run on; a
test keeps this page up to date. Each cell is a real client on a real gateway on the simulated
upstream, over sockets, full and streaming, judged by openai-python, openai-node, anthropic-python,
@anthropic-ai/sdk, google-genai and @google/genai with their stream and parse helpers and chats.
Columns are client→upstream: C is Chat Completions, M Messages, R Responses, G Google's
generateContent, and W Responses over WebSocket, where the SDKs for Python judge streams. Where one
side is Google's alone, each way to ask has one of the two languages' SDKs.

✓ passes in all of these. A number is a note below: what that protocol has no way to say, and what
the test shows to happen instead.

The pairs with Google's Interactions are not columns: clients of each protocol over it, and its
clients over each upstream, are met whole and streamed with thoughts, text, two calls at once and
the turn after them (`tests/matrix/test_interactions.py`). All pass.
"""


NO_HELPER = "parse helpers on structured output"


def _title(client: Api, upstream: Api, mode: Mode, judge: str) -> str:
    asked = "W" if mode == "socket" else SHORT[client]
    return f"{asked}→{'W' if judge == DiallingJudge.name else SHORT[upstream]}"


def page() -> str:
    """The whole page."""
    cells = [(client, upstream) for client in APIS for upstream in APIS]
    titles = [f"{SHORT[client]}→{SHORT[upstream]}" for client, upstream in cells]
    cells += [(client, upstream) for client, upstream, *_ in SOCKETS]
    titles += [_title(*cell) for cell in SOCKETS]
    lines = [HEAD, "| scenario | " + " | ".join(titles) + " |", "|---" * (len(cells) + 1) + "|"]
    notes: list[str] = []
    for name, reason in [*((case.name, case.cannot) for case in CASES), *OTHERS]:
        marks = []
        for number, (client, upstream) in enumerate(cells):
            why = reason(client, upstream)
            if name == NO_HELPER and titles[number].startswith("W"):
                why = "A socket has no parse helpers"
            elif name == NO_HELPER and titles[number].endswith("W"):
                why = "Parse helpers are not streamed, and what is not goes by POST"
            if why is None:
                marks.append("✓")
                continue
            text = why if isinstance(why, str) else why.why
            if text not in notes:
                notes.append(text)
            marks.append(f"{notes.index(text) + 1}")
        lines.append(f"| {name} | " + " | ".join(marks) + " |")
    lines.append("")
    lines += [f"{number}. {note[0].upper()}{note[1:]}." for number, note in enumerate(notes, 1)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
