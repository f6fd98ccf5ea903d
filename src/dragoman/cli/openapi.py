"""`dragoman openapi`: the document of the operations below `/admin`."""

from __future__ import annotations

import click

import dragoman
from dragoman.cli.common import ALWAYS_JSON, print_json


@click.command()
@ALWAYS_JSON
def openapi() -> None:
    """Print the OpenAPI document of /admin.

    A running gateway answers with it at GET /admin/openapi.json.
    """
    from dragoman.admin.table import OPERATIONS
    from dragoman.operations.openapi import document

    print_json(document(OPERATIONS, dragoman.__version__))
