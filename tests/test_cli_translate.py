"""`dragoman translate`: a file or a pipe in, the other protocol out."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dragoman import cli
from dragoman.canonical.losses import Policy
from dragoman.cli.translate import POLICIES
from dragoman.protocols import CODECS

CHAT_REQUEST = {
    "model": "gpt-5.5",
    "messages": [{"role": "user", "content": "Grüße"}],
    "seed": 7,
    "n": 1,
}
CHAT_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1767225600,
    "model": "some-model",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hello"},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
TO_MESSAGES = ("--from", "openai_chat", "--to", "anthropic_messages")


def translate(data: object, *arguments: str) -> Result:
    text = data if isinstance(data, str) else json.dumps(data)
    runner = CliRunner(catch_exceptions=False)
    return runner.invoke(cli.main, ["translate", *arguments], input=text)


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600}
    return f"data: {json.dumps({**head, 'model': 'some-model', 'choices': [choice]})}\n\n"


def test_in_a_pipe() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "dragoman", "translate", *TO_MESSAGES],
        capture_output=True,
        check=False,
        encoding="utf-8",
        input=json.dumps(CHAT_REQUEST),
        timeout=30,
    )
    assert result.returncode == 0
    assert json.loads(result.stdout)["messages"][0]["role"] == "user"
    assert result.stderr.startswith("lost: seed (knob): ")


def test_a_request_and_what_it_lost() -> None:
    result = translate(CHAT_REQUEST, *TO_MESSAGES, "--model", "claude-x")
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    assert body["model"] == "claude-x"
    assert body["messages"][0]["role"] == "user"
    assert "Grüße" in json.dumps(body["messages"], ensure_ascii=False)
    assert result.stderr.startswith("lost: seed (knob): ")


def test_losses_for_programs() -> None:
    result = translate(CHAT_REQUEST, *TO_MESSAGES, "--losses", "json")
    (lost,) = json.loads(result.stderr)
    assert (lost["path"], lost["kind"]) == ("seed", "knob")
    assert lost["detail"]
    nothing = translate(
        result.stdout, "--from", "anthropic_messages", "--to", "openai_chat", "--losses", "json"
    )
    assert nothing.exit_code == 0
    assert isinstance(json.loads(nothing.stderr), list)


def test_a_request_that_the_policy_refuses() -> None:
    result = translate(CHAT_REQUEST, *TO_MESSAGES, "--policy", "strict")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: seed: ")


def test_a_request_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(CHAT_REQUEST), encoding="utf-8")
    result = translate("", *TO_MESSAGES, "--request", str(file))
    assert json.loads(result.stdout)["model"] == "gpt-5.5"


def test_what_is_not_a_request() -> None:
    result = translate("{", *TO_MESSAGES)
    assert result.exit_code == 1
    assert "JSON" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "model"), [((), "some-model"), (("--model", "mine"), "mine")]
)
def test_an_answer_names_the_model(arguments: tuple[str, ...], model: str) -> None:
    result = translate(CHAT_ANSWER, *TO_MESSAGES, "--response", *arguments)
    assert result.exit_code == 0, result.stderr
    body = json.loads(result.stdout)
    assert body["type"] == "message"
    assert body["model"] == model
    assert body["content"] == [{"type": "text", "text": "hello"}]
    assert body["stop_reason"] == "end_turn"


def test_an_answer_to_a_known_request(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    request = {
        "model": "mine",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    }
    file.write_text(json.dumps(request))
    result = translate(CHAT_ANSWER, *TO_MESSAGES, "--response", "--for", str(file))
    assert json.loads(result.stdout)["model"] == "mine"


def test_a_stream() -> None:
    stream = chunk({"role": "assistant", "content": "hel"}) + chunk({"content": "lo"})
    stream += chunk({}, "stop") + "data: [DONE]\n\n"
    result = translate(stream, *TO_MESSAGES, "--stream")
    assert result.exit_code == 0, result.stderr
    events = [
        json.loads(line[6:]) for line in result.stdout.splitlines() if line.startswith("data: ")
    ]
    assert events[0]["type"] == "message_start"
    assert events[0]["message"]["model"] == "some-model"
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == "hello"
    assert events[-1]["type"] == "message_stop"


def test_a_stream_that_is_cut_off_ends_in_an_error() -> None:
    result = translate(chunk({"role": "assistant", "content": "hel"}), *TO_MESSAGES, "--stream")
    assert result.exit_code == 1
    assert "event: error\n" in result.stdout
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize(("source", "target"), list(product(CODECS, repeat=2)))
def test_every_pair_translates_there_and_back(source: str, target: str) -> None:
    """An answer of any protocol becomes one of any other, and the text survives the way back."""
    arguments = ("--from", "openai_chat", "--to", source, "--response")
    first = translate(CHAT_ANSWER, *arguments)
    there = translate(first.stdout, "--from", source, "--to", target, "--response")
    back = translate(there.stdout, "--from", target, "--to", "openai_chat", "--response")
    assert back.exit_code == 0, back.stderr
    answer = json.loads(back.stdout)
    assert answer["choices"][0]["message"]["content"] == "hello"
    assert answer["model"] == "some-model"
    assert answer["usage"]["total_tokens"] == 5


def test_the_choices_are_those_of_the_library() -> None:
    assert tuple(policy.value for policy in Policy) == POLICIES
