"""`dragoman translate`: a request or an answer in another protocol, without any upstream."""

from __future__ import annotations

from io import BufferedReader
from typing import TYPE_CHECKING, Literal

import click

from dragoman.cli.common import PROTOCOL

if TYPE_CHECKING:
    from dragoman.protocols import ProtocolName

POLICIES = ("strict", "balanced", "lenient")

_CHUNK_BYTES = 64 * 1024


@click.command()
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
    "losses_as",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="How to print what was lost: a line each, or one JSON array.",
)
@click.argument("file", type=click.File("rb"), default="-")
def translate(
    source: ProtocolName,
    target: ProtocolName,
    part: Literal["request", "response", "stream"],
    model: str | None,
    policy: str,
    asked: BufferedReader | None,
    losses_as: Literal["text", "json"],
    file: BufferedReader,
) -> None:
    """Translate a request or an answer to another protocol.

    It is read from FILE, or from standard input. The result goes to standard output, what was lost
    to standard error. The exit status is 1 when there is no translation, or when the stream that is
    read ends in an error.
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
    if losses_as == "json":
        import msgspec

        click.echo(msgspec.json.encode(losses), err=True)
        return
    for loss in losses:
        click.echo(f"lost: {loss.path} ({loss.kind}): {loss.detail}", err=True)
