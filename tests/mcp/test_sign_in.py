"""People sign in to MCP servers: clients find the gateway's sign-in, and register themselves."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from dragoman.config import Config
from dragoman.config.mcp import McpServer
from dragoman.lab.provider import Provider, serving
from dragoman.server.testing import running_gateway
from tests.clients.installed import FOLDER, VENV_PYTHON, missing
from tests.gateway.http import Answer, call
from tests.mcp.stub import Stub
from tests.people.signing_in import ADA, PEOPLE, House, config
from tests.upstream.servers import free_port

PATH = "/mcp/tickets"
URI = "http://localhost:3118/callback"


def _config(stub: Stub, provider: Provider, store: Path, port: int) -> Config:
    made = config("http://127.0.0.1:9", store, provider, public_url=f"http://127.0.0.1:{port}")
    teams: dict[str, tuple[str, ...]] = {"eng": ("*",)}
    return replace(
        made, mcp_servers=(McpServer(name="tickets", url=stub.url, tools=(), teams=teams),)
    )


def _register(url: str, *uris: str) -> Answer:
    return call(url, "POST", "/oauth/register", {"redirect_uris": list(uris)}, key=None)


def test_the_sdk_s_client_finds_the_sign_in_by_itself(stub: Stub, tmp_path: Path) -> None:
    if not VENV_PYTHON.exists():
        missing("the Python package mcp")
    port = free_port()
    with (
        serving(PEOPLE) as provider,
        running_gateway(_config(stub, provider, tmp_path / "s.db", port), port=port) as gateway,
    ):
        address = gateway.base_url
        home = House(provider, address, address, gateway=gateway)
        unknown = call(home.url, "POST", PATH, {"id": 1, "method": "ping"}, key=None)
        metadata = f"{home.url}/.well-known/oauth-protected-resource{PATH}"
        assert unknown.status == 401
        assert unknown.headers["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'
        assert call(home.url, "GET", urlsplit(metadata).path, key=None).json == {
            "resource": f"{home.url}{PATH}",
            "authorization_servers": [home.url],
            "bearer_methods_supported": ["header"],
        }
        assert _register(home.url, "https://elsewhere.example/callback").status == 400
        assert _register(home.url).status == 400

        command = [str(VENV_PYTHON), "-I", str(FOLDER / "mcp_sign_in.py"), f"{home.url}{PATH}"]
        with subprocess.Popen(
            [*command, URI], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            ending = threading.Timer(60, program.kill)
            ending.start()
            opened = urlsplit(program.stdout.readline().strip())
            assert opened.path == "/oauth/authorize"
            browser = home.browser()
            shown = browser.sign_in(browser.get(f"{opened.path}?{opened.query}"), ADA)
            assert shown.status == 200
            assert "calls MCP servers" in browser.page
            sent = browser.submit("/oauth/approve", {"decision": "approve"})
            program.stdin.write(sent.headers["location"] + "\n")
            program.stdin.flush()
            found = json.loads(program.stdout.readline())
            ending.cancel()
        assert found["tools"] == ["search_tickets", "get_ticket", "delete_ticket"]
        assert "authorization" not in stub.received[-1].headers
        assert home.admin("GET", "/sessions").json["sessions"][0]["client"] == "mcp"
