"""`dragoman init`: a configuration to start with."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click

from dragoman.cli.common import CONFIG, PROTOCOL, reached_by

if TYPE_CHECKING:
    from dragoman.config.starting import Vendor

OWN = "local"
"""Name of a server of one's own."""


@click.command()
@CONFIG
@click.option(
    "--upstream",
    "names",
    multiple=True,
    help="A service to call, several times for several: openai, anthropic, gemini, deepseek, "
    "moonshot, zai, qwen, minimax, mistral, xai, groq, azure, openrouter; or a server of your own: "
    "vllm, sglang, llamacpp, lmstudio, ollama.",
)
@click.option("--url", help="Base URL of a server of your own.")
@click.option("--protocol", type=PROTOCOL, default="openai_chat", help="What that server speaks.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="UPSTREAM=REFERENCE",
    help="Where a service's key is: env:NAME or file:PATH.",
)
@click.option("--client", "clients", multiple=True, help="Name of a client to make a key for.")
@click.option("--budget", default="", help="US dollars that each client may spend in a month.")
@click.option("--dashboard", is_flag=True, help="Serve the dashboard at /ui, and make keys for it.")
@click.option(
    "--model", "models", multiple=True, help="Name of a model of the first service, for a route."
)
@click.option(
    "--team",
    is_flag=True,
    help="People sign in with the company's account, and get their models and settings. Implies "
    "--dashboard.",
)
@click.option(
    "--issuer",
    default="http://127.0.0.1:9000",
    help="Their OpenID provider; by default the one to try it with, dragoman.lab.provider.",
)
@click.option("--public-url", help="Address by which they reach the gateway.")
@click.option(
    "--no-responses", is_flag=True, help="Store no answers for Responses clients to continue from."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(
    config: Path,
    names: tuple[str, ...],
    url: str | None,
    protocol: str,
    keys: tuple[str, ...],
    host: str,
    port: int,
    force: bool,
    **wishes: Any,
) -> None:
    """Write a configuration to start with.

    Without --upstream and --url, a person at a terminal is asked. Keys of clients, of the dashboard
    and of the store are written to files of their own, which only you can read.
    """
    from dragoman.config.starting import Client, Extras, Team, starting_configuration
    from dragoman.keys.secrets import RANDOM_BYTES, make_key

    if os.path.lexists(config) and not force:
        raise click.ClickException(f"{config} is there already: give another --config, or --force")
    models, is_team, issuer, public_url = map(wishes.pop, _OF_TEAMS)
    team = Team(public_url or f"http://{reached_by(host)}:{port}", issuer) if is_team else None
    wishes["dashboard"] |= is_team
    wished = _Wishes(**wishes)
    if not names and not url:
        answers = _asked(wished)
        names, url, wished = answers.names, answers.url, answers.wishes
        protocol, keys = answers.protocol or protocol, (*keys, *answers.keys)
    vendors = _vendors(names, url, protocol)
    references = _references(keys, [vendor.name for vendor in vendors])
    clients = wished.clients
    twice = [name for name in clients if clients.count(name) > 1]
    if twice:
        raise click.UsageError(f"--client: {twice[0]} is given twice")
    if wished.budget and not clients:
        raise click.UsageError("--budget: of which --client?")
    own = ("admin", "store") if wished.dashboard else ()
    if taken := {*own} & {*clients}:
        raise click.UsageError(f"--client: {taken.pop()} is the name of the key of another")
    files = {name: config.parent / f"{name}.key" for name in (*clients, *own)}
    for file in files.values():
        if os.path.lexists(file) and not force:
            raise click.ClickException(f"{file} is there already: give another name, or --force")
    made = {name: make_key(os.urandom(RANDOM_BYTES)) for name in files}

    def text(key: Callable[[str], str], references: dict[str, str]) -> str:
        admin, store = (key(name) for name in own) if own else ("", "")
        return starting_configuration(
            vendors,
            [Client(name, key(name), wished.budget) for name in clients],
            keys=references,
            extras=Extras(
                admin,
                store,
                responses=not wished.no_responses,
                models=models,
                team=team,
            ),
            host=host,
            port=port,
        )

    stands_in = {vendor.name: "env:KEY" for vendor in vendors if vendor.variable}
    _check(text(made.__getitem__, stands_in))
    try:
        for name, key in made.items():
            _write_secret(files[name], key)
        config.write_text(text(lambda name: f"file:{files[name].name}", references), "utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename}: {error.strerror}") from None
    for name in clients:
        click.echo(f"the key of {name} (in {files[name]}): {made[name]}")
    address = f"http://{reached_by(host)}:{port}"
    if wished.dashboard:
        click.echo(f"the dashboard: {address}/ui, with the key in {files['admin']}")
    _say_next(config, vendors, references, address)
    for name in clients:
        quoted = shlex.quote(str(files[name]))
        click.echo(f'which reads its key: export DRAGOMAN_KEY="$(cat {quoted})"')


_OF_TEAMS = ("models", "team", "issuer", "public_url")
"""Options that nobody is asked about."""


class _Wishes(NamedTuple):
    """What may be wished for beside upstreams: clients with a key each and what each of them may
    spend in a month, the dashboard, and no stored answers."""

    clients: tuple[str, ...] = ()
    budget: str = ""
    dashboard: bool = False
    no_responses: bool = False


class _Answers(NamedTuple):
    """The answers of a person: services, or a server of their own, and what they wish for."""

    names: tuple[str, ...]
    wishes: _Wishes
    url: str | None = None
    protocol: str | None = None
    keys: tuple[str, ...] = ()


def _asked(wished: _Wishes) -> _Answers:
    """The answers to questions, each of which is asked until its answer is usable."""
    from dragoman.config.starting import VENDORS
    from dragoman.protocols import CODECS

    def optional(text: str, read: Callable[[str], Any] = _words) -> Any:
        return click.prompt(text, default="", show_default=False, value_proc=read)

    if not _is_terminal():
        raise click.UsageError("give --upstream or --url: there is no terminal to ask at")
    click.echo(f"Services and servers that are known: {', '.join(VENDORS)}.")
    names: tuple[str, ...] = optional("Which do you use (empty: another)", _services)
    url = protocol = None
    keys: tuple[str, ...] = ()
    if not names:
        url = click.prompt(
            "Base URL of your own server, such as http://127.0.0.1:8000/v1", value_proc=_base_url
        )
        what = f"What it speaks ({', '.join(CODECS)})"
        protocol = click.prompt(what, default="openai_chat", type=PROTOCOL)
        variable = optional("Environment variable that has its key (empty: it needs none)", str)
        keys = (f"{OWN}=env:{variable}",) if variable else ()
    clients, budget, dashboard, none_stored = wished
    if not clients:
        clients = optional("Names of clients to make keys for (empty: only this machine may call)")
    if clients and not budget:
        budget = optional("US dollars that each may spend in a month (empty: any amount)", _dollars)
    dashboard = dashboard or click.confirm("Serve a dashboard at /ui?", default=True)
    if not none_stored:
        none_stored = not click.confirm(
            "Responses clients can continue from earlier answers, which are stored for that for 30 "
            "days, in plain text. Store them?",
            default=True,
        )
    wishes = _Wishes(clients, budget, dashboard, none_stored)
    return _Answers(names, wishes, url, protocol, keys)


def _dollars(text: str) -> str:
    if text and not text.replace(".", "", 1).isdecimal():
        raise click.UsageError("expected an amount such as 20 or 12.50")
    return text


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _services(text: str) -> tuple[str, ...]:
    from dragoman.config.starting import VENDORS

    names = _words(text)
    for name in names:
        if name not in VENDORS:
            raise click.UsageError(f"{name!r} is none of them")
    return names


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError("it begins with http:// or https://, and names a host")
    return text


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _vendors(names: tuple[str, ...], url: str | None, protocol: str) -> list[Vendor]:
    from dragoman.config.starting import VENDORS, Vendor

    found: dict[str, Vendor] = {}
    for name in names:
        if name not in VENDORS:
            raise click.UsageError(
                f"--upstream: {name!r} is not one of {', '.join(VENDORS)}; for another service "
                "give --url"
            )
        found[name] = VENDORS[name]
    if url:
        found[OWN] = Vendor(OWN, protocol, url, "", "*")
    return list(found.values())


def _references(keys: tuple[str, ...], names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in keys:
        name, _, reference = text.partition("=")
        if name not in names:
            raise click.UsageError(f"--key: {name!r} is not one of {', '.join(names)}")
        if not reference.startswith(("env:", "file:")):
            raise click.UsageError(
                "--key: a key in the arguments can be read by other processes: give env:NAME or "
                "file:PATH"
            )
        found[name] = reference
    return found


def _check(text: str) -> None:
    """End the command if what would be written could not be used, whatever the vendors' keys."""
    from dragoman.config import ConfigError, parse_config

    try:
        parse_config(text, environ={"KEY": "sk-stands-in-for-it"})
    except ConfigError as error:
        faults = "; ".join(f"{problem.key}: {problem.message}" for problem in error.problems)
        raise click.UsageError(f"such a configuration cannot be used: {faults}") from None


def _write_secret(file: Path, key: str) -> None:
    """Write a file that only this user may ever read."""
    if file.exists():
        file.unlink()
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(f"{key}\n")


def _say_next(
    config: Path, vendors: list[Vendor], references: dict[str, str], address: str
) -> None:
    click.echo(f"wrote {config}")
    for vendor in vendors:
        if vendor.variable and vendor.name not in references and vendor.variable not in os.environ:
            click.echo(f"set {vendor.variable} to your key of {vendor.name}")
    named = "" if config == Path("dragoman.toml") else f" --config {config}"
    click.echo(f"then: dragoman check --online{named}; dragoman serve{named}")
    routed = ", ".join(vendor.match for vendor in vendors if vendor.match != "*")
    click.echo(
        f"and for each client: dragoman guide CLIENT --url {address} --model MODEL"
        + (f" (one of {routed})" if routed else "")
    )
