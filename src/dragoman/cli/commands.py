"""Commands made from the operations on the store.

What a command shows to people, and what its options need beyond their types, is in a `Form`;
without one it prints JSON where that is asked for, and nothing else.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

import click

from dragoman.cli.common import (
    ALWAYS_JSON,
    CONFIG,
    JSON,
    failures_reported,
    file_name,
    print_json,
    read_config,
)
from dragoman.printable import count
from dragoman.times import LONGEST_SPAN_S

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo

    from dragoman.config import Secret
    from dragoman.operations.context import StoreContext
    from dragoman.operations.operation import Operation

Decorator = Callable[[Any], Any]
Values = dict[str, Any]

_NONE = "none"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_LONGEST_TEXT = 16
"""Characters of a number or a span: more digits are more than any."""
_METAVARS = {
    "headers": "NAME=VALUE",
    "weights": "PART=N",
    "key": "env:NAME|file:PATH|-",
    "proxy": "URL",
    "by": "NAMES",
}


class Form(NamedTuple):
    """How a command reads and shows: `text` prints the output for people, which it is called with,
    and with the input; `shape` picks what is printed as JSON, and `failed` says whether the exit
    status is 1. `options` are further ones; `read` makes the values of the input out of those of
    the options, for the configuration file and its store. `finds`: with them names need not be
    given."""

    text: Callable[[Any, Any], None] = lambda output, asked: None
    shape: Callable[[Any], Any] = lambda output: output
    failed: Callable[[Any], bool] = lambda output: False
    options: tuple[Decorator, ...] = ()
    read: Callable[[Values, Path, StoreContext], Values] = lambda values, config, context: values
    finds: bool = False


def add_commands(
    group: click.Group, operations: Iterable[Operation], forms: Mapping[str, Form]
) -> None:
    """Add the commands of operations to their group."""
    for operation in operations:
        command = operation.command
        if command is not None and not command.is_own:
            parent, _, name = command.path.rpartition(" ")
            if parent == group.name:
                group.add_command(command_of(operation, forms.get(operation.name, Form())), name)


def command_of(operation: Operation, form: Form) -> click.Command:
    """The command of an operation."""
    command = operation.command
    assert command is not None

    def called(config: Path, as_json: bool = False, yes: bool = True, **values: Any) -> None:
        if command.confirm and not yes and sys.stdin.isatty():
            click.confirm(f"Remove {count(len(values['names']), command.confirm)}?", abort=True)
        given = _given(operation, values)
        output, asked = run(operation, config, given, form.read, as_json=as_json)
        if as_json or command.is_json:
            print_json(form.shape(output))
        else:
            form.text(output, asked)
        if form.failed(output):
            raise click.exceptions.Exit(1)

    decorators = [
        CONFIG,
        *_parameters(operation, named=not form.finds),
        *form.options,
        *([click.option("--yes", is_flag=True, help="Do not ask.")] if command.confirm else []),
        ALWAYS_JSON if command.is_json else JSON,
    ]
    for decorator in reversed(decorators):
        called = decorator(called)
    return click.command(command.path.rpartition(" ")[2], help=help_of(operation))(called)


def help_of(operation: Operation) -> str:
    """The help of an operation's command."""
    return "\n\n".join(part for part in (operation.summary, operation.details) if part)


def run(
    operation: Operation,
    path: Path,
    values: Values,
    read: Callable[[Values, Path, StoreContext], Values] | None = None,
    *,
    as_json: bool = False,
) -> tuple[Any, Any]:
    """The output of an operation on the store of the configuration at `path`, and its input, which
    these values make. Failures end the command."""
    settings = read_config(path)
    from dragoman.operations.context import open_store
    from dragoman.operations.inputs import from_texts, read_input

    file = values.get("file")
    name = "" if file is None else file.name
    with failures_reported(name, as_json), open_store(settings, _offered) as context:
        if read is not None:
            values = read(values, path, context)
        texts = {field: value for field, value in values.items() if isinstance(value, str)}
        values |= from_texts(operation.input, texts, time.time())
        resolve = resolver(path)
        asked = read_input(operation.input, values, resolve)
        ready = asked if operation.prepare is None else operation.prepare(resolve, asked)
        output = operation.run(context, ready)
        if operation.finish is not None:
            output = operation.finish(asked, output)
        return output, asked


def _offered(*asked: Any) -> Any:
    """As `offered_to`, whose modules few commands need."""
    from dragoman.serving.offered_models import offered_to

    return offered_to(*asked)


def _given(operation: Operation, values: Values) -> Values:
    """The values that were given, of options and arguments."""
    from dragoman.operations.operation import Upload

    command = operation.command
    assert command is not None
    found: Values = {}
    for name, value in values.items():
        field = name.removesuffix("_")
        if value in (None, ()):
            continue
        if field == "file":
            value = Upload(value.read(), file_name(value))
        elif command.takes_none and value in (_NONE, (_NONE,)):
            value = None
        elif isinstance(value, tuple):
            value = list(value)
        found[field] = value
    return found


def _parameters(operation: Operation, *, named: bool) -> list[Decorator]:
    """The options and arguments of an operation."""
    from dragoman.operations.inputs import fields_of

    command = operation.command
    assert command is not None
    known = fields_of(operation.input)
    options = [
        _option(known[name], spelled, command.defaults.get(name), command.takes_none)
        for name, spelled in command.options.items()
    ]
    return [*options, *(_argument(known[name], named) for name in command.arguments)]


def _argument(info: FieldInfo, named: bool) -> Decorator:
    from dragoman.operations.inputs import bare

    name, kind = info.encode_name, bare(info.type)
    if name == "file":
        return click.argument(name, type=click.File("rb"))
    if get_origin(kind) is tuple:
        return click.argument(name, nargs=-1, required=named, metavar="NAME...")
    return click.argument(name, type=int if kind is int else str, required=info.required)


def _option(info: FieldInfo, spelled: str, default: Any, takes_none: bool) -> Decorator:
    from dragoman.operations.inputs import bare, description_of, is_table

    name, kind = info.encode_name, bare(info.type)
    given: dict[str, Any] = {"help": description_of(info.type), "metavar": _METAVARS.get(name)}
    # A parameter of a function may not be called `from`.
    flags = [f" {spelled}" if spelled.startswith("/") else spelled, f"{name}_"]
    if default is not None:
        given |= {"default": default, "show_default": True}
    if kind is bool:
        given["default"] = None if "/--no" in spelled else info.default
        given.pop("metavar")
        return click.option(*flags, is_flag=True, **given)
    given["multiple"] = get_origin(kind) in (tuple, dict) or is_table(kind)
    given["required"] = info.required and default is None
    return click.option(*flags, type=_type(info.type, takes_none), **given)


def _type(kind: Any, takes_none: bool) -> Any:
    from dragoman.operations.inputs import bare, text_form

    if text_form(kind) == "span":
        return Span()
    plain = bare(kind)
    if plain is datetime:
        return Moment()
    if plain is int:
        return Number() if takes_none else int
    if plain is float and not takes_none and text_form(kind) != "time":
        return float
    if get_origin(plain) is Literal and not takes_none:
        return click.Choice([str(choice) for choice in get_args(plain)])
    return str


class Moment(click.ParamType[datetime | str]):
    """A point in time: a date, or how long from now; `none` for none."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | str:
        """The time, in UTC."""
        text = str(value).strip()
        if text == _NONE:
            return text
        span = _span(text)
        if span is not None:
            return datetime.fromtimestamp(time.time() + span, UTC)
        try:
            return datetime.fromisoformat(text).astimezone()
        except (ValueError, OverflowError):
            self.fail("expected a time such as 30d, 2027-01-31 or 2027-01-31T12:00Z", param, ctx)


class Number(click.ParamType[int | str]):
    """A whole number; `none` for none."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """The number."""
        text = str(value).strip()
        if text == _NONE:
            return text
        if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_TEXT):
            self.fail("expected a number, or none", param, ctx)
        return int(text)


class Span(click.ParamType[float]):
    """A span of time, in seconds."""

    name = "span"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds."""
        text = str(value).strip()
        span = 0.0 if text == "0" else _span(text)
        if span is None:
            self.fail("expected a span such as 24h, 7d or 0, of at most 300 years", param, ctx)
        return span


def _span(text: str) -> float | None:
    """The seconds of a span such as `24h`; None if it is none, or too long."""
    if not text[:-1].isdecimal() or text[-1:] not in _UNITS or len(text) > _LONGEST_TEXT:
        return None
    seconds = int(text[:-1]) * _UNITS[text[-1]]
    return seconds if seconds < LONGEST_SPAN_S else None


def resolver(config: Path) -> Callable[[str], Secret]:
    """The function that reads the references of a command; files are beside the configuration."""
    from dragoman.config.secret import resolve_secret

    return lambda reference: resolve_secret(reference, environ=os.environ, directory=config.parent)
