"""An operation: something that an administrator can do, described once.

The routes below `/admin`, the commands and the OpenAPI document are made from these descriptions.
An operation takes an input, a `Struct` whose fields are its parameters, and returns its output,
which is encoded as JSON over HTTP and printed by the command line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_type_hints

from msgspec import Struct

Role = Literal["anyone", "viewer", "admin"]
"""The least role that may do something: `viewer` reads, `admin` does everything; `anyone` need not
be signed in."""


Method = Literal["GET", "POST", "PATCH", "DELETE"]


class Http(Struct, frozen=True):
    """How an operation is called over HTTP.

    `path` is below `/admin/`; a field in braces is taken from the path, where `{name}` is also
    the one entry of `names`. The other fields are taken
    from the query of GET and DELETE and from the JSON body of POST and PATCH, but for the fields of
    `query`, which come from the query always. `fixed` are fields that the path implies, `defaults`
    those that are not given. `file` names the field that gets the whole body. `only` picks the one
    thing that was asked for out of an output of several.
    """

    method: Method
    path: str
    status: int = 200
    fixed: Mapping[str, object] = {}
    defaults: Mapping[str, object] = {}
    query: tuple[str, ...] = ()
    file: str = ""
    only: bool = False


class Command(Struct, frozen=True):
    """How an operation is called on the command line.

    `path` names the group and the command. `arguments` are fields that are given by their place,
    `options` the spelling of the others by field; fields in neither cannot be given. `defaults` are
    values of fields that are not given. `confirm` is the kind of thing of which is asked whether to
    remove it. With `takes_none` the text `none` is None. `is_json` says that the output is
    JSON always. `is_own` commands are written by hand, in `dragoman.cli`.
    """

    path: str
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    defaults: Mapping[str, object] = {}
    confirm: str = ""
    takes_none: bool = False
    is_json: bool = False
    is_own: bool = False


class Operation(Struct, frozen=True, kw_only=True):
    """One operation.

    `summary` is one sentence, `details` what else its help says. `run` takes a context and the
    input. Operations on the store (`in_store`) take a `StoreContext`, and run in the thread that
    uses the store; others take the call that a running gateway serves, and are coroutines.
    `prepare` turns an input into one that is ready, and `finish` an output into what is shown, both
    in any thread, so that they do not block the store. `audit` are the lines that it adds to the
    log of changes: an action and a kind each. `version` is the part of the output that a change of
    the same path is checked against (`If-Match`).
    """

    name: str
    summary: str
    details: str = ""
    input: type[Struct]
    output: Any
    role: Role
    run: Callable[[Any, Any], Any]
    in_store: bool = True
    prepare: Callable[[Any, Any], Any] | None = None
    finish: Callable[[Any, Any], Any] | None = None
    audit: tuple[str, ...] = ()
    version: Callable[[Any], object] | None = None
    http: tuple[Http, ...] = ()
    command: Command | None = None


def operation(
    name: str,
    role: Role,
    *http: Http,
    input: Any = None,
    output: Any = None,
    **others: Any,
) -> Callable[[Callable[[Any, Any], Any]], Operation]:
    """Make an operation of a function, which is its `run`.

    The input and output types are those of the annotations, unless others are given. The first
    paragraph of the docstring is the summary, the rest the details. Coroutine functions run in a
    gateway, others on the store. `others` are further fields of the operation.
    """

    def made(run: Callable[[Any, Any], Any]) -> Operation:
        _, asked = inspect.signature(run).parameters
        hints = get_type_hints(run, include_extras=True)
        paragraphs = (inspect.getdoc(run) or "").split("\n\n")
        summary, *details = (" ".join(text.split()) for text in paragraphs)
        return Operation(
            name=name,
            summary=summary,
            details="\n\n".join(details),
            input=input or hints[asked],
            output=output or hints["return"],
            role=role,
            run=run,
            in_store=not inspect.iscoroutinefunction(run),
            http=http,
            **others,
        )

    return made


def operations_in(names: Mapping[str, object]) -> tuple[Operation, ...]:
    """The operations of a module, of which these are the names."""
    return tuple(value for value in names.values() if isinstance(value, Operation))


class Nothing(Struct, frozen=True):
    """The input of an operation that takes none."""


class Named(Struct, frozen=True, kw_only=True):
    """The input of an operation on one thing."""

    name: str


class SeveralNamed(Struct, frozen=True, kw_only=True):
    """The input of an operation on several things: on all of them, or on none."""

    names: tuple[str, ...]


class Removed(Struct, frozen=True):
    """How many things were removed."""

    removed: int


class Upload(Struct, frozen=True):
    """A file that was sent or read: its name, or its media type, as far as that is known."""

    data: bytes
    name: str = ""
    media: str = ""


class Text(Struct, frozen=True):
    """An output that is no JSON."""

    data: bytes
    media: str = "text/plain; charset=utf-8"
