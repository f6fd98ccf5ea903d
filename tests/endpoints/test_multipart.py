"""Forms in request bodies: where their fields are, and which forms are refused."""

from __future__ import annotations

import itertools
import re
from email import message_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.endpoints.multipart import (
    LONGEST_BOUNDARY,
    MOST_HEAD_BYTES,
    MOST_PARTS,
    BadMultipart,
    MultipartScanner,
    boundary_of,
)

WANTED = {"model": 100, "purpose": 20}


def part(name: str, content: bytes, more: str = "", boundary: str = "b") -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def form(*parts: bytes, boundary: str = "b") -> bytes:
    return b"".join([*parts, f"--{boundary}--\r\n".encode()])


def scanned(*pieces: bytes, boundary: bytes = b"b") -> MultipartScanner:
    scanner = MultipartScanner(boundary, WANTED)
    for piece in pieces:
        scanner.feed(piece)
    scanner.finish()
    return scanner


MODEL = part("model", b"whisper-1")
FILE = part("file", b"RIFF\r\n--\r\n-\r\n\r\n", '; filename="a.wav"')
BODY = form(MODEL, FILE, part("language", b"de"))


def test_a_field_is_found_wherever_the_body_is_split() -> None:
    for cut in range(len(BODY) + 1):
        for second in range(cut, min(cut + 3, len(BODY)) + 1):
            scanner = scanned(BODY[:cut], BODY[cut:second], BODY[second:])
            model = scanner.fields["model"]
            assert (model.value, BODY[model.start : model.end]) == (b"whisper-1", b"whisper-1")
            assert [found.name for found in scanner.parts] == ["model", "file", "language"]


def test_a_field_is_found_byte_by_byte() -> None:
    body = form(FILE, MODEL)
    scanner = scanned(*(body[at : at + 1] for at in range(len(body))))
    assert scanner.fields["model"].value == b"whisper-1"
    assert scanner.parts[0].filename == "a.wav"


CONTENTS = st.lists(
    st.one_of(
        st.binary(max_size=40), st.sampled_from([b"\r\n", b"--", b"\r\n--", b"\r\n--bo", b"-"])
    ),
    max_size=6,
).map(b"".join)


@given(contents=st.lists(CONTENTS, max_size=5), cuts=st.lists(st.integers(0, 600), max_size=6))
def test_any_content_stands_where_it_was_put(contents: list[bytes], cuts: list[int]) -> None:
    contents = [one for one in contents if b"--boundary" not in b"\r\n" + one + b"\r\n"]
    body = form(
        *(part(f"f{number}", one, boundary="boundary") for number, one in enumerate(contents)),
        part("model", b"m", boundary="boundary"),
        boundary="boundary",
    )
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[start:end] for start, end in itertools.pairwise(edges)]
    scanner = scanned(*pieces, boundary=b"boundary")
    found = [body[one.start : one.end] for one in scanner.parts]
    assert found == [*contents, b"m"]
    assert scanner.fields["model"].value == b"m"


SNIPPETS = [
    *(b"--b", b"--", b"\r\n", b"\r", b"\n", b"x", b": ", b'name="model"', b"form-data; "),
    *(b"Content-Disposition", MODEL, FILE),
]


@given(
    body=st.lists(st.sampled_from(SNIPPETS), max_size=30).map(b"".join),
    size=st.integers(1, 9),
)
def test_garbage_is_read_alike_however_it_is_split(body: bytes, size: int) -> None:
    def seen(pieces: list[bytes]) -> object:
        scanner = MultipartScanner(b"b", WANTED)
        try:
            for piece in pieces:
                scanner.feed(piece)
            scanner.finish()
        except BadMultipart:
            return None
        return scanner.parts, scanner.fields

    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    assert seen([body]) == seen(pieces)


@given(body=st.binary(max_size=200), value=st.binary(min_size=1, max_size=20))
def test_the_standard_library_reads_the_same_fields(body: bytes, value: bytes) -> None:
    """Of a form that is accepted, another reader finds the same content of a field."""
    value = re.sub(rb"[^a-z0-9-]", b"x", value)
    whole = form(part("file", body.replace(b"--b", b""), '; filename="x"'), part("model", value))
    assert scanned(whole).fields["model"].value == value
    message = message_from_bytes(b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + whole)
    *_, last = message.walk()
    assert last.get_payload(decode=True) == value


def test_a_preamble_and_an_epilogue_are_no_parts() -> None:
    assert scanned(b"hello\r\n" + BODY + b"bye").fields["model"].value == b"whisper-1"


def test_padding_behind_a_boundary_and_unquoted_names() -> None:
    body = b"--b \t\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n--b--"
    assert scanned(body).fields["model"].value == b"m"


LONG = "x" * MOST_HEAD_BYTES


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(BODY[:-6], id="no last boundary"),
        pytest.param(form(MODEL, MODEL), id="a field twice"),
        pytest.param(form(MODEL, part("model[]", b"x")), id="a field as a list beside"),
        pytest.param(form(MODEL, part("Model", b"x")), id="a field in another case beside"),
        pytest.param(form(MODEL, part(" model ", b"x")), id="a field with spaces beside"),
        pytest.param(form(part("mo\\del", b"x")), id="a name with an escape"),
        pytest.param(form(part("model", b"x", '; filename="x"')), id="a field that is a file"),
        pytest.param(form(part("model", b"x", "; name=other")), id="two names"),
        pytest.param(form(part("x", b"x", "; name*=UTF-8''model")), id="an extended name"),
        pytest.param(form(part("model", b"x" * 101)), id="a field that is too long"),
        pytest.param(form(part("x", LONG.encode(), f'; filename="{LONG}"')), id="a long head"),
        pytest.param(b"--b" + b" " * MOST_HEAD_BYTES + b"x", id="a head without an end"),
        pytest.param(form(*[part("x", b"")] * (MOST_PARTS + 1)), id="too many parts"),
        pytest.param(form(part("file", b"a\n--b\nx")), id="a boundary behind a bare line feed"),
        pytest.param(form(part("file", b"a--b")), id="a boundary within a line"),
        pytest.param(BODY + BODY, id="a form behind its end"),
        pytest.param(b"--bc\r\n\r\n\r\n--b--", id="a longer boundary"),
        pytest.param(b"--b\r\n\r\nx\r\n--b--", id="a part without a head"),
        pytest.param(
            b"--b\r\nContent-Disposition: form-data; name=x\r\n\r\n--b--", id="no content at all"
        ),
        pytest.param(b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--", id="no name"),
        pytest.param(
            part("model", b"x", "\r\nContent-Transfer-Encoding: base64") + b"--b--", id="encoded"
        ),
        pytest.param(
            part("x", b"x", '\r\nContent-Disposition: form-data; name="model"') + b"--b--",
            id="two dispositions",
        ),
        pytest.param(part("x", b"x", '\r\n ; name="model"') + b"--b--", id="a folded line"),
        pytest.param(part("x", b"x", "\nX: y") + b"--b--", id="a bare line feed in a head"),
    ],
)
def test_what_two_readers_could_take_for_different_forms_is_refused(body: bytes) -> None:
    with pytest.raises(BadMultipart):
        scanned(body)
    with pytest.raises(BadMultipart):
        scanned(*(body[at : at + 7] for at in range(0, len(body), 7)))


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=b", b"b"),
        (b'Multipart/Form-Data;boundary="a b"; charset=utf-8', b"a b"),
        (b"multipart/form-data; boundary=----WebKitFormBoundaryA7", b"----WebKitFormBoundaryA7"),
        (b"multipart/form-data; BOUNDARY=" + b"x" * LONGEST_BOUNDARY, b"x" * LONGEST_BOUNDARY),
        (b"multipart/mixed; boundary=b", None),
        (b"application/json", None),
        (b"", None),
    ],
)
def test_boundaries_are_read(content_type: bytes, boundary: bytes | None) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "boundary",
    ["", "; boundary=", "; boundary=" + "x" * 71, "; boundary=a; boundary=b", "; boundary=\xe4"],
)
def test_boundaries_that_cannot_be_used_are_refused(boundary: str) -> None:
    with pytest.raises(BadMultipart):
        boundary_of(f"multipart/form-data{boundary}".encode("latin-1"))


@pytest.mark.parametrize("boundary", ['"a', '"a "', "a b"])
def test_boundaries_that_are_quoted_badly_are_refused(boundary: str) -> None:
    with pytest.raises(BadMultipart):
        boundary_of(f"multipart/form-data; boundary={boundary}".encode())
