"""The description of one client."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from dragoman.agents.models import UNKNOWN_WINDOW


class Guide(Struct, frozen=True):
    """One client.

    `setup` are pairs of where it goes (a file, `shell`, `python`, `javascript`, `settings`) and
    the text, in which `{url}` (without `/v1`) and `{model}` stand for the instance's, and
    `{window}` for the context window of that model. A line with `{name}` is one of a list of
    models: it is repeated for each, with its `{name}`, `{window}` and `{output}`. The key is never
    in it: each client reads it in its own way from the environment variable
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


class GuideModel(Struct, frozen=True):
    """A model in a guide: its name, and in tokens its context window and what it writes at most."""

    name: str
    window: int = UNKNOWN_WINDOW
    output: int = 8_000


def filled(text: str, url: str, key: str, model: str, models: Sequence[GuideModel] = ()) -> str:
    """A text with the instance's values in it. `models` are those of lists, of which the first is
    `model`; empty for `model` alone."""
    listed = models or (GuideModel(model),)
    lines = [
        ",\n".join(_stated(line, one) for one in listed)
        if "{name}" in line
        else _stated(line, listed[0])
        for line in text.split("\n")
    ]
    made = "\n".join(lines)
    return made.replace("{url}", url).replace("{key}", key).replace("{model}", model)


def _stated(line: str, model: GuideModel) -> str:
    line = line.replace("{name}", model.name).replace("{window}", str(model.window))
    return line.replace("{output}", str(model.output))


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
