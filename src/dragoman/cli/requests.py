"""`dragoman requests`: what was asked of the gateways of this machine, and what came of it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.common import CONFIG, JSON, print_json, read_config, table
from dragoman.times import InvalidTime, parse_time

if TYPE_CHECKING:
    from dragoman.config import Config
    from dragoman.observability.request_log.rows import ListRow
    from dragoman.storage.request_log import RequestLogFiles

_SEARCH_S = 60.0
_EVERY_S = 0.5
_MOST_AT_ONCE = 1000
_HEADING = ("TIME", "STATUS", "MS", "KEY", "MODEL", "ACCOUNT", "TOKENS", "COST USD", "ID", "WHY")


class _Moment(click.ParamType[float]):
    """A point in time, in Unix seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The time."""
        try:
            return parse_time(str(value), time.time())
        except InvalidTime as error:
            self.fail(str(error), param, ctx)


def _status(context: click.Context, option: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"([1-5]([0-9]{2}|xx))?", value):
        raise click.BadParameter("expected a status such as 429 or 5xx", context, option)
    return value


@click.command()
@CONFIG
@click.option("--since", type=_Moment(), default="24h", show_default=True, help="From when on.")
@click.option("--until", type=_Moment(), default="0s", help="Until when.  [default: now]")
@click.option("--key", default="", help="Only those with the key of this name.")
@click.option("--model", default="", help="Only those for this model.")
@click.option("--account", default="", help="Only those that this account was asked for.")
@click.option("--upstream", default="", help="Only those that this upstream answered.")
@click.option("--client", default="", help="Only those of this client, such as 'Claude Code'.")
@click.option("--status", default="", callback=_status, help="Only with this: 429, 5xx.")
@click.option("--error", default="", help="Only with an error of this kind; * for any.")
@click.option("--loss", default="", help="Only with a loss of this kind, such as knob.")
@click.option("--min-ms", type=click.IntRange(0, 10**9), default=0, help="Only as slow as this.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many.")
@click.option("--follow", "-f", is_flag=True, help="Print those that come, until interrupted.")
@JSON
@click.argument("request_id", metavar="[ID]", default="")
def requests(
    config: Path,
    since: float,
    until: float,
    limit: int,
    follow: bool,
    as_json: bool,
    request_id: str,
    **filters: Any,
) -> None:
    """List requests, the last first, or show all of one.

    With an ID, all that is recorded of that request is shown. Requests are those that gateways on
    this machine have logged, which they do with an [admin] in the configuration; no text of a
    prompt or an answer is among it.
    """
    from dragoman.storage.request_log import Filters

    files = _files(read_config(config))
    if request_id:
        _show(files, request_id)
        return
    chosen = Filters(**filters)
    if follow:
        _follow(files, chosen, as_json=as_json)
        return
    try:
        found = files.search(chosen, since, until, None, limit, _SEARCH_S)
    except OSError as error:
        raise click.ClickException(str(error)) from None
    rows = _read(found.rows)
    if as_json:
        print_json({"rows": rows})
        return
    click.echo(table(_HEADING, [_cells(row) for row in rows]))
    if found.next is not None and len(rows) == limit:
        click.echo("there are more: see --limit, --since and the filters", err=True)
    if missing := sum(one.count for one in found.dropped):
        click.echo(f"{missing} more were not logged, as there were too many at once", err=True)


def _files(config: Config) -> RequestLogFiles:
    from dragoman.storage.opening import request_log_for

    files = request_log_for(config)
    if files is None:
        raise click.ClickException(
            'storage.path is "": requests are only kept in the gateway, see /admin/requests'
        )
    if not files.partitions():
        click.echo(f"no request was logged yet in {files.directory}", err=True)
    return files


def _show(files: RequestLogFiles, request_id: str) -> None:
    import msgspec

    row = files.find(request_id)
    if row is None:
        raise click.ClickException(f"there is no request {request_id} in the log")
    click.echo(msgspec.json.format(row, indent=2).decode())


def _follow(files: RequestLogFiles, filters: Any, *, as_json: bool) -> None:
    place = ""
    while True:
        rows, seen, place = files.tail(filters, place, _MOST_AT_ONCE)
        for raw, row in zip(reversed(rows), reversed(_read(rows)), strict=True):
            click.echo(raw.decode() if as_json else "  ".join(cell for cell in _cells(row) if cell))
        if seen > len(rows):
            click.echo(f"{seen - len(rows)} more", err=True)
        time.sleep(_EVERY_S)


def _read(rows: Any) -> list[ListRow]:
    import msgspec

    from dragoman.observability.request_log.rows import ListRow

    decode = msgspec.json.Decoder(ListRow).decode
    return [decode(row) for row in rows]


def _cells(row: ListRow) -> tuple[str, ...]:
    usage = row.usage
    return (
        time.strftime("%m-%d %H:%M:%S", time.localtime(row.at)),
        str(row.status),
        f"{row.ms:.0f}",
        row.key,
        row.model,
        row.account or row.upstream,
        "" if usage is None else f"{usage.input}+{usage.output}",
        row.cost_usd or "",
        row.id,
        " ".join(part for part in (row.error, row.limit, row.refusal) if part),
    )
