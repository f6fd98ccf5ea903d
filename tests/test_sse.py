"""SSE: reads everything, writes the one form every client reads."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.sse import Decoder, EventTooLarge, Frame, encode, escape


def decode(*chunks: bytes) -> list[tuple[bytes, bytes]]:
    decoder = Decoder()
    frames: list[Frame] = []
    for chunk in chunks:
        frames += decoder.feed(chunk)
    return [(frame.event, frame.data) for frame in [*frames, *decoder.finish()]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"data: 1\n\n", [(b"", b"1")]),
        (b"data:1\n\n", [(b"", b"1")]),
        (b"event: a\ndata: 1\n\n", [(b"a", b"1")]),
        (b"data: 1\nevent: a\n\n", [(b"a", b"1")]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [(b"", b"1"), (b"", b"2")]),
        (b"data: 1\r\rdata: 2\r\r", [(b"", b"1"), (b"", b"2")]),
        (b": comment\n\ndata: 1\n\n", [(b"", b"1")]),
        (b": comment\ndata: 1\n\n", [(b"", b"1")]),
        (b"data: 1\ndata: 2\n\n", [(b"", b"1\n2")]),
        (b"id: 7\nretry: 5\ndata: 1\nother: x\n\n", [(b"", b"1")]),
        (b"event: ping\n\ndata: 1\n\n", [(b"", b"1")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [(b"", b"1")]),
        (b"data: [DONE]  \n\n", [(b"", b"[DONE]  ")]),
        (b"data: 1", [(b"", b"1")]),
        (b"data: 1\r", [(b"", b"1")]),
        (b"\n\n\ndata: 1\n\n\n\n", [(b"", b"1")]),
        (b'data: 1\n\n{"a":1}\n', [(b"", b"1"), (b"error", b'{"a":1}')]),
        (b'\n\n\n{\n  "a": 1\n}\n\ndata: 1\n\n', [(b"error", b'{   "a": 1 }'), (b"", b"1")]),
        (b"", []),
    ],
)
def test_every_form_is_read(text: bytes, expected: list[tuple[bytes, bytes]]) -> None:
    """Comments, several data lines and sentinels are understood. req: 127, 128"""
    assert decode(text) == expected


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_any_chopping_gives_the_same_frames(
    texts: list[str], newline: str, data: st.DataObject
) -> None:
    """Multi-byte characters and line ends may be cut between reads. req: 126"""
    clean = ["x" + "".join(text.split("\n")).replace("\r", "") for text in texts]
    stream = "".join(f"event: e{newline}data: {t}{newline}{newline}" for t in clean).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(bounds)]
    assert decode(*chunks) == [(b"e", text.encode()) for text in clean]


@pytest.mark.parametrize(
    "text", [b'data:\ndata: {"a":1}\n\n', b'data:  \ndata: {"a":\ndata: 1}\n\n']
)
def test_an_object_on_several_lines_is_passed_on_in_one(text: bytes) -> None:
    (frame,) = Decoder().feed(text)
    assert decode(frame.raw) == [(b"", frame.data)]
    assert json.loads(frame.data) == {"a": 1}


def test_an_empty_chunk_changes_nothing() -> None:
    assert decode(b"event: e\r", b"", b"\ndata: x\r\n\r", b"", b"\n") == [(b"e", b"x")]


def test_large_lines_are_read() -> None:
    """Lines of at least 1 MB are accepted. req: 125"""
    line = b"data: " + b"x" * 3_000_000 + b"\n\n"
    assert decode(line[:1_000_000], line[1_000_000:]) == [(b"", b"x" * 3_000_000)]


def test_an_endless_event_is_refused() -> None:
    decoder = Decoder(max_event=1000)
    for _ in range(10):
        decoder.feed(b"x" * 100)
    with pytest.raises(EventTooLarge):
        decoder.feed(b"x")


def test_written_events() -> None:
    """LF only, one data line with the space, an event line only when named. req: 123, 124, 164"""
    assert encode(b"{}") == b"data: {}\n\n"
    assert encode(b"{}", b"ping") == b"event: ping\ndata: {}\n\n"


@given(st.text())
def test_separators_are_escaped(text: str) -> None:
    import json

    data = escape(json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).encode())
    assert len(data.decode().splitlines()) == 1 or any(
        char in text for char in "\x1c\x1d\x1e\x0b\x0c"
    )
    for raw in ("\u2028", "\u2029", "\x85"):
        assert raw not in data.decode()


@pytest.mark.parametrize("name", ["\u2028", "\u2029", "\x85"])
def test_separators_in_the_name_of_an_event_are_escaped(name: str) -> None:
    assert name.encode() not in encode(b"{}", f"a{name}".encode())


@pytest.mark.parametrize("cut", [1, 511, 512, 513, 700])
def test_long_events_end_where_short_ones_do(cut: int) -> None:
    """Line ends inside an event, and an event after it, however far its end is."""
    long = b"x" * 600
    body = b"event: a\ndata: %b\ndata: %b\n\ndata: b\n\ndata: %b\n\n" % (long, long, long)
    decoder = Decoder()
    frames = [
        frame for at in range(0, len(body), cut) for frame in decoder.feed(body[at : at + cut])
    ]
    frames += Decoder().feed(body)
    assert [frame.data for frame in frames] == [long + b"\n" + long, b"b", long] * 2
