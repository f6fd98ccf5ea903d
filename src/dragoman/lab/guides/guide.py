"""The description of one client."""

from __future__ import annotations

import re

from msgspec import Struct


class Guide(Struct, frozen=True):
    """One client.

    `setup` are pairs of where it goes (a file, `shell`, `python`, `javascript`, `settings`) and
    the text, in which `{url}` (without `/v1`) and `{model}` stand for the instance's. The key is
    never in it: each client reads it in its own way from the environment variable
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


_URL = re.compile(r"https?://[A-Za-z0-9.:/~%+\[\]_-]+")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:/@+_-]*")
"""Texts that mean nothing but themselves in JSON, TOML, YAML, Python, JavaScript and a shell."""


def base_url(url: str) -> str:
    """The URL without `/v1`.

    Raises:
        ValueError: it is none.
    """
    if not _URL.fullmatch(url):
        raise ValueError(f"{url!r} is no base URL such as https://llm.example.com")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def model_name(model: str) -> str:
    """The name of a model, as it may stand in a guide.

    Raises:
        ValueError: it may not.
    """
    if not _MODEL.fullmatch(model):
        raise ValueError(f"{model!r} cannot stand in a file of settings as it is")
    return model
