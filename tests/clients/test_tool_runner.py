"""anthropic-python's tool_runner asks for conversations that the server keeps, and goes on with
whole histories where it is told that there are none."""

from __future__ import annotations

from pathlib import Path

import anthropic

from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.programs import KEY
from tests.clients.reading import called
from tests.clients.stage import Stage, playing


@anthropic.beta_tool
def write_file(path: str, content: str) -> str:
    """Write a text file.

    Args:
        path: where.
        content: what.
    """
    Path(path).write_text(content)
    return f"wrote {len(content)} characters"


def test_a_tool_runner_completes_its_loop(stage: Stage, tmp_path: Path) -> None:
    complete_a_loop(stage, tmp_path)

    assert stage.tap.heard[0].json["thread"] == {"type": "create"}


def test_no_account_of_several_holds_a_conversation(
    simulator: RunningSimulator, tmp_path: Path
) -> None:
    """What goes on with one may go to another account."""
    with playing("messages", simulator, accounts=2) as stage:
        complete_a_loop(stage, tmp_path)

    assert all("thread" not in request.json for request in simulator.requests)


def complete_a_loop(stage: Stage, tmp_path: Path) -> None:
    stage.forget()
    target = tmp_path / "notes.txt"
    steering = f'[[sim: scenario=agent path={target} content="a line" text="Done." calls=2]]'
    with anthropic.Anthropic(base_url=stage.url, api_key=KEY, max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="some-model",
            max_tokens=4096,
            tools=[write_file],
            messages=[{"role": "user", "content": f"Write it. {steering}"}],
        )
        final = runner.until_done()

    assert [block.text for block in final.content if block.type == "text"][-1].startswith("Done.")
    assert target.read_text() == (tmp_path / "notes-2.txt").read_text() == "a line"
    last = stage.simulator.last
    assert [call.result for call in called(last.json)] == ["wrote 6 characters"] * 2
