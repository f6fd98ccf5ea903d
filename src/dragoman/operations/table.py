"""All operations on the store, whether a gateway runs or not."""

from __future__ import annotations

from dragoman.operations import accounts, admins, keys, limits, mcp, people, usage
from dragoman.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *accounts.OPERATIONS,
    *keys.OPERATIONS,
    *limits.OPERATIONS,
    *admins.OPERATIONS,
    *people.OPERATIONS,
    *mcp.OPERATIONS,
    *usage.OPERATIONS,
)
