"""A configuration over the simulator, and the command line run on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.cli import main
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator

STORE_KEY = "the store's key for tests"
ADMIN_TOKEN = "the-token-of-the-admin"

CONFIG = """
[server]
port = {port}
workers = {workers}
shutdown_grace_s = 3

[storage]
key = "env:STORE_KEY"
sync_s = 0.05

[admin]
key = "{token}"

[[upstreams]]
name = "chat"
protocol = "openai_chat"
base_url = "{base_url}"
models = ["sim-text"]

[[upstreams]]
name = "messages"
protocol = "anthropic_messages"
base_url = "{base_url}"

[[accounts]]
name = "fixed"
upstream = "chat"
key = "sk-sim-fixed"

[[routes]]
match = "sim-*"
upstream = "chat"
"""


@pytest.fixture(scope="session")
def simulator() -> Iterator[RunningSimulator]:
    """A simulator that all tests share; each uses keys of its own."""
    with running_simulator() as running:
        yield running


class Shop:
    """A configuration file in a folder of its own."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder = folder
        self.file = folder / "dragoman.toml"
        self._base_url = base_url
        self.configure()

    def configure(self, port: int = 0, workers: int = 1) -> None:
        """Write the configuration."""
        text = CONFIG.format(port=port, workers=workers, base_url=self._base_url, token=ADMIN_TOKEN)
        self.file.write_text(text)

    def run(self, *arguments: str, given: str | bytes = "", status: int = 0) -> Result:
        """Run `dragoman ARGUMENTS --config FILE`; the status is what is expected."""
        runner = CliRunner(env={"STORE_KEY": STORE_KEY})
        result = runner.invoke(main, [*arguments, "--config", str(self.file)], input=given)
        assert result.exit_code == status, result.output
        return result

    def bytes_of_store(self) -> bytes:
        """All that is in the store's files."""
        files = [*self.folder.glob("dragoman.db*"), *self.folder.glob("dragoman.db*/*")]
        return b"".join(path.read_bytes() for path in files if path.is_file())


@pytest.fixture
def shop(tmp_path: Path, simulator: RunningSimulator) -> Shop:
    """A configuration of one test."""
    return Shop(tmp_path, simulator.base_url)
