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
    has_halves,
    members,
    object_of,
)
from dragoman.protocols.model_lists import read_list

DEEP = b"[" * 100_000 + b"]" * 100_000


class Named(msgspec.Struct):
    id: str


@pytest.mark.parametrize("text", [b"", b"{", b'"\xff"', b"NaN", b"[1e400,NaN]", b"{} {}"])
def test_what_is_no_json(text: bytes | str) -> None:
    with pytest.raises(JsonError) as raised:
        decode(text)
    assert type(raised.value) is JsonError
    assert object_of(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\ud800"', "\ufffd"),
        ('"\ud800"', "\ufffd"),
        (b'{"a":["x\\udfffy","\\ud83d\\ude00"]}', {"a": ["x\ufffdy", "\U0001f600"]}),
    ],
)
def test_halves_of_characters(text: bytes | str, value: object) -> None:
    assert decode(text) == value


@pytest.mark.parametrize("number", [b"1e400", b"-1E+999", b"9" * 400])
def test_a_number_that_no_double_holds_is_kept(number: bytes) -> None:
    value = decode(b'{"a":%b}' % number)
    assert msgspec.json.encode(value) == b'{"a":%b}' % number


@pytest.mark.parametrize(
    ("text", "halved"),
    [
        (b'"\\ud83d\\ude00"', False),
        (b'"\\ud83d"', True),
        (b'"\\\\ud83d"', False),
        (b'"\\\\ud83d\\ude00"', True),
        (b'"\\\\\\ud83d\\ude00"', False),
        (b'"x"', False),
    ],
)
def test_whether_there_are_halves(text: bytes, halved: bool) -> None:
    assert has_halves(text) is halved


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
