"""The page about clients, written from the guides."""

from __future__ import annotations

from dragoman.lab.guides.agents import AGENTS
from dragoman.lab.guides.editors import EDITORS
from dragoman.lab.guides.guide import Guide, filled
from dragoman.lab.guides.libraries import LIBRARIES

DEMO_URL, DEMO_MODEL = "http://127.0.0.1:8080", "sim-chat"
"""What the page is filled in with: the demo's address, and one of its models."""

_KEY = "the value of DRAGOMAN_KEY"
_GROUPS: tuple[tuple[str, tuple[Guide, ...]], ...] = (
    ("Agents", AGENTS),
    ("Editors and programs with windows", EDITORS),
    ("Libraries", LIBRARIES),
)
_LANGUAGES = {"shell": "sh", "python": "python", "javascript": "js", "settings": "text"}
_HEAD = """# Clients

Written by `python -m dragoman.lab.guides`. The lines that point each client at a gateway, filled in
for the demo, so that they work as pasted while `dragoman demo` runs. For your own,
`dragoman guide CLIENT --url URL --model MODEL` prints them filled in. Any model that a route
matches will do; `curl -H "Authorization: Bearer $DRAGOMAN_KEY" URL/v1/models` lists those that are
known.

Every client reads the key from the environment, each in its own way:

```sh
export DRAGOMAN_KEY=sk-dragoman-demo
```

Both key headers work on every route, and a base URL works with or without `/v1` where the client
does not insist on one. What every client loses on every upstream, path by path, is in
[client-losses.md](client-losses.md), measured with the clients' own requests; the header
`x-dragoman-losses` reports it for each request. On an upstream of the client's own protocol nothing
is lost.

**A client shows nothing?** `dragoman doctor http://127.0.0.1:8080` plays the client of each
protocol with the key of `DRAGOMAN_KEY`, checks everything that clients are known to need, and
reports what is wrong, what it breaks in which client, and the remedy. It works against any gateway.
See [operations.md](operations.md).

The statements about each client were found in one of these ways:

- **Run by the tests** on Chat, Messages and Responses upstreams, as the real program: Claude Code,
  Codex, opencode, pi, qwen-code, cline, the AI SDK and openai-agents; of the vendors' SDKs,
  Google's among them, both languages, on all five.
- **Recorded**: what the real program sends in a tool loop, translated to every protocol by the
  tests: all of these, and LangChain, pydantic-ai, LlamaIndex and the tool runners
  of the Python SDKs. Not recorded are qwen-code's Messages for a model it does not know (a strict
  service refuses its first request), and what Claude Code sends only when a person is at it: the
  counting of tokens (`/context`) and the request for a title. The tests send those as they were
  seen.
- **Asked one question** by the tests with the lines of their guide: Copilot CLI, Aider, Continue
  and Kilo Code.
- **Described only**, by the clients' documentation: Cherry Studio, which reads with the AI SDK,
  crush, Gemini CLI, Goose, OpenHands, Cursor, Zed and Open WebUI. Their lines are checked for their
  form alone.
"""


def page() -> str:
    """The page about clients."""
    parts = [_HEAD, "| client | speaks |", "|---|---|"]
    for _, guides in _GROUPS:
        parts += [
            f"| [{one.name}](#{_anchor(one.name)}) | {', '.join(one.speaks)} |" for one in guides
        ]
    for title, guides in _GROUPS:
        parts.append(f"\n## {title}")
        for guide in guides:
            parts.append(f"\n### {guide.name}\n")
            parts += [_block(where, text) for where, text in guide.setup]
            parts.append(f"Works: {_text(guide.works)}\n")
            parts.append(f"Lost: {_text(guide.lost)}")
            if guide.notes:
                parts.append(f"\n{_text(guide.notes)}")
    return "\n".join(parts) + "\n"


def _block(where: str, text: str) -> str:
    if where in _LANGUAGES:
        return f"```{_LANGUAGES[where]}\n{_text(text)}\n```\n"
    return f"`{where}`:\n\n```{where.rpartition('.')[2]}\n{_text(text)}\n```\n"


def _text(text: str) -> str:
    return filled(text, DEMO_URL, _KEY, DEMO_MODEL)


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
