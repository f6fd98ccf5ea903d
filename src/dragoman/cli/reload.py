"""`dragoman reload`: a running gateway reads its configuration again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.common import CONFIG, JSON, config_faults_reported, load_config

if TYPE_CHECKING:
    from dragoman.config import ConfigError, Server


@click.command()
@CONFIG
@click.option("--host", help="Address that the gateway listens on, if not the configuration's.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port that it listens on.")
@JSON
def reload(config: Path, host: str | None, port: int | None, as_json: bool) -> None:
    """Have the gateway that runs here read its configuration again.

    Prints what changed, and what needs a restart. If the configuration cannot be used the gateway
    serves on with the one that it has, and the exit status is 1. The gateway must be run by the
    same user, on this machine; elsewhere, use POST /admin/reload.
    """
    import msgspec

    from dragoman.processes.reload import Report
    from dragoman.processes.take_over import ask_to_reload

    def unusable(error: ConfigError) -> object:
        return {"problems": [one.located(error.file) for one in error.problems]}

    given = {"host": host, "port": port}
    server = {name: value for name, value in given.items() if value is not None}
    with config_faults_reported(unusable if as_json else None):
        settings = load_config(config, serving=False, server=server).config.server
    try:
        answer = ask_to_reload(_address(settings))
    except OSError as error:
        raise click.ClickException(
            f"the gateway was not asked: {error.strerror or error}"
        ) from None
    if answer is None:
        raise click.ClickException(
            f"no gateway that can be asked from here listens on {_place(settings)}: name another "
            "with --host and --port, send it SIGHUP, or use POST /admin/reload"
        )
    report = msgspec.json.decode(answer, type=Report)
    if as_json:
        click.echo(msgspec.json.format(answer, indent=2))
    else:
        _print(report)
    if report.problems:
        raise click.exceptions.Exit(1)


def _print(report: object) -> None:
    from dragoman.processes.reload import Report

    assert isinstance(report, Report)
    for problem in report.problems:
        click.echo(f"error: {problem}", err=True)
    if report.problems:
        click.echo(f"nothing was changed: configuration {report.configuration} is served", err=True)
        return
    for warning in report.warnings:
        click.echo(f"warning: {warning}", err=True)
    for line in report.changes.lines():
        click.echo(line)
    unchanged = "" if report.changes else ", nothing in it is different"
    click.echo(f"configuration {report.configuration} is served{unchanged}")


def _address(server: Server) -> tuple[str, int]:
    """The address by which the gateway is known.

    Raises:
        OSError: there is no such address.
    """
    from dragoman.processes.listening import address_of_path, resolve

    if server.unix_socket is not None:
        return address_of_path(server.unix_socket)
    return resolve(server.host, server.port)


def _place(server: Server) -> str:
    return server.unix_socket or f"{server.host}:{server.port}"
