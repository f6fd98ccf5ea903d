"""Names of properties that Messages services refuse."""

from __future__ import annotations

import pytest
from msgspec import Raw

from dragoman.protocols.portable_schemas import has_legal_names

LEGAL = [
    b"{}",
    b'{"properties":{"a.b-C_9":{}}}',
    b'{"properties":{"a":{"description":"no name: \\"x y\\": 1, {\\"$\\":2"}}}',
    b'{"properties": {"a" : {"enum": ["", "x y", ":z"]}}}',
]
OTHERS = [
    b'{"properties":{"$top":{}}}',
    b'{"properties":{"filter[id]" : {}}}',
    '{"properties":{"名前":{}}}'.encode(),
    b'{"properties":{"":{}}}',
    b'{"properties":{"a\\u0062":{}}}',
    b'{"properties":{"%b":{}}}' % (b"a" * 65),
    b'{"properties":{"a":{"properties":{"x y":{}}}}}',
    b'{"properties":["x y"]}',
    b'{"p\\u0072operties":{"x y":{}}}',
]


@pytest.mark.parametrize("schema", LEGAL)
def test_legal_names_need_no_second_look(schema: bytes) -> None:
    assert has_legal_names(Raw(schema))


@pytest.mark.parametrize("schema", OTHERS)
def test_any_other_schema_is_looked_at_as_a_whole(schema: bytes) -> None:
    assert not has_legal_names(Raw(schema))
