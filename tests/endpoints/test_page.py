"""The pages about other endpoints, as they are pasted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.config import parse_config, read_config
from dragoman.endpoints.table import PATHS, ROWS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway

PAGES = {
    name: (Path(__file__).parents[2] / f"docs/{name}.md").read_text()
    for name in ("endpoints", "files", "realtime")
}
PAGE = PAGES["endpoints"]


def blocks(page: str, language: str) -> list[str]:
    tried = PAGES[page].partition("## Try it")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", tried, re.DOTALL)


def tried(page: str, simulator: RunningSimulator, folder: Path) -> tuple[str, int]:
    """What the commands and the program of a page show, and how many calls of `curl` there are."""
    (config,) = blocks(page, "toml")
    script = "".join(blocks(page, "sh")).replace("curl ", "curl --fail --silent --show-error ")
    (folder / "dragoman.toml").write_text(config.replace(":8099", f":{simulator.port}"))
    shown = ""
    with running_gateway(read_config(folder / "dragoman.toml")) as gateway:
        for command, text in (
            (["sh", "-e", "-c"], script),
            ([sys.executable, "-c"], "".join(blocks(page, "python"))),
        ):
            done = subprocess.run(
                [*command, text.replace(":8080", f":{gateway.port}")],
                cwd=folder,
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr.decode()
            shown += done.stdout.decode()
    return shown, script.count("curl ")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_request_of_the_page_is_answered(simulator: RunningSimulator, tmp_path: Path) -> None:
    shown, calls = tried("endpoints", simulator, tmp_path)
    first, _ = json.JSONDecoder().raw_decode(shown)
    assert [len(one["embedding"]) for one in first["data"]] == [8, 8]
    for part in ('"index":1', "data: [DONE]", "image_generation.completed", '"flagged":false'):
        assert part in shown
    assert (tmp_path / "hello.mp3").stat().st_size == len("Hello")
    assert len({request.path for request in simulator.requests}) == calls


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_files_and_a_batch_of_the_page(simulator: RunningSimulator, tmp_path: Path) -> None:
    shown, _ = tried("files", simulator, tmp_path)
    assert shown.count('"notes.txt"') == 2, "as it is made, and in the list"
    assert '"custom_id": "one"' in shown


def test_the_session_of_the_page(simulator: RunningSimulator, tmp_path: Path) -> None:
    shown, _ = tried("realtime", simulator, tmp_path)
    assert re.fullmatch(r"This is said aloud\. \d+\n", shown)


def test_the_page_names_every_endpoint_with_a_held_body() -> None:
    for row in ROWS:
        if row.way == "held":
            path = row.path.replace("{model}", "MODEL")
            assert path in PAGE or f"`:{path.rpartition(':')[2]}`" in PAGE, path
    assert PATHS.keys() >= {"/v1/embeddings"}


def test_all_that_is_to_be_pasted_is_a_configuration() -> None:
    for page in PAGES.values():
        for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL):
            parse_config(text)
