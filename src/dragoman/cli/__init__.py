"""The `dragoman` command. Each subcommand imports what it runs when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

import dragoman
from dragoman.cli.accounts import accounts
from dragoman.cli.classify import classify
from dragoman.cli.common import FILE, PROTOCOL, count, read_config
from dragoman.cli.doctor import doctor
from dragoman.cli.keys import key, team
from dragoman.cli.prices import prices
from dragoman.cli.usage import usage

if TYPE_CHECKING:
    from dragoman.protocols import ProtocolName

POLICIES = ("strict", "balanced", "lenient")

SIMULATOR_PORT = 8099
"""Default port of `simulate`; the simulator's own, repeated here so as not to import it."""

_PORT = click.IntRange(0, 65535)
_CHUNK_BYTES = 64 * 1024


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dragoman.__version__, prog_name="dragoman")
def main() -> None:
    """Any LLM client, any LLM backend: Chat Completions, Messages and Responses on both sides."""


main.add_command(accounts)
main.add_command(usage)
main.add_command(prices)
main.add_command(key)
main.add_command(team)
main.add_command(doctor)


@main.command()
@click.option(
    "--config", type=FILE, default="dragoman.toml", show_default=True, help="The configuration."
)
def serve(config: Path) -> None:
    """Serve the gateway until interrupted."""
    settings = read_config(config)
    from dragoman.gateway import service

    with _serving(settings.server.host, settings.server.port):
        service.serve(settings)


@main.command()
@click.option("--port", type=_PORT, default=8080, show_default=True)
def demo(port: int) -> None:
    """Serve a gateway with the simulator behind it, and print examples to paste."""
    from dragoman import demo

    with _serving("127.0.0.1", port):
        demo.run(port=port)


@main.command()
@click.argument("config", type=FILE)
def check(config: Path) -> None:
    """Read CONFIG as `serve` would, and name the line and key of each fault.

    The exit status is 1 when the configuration cannot be used. Warnings do not change it.
    """
    found = read_config(config)
    from dragoman.prices.loading import load_prices
    from dragoman.prices.table import PriceError

    try:
        load_prices(found)
    except PriceError as error:
        raise click.ClickException(f"prices: {error}") from None
    counts = (
        count(len(found.clients), "client"),
        count(len(found.upstreams), "upstream"),
        count(len(found.accounts), "account"),
        count(len(found.routes), "route"),
    )
    click.echo(f"{config}: usable ({', '.join(counts)})")


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=_PORT, default=SIMULATOR_PORT, show_default=True)
def simulate(host: str, port: int) -> None:
    """Serve a scripted upstream that speaks all three protocols, to test clients with."""
    from dragoman.simulator.server import run

    click.echo(f"Serving the simulator on http://{host}:{port} until interrupted.", err=True)
    with _serving(host, port):
        run(host, port)


@main.command()
@click.option(
    "--from", "source", type=PROTOCOL, required=True, help="Protocol read, as in a configuration."
)
@click.option("--to", "target", type=PROTOCOL, required=True, help="Protocol written.")
@click.option("--request", "part", flag_value="request", default=True, help="A request (default).")
@click.option("--response", "part", flag_value="response", help="A whole answer.")
@click.option("--stream", "part", flag_value="stream", help="A streamed answer.")
@click.option("--model", help="Model name to write; by default the one that is read.")
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="balanced",
    show_default=True,
    help="Which losses refuse a request.",
)
@click.option(
    "--for",
    "asked",
    type=click.File("rb"),
    help="The client's request that an answer belongs to: it restores tool names and the model.",
)
@click.option(
    "--losses",
    "told_as",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="How to tell what was lost: a line each, or one JSON array.",
)
@click.argument("file", type=click.File("rb"), default="-")
def translate(
    source: ProtocolName,
    target: ProtocolName,
    part: Literal["request", "response", "stream"],
    model: str | None,
    policy: str,
    asked: BufferedReader | None,
    told_as: Literal["text", "json"],
    file: BufferedReader,
) -> None:
    """Translate FILE, or standard input, from one protocol to another.

    The result goes to standard output, what was lost to standard error. The exit status is 1
    when there is no translation, or when the stream that is read ends in an error.
    """
    from dragoman import offline
    from dragoman.canonical.errors import DragomanError
    from dragoman.canonical.losses import Policy
    from dragoman.canonical.options import Options
    from dragoman.translation import translate_request

    request = asked.read() if asked is not None else None
    try:
        if part == "request":
            options = Options(policy=Policy(policy))
            call = translate_request(
                source,
                target,
                file.read(),
                model=model,
                options=options,
            )
            body, losses = call.body, call.losses
            click.echo(body)
        elif part == "response":
            body, losses = offline.answer(file.read(), source, target, model=model, request=request)
            click.echo(body)
        else:
            chunks = iter(lambda: file.read1(_CHUNK_BYTES), b"")
            stream = offline.Stream(chunks, source, target, model=model, request=request)
            for chunk in stream:
                click.echo(chunk, nl=False)
            losses = stream.losses
    except DragomanError as error:
        raise click.ClickException(error.fault.message) from None
    if told_as == "json":
        import msgspec

        click.echo(msgspec.json.encode(losses), err=True)
        return
    for loss in losses:
        click.echo(f"lost: {loss.path} ({loss.kind}): {loss.detail}", err=True)


main.add_command(classify)


@contextmanager
def _serving(host: str, port: int) -> Iterator[None]:
    """Make an interrupt an ordinary end; an address or a store that cannot be had a message."""
    from dragoman.accounts.cipher import SealError
    from dragoman.accounts.store import StoreError
    from dragoman.prices.table import PriceError

    try:
        yield
    except KeyboardInterrupt:
        return
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror}") from None
    except (StoreError, SealError) as error:
        raise click.ClickException(f"the store: {error}") from None
    except PriceError as error:
        raise click.ClickException(f"prices: {error}") from None
