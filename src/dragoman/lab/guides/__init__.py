"""How clients are pointed at an instance: the lines for each, what works, and what is lost.

`dragoman guide` prints the lines of one client for any instance; `docs/clients.md` is written from
the same data (`python -m dragoman.lab.guides docs/clients.md`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.lab.guides.agents import AGENTS
from dragoman.lab.guides.editors import EDITORS
from dragoman.lab.guides.guide import Guide, GuideModel, base_url, filled, model_name
from dragoman.lab.guides.libraries import LIBRARIES
from dragoman.lab.guides.page import DEMO_MODEL, DEMO_URL, page

__all__ = [
    "DEMO_MODEL",
    "DEMO_URL",
    "GUIDES",
    "Guide",
    "GuideModel",
    "base_url",
    "filled",
    "find_guide",
    "model_name",
    "page",
    "settings_of",
]

GUIDES = (*AGENTS, *EDITORS, *LIBRARIES)


def find_guide(name: str) -> Guide | None:
    """The guide of a client, named in any case, with or without what stands between the words; its
    first word is enough where it is that of one client."""
    wanted = _plain(name)
    found = [guide for guide in GUIDES if _plain(guide.name) == wanted]
    found = found or [guide for guide in GUIDES if _plain(guide.name.split()[0]) == wanted]
    return found[0] if len(found) == 1 else None


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def settings_of(
    guide: Guide, url: str, key: str, model: str, models: Sequence[GuideModel] = ()
) -> str:
    """The lines of one client for a terminal, each under where it goes."""
    alone = len(guide.setup) == 1
    return "\n".join(
        ("" if alone and where == "shell" else f"# -- {where}\n")
        + f"{filled(text, url, key, model, models)}\n"
        for where, text in guide.setup
    )
