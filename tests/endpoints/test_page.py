"""The page about other endpoints, as it is pasted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.config import parse_config
from dragoman.endpoints.table import PATHS, ROWS
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway

PAGE = (Path(__file__).parents[2] / "docs/endpoints.md").read_text()
TRY_IT = PAGE.partition("## Try it")[2].partition("\n## ")[0]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TRY_IT, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_request_of_the_page_is_answered(simulator: RunningSimulator, tmp_path: Path) -> None:
    config = parse_config(block("toml").replace(":8099", f":{simulator.port}"))
    with running_gateway(config) as gateway:
        script = block("sh").replace("curl ", "curl --fail --silent --show-error ")
        done = subprocess.run(
            ["sh", "-e", "-c", script.replace(":8080", f":{gateway.port}")],
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    shown = done.stdout.decode()
    first, _ = json.JSONDecoder().raw_decode(shown)
    assert [len(one["embedding"]) for one in first["data"]] == [8, 8]
    for part in ('"index":1', "data: [DONE]", "image_generation.completed", '"flagged":false'):
        assert part in shown
    assert (tmp_path / "hello.mp3").stat().st_size == len("Hello")
    tried = {request.path for request in simulator.requests}
    assert len(tried) == script.count("curl ")


def test_the_page_names_every_endpoint_with_a_held_body() -> None:
    for row in ROWS:
        if row.way == "held":
            path = row.path.replace("{model}", "MODEL")
            assert path in PAGE or f"`:{path.rpartition(':')[2]}`" in PAGE, path
    assert PATHS.keys() >= {"/v1/embeddings"}


def test_all_that_is_to_be_pasted_is_a_configuration() -> None:
    for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        parse_config(text)
