"""An MCP server over streamable HTTP with resumable streams, made with the official SDK, on the
port of its argument. It runs in the agents' virtual environment.
"""

import sys
from typing import Any

from mcp.server import MCPServer  # type: ignore[import-not-found]  # not of this environment
from mcp.server.mcpserver import Context  # type: ignore[import-not-found]
from mcp.server.streamable_http import EventStore  # type: ignore[import-not-found]

server = MCPServer("tickets")


class Events(EventStore):  # type: ignore[misc]
    """All events, in memory."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        after = int(last_event_id)
        if not 0 < after <= len(self.events):
            return None
        stream = self.events[after - 1][0]
        for number, (owner, message) in enumerate(self.events[after:], after + 1):
            if owner == stream and message is not None:
                from mcp.server.streamable_http import EventMessage

                await send_callback(EventMessage(message, str(number)))
        return stream


@server.tool()  # type: ignore[untyped-decorator]
async def count_tickets(queue: str, context: Context) -> str:
    """Counts the open tickets of a queue, and reports progress."""
    await context.report_progress(1, 2, "half")
    return f"{len(queue)} tickets in {queue}"


@server.tool()  # type: ignore[untyped-decorator]
async def count_slowly(context: Context) -> str:
    """Breaks its stream off, to be resumed."""
    await context.close_sse_stream()
    return "resumed"


@server.tool()  # type: ignore[untyped-decorator]
def delete_tickets() -> str:
    """Deletes all tickets."""
    raise RuntimeError("nobody may call this")


server.run("streamable-http", port=int(sys.argv[1]), event_store=Events(), retry_interval=50)
