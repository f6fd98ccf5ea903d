"""The real Claude Code and Codex take over the models and settings that the gateway gives them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.agents.claude_code import mcp_settings
from dragoman.config import Client, Models, OwnPrice, Route, Secret, Telemetry
from dragoman.config.access_rules import SignInRule
from dragoman.lab.provider import Provider, serving
from dragoman.lab.simulator.testing import RunningSimulator
from dragoman.protocols.settings import make_capabilities
from dragoman.server.testing import running_gateway
from tests.clients.installed import node, package
from tests.clients.programs import usual_environment
from tests.clients.signed_in import ClaudeCode, logged
from tests.clients.terminal import ENTER, ESCAPE, terminal
from tests.gateway.conftest import config_for
from tests.gateway.http import KEY
from tests.people.signing_in import ADA, BOB, LOGGED, PEOPLE, House, config
from tests.upstream.servers import free_port

ROUTES = (
    Route(
        match="small",
        upstream="chat",
        model="sim-text",
        label="House small",
        description="Quick and cheap.",
        capabilities=make_capabilities(context_window=64_000),
    ),
    Route(match="large", upstream="messages", model="sim-text", label="House large"),
)
LISTED = 1_000_000
"""The window of its models that the simulator lists."""
RULES = (
    SignInRule(groups=("engineers",), managed_settings={"model": "large"}),
    SignInRule(domains=("example.com",), models=("small",)),
)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(PEOPLE) as running:
        yield running


@pytest.mark.slow
def test_claude_code_has_the_models_and_prices_of_its_person(
    simulator: RunningSimulator, provider: Provider, tmp_path: Path
) -> None:
    """The picker has the routes that the person may use; a second start gets 304; the cost that it
    shows is that of the gateway; its telemetry comes here; and nothing that it asks for by itself
    is refused. MCP servers are there in the form in which the gateway writes its own."""
    LOGGED.clear()
    port = free_port()
    made = replace(
        config(
            simulator.base_url,
            tmp_path / "store.db",
            provider,
            public_url=f"http://127.0.0.1:{port}",
            rules=RULES,
        ),
        routes=ROUTES,
        models=Models(aliases={"claude-*haiku*": "small"}),
        prices=(OwnPrice(model="sim-text", input="3", output="15", cached="0.3"),),
        managed_settings={
            **mcp_settings({"tickets": "https://127.0.0.1:1/mcp/tickets"}),
            "permissions": {"deny": ["WebFetch"]},
        },
        telemetry=Telemetry(forward_to=Secret("http://127.0.0.1:1")),
    )
    with running_gateway(made, LOGGED.append, port) as running:
        home = House(provider, running.base_url, f"http://127.0.0.1:{port}", gateway=running)
        (tmp_path / "ada").mkdir()
        (tmp_path / "bob").mkdir()
        ada = ClaudeCode(tmp_path / "ada", home.url)
        ada.sign_in(home, ADA)
        asked = len(logged("POST /v1/messages"))
        done = ada.run("-p", "Say something.", "--output-format", "json")
        assert done.returncode == 0, done.stdout + done.stderr
        lines = logged("POST /v1/messages")[asked:]
        assert {line["model"] for line in lines} <= {"large", "claude-haiku-4-5-20251001"}
        cost = sum(Decimal(line["cost_usd"]) for line in lines)
        assert Decimal(str(json.loads(done.stdout)["total_cost_usd"])) == pytest.approx(cost)
        assert {line["status"] for line in logged("POST /v1/metrics")} == {200}
        ada.begun_before()
        with terminal(ada.words, ada.work, ada.environment) as shown:
            shown.until("send telemetry to the destination.*I trust these settings")
            shown.press(ENTER)
            shown.until("House large")
            shown.press("/model", ENTER)
            rows = shown.until(r"Select model.*House large.*Enter to save")[0]
            assert re.search(r"1\. Default .*2\. House small Quick.*3\. House large", rows)
            assert "4. " not in rows
            shown.press(ESCAPE)
            shown.until("Kept model as House large")
            shown.press("/mcp", ENTER)
            shown.until("tickets")
        assert {line["status"] for line in logged("GET /managed/settings")} == {200}
        assert ada.run("-p", "Say something.").returncode == 0
        assert logged("GET /managed/settings")[-1]["status"] == 304, "its checksum is ours"
        assert [line for line in logged("POST /v1/messages") if line["status"] >= 400] == []

        bob = ClaudeCode(tmp_path / "bob", home.url)
        bob.sign_in(home, BOB)
        done = bob.run("-p", "Say something.")
        assert done.returncode == 0, done.stdout + done.stderr
        assert {one["model"] for one in logged("POST /v1/messages") if one["client"] == BOB} <= {
            "small",
            "claude-haiku-4-5-20251001",
        }
        assert [line for line in logged("POST /v1/messages") if line["status"] >= 400] == []


@pytest.mark.slow
def test_codex_knows_the_models_of_its_key(simulator: RunningSimulator, tmp_path: Path) -> None:
    """Its catalogue has the routes that the key may use, with the windows that are known."""
    key = Client(name="tester", key=Secret(KEY), models=("small", "large"))
    made = replace(config_for(simulator.base_url, routes=ROUTES), clients=(key,))
    with running_gateway(made) as running:
        text = f"""
model = "small"
model_provider = "house"
check_for_update_on_startup = false
[model_providers.house]
name = "House"
base_url = "{running.base_url}/v1"
wire_api = "responses"
env_key = "HOUSE_KEY"
model_catalog_url = "{running.base_url}/v1/models"
"""
        (tmp_path / "config.toml").write_text(text)
        environment = {
            **usual_environment(tmp_path),
            "CODEX_HOME": str(tmp_path),
            "HOUSE_KEY": KEY,
        }

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [node(), str(package("@openai/codex", "bin/codex.js")), *words],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
            )

        shown = run("debug", "models")
        assert shown.returncode == 0, shown.stderr
        found = {one["slug"]: one for one in json.loads(shown.stdout)["models"]}
        assert set(found) == {"small", "large"}
        assert found["small"]["context_window"] == 64_000
        assert found["large"]["context_window"] == LISTED, "as the upstream lists it"
        done = run("exec", "--skip-git-repo-check", "Say something.")
        assert done.returncode == 0, done.stderr
        assert "metadata" not in done.stderr
        (rollout,) = (tmp_path / "sessions").rglob("rollout-*.jsonl")
        believed = set(re.findall(r'"model_context_window":\s*(\d+)', rollout.read_text()))
        assert believed == {str(64_000 * 95 // 100)}, "it keeps a twentieth free"
        assert "failed to decode" not in done.stderr
        sent = simulator.requests[-1].json
        assert "apply_patch" in [tool["function"]["name"] for tool in sent["tools"]]
        assert "reasoning_effort" not in sent, "nobody chose one"
