"""One gateway over one server for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mcp.serving import Desk, desk
from tests.mcp.stub import Stub, running_stub


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        yield running


@pytest.fixture(scope="module")
def tickets(stub: Stub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(stub, tmp_path_factory.mktemp("mcp") / "store.db") as running:
        yield running
