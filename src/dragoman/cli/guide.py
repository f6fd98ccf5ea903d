"""`dragoman guide`: the lines that point a client at an instance."""

from __future__ import annotations

import click


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
    from dragoman.lab.guides import (
        DEMO_MODEL,
        DEMO_URL,
        GUIDES,
        base_url,
        filled,
        find_guide,
        model_name,
        settings_of,
    )

    if client is None:
        rows = [(one.name, ", ".join(one.speaks)) for one in GUIDES]
        click.echo(table(("CLIENT", "SPEAKS"), rows))
        return
    found = find_guide(client)
    if found is None:
        names = ", ".join(one.name for one in GUIDES)
        raise click.BadParameter(f"{client!r} is not one of {names}", param_hint="CLIENT")
    try:
        base = base_url(DEMO_URL if url is None else url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    try:
        name = model_name(DEMO_MODEL if model is None else model)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--model") from None
    if model is None and base != DEMO_URL:
        click.echo(f"{DEMO_MODEL} is the demo's model: name one of yours with --model", err=True)
    key = "the value of DRAGOMAN_KEY"
    click.echo(settings_of(found, base, key, name))
    for title, text in (("Works", found.works), ("Lost", found.lost), ("Note", found.notes)):
        if text:
            click.echo(f"{title}: {filled(text, base, key, name)}")
