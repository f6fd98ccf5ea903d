"""What every vendor's error answer has in common."""

from __future__ import annotations

import pytest

from dragoman.failing import plain_text, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "20"}, 0.25),
        ({"retry-after": "Sat, 21 Nov 2026 00:01:00 GMT"}, 60.0),
        ({"retry-after": "Sat, 21 Nov 2020 00:01:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT"}, None),
        ({"retry-after": f"Mon, 01 Jan 2024 00:00:00 +{'9' * 20}"}, None),
        ({"retry-after": "7", "date": f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT"}, 7.0),
        ({"retry-after": "inf"}, None),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 00:01:00 GMT",
                "date": "Sat, 21 Nov 2026 00:00:50 GMT",
            },
            10.0,
        ),
        ({"retry-after": "99999999999"}, 30 * 24 * 3600.0),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    midnight = 1795219200.0  # 2026-11-21T00:00:00Z
    assert retry_after(headers, midnight) == seconds


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b" Bad Gateway \n", "Bad Gateway"),
        (b"<html><body>no</body></html>", ""),
        (b"x" * 501, ""),
        (b"", ""),
        (b"caf\xe9", "caf\ufffd"),
    ],
)
def test_plain_text(body: bytes, text: str) -> None:
    assert plain_text(body) == text
