"""Real programs complete a tool loop on every kind of upstream, and nothing is lost unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.accounting import leaves, told, unaccounted
from tests.clients.asking import CONTENT, SAID, TITLED, TORN, ask
from tests.clients.programs import PROGRAMS
from tests.clients.reading import called, instructions, offered
from tests.clients.stage import UPSTREAMS, Exchange, Stage, taking_turns

BILLING = "x-anthropic-billing-header"


CASES = [
    ("claude-code", "claude-sonnet-5"),
    ("claude-code", "some-model"),
    ("codex", "gpt-5.5"),
    ("codex", "gpt-6-sol"),
    ("codex", "some-model"),
    ("ai-sdk-chat", "gpt-5.5"),
    ("ai-sdk-compatible", "some-model"),
    ("ai-sdk-responses", "gpt-5.5"),
    ("ai-sdk-anthropic", "claude-sonnet-5"),
]
"""Of each protocol one or more that start soon, before each upstream."""
SLOW = (
    ("messages", "openai-agents-chat", "some-model"),
    ("chat", "openai-agents-responses", "some-model"),
    ("responses", "pi-chat", "some-model"),
    ("chat", "pi-messages", "some-model"),
    ("messages", "pi-responses", "some-model"),
    ("messages", "opencode-chat", "some-model"),
    ("responses", "opencode-messages", "some-model"),
    ("chat", "opencode-responses", "some-model"),
)
"""Programs that take seconds of a processor to start: each of their protocols before one upstream.
Their recorded requests are translated for every upstream (`test_recordings.py`)."""
REASONING = {program for program, _ in CASES} | {"openai-agents-chat", "openai-agents-responses"}
"""Those that were told that the model thinks."""
ONE_BY_ONE = [("codex", "gpt-6-sol")]
"""Programs that forbid a model to make several calls at once."""


@pytest.mark.parametrize(
    ("stage", "program", "model"),
    [(kind, program, model) for kind in UPSTREAMS for program, model in CASES],
    indirect=["stage"],
)
def test_a_program_writes_a_file(stage: Stage, program: str, model: str, tmp_path: Path) -> None:
    """The file is there, the final text is shown, and what the client sent has arrived."""
    check_loop(stage, program, model, tmp_path)


@pytest.mark.parametrize(("stage", "program", "model"), SLOW, indirect=["stage"])
def test_a_slow_program_writes_a_file(
    stage: Stage, program: str, model: str, tmp_path: Path
) -> None:
    """The same; and those that are agents ask again after their first answer, which breaks off."""
    asks_again = not program.startswith("openai-agents")
    check_loop(stage, program, model, tmp_path, torn=asks_again)


def check_loop(stage: Stage, program: str, model: str, folder: Path, *, torn: bool = False) -> None:
    """Run a program on one file; `torn` if its first answer breaks off in the middle of a
    thought."""
    target = folder / "work" / "notes.txt"
    prompt = ask(target, *(TORN if torn else ()))

    finished = stage.run(program, model, prompt, folder, arguments=TITLED.get(program, ()))

    assert finished.status == 0, finished
    assert target.read_text().rstrip("\n") == CONTENT
    assert SAID in finished.output, finished
    *broken, first, second = working(stage)
    assert len(broken) == torn
    for exchange in (*broken, first, second):
        assert unaccounted(exchange.sent, exchange.received, exchange.losses) == []
        check_tools(exchange)
        check_instructions(exchange)
    check_history(second, calls=1)
    if program in REASONING:
        check_reasoning(second, program, stage)


@pytest.mark.parametrize(
    ("stage", "program", "model"),
    [(kind, *case) for kind, case in taking_turns(CASES)],
    indirect=["stage"],
)
def test_a_program_writes_two_files_at_once(
    stage: Stage, program: str, model: str, tmp_path: Path
) -> None:
    """Parallel calls of one turn; where the client forbids them, one after the other."""
    target = tmp_path / "work" / "notes.txt"

    finished = stage.run(program, model, ask(target, "calls=2"), tmp_path)

    assert finished.status == 0, finished
    for path in (target, target.with_name("notes-2.txt")):
        assert path.read_text().rstrip("\n") == CONTENT
    assert SAID in finished.output, finished
    exchanges = working(stage)
    assert len(exchanges) == (3 if (program, model) in ONE_BY_ONE else 2)
    last = exchanges[-1]
    assert unaccounted(last.sent, last.received, last.losses) == []
    check_history(last, calls=2)


def working(stage: Stage) -> list[Exchange]:
    """The requests of the loop itself: without tools, a program asks for a title."""
    return [exchange for exchange in stage.exchanges() if offered(exchange.sent)]


def check_tools(exchange: Exchange) -> None:
    """Every tool that was declared is offered with its schema, or named by the ledger."""
    there = {tool.name: tool for tool in offered(exchange.received)}
    declared = offered(exchange.sent)
    assert declared
    for tool in declared:
        if tool.name not in there:
            assert told(tool.path, exchange.losses), f"{tool.path}: {tool.name} is gone"
            continue
        arrived = there[tool.name]
        assert tool.description in arrived.description
        if tool.schema is not None:
            assert arrived.schema == tool.schema
        elif arrived.schema is not None:  # a free-text tool as a function
            assert list(arrived.schema["properties"]) == ["input"]


def check_instructions(exchange: Exchange) -> None:
    """All instructions arrive as such, or, where they are not first and the upstream takes them at
    the beginning alone, as a reminder in their place. Anthropic's billing text goes to nobody else,
    for its value changes with every request and would spoil the cache of what follows."""
    reminders = [
        value
        for _, value in leaves(exchange.received)
        if isinstance(value, str) and value.startswith("<system-reminder>")
    ]
    sent, arrived = instructions(exchange.sent), "\n".join(instructions(exchange.received))
    assert sent
    for text in sent:
        if text.startswith(BILLING):
            assert "system[0]" in exchange.losses
        else:
            assert text in arrived or any(text in reminder for reminder in reminders)
    assert BILLING.encode() not in exchange.recorded.body


def check_history(exchange: Exchange, calls: int) -> None:
    """The calls of earlier turns stand in the history with what the tools answered."""
    arrived = called(exchange.received)
    assert len(arrived) == calls
    assert all(call.result for call in arrived)
    assert arrived == called(exchange.sent)


def check_reasoning(exchange: Exchange, program: str, stage: Stage) -> None:
    """What the model thought comes back to it where both protocols can say it.

    That it is unaltered is the simulator's to say: it refuses what is not.
    """
    if PROGRAMS[program].protocol != "chat" and stage.kind != "chat":
        sealed = "signature" if stage.kind == "messages" else "encrypted_content"
        assert any(path.endswith(f".{sealed}") for path, _ in leaves(exchange.received))
