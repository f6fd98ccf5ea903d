"""What one side's frames are to the other."""

from __future__ import annotations

import os

import pytest

from dragoman.http.websocket.frames import (
    CONTINUATION,
    TEXT,
    BadFrame,
    FrameReader,
    masked_frame,
    text_frame,
)


def _read(reader: FrameReader, data: bytes | bytearray, cut: int) -> bytes:
    found = b""
    for at in range(0, len(data), cut):
        reader.feed(data[at : at + cut])
        while (piece := reader.next()) is not None:
            found += piece.data
    return found


@pytest.mark.parametrize("size", [0, 125, 126, 1023, 1026, 32768, 32771, 65535, 65536, 100_003])
@pytest.mark.parametrize("cut", [1001, 1 << 20])
def test_what_is_sent_is_read(size: int, cut: int) -> None:
    """Of a client and of a server, of any size, however it is cut, in two frames too."""
    data = os.urandom(size)
    frames = masked_frame(TEXT, data, last=False) + masked_frame(CONTINUATION, data)
    assert (size < 8) or data not in frames
    assert _read(FrameReader(1 << 20, compressed=False), frames, cut) == data + data
    plain = FrameReader(1 << 20, compressed=False, masked=False)
    assert _read(plain, text_frame(data), cut) == data


def test_a_side_takes_only_the_others_frames() -> None:
    for reader, frame in (
        (FrameReader(10, compressed=False), text_frame(b"x")),
        (FrameReader(10, compressed=False, masked=False), masked_frame(TEXT, b"x")),
    ):
        reader.feed(frame)
        with pytest.raises(BadFrame, match="masked"):
            reader.next()
