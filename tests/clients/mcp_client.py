"""A client of an MCP server, made with the official SDK: with the URL and the key of its arguments
it begins a session, lists and calls tools, ends the session, and prints what it saw as JSON. It
runs in the agents' virtual environment.
"""

import asyncio
import json
import sys
from typing import Any

import httpx2
from mcp import (  # type: ignore[import-not-found]  # not of this environment
    Client,
    ClientSession,
)
from mcp.client.streamable_http import streamable_http_client  # type: ignore[import-not-found]


def _text(result: Any) -> str:
    return str(result.content[0].text)


async def _tools(session: Any) -> dict[str, Any]:
    progress = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    listed = await session.list_tools()
    counted = await session.call_tool(
        "count_tickets", {"queue": "mail"}, progress_callback=on_progress
    )
    found = {"tools": sorted(tool.name for tool in listed.tools), "counted": _text(counted)}
    try:
        refused = await session.call_tool("delete_tickets", {})
        found["refused"] = _text(refused)
    except Exception as error:
        found["refused"] = str(error)
    return {**found, "progress": progress}


async def _with_session(url: str, http: Any) -> dict[str, Any]:
    async with (
        streamable_http_client(url, http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        begun = await session.initialize()
        found = await _tools(session)
        found["resumed"] = _text(await session.call_tool("count_slowly", {}))
        await session.send_ping()
        return {**found, "server": begun.server_info.name, "version": begun.protocol_version}


async def _main(url: str, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"}
    sessions: list[str] = []

    async def seen(response: Any) -> None:
        sessions.append(response.headers.get("mcp-session-id", ""))

    async with httpx2.AsyncClient(
        headers=headers, timeout=60, event_hooks={"response": [seen]}
    ) as http:
        found: dict[str, Any] = {"session": await _with_session(url, http)}
        [id] = {session for session in sessions if session}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        own = {"mcp-session-id": id, "accept": "application/json, text/event-stream"}
        found["after"] = (await http.post(url, json=ping, headers=own)).status_code
        async with Client(streamable_http_client(url, http_client=http)) as client:
            found["newest"] = {**await _tools(client), "version": client.protocol_version}
    sys.stdout.write(json.dumps(found))


asyncio.run(_main(*sys.argv[1:]))
