"""The table of operations: each can be called, has a role and a schema, and is in the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import click
import msgspec
import pytest
from click.testing import CliRunner

from dragoman.admin.routes import Routes
from dragoman.admin.table import OPERATIONS
from dragoman.cli import main
from dragoman.operations.inputs import description_of, fields_of, path_field
from dragoman.operations.openapi import document
from dragoman.operations.operation import Operation, Role
from tools.pages.operations import PAGE, page

DOCUMENT = document(OPERATIONS, "1.0")

READING_POSTS = {"keys.simulate", "limits.simulate", "workbench.translate"}
"""Operations that only read, and need a body."""

CHANGES_NOTHING_STORED = {"session.end"}

COMMANDS_BY_HAND = {"accounts export", "prices diff", "prices set", "prices update"}
"""Commands of these groups that are no operations: they read and write files."""


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_an_operation_is_whole(operation: Operation) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", operation.name)
    assert operation.summary.endswith(".")
    assert operation.role in get_args(Role)
    assert operation.http or operation.command
    assert operation.input.__doc__
    assert issubclass(operation.input, msgspec.Struct)
    methods = {http.method for http in operation.http}
    changes = methods & {"PATCH", "DELETE", "POST"} and operation.name not in READING_POSTS
    if operation.name not in CHANGES_NOTHING_STORED:
        assert bool(operation.audit) == (bool(changes) or operation.role == "admin")
    if operation.audit:
        assert operation.role in ("admin", "anyone")
    known = fields_of(operation.input)
    for http in operation.http:
        in_path = {path_field(operation.input, one) for one in re.findall(r"{(\w+)}", http.path)}
        assert in_path | set(http.fixed) | set(http.query) | set(http.defaults) <= known.keys()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_an_operation_is_in_the_document(operation: Operation) -> None:
    for http in operation.http:
        described = DOCUMENT["paths"][f"/admin/{http.path}"][http.method.lower()]
        assert described["summary"] == operation.summary
        assert described["x-role"] == operation.role
        assert described.get("x-audit", []) == list(operation.audit)
        content = described["responses"][str(http.status)]["content"]
        for media in content.values():
            if operation.name != "openapi.show":
                assert media.get("schema") or "application/json" not in content


def test_the_document_holds_together() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    schemas = DOCUMENT["components"]["schemas"]
    assert {one.removeprefix("#/components/schemas/") for one in references(DOCUMENT)} == set(
        schemas
    )
    ids = []
    for path, methods in DOCUMENT["paths"].items():
        for described in methods.values():
            ids.append(described["operationId"])
            declared = [(one["name"], one["in"]) for one in described["parameters"]]
            assert len(declared) == len(set(declared))
            assert {name for name, place in declared if place == "path"} == set(
                re.findall(r"{(\w+)}", path)
            )
            for one in described["parameters"]:
                assert one["schema"]
                assert one["in"] != "path" or one["required"]
    assert len(ids) == len(set(ids))
    shapes = [re.sub(r"{\w+}", "{}", path) for path in DOCUMENT["paths"]]
    assert len(shapes) == len(set(shapes))
    assert "\\Z" not in msgspec.json.encode(DOCUMENT).decode()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def test_names_and_routes_are_unique() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(names) == len(set(names))
    routes = Routes(OPERATIONS)
    for operation in OPERATIONS:
        for http in operation.http:
            path = re.sub(r"{number}", "1", re.sub(r"{(name|id)}", "some", http.path))
            found = routes.find(path, http.method)
            assert found is not None
            assert found[0].methods[http.method].operation is operation


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield path + name, command


def test_operations_and_commands_are_the_same() -> None:
    found = dict(commands(main))
    described = {one.command.path: one for one in OPERATIONS if one.command is not None}
    assert described.keys() <= found.keys()
    groups = {path.partition(" ")[0] for path in described if " " in path}
    there = {path for path in found if path.partition(" ")[0] in groups}
    assert there - described.keys() == COMMANDS_BY_HAND
    for path, operation in described.items():
        assert operation.command is not None
        if operation.command.is_own:
            continue
        options = {one for parameter in found[path].params for one in parameter.opts}
        for field, spelled in operation.command.options.items():
            assert spelled.partition("/")[0] in options, path
            assert field == "limit" or description_of(fields_of(operation.input)[field].type), path


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m tools.pages.operations"


def test_the_document_is_printed() -> None:
    printed = CliRunner().invoke(main, ["openapi"])
    assert msgspec.json.decode(printed.output)["paths"].keys() == DOCUMENT["paths"].keys()
