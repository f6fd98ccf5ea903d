"""Joining base URLs and paths."""

from __future__ import annotations

import pytest

from dragoman.upstream import join_url
from dragoman.upstream.urls import parse_url

MESSAGES = "/v1/messages"
CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("base", "path", "joined"),
    [
        ("https://h", MESSAGES, "https://h/v1/messages"),
        ("https://h/", MESSAGES, "https://h/v1/messages"),
        ("https://h/v1", MESSAGES, "https://h/v1/messages"),
        ("https://h/v1/", MESSAGES, "https://h/v1/messages"),
        ("https://h//v1//", CHAT, "https://h/v1/chat/completions"),
        ("https://h/api", CHAT, "https://h/api/v1/chat/completions"),
        ("https://h/api/v1", CHAT, "https://h/api/v1/chat/completions"),
        ("https://h/api/paas/v4", CHAT, "https://h/api/paas/v4/chat/completions"),
        ("https://h/v1beta/openai/", CHAT, "https://h/v1beta/openai/chat/completions"),
        ("https://h/v1/acc/gw/openai", CHAT, "https://h/v1/acc/gw/openai/chat/completions"),
        ("http://[::1]:8080/v1", MESSAGES, "http://[::1]:8080/v1/messages"),
        ("https://h/vllm", MESSAGES, "https://h/vllm/v1/messages"),
    ],
)
def test_the_version_is_never_doubled_and_never_missing(base: str, path: str, joined: str) -> None:
    assert join_url(base, path) == joined


def test_queries_of_base_and_call_are_both_kept() -> None:
    joined = join_url("https://h/openai/v1?api-version=preview", "/v1/responses", "beta=true")
    assert joined == "https://h/openai/v1/responses?api-version=preview&beta=true"


@pytest.mark.parametrize("base", ["", "h", "h/v1", "ftp://h", "https://", "https://u:p@h/v1"])
def test_what_is_not_a_plain_http_url_is_refused(base: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        join_url(base, MESSAGES)


def test_a_refused_url_is_not_shown() -> None:
    with pytest.raises(ValueError, match="user name") as caught:
        parse_url("https://user:hunter2@h/")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "authority", "port", "path"),
    [
        ("http://h", "h", 80, "/"),
        ("https://h:443/a", "h", 443, "/a"),
        ("https://h:8443/a?b=c#d", "h:8443", 8443, "/a?b=c"),
        ("http://[::1]:81/", "[::1]:81", 81, "/"),
        ("http://h/a b\u00e9?q=\u00e9", "h", 80, "/a%20b%C3%A9?q=%C3%A9"),
        ("http://h/a%20b", "h", 80, "/a%20b"),
        ("http://b\u00fccher.example/", "xn--bcher-kva.example", 80, "/"),
    ],
)
def test_a_url_is_taken_apart_for_the_wire(url: str, authority: str, port: int, path: str) -> None:
    target = parse_url(url)
    assert (target.authority, target.port, target.path) == (authority, port, path)


def test_no_line_break_reaches_the_wire() -> None:
    assert parse_url("http://h/a\r\nx: y").path == "/ax:%20y"
