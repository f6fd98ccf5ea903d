"""Writes `docs/client-losses.md`: what every recorded client loses on every upstream.

    python -m tools.pages.client_losses

The page is made of the recorded requests and the translation itself; a test keeps it up to date.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from dragoman.canonical.losses import Loss
from tests.clients.recordings import Recording, recordings
from tests.library import translate_request

PAGE = Path(__file__).parents[2] / "docs/client-losses.md"
TITLES = {
    "openai_chat": "Chat",
    "anthropic_messages": "Messages",
    "openai_responses": "Responses",
}
HEAD = """# What real clients lose

Written by `python -m tools.pages.client_losses` from recorded requests of the real programs, their
texts replaced by filler, and the translation itself; a test keeps this page up to date. It shows
the ledger of a whole conversation in the `balanced` policy: nothing of it is refused. Each line is
a path in the client's request, how often it occurs in the longest request, and what became of it.
On an upstream of the client's own protocol the request is passed through; only the text with which
Claude Code bills a subscription is left out where the service is not Anthropic's own.

Kinds: **knob**, a hint or setting the client works without; **converted**, told in another form;
**repaired**, completed for the upstream's rules.

The clients were recorded on an upstream of their own protocol, so the reasoning in these
conversations belongs to another vendor than the upstream of the table, and is left out. In a
conversation that stays on its upstream it comes back in the gateway's envelope and is sent. Hosted
tools (`web_search`) are run by the vendor of the client's own protocol and by nobody else, unless a
route maps them.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for recording in recordings():
        parts.append(f"## {recording.name}\n\n{recording.client}, {_told(recording)}.\n")
        for protocol, title in TITLES.items():
            if protocol != recording.protocol:
                parts.append(f"**On {title}**\n\n{_table(losses_of(recording, protocol))}\n")
    return "\n".join(parts)


def _told(recording: Recording) -> str:
    sizes = sorted(len(turn.encoded) for turn in recording.turns)
    return (
        f"{len(recording.turns)} requests to `{recording.turns[0].target}` of up to "
        f"{sizes[-1] / 1000:.0f} KB, model `{recording.turns[0].body['model']}`"
    )


def losses_of(recording: Recording, upstream: str) -> tuple[Loss, ...]:
    """The ledger of the conversation's longest request.

    Raises:
        Refused: the balanced policy does not let it out.
    """
    longest = max(recording.turns, key=lambda turn: len(turn.encoded))
    return translate_request(recording.protocol, upstream, longest.encoded).losses


def _table(losses: tuple[Loss, ...]) -> str:
    if not losses:
        return "Nothing."
    counts = Counter(
        (re.sub(r"\[\d+\]", "[]", loss.path), str(loss.kind), loss.detail) for loss in losses
    )
    lines = ["| path | times | kind | what became of it |", "|---|---|---|---|"]
    lines += [
        f"| `{path}` | {n} | {kind} | {detail} |" for (path, kind, detail), n in counts.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
