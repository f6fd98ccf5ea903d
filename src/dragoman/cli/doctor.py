"""`dragoman doctor`: why a client shows nothing."""

from __future__ import annotations

import click

from dragoman.cli.common import JSON, PROTOCOL, print_json


@click.command()
@click.argument("url")
@click.option(
    "--key", envvar="DRAGOMAN_KEY", show_envvar=True, default="", help="The key clients send."
)
@click.option("--model", help="The model to ask; by default the first one listed.")
@click.option(
    "--protocol",
    "protocols",
    type=PROTOCOL,
    multiple=True,
    help="A protocol to check, several times for several; by default all.",
)
@click.option("--embeddings", metavar="MODEL", help="Check embeddings of this model, too.")
@JSON
def doctor(
    url: str,
    key: str,
    model: str | None,
    protocols: tuple[str, ...],
    embeddings: str | None,
    as_json: bool,
) -> None:
    """Find out why a client shows nothing.

    The clients of each protocol are played. URL is the base URL of a running instance, of this
    gateway or any other, with or without /v1. About five short answers are asked for in each
    protocol. One line is printed for each check, and for what is wrong: what it breaks in which
    client, and what to do. The exit status is 1 when something is broken.
    """
    import asyncio

    from dragoman.lab.doctor import (
        PROTOCOLS,
        NoModel,
        Refused,
        State,
        Unreachable,
        examine,
        examine_embeddings,
    )

    def say(line: str) -> None:
        click.echo(line, err=True)

    try:
        findings = list(asyncio.run(examine(url, key, model, protocols or PROTOCOLS, say)))
        if embeddings is not None:
            findings += asyncio.run(examine_embeddings(url, key, embeddings))
    except Unreachable as error:
        raise click.ClickException(f"nothing answers at {url}: {error}") from None
    except Refused as error:
        hint = "give the key that clients send, with --key or DRAGOMAN_KEY"
        raise click.ClickException(f"{error}: {hint}") from None
    except NoModel as error:
        raise click.ClickException(f"{error}: name one with --model") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    broken = any(finding.state is State.BROKEN for finding in findings)
    if as_json:
        print_json({"broken": broken, "checks": findings})
    else:
        for finding in findings:
            click.echo(finding)
        counts = {state: sum(one.state is state for one in findings) for state in State}
        click.echo(", ".join(f"{number} {state}" for state, number in counts.items()))
    if broken:
        raise click.exceptions.Exit(1)
