"""The page on people, as it is pasted."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from dragoman.config import read_config
from dragoman.lab.provider import serving
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.server.testing import running_gateway
from tests.people.signing_in import ADA, BOB, PEOPLE, House, ask
from tests.upstream.servers import free_port

PAGE = (Path(__file__).parents[2] / "docs/people.md").read_text()


def test_two_people_have_different_rights(simulator: RunningSimulator, tmp_path: Path) -> None:
    text = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    port = free_port()
    file = tmp_path / "dragoman.toml"
    with serving(PEOPLE) as provider:
        for written, found in (
            ("http://127.0.0.1:9000", provider.url),
            ("http://127.0.0.1:9100", simulator.base_url),
            ("127.0.0.1:8080", f"127.0.0.1:{port}"),
        ):
            assert written in text
            text = text.replace(written, found)
        file.write_text(text)
        loaded = read_config(file)
        assert not loaded.warnings
        with running_gateway(loaded.config, port=port) as running:
            public = f"http://127.0.0.1:{port}"
            home = House(provider, running.base_url, public, gateway=running)
            ada, bob = (home.session(one)["access_token"] for one in (ADA, BOB))
            assert ask(home.url, ada, "large").status == 200
            assert ask(home.url, bob, "small").status == 200
            assert ask(home.url, bob, "large").status == 404


def test_the_settings_of_codex_are_toml() -> None:
    found = tomllib.loads(re.findall(r"```toml\n(model_provider.*?)```", PAGE, re.DOTALL)[0])
    assert found["model_providers"]["house"]["gateway_oauth"]["client_id"] == "codex"
