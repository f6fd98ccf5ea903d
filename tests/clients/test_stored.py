"""A client that has its answers stored and refers to them, as the AI SDK does if left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.lab.simulator.testing import RunningSimulator
from tests.clients.asking import CONTENT, SAID, THOUGHT, ask
from tests.clients.programs import Api
from tests.clients.reading import called
from tests.clients.stage import playing


@pytest.mark.parametrize("kind", ["chat", "messages"])
def test_what_is_referred_to_is_sent(
    kind: Api, simulator: RunningSimulator, tmp_path: Path
) -> None:
    """The upstream knows nothing of the store: it gets what was said and thought."""
    target = tmp_path / "work" / "notes.txt"
    with playing(kind, simulator, store=tmp_path / "store.db") as stage:
        finished = stage.run("ai-sdk-stored", "gpt-5.5", ask(target), tmp_path)

        assert finished.status == 0, finished
        assert target.read_text() == CONTENT
        assert SAID in finished.output
        last = stage.exchanges()[-1]
    assert [item["type"] for item in last.sent["input"] if "type" in item].count(
        "item_reference"
    ) == 2
    assert len(called(last.received)) == 1
    assert "I write that down." in str(last.received["messages"])
    if kind == "messages":
        assert THOUGHT in str(last.received["messages"])
