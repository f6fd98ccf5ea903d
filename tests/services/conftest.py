"""A simulator that plays clouds, and one gateway over each of their services."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.config import parse_config
from dragoman.lab.simulator.testing import RunningSimulator, running_simulator
from dragoman.server.testing import RunningGateway, running_gateway

CONFIG = """
[server]
port = 0

[[clients]]
name = "tester"
key = "sk-test-client"

[[upstreams]]
name = "bedrock"
protocol = "anthropic_messages"
service = "bedrock_invoke"
base_url = "{base_url}"
[upstreams.capabilities]
stream_above = 100000

[[accounts]]
name = "bedrock-1"
upstream = "bedrock"
key = "bedrock-key"

[[upstreams]]
name = "signed"
protocol = "anthropic_messages"
service = "bedrock_invoke"
inference_profiles = true
base_url = "{base_url}"

[[accounts]]
name = "signed-1"
upstream = "signed"
region = "us-east-1"

[accounts.credentials]
kind = "aws"
access_key_id = "AKIDTEST"
secret_access_key = "wJalrXUtn"
signing_name = "bedrock"

[[upstreams]]
name = "claude"
protocol = "anthropic_messages"
service = "vertex"
base_url = "{base_url}/v1/projects/{{project}}/locations/{{location}}"

[[accounts]]
name = "claude-1"
upstream = "claude"
key = "token"
project = "p-1"
location = "europe-west1"

[[upstreams]]
name = "gemini"
protocol = "google_generate_content"
service = "vertex"
base_url = "{base_url}/v1/projects/p-1/locations/global"

[[accounts]]
name = "gemini-1"
upstream = "gemini"
key = "token"

[[upstreams]]
name = "garden"
protocol = "openai_chat"
service = "vertex"
base_url = "{base_url}/v1beta1/projects/p-1/locations/global"

[[accounts]]
name = "garden-1"
upstream = "garden"
key = "token"

[[upstreams]]
name = "azure"
protocol = "openai_chat"
service = "azure_deployments"
base_url = "{base_url}/openai?api-version=2024-10-21"

[[accounts]]
name = "azure-1"
upstream = "azure"
key = "azure-key"
"""


@pytest.fixture(scope="package")
def _simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as simulator:
        yield simulator


@pytest.fixture(scope="package")
def _gateway(_simulator: RunningSimulator) -> Iterator[RunningGateway]:
    with running_gateway(parse_config(CONFIG.format(base_url=_simulator.base_url))) as gateway:
        yield gateway


@pytest.fixture
def simulator(_simulator: RunningSimulator) -> RunningSimulator:
    """The simulator, with nothing remembered of other tests."""
    _simulator.app.requests.clear()
    _simulator.app.authority.secrets["AKIDTEST"] = "wJalrXUtn"
    return _simulator


@pytest.fixture
def gateway(_gateway: RunningGateway, simulator: RunningSimulator) -> RunningGateway:
    """The gateway, whose accounts are all good."""
    for account in _gateway.app.config.accounts:
        _gateway.app.pool.enable(account.name)
    return _gateway
