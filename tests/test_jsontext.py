"""Text that is not JSON fails in one way, however it is not, and whatever was to be read of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.canonical.envelope import Sealer
from dragoman.jsontext import (
    JsonError,
    JsonMismatch,
    JsonTooDeep,
    decode,
    decoder,
    members,
    object_of,
)
from dragoman.protocols.model_lists import read_list

DEEP = b"[" * 100_000 + b"]" * 100_000


class Named(msgspec.Struct):
    id: str


@pytest.mark.parametrize("text", [b"", b"{", b'"\xff"', '"\ud800"', b"NaN", b"{} {}"])
def test_what_is_no_json(text: bytes | str) -> None:
    with pytest.raises(JsonError) as raised:
        decode(text)
    assert type(raised.value) is JsonError
    assert object_of(text) is None


def test_what_is_nested_without_end() -> None:
    with pytest.raises(JsonTooDeep):
        decode(DEEP)
    assert object_of(b'{"a":' + DEEP + b"}") is None


def test_nesting_in_what_is_not_looked_at() -> None:
    with pytest.raises(JsonTooDeep):
        decoder(Named)(b'{"id":"x","more":' + DEEP + b"}")


def test_another_type_than_is_wanted() -> None:
    with pytest.raises(JsonMismatch, match=r"Expected `str`, got `int` - at `\$.id`"):
        decoder(Named)(b'{"id":1}')


@pytest.mark.parametrize(
    ("text", "value"), [(b'{"a":1}', {"a": 1}), ("{}", {}), (b"[]", None), (b"null", None)]
)
def test_objects(text: bytes | str, value: Any) -> None:
    assert object_of(text) == value


def test_members_keep_their_text() -> None:
    assert members(b'{"a": [1,  2], "b":"c"}') == {
        "a": msgspec.Raw(b"[1,  2]"),
        "b": msgspec.Raw(b'"c"'),
    }


def test_an_envelope_with_endless_nesting_is_none_of_ours() -> None:
    import base64

    payload = b'["marker","x",null,"",[],"raw",false,' + DEEP + b"]"
    assert Sealer().open("dgm1." + base64.urlsafe_b64encode(payload).decode()) is None


def test_a_list_of_models_with_endless_nesting_is_no_list() -> None:
    with pytest.raises(ValueError, match="nested"):
        read_list(DEEP)
