"""A secret that is cut over several events does not reach a client, and nothing else is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import combinations, cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.masking import Mask
from dragoman.canonical.stream_mask import StreamMask

pytestmark = pytest.mark.slow

KEY = "sk-ant-Q0x-7f9"
OTHER_HEADER = "prompt-tools-2025"
MASK = Mask([KEY, f"Bearer {KEY}", OTHER_HEADER])


def chat(text: str, choice: int = 0) -> bytes:
    delta = {"index": choice, "delta": {"content": text}, "finish_reason": None}
    return sse({"id": "c", "object": "chat.completion.chunk", "choices": [delta]})


def messages(text: str, index: int = 0) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return sse({"type": "content_block_delta", "index": index, "delta": delta})


def responses(text: str, index: int = 0) -> bytes:
    kind = "response.output_text.delta"
    place = {"output_index": index, "content_index": 0}
    return sse({"type": kind, **place, "delta": text, "sequence_number": 7})


def arguments(text: str, index: int = 0) -> bytes:
    call = {"index": index, "function": {"arguments": text}}
    return sse({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})


def sse(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


WRITERS = {"chat": chat, "messages": messages, "responses": responses, "arguments": arguments}
Writer = Callable[..., bytes]


def noise(write: Writer) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "ping": b'event: ping\ndata: {"type": "ping"}\n\n',
        "comment": b": keepalive\n\n",
        "empty": write(""),
        "another": write("ant-", 1),
    }


def escapes(key: str) -> dict[str, str]:
    return {
        "plain": key,
        "percent": key.replace("-", "%2d"),
        "Percent": key.replace("-", "%2D", 1),
        "all percent": "".join(f"%{ord(one):02x}" for one in key),
        "percent twice": key.replace("-", "%252d"),
        "unit": key.replace("-", "\\u002d"),
        "first unit": f"\\u{ord(key[0]):04x}{key[1:]}",
        "first percent": f"%{ord(key[0]):02x}{key[1:]}",
        "backslash": key.replace("-", "\\-"),
    }


def passed(events: Sequence[bytes], mask: Mask = MASK) -> bytes:
    stream = StreamMask(mask)
    return b"".join([stream.push(event) for event in events]) + stream.flush()


def values(data: bytes) -> list[object]:
    lines = re.findall(rb"^data: (.*)$", data, re.MULTILINE)
    return [json.loads(line) for line in lines]


def text_of(data: bytes, index: int = 0) -> str:
    """The text that a client puts together, of one choice, block or call."""
    return "".join(_texts(values(data), index))


def _texts(found: Sequence[object], index: int) -> list[str]:
    texts = []
    for value in found:
        assert isinstance(value, dict)
        if value.get("type") == "content_block_delta" and value["index"] == index:
            texts.append(value["delta"]["text"])
        elif value.get("type") == "response.output_text.delta" and value["output_index"] == index:
            texts.append(value["delta"])
        for choice in value.get("choices", ()):
            if "content" in choice["delta"] and choice["index"] == index:
                texts.append(choice["delta"]["content"])
            calls = choice["delta"].get("tool_calls", ())
            texts += [call["function"]["arguments"] for call in calls if call["index"] == index]
    return texts


def no_key(text: str) -> bool:
    """Whether nothing of the key is left but what tells nothing."""
    return KEY[2:7] not in text and KEY[-5:] not in text


@pytest.mark.parametrize("client", WRITERS)
@pytest.mark.parametrize("spelling", escapes(KEY))
def test_a_key_cut_anywhere_is_hidden(client: str, spelling: str) -> None:
    write, written = WRITERS[client], escapes(KEY)[spelling]
    another, noises = write("ant-", 1), cycle(noise(write).values())
    for pieces in (1, 2):
        for cuts in combinations(range(1, len(written)), pieces):
            parts = [written[a:b] for a, b in zip((0, *cuts), (*cuts, len(written)), strict=True)]
            # Two cuts are many: each pair of them has one kind of noise, the next one the next.
            for between in noise(write).values() if pieces == 1 else (next(noises),):
                events = [write(f"a {parts[0]}")]
                for part in parts[1:-1]:
                    events += [between, write(part)]
                events += [between, write(f"{parts[-1]} z")]
                told = passed([event for event in events if event])
                said = text_of(told)
                assert re.fullmatch(r"a (s|sk)?\[hidden\] z", said), (parts, said)
                if between == another:
                    assert text_of(told, 1) == "ant-" * pieces
                assert told.count(b"\n\n") == len([event for event in events if event])


@pytest.mark.parametrize("client", WRITERS)
def test_a_key_letter_by_letter_is_hidden(client: str) -> None:
    write = WRITERS[client]
    for between in noise(write).values():
        events = [event for letter in KEY for event in (write(letter), between) if event]
        said = text_of(passed([*events, write(" z")]))
        assert said == "sk[hidden] z"


@pytest.mark.parametrize("client", WRITERS)
def test_two_texts_with_a_key_each_at_once(client: str) -> None:
    write = WRITERS[client]
    for cut in range(1, len(KEY)):
        events = [write(f"a {KEY[:cut]}", 0), write(f"b {KEY[:-cut]}", 1)]
        events += [write(f"{KEY[cut:]} y", 0), write(f"{KEY[-cut:]} z {KEY}", 1)]
        told = passed(events)
        for index, ending in ((0, "y"), (1, r"z \[hidden\]")):
            assert re.fullmatch(rf". (s|sk)?\[hidden\] {ending}", text_of(told, index))


def test_what_equals_the_rest_of_a_key_elsewhere_in_an_event_stays() -> None:
    first = sse({"type": "content_block_delta", "index": 0, "delta": {"text": "sk-an"}})
    rest = {"type": "content_block_delta", "index": 0, "note": KEY[5:], "delta": {"text": KEY[5:]}}
    told = values(passed([first, sse(rest)]))[1]
    assert told == {**rest, "delta": {"text": ""}}


def test_what_ends_as_a_key_begins_waits_for_the_next_event_and_no_longer() -> None:
    stream = StreamMask(MASK)
    held = messages("a task-".replace("task-", "risk-"))
    assert stream.push(held) == b""
    assert stream.waits
    ping = noise(messages)["ping"]
    assert stream.push(ping) == b""
    going_on = messages("based")
    assert stream.push(going_on) == held + ping + going_on
    assert not stream.waits


def test_the_end_of_a_block_ends_the_wait() -> None:
    stream = StreamMask(MASK)
    held, end = messages("50%", 1), sse({"type": "content_block_stop", "index": 1})
    assert stream.push(held) == b""
    other = sse({"type": "content_block_stop", "index": 0})
    assert stream.push(other) == b""
    assert stream.push(end) == held + other + end


@pytest.mark.parametrize("client", ["messages", "responses"])
def test_a_key_cut_over_two_blocks(client: str) -> None:
    write = WRITERS[client]
    ends = {
        "messages": sse({"type": "content_block_stop", "index": 0}),
        "responses": sse({"type": "response.output_item.done", "output_index": 0}),
    }
    for cut in range(1, len(KEY)):
        events = [write(f"a {KEY[:cut]}"), ends[client], write(f"{KEY[cut:]} z", 2)]
        told = passed(events)
        assert re.fullmatch(r"a (s|sk)?\[hidden\] z", text_of(told) + text_of(told, 2))
    assert passed([write("a sk-"), ends[client], write("an", 2), write("t-b", 2)]) == b"".join(
        [write("a sk-"), ends[client], write("an", 2), write("t-b", 2)]
    )


def test_an_upstream_that_says_nothing_more_of_a_text_holds_little() -> None:
    stream = StreamMask(MASK)
    events = [chat("sk-"), *[chat("x", 1)] * 200]
    told = b"".join(map(stream.push, events))
    assert told == b"".join(events)


@pytest.mark.parametrize("between", [0, 5])
def test_a_key_whose_every_character_is_escaped_byte_by_byte(between: int) -> None:
    """With its bytes one by one, or put together with empty events between."""
    key = "sk-" + "0123456789abcdef" * 4
    units = [f"\\u{ord(character):04x}" for character in key]
    pieces = units if between else list("".join(units))
    events = [event for piece in pieces for event in (*[chat("")] * between, chat(piece))]
    assert text_of(passed(events, Mask([key]))) == "[hidden]"


def test_flush_lets_go_of_what_waits() -> None:
    stream = StreamMask(MASK)
    assert stream.push(chat("sk-ant")) == b""
    assert stream.flush() == chat("sk-ant")
    assert stream.flush() == b""


def test_a_key_with_characters_that_json_escapes() -> None:
    key = 'q"/x\\y/"z=='
    for slash in (b"/", b"\\/"):
        for cut in range(1, len(key)):
            events = [messages(f"a {key[:cut]}"), messages(f"{key[cut:]} z")]
            said = text_of(passed([event.replace(b"/", slash) for event in events], Mask([key])))
            assert re.fullmatch(r'a (q|q")?\[hidden\] z', said), (cut, said)


def test_long_keys_and_long_events_are_no_trouble() -> None:
    key = "sk-proj-" + "aB3" * 600
    mask = Mask([key])
    for cut in (1, 5, 100, len(key) - 1):
        said = text_of(passed([chat(f"a {key[:cut]}"), chat(f"{key[cut:]} z")], mask))
        assert re.fullmatch(r"a (s|sk)?\[hidden\] z", said)
    for large in ("\\" * 100_000, "%25" * 50_000, "%2" * 50_000, "sk-" * 50_000, "-" * 100_000):
        assert passed([chat(large)]) == chat(large)
        assert passed([chat(large[:50_000] + "sk-")]) == chat(large[:50_000] + "sk-")


def test_objects_within_each_other_are_no_trouble() -> None:
    deep = b'data: {"content":"sk-","a":' + b'{"a":' * 5_000 + b'"sk-"' + b"}" * 5_001 + b"\n\n"
    assert passed([deep, deep]) == deep * 2


ALPHABET = st.sampled_from([*'sk-ant%25d\\u00qQ" \n', "sk-", "%2d", "\\u002d", "-ant", KEY[:5]])
TEXTS = st.lists(st.lists(ALPHABET, max_size=6).map("".join), max_size=12)
NOISE = st.sampled_from(["nothing", "ping", "comment", "empty", "another"])


@given(TEXTS, st.lists(NOISE, max_size=12), st.sampled_from(sorted(WRITERS)), st.data())
def test_without_a_key_no_byte_is_changed(
    texts: list[str], between: list[str], client: str, data: st.DataObject
) -> None:
    write = WRITERS[client]
    events = [write(text) for text in texts]
    for name in between:
        at = data.draw(st.integers(0, len(events)))
        events.insert(at, noise(write)[name])
    assert passed([event for event in events if event]) == b"".join(events)


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_what_is_no_json_is_not_changed(junk: list[bytes]) -> None:
    events = [b"data: " + one.replace(b"\n", b"") + b"\n\n" for one in junk]
    assert passed(events) == b"".join(events)


@given(TEXTS, TEXTS, st.lists(st.integers(1, 60), max_size=5), st.sampled_from(sorted(WRITERS)))
def test_the_text_around_a_key_stays(
    before: list[str], after: list[str], cuts: list[int], client: str
) -> None:
    write = WRITERS[client]
    first, last = "".join(before) + "|", "|" + "".join(after)
    whole = first + KEY + last
    places = sorted({cut for cut in cuts if cut < len(whole)})
    parts = [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]
    said = text_of(passed([write(part) for part in parts]))
    assert no_key(said.removeprefix(first).removesuffix(last))
    assert said.startswith(first)
    assert said.endswith(last)
    assert "[hidden]" in said


def test_a_long_key_that_comes_character_by_character() -> None:
    """With an event between each two that holds nothing of it."""
    key = "sk-proj-" + "aB3x" * 39
    events = [messages("a ")]
    for character in key:
        events += [messages(character), b": ping\n\n"]
    said = passed([*events, messages(" z")], Mask([key]))
    assert text_of(said).endswith("[hidden] z")
    assert key[2:] not in text_of(said)
