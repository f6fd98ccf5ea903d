"""The settings that give the MCP servers to everybody's agents. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.config.mcp import PATH, McpServer


def claude_code_settings(
    servers: Iterable[McpServer], team: str, public_url: str
) -> dict[str, Any]:
    """The managed settings of Claude Code for the members of a team: the servers that they may
    use, at which the program signs in by itself. Empty if there is none."""
    base = public_url.rstrip("/")
    found = {
        server.name: {"type": "http", "url": f"{base}{PATH}{server.name}"}
        for server in servers
        if server.tools_of(team)
    }
    return {"managedMcpServers": found} if found else {}
