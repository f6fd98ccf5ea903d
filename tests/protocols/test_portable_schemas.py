"""Names of properties that Messages services refuse, found in the text of a schema."""

from __future__ import annotations

import pytest

from dragoman.protocols.portable_schemas import may_have_illegal_names

LEGAL = [
    b"{}",
    b'{"properties":{"a.b-C_9":{}}}',
    b'{"properties":{"a":{"description":"no name: \\"x y\\": 1, {\\"$\\":2}"}}}',
    b'{"properties": {"a" : {"enum": ["", "x y", ":z"]}}}',
]
ILLEGAL = [
    b'{"properties":{"$top":{}}}',
    b'{"properties":{"filter[id]" : {}}}',
    '{"properties":{"名前":{}}}'.encode(),
    b'{"properties":{"":{}}}',
    b'{"properties":{"a\\u0062":{}}}',
    b'{"properties":{"%b":{}}}' % (b"a" * 65),
    b'{"description":"a \\"quoted\\" text","properties":{"x y":{}}}',
]


@pytest.mark.parametrize("schema", LEGAL)
def test_texts_are_no_names(schema: bytes) -> None:
    assert not may_have_illegal_names(schema)


@pytest.mark.parametrize("schema", ILLEGAL)
def test_a_name_that_is_refused_is_found(schema: bytes) -> None:
    assert may_have_illegal_names(schema)
