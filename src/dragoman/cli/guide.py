"""`dragoman guide`: the lines that point a client at an instance."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.common import CONFIG, reached_by, read_config, table

if TYPE_CHECKING:
    from dragoman.config import Config
    from dragoman.lab.guides import GuideModel


@click.command()
@click.argument("client", required=False)
@CONFIG
@click.option("--url", help="Base URL of the instance, with or without /v1.")
@click.option("--model", help="Name of a model that a route matches.")
@click.pass_context
def guide(
    context: click.Context, client: str | None, config: Path, url: str | None, model: str | None
) -> None:
    """Print the lines that point CLIENT at an instance.

    Without CLIENT the clients are listed. The address is that of the configuration, and the models
    are those that its routes and aliases name, with what their capabilities say of them; without a
    configuration both are the demo's. --url and --model take precedence. The key is in none of the
    lines: each client reads it from the environment variable DRAGOMAN_KEY, in its own way.
    """
    from dragoman.lab.guides import (
        DEMO_MODEL,
        DEMO_URL,
        GUIDES,
        GuideModel,
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
    is_default = context.get_parameter_source("config") is click.core.ParameterSource.DEFAULT
    here, models = DEMO_URL, list[GuideModel]()
    if config.exists() or not is_default:
        found_there = read_config(config)
        here, models = _address(found_there), _models(found_there)
    try:
        base = base_url(here if url is None else url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    try:
        name = model_name((models[0].name if models else DEMO_MODEL) if model is None else model)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--model") from None
    if model is None and not models and base != DEMO_URL:
        click.echo(f"{DEMO_MODEL} is the demo's model: name one of yours with --model", err=True)
    # The first model of a list is the one that is chosen.
    chosen = next((one for one in models if one.name == name), GuideModel(name))
    models = [chosen, *(one for one in models if one is not chosen)]
    key = "the value of DRAGOMAN_KEY"
    click.echo(settings_of(found, base, key, name, models))
    for title, text in (("Works", found.works), ("Lost", found.lost), ("Note", found.notes)):
        if text:
            click.echo(f"{title}: {filled(text, base, key, name)}")


def _address(config: Config) -> str:
    """Where clients reach a gateway: where people sign in, else where it listens."""
    if config.sign_in is not None:
        return config.sign_in.public_url
    server = config.server
    scheme = "http" if server.tls_certificate is None else "https"
    return f"{scheme}://{reached_by(server.host)}:{server.port}"


def _models(config: Config) -> list[GuideModel]:
    """The models that a configuration names, as far as their names can stand in a guide."""
    from dragoman.lab.guides import GuideModel, model_name
    from dragoman.serving.offered_models import named_models

    found = []
    for one in named_models(config):
        with suppress(ValueError):
            usual = GuideModel(model_name(one.name))
            window, output = one.context_window or usual.window, one.max_output or usual.output
            found.append(GuideModel(one.name, window, min(output, window)))
    return found
