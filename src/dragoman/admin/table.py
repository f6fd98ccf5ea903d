"""All operations that a running gateway serves: those on the store, and its own."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

import dragoman
from dragoman.admin import (
    account_tests,
    clients,
    configuration,
    event_stream,
    explain,
    health,
    limits,
    requests,
    series,
    session,
    workbench_operations,
)
from dragoman.admin.call import Call
from dragoman.operations import openapi
from dragoman.operations.operation import Command, Http, Nothing, Operation, Text, operation
from dragoman.operations.table import OPERATIONS as ON_STORE


def _served(operation: Operation) -> Operation:
    """An operation on the store as a gateway serves it."""
    run = limits.WITH_LIMITS.get(operation.name)
    return operation if run is None else replace(operation, run=run, in_store=False)


@operation(
    "openapi.show",
    "viewer",
    Http("GET", "openapi.json"),
    output=object,
    command=Command("openapi", is_own=True),
)
async def _document(_call: Call, _: Nothing) -> Text:
    """Show the OpenAPI document of these operations."""
    made = openapi.document(OPERATIONS, dragoman.__version__)
    return Text(msgspec.json.encode(made), "application/json")


OPERATIONS: tuple[Operation, ...] = (
    *session.OPERATIONS,
    *map(_served, ON_STORE),
    *account_tests.OPERATIONS,
    *limits.OPERATIONS,
    *requests.OPERATIONS,
    *series.OPERATIONS,
    *event_stream.OPERATIONS,
    *clients.OPERATIONS,
    *explain.OPERATIONS,
    *workbench_operations.OPERATIONS,
    *configuration.OPERATIONS,
    *health.OPERATIONS,
    _document,
)
