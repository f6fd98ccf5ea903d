"""`dragoman serve`, `demo` and `simulate`: what listens until it is interrupted."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dragoman.cli.common import CONFIG, config_faults_reported, load_config

SIMULATOR_PORT = 8099
"""Default port of `simulate`; the simulator's own, repeated here so as not to import it."""

_PORT = click.IntRange(0, 65535)


@click.command()
@CONFIG
@click.option("--host", help="Address to listen on, over that of the configuration.")
@click.option("--port", type=_PORT, help="Port to listen on, over that of the configuration.")
@click.option(
    "--workers", type=click.IntRange(1), help="Processes, over those of the configuration."
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Take the place of a gateway on this address that serves another configuration file.",
)
def serve(
    config: Path, host: str | None, port: int | None, workers: int | None, take_over: bool
) -> None:
    """Serve the gateway until interrupted.

    One that runs on the same address, with the same configuration file, is taken over from without
    a refused connection.
    """
    given = {"host": host, "port": port, "workers": workers}
    server = {name: value for name, value in given.items() if value is not None}
    with config_faults_reported():
        loaded = load_config(config, server=server)
    from dragoman.config.source import Source
    from dragoman.server import service

    listens = loaded.config.server
    with _serving(listens.unix_socket or f"{listens.host}:{listens.port}"):
        service.serve(
            loaded.config,
            source=Source(str(config), server),
            warnings=[one.located(str(config)) for one in loaded.warnings],
            takes_over=take_over,
        )


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; in a container 0.0.0.0.",
)
@click.option("--port", type=_PORT, default=8080, show_default=True)
def demo(host: str, port: int) -> None:
    """Serve a gateway over the simulator, with examples."""
    from dragoman import demo

    with _serving(f"{host}:{port}"):
        demo.run(host, port)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=_PORT, default=SIMULATOR_PORT, show_default=True)
def simulate(host: str, port: int) -> None:
    """Serve a scripted upstream, to test clients with.

    It speaks all protocols, and takes any key.
    """
    from dragoman.lab.simulator.server import run

    def announce(url: str) -> None:
        click.echo(f"Serving the simulator on {url} until interrupted.", err=True)

    with _serving(f"{host}:{port}"):
        run(host, port, announce)


@contextmanager
def _serving(place: str) -> Iterator[None]:
    """Make an interrupt an ordinary end; an address or a store that cannot be had a message."""
    from dragoman.accounts.cipher import SealError
    from dragoman.accounts.store import StoreError
    from dragoman.prices.table import PriceError

    try:
        yield
    except KeyboardInterrupt:
        return
    except OSError as error:
        is_port_taken = error.errno == errno.EADDRINUSE and ":" in place
        hint = "; --port names another" if is_port_taken else ""
        message = f"cannot listen on {place}: {error.strerror or error}{hint}"
        raise click.ClickException(message) from None
    except (StoreError, SealError) as error:
        raise click.ClickException(f"the store: {error}") from None
    except PriceError as error:
        raise click.ClickException(f"prices: {error}") from None
