"""Frames of a WebSocket, wherever they are cut."""

from __future__ import annotations

import zlib
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dragoman.http.websocket.frames import TEXT, BadFrame, FrameReader, Piece, text_frame
from tests.websocket.client import frame


def pieces(data: bytes, cuts: list[int], most: int = 1 << 20) -> list[Piece]:
    """The pieces of what comes cut there."""
    reader = FrameReader(most, compressed=True)
    found = []
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        reader.feed(data[start:end])
        while (piece := reader.next()) is not None:
            found.append(piece)
    return found


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    st.lists(st.integers(min_value=0), max_size=12),
    st.booleans(),
)
def test_messages_do_not_depend_on_cuts(
    fragments: list[bytes], cuts: list[int], packed: bool
) -> None:
    sent = fragments
    if packed:
        deflater = zlib.compressobj(wbits=-15)
        whole = deflater.compress(b"".join(fragments)) + deflater.flush(zlib.Z_SYNC_FLUSH)
        third = len(whole) // 3
        sent = [whole[:third], whole[third:-4]]
    data = b""
    for number, fragment in enumerate(sent):
        first = 0x80 if number == len(sent) - 1 else 0
        first |= 0x40 if packed and not number else 0
        data += frame(fragment, 0 if number else TEXT, first=first)
    found = pieces(data * 2, cuts)
    assert {piece.opcode for piece in found} == {TEXT}
    assert b"".join(piece.data for piece in found) == b"".join(fragments) * 2
    assert sum(piece.ends_message for piece in found) == 2
    assert sum(piece.ends_frame for piece in found) == 2 * len(sent)


@given(st.binary(max_size=200), st.integers(min_value=0))
def test_noise_is_read_or_refused(data: bytes, cut: int) -> None:
    """Nothing but its own error comes of it."""
    found: list[Piece] = []
    code = 0
    try:
        found = pieces(data, [cut], most=1000)
    except BadFrame as bad:
        code = bad.code
    assert code in (0, 1002, 1007, 1009)
    assert sum(len(piece.data) for piece in found) <= 2000


def test_lengths_of_frames_that_go() -> None:
    for size in (0, 125, 126, 65535, 65536):
        made = text_frame(b"x" * size)
        head = {True: 2, size > 125: 4, size > 65535: 10}[True]
        assert len(made) == head + size
        assert made[0] == 0x81
