"""Pictures and documents that a program's tools read arrive at the model."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from dragoman.lab.simulator.reading import READERS
from dragoman.lab.simulator.view import Media
from tests.clients.accounting import unaccounted
from tests.clients.stage import Stage

PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj\n"
    b"xref\n0 4\n0000000000 65535 f \ntrailer<</Size 4/Root 1 0 R>>\nstartxref\n0\n%%EOF"
)


def png() -> bytes:
    """A red square of 8 by 8."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + b"\xff\0\0" * 8 for _ in range(8))
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("program", "model", "tool", "field", "name", "data", "kind", "media_type"),
    [
        ("claude-code", "claude-sonnet-5", "Read", "file_path", "red.png", png(), "image", None),
        ("claude-code", "claude-sonnet-5", "Read", "file_path", "a.pdf", PDF, "document", "pdf"),
        ("codex", "gpt-5.5", "view_image", "path", "red.png", png(), "image", None),
    ],
    ids=["claude-code-png", "claude-code-pdf", "codex-png"],
)
def test_what_a_tool_read_arrives(
    stage: Stage,
    program: str,
    model: str,
    tool: str,
    field: str,
    name: str,
    data: bytes,
    kind: str,
    media_type: str | None,
    tmp_path: Path,
) -> None:
    path = tmp_path / "work" / name
    path.parent.mkdir()
    path.write_bytes(data)
    arguments = json.dumps({field: str(path)}).replace('"', '\\"')
    steering = f'scenario=tool tool={tool} args="{arguments}"'

    finished = stage.run(program, model, f"Look. [[sim: {steering}]]", tmp_path)

    assert finished.status == 0, finished
    last = stage.exchanges()[-1]
    [medium] = seen(stage, last.received)
    assert medium.kind == kind
    assert medium.source == "base64"
    if media_type is not None:
        assert medium.media_type == f"application/{media_type}"
        assert medium.digest == hashlib.sha256(data).hexdigest()[:16]
    assert unaccounted(last.sent, last.received, last.losses) == []


def seen(stage: Stage, body: dict[str, Any]) -> tuple[Media, ...]:
    """The media that the upstream sees in a request."""
    return READERS[stage.kind](body, "").media
