"""`dragoman guide`: the lines that point a client at an instance."""

from __future__ import annotations

import re

import click

_URL = re.compile(r"https?://[A-Za-z0-9.:/~%+\[\]_-]+")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:/@+_-]*")
"""Texts that mean nothing but themselves in JSON, TOML, YAML, Python, JavaScript and a shell."""


@click.command()
@click.argument("client", required=False)
@click.option("--url", help="Base URL of the instance, with or without /v1; by default the demo's.")
@click.option("--model", help="Name of a model that a route matches; by default the demo's.")
def guide(client: str | None, url: str | None, model: str | None) -> None:
    """Print the lines that point CLIENT at an instance.

    Without CLIENT the clients are listed. The key is in none of the lines: each client reads it
    from the environment variable DRAGOMAN_KEY, in its own way.
    """
    from dragoman.cli.common import table
    from dragoman.guides import DEMO_MODEL, DEMO_URL, GUIDES, filled, find_guide, settings_of

    if client is None:
        rows = [(one.name, ", ".join(one.speaks)) for one in GUIDES]
        click.echo(table(("CLIENT", "SPEAKS"), rows))
        return
    found = find_guide(client)
    if found is None:
        names = ", ".join(one.name for one in GUIDES)
        raise click.BadParameter(f"{client!r} is not one of {names}", param_hint="CLIENT")
    base = _base(DEMO_URL if url is None else url)
    name = _name(DEMO_MODEL if model is None else model)
    key = "the value of DRAGOMAN_KEY"
    click.echo(settings_of(found, base, key, name))
    for title, text in (("Works", found.works), ("Lost", found.lost), ("Note", found.notes)):
        if text:
            click.echo(f"{title}: {filled(text, base, key, name)}")


def _base(url: str) -> str:
    """The URL without `/v1`.

    Raises:
        BadParameter: it is none.
    """
    if not _URL.fullmatch(url):
        raise click.BadParameter(
            f"{url!r} is no base URL such as https://llm.example.com", param_hint="--url"
        )
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _name(model: str) -> str:
    if not _MODEL.fullmatch(model):
        raise click.BadParameter(
            f"{model!r} cannot stand in a file of settings as it is", param_hint="--model"
        )
    return model
