"""Writes `docs/admin-api.md` from the table of operations.

python -m tools.pages.operations
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dragoman.admin.table import OPERATIONS
from dragoman.operations.inputs import description_of, fields_of, path_field
from dragoman.operations.operation import Http, Operation

PAGE = Path(__file__).parent.parent.parent / "docs/admin-api.md"

_INTRODUCTION = """# Operations

This page is generated from the table of operations by `make docs`; a test keeps it up to date.

All that an administrator can do, with its path below `/admin` and its command. The same table makes
the OpenAPI 3.1 document with all types: `dragoman openapi` prints it, and a running gateway answers
with it at `GET /admin/openapi.json`. How they are called, and what they mean, is in
[administration](administration.md).

A viewer may call what says so, an admin everything. *Recorded* is the action and the kind in the
[log of changes](administration.md#who-changed-what). Fields of GET and DELETE are parameters of the
query, those of POST and PATCH members of a JSON object, but for those marked `?`, which are always
parameters. What is not **required** may be left out.
"""


_TITLES = {"mcp": "MCP servers"}


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for group, operations in groupby(OPERATIONS, key=lambda one: one.name.partition(".")[0]):
        parts.append(f"## {_TITLES.get(group) or group.capitalize()}\n")
        parts += ["\n".join(_section(operation)) for operation in operations]
    return "\n".join(parts)


def _section(operation: Operation) -> Iterator[str]:
    yield f"### {operation.name}\n"
    yield f"{operation.summary} {operation.details}".strip() + "\n"
    for http in operation.http:
        yield f"- `{http.method} /admin/{http.path}`" + (f" ({http.status})" if _made(http) else "")
    if operation.command is not None:
        yield f"- `dragoman {operation.command.path}`"
    yield f"- {operation.role}" + (
        f", recorded as {', '.join(operation.audit)}" if operation.audit else ""
    )
    fields = list(_fields(operation))
    if fields:
        yield f"- fields: {'; '.join(fields)}"
    yield ""


def _fields(operation: Operation) -> Iterator[str]:
    in_path = {
        path_field(operation.input, part[1:-1])
        for http in operation.http
        for part in http.path.split("/")
        if part.startswith("{")
    }
    given = {name for http in operation.http for name in http.fixed}
    in_query = {name for http in operation.http for name in http.query}
    for name, info in fields_of(operation.input).items():
        if name not in in_path | given:
            text = f"`{'?' if name in in_query else ''}{name}`"
            text += " **required**" if info.required else ""
            description = description_of(info.type).partition("  [")[0].rstrip(".")
            yield f"{text} ({description})" if description else text


def _made(http: Http) -> bool:
    return http.status != 200


if __name__ == "__main__":
    PAGE.write_text(page())
