"""The checkers accept streams that all vendor SDKs accept, and find what breaks a rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkers import (
    CHECKERS,
    Verdict,
    check_chat,
    check_google,
    check_interactions,
    check_messages,
    check_responses,
)
from tests.library import translate_request

GOLDEN = Path(__file__).parent / "golden"
CHAT = (GOLDEN / "chat.sse").read_bytes()
MESSAGES = (GOLDEN / "messages.sse").read_bytes()
RESPONSES = (GOLDEN / "responses.sse").read_bytes()
GOOGLE = (GOLDEN / "google.sse").read_bytes().replace(b"\r\n", b"\n")

INTERACTIONS = (GOLDEN / "interactions_call.sse").read_bytes()

STREAMS = {
    "openai_chat": CHAT,
    "anthropic_messages": MESSAGES,
    "openai_responses": RESPONSES,
    "google_generate_content": GOOGLE,
    "google_interactions": INTERACTIONS,
}


@pytest.mark.parametrize("protocol", CHECKERS)
def test_golden_streams_are_accepted(protocol: str) -> None:
    verdict = CHECKERS[protocol](STREAMS[protocol])

    assert verdict.succeeded
    assert verdict.text == "Hi"
    assert [(name, text) for _, name, text in verdict.calls] == [("f", '{"a":1}')]
    assert verdict.usage


def swap(stream: bytes, first: int, second: int) -> bytes:
    """The stream with two of its frames exchanged."""
    frames = stream.split(b"\n\n")
    frames[first], frames[second] = frames[second], frames[first]
    return b"\n\n".join(frames)


def drop(stream: bytes, number: int) -> bytes:
    """The stream without one of its frames."""
    frames = stream.split(b"\n\n")
    del frames[number]
    return b"\n\n".join(frames)


def frame_count(stream: bytes) -> int:
    """How many frames a stream has."""
    return stream.count(b"\n\n")


Checker = Callable[[bytes], Verdict]

BROKEN: list[tuple[str, Checker, bytes]] = [
    ("google comment", check_google, b": alive\n\n" + GOOGLE),
    ("google event line", check_google, b"event: x\n" + GOOGLE),
    ("google done", check_google, GOOGLE + b"data: [DONE]\n\n"),
    ("google empty object", check_google, b"data: {}\n\n" + GOOGLE),
    ("google no end", check_google, drop(GOOGLE, 3)),
    ("google end without parts", check_google, GOOGLE.replace(b'[{"text":""}]', b"[]")),
    ("google end early", check_google, swap(GOOGLE, 2, 3)),
    ("google second id", check_google, GOOGLE.replace(b"dgm-resp-1", b"other", 1)),
    ("google signature", check_google, GOOGLE.replace(b"ZGdtMS5z", b"dgm1.z")),
    ("google arguments", check_google, GOOGLE.replace(b'{"a":1}', b'"{}"')),
    ("google total", check_google, GOOGLE.replace(b'"totalTokenCount":9', b'"totalTokenCount":8')),
    ("interactions no mark", check_interactions, drop(INTERACTIONS, 13)),
    ("interactions no end", check_interactions, drop(INTERACTIONS, 12)),
    ("interactions index", check_interactions, INTERACTIONS.replace(b'"index":1', b'"index":3')),
    ("interactions id", check_interactions, INTERACTIONS.replace(b'"e4"', b'"e5"')),
    ("interactions arguments", check_interactions, INTERACTIONS.replace(b'\\"a\\":1}', b"")),
    ("interactions signature", check_interactions, INTERACTIONS.replace(b"c2ln", b"dgm1.")),
    ("interactions total", check_interactions, INTERACTIONS.replace(b'tokens":9', b'tokens":8')),
    ("crlf", check_chat, CHAT.replace(b"\n", b"\r\n")),
    ("no last blank line", check_chat, CHAT[:-1]),
    ("id line", check_chat, b"id: 1\n" + CHAT),
    ("retry line", check_messages, b"retry: 1\n\n" + MESSAGES),
    ("line separator", check_chat, CHAT.replace(b'"Hi"', '"\u2028"'.encode())),
    ("chat event line", check_chat, b"event: x\n" + CHAT),
    ("chat done twice", check_chat, CHAT + b"data: [DONE]\n\n"),
    ("chat second id", check_chat, CHAT.replace(b"chatcmpl-1", b"chatcmpl-2", 1)),
    (
        "chat role twice",
        check_chat,
        CHAT.replace(b'"delta":{"content"', b'"delta":{"role":"assistant","content"'),
    ),
    ("chat usage early", check_chat, swap(CHAT, 4, 5)),
    ("chat no finish", check_chat, drop(CHAT, 4)),
    ("chat bad arguments", check_chat, CHAT.replace(b'{\\"a\\":1}', b'{\\"a\\":')),
    ("chat index gap", check_chat, CHAT.replace(b'[{"index":0,"id"', b'[{"index":1,"id"')),
    ("messages unnamed", check_messages, MESSAGES.replace(b"event: message_stop\n", b"")),
    ("messages wrong name", check_messages, MESSAGES.replace(b"event: ping", b"event: pong")),
    (
        "messages delta of another block",
        check_messages,
        MESSAGES.replace(b'"type":"text_delta","text"', b'"type":"thinking_delta","thinking"'),
    ),
    ("messages index gap", check_messages, MESSAGES.replace(b'"index":1', b'"index":5')),
    ("messages two blocks open", check_messages, drop(MESSAGES, 5)),
    ("messages stop without delta", check_messages, drop(MESSAGES, frame_count(MESSAGES) - 2)),
    ("messages no signature", check_messages, drop(MESSAGES, 4)),
    ("messages stop after error", check_messages, MESSAGES.replace(b"ping", b"error")),
    (
        "responses sequence gap",
        check_responses,
        RESPONSES.replace(b'"sequence_number": 5', b'"sequence_number": 6'),
    ),
    (
        "responses text differs",
        check_responses,
        RESPONSES.replace(b'"delta": "Hi"', b'"delta": "Ho"'),
    ),
    (
        "responses other item id",
        check_responses,
        RESPONSES.replace(b'"item_id": "msg_1"', b'"item_id": "msg_2"', 1),
    ),
    ("responses done missing", check_responses, drop(RESPONSES, 17)),
    ("responses no terminal", check_responses, drop(RESPONSES, 18)),
    (
        "responses terminal twice",
        check_responses,
        RESPONSES + RESPONSES.split(b"\n\n")[18] + b"\n\n",
    ),
    (
        "responses usage details",
        check_responses,
        RESPONSES.replace(b"output_tokens_details", b"other_details"),
    ),
]


@pytest.mark.parametrize(
    ("checker", "stream"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_broken_streams_are_found(checker: Checker, stream: bytes) -> None:
    assert stream not in STREAMS.values()

    with pytest.raises((AssertionError, KeyError, ValueError)):
        checker(stream)


@pytest.mark.parametrize("protocol", CHECKERS)
def test_no_single_frame_can_be_lost_unnoticed(protocol: str) -> None:
    """All frames are bound by a rule but text, usage, and the optional end of Responses."""
    stream = STREAMS[protocol]
    unnoticed = []
    for number in range(frame_count(stream)):
        try:
            CHECKERS[protocol](drop(stream, number))
        except (AssertionError, KeyError, ValueError):
            continue
        unnoticed.append(stream.split(b"\n\n")[number])

    allowed = (
        b'"role":"model"',
        b'"content":"Hi"',
        b'"text":"Hi"',
        b"thought_signature",
        b'"usage":{',
        b"text_delta",
        b"thinking_delta",
        b"[DONE]",
    )
    assert all(any(word in frame for word in allowed) for frame in unnoticed)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("google_*.sse")), ids=lambda path: path.stem)
def test_golden_streams_of_google_pass_byte_for_byte(path: Path) -> None:
    """Texts, calls, a signature after the text, sources, and a prompt that is blocked; but for the
    ends of lines, which all its clients read."""
    stream = path.read_bytes()
    assert check_google(stream).succeeded
    body = b'{"model":"gemini-3.8-flash","stream":true,"contents":[{"parts":[{"text":"Hi"}]}]}'
    call = translate_request("google_generate_content", "google_generate_content", body)
    answer = call.open_stream()
    assert answer.feed(stream) + answer.finish() == stream.replace(b"\r\n", b"\n")
    assert answer.outcome.fault is None
