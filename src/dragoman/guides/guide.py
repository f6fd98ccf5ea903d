"""What is told of one client."""

from __future__ import annotations

from msgspec import Struct


class Guide(Struct, frozen=True):
    """One client.

    `setup` are pairs of where it goes (a file, `shell`, `python`, `javascript`, `settings`) and
    the text, in which `{url}` (without `/v1`) and `{model}` stand for the instance's. The key is
    never in it: each client is told in its own way to read the environment variable
    `DRAGOMAN_KEY`; only in `settings`, which are typed by hand, `{key}` stands for it.
    `speaks` are the protocols it can speak, in the words of the page. `works`, `lost` and
    `notes` are Markdown.
    """

    name: str
    speaks: tuple[str, ...]
    setup: tuple[tuple[str, str], ...]
    works: str
    lost: str
    notes: str = ""


def filled(text: str, url: str, key: str, model: str) -> str:
    """A text with the instance's values in it."""
    return text.replace("{url}", url).replace("{key}", key).replace("{model}", model)
